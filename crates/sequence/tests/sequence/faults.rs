//! The disk fails at each change in turn: nothing published changes, and nothing is lost or added twice.

use nutfilter::segment::Segment;
use nutfilter_files::faults;
use nutfilter_sequence::{Error, Sequence};

use crate::model::{NaiveBlocks, add, element, open, options, universe};
use crate::observer::Observer;

/// Times and elements of the refreshes: several blocks, hours and days, and parts that expire.
fn refreshes() -> Vec<(u64, Vec<u64>)> {
    vec![
        (2_000, (0..9).collect()),
        (3_000, vec![9]),
        (4_000, vec![10, 11, 3]),
        (7_300, vec![12]),
        (8_000, vec![]),
        (90_000, (12..20).collect()),
        (180_000, vec![20]),
    ]
}

/// Makes all refreshes that are left, until one fails. Events that are reported come one by one, and again after a failure.
fn run(
    reported: bool,
    sequence: &mut Sequence,
    left: &mut Vec<(u64, Vec<u64>)>,
    observer: &mut Observer,
) -> Result<(), Error> {
    while let Some((now, items)) = left.first_mut() {
        if reported {
            while let Some(&i) = items.first() {
                sequence.inbox().push(&[element(i)])?;
                items.remove(0);
            }
            sequence.add_reported(*now)?;
        } else {
            let elements: Vec<_> = items.iter().map(|&i| element(i)).collect();
            add(sequence, &elements, *now)?;
        }
        observer.observe(&sequence.view());
        sequence.compact(*now)?;
        observer.observe(&sequence.view());
        left.remove(0);
    }
    Ok(())
}

fn check(sequence: &Sequence, observer: &mut Observer) {
    let manifest = observer.observe(&sequence.view()).unwrap();
    let all: Vec<_> = (0..21).map(element).collect();
    observer.check_segments(&manifest, &all);
    let (mut blocks, mut known) = (NaiveBlocks::new(1_000), 0);
    for (now, items) in refreshes() {
        let new = items.into_iter().filter(|&i| i >= known);
        let new: Vec<u64> = new.collect();
        known = new.iter().max().map_or(known, |&last| last + 1);
        blocks.add(new.into_iter().map(element).collect(), now);
    }
    blocks.check(sequence);
}

fn check_reported(sequence: &Sequence, observer: &mut Observer, exact: bool) {
    assert_eq!(sequence.inbox().waiting(), 0);
    let manifest = observer.observe(&sequence.view()).unwrap();
    let all: Vec<_> = (0..21).map(element).collect();
    let all = Segment::from_elements(universe(), &all).unwrap();
    assert_eq!(observer.union(&manifest), all);
    let mut blocks = NaiveBlocks::new(1_000);
    for (now, items) in refreshes() {
        // Those that come again count again.
        blocks.add(items.into_iter().map(element).collect(), now);
    }
    if exact {
        blocks.check(sequence);
    }
}

/// Fails each change in turn, until all succeed.
fn with_faults(restart: bool, reported: bool) {
    let check = |sequence: &Sequence, observer: &mut Observer| match reported {
        true => check_reported(sequence, observer, !restart),
        false => check(sequence, observer),
    };
    let mut changes = 1;
    loop {
        let directory = tempfile::tempdir().unwrap();
        let options = options();
        faults::after(changes);
        let mut left = refreshes();
        let mut observer = Observer::default();
        let mut done = false;
        match Sequence::open(directory.path(), options, 1_000) {
            Err(_) => {}
            Ok(mut sequence) => {
                done = run(reported, &mut sequence, &mut left, &mut observer).is_ok();
                if !done && !restart {
                    // The disk works again in the same process.
                    faults::after(u64::MAX);
                    run(reported, &mut sequence, &mut left, &mut observer).unwrap();
                    check(&sequence, &mut observer);
                }
            }
        }
        if done {
            // Without a fault, and without a restart.
            assert!(changes > 100, "only {changes} changes");
            return;
        }
        let mut sequence = open(directory.path());
        observer.observe(&sequence.view());
        run(reported, &mut sequence, &mut left, &mut observer).unwrap();
        check(&sequence, &mut observer);
        changes += 1;
    }
}

#[test]
fn crash_at_any_change_loses_and_repeats_nothing() {
    with_faults(true, false);
}

#[test]
fn full_disk_at_any_change_loses_and_repeats_nothing() {
    with_faults(false, false);
}

#[test]
fn crash_at_any_change_loses_no_reported_event() {
    with_faults(true, true);
}

#[test]
fn full_disk_at_any_change_loses_and_repeats_no_reported_event() {
    with_faults(false, true);
}
