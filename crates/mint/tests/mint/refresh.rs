//! Refreshes: new notes, missing databases, and clocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use nutfilter_mint::source::{ItemSink, Reading, SourceError};
use nutfilter_mint::{
    FilterService, MintType, NoteKind, RefreshError, RefreshThread, Refresher, Status,
};

use crate::support::{
    Clock, FakeMint, MintDatabase, PATIENCE, Server, V1, V2, assert_filter_of, items, one_keyset,
    pass_item, refresh, served, wait_until,
};

fn timestamp(service: &FilterService, kind: NoteKind) -> u64 {
    served(service, kind).unwrap().timestamp()
}

#[test]
fn refresh_finds_new_rows_keysets_and_signatures() {
    for mint in MintType::ALL {
        let database = MintDatabase::with_keyset(mint);
        let (spent, issued) = (items(1, 100, 33), items(2, 100, 33));
        database.add_spent(V1, &spent[..60]);
        database.add_signed(V1, &issued[..50]);
        database.add_unsigned(V1, &issued[50..]);
        let mut refresher = database.refreshed();
        let server = Server::start(refresher.service().clone());
        assert_filter_of(&server.filter(NoteKind::Spent, V1).body, &spent[..60]);
        assert_filter_of(&server.filter(NoteKind::Issued, V1).body, &issued[..50]);
        assert_eq!(server.filter(NoteKind::Spent, V2).status, 400);

        database.add_spent(V1, &spent[60..]);
        database.execute(match mint {
            MintType::Nutshell => "UPDATE promises SET c_ = '02' WHERE c_ IS NULL;",
            _ => "UPDATE blind_signature SET c = x'02' WHERE c IS NULL;",
        });
        database.add_keyset(V2, "sat", true, 0);
        refresher.refresh().unwrap();
        assert_filter_of(&server.filter(NoteKind::Spent, V1).body, &spent);
        assert_filter_of(&server.filter(NoteKind::Issued, V1).body, &issued);
        assert_filter_of(&server.filter(NoteKind::Spent, V2).body, &[]);
    }
}

#[test]
fn last_filters_are_served_while_the_database_is_gone() {
    for mint in MintType::ALL {
        let database = MintDatabase::with_keyset(mint);
        let spent = items(1, 100, 33);
        database.add_spent(V1, &spent);
        let clock = Clock::default();
        let mut refresher = database.refresher_at(&clock);
        clock.set(1_000);
        refresher.refresh().unwrap();
        let server = Server::start(refresher.service().clone());
        let served = server.filter(NoteKind::Spent, V1).body;
        assert_filter_of(&served, &spent);

        let away = database.directory().join("away");
        std::fs::rename(&database.path, &away).unwrap();
        clock.set(2_000);
        let error = refresher.refresh().unwrap_err();
        let below = database.directory().display();
        let expected = format!("database not found below {below}; ");
        assert!(error.to_string().starts_with(&expected), "{error}");
        assert_eq!(database.files(), ["away"], "nothing is made in its place");
        assert_eq!(server.filter(NoteKind::Spent, V1).body, served);
        assert_eq!(timestamp(refresher.service(), NoteKind::Spent), 1_000);
        let health = server.get("/health").json();
        assert_eq!(
            (&health["status"], &health["last_refresh"]),
            (&"degraded".into(), &1_000.into())
        );

        std::fs::rename(&away, &database.path).unwrap();
        clock.set(3_000);
        refresher.refresh().unwrap();
        assert_eq!(timestamp(refresher.service(), NoteKind::Spent), 3_000);
        assert_eq!(refresher.service().status(), Status::Ok);
    }
}

#[test]
fn timestamp_is_the_start_of_the_reading() {
    let clock = Clock::default();
    clock.set(700);
    let (ahead, mut now) = (clock.clone(), 700);
    let slow = FakeMint(one_keyset, move |sink: &mut dyn ItemSink| {
        now += 50;
        ahead.set(now);
        assert!(pass_item(sink).is_continue());
        Ok(Reading::whole(1))
    });
    let service = FilterService::default();
    let mut refresher = Refresher::with_options(slow, service, clock.options());
    refresher.refresh().unwrap();
    assert_eq!(timestamp(refresher.service(), NoteKind::Spent), 700);
    assert_eq!(timestamp(refresher.service(), NoteKind::Issued), 750);
    assert_eq!(refresher.service().snapshot().unwrap().refreshed_at(), 700);
}

#[test]
fn source_that_loses_items_is_rejected() {
    let forgetful = FakeMint(one_keyset, |_: &mut dyn ItemSink| Ok(Reading::whole(3)));
    let service = FilterService::default();
    let error = Refresher::new(forgetful, service.clone()).refresh();
    assert!(matches!(
        error.unwrap_err(),
        RefreshError::Miscounted { said: 3, came: 0 }
    ));
    assert!(service.snapshot().is_none());
}

#[test]
fn reading_interrupted_by_a_mint_start_is_repeated() {
    // The mint starts during the first attempt of every reading. Even calls are first attempts.
    let calls = Arc::new(AtomicU64::new(0));
    let start = move || match calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
        true => Err(SourceError::ChangedWhileRead("mint.db".into())),
        false => Ok(()),
    };
    let start_while_read = start.clone();
    let starting = FakeMint(
        move || start().and_then(|()| one_keyset()),
        move |sink: &mut dyn ItemSink| {
            assert!(pass_item(sink).is_continue());
            start_while_read()?;
            Ok(Reading::whole(1))
        },
    );
    let service = FilterService::default();
    let mut refresher = Refresher::new(starting, service);
    let filters = refresh(&mut refresher).filters;
    assert!(filters.iter().all(|filter| filter.n == 1), "{filters:?}");
}

#[test]
fn refresher_builds_at_once_follows_and_stops() {
    let database = MintDatabase::with_keyset(MintType::Cdk);
    let spent = items(1, 30, 33);
    database.add_spent(V1, &spent[..10]);
    let refresher = database.refresher();
    let service = refresher.service().clone();
    let count = || {
        service
            .snapshot()
            .map_or(0, |snapshot| snapshot.items(NoteKind::Spent))
    };
    let thread = RefreshThread::start(refresher, Duration::from_secs(1), 0.0).unwrap();
    wait_until("the first build", || count() == 10);
    database.add_spent(V1, &spent[10..20]);
    wait_until("the interval to pass", || count() == 20);
    database.add_spent(V1, &spent[20..]);
    thread.refresh_now();
    wait_until("a refresh that was asked for", || count() == 30);
    assert!(thread.stop(PATIENCE), "the thread has ended");
}

#[test]
fn refresher_recovers_once_the_database_is_back() {
    let database = MintDatabase::with_keyset(MintType::Nutshell);
    let refresher = database.refresher();
    let service = refresher.service().clone();
    let away = database.directory().join("away");
    std::fs::rename(&database.path, &away).unwrap();
    // The interval is one hour, so only the retry can recover.
    let thread = RefreshThread::start(refresher, Duration::from_secs(3600), 0.0).unwrap();
    wait_until("the first attempt", || service.status() != Status::Starting);
    assert_eq!(service.status(), Status::Failing);
    let health = Server::start(service.clone()).get("/health").json();
    assert_eq!(health["status"], "failing");
    std::fs::rename(&away, &database.path).unwrap();
    wait_until("the retry", || service.status() == Status::Ok);
    assert!(thread.stop(PATIENCE));
}

#[test]
fn stopped_refresh_ends_and_publishes_nothing() {
    let batches = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&batches);
    let endless = FakeMint(one_keyset, move |sink: &mut dyn ItemSink| {
        while pass_item(sink).is_continue() {
            counter.fetch_add(1, Ordering::Relaxed);
            thread::yield_now();
        }
        Err(SourceError::Stopped)
    });
    let service = FilterService::default();
    let refresher = Refresher::new(endless, service.clone());
    let thread = RefreshThread::start(refresher, Duration::from_secs(1), 0.0).unwrap();
    wait_until("some batches", || batches.load(Ordering::Relaxed) > 3);
    assert!(thread.stop(PATIENCE));
    assert!(service.snapshot().is_none());
    assert_eq!(service.status(), Status::Starting);
}
