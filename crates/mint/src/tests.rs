//! The refresher with a mint of the tests' own and a clock that is set.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};

use nutfilter_cashu::FilterResponse;
use nutfilter_objects::Table;
use proptest::prelude::*;

mod filters;
mod loss;
mod notes;

use crate::clock::Clock;
use crate::source::{
    AsOf, ItemBatch, ItemSink, KeysetInfo, Keysets, MintSource, Reading, SourceError,
};
use crate::thread::{Pace, RefreshThread};
use crate::{KeysetId, Monitor, NoteKind, RefreshError, RefreshOptions, RefreshReport, Refresher};

use NoteKind::{Issued, Spent};

const HOUR: Duration = Duration::from_secs(3_600);

/// What happens when a kind is read.
type Hook = Box<dyn FnMut(NoteKind) -> Result<(), SourceError> + Send>;

/// A mint whose tables are lists, shared with the test.
#[derive(Clone, Default)]
pub(crate) struct Fake(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Keysets that are listed, by number.
    listed: Vec<u8>,
    /// Keyset and item, by kind.
    rows: [Vec<(u8, Vec<u8>)>; 2],
    /// Items that were made.
    made: usize,
    hook: Option<Hook>,
    /// For each reading whether everything was asked for.
    asked: Vec<bool>,
    /// What readings prove; by default when they began.
    as_of: Option<AsOf>,
    /// The end of keyset 2.
    ends: Option<u64>,
    /// More notes of keyset 1, of both kinds.
    hashes: Vec<u64>,
}

impl Fake {
    /// With some notes of both kinds in keysets 1 and 2.
    fn new() -> Self {
        let fake = Self::default();
        fake.state().listed = vec![1, 2];
        for kind in NoteKind::ALL {
            fake.add(kind, 1, 3);
            fake.add(kind, 2, 1);
        }
        fake
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, kind: NoteKind, keyset: u8, count: usize) {
        let mut state = self.state();
        let next = state.made;
        state.made += count;
        let rows = &mut state.rows[kind as usize];
        rows.extend((next..next + count).map(|at| (keyset, format!("{kind} {at}").into_bytes())));
    }

    fn hook(&self, hook: impl FnMut(NoteKind) -> Result<(), SourceError> + Send + 'static) {
        self.state().hook = Some(Box::new(hook));
    }

    fn fail(&self, kinds: &'static [NoteKind]) {
        self.hook(|kind| match kinds.contains(&kind) {
            true => Err(SourceError::Other("away".into())),
            false => Ok(()),
        });
    }
}

pub(crate) fn keyset(number: u8) -> KeysetId {
    KeysetId::parse(&format!("00{number:014x}")).unwrap()
}

fn path(kind: NoteKind, number: u8) -> String {
    format!("v1/filter/{kind}/{}", keyset(number))
}

impl MintSource for Fake {
    fn mint(&self) -> &str {
        "fake"
    }

    fn keysets(&mut self) -> Result<Keysets, SourceError> {
        let state = self.state();
        let (listed, ends) = (state.listed.clone(), state.ends);
        Ok(Keysets::of(listed.into_iter().map(|one| KeysetInfo {
            final_expiry: ends.filter(|_| one == 2),
            ..KeysetInfo::new(keyset(one))
        })))
    }

    fn read(
        &mut self,
        kind: NoteKind,
        whole: bool,
        sink: &mut dyn ItemSink,
    ) -> Result<Reading, SourceError> {
        let mut state = self.state();
        state.asked.push(whole);
        let mut flow = sink.hashes(&keyset(1), &state.hashes);
        for (number, item) in &state.rows[kind as usize] {
            let mut batch = ItemBatch::new();
            batch.push(item);
            // Rows of keyset 0 have none.
            let keyset = (*number > 0).then(|| keyset(*number));
            flow = sink.items(keyset.as_ref(), &batch);
        }
        if flow.is_break() {
            return Err(SourceError::Stopped);
        }
        // Some items have been passed on when it fails.
        state.hook.as_mut().map_or(Ok(()), |hook| hook(kind))?;
        Ok(Reading {
            whole: whole.then_some("asked"),
            as_of: state.as_of.unwrap_or(AsOf::Beginning),
            unservable: vec![],
        })
    }
}

/// Wall clock and monotonic clock, in milliseconds.
#[derive(Clone, Default)]
struct Clocks(Arc<[AtomicU64; 2]>);

impl Clocks {
    fn at(seconds: u64) -> Self {
        let clocks = Self::default();
        clocks.pass(seconds);
        clocks
    }

    /// Time passes, on both clocks.
    fn pass(&self, seconds: u64) {
        for clock in self.0.iter() {
            clock.fetch_add(seconds * 1000, Ordering::Relaxed);
        }
    }

    /// The wall clock is set.
    fn set(&self, milliseconds: u64) {
        self.0[0].store(milliseconds, Ordering::Relaxed);
    }

    fn clock(&self) -> Clock {
        let [wall, steady] = [0, 1].map(|which| {
            let clocks = Arc::clone(&self.0);
            move || Duration::from_millis(clocks[which].load(Ordering::Relaxed))
        });
        Clock::of(move || UNIX_EPOCH + wall(), steady)
    }
}

fn refresher_to(table: Table, fake: &Fake, clocks: &Clocks, options: RefreshOptions) -> Refresher {
    let monitor = Monitor::new(Arc::new(table));
    Refresher::with_clock(fake.clone(), monitor, options, clocks.clock())
}

fn refresher(fake: &Fake, clocks: &Clocks) -> Refresher {
    refresher_to(Table::in_memory(), fake, clocks, RefreshOptions::default())
}

#[track_caller]
fn refresh(refresher: &mut Refresher) -> RefreshReport {
    let report = refresher.refresh(false).unwrap();
    assert!(report.is_complete(), "{:?}", report.failures);
    report
}

fn date(refresher: &Refresher, kind: NoteKind, number: u8) -> Option<u64> {
    let object = refresher.monitor().table().get(&path(kind, number));
    object.map(|object| object.date())
}

/// The number of items of a served filter.
fn count(refresher: &Refresher, kind: NoteKind, number: u8) -> Option<u32> {
    let table = refresher.monitor().table();
    let (object, opened) = table.open(&path(kind, number), false).unwrap()?;
    let response = FilterResponse::from_json(opened.read().unwrap()).unwrap();
    assert_eq!(response.timestamp, object.date());
    Some(response.into_filter().unwrap().n())
}

#[test]
fn filter_of_a_fast_clock_is_withdrawn_and_made_again() {
    let (fake, clocks) = (Fake::new(), Clocks::at(10_240));
    let mut refresher = refresher(&fake, &clocks);
    refresh(&mut refresher);
    let forever = Duration::MAX;
    assert_eq!(refresher.monitor().ready(10_240, forever), Ok(()));
    clocks.pass(60);
    // It is slewed.
    clocks.set(10_299_600);
    assert!(!refresher.withdraw());
    clocks.set(10_006_000);
    // Even if the mint cannot be read.
    fake.fail(&[Spent, Issued]);
    refresher.refresh(false).unwrap_err();
    assert_eq!(date(&refresher, Spent, 1), None);
    let ready = refresher.monitor().ready(10_006, forever);
    assert!(ready.unwrap_err().contains("is missing"));
    assert_eq!(refresher.monitor().status().withdrawn, 4);
    fake.hook(|_| Ok(()));
    refresh(&mut refresher);
    assert_eq!(date(&refresher, Spent, 1), Some(10_006));
    assert_eq!(refresher.monitor().ready(10_006, forever), Ok(()));
}

#[test]
fn filter_is_dated_before_its_reading_by_the_earlier_clock() {
    // Each reading takes so long, and during the first one the clock is set.
    for (takes, set, expected) in [
        (50, None, [10_240, 10_290]),
        (0, Some(10_006_000), [10_006, 10_006]),
        (0, Some(10_900_000), [10_240, 10_900]),
    ] {
        let (fake, clocks) = (Fake::new(), Clocks::at(10_240));
        let (during, mut set) = (clocks.clone(), set);
        fake.hook(move |_| {
            during.pass(takes);
            set.take().into_iter().for_each(|set| during.set(set));
            Ok(())
        });
        let mut refresher = refresher(&fake, &clocks);
        refresh(&mut refresher);
        assert_eq!([Spent, Issued].map(|kind| date(&refresher, kind, 1)), expected.map(Some));
        assert_eq!(refresher.monitor().status().refreshed, 10_240);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    /// Each step is a second, after which the thread looks at the clock. While the clock is right, no date is later than
    /// the reading, and dates only decrease at a withdrawal.
    #[test]
    fn no_date_is_later_than_its_reading(steps in prop::collection::vec((0..3_u8, -90..90_i64), 1..60)) {
        let (fake, clocks) = (Fake::new(), Clocks::at(10_000));
        let options = RefreshOptions { restamp: Duration::from_secs(1), ..RefreshOptions::default() };
        let mut refresher = refresher_to(Table::in_memory(), &fake, &clocks, options);
        let mut read = 0;
        let mut offset = 0;
        for (now, (what, by)) in (10_001..).zip(steps) {
            clocks.pass(1);
            match what {
                0 => offset = 0,
                1 => offset = by,
                _ => {}
            }
            clocks.set((now + offset) as u64 * 1000);
            let before = date(&refresher, Spent, 1);
            let withdrawn = refresher.withdraw();
            if what == 2 {
                read = now;
                refresh(&mut refresher);
            }
            let served = date(&refresher, Spent, 1);
            if let (0, Some(served)) = (offset, served) {
                prop_assert!(served <= read as u64, "{served} was read at {read}");
            }
            if let (false, Some(before), Some(served)) = (withdrawn, before, served) {
                prop_assert!(before <= served);
            }
        }
    }
}

#[test]
fn services_on_one_mint_make_equal_objects() {
    let fake = Fake::new();
    let service = || {
        let clocks = Clocks::default();
        let options = RefreshOptions { grid: Duration::from_secs(60), ..RefreshOptions::default() };
        let refresher = refresher_to(Table::in_memory(), &fake, &clocks, options);
        (refresher, clocks)
    };
    let mut services = [service(), service()];
    let mut now = [0, 0];
    let mut refresh_at = |at: [u64; 2]| {
        let tags = [0, 1].map(|which| {
            let (refresher, clocks) = &mut services[which];
            clocks.pass(at[which] - now[which]);
            refresh(refresher);
            NoteKind::ALL.map(|kind| {
                let object = refresher.monitor().table().get(&path(kind, 1)).unwrap();
                assert!(object.date() <= at[which]);
                (object.date(), object.tag().to_owned())
            })
        });
        now = at;
        (tags[0] == tags[1], tags[0][0].0)
    };
    // Started in different minutes: equal from the next multiple of 10 minutes on.
    assert_eq!(refresh_at([6_007, 6_121]), (false, 6_000));
    assert_eq!(refresh_at([6_540, 6_599]), (false, 6_000));
    assert_eq!(refresh_at([6_601, 6_659]), (true, 6_600));
    // Both have the new notes within a minute.
    for kind in NoteKind::ALL {
        fake.add(kind, 1, 2);
    }
    assert_eq!(refresh_at([6_662, 6_719]), (true, 6_660));
    assert_eq!(refresh_at([7_199, 7_197]), (true, 6_660));
    assert_eq!(refresh_at([7_205, 7_350]), (true, 7_200));
}

#[test]
fn everything_is_read_at_first_and_when_it_is_due() {
    let (fake, clocks) = (Fake::new(), Clocks::at(1_000));
    let mut refresher = refresher(&fake, &clocks);
    for (pass, whole) in [(0, true), (60, false), (3_539, false), (1, true), (60, false)] {
        clocks.pass(pass);
        let report = refresh(&mut refresher);
        assert_eq!(report.whole, [Some(whole); 2]);
        assert_eq!(report.items, [4, 4]);
    }
    assert_eq!(refresher.refresh(true).unwrap().whole, [Some(true); 2]);
    let status = refresher.monitor().status();
    assert_eq!(status.whole_readings, [((Spent, "asked"), 3), ((Issued, "asked"), 3)].into());
}

#[test]
fn kind_that_fails_holds_back_both_filters() {
    let (fake, clocks) = (Fake::new(), Clocks::at(1_000));
    let mut refresher = refresher(&fake, &clocks);
    refresh(&mut refresher);
    fake.fail(&[Spent]);
    for kind in NoteKind::ALL {
        fake.add(kind, 1, 2);
    }
    clocks.pass(700);
    let report = refresher.refresh(false).unwrap();
    assert_eq!(report.whole, [None, Some(false)]);
    let [(what, RefreshError::Source(_))] = &report.failures[..] else {
        panic!("{report:?}");
    };
    assert_eq!(what, "spent");
    // A wallet takes both for one state of the mint.
    for kind in NoteKind::ALL {
        assert_eq!((date(&refresher, kind, 1), count(&refresher, kind, 1)), (Some(1_000), Some(3)));
    }
    fake.fail(&[Spent, Issued]);
    refresher.refresh(false).unwrap_err();
    let status = refresher.monitor().status();
    assert_eq!(status.refreshes, [1, 1, 1]);
    assert_eq!((status.refreshed, status.failure.as_deref()), (1_000, Some("away")));
    let old = refresher.monitor().ready(2_000, Duration::from_secs(900));
    let expected = "the last reading is 1000 s old, maximum is 900 s; last refresh: away";
    assert_eq!(old, Err(expected.to_owned()));
    fake.hook(|_| Ok(()));
    refresh(&mut refresher);
    assert_eq!(count(&refresher, Spent, 1), Some(5));
}

#[test]
fn reading_of_changed_files_is_repeated() {
    let changed = || SourceError::ChangedWhileRead("mint.db".into());
    // Beside a mint that stops, SQLite can take a database for damaged.
    let failed = |code| SourceError::Sqlite {
        path: "mint.db".into(),
        doing: "reading",
        source: rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None),
    };
    let damaged = move || failed(rusqlite::ffi::SQLITE_CORRUPT);
    let busy = move || failed(rusqlite::ffi::SQLITE_BUSY);
    let errors: [Box<dyn Fn() -> SourceError + Send>; 4] =
        [Box::new(changed), Box::new(changed), Box::new(damaged), Box::new(busy)];
    for (error, (times, succeeds)) in
        errors.into_iter().zip([(2, true), (3, false), (2, true), (1, false)])
    {
        let (fake, clocks) = (Fake::new(), Clocks::at(1_000));
        let mut left = [times; 2];
        fake.hook(move |kind| match left[kind as usize] {
            0 => Ok(()),
            ref mut left => {
                *left -= 1;
                Err(error())
            }
        });
        let mut refresher = refresher(&fake, &clocks);
        assert_eq!(refresher.refresh(false).is_ok(), succeeds);
        assert_eq!(count(&refresher, Spent, 1), succeeds.then_some(3));
    }
}

#[test]
fn stopped_refresh_publishes_nothing() {
    for is_reading in [false, true] {
        let (fake, clocks) = (Fake::new(), Clocks::at(1_000));
        let mut refresher = refresher(&fake, &clocks);
        let monitor = Arc::clone(refresher.monitor());
        match is_reading {
            false => monitor.stop(),
            // A source may end there, and call that a reading.
            true => fake.hook(move |kind| {
                if kind == Issued {
                    monitor.stop();
                }
                Ok(())
            }),
        }
        let stopped = refresher.refresh(true).unwrap_err();
        assert!(matches!(stopped, RefreshError::Source(SourceError::Stopped)));
        assert!(refresher.monitor().table().objects().is_empty());
        assert_eq!(refresher.monitor().status().refreshes, [0; 3]);
        let ready = refresher.monitor().ready(1_000, Duration::MAX);
        assert_eq!(ready, Err("no filter yet".to_owned()));
    }
}

#[test]
fn panic_of_a_source_is_told_and_everything_read_again() {
    let (fake, clocks) = (Fake::new(), Clocks::at(1_000));
    let mut refresher = refresher(&fake, &clocks);
    refresh(&mut refresher);
    let mut panics = true;
    fake.hook(move |_| match std::mem::take(&mut panics) {
        true => panic!("a fault"),
        false => Ok(()),
    });
    let monitor = Arc::clone(refresher.monitor());
    let thread = RefreshThread::start(refresher, Pace::new(HOUR, HOUR, false)).unwrap();
    let start = Instant::now();
    while monitor.status().refreshes != [2, 0, 1] {
        assert!(start.elapsed() < Duration::from_secs(30), "{:?}", monitor.status());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(thread.stop(Duration::from_secs(30)));
    assert_eq!(fake.state().asked, [true; 5]);
}

#[test]
fn keysets_are_served_while_they_are_listed_or_have_notes() {
    let (fake, clocks) = (Fake::new(), Clocks::at(1_000));
    let mut refresher = refresher(&fake, &clocks);
    // One without notes, and one that only notes name.
    fake.state().listed = vec![1, 3];
    refresh(&mut refresher);
    let counts = |refresher: &Refresher| [1, 2, 3].map(|number| count(refresher, Spent, number));
    assert_eq!(counts(&refresher), [Some(3), Some(1), Some(0)]);
    let status = refresher.monitor().status();
    let active = status.filters.iter().map(|filter| filter.active);
    assert_eq!(active.collect::<Vec<_>>(), [true, true, false, false, true, true]);
    // The notes of one are gone, and the one without notes has left the list.
    for rows in &mut fake.state().rows {
        rows.retain(|(number, _)| *number != 2);
    }
    fake.state().listed = vec![1];
    assert_eq!(refresher.refresh(true).unwrap().lost, 2);
    assert_eq!(counts(&refresher), [Some(3), Some(1), None]);
    let status = refresher.monitor().status();
    assert_eq!((status.filters.len(), status.items_gone, status.items_lost), (4, 2, 2));
    assert_eq!(refresher.monitor().ready(1_000, Duration::ZERO), Ok(()));
}

fn in_directory(root: &std::path::Path) -> Table {
    Table::in_directory(root, 0o644, crate::filter_site::check_published).unwrap()
}

#[test]
fn output_is_served_at_a_start_and_made_again_when_it_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("out");
    let (fake, clocks) = (Fake::new(), Clocks::at(1_000));
    let options = RefreshOptions::default();
    let mut first = refresher_to(in_directory(&root), &fake, &clocks, options.clone());
    refresh(&mut first);
    drop(first);
    // Ready with what was published, and with its age.
    let mut second = refresher_to(in_directory(&root), &fake, &clocks, options);
    let age = Duration::from_secs(200);
    assert_eq!(second.monitor().ready(1_200, age), Ok(()));
    assert!(second.monitor().ready(1_201, age).is_err());
    fake.fail(&[Spent, Issued]);
    second.refresh(false).unwrap_err();
    assert_eq!(second.monitor().ready(1_200, age), Ok(()));
    fake.hook(|_| Ok(()));
    refresh(&mut second);
    assert_eq!(date(&second, Spent, 1), Some(1_000));
    assert_eq!(refresh(&mut second).encoded, 0);
    // Somebody removes everything, or replaces a file.
    std::fs::remove_dir_all(&root).unwrap();
    assert_eq!(refresh(&mut second).encoded, 4);
    assert_eq!(count(&second, Spent, 1), Some(3));
    let file = root.join(path(Spent, 1));
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, "another").unwrap();
    assert_eq!(refresh(&mut second).encoded, 1);
    // Another process takes the directory.
    std::fs::remove_dir_all(&root).unwrap();
    let other = in_directory(&root);
    let error = second.refresh(false).unwrap_err();
    assert!(matches!(error, RefreshError::Output(_)), "{error}");
    drop(other);
    refresh(&mut second);
    // An object that cannot be written does not hold back the others.
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    fake.add(Spent, 1, 1);
    fake.add(Spent, 2, 1);
    let report = second.refresh(false).unwrap();
    let [(what, RefreshError::Write(named, _))] = &report.failures[..] else {
        panic!("{report:?}");
    };
    assert_eq!((what, named), (&path(Spent, 1), &path(Spent, 1)));
    assert_eq!(count(&second, Issued, 1), Some(3));
    assert_eq!(count(&second, Spent, 2), Some(2));
    std::fs::remove_dir(&file).unwrap();
    refresh(&mut second);
    assert_eq!(count(&second, Spent, 1), Some(4));
    // `issued` takes its place first: a reader of both files finds nothing spent that was not issued.
    let issued = root.join(path(Issued, 1));
    std::fs::remove_file(&issued).unwrap();
    std::fs::create_dir(&issued).unwrap();
    for kind in NoteKind::ALL {
        fake.add(kind, 1, 1);
    }
    assert!(!second.refresh(false).unwrap().is_complete());
    assert_eq!(count(&second, Spent, 1), Some(4));
    std::fs::remove_dir(&issued).unwrap();
    refresh(&mut second);
    assert_eq!(count(&second, Spent, 1), Some(5));
}
