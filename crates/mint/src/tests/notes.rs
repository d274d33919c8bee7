//! Notes that are handed over, through the refresher and from many threads.

use core::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

use nutfilter::{ItemHash as _, Nut25, Params, SortedHashes};

use super::*;
use crate::source::{Commit, CommitToken, Notes};

fn point(number: u64) -> [u8; 33] {
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

#[test]
fn words_decide_contents_dates_and_readings_of_the_store() {
    let fake = Fake::new();
    let (notes, mut refresher, clocks) = handing_over(&fake);
    let with_note = |number| {
        let mut commit = notes.begin();
        commit.spent(&keyset(1), [point(number)]);
        commit
    };
    let mut now = 1_000;
    // One note is handed over, and another one with a word about it. The number of notes, whole seconds between date and
    // reading, open commits, doubts, and readings of the store that follow.
    let mut after = |word: &mut dyn FnMut(Commit)| {
        (now, fake.state().asked) = (now + 10, vec![]);
        clocks.pass(10);
        with_note(now).done();
        word(with_note(now + 1));
        refresh(&mut refresher);
        let status = refresher.monitor().status().open_commits;
        assert_eq!(status.oldest.is_some(), status.open > 0);
        let count = count(&refresher, Spent, 1).unwrap();
        let age = now - date(&refresher, Spent, 1).unwrap();
        let asked = core::mem::take(&mut fake.state().asked);
        assert!(!asked.contains(&true), "the whole store is read");
        (count, age, status.open, status.doubts, asked.len())
    };
    assert_eq!(after(&mut Commit::done), (5, 0, 0, 0, 0));
    assert_eq!(after(&mut Commit::rolled_back), (6, 0, 0, 0, 0));
    assert_eq!(after(&mut Commit::ended), (7, 0, 0, 0, 2));
    assert_eq!(after(&mut |commit| commit.token().ended()), (8, 0, 0, 0, 2));
    let mut both = |commit: Commit| {
        commit.token().ended();
        commit.done();
    };
    assert_eq!(after(&mut both), (10, 0, 0, 0, 0));
    let (mut kept, mut token) = (vec![], None);
    assert_eq!(after(&mut |commit| kept.push(commit)), (11, 1, 1, 0, 0));
    kept.into_iter().for_each(Commit::done);
    assert_eq!(after(&mut Commit::done), (14, 0, 0, 0, 0));
    let mut drop = |commit: Commit| token = Some(commit.token());
    assert_eq!(after(&mut drop), (14, 10, 1, 1, 0));
    assert_eq!(after(&mut Commit::ended), (16, 1, 1, 1, 2));
    let token: CommitToken = token.unwrap();
    [&token; 2].into_iter().for_each(CommitToken::ended);
    assert_eq!(after(&mut Commit::done), (18, 0, 0, 0, 2));
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

/// `cargo test --release -p nutfilter-mint --lib -- --ignored --nocapture cost_of_handing_over`
#[test]
#[ignore = "measures: it takes a minute, and needs a release build"]
fn cost_of_handing_over() {
    const THREADS: u64 = 8;
    let (notes, mut source) = Notes::new(Fake::default());
    let all = (0..10_000_000).map(|number| Nut25.hash(&point(number)));
    let all = SortedHashes::from_hashes(all.collect());
    println!("notes  pause  shared  CPU/note  medians: begin, notes, done  longest  over 50 us");
    for (per_commit, pause, commits) in [(10, 0, 100_000), (2, 0, 200_000), (10, 1, 3_000)] {
        for is_shared in [false, true] {
            let is_over = AtomicBool::new(false);
            let write = || {
                let (own, _source) = Notes::new(Fake::default());
                let notes = if is_shared { &notes } else { &own };
                let (ids, items) = (
                    [1, 2].map(keyset),
                    Vec::from_iter((0..per_commit).map(point)),
                );
                let (spent, issued) = items.split_at(items.len() / 2);
                let (mut waits, start) = (vec![], cpu());
                for _ in 0..commits {
                    let mut times = [Instant::now(); 4];
                    let mut commit = notes.begin();
                    times[1] = Instant::now();
                    commit.spent(&ids[0], spent);
                    commit.issued(&ids[1], issued);
                    times[2] = Instant::now();
                    commit.done();
                    times[3] = Instant::now();
                    waits.push([0, 1, 2].map(|at| times[at + 1] - times[at]));
                    if pause > 0 {
                        std::thread::sleep(Duration::from_millis(pause));
                    }
                }
                (waits, cpu() - start)
            };
            let (waits, cpu): (Vec<_>, Vec<_>) = std::thread::scope(|scope| {
                let writers = [(); THREADS as usize].map(|()| scope.spawn(write));
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        for kind in NoteKind::ALL {
                            source.read(kind, false, &mut vec![]).unwrap();
                        }
                        std::hint::black_box(all.encode(Params::default()).unwrap());
                    }
                });
                let each = writers.map(|writer| writer.join().unwrap());
                is_over.store(true, Ordering::Relaxed);
                each.into_iter().unzip()
            });
            let waits = waits.concat();
            let medians = [0, 1, 2].map(|at| {
                let mut waits = Vec::from_iter(waits.iter().map(|calls| calls[at]));
                let half = waits.len() / 2;
                *waits.select_nth_unstable(half).1
            });
            let longest = waits.iter().flatten().max().unwrap();
            let long = waits.iter().flatten().filter(|wait| wait.as_micros() > 50);
            let long = long.count();
            let (cpu, count) = (cpu.iter().sum::<u64>(), 3 * waits.len());
            let cpu = cpu / (THREADS * commits * per_commit);
            println!(
                "{per_commit:5} {pause:3} ms {is_shared:>7} {cpu:6} ns {medians:>9.0?} {longest:>8.1?} {long:6} of {count}"
            );
        }
    }
}

/// The CPU time of this thread, in nanoseconds.
fn cpu() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split(' ').next().unwrap().parse().unwrap()
}
