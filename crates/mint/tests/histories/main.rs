//! Random histories of a mint's database: what mints, operators, power cuts and crashes do to it, and to the service that
//! reads it. `World::refresh` says what has to be true after each refresh.
//!
//! `NUTFILTER_HISTORIES=3000` tries that many of each class; `NUTFILTER_POSTGRES=DIR` takes the server in DIR. A history that
//! fails is shrunk. The histories that each rule of the increments is for are in `docs/increments.md`;
//! `docs/testing.md` has the rules that were removed to see a class fail.

#![forbid(unsafe_code)]
#![cfg(unix)]

#[allow(dead_code)]
#[path = "../postgres/cluster.rs"]
mod cluster;
mod mint;
mod notes;
mod postgres;
#[path = "../postgres/router.rs"]
mod router;
mod service;
mod sqlite;
mod world;

use std::cell::Cell;

use nutfilter_mint::MintType;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestError, TestRunner};

use self::postgres::{Edit, Event, Host, Server, Step, TENANTS};
use self::sqlite::Sqlite;
use self::world::{Database, OTHER_KEYSETS, Op, What, World};

#[test]
fn mint_process() {
    mint::serve();
}

/// What mints do in order in any of their sessions, and services.
fn of_mint<E: Clone + core::fmt::Debug + 'static>() -> BoxedStrategy<Op<E>> {
    let what = prop_oneof![3 => Just(What::Counts), 2 => Just(What::Pending)];
    let (s, kind, keyset, which) = (|| 0..3_usize, || 0..2_usize, || 0..4_usize, || 0..9_usize);
    prop_oneof![
        8 => (s(), kind(), keyset(), what).prop_map(|(s, kind, keyset, what)| Op::Add(s, kind, keyset, what)),
        4 => (s(), kind(), which()).prop_map(|(s, kind, which)| Op::Flip(s, kind, which)),
        2 => (s(), kind(), which()).prop_map(|(s, kind, which)| Op::Drop(s, kind, which)),
        7 => Just(Op::Refresh),
        1 => Just(Op::Whole),
        1 => any::<bool>().prop_map(Op::NewProcess),
    ]
    .boxed()
}

fn of_processes<E: Clone + core::fmt::Debug + 'static>() -> BoxedStrategy<Op<E>> {
    any::<bool>().prop_map(Op::NewProcess).boxed()
}

fn of_rows<E: Clone + core::fmt::Debug + 'static>(all: &'static [What]) -> BoxedStrategy<Op<E>> {
    (0..2_usize, 0..3_usize, select(all))
        .prop_map(|(kind, keyset, what)| Op::Add(0, kind, keyset, what))
        .boxed()
}

fn of_rows_without_keyset<E: Clone + core::fmt::Debug + 'static>() -> BoxedStrategy<Op<E>> {
    use What::{BadItemWithoutKeyset, NoKeyset};
    const ROWS: &[What] =
        &[NoKeyset("NULL"), NoKeyset("''"), NoKeyset("'garbage'"), NoKeyset("'0012'")];
    prop_oneof![
        4 => of_rows(ROWS),
        1 => of_rows(&[BadItemWithoutKeyset]),
        2 => (0..2_usize, 0..3_usize).prop_map(|(kind, keyset)| Op::Fill(kind, keyset)),
        2 => of_processes(),
    ]
    .boxed()
}

/// Tries `NUTFILTER_HISTORIES` histories, or `default` of them: what mints do, and `weight` of these operations for three of
/// those. One that fails is shrunk.
fn try_histories<D: Database>(
    default: u32,
    weight: u32,
    more: BoxedStrategy<Op<D::Event>>,
    open: impl Fn() -> D,
) {
    let op = prop_oneof![3 => of_mint(), weight => more];
    let histories = (select(&MintType::ALL), prop::collection::vec(op, 1..22));
    try_all(default, 1, histories, |(mint, ops)| {
        let mut world = World::new(open(), mint);
        world.begin();
        ops.iter().for_each(|op| world.happen(op));
        D::settle(&mut world);
        world.refresh(false);
    });
}

/// Tries a class on so many threads, each of which tries its share: it mostly waits.
fn side_by_side(threads: u32, class: impl Fn() + Sync) {
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                THREADS.set(threads);
                class();
            });
        }
    });
}

thread_local! {
    static THREADS: Cell<u32> = const { Cell::new(1) };
}

/// Each history is that of so many mints. Several are not shrunk, as they leave their server as it was when one failed.
fn try_all<H: core::fmt::Debug>(
    default: u32,
    mints: u32,
    histories: impl Strategy<Value = H>,
    happen: impl Fn(H),
) {
    let cases = std::env::var("NUTFILTER_HISTORIES");
    let cases = cases.map_or(default, |cases| cases.parse().expect("a number"));
    let config = Config {
        cases: cases.div_ceil(THREADS.get() * mints),
        failure_persistence: None,
        max_shrink_iters: if mints == 1 { 300 } else { 0 },
        ..Config::default()
    };
    let (tried, good, failed) = (Cell::new(0), Cell::new(0), Cell::new(None));
    let result = TestRunner::new(config).run(&histories, |history| {
        if good.get() < tried.get() && failed.get().is_none() {
            failed.set(Some(tried.get()));
        }
        tried.set(tried.get() + 1);
        happen(history);
        good.set(good.get() + 1);
        Ok(())
    });
    let number = failed.get().unwrap_or(tried.get());
    match result {
        Err(TestError::Fail(why, history)) => panic!("history {number} failed: {why}\n{history:?}"),
        result => result.unwrap(),
    }
}

#[test]
fn notes_handed_over() {
    try_all(300, 1, notes::histories(), |ops| notes::happen(&ops));
}

// --- SQLite

type OnSqlite = BoxedStrategy<Op<sqlite::Event>>;

fn try_sqlite(more: OnSqlite) {
    use sqlite::Event::{Checkpoint, Restart, Start, Stop};
    let files = prop_oneof![
        1 => Just(Checkpoint),
        2 => any::<bool>().prop_map(|killed| Restart(killed, sqlite::Migration::None)),
        1 => any::<bool>().prop_map(Stop),
        2 => Just(Start),
    ];
    let more = prop_oneof![2 => files.prop_map(Op::Event), 3 => more].boxed();
    try_histories(15, 2, more, Sqlite::new);
}

fn of_maintenance() -> OnSqlite {
    use sqlite::Event::{Restart, Vacuum};
    use sqlite::Migration::{Edit, Rebuild, Update};
    let migration = select(&[Update, Rebuild, Edit]);
    let restart =
        (any::<bool>(), migration).prop_map(|(killed, migration)| Restart(killed, migration));
    prop_oneof![Just(Vacuum), restart].prop_map(Op::Event).boxed()
}

fn of_backups() -> OnSqlite {
    use sqlite::Save::{Killed, Running, Stopped};
    use sqlite::Way::{Api, Copy, Dump, InPlace, Move, RemoveAndCopy};
    let save = select(&[Running, Stopped, Killed]).prop_map(sqlite::Event::Save);
    let way = select(&[Copy, RemoveAndCopy, Move, Api, Dump, InPlace]);
    let restore = (way, 0..9_usize).prop_map(|(way, which)| sqlite::Event::Restore(way, which));
    prop_oneof![save, restore].prop_map(Op::Event).boxed()
}

fn of_power() -> OnSqlite {
    (0..9_usize).prop_map(|kept| Op::Event(sqlite::Event::PowerLoss(kept))).boxed()
}

fn of_faults() -> OnSqlite {
    const ROWS: &[What] = &[What::BadItem, What::UnknownState];
    prop_oneof![2 => of_rows(ROWS), 1 => (0..2_usize).prop_map(Op::Repair)].boxed()
}

fn of_lost_logs() -> OnSqlite {
    use sqlite::Event::{Attach, WithoutLog};
    let event = prop_oneof![3 => any::<bool>().prop_map(WithoutLog), 1 => Just(Attach)];
    event.prop_map(Op::Event).boxed()
}

/// Rests take a second each.
fn of_closed_databases() -> OnSqlite {
    use sqlite::Event::{Quiet, Rest, Save};
    use sqlite::Quiet::{Commit, CommitBeside, Copy, Move, Touch};
    let (kind, which) = (|| 0..2_usize, || 0..9_usize);
    let quiet = prop_oneof![
        3 => kind().prop_map(Commit),
        2 => (kind(), 0..60_u8).prop_map(|(kind, millis)| CommitBeside(kind, millis)),
        2 => which().prop_map(Copy),
        1 => which().prop_map(Move),
        1 => Just(Touch),
    ];
    prop_oneof![
        3 => prop::option::of(kind()).prop_map(Rest),
        1 => Just(Save(sqlite::Save::Stopped)),
        5 => quiet.prop_map(Quiet),
    ]
    .prop_map(Op::Event)
    .boxed()
}

#[test]
fn mint_alone() {
    try_sqlite(of_mint());
}

#[test]
fn maintenance() {
    try_sqlite(of_maintenance());
}

#[test]
fn restored_backups() {
    try_sqlite(of_backups());
}

#[test]
fn restored_backups_across_processes() {
    let more = prop_oneof![3 => of_backups(), 2 => of_processes()].boxed();
    try_histories(15, 4, more, Sqlite::new);
}

#[test]
fn power_loss() {
    try_sqlite(of_power());
}

#[test]
fn unreadable_rows() {
    try_sqlite(of_faults());
}

#[test]
fn rows_without_keyset() {
    try_sqlite(of_rows_without_keyset());
}

#[test]
fn files_without_log() {
    try_sqlite(of_lost_logs());
}

#[test]
fn closed_databases() {
    side_by_side(16, || try_sqlite(of_closed_databases()));
}

#[test]
fn all_at_once() {
    let rows = prop_oneof![of_faults(), of_rows_without_keyset()];
    try_sqlite(
        prop_oneof![of_maintenance(), of_backups(), of_power(), rows, of_lost_logs()].boxed(),
    );
}

// --- Postgres

type OnPostgres = BoxedStrategy<Op<Event>>;

fn of_sessions() -> OnPostgres {
    let step = prop_oneof![
        4 => Just("BEGIN"),
        4 => Just("COMMIT"),
        1 => Just("ROLLBACK"),
        2 => Just("SAVEPOINT outside"),
        1 => Just("ROLLBACK TO outside"),
        1 => Just("PREPARE"),
        1 => Just("COMMIT PREPARED"),
    ];
    (0..3_usize, step).prop_map(|(number, sql)| Op::Event(Event::Session(number, sql))).boxed()
}

fn try_postgres(more: OnPostgres) {
    let Some(host) = Host::start(false) else { return };
    let more = prop_oneof![1 => of_sessions(), 1 => more].boxed();
    try_histories(8, 2, more, || host.begin(1).remove(0));
}

/// Tries histories of several mints on one server, to which these things happen.
fn try_servers(what: &'static [Server], is_frozen: bool) {
    let mints = TENANTS as u32;
    side_by_side(2, || {
        let Some(host) = Host::start(is_frozen) else { return };
        // A server whose clock stands has no time limits, so a statement would wait for a transaction for ever.
        let sessions = if is_frozen { of_mint() } else { of_sessions() };
        let op = prop_oneof![3 => of_mint(), 1 => sessions];
        let step = prop_oneof![
            3 * mints => (0..TENANTS, op).prop_map(|(tenant, op)| Step::Tenant(tenant, op)),
            1 => (select(what), prop::bool::weighted(0.75), 0..9_usize)
                .prop_map(|(what, is_quiet, rows)| Step::Server(what, is_quiet, rows)),
        ];
        let steps = prop::collection::vec(step, TENANTS..22 * TENANTS);
        let histories = (prop::collection::vec(select(&MintType::ALL), TENANTS), steps);
        try_all(4, mints, histories, |(mints, steps)| {
            let databases = host.begin(TENANTS).into_iter().zip(&mints);
            let mut worlds: Vec<_> = databases.map(|(of, mint)| World::new(of, *mint)).collect();
            postgres::happen(&host, &mut worlds, &steps);
        });
    });
}

/// One of these, with a number below `most`.
fn of<T: Clone + core::fmt::Debug + 'static>(
    all: &'static [T],
    most: usize,
    event: fn(T, usize) -> Event,
) -> OnPostgres {
    (select(all), 0..most).prop_map(move |(one, number)| Op::Event(event(one, number))).boxed()
}

fn of_tables(all: &'static [&'static str]) -> OnPostgres {
    of(all, 2, Event::Quiet)
}

fn of_edits(all: &'static [Edit]) -> OnPostgres {
    of(all, 2, Event::Edit)
}

#[test]
fn postgres_sessions() {
    try_postgres(of_mint());
}

#[test]
fn postgres_maintenance() {
    try_postgres(prop_oneof![3 => of_tables(&["VACUUM $table", "VACUUM FREEZE $table", "VACUUM FULL $table"]), 1 => of_edits(&[Edit::Rewrite])].boxed());
}

#[test]
fn postgres_edits() {
    use Edit::{Child, FastDefault, SwapDatabase, SwapTable};
    const TRUNCATE: &str = "CREATE TEMP TABLE kept AS SELECT * FROM $table; TRUNCATE $table; INSERT INTO $table SELECT * FROM kept; DROP TABLE kept";
    let edits = of_edits(&[FastDefault, SwapTable, SwapDatabase, Child]);
    try_postgres(prop_oneof![4 => edits, 2 => of_tables(&[TRUNCATE, OTHER_KEYSETS])].boxed());
}

#[test]
fn postgres_rows_without_keyset() {
    try_postgres(of_rows_without_keyset());
}

#[test]
#[ignore = "takes a minute; `just histories` runs it, and tests/postgres has one crash of each kind"]
fn postgres_crashes() {
    use Server::{KillBackend, NotePosition, Recover, RestoreVolume, SaveVolume, Stop};
    const CRASHES: &[Server] = &[
        KillBackend,
        KillBackend,
        KillBackend,
        Stop("immediate"),
        Stop("immediate"),
        Stop("fast"),
        SaveVolume,
        RestoreVolume,
        NotePosition,
        Recover,
    ];
    try_servers(CRASHES, false);
}

#[test]
#[ignore = "takes a minute; `just histories` runs it, and tests/postgres has one promotion"]
fn postgres_failovers() {
    use Server::{KillBackend, PartStandby, Promote, StartStandby, TwoPrimaries};
    const FAILOVERS: &[Server] = &[
        StartStandby,
        StartStandby,
        PartStandby,
        Promote("fast"),
        Promote("immediate"),
        KillBackend,
        TwoPrimaries(false),
        TwoPrimaries(true),
    ];
    try_servers(FAILOVERS, false);
}

#[test]
#[ignore = "takes a minute; `just histories` runs it, and tests/postgres has one refusal of each kind"]
fn postgres_routed_statements() {
    use Server::{PartStandby, Promote, Route, StartStandby};
    const ROUTES: &[Server] = &[
        Route("COPY"),
        Route("LIMIT 0"),
        Route("listed.*"),
        Route("pg_attribute a"),
        Route("pg_control_system"),
        StartStandby,
        PartStandby,
        Promote("immediate"),
    ];
    try_servers(ROUTES, false);
}

#[test]
#[ignore = "takes a minute; `just histories` runs it"]
fn postgres_reverted_machines() {
    use Server::{RestoreVolume, SaveVolume};
    try_servers(&[SaveVolume, RestoreVolume], true);
}
