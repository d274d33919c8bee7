//! Notes that are handed over, through the refresher and from many threads.

use core::ops::ControlFlow;
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;

use nutfilter::{ItemHash as _, Nut25, Params, SortedHashes};

use super::*;
use crate::FilterState;
use crate::source::{Commit, CommitToken, Notes};

fn point(number: u64) -> [u8; 33] {
    let mut point = [2; 33];
    point[25..].copy_from_slice(&number.to_be_bytes());
    point
}

/// Notes over the store of `fake`, and their refresher at 1,000 s, after its first refresh.
fn handing_over(fake: &Fake) -> (Notes, Refresher, Clocks) {
    let clocks = Clocks::at(1_000);
    let (notes, source) = Notes::new(fake.clone());
    let monitor = Monitor::new(Arc::new(Table::in_memory()));
    let mut refresher =
        Refresher::with_clock(source, monitor, RefreshOptions::default(), clocks.clock());
    refresh(&mut refresher);
    (notes, refresher, clocks)
}

#[test]
fn words_decide_dates_contents_and_readings_of_the_store() {
    let fake = Fake::new();
    let (notes, mut refresher, clocks) = handing_over(&fake);
    let with_note = |number| {
        let mut commit = notes.begin();
        commit.spent(&keyset(1), [point(number)]);
        commit
    };
    let (mut now, mut number) = (1_000, 0);
    let mut row = |word: &dyn Fn(Commit), expected: (u32, bool, u64, u64, bool)| {
        (now, number) = (now + 10, number + 2);
        clocks.pass(10);
        fake.state().asked.clear();
        with_note(number).done();
        word(with_note(number + 1));
        refresh(&mut refresher);
        let status = refresher.monitor().status().open_commits;
        let is_present = date(&refresher, Spent, 1) == Some(now);
        let asked = fake.state().asked.clone();
        let (open, doubts) = (status.open, status.doubts);
        let found = (
            count(&refresher, Spent, 1).unwrap(),
            is_present,
            open,
            doubts,
            asked == [false; 2],
        );
        assert_eq!(found, expected, "{asked:?}");
        assert_eq!(status.oldest.is_some(), open > 0);
    };
    // The store has 3 notes, and each row hands one over.
    row(&Commit::done, (5, true, 0, 0, false));
    row(&Commit::rolled_back, (6, true, 0, 0, false));
    row(&Commit::ended, (7, true, 0, 0, true));
    let ended_first = |commit: Commit| commit.token().ended();
    row(&ended_first, (8, true, 0, 0, true));
    let both = |commit: Commit| {
        commit.token().ended();
        commit.done();
    };
    row(&both, (10, true, 0, 0, false));
    let kept = Mutex::new(vec![]);
    row(
        &|commit| kept.lock().unwrap().push(commit),
        (11, false, 1, 0, false),
    );
    row(
        &|commit| {
            kept.lock()
                .unwrap()
                .drain(..)
                .chain([commit])
                .for_each(Commit::done)
        },
        (14, true, 0, 0, false),
    );
    let token = Mutex::new(None);
    row(
        &|commit| *token.lock().unwrap() = Some(commit.token()),
        (15, false, 1, 1, false),
    );
    row(&Commit::ended, (16, false, 1, 1, true));
    let end = |commit: Commit| {
        let token = token.lock().unwrap().take().unwrap();
        token.ended();
        token.ended();
        commit.done();
    };
    row(&end, (18, true, 0, 0, true));
}

#[test]
fn filter_is_dated_before_the_second_of_an_open_commit() {
    let (notes, mut refresher, clocks) = handing_over(&Fake::new());
    let open = notes.begin();
    let mut commit = notes.begin();
    commit.issued(&keyset(1), [point(1)]);
    commit.done();
    clocks.pass(10);
    refresh(&mut refresher);
    // The commit began after 1,009 s.
    assert_eq!(date(&refresher, Issued, 1), Some(1_009));
    open.rolled_back();
}

#[test]
fn bytes_of_another_length_hold_the_keyset() {
    let fake = Fake::new();
    let (notes, mut refresher, _clocks) = handing_over(&fake);
    let mut commit = notes.begin();
    commit.spent(&keyset(1), [&[2; 33][..], b"0202"]);
    commit.spent(&keyset(2), [[2; 33]]);
    commit.done();
    let report = refresher.refresh(false).unwrap();
    assert_eq!(report.failures.len(), 1, "{:?}", report.failures);
    let state = |path: String| {
        let filters = refresher.monitor().status().filters;
        filters
            .into_iter()
            .find(|filter| filter.path == path)
            .unwrap()
            .state
    };
    assert_eq!(
        [1, 2].map(|number| state(path(Spent, number))),
        [FilterState::Unreadable, FilterState::Current]
    );
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
        let (_notes, mut source) = Notes::new(fake);
        let reading = source.read(Spent, true, &mut Seen::default());
        let age = reading.map(|reading| match reading.as_of {
            AsOf::Before(age) => age >= Duration::from_secs(5),
            _ => false,
        });
        assert_eq!(age.map_err(drop), expected, "{as_of:?}");
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
    let landed: Vec<(u64, Instant)> = std::thread::scope(|scope| {
        let write = |thread| {
            let (notes, fake) = (&notes, &fake);
            let mut late: Option<CommitToken> = None;
            let one = move |number: u64| {
                let item = point(thread * COMMITS + number);
                let mut commit = notes.begin();
                let token = commit.token();
                commit.spent(&keyset(1), [item]);
                fake.state().rows[0].push((1, item.to_vec()));
                let landed = Instant::now();
                late.take().inspect(CommitToken::ended);
                match number % 8 {
                    0 => {
                        drop(commit);
                        token.ended();
                    }
                    1 => {
                        token.ended();
                        drop(commit);
                    }
                    2 => commit.ended(),
                    3 => {
                        drop(commit);
                        late = Some(token);
                    }
                    _ => commit.done(),
                }
                (Nut25.hash(&item), landed)
            };
            (0..COMMITS).map(one).collect::<Vec<_>>()
        };
        let writers: Vec<_> = (0..4)
            .map(|thread| scope.spawn(move || write(thread)))
            .collect();
        let reader = scope.spawn(|| {
            loop {
                let is_last = is_over.load(Ordering::SeqCst);
                let began = Instant::now();
                let reading = source.read(Spent, false, &mut seen).unwrap();
                claims.push(match reading.as_of {
                    AsOf::Before(age) => began.checked_sub(age).unwrap(),
                    _ => began,
                });
                seen.reading += 1;
                if is_last {
                    break;
                }
            }
        });
        let landed = writers
            .into_iter()
            .flat_map(|writer| writer.join().unwrap())
            .collect();
        is_over.store(true, Ordering::SeqCst);
        reader.join().unwrap();
        landed
    });
    let mut latest = claims.clone();
    for at in 1..latest.len() {
        latest[at] = latest[at].max(latest[at - 1]);
    }
    for (hash, landed) in landed {
        let first = seen.hashes[&hash];
        assert!(
            first == 0 || latest[first - 1] <= landed,
            "reading {} of {} lacks a note",
            first - 1,
            claims.len()
        );
    }
    assert!(notes.status().open == 0 && claims.len() > 2);
}

/// `cargo test --release -p nutfilter-mint --lib -- --ignored --nocapture cost_of_handing_over`
#[test]
#[ignore = "measures: it takes a minute, and needs a release build"]
fn cost_of_handing_over() {
    const THREADS: u64 = 8;
    let (notes, mut source) = Notes::new(Fake::default());
    let all = (0..10_000_000).map(|number| Nut25.hash(&point(number)));
    let all = SortedHashes::from_hashes(all.collect());
    println!("notes  pause      with  CPU/note  calls: 99.9%  longest  over 50 us");
    for (per_commit, pause, commits) in [(10, 0, 100_000), (2, 0, 200_000), (10, 1, 3_000)] {
        for with in ["nothing", "others"] {
            let is_over = AtomicBool::new(false);
            let (waits, cpu): (Vec<_>, Vec<_>) = std::thread::scope(|scope| {
                let write = || {
                    let own = match with {
                        "nothing" => Notes::new(Fake::default()).0,
                        _ => notes.clone(),
                    };
                    let (ids, items) = (
                        [1, 2].map(keyset),
                        Vec::from_iter((0..per_commit).map(point)),
                    );
                    let (spent, issued) = items.split_at(items.len() / 2);
                    let (mut waits, cpu) = (vec![], cpu());
                    for _ in 0..commits {
                        let start = Instant::now();
                        let mut commit = own.begin();
                        let begun = Instant::now();
                        commit.spent(&ids[0], spent);
                        commit.issued(&ids[1], issued);
                        let added = Instant::now();
                        commit.done();
                        let end = Instant::now();
                        waits.extend([begun - start, added - begun, end - added]);
                        if pause > 0 {
                            std::thread::sleep(Duration::from_millis(pause));
                        }
                    }
                    (waits, super::notes::cpu() - cpu)
                };
                let writers = Vec::from_iter((0..THREADS).map(|_| scope.spawn(write)));
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        for kind in NoteKind::ALL {
                            source.read(kind, false, &mut Seen::default()).unwrap();
                        }
                        std::hint::black_box(all.encode(Params::default()).unwrap());
                    }
                });
                let each = writers
                    .into_iter()
                    .map(|writer| writer.join().unwrap())
                    .unzip();
                is_over.store(true, Ordering::Relaxed);
                each
            });
            let mut waits = waits.concat();
            waits.sort_unstable();
            let over = waits
                .iter()
                .filter(|wait| **wait > Duration::from_micros(50))
                .count();
            println!(
                "{per_commit:5} {pause:3} ms {with:>9} {:>6} ns {:>13.1?} {:>8.1?} {over:5} of {}",
                cpu.iter().sum::<u64>() / (THREADS * commits * per_commit),
                waits[waits.len() / 1000 * 999],
                waits[waits.len() - 1],
                waits.len(),
            );
        }
    }
}

/// The CPU time of this thread, in nanoseconds.
fn cpu() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split(' ').next().unwrap().parse().unwrap()
}
