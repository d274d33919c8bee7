//! `kill -9` at any moment: nothing published changes, and nothing is lost or added twice.

use std::env;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use nutfilter::segment::Segment;
use nutfilter_files::faults;
use nutfilter_sequence::Sequence;

use crate::model::{add, element, options, universe};
use crate::observer::Observer;

#[path = "../sequence/model.rs"]
#[allow(dead_code, reason = "the other tests use the rest")]
mod model;
#[path = "../sequence/observer.rs"]
mod observer;
mod victim;

/// Number of the first event that the victim reports. Without it, it adds elements.
const REPORTS: &str = "NUTFILTER_TEST_REPORTS";

/// Default number of kills.
const KILLS: u64 = 40;

/// Elements per refresh. Each refresh repeats the one before, as after a crash of the mint's service.
const NEW: u64 = 7;

fn open(directory: &Path) -> Sequence {
    let options = options();
    faults::off();
    Sequence::open(directory, options, 1_000).unwrap()
}

/// The next refresh follows from what is published.
fn refresh(sequence: &mut Sequence) -> u64 {
    let known = sequence.elements();
    let elements: Vec<_> = (known.saturating_sub(NEW)..known + NEW)
        .map(element)
        .collect();
    // About a refresh in 13 minutes: hours and days are over soon.
    let now = 2_000 + known * 113;
    add(sequence, &elements, now).unwrap();
    sequence.compact(now).unwrap();
    now
}

/// Not a test: the process that is killed. It adds elements, always a multiple of [`NEW`], or reports events.
#[test]
fn a_victim_if_this_process_is_one() {
    let Some(directory) = victim::directory() else {
        return;
    };
    let mut sequence = open(&directory);
    println!("ready");
    if let Ok(first) = env::var(REPORTS) {
        for i in first.parse().unwrap().. {
            sequence.inbox().push(&[element(i)]).unwrap();
            println!("reported {i}.");
            if i % NEW == 0 {
                publish(&mut sequence, i);
                println!("refreshed");
            }
        }
    }
    loop {
        refresh(&mut sequence);
        println!("refreshed");
    }
}

/// Publishes what was reported until event number `i`.
fn publish(sequence: &mut Sequence, i: u64) {
    let now = 2_000 + i * 113;
    sequence.add_reported(now).unwrap();
    sequence.compact(now).unwrap();
}

/// Events before number `reported` were acknowledged. One more may have been taken.
fn check_reported(directory: &Path, observer: &mut Observer, reported: u64) {
    let mut sequence = open(directory);
    observer.observe(&sequence.view());
    publish(&mut sequence, reported);
    let manifest = observer.observe(&sequence.view()).unwrap();
    let union = observer.union(&manifest);
    let expected = [reported, reported + 1].map(|end| {
        let elements: Vec<_> = (0..end).map(element).collect();
        Segment::from_elements(universe(), &elements).unwrap()
    });
    assert!(expected.contains(&union), "{reported} of {}", union.n());
}

fn check(directory: &Path, observer: &mut Observer) -> u64 {
    let mut sequence = open(directory);
    observer.observe(&sequence.view());
    let n = sequence.elements();
    assert_eq!(n % NEW, 0, "a batch is added whole or not at all");
    refresh(&mut sequence);
    let all: Vec<_> = (0..n + NEW).map(element).collect();
    let manifest = observer.observe(&sequence.view()).unwrap();
    observer.check_segments(&manifest, &all);
    // Each element is inserted into one block, which has room for 2.
    let sealed = sequence.view().open_height().unwrap();
    assert!(sealed >= (n + NEW) / 2, "{sealed} blocks of {n} elements");
    n
}

#[test]
fn sequence_killed_at_any_moment_is_unchanged() {
    kill_often(false);
}

#[test]
fn reported_events_survive_kills_at_any_moment() {
    kill_often(true);
}

/// One test at a time: a process that another thread starts holds copies of all locks until it executes its program.
static ALONE: Mutex<()> = Mutex::new(());

fn kill_often(reports: bool) {
    if victim::directory().is_some() {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let kills = victim::kills(KILLS);
    let mut directory = tempfile::tempdir().unwrap();
    let mut observer = Observer::default();
    let mut seed = 88_172_645_463_325_252;
    let (mut refreshed, mut reported) = (0, 0);
    for kill in 0..kills {
        if kill % 50 == 49 {
            // A long sequence takes long to compare.
            directory = tempfile::tempdir().unwrap();
            observer = Observer::default();
            reported = 0;
        }
        let said = victim::kill(
            directory.path(),
            reports.then_some((REPORTS, reported)),
            &mut seed,
        );
        refreshed += u64::from(said.contains("refreshed"));
        if reports {
            let numbers = said
                .lines()
                .filter_map(|line| line.strip_prefix("reported "));
            let mut numbers =
                numbers.filter_map(|line| line.strip_suffix('.')?.parse::<u64>().ok());
            reported = numbers.next_back().map_or(reported, |last| last + 1);
            check_reported(directory.path(), &mut observer, reported);
        } else {
            check(directory.path(), &mut observer);
        }
    }
    assert!(refreshed > kills / 4, "{refreshed} of {kills} came so far");
}
