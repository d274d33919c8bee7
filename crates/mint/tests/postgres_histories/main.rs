//! Random histories of a mint's Postgres database: transactions in several sessions, maintenance, edits by hand, crashes.
//! After each refresh, every item that counts is in the filter of its keyset.
//!
//! `NUTFILTER_HISTORIES=3000` tries that many of each class instead of 12, or 4 of crashes; `NUTFILTER_POSTGRES=DIR` takes the
//! server in DIR.
//! A history that fails is shrunk.

#![cfg(unix)]

#[allow(dead_code)]
mod cluster;
#[path = "../sqlite_histories/served.rs"]
mod served;

use std::collections::BTreeMap;
use std::sync::Arc;

use nutfilter_mint::source::{
    DatabaseLocation, ItemSink, Keysets, MintSource, PostgresSource, Reading, SourceError,
};
use nutfilter_mint::{MintType, Monitor, NoteKind, RefreshOptions, Refresher};
use nutfilter_objects::Table;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use self::cluster::Cluster;
use self::served::missing;

const KEYSETS: [&str; 2] = ["009a1f293253e41e", "00ad268c4d1f5826"];
const TABLES: [(&str, &str); 2] = [("proof", "y"), ("blind_signature", "blinded_message")];
const COUNTING: [&str; 2] = ["state = 'SPENT'", "c IS NOT NULL"];

#[derive(Clone, Debug)]
enum Op {
    Add {
        session: usize,
        kind: usize,
        keyset: usize,
        counts: bool,
    },
    Flip {
        session: usize,
        kind: usize,
    },
    Drop {
        session: usize,
        kind: usize,
    },
    Begin {
        session: usize,
    },
    Savepoint {
        session: usize,
    },
    RollbackTo {
        session: usize,
    },
    Commit {
        session: usize,
    },
    Rollback {
        session: usize,
    },
    /// Two-phase commit.
    Prepare {
        session: usize,
    },
    CommitPrepared,
    /// Maintenance or an edit by hand, while no transaction is open.
    Quiet(Quiet, usize),
    Refresh,
    Whole,
    RestartService,
    /// `kill -9` of a backend in the middle of a transaction; an immediate stop; a fast one.
    KillBackend,
    StopImmediately,
    StopFast,
    /// The volume as it was saved is put back.
    SaveVolume,
    RestoreVolume,
}

#[derive(Clone, Copy, Debug)]
enum Quiet {
    Vacuum,
    Freeze,
    Full,
    Rewrite,
    FastDefault,
    SwapTable,
    Child,
    EditKeyset,
    Truncate,
}

struct Session {
    client: Client,
    /// The server's process.
    process: String,
    begun: bool,
    savepoint: bool,
}

struct World {
    cluster: &'static Cluster,
    runtime: Runtime,
    database: String,
    sessions: [Option<Session>; 3],
    prepared: Vec<String>,
    refresher: Refresher,
    next: u32,
    saved: bool,
}

impl World {
    fn new(cluster: &'static Cluster) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let database = Cluster::fresh_name();
        let mut world = Self {
            cluster,
            refresher: Refresher::new(
                Nothing,
                Monitor::new(Arc::new(Table::in_memory())),
                RefreshOptions::default(),
            ),
            runtime,
            database: "postgres".to_owned(),
            sessions: [None, None, None],
            prepared: vec![],
            next: 0,
            saved: false,
        };
        world.run(0, &format!("CREATE DATABASE {database}"));
        world.sessions = [None, None, None];
        world.database = database;
        world.run(0, include_str!("../../../sample/src/cdk.sql"));
        world.refresher = world.new_refresher();
        world
    }

    fn new_refresher(&self) -> Refresher {
        let location = DatabaseLocation::parse(&self.cluster.url(&self.database)).unwrap();
        let source = PostgresSource::open(&location, Some(MintType::Cdk)).unwrap();
        Refresher::new(
            source,
            Monitor::new(Arc::new(Table::in_memory())),
            RefreshOptions::default(),
        )
    }

    fn session(&mut self, number: usize) -> &mut Session {
        if self.sessions[number].is_none() {
            let url = self.cluster.url(&self.database);
            let (client, process) = self.runtime.block_on(async {
                let client = connect(&url).await.unwrap();
                let row = client.query_one("SELECT pg_backend_pid()", &[]).await;
                let process = row.unwrap().get::<_, i32>(0).to_string();
                (client, process)
            });
            self.sessions[number] = Some(Session {
                client,
                process,
                begun: false,
                savepoint: false,
            });
        }
        self.sessions[number].as_mut().unwrap()
    }

    /// Runs a statement; one that fails or waits for a lock is ignored.
    fn run(&mut self, number: usize, sql: &str) -> Vec<Vec<Option<String>>> {
        self.session(number);
        let client = &self.sessions[number].as_ref().unwrap().client;
        let sql = format!("SET lock_timeout = '50ms'; {sql}");
        let sql = if sql.contains("VACUUM") || sql.contains("DATABASE") {
            sql.split_once(';').unwrap().1.to_owned()
        } else {
            sql
        };
        let messages = self
            .runtime
            .block_on(client.simple_query(&sql))
            .unwrap_or_default();
        messages
            .iter()
            .filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => Some(
                    (0..row.len())
                        .map(|at| row.get(at).map(str::to_owned))
                        .collect(),
                ),
                _ => None,
            })
            .collect()
    }

    /// Within an open transaction a failed statement would end it, so each is a subtransaction.
    fn change(&mut self, number: usize, sql: &str) {
        match self.session(number).begun {
            true => {
                self.run(number, &format!("SAVEPOINT inner; {sql}"));
                self.run(number, "ROLLBACK TO inner");
                self.run(number, &format!("{sql}; RELEASE inner"));
            }
            false => _ = self.run(number, sql),
        }
    }

    fn end_all(&mut self) {
        for number in 0..3 {
            if self.sessions[number]
                .as_ref()
                .is_some_and(|session| session.begun)
            {
                self.happen(&Op::Commit { session: number });
            }
        }
        self.happen(&Op::CommitPrepared);
        self.happen(&Op::CommitPrepared);
        self.happen(&Op::CommitPrepared);
    }

    fn happen(&mut self, op: &Op) {
        match *op {
            Op::Add {
                session,
                kind,
                keyset,
                counts,
            } => {
                self.next += 1;
                let item = format!("'\\x02{:064x}'", self.next);
                let keyset = KEYSETS[keyset];
                let sql = match kind {
                    0 => format!(
                        "INSERT INTO proof (y, amount, keyset_id, secret, c, state) VALUES ({item}, 1, '{keyset}', '', '', '{}')",
                        if counts { "SPENT" } else { "PENDING" }
                    ),
                    _ => format!(
                        "INSERT INTO blind_signature (blinded_message, amount, keyset_id, c) VALUES ({item}, 1, '{keyset}', {})",
                        if counts { "'\\x02'" } else { "NULL" }
                    ),
                };
                match self.session(session).begun {
                    true => _ = self.run(session, &sql),
                    false => self.change(session, &sql),
                }
            }
            Op::Flip { session, kind } => {
                let set = ["state = 'SPENT'", "c = '\\x02'"][kind];
                self.change(
                    session,
                    &self.of_pending(kind, &format!("UPDATE {} SET {set}", TABLES[kind].0)),
                );
            }
            Op::Drop { session, kind } => {
                self.change(
                    session,
                    &self.of_pending(kind, &format!("DELETE FROM {}", TABLES[kind].0)),
                );
            }
            Op::Begin { session } => {
                if !self.session(session).begun {
                    self.run(session, "BEGIN");
                    self.session(session).begun = true;
                }
            }
            Op::Savepoint { session } => {
                if self.session(session).begun {
                    self.run(session, "SAVEPOINT outer_point");
                    self.session(session).savepoint = true;
                }
            }
            Op::RollbackTo { session } => {
                if self.session(session).savepoint {
                    self.run(session, "ROLLBACK TO outer_point");
                }
            }
            Op::Commit { session } => self.end(session, "COMMIT"),
            Op::Rollback { session } => self.end(session, "ROLLBACK"),
            Op::Prepare { session } => {
                if self.session(session).begun && self.prepared.len() < 3 {
                    self.next += 1;
                    let name = format!("{}_{}", self.database, self.next);
                    self.end(session, &format!("PREPARE TRANSACTION '{name}'"));
                    self.prepared.push(name);
                }
            }
            Op::CommitPrepared => {
                if let Some(name) = self.prepared.pop() {
                    let free = (0..3).find(|&number| {
                        !self.sessions[number]
                            .as_ref()
                            .is_some_and(|session| session.begun)
                    });
                    match free {
                        Some(number) => _ = self.run(number, &format!("COMMIT PREPARED '{name}'")),
                        None => self.prepared.push(name),
                    }
                }
            }
            Op::Quiet(quiet, kind) => {
                self.end_all();
                self.quiet(quiet, kind);
            }
            Op::Refresh => self.refresh(false),
            Op::Whole => self.refresh(true),
            Op::RestartService => self.refresher = self.new_refresher(),
            Op::KillBackend => {
                // The commit may be known to nobody but readers: it is not flushed.
                self.run(0, "SET synchronous_commit = off");
                self.happen(&Op::Add {
                    session: 0,
                    kind: 0,
                    keyset: 0,
                    counts: true,
                });
                self.refresh(false);
                let process = self.session(1).process.clone();
                let url = self.cluster.url(&self.database);
                let witness = self.runtime.block_on(connect(&url)).unwrap();
                std::process::Command::new("kill")
                    .args(["-9", &process])
                    .status()
                    .unwrap();
                // Until the server has noticed it and ended the other sessions, it still accepts new ones.
                for _ in 0..400 {
                    if self
                        .runtime
                        .block_on(witness.simple_query("SELECT 1"))
                        .is_err()
                    {
                        break;
                    }
                    std::thread::sleep(std::time::Duration::from_millis(25));
                }
                self.after_crash();
            }
            Op::StopImmediately => {
                self.run(0, "SET synchronous_commit = off");
                self.happen(&Op::Add {
                    session: 0,
                    kind: 0,
                    keyset: 1,
                    counts: true,
                });
                self.refresh(false);
                self.cluster.stop("immediate");
                self.cluster.start_again();
                self.after_crash();
            }
            Op::StopFast => {
                self.end_all();
                self.cluster.stop("fast");
                self.cluster.start_again();
                self.after_crash();
            }
            Op::SaveVolume => {
                self.end_all();
                self.cluster.stop("fast");
                self.cluster.save();
                self.cluster.start_again();
                self.saved = true;
                self.after_crash();
            }
            Op::RestoreVolume => {
                if self.saved {
                    self.cluster.stop("fast");
                    self.cluster.restore();
                    self.cluster.start_again();
                    self.after_crash();
                }
            }
        }
    }

    /// Sessions are gone; the server may not accept new ones yet. What mints do next takes the ids that follow.
    fn after_crash(&mut self) {
        self.sessions = [None, None, None];
        let url = self.cluster.url(&self.database);
        for _ in 0..400 {
            let connected = self.runtime.block_on(async {
                let client = connect(&url).await.ok()?;
                client.simple_query("SELECT 1").await.ok()
            });
            if connected.is_some() {
                // Transactions that were prepared survive.
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(25));
        }
        panic!("the server does not come back");
    }

    fn of_pending(&self, kind: usize, statement: &str) -> String {
        let (table, item) = TABLES[kind];
        let pending = ["state = 'PENDING'", "c IS NULL"][kind];
        format!(
            "{statement} WHERE {item} = (SELECT {item} FROM {table} WHERE {pending} ORDER BY {item} LIMIT 1)"
        )
    }

    fn end(&mut self, session: usize, how: &str) {
        if self.session(session).begun {
            self.run(session, how);
            let session = self.session(session);
            (session.begun, session.savepoint) = (false, false);
        }
    }

    fn quiet(&mut self, quiet: Quiet, kind: usize) {
        let (table, item) = TABLES[kind];
        self.next += 1;
        let next = self.next;
        let sql = match quiet {
            Quiet::Vacuum => format!("VACUUM {table}"),
            Quiet::Freeze => format!("VACUUM FREEZE {table}"),
            Quiet::Full => format!("VACUUM FULL {table}"),
            Quiet::Rewrite => format!("ALTER TABLE {table} ALTER amount TYPE {}", ["bigint", "numeric"][next as usize % 2]),
            // Every row counts at once, and none is rewritten.
            Quiet::FastDefault => ["ALTER TABLE proof DROP state; ALTER TABLE proof ADD state TEXT DEFAULT 'SPENT'",
                "ALTER TABLE blind_signature DROP c; ALTER TABLE blind_signature ADD c BYTEA DEFAULT '\\x02'"][kind].to_owned(),
            Quiet::SwapTable => format!(
                "BEGIN; CREATE TABLE swapped (LIKE {table} INCLUDING ALL); INSERT INTO swapped SELECT * FROM {table}; \
                 ALTER TABLE {table} RENAME TO old_{next}; ALTER TABLE swapped RENAME TO {table}; DROP TABLE old_{next}; COMMIT"
            ),
            Quiet::Child => format!("CREATE TABLE child_{next} () INHERITS ({table}); INSERT INTO child_{next} SELECT * FROM ONLY {table} LIMIT 0"),
            Quiet::EditKeyset => format!("UPDATE {table} SET keyset_id = '{}' WHERE keyset_id = '{}'", KEYSETS[1], KEYSETS[0]),
            Quiet::Truncate => format!("CREATE TABLE kept AS SELECT * FROM {table}; TRUNCATE {table}; INSERT INTO {table} SELECT * FROM kept; DROP TABLE kept"),
        };
        self.run(0, &sql);
        if let Quiet::Child = quiet {
            let items = format!("'\\x02{:064x}'", 1_000_000 + next);
            let rest = match kind {
                0 => format!(
                    "INSERT INTO child_{next} (y, amount, keyset_id, secret, c, state) VALUES ({items}, 1, '{}', '', '', 'SPENT')",
                    KEYSETS[0]
                ),
                _ => format!(
                    "INSERT INTO child_{next} ({item}, amount, keyset_id, c) VALUES ({items}, 1, '{}', '\\x02')",
                    KEYSETS[0]
                ),
            };
            self.run(0, &rest);
        }
    }

    /// Refreshes, and compares what is served with the database.
    fn refresh(&mut self, whole: bool) {
        let report = match self.refresher.refresh(whole) {
            Ok(report) => report,
            // A server that was just killed.
            Err(_) => {
                self.after_crash();
                self.refresher.refresh(whole).unwrap()
            }
        };
        for (kind, (table, item)) in TABLES.into_iter().enumerate() {
            // Its own session: others may be in a transaction.
            let url = self.cluster.url(&self.database);
            let sql = format!(
                "SELECT keyset_id, encode({item}, 'hex') FROM {table} WHERE {}",
                COUNTING[kind]
            );
            let messages = self.runtime.block_on(async {
                let client = connect(&url).await.unwrap();
                client.simple_query(&sql).await.unwrap()
            });
            let mut items: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
            for message in &messages {
                if let SimpleQueryMessage::Row(row) = message {
                    let hex = row.get(1).unwrap();
                    let bytes = (0..hex.len() / 2)
                        .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap());
                    items
                        .entry(row.get(0).unwrap().to_owned())
                        .or_default()
                        .push(bytes.collect());
                }
            }
            for (keyset, items) in items {
                let missing = missing(&self.refresher, kind, &keyset, &items);
                assert!(
                    missing == 0,
                    "{keyset}, {table}: {missing} of {} missed; {report:?}",
                    items.len()
                );
            }
        }
    }
}

/// No mint, until there is one.
struct Nothing;

impl MintSource for Nothing {
    fn mint(&self) -> &str {
        "none"
    }

    fn keysets(&mut self) -> Result<Keysets, SourceError> {
        Ok(Default::default())
    }

    fn read(&mut self, _: NoteKind, _: bool, _: &mut dyn ItemSink) -> Result<Reading, SourceError> {
        Ok(Reading::whole())
    }
}

fn of_sessions() -> BoxedStrategy<Op> {
    let s = || 0..3_usize;
    prop_oneof![
        9 => (s(), 0..2_usize, 0..2_usize, any::<bool>())
            .prop_map(|(session, kind, keyset, counts)| Op::Add { session, kind, keyset, counts }),
        3 => (s(), 0..2_usize).prop_map(|(session, kind)| Op::Flip { session, kind }),
        1 => (s(), 0..2_usize).prop_map(|(session, kind)| Op::Drop { session, kind }),
        4 => s().prop_map(|session| Op::Begin { session }),
        2 => s().prop_map(|session| Op::Savepoint { session }),
        1 => s().prop_map(|session| Op::RollbackTo { session }),
        4 => s().prop_map(|session| Op::Commit { session }),
        1 => s().prop_map(|session| Op::Rollback { session }),
        1 => s().prop_map(|session| Op::Prepare { session }),
        1 => Just(Op::CommitPrepared),
        7 => Just(Op::Refresh),
        1 => Just(Op::Whole),
        1 => Just(Op::RestartService),
    ]
    .boxed()
}

fn of_maintenance() -> BoxedStrategy<Op> {
    let quiet = prop_oneof![
        Just(Quiet::Vacuum),
        Just(Quiet::Freeze),
        Just(Quiet::Full),
        Just(Quiet::Rewrite)
    ];
    (quiet, 0..2_usize)
        .prop_map(|(quiet, kind)| Op::Quiet(quiet, kind))
        .boxed()
}

fn of_edits() -> BoxedStrategy<Op> {
    let quiet = prop_oneof![
        Just(Quiet::FastDefault),
        Just(Quiet::SwapTable),
        Just(Quiet::Child),
        Just(Quiet::EditKeyset),
        Just(Quiet::Truncate)
    ];
    (quiet, 0..2_usize)
        .prop_map(|(quiet, kind)| Op::Quiet(quiet, kind))
        .boxed()
}

fn of_crashes() -> BoxedStrategy<Op> {
    prop_oneof![
        3 => Just(Op::KillBackend),
        2 => Just(Op::StopImmediately),
        1 => Just(Op::StopFast),
        1 => Just(Op::SaveVolume),
        1 => Just(Op::RestoreVolume),
    ]
    .boxed()
}

async fn connect(url: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Runs random histories of what sessions do, and these operations.
fn try_class(default: u32, more: Option<BoxedStrategy<Op>>, of_its_own: bool) {
    let cluster: Option<&'static Cluster> = match of_its_own {
        true => Cluster::start(None, &[]).map(|cluster| &*Box::leak(Box::new(cluster))),
        false => Cluster::shared(),
    };
    let Some(cluster) = cluster else {
        return;
    };
    let cases = std::env::var("NUTFILTER_HISTORIES")
        .map_or(default, |cases| cases.parse().expect("a number"));
    let op = match more {
        None => of_sessions(),
        Some(more) => prop_oneof![4 => of_sessions(), 1 => more].boxed(),
    };
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 300,
        ..Config::default()
    };
    let result = TestRunner::new(config).run(&prop::collection::vec(op, 1..22), |ops| {
        let mut world = World::new(cluster);
        for op in &ops {
            world.happen(op);
        }
        world.end_all();
        world.refresh(false);
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn sessions_miss_nothing() {
    try_class(12, None, false);
}

#[test]
fn maintenance_misses_nothing() {
    try_class(12, Some(of_maintenance()), false);
}

#[test]
fn edits_miss_nothing() {
    try_class(12, Some(of_edits()), false);
}

#[test]
#[ignore = "takes a minute; `just histories` runs it, and tests/postgres has one crash of each kind"]
fn crashes_miss_nothing() {
    try_class(4, Some(of_crashes()), true);
}
