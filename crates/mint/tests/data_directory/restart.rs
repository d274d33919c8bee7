//! Restarts: what is served at once, and what is read.

use nutfilter_mint::{DataDirectory, NoteKind, StateError};

use crate::crash::refresher;
use crate::fake_mint::{FakeMint, State};
use crate::scripted::{Scripted, is_of, spent};

fn state(n: u64) -> State {
    State {
        epoch: 0,
        counts: [[n, 2 * n], [n / 2, 0], [0, 0]],
    }
}

#[test]
fn restart_serves_old_state_and_reads_new_rows() {
    let directory = tempfile::tempdir().unwrap();
    let mint = FakeMint::in_directory(directory.path());
    mint.push(state(10_000));
    let mut first = refresher(directory.path());
    assert!(!first.restore(), "there is nothing yet");
    let report = first.refresh().unwrap();
    assert!(report.readings.iter().all(|reading| reading.whole));
    let before = first.service().snapshot().unwrap();
    drop(first);

    mint.push(state(10_010));
    let mut second = refresher(directory.path());
    assert!(second.restore());
    let restored = second.service().snapshot().unwrap();
    for (old, new) in before.keysets().zip(restored.keysets()) {
        assert_eq!(old.info, new.info);
        for kind in NoteKind::ALL {
            let (old, new) = (old.filter(kind).unwrap(), new.filter(kind).unwrap());
            assert_eq!(old.json().bytes(), new.json().bytes(), "to the byte");
        }
    }
    let report = second.refresh().unwrap();
    let read: Vec<_> = report
        .readings
        .iter()
        .map(|reading| (reading.whole, reading.items))
        .collect();
    assert_eq!(read, [(false, 15), (false, 20)]);
    mint.assert_right(second.service(), "");
}

#[test]
fn data_directory_has_one_owner() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("deep/data");
    let first = DataDirectory::open(&path).unwrap();
    let error = DataDirectory::open(&path).unwrap_err();
    assert!(matches!(error, StateError::InUse { .. }), "{error}");
    assert!(error.to_string().contains("deep/data"), "{error}");
    drop(first);
    crate::open(|| DataDirectory::open(&path));
}

const KEYSET: &str = "009a1f293253e41e";

#[test]
fn restart_serves_nothing_dated_in_the_future() {
    let (data, mint) = (tempfile::tempdir().unwrap(), Scripted::default());
    mint.script().listed = vec![KEYSET];
    mint.script().notes = vec![(KEYSET, 1)];
    mint.script().now = 10_240;
    mint.refresher(data.path()).refresh().unwrap();

    // The clock was corrected while the service was stopped, and another note was spent.
    mint.script().now = 10_006;
    mint.script().notes.push((KEYSET, 2));
    let mut second = mint.refresher(data.path());
    assert!(!second.restore());
    assert!(second.service().snapshot().is_none());
    assert!(!second.restore(), "asked again");
    let report = second.refresh().unwrap();
    assert!(report.readings.iter().all(|reading| !reading.whole));
    let served = spent(second.service(), KEYSET).unwrap();
    assert!(served.timestamp() == 10_006 && is_of(&served, [1, 2]));
    drop(second);

    // From then on, the right time is recorded.
    mint.script().now = 10_007;
    let mut third = mint.refresher(data.path());
    assert!(third.restore());
    let served = spent(third.service(), KEYSET).unwrap();
    assert!(served.timestamp() == 10_006 && is_of(&served, [1, 2]));
}

#[test]
fn set_ahead_of_its_record_has_its_own_date() {
    let (data, mint) = (tempfile::tempdir().unwrap(), Scripted::default());
    mint.script().notes = vec![(KEYSET, 1)];
    mint.script().now = 10_240;
    let mut first = mint.refresher(data.path());
    first.refresh().unwrap();

    // The clock is corrected, a note is added to the set, and replacing the record fails.
    mint.script().now = 10_006;
    mint.script().notes.push((KEYSET, 2));
    std::fs::create_dir(data.path().join("spent.state.new")).unwrap();
    assert!(!first.refresh().unwrap().failures.is_empty());
    assert!(spent(first.service(), KEYSET).is_none(), "dated 10,240");
    drop(first);

    // Until the clock reaches the recorded time.
    std::fs::remove_dir(data.path().join("spent.state.new")).unwrap();
    mint.script().now = 10_300;
    let mut second = mint.refresher(data.path());
    assert!(second.restore());
    let served = spent(second.service(), KEYSET).unwrap();
    assert!(served.timestamp() == 10_006 && is_of(&served, [1, 2]));
}
