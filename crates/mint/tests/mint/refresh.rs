//! Refreshes: new notes, missing databases, and clocks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nutfilter_mint::source::{
    ItemBatch, ItemSink, KeysetInfo, Keysets, MintSource, Reading, SourceError, Watermark,
};
use nutfilter_mint::{
    FilterService, MintType, NoteKind, PublishError, Publisher, Refresher, ServiceOptions, Status,
};

use crate::support::{MintDatabase, Server, V1, V2, assert_filter_of, items, keyset};

/// Longer than any machine needs for the awaited events.
const PATIENCE: Duration = Duration::from_secs(30);

fn timestamp(service: &FilterService, kind: NoteKind) -> u64 {
    let snapshot = service.snapshot().unwrap();
    snapshot
        .keyset(&keyset(V1))
        .unwrap()
        .filter(kind)
        .unwrap()
        .timestamp()
}

/// A clock that shows the time it was set to.
fn clock() -> (Arc<AtomicU64>, impl Fn() -> SystemTime + Send + 'static) {
    let seconds = Arc::new(AtomicU64::new(0));
    let shown = Arc::clone(&seconds);
    (seconds, move || {
        UNIX_EPOCH + Duration::from_secs(shown.load(Ordering::Relaxed))
    })
}

#[test]
fn refresh_finds_new_rows_keysets_and_signatures() {
    for mint in MintType::ALL {
        let database = MintDatabase::new(mint);
        let (spent, issued) = (items(1, 100, 33), items(2, 100, 33));
        database.add_keyset(V1, "sat", true, 0);
        database.add_spent(V1, &spent[..60]);
        database.add_signed(V1, &issued[..50]);
        database.add_unsigned(V1, &issued[50..]);
        let mut publisher = database.publisher();
        publisher.refresh().unwrap();
        let server = Server::start(publisher.service().clone());
        assert_filter_of(&server.filter(NoteKind::Spent, V1).body, &spent[..60]);
        assert_filter_of(&server.filter(NoteKind::Issued, V1).body, &issued[..50]);
        assert_eq!(server.filter(NoteKind::Spent, V2).status, 400);

        database.add_spent(V1, &spent[60..]);
        database.execute(match mint {
            MintType::Nutshell => "UPDATE promises SET c_ = '02' WHERE c_ IS NULL;",
            _ => "UPDATE blind_signature SET c = x'02' WHERE c IS NULL;",
        });
        database.add_keyset(V2, "sat", true, 0);
        publisher.refresh().unwrap();
        assert_filter_of(&server.filter(NoteKind::Spent, V1).body, &spent);
        assert_filter_of(&server.filter(NoteKind::Issued, V1).body, &issued);
        assert_filter_of(&server.filter(NoteKind::Spent, V2).body, &[]);
    }
}

#[test]
fn last_filters_are_served_while_the_database_is_gone() {
    for mint in MintType::ALL {
        let database = MintDatabase::new(mint);
        let spent = items(1, 100, 33);
        database.add_keyset(V1, "sat", true, 0);
        database.add_spent(V1, &spent);
        let (seconds, clock) = clock();
        let mut publisher = database.publisher().with_clock(clock);
        seconds.store(1_000, Ordering::Relaxed);
        publisher.refresh().unwrap();
        let server = Server::start(publisher.service().clone());
        let served = server.filter(NoteKind::Spent, V1).body;
        assert_filter_of(&served, &spent);

        let away = database.directory().join("away");
        std::fs::rename(&database.path, &away).unwrap();
        seconds.store(2_000, Ordering::Relaxed);
        let error = publisher.refresh().unwrap_err();
        assert!(
            matches!(error, PublishError::Source(SourceError::NotFound { .. })),
            "{error}"
        );
        assert!(
            error.to_string().contains(database.path.to_str().unwrap()),
            "{error}"
        );
        assert_eq!(database.files(), ["away"], "nothing is made in its place");
        assert_eq!(server.filter(NoteKind::Spent, V1).body, served);
        assert_eq!(timestamp(publisher.service(), NoteKind::Spent), 1_000);
        let health = server.get("/health").json();
        assert_eq!(
            (&health["status"], &health["last_refresh"]),
            (&"degraded".into(), &1_000.into())
        );

        std::fs::rename(&away, &database.path).unwrap();
        seconds.store(3_000, Ordering::Relaxed);
        publisher.refresh().unwrap();
        assert_eq!(timestamp(publisher.service(), NoteKind::Spent), 3_000);
        assert_eq!(publisher.service().status(), Status::Ok);
    }
}

#[test]
fn timestamp_is_the_start_of_the_reading() {
    /// A mint whose clock advances while it is read.
    struct Slow(Arc<AtomicU64>);

    impl MintSource for Slow {
        fn mint(&self) -> &str {
            "slow"
        }

        fn keysets(&mut self) -> Result<Keysets, SourceError> {
            let unit = Some("sat".to_owned());
            let info = KeysetInfo {
                id: keyset(V1),
                unit,
                active: true,
                input_fee_ppk: 0,
            };
            Ok(Keysets {
                keysets: vec![info],
                unservable: vec![],
            })
        }

        fn read(
            &mut self,
            _: NoteKind,
            _: Option<&Watermark>,
            sink: &mut dyn ItemSink,
        ) -> Result<Reading, SourceError> {
            self.0.fetch_add(50, Ordering::Relaxed);
            let mut batch = ItemBatch::new();
            batch.push(b"an item");
            assert!(sink.items(&keyset(V1), &batch).is_continue());
            Ok(Reading::whole(1))
        }
    }

    let (seconds, clock) = clock();
    seconds.store(700, Ordering::Relaxed);
    let service = FilterService::new(ServiceOptions::default());
    let mut publisher = Publisher::new(Slow(seconds), service).with_clock(clock);
    publisher.refresh().unwrap();
    assert_eq!(timestamp(publisher.service(), NoteKind::Spent), 700);
    assert_eq!(timestamp(publisher.service(), NoteKind::Issued), 750);
    assert_eq!(publisher.service().snapshot().unwrap().refreshed_at(), 700);
}

#[test]
fn source_that_loses_items_is_rejected() {
    struct Forgetful;

    impl MintSource for Forgetful {
        fn mint(&self) -> &str {
            "forgetful"
        }

        fn keysets(&mut self) -> Result<Keysets, SourceError> {
            Ok(one_keyset())
        }

        fn read(
            &mut self,
            _: NoteKind,
            _: Option<&Watermark>,
            _: &mut dyn ItemSink,
        ) -> Result<Reading, SourceError> {
            Ok(Reading::whole(3))
        }
    }

    let service = FilterService::new(ServiceOptions::default());
    let error = Publisher::new(Forgetful, service.clone()).refresh();
    assert!(matches!(
        error.unwrap_err(),
        PublishError::Miscounted { said: 3, came: 0 }
    ));
    assert!(service.snapshot().is_none());
}

#[test]
fn reading_interrupted_by_a_mint_start_is_repeated() {
    /// A mint that starts during the first attempt of every reading.
    struct Starting(AtomicU64);

    impl Starting {
        fn read_before(&self) -> Result<(), SourceError> {
            // Even calls are first attempts, odd calls are retries.
            match self.0.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
                true => Err(SourceError::ChangedWhileRead {
                    path: "mint.db".into(),
                }),
                false => Ok(()),
            }
        }
    }

    impl MintSource for Starting {
        fn mint(&self) -> &str {
            "starting"
        }

        fn keysets(&mut self) -> Result<Keysets, SourceError> {
            let info = KeysetInfo {
                id: keyset(V1),
                unit: None,
                active: true,
                input_fee_ppk: 0,
            };
            self.read_before()?;
            Ok(Keysets {
                keysets: vec![info],
                unservable: vec![],
            })
        }

        fn read(
            &mut self,
            _: NoteKind,
            _: Option<&Watermark>,
            sink: &mut dyn ItemSink,
        ) -> Result<Reading, SourceError> {
            let mut batch = ItemBatch::new();
            batch.push(b"an item");
            assert!(sink.items(&keyset(V1), &batch).is_continue());
            self.read_before()?;
            Ok(Reading::whole(1))
        }
    }

    let service = FilterService::new(ServiceOptions::default());
    let mut publisher = Publisher::new(Starting(AtomicU64::new(0)), service);
    let report = publisher.refresh().unwrap();
    assert!(report.failures.is_empty(), "{:?}", report.failures);
    assert!(
        report.filters.iter().all(|filter| filter.n == 1),
        "{:?}",
        report.filters
    );
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn refresher_builds_at_once_follows_and_stops() {
    let database = MintDatabase::new(MintType::Cdk);
    let spent = items(1, 30, 33);
    database.add_keyset(V1, "sat", true, 0);
    database.add_spent(V1, &spent[..10]);
    let publisher = database.publisher();
    let service = publisher.service().clone();
    let count = || {
        service
            .snapshot()
            .map_or(0, |snapshot| snapshot.items(NoteKind::Spent))
    };
    let refresher = Refresher::start(publisher, Duration::from_secs(1)).unwrap();
    wait_until("the first build", || count() == 10);
    database.add_spent(V1, &spent[10..20]);
    wait_until("the interval to pass", || count() == 20);
    database.add_spent(V1, &spent[20..]);
    refresher.refresh_now();
    wait_until("a refresh that was asked for", || count() == 30);
    assert!(refresher.stop(PATIENCE), "the thread has ended");
}

#[test]
fn refresher_recovers_once_the_database_is_back() {
    let database = MintDatabase::new(MintType::Nutshell);
    database.add_keyset(V1, "sat", true, 0);
    let publisher = database.publisher();
    let service = publisher.service().clone();
    let away = database.directory().join("away");
    std::fs::rename(&database.path, &away).unwrap();
    // The interval is one hour, so only the retry can recover.
    let refresher = Refresher::start(publisher, Duration::from_secs(3600)).unwrap();
    wait_until("the first attempt", || service.status() != Status::Starting);
    assert_eq!(service.status(), Status::Failing);
    let health = Server::start(service.clone()).get("/health").json();
    assert_eq!(health["status"], "failing");
    std::fs::rename(&away, &database.path).unwrap();
    wait_until("the retry", || service.status() == Status::Ok);
    assert!(refresher.stop(PATIENCE));
}

#[test]
fn panicking_source_is_noticed_and_retried() {
    /// A mint whose first and third listings panic.
    struct Clumsy(AtomicU64);

    impl MintSource for Clumsy {
        fn mint(&self) -> &str {
            "clumsy"
        }

        fn keysets(&mut self) -> Result<Keysets, SourceError> {
            let call = self.0.fetch_add(1, Ordering::Relaxed);
            assert!(!call.is_multiple_of(2), "call {call}");
            Ok(Keysets::default())
        }

        fn read(
            &mut self,
            _: NoteKind,
            _: Option<&Watermark>,
            _: &mut dyn ItemSink,
        ) -> Result<Reading, SourceError> {
            Ok(Reading::whole(0))
        }
    }

    let service = FilterService::new(ServiceOptions::default());
    let publisher = Publisher::new(Clumsy(AtomicU64::new(0)), service.clone());
    let refresher = Refresher::start(publisher, Duration::from_secs(3600)).unwrap();
    wait_until("the first panic", || service.status() == Status::Failing);
    wait_until("the retry", || service.status() == Status::Ok);
    refresher.refresh_now();
    wait_until("the next panic", || service.status() == Status::Degraded);
    wait_until("another retry", || service.status() == Status::Ok);
    assert!(refresher.stop(PATIENCE));
}

#[test]
fn stopped_refresh_ends_and_publishes_nothing() {
    /// A mint with an endless number of notes.
    struct Endless(Arc<Mutex<u64>>);

    impl MintSource for Endless {
        fn mint(&self) -> &str {
            "endless"
        }

        fn keysets(&mut self) -> Result<Keysets, SourceError> {
            Ok(one_keyset())
        }

        fn read(
            &mut self,
            _: NoteKind,
            _: Option<&Watermark>,
            sink: &mut dyn ItemSink,
        ) -> Result<Reading, SourceError> {
            let mut batch = ItemBatch::new();
            batch.push(b"again");
            while sink.items(&keyset(V1), &batch).is_continue() {
                *self.0.lock().unwrap() += 1;
                thread::sleep(Duration::from_millis(1));
            }
            Err(SourceError::Stopped)
        }
    }

    let batches = Arc::new(Mutex::new(0));
    let service = FilterService::new(ServiceOptions::default());
    let publisher = Publisher::new(Endless(Arc::clone(&batches)), service.clone());
    let refresher = Refresher::start(publisher, Duration::from_secs(1)).unwrap();
    wait_until("some batches", || *batches.lock().unwrap() > 3);
    assert!(refresher.stop(PATIENCE));
    assert!(service.snapshot().is_none());
    assert_eq!(service.status(), Status::Starting);
}

/// The listing of a mint with a single keyset, of which only the id matters.
fn one_keyset() -> Keysets {
    let info = KeysetInfo {
        id: keyset(V1),
        unit: None,
        active: true,
        input_fee_ppk: 0,
    };
    Keysets {
        keysets: vec![info],
        unservable: vec![],
    }
}
