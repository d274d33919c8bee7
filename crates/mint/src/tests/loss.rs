//! A filter never claims less than the one before it: notes that are gone, losses that are accepted, and dates.

use std::fs;
use std::path::Path;

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
        ..RefreshOptions::default()
    };
    let mut refresher = refresher_to(in_directory(root), fake, &clocks, options);
    let result = refresher.refresh(true);
    Process { refresher, result }
}

impl Process {
    fn state(&self, kind: NoteKind, number: u8) -> Option<FilterState> {
        let filters = self.refresher.monitor().status().filters;
        let found = filters
            .into_iter()
            .find(|filter| filter.path == path(kind, number));
        found.map(|filter| filter.state)
    }

    /// Items and date of the filter of spent notes.
    fn spent(&self, number: u8) -> (Option<u32>, Option<u64>) {
        (
            count(&self.refresher, Spent, number),
            date(&self.refresher, Spent, number),
        )
    }

    fn held(&self) -> Vec<String> {
        self.refresher
            .monitor()
            .status()
            .held
            .iter()
            .map(ToString::to_string)
            .collect()
    }
}

/// A directory with the filters of keysets 1 and 2, dated 1000, after which the mint counted more notes.
fn published() -> (tempfile::TempDir, Fake) {
    let (directory, fake) = (tempfile::tempdir().unwrap(), Fake::new());
    run(directory.path(), &fake, 1_000, &[]).result.unwrap();
    (directory, fake)
}

fn remove(fake: &Fake, kind: NoteKind, number: u8) -> Vec<(u8, Vec<u8>)> {
    let rows = &mut fake.state().rows[kind as usize];
    let (gone, rest) = core::mem::take(rows)
        .into_iter()
        .partition(|row| row.0 == number);
    *rows = rest;
    gone
}

#[test]
fn keyset_is_held_until_its_notes_are_back_or_the_loss_is_accepted() {
    let (directory, fake) = published();
    fake.add(Spent, 2, 5);
    let gone = remove(&fake, Spent, 1);
    let held = run(directory.path(), &fake, 2_000, &[]);
    assert_eq!(held.held(), ["0000000000000001=3@1000"]);
    assert_eq!(held.spent(1), (Some(3), Some(1_000)));
    assert_eq!(date(&held.refresher, Issued, 1), Some(1_000));
    assert_eq!(held.spent(2), (Some(6), Some(2_000)));
    let states = [1, 2].map(|number| held.state(Issued, number).unwrap());
    assert_eq!(states, [FilterState::Held, FilterState::Current]);
    // Neither held keysets nor their age matter for readiness.
    let ready = held
        .refresher
        .monitor()
        .ready(2_000, Duration::from_secs(900));
    assert_eq!(ready, Ok(()));
    drop(held);
    // Neither another date, nor fewer values, nor another keyset.
    for wrong in [
        "0000000000000001=3@999",
        "0000000000000001=2@1000",
        "0000000000000002=3@1000",
    ] {
        drop(run(
            directory.path(),
            &fake,
            2_100,
            &[wrong.parse().unwrap()],
        ));
    }
    let mut held = run(directory.path(), &fake, 2_200, &[]);
    assert_eq!(held.spent(1), (Some(3), Some(1_000)));
    fake.state().rows[0].extend(gone);
    held.refresher.refresh(true).unwrap();
    assert_eq!(
        (held.held(), held.spent(1)),
        (vec![], (Some(3), Some(2_200)))
    );
    drop(held);
    remove(&fake, Spent, 1);
    let accepted = [run(directory.path(), &fake, 3_000, &[]).held()[0]
        .parse()
        .unwrap()];
    let after = run(directory.path(), &fake, 3_100, &accepted);
    assert_eq!(
        (after.held(), after.spent(1)),
        (vec![], (Some(0), Some(3_100)))
    );
    drop(after);
    // It may stay in a unit: it is for that filter only.
    fake.add(Spent, 1, 4);
    drop(run(directory.path(), &fake, 4_000, &accepted));
    remove(&fake, Spent, 1);
    let later = run(directory.path(), &fake, 5_000, &accepted);
    assert_eq!(later.held(), ["0000000000000001=4@4000"]);
}

#[test]
fn values_of_both_filters_are_counted_together() {
    let (directory, fake) = published();
    remove(&fake, Issued, 1);
    fake.state().rows[0].remove(0);
    let held = run(directory.path(), &fake, 2_000, &[]);
    assert_eq!(held.held(), ["0000000000000001=4@1000"]);
}

#[test]
fn files_that_are_not_served_are_compared_as_well() {
    for damage in ["gzip", "plain", "no gzip", "no plain", "future"] {
        let (directory, fake) = published();
        let file = directory.path().join(path(Spent, 1));
        let gzip = file.with_extension("gz");
        match damage {
            "gzip" => fs::write(&gzip, "x").unwrap(),
            "plain" => fs::write(&file, "x").unwrap(),
            "no gzip" => fs::remove_file(&gzip).unwrap(),
            "no plain" => fs::remove_file(&file).unwrap(),
            _ => {}
        }
        remove(&fake, Spent, 1);
        // The clock of the process before was ahead.
        let at = if damage == "future" { 900 } else { 2_000 };
        let held = run(directory.path(), &fake, at, &[]);
        assert_eq!(held.held(), ["0000000000000001=3@1000"], "{damage}");
    }
}

#[test]
fn filter_that_cannot_be_compared_is_named() {
    let (directory, fake) = published();
    let file = directory.path().join(path(Spent, 1));
    fs::write(&file, "x").unwrap();
    fs::write(file.with_extension("gz"), "x").unwrap();
    let process = run(directory.path(), &fake, 2_000, &[]);
    assert_eq!(
        process.refresher.monitor().status().not_compared,
        [path(Spent, 1)]
    );
    assert_eq!(process.spent(1), (Some(3), Some(2_000)));
}

#[test]
fn another_mints_database_ends_the_process() {
    let (directory, fake) = published();
    let other = Fake::default();
    other.state().listed = vec![7];
    other.add(Spent, 7, 3);
    for empty in [other, Fake::default()] {
        let process = run(directory.path(), &empty, 2_000, &[]);
        let Err(RefreshError::OtherMint {
            keysets: 2, accept, ..
        }) = &process.result
        else {
            panic!("{:?}", process.result);
        };
        assert!(process.refresher.monitor().status().other_mint);
        assert_eq!(process.spent(1), (Some(3), Some(1_000)));
        let accepted: Vec<Loss> = accept
            .split(',')
            .map(|loss| loss.parse().unwrap())
            .collect();
        drop(process);
        // One is not enough.
        drop(
            run(directory.path(), &empty, 2_000, &accepted[..1])
                .result
                .unwrap_err(),
        );
        let copy = tempfile::tempdir().unwrap();
        copy_files(directory.path(), copy.path());
        run(copy.path(), &empty, 2_000, &accepted).result.unwrap();
    }
    run(directory.path(), &fake, 2_000, &[]).result.unwrap();
}

fn copy_files(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => {
                fs::create_dir(&to).unwrap();
                copy_files(&entry.path(), &to);
            }
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

#[test]
fn notes_that_moved_to_another_keyset_are_not_gone() {
    let (directory, fake) = published();
    // A repair fills in an id, and a migration takes one away.
    for (number, row) in [3, 0].into_iter().zip(&mut fake.state().rows[0]) {
        row.0 = number;
    }
    let process = run(directory.path(), &fake, 2_000, &[]);
    assert_eq!(process.held(), <[String; 0]>::default());
    // The one without a keyset is in each.
    assert_eq!(
        [1, 2, 3].map(|number| process.spent(number).0),
        [Some(3), Some(2), Some(2)]
    );
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
fn date_of_a_path_never_goes_back() {
    let (directory, fake) = published();
    let at = |now, as_of| {
        fake.state().as_of = as_of;
        let process = run(directory.path(), &fake, now, &[]);
        (process.spent(1).1, process.state(Spent, 1).unwrap())
    };
    use FilterState::{Current, Idle};
    assert_eq!(at(2_000, Some(AsOf::LastChange(500))), (Some(1_000), Idle));
    assert_eq!(at(2_000, Some(AsOf::Unknown)), (Some(1_000), Idle));
    assert_eq!(
        at(2_000, Some(AsOf::LastChange(1_500))),
        (Some(1_500), Idle)
    );
    // A change after the clock proves no more than the reading.
    assert_eq!(
        at(2_000, Some(AsOf::LastChange(9_000))),
        (Some(2_000), Idle)
    );
    assert_eq!(
        at(3_000, Some(AsOf::StoreClock(2_500))),
        (Some(2_500), Current)
    );
    assert_eq!(
        at(3_000, Some(AsOf::StoreClock(9_000))),
        (Some(3_000), Current)
    );
    assert_eq!(
        at(4_000, Some(AsOf::StoreClock(100))),
        (Some(3_000), Current)
    );
    let before = |age| Some(AsOf::Before(Duration::from_millis(age)));
    assert_eq!(at(4_000, before(500)), (Some(3_999), Current));
    assert_eq!(at(4_000, before(9_000_000)), (Some(3_999), Current));
    assert_eq!(at(4_000, None), (Some(4_000), Current));
}

#[test]
fn store_that_proves_no_date_has_no_filter_and_is_ready() {
    let (fake, clocks) = (Fake::new(), Clocks::at(1_000));
    fake.state().as_of = Some(AsOf::Unknown);
    let mut refresher = refresher(&fake, &clocks);
    refresh(&mut refresher);
    let monitor = Arc::clone(refresher.monitor());
    let states = || {
        monitor
            .status()
            .filters
            .iter()
            .map(|filter| filter.state)
            .collect::<Vec<_>>()
    };
    assert_eq!(states(), [FilterState::Undated; 4]);
    assert_eq!(
        (
            count(&refresher, Spent, 1),
            monitor.ready(1_000, Duration::ZERO)
        ),
        (None, Ok(()))
    );
    fake.state().as_of = Some(AsOf::LastChange(700));
    refresh(&mut refresher);
    assert_eq!(
        (states()[0], date(&refresher, Spent, 1)),
        (FilterState::Idle, Some(700))
    );
    // New notes keep the old date, which is true of them as well.
    fake.add(Spent, 1, 2);
    fake.state().as_of = Some(AsOf::Unknown);
    refresh(&mut refresher);
    assert_eq!(
        (count(&refresher, Spent, 1), date(&refresher, Spent, 1)),
        (Some(5), Some(700))
    );
    // Nor does a clock that is set back take them away.
    clocks.pass(60);
    clocks.set(900_000);
    assert!(!refresher.withdraw());
}

#[test]
fn keyset_that_ended_is_retired_without_a_loss() {
    for (ends, lost) in [(Some(1_500), false), (Some(9_000), true), (None, true)] {
        let (directory, fake) = (tempfile::tempdir().unwrap(), Fake::new());
        fake.state().ends = ends;
        let mut first = run(directory.path(), &fake, 1_000, &[]);
        // Pruned while the process runs, or before the next one starts.
        for kind in NoteKind::ALL {
            remove(&fake, kind, 2);
        }
        fake.state().listed = vec![1];
        let report = first.refresher.refresh(true).unwrap();
        assert_eq!(
            (report.lost, first.spent(2).0),
            (2, Some(1)),
            "not ended yet"
        );
        drop(first);
        for at in [2_000, 3_000] {
            let next = run(directory.path(), &fake, at, &[]);
            let expected = if lost {
                FilterState::Held
            } else {
                FilterState::Retired
            };
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
    for text in [
        "",
        "009a1f293253e41e=50",
        "009a1f293253e41e=-1@2",
        "xx=1@2",
        "=1@2",
    ] {
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
    assert_eq!(
        process.held().len(),
        1,
        "nothing tells that everything is there again"
    );
}

#[test]
fn refused_database_is_refused_again() {
    let (directory, _) = published();
    let mut process = run(directory.path(), &Fake::default(), 2_000, &[]);
    for _ in 0..2 {
        let again = process.refresher.refresh(true);
        assert!(
            matches!(again, Err(RefreshError::OtherMint { .. })),
            "{again:?}"
        );
    }
}
