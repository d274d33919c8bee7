//! Timestamps: a filter is never dated after its own reading, and all services date it alike.

use std::time::Duration;

use nutfilter_mint::source::{ItemSink, Reading};
use nutfilter_mint::{
    FilterService, MintType, NotReady, NoteKind, RefreshThread, Refresher, RefresherOptions,
};

use crate::support::{
    Clock, FakeMint, MintDatabase, PATIENCE, Server, V1, assert_filter_of, items, one_keyset,
    pass_item, served, wait_until,
};

const FOREVER: Duration = Duration::MAX;

fn timestamp(service: &FilterService) -> Option<u64> {
    served(service, NoteKind::Spent).map(|filter| filter.timestamp())
}

#[test]
fn filter_is_never_dated_after_its_own_reading() {
    let database = MintDatabase::with_keyset(MintType::Nutshell);
    let spent = items(1, 2, 33);
    database.add_spent(V1, &spent[..1]);
    let clock = Clock::default();
    let mut refresher = database.refresher_at(&clock);
    let service = refresher.service().clone();
    let server = Server::start(service.clone());

    // The clock is 4 minutes ahead once, and is then corrected. Then a note is spent.
    clock.set(10_240);
    refresher.refresh().unwrap();
    clock.set(10_006);
    database.add_spent(V1, &spent[1..]);
    refresher.refresh().unwrap();
    assert_eq!(timestamp(&service), Some(10_006));
    assert_filter_of(&server.filter(NoteKind::Spent, V1).body, &spent);

    // Without new notes, the date is corrected too, for both kinds.
    for (now, expected) in [(20_000, 20_000), (16_400, 16_400), (16_401, 16_401)] {
        clock.set(now);
        refresher.refresh().unwrap();
        for kind in NoteKind::ALL {
            let filter = served(&service, kind).unwrap();
            assert!(filter.timestamp() <= expected, "{kind} at {now}");
        }
    }
    assert_eq!(service.ready(FOREVER), Ok(()));
}

#[test]
fn filter_from_the_future_is_withdrawn_without_a_reading() {
    let database = MintDatabase::with_keyset(MintType::Cdk);
    let clock = Clock::default();
    let mut refresher = database.refresher_at(&clock);
    let service = refresher.service().clone();
    let server = Server::start(service.clone());
    clock.set(10_240);
    refresher.refresh().unwrap();
    assert_eq!(server.filter(NoteKind::Spent, V1).status, 200);

    let away = database.directory().join("away");
    std::fs::rename(&database.path, &away).unwrap();
    clock.set(10_006);
    refresher.refresh().unwrap_err();
    assert_eq!(server.filter(NoteKind::Spent, V1).status, 503);
    assert_eq!(service.ready(FOREVER), Err(NotReady::Incomplete));

    std::fs::rename(&away, &database.path).unwrap();
    refresher.refresh().unwrap();
    assert_eq!(timestamp(&service), Some(10_006));
    assert_eq!(service.ready(FOREVER), Ok(()));
}

#[test]
fn clock_set_back_during_a_reading_is_noticed() {
    let clock = Clock::default();
    clock.set(10_240);
    let set = clock.clone();
    let source = FakeMint(one_keyset, move |sink: &mut dyn ItemSink| {
        assert!(pass_item(sink).is_continue());
        set.set(10_006);
        Ok(Reading::whole(1))
    });
    let service = FilterService::default();
    let mut refresher = Refresher::with_options(source, service.clone(), clock.options());
    refresher.refresh().unwrap();
    assert_eq!(timestamp(&service), Some(10_006));
}

#[test]
fn refresher_corrects_dates_when_clock_is_set_back() {
    let database = MintDatabase::with_keyset(MintType::Cdk);
    let clock = Clock::default();
    clock.set(10_240);
    let refresher = database.refresher_at(&clock);
    let service = refresher.service().clone();
    // The interval is one day.
    let thread = RefreshThread::start(refresher, Duration::from_secs(86_400), 0.0).unwrap();
    let wait_for = |expected| wait_until("the date", || timestamp(&service) == Some(expected));
    // A `RefreshThread` rounds dates down to whole minutes.
    wait_for(10_200);
    clock.set(10_006);
    wait_for(9_960);
    assert!(thread.stop(PATIENCE));
}

#[test]
fn services_on_one_database_serve_equal_bodies() {
    let database = MintDatabase::with_keyset(MintType::Nutshell);
    let spent = items(1, 20, 33);
    database.add_spent(V1, &spent[..10]);
    let service = || {
        let clock = Clock::default();
        let options = RefresherOptions {
            timestamp_grid: Duration::from_secs(60),
            ..clock.options()
        };
        (database.refresher_with(options), clock)
    };
    let ((mut one, one_clock), (mut two, two_clock)) = (service(), service());
    let mut refresh = |at: [u64; 2]| {
        let tags = [(&mut one, &one_clock, at[0]), (&mut two, &two_clock, at[1])].map(
            |(refresher, clock, now)| {
                clock.set(now);
                refresher.refresh().unwrap();
                NoteKind::ALL.map(|kind| {
                    let filter = served(refresher.service(), kind).unwrap();
                    assert!(filter.timestamp() <= now, "{kind} at {now}");
                    (filter.timestamp(), *filter.json().sha256())
                })
            },
        );
        (tags[0] == tags[1], tags[0][0].0)
    };
    // Started in different minutes: equal from the next multiple of 10 minutes on.
    assert_eq!(refresh([6_007, 6_121]), (false, 6_000));
    assert_eq!(refresh([6_540, 6_599]), (false, 6_000));
    assert_eq!(refresh([6_601, 6_659]), (true, 6_600));
    // Both have the new notes within a minute.
    database.add_spent(V1, &spent[10..]);
    assert_eq!(refresh([6_662, 6_719]), (true, 6_660));
    assert_eq!(refresh([7_199, 7_197]), (true, 6_660));
    // One of them reads later than the other.
    assert_eq!(refresh([7_205, 7_350]), (true, 7_200));
}
