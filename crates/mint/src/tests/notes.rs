//! Notes that are handed over, through the refresher and from many threads.

use core::ops::ControlFlow;
use std::collections::HashMap;
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
    assert_eq!(after(&mut drop), (15, 1, 1, 1, 0));
    assert_eq!(after(&mut Commit::ended), (16, 1, 1, 1, 2));
    [token.clone(), token].map(|token| token.unwrap().ended());
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
        let reading = Notes::new(fake).1.read(Spent, true, &mut Seen::default());
        let is_old = reading.map(|reading| match reading.as_of {
            AsOf::Before(age) => age >= Duration::from_secs(5),
            _ => false,
        });
        assert_eq!(is_old.map_err(drop), expected, "{as_of:?}");
    }
}

/// Hashes, and the number of the reading that had them first.
#[derive(Default)]
struct Seen {
    hashes: HashMap<u64, usize>,
    reading: usize,
}

impl ItemSink for Seen {
    fn items(&mut self, keyset: Option<&KeysetId>, items: &ItemBatch) -> ControlFlow<()> {
        let hashes: Vec<u64> = items.items().map(|item| Nut25.hash(item)).collect();
        self.hashes(keyset.unwrap(), &hashes)
    }

    fn hashes(&mut self, _: &KeysetId, hashes: &[u64]) -> ControlFlow<()> {
        for &hash in hashes {
            self.hashes.entry(hash).or_insert(self.reading);
        }
        ControlFlow::Continue(())
    }

    fn bad_row(&mut self, _: Option<&KeysetId>, error: SourceError) -> ControlFlow<()> {
        panic!("{error}");
    }
}

#[test]
fn no_reading_among_threads_lacks_what_landed_before() {
    const COMMITS: u64 = 1_000;
    let fake = Fake::default();
    let (notes, mut source) = Notes::new(fake.clone());
    let (is_over, mut seen, mut claims) = (AtomicBool::new(false), Seen::default(), vec![]);
    let write = |thread| {
        let mut late: Option<CommitToken> = None;
        let one = |number| {
            let item = point(thread * COMMITS + number);
            let mut commit = notes.begin();
            let token = commit.token();
            commit.spent(&keyset(1), [item]);
            fake.state().rows[0].push((1, item.to_vec()));
            let landed = Instant::now();
            late.take().inspect(CommitToken::ended);
            match number % 8 {
                0 => token.ended(),
                1 => commit.ended(),
                2 => late = Some(token),
                _ => commit.done(),
            }
            if number % 20 == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            (Nut25.hash(&item), landed)
        };
        (0..COMMITS).map(one).collect::<Vec<_>>()
    };
    let landed = std::thread::scope(|scope| {
        let writers = [0, 1, 2, 3].map(|thread| scope.spawn(move || write(thread)));
        scope.spawn(|| {
            let mut is_last = false;
            while !is_last {
                is_last = is_over.load(Ordering::SeqCst);
                let began = Instant::now();
                let reading = source.read(Spent, false, &mut seen).unwrap();
                claims.push(match reading.as_of {
                    AsOf::Before(age) => began - age,
                    _ => began,
                });
                seen.reading += 1;
            }
        });
        let landed = writers.map(|writer| writer.join().unwrap());
        is_over.store(true, Ordering::SeqCst);
        landed.concat()
    });
    for (hash, landed) in landed {
        let lacking = &claims[..seen.hashes[&hash]];
        assert!(lacking.iter().all(|until| *until <= landed));
    }
    assert!(
        notes.status().open == 0 && claims.len() > 5,
        "{}",
        claims.len()
    );
}

/// `cargo test --release -p nutfilter-mint --lib -- --ignored --nocapture cost_of_handing_over`
#[test]
#[ignore = "measures: it takes a minute, and needs a release build"]
fn cost_of_handing_over() {
    const THREADS: u64 = 8;
    let (notes, mut source) = Notes::new(Fake::default());
    let all = (0..10_000_000).map(|number| Nut25.hash(&point(number)));
    let all = SortedHashes::from_hashes(all.collect());
    println!("notes   pause   others  CPU/note  99.9% of calls  longest  over 50 us");
    for (per_commit, pause, commits) in [(10, 0, 100_000), (2, 0, 200_000), (10, 1, 3_000)] {
        for is_shared in [false, true] {
            let is_over = AtomicBool::new(false);
            let write = || {
                let own = Notes::new(Fake::default()).0;
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
                    waits.extend(times.windows(2).map(|pair| pair[1] - pair[0]));
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
                            source.read(kind, false, &mut Seen::default()).unwrap();
                        }
                        std::hint::black_box(all.encode(Params::default()).unwrap());
                    }
                });
                let each = writers.map(|writer| writer.join().unwrap());
                is_over.store(true, Ordering::Relaxed);
                each.into_iter().unzip()
            });
            let mut waits = waits.concat();
            waits.sort_unstable();
            let (usual, longest) = (waits[waits.len() / 1000 * 999], waits[waits.len() - 1]);
            let long = waits.iter().filter(|wait| wait.as_micros() > 50).count();
            let (cpu, count) = (cpu.iter().sum::<u64>(), waits.len());
            let cpu = cpu / (THREADS * commits * per_commit);
            println!(
                "{per_commit:5} {pause:4} ms {is_shared:>8} {cpu:6} ns {usual:>15.1?} {longest:>8.1?} {long:6} of {count}"
            );
        }
    }
}

/// The CPU time of this thread, in nanoseconds.
fn cpu() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split(' ').next().unwrap().parse().unwrap()
}
