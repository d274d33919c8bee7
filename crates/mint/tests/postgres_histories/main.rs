//! Random histories of a mint's Postgres database: transactions in several sessions, maintenance, edits by hand, crashes,
//! standbys that are promoted, volumes that are put back. After each refresh, every item that counts is in the filter of its
//! keyset.
//!
//! `NUTFILTER_HISTORIES=3000` tries that many of each class; `NUTFILTER_POSTGRES=DIR` takes the server in DIR. A history that
//! fails is shrunk. The histories that each rule is for are in `docs/decisions/0015-postgres-increments.md`.

#![cfg(unix)]

#[allow(dead_code)]
mod cluster;
#[path = "../sqlite_histories/histories.rs"]
mod histories;

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use nutfilter_mint::source::{DatabaseLocation, PostgresSource};
use nutfilter_mint::{MintType, Monitor, RefreshOptions, Refresher};
use nutfilter_objects::Table;
use proptest::prelude::*;

use self::cluster::{Cluster, PATIENCE, Writer};
use self::histories::{missing, try_histories};

const KEYSETS: [&str; 2] = ["009a1f293253e41e", "00ad268c4d1f5826"];
const TABLES: [(&str, &str); 2] = [("proof", "y"), ("blind_signature", "blinded_message")];

/// Names of prepared transactions.
const GIDS: [&str; 2] = ["one", "other"];

/// Keyset, kind and item of the rows that count.
const COUNTING: &str = "
    SELECT coalesce(string_agg(keyset_id || ' ' || kind || ' ' || encode(item, 'hex'), ' '), '') FROM (
        SELECT keyset_id, 0 AS kind, y AS item FROM proof WHERE state = 'SPENT' UNION ALL
        SELECT keyset_id, 1, blinded_message FROM blind_signature WHERE c IS NOT NULL) AS counting";

/// A commit that is not flushed stays so for long. The log stays for standbys and recoveries. To start workers for tables of
/// a few rows would take most of the time.
const SETTINGS: &str = "
    wal_writer_delay = 10s
    wal_keep_size = 32
    wal_retrieve_retry_interval = 50
    max_parallel_workers_per_gather = 0";

#[derive(Clone, Debug)]
enum Op {
    /// A session adds a row of a kind and a keyset that counts, or does not yet.
    Add(usize, usize, usize, bool),
    /// A row that did not count does now.
    Flip(usize, usize),
    /// A row that did not count is deleted.
    Drop(usize, usize),
    Begin(usize),
    Savepoint(usize),
    RollbackTo(usize),
    Commit(usize),
    Rollback(usize),
    /// Two-phase commit.
    Prepare(usize),
    CommitPrepared,
    /// Maintenance or an edit by hand, while no transaction is open.
    Quiet(Quiet, usize),
    /// Something happens to the server; then so many rows are added.
    Server(Server, usize),
    Refresh,
    Whole,
    RestartService,
}

#[derive(Clone, Copy, Debug)]
enum Quiet {
    Vacuum,
    Freeze,
    Full,
    Rewrite,
    FastDefault,
    SwapTable,
    /// Another database, a copy of this one, takes its name, and back again.
    SwapDatabase,
    Child,
    EditKeyset,
    Truncate,
}

/// What happens to the server.
#[derive(Clone, Copy, Debug)]
enum Server {
    /// `kill -9` of a backend.
    KillBackend,
    Stop(Mode),
    SaveVolume,
    RestoreVolume,
    /// Remembers a position of the log after the volume was saved, to which the server recovers later.
    NotePosition,
    Recover,
    StartStandby,
    /// The standby does not hear from the server any more.
    PartStandby,
    Promote(Mode),
}

/// How a server stops: `fast`, which is in order, or `immediate`, which is like a crash.
type Mode = &'static str;

struct Session {
    writer: Writer,
    begun: bool,
}

struct World<'c> {
    cluster: &'c Cluster,
    url: String,
    sessions: [Option<Session>; 3],
    witness: Option<Writer>,
    prepared: Vec<&'static str>,
    refresher: Refresher,
    next: u32,
    has_copy: bool,
    saved: bool,
    position: Option<String>,
    /// Whether the standby follows, if there is one.
    standby: Option<bool>,
}

impl<'c> World<'c> {
    fn new(cluster: &'c Cluster) -> Self {
        let url = cluster.url("mint");
        let mint = Writer::wait_for(&url);
        for name in GIDS {
            // What a history before left.
            let _ = mint.try_run(&format!("ROLLBACK PREPARED '{name}'"));
        }
        Writer::connect(&cluster.url("postgres")).run("DROP DATABASE IF EXISTS copy");
        mint.run("DROP SCHEMA public CASCADE; CREATE SCHEMA public");
        mint.run(include_str!("../../../sample/src/cdk.sql"));
        Self {
            refresher: refresher(&url),
            cluster,
            url,
            sessions: [None, None, None],
            witness: Some(mint),
            prepared: vec![],
            next: 0,
            has_copy: false,
            saved: false,
            position: None,
            standby: None,
        }
    }

    /// Notes of both kinds, some of them pending, which are read.
    fn begin(&mut self) {
        for (kind, counts) in [(0, true), (1, true), (0, false), (1, false)] {
            (0..2).for_each(|keyset| self.happen(&Op::Add(0, kind, keyset, counts)));
        }
        self.refresh(false);
    }

    fn session(&mut self, number: usize) -> &mut Session {
        self.sessions[number].get_or_insert_with(|| {
            let writer = Writer::connect(&self.url);
            writer.run("SET lock_timeout = '5ms'");
            let begun = false;
            Session { writer, begun }
        })
    }

    fn witness(&mut self) -> &Writer {
        self.witness
            .get_or_insert_with(|| Writer::wait_for(&self.url))
    }

    /// Runs a statement. One that fails or waits for a lock is ignored; within a transaction it would end that, so it is a
    /// subtransaction.
    fn run(&mut self, number: usize, sql: &str) {
        let session = self.session(number);
        let run = |sql: &str| session.writer.try_run(sql);
        let _ = match session.begun {
            true if run(&format!("SAVEPOINT inside; {sql}; RELEASE inside")).is_err() => {
                run("ROLLBACK TO inside")
            }
            true => Ok(vec![]),
            false => run(sql),
        };
    }

    fn end_all(&mut self) {
        (0..3).for_each(|number| self.end(number, "COMMIT"));
        (0..3).for_each(|_| self.happen(&Op::CommitPrepared));
    }

    fn run_begun(&mut self, number: usize, sql: &str) {
        let session = self.session(number);
        if session.begun {
            session.writer.run(sql);
        }
    }

    fn end(&mut self, number: usize, how: &str) {
        if let Some(session) = &mut self.sessions[number]
            && session.begun
        {
            session.begun = false;
            let _ = session.writer.try_run(how);
        }
    }

    fn happen(&mut self, op: &Op) {
        match *op {
            Op::Add(number, kind, keyset, counts) => {
                self.next += 1;
                let keyset = KEYSETS[keyset];
                let sql = insert(TABLES[kind].0, kind, self.next, keyset, counts);
                self.run(number, &sql);
            }
            Op::Flip(number, kind) => {
                let set = ["state = 'SPENT'", "c = '\\x02'"][kind];
                let update = format!("UPDATE {} SET {set}", TABLES[kind].0);
                self.run(number, &(update + &one_pending(kind)));
            }
            Op::Drop(number, kind) => {
                let delete = format!("DELETE FROM {}", TABLES[kind].0);
                self.run(number, &(delete + &one_pending(kind)));
            }
            Op::Begin(number) => {
                let session = self.session(number);
                if !std::mem::replace(&mut session.begun, true) {
                    session.writer.run("BEGIN; SAVEPOINT outside");
                }
            }
            Op::Savepoint(number) => self.run_begun(number, "SAVEPOINT outside"),
            Op::RollbackTo(number) => self.run_begun(number, "ROLLBACK TO outside"),
            Op::Commit(number) => self.end(number, "COMMIT"),
            Op::Rollback(number) => self.end(number, "ROLLBACK"),
            Op::Prepare(number) => {
                let name = GIDS.get(self.prepared.len());
                if let Some(name) = name
                    && self.session(number).begun
                {
                    self.end(number, &format!("PREPARE TRANSACTION '{name}'"));
                    self.prepared.push(name);
                }
            }
            Op::CommitPrepared => {
                if let Some(name) = self.prepared.pop() {
                    let _ = self.witness().try_run(&format!("COMMIT PREPARED '{name}'"));
                }
            }
            Op::Quiet(quiet, kind) => {
                self.end_all();
                self.quiet(quiet, kind);
            }
            Op::Server(what, rows) => {
                self.server(what);
                // They take the ids that follow, which may have been given out before.
                (0..rows).for_each(|_| self.happen(&Op::Add(0, 0, 0, true)));
            }
            Op::Refresh => self.refresh(false),
            Op::Whole => self.refresh(true),
            Op::RestartService => self.refresher = refresher(&self.url),
        }
    }

    fn quiet(&mut self, quiet: Quiet, kind: usize) {
        let (table, _) = TABLES[kind];
        self.next += 1;
        let next = self.next;
        let [first, second] = KEYSETS;
        let sql = match quiet {
            Quiet::Vacuum => format!("VACUUM {table}"),
            Quiet::Freeze => format!("VACUUM FREEZE {table}"),
            Quiet::Full => format!("VACUUM FULL {table}"),
            Quiet::Rewrite => {
                let number = ["bigint", "numeric"][next as usize % 2];
                format!("ALTER TABLE {table} ALTER amount TYPE {number}")
            }
            // Every row counts at once, and none is rewritten.
            Quiet::FastDefault => {
                let column = ["state", "c"][kind];
                let counting = ["TEXT DEFAULT 'SPENT'", "BYTEA DEFAULT '\\x02'"][kind];
                let alter = format!("ALTER TABLE {table}");
                format!("{alter} DROP {column}; {alter} ADD {column} {counting}")
            }
            // The first time it is made, the second time it takes the place; it has a row of its own.
            Quiet::SwapTable => {
                let swap = format!(
                    "ALTER TABLE {table} RENAME TO gone; ALTER TABLE swapped_{kind} RENAME TO {table}; DROP TABLE gone CASCADE"
                );
                if self.witness().try_run(&swap).is_ok() {
                    return;
                }
                let insert = insert(&format!("swapped_{kind}"), kind, next, first, true);
                format!(
                    "CREATE TABLE swapped_{kind} (LIKE {table} INCLUDING ALL); INSERT INTO swapped_{kind} SELECT * FROM {table}; \
                     {insert}"
                )
            }
            Quiet::SwapDatabase => return self.swap_database(),
            Quiet::Child => {
                let attach = format!("ALTER TABLE child_{kind} INHERIT {table}");
                let create = format!("CREATE TABLE child_{kind} (LIKE {table} INCLUDING ALL)");
                let _ = self.witness().try_run(&attach);
                let _ = self.witness().try_run(&create);
                insert(&format!("child_{kind}"), kind, next, first, true)
            }
            Quiet::EditKeyset => {
                format!("UPDATE {table} SET keyset_id = '{second}' WHERE keyset_id = '{first}'")
            }
            Quiet::Truncate => format!(
                "CREATE TEMP TABLE kept AS SELECT * FROM {table}; TRUNCATE {table}; INSERT INTO {table} SELECT * FROM kept; \
                 DROP TABLE kept"
            ),
        };
        let _ = self.witness().try_run(&sql);
    }

    fn swap_database(&mut self) {
        self.disconnect();
        let owner = Writer::connect(&self.cluster.url("postgres"));
        if self.has_copy {
            owner.run(
                "ALTER DATABASE mint RENAME TO other; ALTER DATABASE copy RENAME TO mint; ALTER DATABASE other RENAME TO copy",
            );
        } else if owner.try_run("CREATE DATABASE copy TEMPLATE mint").is_ok() {
            self.has_copy = true;
            self.next += 1;
            let insert = insert("proof", 0, self.next, KEYSETS[0], true);
            let _ = Writer::connect(&self.cluster.url("copy")).try_run(&insert);
        }
    }

    fn disconnect(&mut self) {
        (self.sessions, self.witness) = ([None, None, None], None);
    }

    fn server(&mut self, what: Server) {
        let cluster = self.cluster;
        match what {
            Server::KillBackend => {
                self.read_unflushed();
                let (victim, witness) = (Writer::connect(&self.url), Writer::connect(&self.url));
                let process = victim.value("SELECT pg_backend_pid()");
                let killed = Command::new("kill").args(["-9", &process]).status();
                assert!(killed.unwrap().success());
                // Until the server has noticed it and ended the other sessions, it still accepts new ones.
                while witness.try_run("SELECT pg_sleep(0.005)").is_ok() {}
            }
            Server::Stop(mode) => {
                self.stop(mode);
                cluster.start_again();
            }
            Server::SaveVolume => {
                self.stop("fast");
                cluster.copy("data", "saved");
                cluster.start_again();
                (self.saved, self.position) = (true, None);
            }
            Server::NotePosition if self.saved => {
                // Everything before is flushed.
                let sql = "CHECKPOINT; SELECT pg_current_wal_flush_lsn()";
                self.position = Some(self.witness().value(sql));
            }
            Server::RestoreVolume if self.saved => {
                self.stop("fast");
                cluster.copy("saved", "data");
                cluster.start_again();
                self.forget_log();
            }
            Server::Recover => {
                let Some(position) = self.position.take() else {
                    return;
                };
                self.stop("fast");
                cluster.restore_until(&position);
                self.forget_log();
            }
            Server::StartStandby => {
                self.forget_log();
                self.stop("fast");
                cluster.start_with_standby();
                self.standby = Some(true);
            }
            Server::PartStandby if self.standby == Some(true) => {
                cluster.stop_standby();
                self.standby = Some(false);
            }
            Server::Promote(mode) if self.standby.is_some() => self.promote(mode),
            // There is nothing to do it with.
            _ => return,
        }
        // Transactions that were prepared survive.
        self.disconnect();
        self.witness();
    }

    /// A commit that is known to readers, but not flushed.
    fn read_unflushed(&mut self) {
        self.next += 1;
        let insert = insert("proof", 0, self.next, KEYSETS[1], true);
        let sql = format!("BEGIN; SET LOCAL synchronous_commit = off; {insert}; COMMIT");
        self.witness().run(&sql);
        self.refresh(false);
    }

    fn stop(&mut self, mode: Mode) {
        if mode == "immediate" {
            self.read_unflushed();
        }
        self.disconnect();
        self.cluster.stop(mode);
    }

    /// The log has no longer one history: what was saved before does not fit to what comes.
    fn forget_log(&mut self) {
        (self.saved, self.position) = (false, None);
        if self.standby.take() == Some(true) {
            self.cluster.stop_standby();
        }
    }

    fn promote(&mut self, mode: Mode) {
        let follows = self.standby.take() == Some(true);
        if follows {
            let sql = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'";
            let start = Instant::now();
            while self.witness().value(sql) != "1" {
                assert!(start.elapsed() < PATIENCE, "the standby does not follow");
            }
        }
        let before = self.rows();
        self.stop(mode);
        if !follows {
            self.cluster.start_standby();
        }
        self.cluster.move_address();
        self.refuse_standby();
        self.cluster.promote();
        // A server that stops in order sends its standby everything.
        if follows && mode == "fast" {
            assert!(self.rows() == before, "the standby lagged");
        }
    }

    /// A standby is not read, and what is served stays.
    fn refuse_standby(&mut self) {
        let table = Arc::clone(self.refresher.monitor().table());
        let tags = || Vec::from_iter(table.objects().iter().map(|object| object.tag().to_owned()));
        let before = tags();
        let error = self.refresher.refresh(false).unwrap_err().to_string();
        assert!(error.contains("the server is a standby"), "{error}");
        assert_eq!(tags(), before);
    }

    /// The items that count, by keyset and kind.
    fn rows(&mut self) -> BTreeMap<(String, usize), Vec<Vec<u8>>> {
        let text = self.witness().value(COUNTING);
        let words: Vec<&str> = text.split_whitespace().collect();
        let mut rows: BTreeMap<_, Vec<Vec<u8>>> = BTreeMap::new();
        for row in words.chunks(3) {
            let key = (row[0].to_owned(), row[1].parse().unwrap());
            let items = rows.entry(key).or_default();
            items.push(const_hex::decode(row[2]).unwrap());
        }
        rows.values_mut().for_each(|items| items.sort());
        rows
    }

    /// Refreshes, and compares what is served with the database.
    fn refresh(&mut self, whole: bool) {
        let report = self.refresher.refresh(whole).unwrap();
        assert!(report.is_complete(), "{report:?}");
        for ((keyset, kind), items) in self.rows() {
            let (missing, all) = (missing(&self.refresher, kind, &keyset, &items), items.len());
            let table = TABLES[kind].0;
            assert!(
                missing == 0,
                "{keyset}, {table}: {missing} of {all} missed; {report:?}"
            );
        }
    }
}

fn refresher(url: &str) -> Refresher {
    let location = DatabaseLocation::parse(url).unwrap();
    let source = PostgresSource::open(&location, Some(MintType::Cdk)).unwrap();
    let monitor = Monitor::new(Arc::new(Table::in_memory()));
    Refresher::new(source, monitor, RefreshOptions::default())
}

fn insert(table: &str, kind: usize, item: u32, keyset: &str, counts: bool) -> String {
    let item = format!("'\\x02{item:064x}', 1, '{keyset}'");
    match (kind, counts) {
        (0, _) => {
            let state = if counts { "SPENT" } else { "PENDING" };
            format!(
                "INSERT INTO {table} (y, amount, keyset_id, secret, c, state) VALUES ({item}, '', '', '{state}')"
            )
        }
        _ => {
            let c = if counts { "'\\x02'" } else { "NULL" };
            format!(
                "INSERT INTO {table} (blinded_message, amount, keyset_id, c) VALUES ({item}, {c})"
            )
        }
    }
}

/// SQL for one of the rows that do not count.
fn one_pending(kind: usize) -> String {
    let (table, item) = TABLES[kind];
    let pending = ["state = 'PENDING'", "c IS NULL"][kind];
    format!(" WHERE {item} = (SELECT {item} FROM {table} WHERE {pending} ORDER BY {item} LIMIT 1)")
}

// --- classes of histories

fn of_sessions() -> BoxedStrategy<Op> {
    let (s, k) = (|| 0..3_usize, || 0..2_usize);
    prop_oneof![
        9 => (s(), k(), k(), any::<bool>()).prop_map(|(s, kind, keyset, counts)| Op::Add(s, kind, keyset, counts)),
        3 => (s(), k()).prop_map(|(s, kind)| Op::Flip(s, kind)),
        1 => (s(), k()).prop_map(|(s, kind)| Op::Drop(s, kind)),
        4 => s().prop_map(Op::Begin),
        2 => s().prop_map(Op::Savepoint),
        1 => s().prop_map(Op::RollbackTo),
        4 => s().prop_map(Op::Commit),
        1 => s().prop_map(Op::Rollback),
        1 => s().prop_map(Op::Prepare),
        1 => Just(Op::CommitPrepared),
        7 => Just(Op::Refresh),
        1 => Just(Op::Whole),
        1 => Just(Op::RestartService),
    ]
    .boxed()
}

fn one_of(all: &'static [Quiet]) -> BoxedStrategy<Op> {
    let quiet = prop::sample::select(all);
    (quiet, 0..2_usize)
        .prop_map(|(quiet, kind)| Op::Quiet(quiet, kind))
        .boxed()
}

fn of_server(what: impl Strategy<Value = Server> + 'static) -> BoxedStrategy<Op> {
    (what, 0..9_usize)
        .prop_map(|(what, rows)| Op::Server(what, rows))
        .boxed()
}

/// Runs random histories of what sessions do, and these operations, `weight` of them for three of the others.
fn try_class(default: u32, weight: u32, more: Option<BoxedStrategy<Op>>) {
    // A transaction of another class would make old rows look new.
    let Some(cluster) = Cluster::start(None, &[("postgresql.auto.conf", SETTINGS)]) else {
        return;
    };
    Writer::connect(&cluster.url("postgres")).run("CREATE DATABASE mint");
    let op = match more {
        None => of_sessions(),
        Some(more) => prop_oneof![3 => of_sessions(), weight => more].boxed(),
    };
    try_histories(default, &prop::collection::vec(op, 1..22), |ops| {
        let mut world = World::new(&cluster);
        world.begin();
        ops.iter().for_each(|op| world.happen(op));
        world.end_all();
        world.refresh(false);
        world.forget_log();
    });
}

#[test]
fn sessions_miss_nothing() {
    try_class(12, 0, None);
}

#[test]
fn maintenance_misses_nothing() {
    use Quiet::{Freeze, Full, Rewrite, Vacuum};
    try_class(12, 1, Some(one_of(&[Vacuum, Freeze, Full, Rewrite])));
}

#[test]
fn edits_miss_nothing() {
    use Quiet::{Child, EditKeyset, FastDefault, SwapDatabase, SwapTable, Truncate};
    let edits = &[
        FastDefault,
        SwapTable,
        SwapDatabase,
        Child,
        EditKeyset,
        Truncate,
    ];
    try_class(12, 2, Some(one_of(edits)));
}

#[test]
#[ignore = "takes a minute; `just histories` runs it, and tests/postgres has one crash of each kind"]
fn crashes_miss_nothing() {
    let crash = prop_oneof![
        3 => Just(Server::KillBackend),
        2 => Just(Server::Stop("immediate")),
        1 => Just(Server::Stop("fast")),
        1 => Just(Server::SaveVolume),
        1 => Just(Server::RestoreVolume),
        1 => Just(Server::NotePosition),
        1 => Just(Server::Recover),
    ];
    try_class(4, 1, Some(of_server(crash)));
}

#[test]
#[ignore = "takes a minute; `just histories` runs it, and tests/postgres has one promotion"]
fn promotions_miss_nothing() {
    let promotion = prop_oneof![
        2 => Just(Server::StartStandby),
        1 => Just(Server::PartStandby),
        2 => Just(Server::Promote("fast")),
        2 => Just(Server::Promote("immediate")),
        1 => Just(Server::KillBackend),
    ];
    try_class(4, 1, Some(of_server(promotion)));
}
