//! The rules of blocks and segments.

use std::collections::BTreeSet;

use nutfilter::segment::Universe;
use nutfilter_cashu::state_filters::Event;
use nutfilter_cashu::state_filters::manifest::{HEARTBEAT, Level};
use nutfilter_sequence::{Added, Sequence};
use proptest::prelude::*;

use crate::model::{NaiveBlocks, add, element, open, options};
use crate::observer::Observer;

/// One refresh: seconds since the one before, elements, and whether the process restarts after it.
type Refresh = (i64, Vec<u64>, bool);

fn refresh() -> impl Strategy<Value = Refresh> {
    let seconds = prop_oneof![
        8 => 1..200_i64,
        4 => 500..4_000_i64,
        2 => 40_000..200_000_i64,
        1 => 2_000_000..40_000_000_i64,
        1 => -10_000..1_i64,
    ];
    (
        seconds,
        prop::collection::vec(0..400_u64, 0..12),
        prop::bool::weighted(0.1),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn blocks_and_segments_follow_the_rules(refreshes in prop::collection::vec(refresh(), 1..60)) {
        let directory = tempfile::tempdir().unwrap();
        let mut sequence = open(directory.path());
        let (mut blocks, mut observer) = (NaiveBlocks::new(1_000), Observer::default());
        let (mut all, mut now) = (BTreeSet::new(), 1_000_i64);
        for (seconds, items, restart) in refreshes {
            now = (now + seconds).max(1_000);
            let elements: Vec<_> = items.iter().map(|&i| element(i)).collect();
            let distinct: BTreeSet<_> = elements.iter().copied().collect();
            let new: Vec<_> = distinct.difference(&all).copied().collect();
            let before = sequence.view();
            let added = add(&mut sequence, &elements, now as u64).unwrap();
            let expected = Added {
                new: new.len() as u64,
                known: (distinct.len() - new.len()) as u64,
                missing: all.difference(&distinct).count() as u64,
            };
            prop_assert_eq!(added, expected);
            let number = |view: &nutfilter_sequence::View| {
                view.manifest().map(|(manifest, ..)| manifest.number)
            };
            if new.is_empty() && let Some((written, ..)) = before.manifest() {
                let is_due = (now as u64).saturating_sub(written.time) >= HEARTBEAT;
                let expected = written.number + u64::from(is_due);
                prop_assert_eq!(number(&sequence.view()), Some(expected), "nothing is new");
            }
            all.extend(distinct);
            blocks.add(new, now as u64);
            observer.observe(&sequence.view());
            sequence.compact(now as u64).unwrap();
            prop_assert!(!sequence.compact(now as u64).unwrap());
            if restart {
                drop(sequence);
                sequence = open(directory.path());
            }
            let manifest = observer.observe(&sequence.view()).unwrap();
            let all: Vec<_> = all.iter().copied().collect();
            observer.check_segments(&manifest, &all);
            blocks.check(&sequence);
            prop_assert_eq!(sequence.elements(), all.len() as u64);
        }
    }
}

#[test]
fn parts_stay_listed_and_then_served_for_their_time() {
    let directory = tempfile::tempdir().unwrap();
    let mut sequence = open(directory.path());
    let refresh = |sequence: &mut Sequence, now, i| {
        add(sequence, &[element(i)], now).unwrap();
        sequence.compact(now).unwrap();
        let view = sequence.view();
        let (manifest, ..) = view.manifest().unwrap();
        let intervals = manifest.segments.iter();
        intervals
            .map(|segment| (segment.start, segment.end))
            .collect::<Vec<_>>()
    };
    refresh(&mut sequence, 3_000, 0);
    refresh(&mut sequence, 3_300, 1);
    let listed = refresh(&mut sequence, 3_600, 2);
    // Two in the ten minutes from 3,000 on.
    let parts = [(0, 3_301), (0, 3_001), (3_001, 3_301), (3_301, 3_601)];
    assert_eq!(listed, parts);
    let grace = Level::TenMinutes.grace();
    assert_eq!(refresh(&mut sequence, 3_600 + grace - 1, 3)[..4], parts);
    assert_eq!(
        refresh(&mut sequence, 3_600 + grace, 4)[..2],
        [(0, 3_301), (3_301, 3_601)]
    );
    let view = sequence.view();
    view.segment(0, 3_001).unwrap().check().unwrap();
    // Ten minutes later no follower has a manifest that lists it.
    add(&mut sequence, &[element(5)], 3_600 + grace + 600).unwrap();
    assert!(sequence.view().segment(0, 3_001).is_none());
    view.segment(0, 3_001).unwrap().check().unwrap_err();
}

#[test]
fn reported_events_are_published_each_time() {
    let directory = tempfile::tempdir().unwrap();
    let mut sequence = open(directory.path());
    let mut blocks = NaiveBlocks::new(1_000);
    for (now, items, values) in [
        (2_000, vec![1], 1),
        (2_060, vec![2, 1, 1, 2, 2], 2),
        (2_120, vec![1], 1),
    ] {
        let events: Vec<_> = items.iter().map(|&i| element(i)).collect();
        sequence.inbox().push(&events).unwrap();
        // They wait through a restart.
        drop(sequence);
        sequence = open(directory.path());
        assert_eq!(sequence.inbox().waiting(), items.len() as u64);
        let added = sequence.add_reported(now).unwrap();
        assert_eq!(added.new, items.len() as u64);
        let view = sequence.view();
        let last = view.manifest().unwrap().0.segments.last().copied();
        assert_eq!(last.map(|last| (last.end, last.n)), Some((now + 1, values)));
        blocks.add(events, now);
        blocks.check(&sequence);
    }
    let number = |sequence: &Sequence| sequence.view().manifest().unwrap().0.number;
    assert_eq!(sequence.add_reported(2_180).unwrap().new, 0);
    assert_eq!(number(&sequence), 2, "no news");
}

#[test]
fn damaged_or_missing_reported_events_are_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let inbox = directory.path().join("inbox");
    let sequence = open(directory.path());
    let mut sequence = {
        sequence.inbox().push(&[element(0)]).unwrap();
        drop(sequence);
        let sequence = open(directory.path());
        sequence.inbox().push(&[element(1), element(2)]).unwrap();
        sequence
    };
    let mut bytes = std::fs::read(inbox.join("1")).unwrap();
    bytes[40] ^= 1;
    std::fs::write(inbox.join("1"), &bytes).unwrap();
    let error = sequence.add_reported(2_000).unwrap_err().to_string();
    assert!(
        error.contains("a reported event has another checksum"),
        "{error}"
    );
    drop(sequence);
    // After a crash, it looks like an event that was not acknowledged.
    let sequence = open(directory.path());
    assert_eq!(sequence.inbox().waiting(), 2);
    drop(sequence);
    std::fs::remove_file(inbox.join("0")).unwrap();
    let error = Sequence::open(directory.path(), options(), 0).unwrap_err();
    assert!(
        error.to_string().contains("reported events are missing"),
        "{error}"
    );
}

#[test]
fn sequence_of_other_options_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let refused = |options, expected: &str| {
        let error = Sequence::open(path, options, 0).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    let sequence = open(path);
    refused(options(), "in use by another process");
    drop(sequence);
    let mut other = options();
    other.universe = Universe::new(41).unwrap();
    refused(other, "has universe 40, not 41");
    let mut other = options();
    other.blocks = None;
    refused(other, "has blocks on, not off");
    let mut other = options();
    other.kind = Event::ProofState;
    refused(other, "has kind blind_signature, not proof_state");
    let mut other = options();
    other.states = vec!["SPENT"];
    refused(other, "has states , not SPENT");
    let state = path.join("state");
    let mut bytes = std::fs::read(&state).unwrap();
    bytes[20] ^= 1;
    std::fs::write(&state, bytes).unwrap();
    refused(options(), "damaged sequence");
}

#[test]
fn old_manifests_are_kept_in_a_bounded_number() {
    let directory = tempfile::tempdir().unwrap();
    let mut sequence = open(directory.path());
    for i in 0..1_010 {
        add(&mut sequence, &[element(i)], 1_000 + i).unwrap();
        sequence.compact(1_000 + i).unwrap();
    }
    drop(sequence);
    let view = open(directory.path()).view();
    let number = view.manifest().unwrap().0.number;
    view.old_manifest(number - 1_000).unwrap().check().unwrap();
    assert_eq!(view.old_manifest(number - 1_001), None);
    assert_eq!(view.old_manifest(number + 1), None);
    let files = std::fs::read_dir(directory.path().join("manifests")).unwrap();
    assert_eq!(files.count(), 1_001);
}
