//! Sequences of errors: what is served stays true, and the stored state stays usable.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nutfilter_mint::{RefreshThread, Status};

use crate::scripted::{Scripted, is_of, scripted, spent};

const A: &str = "009a1f293253e41e";
const B: &str = "00ad268c4d1f5826";

fn sets(data: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(data.join("sets")).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

#[test]
fn restart_does_not_redate_held_back_empty_set() {
    let (data, mint) = scripted(&[]);
    mint.script().listed = vec![A];
    let mut first = mint.refresher(data.path());
    first.refresh().unwrap();
    assert_eq!(spent(first.service(), A).unwrap().timestamp(), 10);

    // Its first note is in an unreadable row.
    mint.script().bad = vec![A];
    mint.script().now = 20;
    assert!(!first.refresh().unwrap().failures.is_empty());
    let served = spent(first.service(), A).unwrap();
    assert_eq!((served.n(), served.timestamp()), (0, 10));
    drop(first);

    mint.script().now = 30;
    let mut second = mint.refresher(data.path());
    assert!(second.restore());
    assert_eq!(spent(second.service(), A).unwrap().timestamp(), 10);
    second.refresh().unwrap();
    assert_eq!(spent(second.service(), A).unwrap().timestamp(), 10);
    mint.script().bad.clear();
    second.refresh().unwrap();
    assert_eq!(spent(second.service(), A).unwrap().timestamp(), 30);
}

#[test]
fn removed_data_directory_is_created_at_next_refresh() {
    for part in ["", "sets", "nutfilter-data.lock"] {
        let (place, mint) = scripted(&[(A, 1), (A, 2)]);
        let data = place.path().join("data");
        mint.script().listed = vec![A, B];
        let mut first = mint.refresher(&data);
        first.refresh().unwrap();
        match part {
            "nutfilter-data.lock" => fs::remove_file(data.join(part)).unwrap(),
            _ => fs::remove_dir_all(data.join(part)).unwrap(),
        }
        mint.script().now = 20;
        mint.script().notes.push((A, 3));
        let report = first.refresh().unwrap();
        assert!(report.failures.is_empty(), "{part}: {:?}", report.failures);
        assert!(is_of(&spent(first.service(), A).unwrap(), [1, 2, 3]));
        assert_eq!(first.service().status(), Status::Ok);
        mint.script().notes.push((B, 4));
        let report = first.refresh().unwrap();
        assert!(report.readings.iter().all(|reading| !reading.whole));
        drop(first);

        let mut second = mint.refresher(&data);
        assert!(second.restore(), "{part}");
        assert!(is_of(&spent(second.service(), A).unwrap(), [1, 2, 3]));
        assert!(is_of(&spent(second.service(), B).unwrap(), [4]));
    }
}

#[test]
fn set_with_two_id_spellings_survives_restart() {
    let (data, mint) = scripted(&[]);
    mint.script().listed = vec!["00AD268C4D1F5826", "I2yN-iR_fkzT"];
    let mut first = mint.refresher(data.path());
    first.refresh().unwrap();
    mint.script().notes = vec![(B, 1), ("I2yN+iR/fkzT", 2)];
    first.refresh().unwrap();
    drop(first);

    let mut second = mint.refresher(data.path());
    assert!(second.restore());
    assert!(is_of(&spent(second.service(), B).unwrap(), [1]));
    assert!(is_of(
        &spent(second.service(), "I2yN+iR/fkzT").unwrap(),
        [2]
    ));
    let report = second.refresh().unwrap();
    assert!(report.readings.iter().all(|reading| !reading.whole));
}

#[test]
fn unrecorded_full_reading_keeps_old_sets_for_restart() {
    let (data, mint) = scripted(&[(A, 1), (A, 2)]);
    let mut first = mint.refresher(data.path());
    first.refresh().unwrap();

    mint.script().now = 20;
    mint.script().starts_over = true;
    // A directory at this path prevents writing the state file.
    fs::create_dir(data.path().join("spent.state.new")).unwrap();
    let report = first.refresh().unwrap();
    assert!(!report.failures.is_empty());
    let served = spent(first.service(), A).unwrap();
    assert_eq!(served.timestamp(), 10);
    drop(first);

    fs::remove_dir(data.path().join("spent.state.new")).unwrap();
    let mut second = mint.refresher(data.path());
    assert!(second.restore());
    let restored = spent(second.service(), A).expect("the old set is still there");
    assert!(restored.timestamp() == 10 && is_of(&restored, [1, 2]));
}

#[test]
fn failed_full_readings_leave_nothing_on_disk() {
    let (data, mint) = scripted(&[(A, 1)]);
    mint.script().fails = true;
    let mut refresher = mint.refresher(data.path());
    refresher.refresh().unwrap_err();
    assert_eq!(sets(data.path()), Vec::<PathBuf>::new());

    mint.script().fails = false;
    refresher.refresh().unwrap();
    let good = sets(data.path());
    assert_eq!(good.len(), 2);
    mint.script().starts_over = true;
    mint.script().fails = true;
    refresher.refresh().unwrap_err();
    assert_eq!(sets(data.path()), good);
}

#[test]
fn second_restore_does_nothing() {
    let (data, mint) = scripted(&[(A, 1)]);
    mint.refresher(data.path()).refresh().unwrap();
    let mut refresher = mint.refresher(data.path());
    for _ in 0..2 {
        assert!(refresher.restore());
        assert!(is_of(&spent(refresher.service(), A).unwrap(), [1]));
    }
    mint.script().notes.push((A, 2));
    refresher.refresh().unwrap();
    assert!(refresher.restore());
    assert!(is_of(&spent(refresher.service(), A).unwrap(), [1, 2]));
}

#[test]
fn refresher_without_restore_keeps_recorded_sets() {
    let (data, mint) = scripted(&[(A, 1), (A, 2)]);
    mint.refresher(data.path()).refresh().unwrap();

    // Its full reading has written other sets, and is not recorded.
    let mut second = mint.refresher(data.path());
    mint.script().notes = vec![(A, 3)];
    let new = data.path().join("spent.state.new");
    fs::create_dir(&new).unwrap();
    assert!(!second.refresh().unwrap().failures.is_empty());
    drop(second);
    fs::remove_dir(&new).unwrap();

    let mut third = mint.refresher(data.path());
    assert!(third.restore());
    assert!(is_of(&spent(third.service(), A).unwrap(), [1, 2]));
}

#[test]
fn unknown_files_next_to_sets_are_kept() {
    let (data, mint) = (tempfile::tempdir().unwrap(), Scripted::default());
    let others = ["photographs", "spent-holiday-1", "issued-zz-00000000"];
    fs::create_dir_all(data.path().join("sets")).unwrap();
    for other in others {
        fs::write(data.path().join("sets").join(other), "").unwrap();
    }
    // A leftover of a killed process.
    let left = data.path().join("sets/spent-30-00000007");
    fs::write(&left, "").unwrap();
    mint.script().now = 10;
    mint.script().notes = vec![(A, 1)];
    let mut refresher = mint.refresher(data.path());
    refresher.refresh().unwrap();
    for other in others {
        assert!(data.path().join("sets").join(other).exists(), "{other}");
    }
    assert!(!left.exists());

    // A directory in place of a set does not prevent the removal of others.
    mint.script().starts_over = true;
    let directory = data.path().join("sets/spent-30-00000005");
    for n in 0..20 {
        fs::write(data.path().join(format!("sets/spent-30-1000000{n:02}")), "").unwrap();
        fs::create_dir(directory.with_extension(n.to_string())).unwrap();
    }
    fs::create_dir(&directory).unwrap();
    refresher.refresh().unwrap();
    let left = |path: &PathBuf| path.to_str().unwrap().contains("-1000000");
    assert!(!sets(data.path()).iter().any(left));
    assert!(directory.exists());
}

#[test]
#[cfg(unix)]
fn stored_files_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let (data, mint) = (tempfile::tempdir().unwrap(), Scripted::default());
    // As an operator or systemd creates directories.
    fs::set_permissions(data.path(), fs::Permissions::from_mode(0o755)).unwrap();
    mint.script().now = 10;
    mint.script().notes = vec![(A, 1)];
    mint.refresher(data.path()).refresh().unwrap();
    for name in ["spent.state", "issued.state", "sets"] {
        let mode = fs::metadata(data.path().join(name))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o077, 0, "{name} has {mode:o}");
    }
}

#[test]
fn panic_in_reading_only_costs_a_full_reading() {
    let mint = Scripted::of(&[(A, 1)]);
    let refresher = mint.refresher_in_memory();
    let service = refresher.service().clone();
    let thread = RefreshThread::start(refresher, Duration::from_secs(3600), 0.0).unwrap();
    let wait_for = |status| crate::wait_for(|| (service.status() == status).then_some(()));
    wait_for(Status::Ok);
    mint.script().now = 20;
    mint.script().notes.push((A, 2));
    mint.script().panics = true;
    thread.refresh_now();
    wait_for(Status::Degraded);
    assert!(is_of(&spent(&service, A).unwrap(), [1]));
    mint.script().panics = false;
    wait_for(Status::Ok);
    assert!(is_of(&spent(&service, A).unwrap(), [1, 2]));
    assert!(thread.stop(Duration::from_secs(30)));
}

#[test]
fn unreadable_row_is_not_an_empty_set_after_restart() {
    let (data, mint) = scripted(&[(B, 7)]);
    mint.script().listed = vec![A, B];
    mint.script().bad = vec![A];
    let mut first = mint.refresher(data.path());
    assert!(!first.refresh().unwrap().failures.is_empty());
    assert!(spent(first.service(), A).is_none());
    assert!(is_of(&spent(first.service(), B).unwrap(), [7]));
    drop(first);
    let mut second = mint.refresher(data.path());
    assert!(second.restore());
    assert!(spent(second.service(), A).is_none());
    mint.script().fails = true;
    second.refresh().unwrap_err();
    assert!(spent(second.service(), A).is_none());
    assert!(is_of(&spent(second.service(), B).unwrap(), [7]));
    mint.script().fails = false;
    mint.script().bad.clear();
    assert!(second.refresh().unwrap().failures.is_empty());
    assert!(is_of(&spent(second.service(), A).unwrap(), []));
}

#[test]
fn repeated_notes_are_stored_once() {
    let (data, mint) = (tempfile::tempdir().unwrap(), Scripted::default());
    mint.script().overlap = 3;
    for mut refresher in [mint.refresher(data.path()), mint.refresher_in_memory()] {
        mint.script().notes.clear();
        for number in 0..8 {
            mint.script().now = 10 + number;
            mint.script().notes.push((A, number));
            let report = refresher.refresh().unwrap();
            let whole = report.readings.iter().any(|reading| reading.whole);
            assert_eq!(whole, number == 0);
            assert!(is_of(&spent(refresher.service(), A).unwrap(), 0..=number));
        }
    }
}

#[test]
fn counted_but_missing_notes_cause_full_reading() {
    let (data, mint) = (tempfile::tempdir().unwrap(), Scripted::default());
    for mut refresher in [mint.refresher(data.path()), mint.refresher_in_memory()] {
        mint.script().notes = vec![(A, 1)];
        mint.script().now = 10;
        refresher.refresh().unwrap();
        mint.script().now = 20;
        mint.script().notes.push((A, 2));
        mint.script().forgets = true;
        let report = refresher.refresh().unwrap();
        assert!(report.readings.iter().all(|reading| reading.whole));
        let filter = spent(refresher.service(), A).unwrap();
        assert!(is_of(&filter, [1, 2]) && filter.timestamp() == 20);
    }
}

#[test]
fn bad_row_holds_back_its_keyset_until_repaired() {
    let (data, mint) = scripted(&[(A, 1)]);
    let mut refresher = mint.refresher(data.path());
    refresher.refresh().unwrap();
    // The count would reveal it as well.
    mint.script().uncounted = true;
    mint.script().notes.extend([(A, 2), (B, 3)]);
    mint.script().bad = vec![A];
    for now in [20, 30] {
        mint.script().now = now;
        let report = refresher.refresh().unwrap();
        assert_eq!(report.failures.len(), 2, "of each kind");
        let (a, b) = (spent(refresher.service(), A), spent(refresher.service(), B));
        let (a, b) = (a.unwrap(), b.unwrap());
        assert!(is_of(&a, [1]) && a.timestamp() == 10);
        assert!(is_of(&b, [3]) && b.timestamp() == now);
        // A restart does not change this.
        drop(refresher);
        refresher = mint.refresher(data.path());
        assert!(refresher.restore());
        let a = spent(refresher.service(), A).unwrap();
        assert!(is_of(&a, [1]) && a.timestamp() == 10);
    }
    mint.script().bad.clear();
    mint.script().now = 40;
    assert!(refresher.refresh().unwrap().failures.is_empty());
    let a = spent(refresher.service(), A).unwrap();
    assert!(is_of(&a, [1, 2]) && a.timestamp() == 40);
}

#[test]
fn unpublished_change_survives_full_reading() {
    let mint = Scripted::of(&[(A, 1), (A, 2)]);
    let mut refresher = mint.refresher_in_memory();
    refresher.refresh().unwrap();
    // As many notes as before, but different ones. They are read but not published, because listing the keysets
    // fails.
    mint.script().now = 20;
    mint.script().notes[1] = (A, 3);
    mint.script().starts_over = true;
    mint.script().lists_nothing = true;
    refresher.refresh().unwrap_err();
    mint.script().lists_nothing = false;
    refresher.refresh().unwrap();
    assert!(is_of(&spent(refresher.service(), A).unwrap(), [1, 3]));
}
