//! A feed as the source: nothing that was pushed is lost, whatever happens.

use core::ops::ControlFlow;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use nutfilter_mint::source::{
    FeedError, FeedHandle, FeedSource, ItemBatch, ItemFeed, ItemSink, KeysetInfo, MintSource,
    SourceError, Wanted, Watermark, feed, feed_with_capacity,
};
use nutfilter_mint::{KeysetId, NoteKind};

use crate::support::history::{Consumer, Held, Random, Tally};
use crate::support::{V1, V2, items, keyset};

fn push(handle: &FeedHandle, keyset_id: &str, items: &[Vec<u8>]) {
    for item in items {
        handle
            .push(NoteKind::Spent, &keyset(keyset_id), item)
            .unwrap();
    }
}

/// Takes this many batches and then breaks.
struct Impatient(u32);

impl ItemSink for Impatient {
    fn items(&mut self, _: &KeysetId, _: &ItemBatch) -> ControlFlow<()> {
        match self.0.checked_sub(1) {
            None => ControlFlow::Break(()),
            Some(left) => {
                self.0 = left;
                ControlFlow::Continue(())
            }
        }
    }

    fn bad_row(&mut self, _: &KeysetId, error: SourceError) -> ControlFlow<()> {
        panic!("{error}")
    }
}

fn sorted(items: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut items = items.to_vec();
    items.sort();
    items
}

#[test]
fn pushed_notes_are_read_once() {
    let (handle, mut source) = feed("my-mint");
    let notes = items(1, 10_000, 33);
    push(&handle, V1, &notes[..5000]);
    handle.checkpoint(NoteKind::Spent, b"5000").unwrap();
    let mut consumer = Consumer::default();
    let mut tally = Tally::default();
    consumer.refresh(&mut source, NoteKind::Spent, &mut tally);
    for to in [5000, 5001, 9500, 10_000] {
        let from = consumer.of(NoteKind::Spent).items[&keyset(V1)].len();
        push(&handle, V1, &notes[from..to]);
        consumer.refresh(&mut source, NoteKind::Spent, &mut tally);
        assert!(consumer.of(NoteKind::Spent).items[&keyset(V1)] == sorted(&notes[..to]));
    }
    assert_eq!((tally.whole, tally.increments), (1, 4));
    // Items are dropped once the next reading has confirmed them.
    consumer.refresh(&mut source, NoteKind::Spent, &mut tally);
    assert_eq!(handle.waiting(), 0);
}

#[test]
fn nothing_is_built_before_the_first_checkpoint() {
    let (handle, mut source) = feed("my-mint");
    push(&handle, V1, &items(1, 5, 33));
    let error = Held::whole(&mut source, NoteKind::Spent).unwrap_err();
    assert_eq!(
        error.to_string(),
        "spent: the mint has not fed all of its notes yet"
    );
    assert_eq!(handle.wanted(NoteKind::Spent), Wanted::Everything);
    assert_eq!(handle.wanted(NoteKind::Issued), Wanted::News);
    handle.checkpoint(NoteKind::Spent, b"").unwrap();
    let held = Held::whole(&mut source, NoteKind::Spent).unwrap();
    assert_eq!(held.items[&keyset(V1)].len(), 5);
    assert_eq!(handle.wanted(NoteKind::Spent), Wanted::News);
    assert!(Held::whole(&mut source, NoteKind::Issued).is_err());
}

#[test]
fn failed_reading_loses_nothing() {
    let (handle, mut source) = feed("my-mint");
    let notes = items(1, 20_000, 33);
    push(&handle, V1, &notes[..15_000]);
    handle.checkpoint(NoteKind::Spent, b"").unwrap();
    for batches in 0..3 {
        let failed = source.read(NoteKind::Spent, None, &mut Impatient(batches));
        assert!(matches!(failed, Err(SourceError::Stopped)));
    }
    let mut consumer = Consumer::default();
    consumer.refresh(&mut source, NoteKind::Spent, &mut Tally::default());
    assert!(consumer.of(NoteKind::Spent).items[&keyset(V1)] == sorted(&notes[..15_000]));
    push(&handle, V1, &notes[15_000..]);
    let watermark = consumer.of(NoteKind::Spent).watermark.clone();
    let failed = source.read(NoteKind::Spent, watermark.as_ref(), &mut Impatient(0));
    assert!(matches!(failed, Err(SourceError::Stopped)));
    consumer.refresh(&mut source, NoteKind::Spent, &mut Tally::default());
    assert!(consumer.of(NoteKind::Spent).items[&keyset(V1)] == sorted(&notes));
}

#[test]
fn full_queue_refuses_notes_until_it_was_read() {
    let (handle, mut source) = feed_with_capacity("my-mint", 410);
    let notes = items(1, 12, 33);
    push(&handle, V1, &notes[..10]);
    let id = keyset(V1);
    let full = handle.push(NoteKind::Spent, &id, &notes[10]);
    assert_eq!(full, Err(FeedError::Full { capacity: 410 }));
    assert_eq!(handle.waiting(), 410);
    handle.checkpoint(NoteKind::Spent, b"").unwrap();
    let mut consumer = Consumer::default();
    consumer.refresh(&mut source, NoteKind::Spent, &mut Tally::default());
    // The first reading's items might have been lost, so they are kept.
    assert!(handle.push(NoteKind::Spent, &id, &notes[10]).is_err());
    consumer.refresh(&mut source, NoteKind::Spent, &mut Tally::default());
    push(&handle, V1, &notes[10..]);
    consumer.refresh(&mut source, NoteKind::Spent, &mut Tally::default());
    assert!(consumer.of(NoteKind::Spent).items[&id] == sorted(&notes));
    assert_eq!(
        handle.push(NoteKind::Spent, &id, &[]),
        Err(FeedError::Empty)
    );
    assert_eq!(
        handle.checkpoint(NoteKind::Spent, &[0; 4097]),
        Err(FeedError::LongMark { length: 4097 })
    );
}

#[test]
fn keysets_are_announced_and_changed() {
    let (handle, mut source) = feed("my-mint");
    let info = |active| KeysetInfo {
        id: keyset(V2),
        unit: Some("sat".to_owned()),
        active,
        input_fee_ppk: 1,
    };
    handle.announce(info(true));
    handle.announce(info(false));
    assert_eq!(source.keysets().unwrap().keysets, [info(false)]);
    assert_eq!(source.mint(), "my-mint");
}

#[test]
fn after_restart_the_mint_gets_its_mark_and_feeds_the_rest() {
    let notes = items(1, 100, 33);
    let (handle, mut source) = feed("my-mint");
    push(&handle, V1, &notes[..60]);
    handle.checkpoint(NoteKind::Spent, b"sixty").unwrap();
    push(&handle, V1, &notes[60..70]);
    let mut consumer = Consumer::default();
    consumer.refresh(&mut source, NoteKind::Spent, &mut Tally::default());

    let (handle, mut source) = feed("my-mint");
    let watermark = consumer.of(NoteKind::Spent).watermark.clone().unwrap();
    let waiting = thread::spawn({
        let handle = handle.clone();
        move || handle.wait_until_wanted(NoteKind::Spent, Duration::from_secs(60))
    });
    let read = |source: &mut FeedSource, watermark: &Watermark| {
        source
            .read(NoteKind::Spent, Some(watermark), &mut Impatient(9))
            .map_err(|error| error.to_string())
    };
    let unfed = Err("spent: the mint has not fed the notes since the last run yet".to_owned());
    assert_eq!(read(&mut source, &watermark), unfed);
    let mark = Wanted::Since(b"sixty".to_vec());
    assert_eq!(waiting.join().unwrap(), mark);
    assert_eq!(handle.begin(NoteKind::Spent), mark);
    push(&handle, V1, &notes[60..]);
    assert_eq!(read(&mut source, &watermark), unfed);
    // It has already started to come, so it is not requested again.
    assert_eq!(handle.wanted(NoteKind::Spent), Wanted::News);
    handle.checkpoint(NoteKind::Spent, b"hundred").unwrap();
    let mut tally = Tally::default();
    consumer.refresh(&mut source, NoteKind::Spent, &mut tally);
    assert_eq!((tally.whole, tally.increments), (0, 1));
    assert!(consumer.of(NoteKind::Spent).items[&keyset(V1)] == sorted(&notes));
}

#[test]
fn mint_that_always_feeds_everything_needs_no_marks() {
    let notes = items(1, 100, 33);
    let mut consumer = Consumer::default();
    let mut tally = Tally::default();
    for run in 1..4 {
        let (handle, mut source) = feed("my-mint");
        push(&handle, V1, &notes[..run * 30]);
        handle.checkpoint(NoteKind::Spent, b"").unwrap();
        consumer.refresh(&mut source, NoteKind::Spent, &mut tally);
        push(&handle, V1, &notes[run * 30..][..5]);
        consumer.refresh(&mut source, NoteKind::Spent, &mut tally);
        let expected = sorted(&notes[..run * 30 + 5]);
        assert!(consumer.of(NoteKind::Spent).items[&keyset(V1)] == expected);
    }
    assert_eq!((tally.whole, tally.increments), (3, 3));
}

#[test]
fn feeding_everything_replaces_earlier_notes() {
    let notes = items(1, 100, 33);
    let (handle, mut source) = feed("my-mint");
    push(&handle, V1, &notes);
    handle.checkpoint(NoteKind::Spent, b"").unwrap();
    let mut consumer = Consumer::default();
    consumer.refresh(&mut source, NoteKind::Spent, &mut Tally::default());
    handle.begin_full_feed(NoteKind::Spent);
    let since = consumer.of(NoteKind::Spent).watermark.clone();
    let error = source
        .read(NoteKind::Spent, since.as_ref(), &mut Impatient(9))
        .unwrap_err();
    assert!(
        matches!(error, SourceError::RescanRequired { .. }),
        "{error}"
    );
    push(&handle, V1, &notes[50..]);
    assert!(Held::whole(&mut source, NoteKind::Spent).is_err());
    handle.checkpoint(NoteKind::Spent, b"").unwrap();
    consumer.refresh(&mut source, NoteKind::Spent, &mut Tally::default());
    assert!(consumer.of(NoteKind::Spent).items[&keyset(V1)] == sorted(&notes[50..]));
}

#[test]
fn many_threads_push_while_it_is_read() {
    const EACH: usize = 20_000;
    let (handle, mut source) = feed("my-mint");
    handle.checkpoint(NoteKind::Spent, b"").unwrap();
    let pushed = AtomicU64::new(0);
    let mut consumer = Consumer::default();
    thread::scope(|scope| {
        for stream in 1..4 {
            let (handle, pushed) = (handle.clone(), &pushed);
            scope.spawn(move || {
                for item in items(stream, EACH, 33) {
                    push(&handle, V1, &[item]);
                    pushed.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        for _ in 0..20 {
            let before = pushed.load(Ordering::SeqCst);
            consumer.refresh(&mut source, NoteKind::Spent, &mut Tally::default());
            let held = consumer.of(NoteKind::Spent).items.get(&keyset(V1));
            assert!(held.map_or(0, |items| items.len() as u64) >= before);
        }
    });
    consumer.refresh(&mut source, NoteKind::Spent, &mut Tally::default());
    let all = [items(1, EACH, 33), items(2, EACH, 33), items(3, EACH, 33)].concat();
    assert!(consumer.of(NoteKind::Spent).items[&keyset(V1)] == sorted(&all));
}

/// A mint that keeps its notes in order and uses their number as the mark, through restarts of either side.
#[test]
fn random_histories_of_a_feed_lose_nothing() {
    let mut readings = 0;
    for seed in 0..500 {
        let mut random = Random::new(seed);
        let notes = items(seed, 200, 33);
        let (mut handle, mut source) = feed_with_capacity("my-mint", 100 * 41);
        let (mut there, mut kept) = (0, None);
        let feed_from = |handle: &FeedHandle, from: usize, there: usize| {
            push(handle, V1, &notes[from..there]);
            let mark = there.to_string();
            handle.checkpoint(NoteKind::Spent, mark.as_bytes()).unwrap();
        };
        for _ in 0..60 {
            match random.below(16) {
                0 => (handle, source) = feed_with_capacity("my-mint", 100 * 41),
                1 => kept = None,
                2 => {
                    handle.begin_full_feed(NoteKind::Spent);
                    feed_from(&handle, 0, there);
                }
                3..8 => {
                    there += 1;
                    let full = handle.push(NoteKind::Spent, &keyset(V1), &notes[there - 1]);
                    if full.is_err() {
                        handle.begin_full_feed(NoteKind::Spent);
                        feed_from(&handle, 0, there);
                    }
                }
                8..11 => match handle.begin(NoteKind::Spent) {
                    Wanted::Since(mark) => {
                        let from = String::from_utf8(mark).unwrap().parse().unwrap();
                        feed_from(&handle, from, there);
                    }
                    Wanted::Everything => feed_from(&handle, 0, there),
                    _ => {}
                },
                _ => {
                    if let Some(held) = refresh(&mut source, kept.take(), &mut kept) {
                        let expected: BTreeSet<_> = notes[..there].iter().cloned().collect();
                        assert!(held == expected, "seed {seed}, {there} notes");
                        readings += 1;
                    }
                }
            }
        }
    }
    assert!(readings > 3000, "{readings} of 9,400 or so");
}

type Kept = Option<(Watermark, BTreeSet<Vec<u8>>)>;

/// Reads new items or everything; `None` if the mint must feed something first. The stored state then stays.
fn refresh(source: &mut FeedSource, before: Kept, kept: &mut Kept) -> Option<BTreeSet<Vec<u8>>> {
    struct Sink(BTreeSet<Vec<u8>>);
    impl ItemSink for Sink {
        fn items(&mut self, _: &KeysetId, items: &ItemBatch) -> ControlFlow<()> {
            self.0.extend(items.items().map(<[u8]>::to_vec));
            ControlFlow::Continue(())
        }

        fn bad_row(&mut self, _: &KeysetId, error: SourceError) -> ControlFlow<()> {
            panic!("{error}")
        }
    }
    let mut sink = Sink(BTreeSet::new());
    let since = before.as_ref().map(|(watermark, _)| watermark);
    match source.read(NoteKind::Spent, since, &mut sink) {
        Ok(reading) => {
            let old = before.map(|(_, items)| items).unwrap_or_default();
            sink.0.extend(old);
            *kept = Some((reading.watermark.unwrap(), sink.0.clone()));
            Some(sink.0)
        }
        Err(SourceError::RescanRequired { .. }) => refresh(source, None, kept),
        Err(SourceError::Other(_)) => {
            *kept = before;
            None
        }
        Err(error) => panic!("{error}"),
    }
}
