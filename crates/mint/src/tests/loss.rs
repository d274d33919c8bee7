//! A filter never claims less than the one before it: what random histories do not try.

use std::fs;
use std::path::Path;

use nutfilter::{ItemHash as _, Nut25};

use super::*;
use crate::{FilterState, Loss};

/// A process that publishes to a directory and ends after one refresh.
struct Process {
    refresher: Refresher,
    result: Result<RefreshReport, RefreshError>,
}

fn run(root: &Path, fake: &Fake, at: u64, accepted: &[Loss]) -> Process {
    let clocks = Clocks::at(at);
    let options = RefreshOptions {
        accepted: accepted.to_vec(),
        grid: Duration::from_secs(10),
        ..RefreshOptions::default()
    };
    let mut refresher = refresher_to(in_directory(root), fake, &clocks, options);
    let result = refresher.refresh(true);
    Process { refresher, result }
}

impl Process {
    fn state(&self, kind: NoteKind, number: u8) -> Option<FilterState> {
        let filters = self.refresher.monitor().status().filters;
        let found = filters.into_iter().find(|filter| filter.path == path(kind, number));
        found.map(|filter| filter.state)
    }

    /// Items and date of the filter of spent notes.
    fn spent(&self, number: u8) -> (Option<u32>, Option<u64>) {
        (count(&self.refresher, Spent, number), date(&self.refresher, Spent, number))
    }

    fn held(&self) -> Vec<String> {
        self.refresher.monitor().status().held.iter().map(ToString::to_string).collect()
    }
}

/// A directory with the filters of keysets 1 and 2, dated 1000, after which the mint counted more notes.
fn published() -> (tempfile::TempDir, Fake) {
    let (directory, fake) = (tempfile::tempdir().unwrap(), Fake::new());
    run(directory.path(), &fake, 1_000, &[]).result.unwrap();
    (directory, fake)
}

#[test]
fn older_directory_that_is_put_back_has_its_date_until_the_next_reading() {
    let (directory, fake) = published();
    let root = directory.path();
    let kept = tempfile::tempdir().unwrap();
    let copy = |from: &Path, to: &Path| {
        let ran = std::process::Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status();
        assert!(ran.unwrap().success());
    };
    copy(root, kept.path());
    fake.add(Spent, 1, 1);
    let later = run(root, &fake, 2_000, &[]);
    assert_eq!(later.spent(1), (Some(4), Some(2_000)));
    drop(later);
    fs::remove_dir_all(root).unwrap();
    fs::create_dir(root).unwrap();
    copy(kept.path(), root);
    let table = in_directory(root);
    assert_eq!(table.get(&path(Spent, 1)).unwrap().date(), 1_000);
    drop(table);
    let last = run(root, &fake, 3_000, &[]);
    last.result.as_ref().unwrap();
    assert_eq!(last.spent(1), (Some(4), Some(3_000)));
}

fn remove(fake: &Fake, kind: NoteKind, number: u8) -> Vec<(u8, Vec<u8>)> {
    let rows = &mut fake.state().rows[kind as usize];
    let (gone, rest) = core::mem::take(rows).into_iter().partition(|row| row.0 == number);
    *rows = rest;
    gone
}

#[test]
fn loss_is_accepted_for_one_filter_and_no_larger_one() {
    let (directory, fake) = published();
    remove(&fake, Spent, 1);
    let at = |now, accepted: &[&str]| {
        let accepted: Vec<Loss> = accepted.iter().map(|loss| loss.parse().unwrap()).collect();
        let process = run(directory.path(), &fake, now, &accepted);
        // Neither held keysets nor their age matter for readiness.
        let monitor = process.refresher.monitor();
        assert_eq!(monitor.ready(now, Duration::from_secs(900)), Ok(()));
        (process.held(), process.spent(1))
    };
    let held = |loss: &str| vec![loss.to_owned()];
    let loss = "0000000000000001=3@1000";
    // Another date, fewer values, another keyset.
    for wrong in ["0000000000000001=3@999", "0000000000000001=2@1000", "0000000000000002=3@1000"] {
        assert_eq!(at(2_000, &[wrong]), (held(loss), (Some(3), Some(1_000))));
    }
    assert_eq!(at(3_000, &[loss]), (vec![], (Some(0), Some(3_000))));
    // It may stay in a unit: it is for that filter only.
    fake.add(Spent, 1, 4);
    assert_eq!(at(4_000, &[loss]).1, (Some(4), Some(4_000)));
    remove(&fake, Spent, 1);
    assert_eq!(at(5_000, &[loss]).0, held("0000000000000001=4@4000"));
    // Also if it is replaced within the 10 s that have one date. While a loss is accepted, no other filter gets its date.
    let loss = "0000000000000001=4@4000";
    for (now, dated) in [(4_003, 3_999), (4_006, 3_999), (4_013, 4_010)] {
        assert_eq!(at(now, &[loss]), (vec![], (Some(0), Some(dated))));
    }
    // Nor in a store that proves no later date than that of its last change.
    fake.add(Spent, 1, 3);
    assert_eq!(at(6_001, &[]).1, (Some(3), Some(6_000)));
    fake.state().as_of = Some(AsOf::LastChange(6_000));
    let loss = "0000000000000001=3@6000";
    let gone = remove(&fake, Spent, 1);
    assert_eq!(at(6_002, &[]).0, held(loss));
    assert_eq!(at(6_003, &[loss]), (vec![], (Some(0), Some(5_999))));
    fake.state().rows[0].extend(gone);
    assert_eq!(at(9_000, &[loss]), (vec![], (Some(3), Some(5_999))));
    remove(&fake, Spent, 1);
    assert_eq!(at(9_000, &[loss]).0, held("0000000000000001=3@5999"));
}

#[test]
fn held_keyset_whose_filter_cannot_be_sent_is_not_ready() {
    let (directory, fake) = (tempfile::tempdir().unwrap(), Fake::new());
    let ahead = (crate::status::now() / 10 + 100) * 10;
    run(directory.path(), &fake, ahead, &[]).result.unwrap();
    remove(&fake, Spent, 1);
    let ready = |now| {
        let process = run(directory.path(), &fake, now, &[]);
        assert_eq!(process.held(), [format!("0000000000000001=3@{ahead}")]);
        let ready = process.refresher.monitor().ready(now, Duration::ZERO);
        ready.map_err(|reason| reason.split(' ').skip(1).collect::<Vec<_>>().join(" "))
    };
    assert_eq!(ready(ahead - 9), Err("is dated after the clock".to_owned()));
    assert_eq!(ready(ahead), Ok(()));
    for file in ["", ".gz"].map(|form| directory.path().join(path(Issued, 1) + form)) {
        fs::write(file, "x").unwrap();
    }
    assert_eq!(ready(ahead), Err("is missing".to_owned()));
}

#[test]
fn accepted_loss_of_a_whole_keyset_is_not_held_again() {
    for is_damaged in [false, true] {
        let (directory, fake) = published();
        for kind in NoteKind::ALL {
            remove(&fake, kind, 2);
        }
        fake.state().listed = vec![1];
        if is_damaged {
            fs::write(directory.path().join(path(Spent, 2)), "x").unwrap();
        }
        let loss = run(directory.path(), &fake, 2_000, &[]).held()[0].parse();
        drop(run(directory.path(), &fake, 2_100, &[loss.unwrap()]));
        let after = run(directory.path(), &fake, 2_200, &[]);
        let found = (after.held(), after.state(Spent, 2));
        assert_eq!(found, (vec![], None), "{is_damaged}");
    }
}

#[test]
fn files_that_are_not_served_are_compared_or_named() {
    for damage in ["gzip", "plain", "no gzip", "no plain", "future", "both", "gone", "kinds", "all"]
    {
        let (directory, fake) = published();
        let file = directory.path().join(path(Spent, 1));
        let gzip = file.with_extension("gz");
        match damage {
            "gzip" => fs::write(&gzip, "x").unwrap(),
            "plain" => fs::write(&file, "x").unwrap(),
            "no gzip" => fs::remove_file(&gzip).unwrap(),
            "no plain" => fs::remove_file(&file).unwrap(),
            "both" => [&file, &gzip].map(|file| fs::write(file, "x").unwrap())[0],
            "gone" => [&file, &gzip].map(|file| fs::remove_file(file).unwrap())[0],
            "all" => fs::remove_dir_all(directory.path().join("v1/filter")).unwrap(),
            "kinds" => {
                for file in NoteKind::ALL.map(|kind| directory.path().join(path(kind, 1))) {
                    fs::remove_file(file.with_extension("gz")).unwrap();
                    fs::remove_file(file).unwrap();
                }
            }
            _ => {}
        }
        remove(&fake, Spent, 1);
        // The clock of the process before was ahead.
        let at = if damage == "future" { 900 } else { 2_000 };
        let process = run(directory.path(), &fake, at, &[]);
        let not_compared = process.refresher.monitor().status().not_compared;
        let all = [1, 2].map(|number| NoteKind::ALL.map(|kind| path(kind, number)));
        let named = match damage {
            "both" | "gone" => &all[0][..1],
            "kinds" => &all[0],
            "all" => all.as_flattened(),
            _ => &[],
        };
        assert_eq!(not_compared, named, "{damage}");
        if named.is_empty() {
            assert_eq!(process.held(), ["0000000000000001=3@1000"], "{damage}");
        } else {
            assert_eq!(process.spent(1), (Some(0), Some(2_000)));
        }
    }
}

#[test]
fn another_mints_database_ends_the_process() {
    let other = Fake::default();
    other.state().listed = vec![7];
    other.add(Spent, 7, 3);
    for empty in [other, Fake::default()] {
        let (directory, fake) = published();
        let mut process = run(directory.path(), &empty, 2_000, &[]);
        // The second time, too.
        process.result = process.refresher.refresh(true);
        let Err(RefreshError::OtherMint { keysets: 2, accept, .. }) = &process.result else {
            panic!("{:?}", process.result);
        };
        assert!(process.refresher.monitor().status().other_mint);
        assert_eq!(process.spent(1), (Some(3), Some(1_000)));
        let accepted = accept.split(',').map(|loss| loss.parse().unwrap());
        let accepted = Vec::<Loss>::from_iter(accepted);
        drop(process);
        let run = |store, accepted| run(directory.path(), store, 1_000, accepted).result.is_ok();
        assert!(!run(&empty, &accepted[..1]), "one is not enough");
        assert!(run(&fake, &[]) && run(&empty, &accepted));
    }
}

#[test]
fn note_elsewhere_is_gone_where_chance_explains_it() {
    let (directory, fake) = (tempfile::tempdir().unwrap(), Fake::new());
    fake.add(Spent, 2, 784_931 / 1_000 * 3);
    run(directory.path(), &fake, 1_000, &[]).result.unwrap();
    let rows = |number| {
        let state = fake.state();
        state.rows[0].iter().filter(|row| row.0 == number).count()
    };
    assert_eq!((rows(1), rows(2)), (3, 2_353));
    fake.state().rows[0][0].0 = 2;
    let process = run(directory.path(), &fake, 2_000, &[]);
    assert_eq!(process.held(), <[String; 0]>::default());
    // Two more notes are too many for a keyset of three.
    fake.add(Spent, 2, 2);
    drop(process);
    fake.state().rows[0][1].0 = 2;
    let process = run(directory.path(), &fake, 3_000, &[]);
    assert_eq!(process.held(), ["0000000000000001=2@2000"]);
}

#[test]
fn loss_beside_many_keysets_is_found_in_one_pass() {
    let (directory, fake) = (tempfile::tempdir().unwrap(), Fake::default());
    (2..=250).for_each(|number| fake.add(Spent, number, 1));
    let mut hashes: Vec<u64> = (0..100_000).map(|at: u64| at << 47).collect();
    hashes.extend(fake.state().rows[0].iter().map(|(_, item)| Nut25.hash(item)));
    fake.state().hashes = hashes;
    run(directory.path(), &fake, 1_000, &[]).result.unwrap();
    // One stays, and 249 spent ones are in the other keysets.
    fake.state().hashes = vec![7 << 47];
    let start = crate::thread::cpu_time();
    let process = run(directory.path(), &fake, 2_000, &[]);
    let took = crate::thread::cpu_time().unwrap_or_default() - start.unwrap_or_default();
    assert_eq!(process.held(), ["0000000000000001=200247@1000"]);
    let status = process.refresher.monitor().status();
    assert_eq!(status.items_gone, 0);
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[test]
fn date_of_a_path_never_goes_back() {
    let (directory, fake) = published();
    let before = |age| AsOf::Before(Duration::from_millis(age));
    use AsOf::{Beginning, LastChange, StoreClock, Unknown};
    use FilterState::{Current, Idle};
    for (now, as_of, date, state) in [
        (2_000, LastChange(500), 1_000, Idle),
        (2_000, Unknown, 1_000, Idle),
        (2_000, LastChange(1_500), 1_500, Idle),
        // A change after the clock proves no more than the reading.
        (2_000, LastChange(9_000), 2_000, Idle),
        (3_000, StoreClock(2_500), 2_500, Current),
        (3_000, StoreClock(9_000), 3_000, Current),
        (4_000, StoreClock(100), 3_000, Current),
        (4_000, before(500), 3_990, Current),
        (4_000, before(9_000_000), 3_990, Current),
        (4_000, Beginning, 4_000, Current),
    ] {
        fake.state().as_of = Some(as_of);
        let process = run(directory.path(), &fake, now, &[]);
        let found = (process.spent(1).1, process.state(Spent, 1));
        assert_eq!(found, (Some(date), Some(state)), "{as_of:?} at {now}");
    }
}

#[test]
fn store_that_proves_no_date_has_no_filter_and_is_ready() {
    let (fake, clocks) = (Fake::new(), Clocks::at(1_000));
    fake.state().as_of = Some(AsOf::Unknown);
    let mut refresher = refresher(&fake, &clocks);
    refresh(&mut refresher);
    let monitor = Arc::clone(refresher.monitor());
    let state = || monitor.with(|status| status.filters[0].state);
    let spent = |refresher: &_| (state(), count(refresher, Spent, 1), date(refresher, Spent, 1));
    assert_eq!(spent(&refresher), (FilterState::Undated, None, None));
    assert!(monitor.table().objects().is_empty(), "the list of keysets tells what was published");
    assert_eq!(monitor.ready(1_000, Duration::ZERO), Ok(()));
    fake.state().as_of = Some(AsOf::LastChange(700));
    refresh(&mut refresher);
    assert_eq!(spent(&refresher), (FilterState::Idle, Some(3), Some(700)));
    // Changes of other keysets do not rewrite it each time.
    for (change, encoded, dated) in [(850, 0, 700), (1_300, 4, 1_200), (1_700, 0, 1_200)] {
        clocks.pass(700);
        fake.state().as_of = Some(AsOf::LastChange(change));
        assert_eq!(refresh(&mut refresher).encoded, encoded, "{change}");
        assert_eq!(date(&refresher, Spent, 1), Some(dated));
    }
    // New notes keep the old date, which is true of them as well.
    fake.add(Spent, 1, 2);
    fake.state().as_of = Some(AsOf::Unknown);
    refresh(&mut refresher);
    assert_eq!(spent(&refresher), (FilterState::Idle, Some(5), Some(1_200)));
    // Nor does a clock that is set back take them away.
    clocks.pass(60);
    clocks.set(1_300_000);
    assert!(!refresher.withdraw());
}

#[test]
fn keyset_that_ended_is_retired_without_a_loss() {
    // In the last row the list of keysets, which tells the end, is damaged.
    for (ends, lost, damaged) in [
        (Some(1_500), false, "new"),
        (Some(9_000), true, "new"),
        (None, true, "new"),
        (Some(1_500), false, "v1/keysets.gz"),
    ] {
        let (directory, fake) = (tempfile::tempdir().unwrap(), Fake::new());
        fake.state().ends = ends;
        let mut first = run(directory.path(), &fake, 1_000, &[]);
        // Pruned while the process runs, or before the next one starts.
        for kind in NoteKind::ALL {
            remove(&fake, kind, 2);
        }
        fake.state().listed = vec![1];
        let report = first.refresher.refresh(true).unwrap();
        assert_eq!((report.lost, first.spent(2).0), (2, Some(1)), "not ended yet");
        drop(first);
        fs::write(directory.path().join(damaged), "x").unwrap();
        for at in [2_000, 3_000] {
            let next = run(directory.path(), &fake, at, &[]);
            let expected = if lost { FilterState::Held } else { FilterState::Retired };
            assert_eq!(next.state(Spent, 2), Some(expected));
            assert_eq!(
                (next.held().len(), next.spent(2)),
                (usize::from(lost), (Some(1), Some(1_000)))
            );
            assert_eq!(next.spent(1).1, Some(at));
        }
    }
}

#[test]
fn loss_is_read_as_it_is_printed() {
    for text in ["009a1f293253e41e=50@1788000000", "I2yN+iRYfkzT=0@0"] {
        assert_eq!(text.parse::<Loss>().unwrap().to_string(), text);
    }
    for text in " 009a1f293253e41e=50 009a1f293253e41e=-1@2 xx=1@2 =1@2".split(' ') {
        assert!(text.parse::<Loss>().is_err(), "{text}");
    }
}

#[test]
fn hold_does_not_end_because_a_file_is_taken_away() {
    let (directory, fake) = published();
    let gone = remove(&fake, Spent, 1);
    let mut process = run(directory.path(), &fake, 2_000, &[]);
    fs::remove_dir_all(directory.path().join("v1")).unwrap();
    process.refresher.refresh(true).unwrap();
    assert_eq!(process.held(), ["0000000000000001=3@1000"]);
    fake.state().rows[0].extend(gone);
    process.refresher.refresh(true).unwrap();
    assert_eq!(process.held().len(), 1, "nothing tells that everything is there again");
}
