//! Notes that are handed over, through the refresher and from many threads.

use super::*;
use crate::source::{Commit, CommitToken, Notes};
use core::ops::ControlFlow;

pub(super) fn point(number: u64) -> [u8; 33] {
    let mut point = [2; 33];
    point[25..].copy_from_slice(&number.to_be_bytes());
    point
}

/// Notes over the store of `fake`, and their refresher at 1,000 s, after its first refresh.
fn handing_over(fake: &Fake) -> (Notes, Refresher, Clocks) {
    let (clocks, options) = (Clocks::at(1_000), RefreshOptions::default());
    let (notes, source) = Notes::new(fake.clone());
    let monitor = Monitor::new(Arc::new(Table::in_memory()));
    let mut refresher = Refresher::with_clock(source, monitor, options, clocks.clock());
    refresh(&mut refresher);
    (notes, refresher, clocks)
}

/// What the notes and dates then are is tried by random histories.
#[test]
fn words_decide_how_often_the_store_is_read() {
    let fake = Fake::new();
    let (notes, mut refresher, clocks) = handing_over(&fake);
    // Open commits, doubts, and readings of the store after a word.
    let mut after = |word: &mut dyn FnMut(Commit)| {
        fake.state().asked.clear();
        clocks.pass(10);
        let mut commit = notes.begin();
        commit.spent(&keyset(1), [point(1)]);
        word(commit);
        refresh(&mut refresher);
        let status = refresher.monitor().status().open_commits;
        assert_eq!(status.oldest.is_some(), status.open > 0);
        let asked = core::mem::take(&mut fake.state().asked);
        assert!(!asked.contains(&true), "the whole store is read");
        (status.open, status.doubts, asked.len())
    };
    assert_eq!(after(&mut Commit::done), (0, 0, 0));
    assert_eq!(after(&mut Commit::rolled_back), (0, 0, 0));
    assert_eq!(after(&mut Commit::ended), (0, 0, 2));
    assert_eq!(after(&mut |commit| commit.token().ended()), (0, 0, 2));
    let mut both = |commit: Commit| {
        commit.token().ended();
        commit.done();
    };
    assert_eq!(after(&mut both), (0, 0, 0));
    let mut token = None;
    let mut drop = |commit: Commit| token = Some(commit.token());
    assert_eq!(after(&mut drop), (1, 1, 0));
    assert_eq!(after(&mut Commit::ended), (1, 1, 2));
    let token: CommitToken = token.unwrap();
    [&token; 2].into_iter().for_each(CommitToken::ended);
    assert_eq!(after(&mut Commit::done), (0, 0, 2));
}

#[test]
fn bytes_of_another_length_hold_the_keyset() {
    let (notes, mut refresher, _) = handing_over(&Fake::new());
    let mut commit = notes.begin();
    commit.spent(&keyset(1), [&[2; 33][..], b"0202"]);
    commit.spent(&keyset(2), [[2; 33]]);
    commit.done();
    let failures = refresher.refresh(false).unwrap().failures;
    let paths = failures.iter().map(|(path, _)| path.as_str());
    assert_eq!(Vec::from_iter(paths), [path(Spent, 1)]);
    assert!(refresher.refresh(true).unwrap().is_complete());
}

#[test]
fn store_must_prove_when_it_was_read() {
    for (as_of, expected) in [
        (AsOf::Beginning, Ok(false)),
        (AsOf::Before(Duration::from_secs(5)), Ok(true)),
        (AsOf::StoreClock(0), Ok(true)),
        (AsOf::StoreClock(u64::MAX), Ok(false)),
        (AsOf::LastChange(1), Err(())),
        (AsOf::Unknown, Err(())),
    ] {
        let fake = Fake::new();
        fake.state().as_of = Some(as_of);
        let reading = Notes::new(fake).1.read(Spent, true, &mut vec![]);
        let is_old = reading.map(|reading| match reading.as_of {
            AsOf::Before(age) => age >= Duration::from_secs(5),
            _ => false,
        });
        assert_eq!(is_old.map_err(drop), expected, "{as_of:?}");
    }
}

/// Handed-over notes alone.
impl ItemSink for Vec<u64> {
    fn items(&mut self, _: Option<&KeysetId>, _: &ItemBatch) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn hashes(&mut self, _: &KeysetId, hashes: &[u64]) -> ControlFlow<()> {
        self.extend(hashes);
        ControlFlow::Continue(())
    }

    fn bad_row(&mut self, _: Option<&KeysetId>, error: SourceError) -> ControlFlow<()> {
        panic!("{error}");
    }
}

/// `cargo test --release -p nutfilter-mint --lib -- --ignored --nocapture cost_of_handing_over`. A thread waits for the CPU as long
/// as the system likes, and for others as long as one of them holds a lock: less than the CPU time of a call. Some calls also have
/// that of an interrupt, as often as a call of nothing has.
#[test]
#[ignore = "measures: it needs a release build"]
fn cost_of_handing_over() {
    let (notes, mut refresher, _) = handing_over(&Fake::default());
    let id = keyset(1);
    let mut first = notes.begin();
    first.spent(&id, (0..10_000_000).map(point));
    first.done();
    refresh(&mut refresher);
    let now = || crate::thread::cpu_time().unwrap();
    let commit = |number: u64| {
        let items = Vec::from_iter((0..20).map(|item| point((1 << 40) + 20 * number + item)));
        let (before, nothing) = (now(), now());
        let mut commit = notes.begin();
        let begun = now();
        commit.spent(&id, items);
        let spent = now();
        commit.done();
        [nothing - before, begun - nothing, spent - begun, now() - spent]
    };
    let commits = |thread: u64| Vec::from_iter((0..100_000).map(|at| commit(thread << 20 | at)));
    let commits = &commits;
    let laps = std::thread::scope(|scope| {
        let writers = [1, 2, 3, 4, 5, 6, 7, 8].map(|thread| scope.spawn(move || commits(thread)));
        while !writers.iter().all(|writer| writer.is_finished()) {
            refresh(&mut refresher);
        }
        writers.map(|writer| writer.join().unwrap()).concat()
    });
    for (at, what) in ["nothing", "begin", "spent, of 20 notes", "done"].into_iter().enumerate() {
        let mut laps = Vec::from_iter(laps.iter().map(|laps| laps[at]));
        laps.sort();
        let long = laps.iter().filter(|lap| lap.as_micros() >= 50).count();
        let (half, count) = (laps[laps.len() / 2], laps.len());
        println!("CPU time of {what}: {half:?} in the middle; {long} of {count} take 50 µs");
    }
}
