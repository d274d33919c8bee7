//! A Postgres server: transactions in several sessions, maintenance, edits by hand, crashes, standbys that are promoted,
//! volumes that are put back.

use std::cell::RefCell;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use tokio_postgres::SimpleQueryMessage;

use crate::cluster::{Cluster, PATIENCE, Writer};
use crate::router::Router;
use crate::world::{Database, Op, What, World};

/// A commit that is not flushed stays so for long. The log stays for standbys and recoveries, and no more of it, as it is copied. To
/// start workers for tables of a few rows would take most of the time, and so would much memory at each start of a server.
pub(crate) const SETTINGS: &str = "
    wal_writer_delay = 10s
    wal_keep_size = 8
    min_wal_size = 2
    max_wal_size = 8
    wal_retrieve_retry_interval = 50
    shared_buffers = 2MB
    max_logical_replication_workers = 0
    max_parallel_workers_per_gather = 0";

/// Names of prepared transactions.
const GIDS: [&str; 2] = ["one", "other"];

#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A step of a transaction in a session: `BEGIN`, `COMMIT`, `ROLLBACK`; `PREPARE` and `COMMIT PREPARED` are two-phase
    /// commit; or another statement.
    Session(usize, &'static str),
    /// Maintenance or an edit by hand of a table, while no transaction is open: SQL.
    Quiet(&'static str, usize),
    Edit(Edit, usize),
    /// Something happens to the server; then so many rows are added.
    Server(Server, usize),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Edit {
    /// The table is rewritten.
    Rewrite,
    /// Every row counts at once, and none is rewritten.
    FastDefault,
    /// Another table is made; the second time it takes the place. It has a row of its own.
    SwapTable,
    /// Another database, a copy of this one, takes its name, and back again.
    SwapDatabase,
    Child,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Server {
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
    /// The standby takes the place of the server.
    Promote(Mode),
    /// The mint writes to the promoted standby, and the server is there as well. The service knows both, or one address, which
    /// leads to the standby, for a moment to the server, and to the standby again.
    TwoPrimaries(bool),
    /// For one refresh of a new service, statements with this word are sent to a standby that lags.
    Route(&'static str),
}

/// How a server stops: `fast`, which is in order, or `immediate`, which is like a crash.
type Mode = &'static str;

struct Session {
    writer: Writer,
    begun: bool,
}

/// Connections to the mint's database. A history takes those of the one before: to connect takes most of the time.
#[derive(Default)]
pub(crate) struct Writers {
    sessions: [Option<Session>; 3],
    witness: Option<Writer>,
}

pub(crate) struct Postgres<'c> {
    cluster: &'c Cluster,
    kept: &'c RefCell<Writers>,
    writers: Writers,
    prepared: Vec<&'static str>,
    has_copy: bool,
    saved: bool,
    position: Option<String>,
    /// Whether the standby follows, if there is one.
    standby: Option<bool>,
    has_two: bool,
    /// The directory of the address that the service knows, if it is another one.
    address: Option<PathBuf>,
}

impl<'c> Postgres<'c> {
    /// The service connects to `address`, if there is one.
    pub(crate) fn new(
        cluster: &'c Cluster,
        kept: &'c RefCell<Writers>,
        address: Option<PathBuf>,
    ) -> Self {
        let mut new = Self {
            cluster,
            kept,
            writers: kept.take(),
            prepared: vec![],
            has_copy: false,
            saved: false,
            position: None,
            standby: None,
            has_two: false,
            address,
        };
        let mint = new.witness();
        for name in GIDS {
            // What a history before left.
            let _ = mint.try_run(&format!("ROLLBACK PREPARED '{name}'"));
        }
        mint.run("DROP SCHEMA public CASCADE; CREATE SCHEMA public");
        // Thousands of histories leave millions of dead rows there.
        mint.run("VACUUM pg_attribute, pg_class, pg_depend, pg_type");
        if mint.value("SELECT count(*) FROM pg_database WHERE datname = 'copy'") != "0" {
            Writer::connect(&cluster.url("postgres")).run("DROP DATABASE copy");
        }
        new
    }

    /// Where the mint writes.
    fn url(&self) -> String {
        let url = self.cluster.url("mint");
        if self.has_two { url.replace("5432", "5433") } else { url }
    }

    fn session(&mut self, number: usize) -> &mut Session {
        let url = self.url();
        self.writers.sessions[number].get_or_insert_with(|| {
            let writer = Writer::connect(&url);
            writer.run("SET lock_timeout = '5ms'");
            let begun = false;
            Session { writer, begun }
        })
    }

    fn witness(&mut self) -> &Writer {
        let url = self.url();
        self.writers.witness.get_or_insert_with(|| Writer::wait_for(&url))
    }

    fn try_witness(&mut self, sql: &str) -> bool {
        self.witness().try_run(sql).is_ok()
    }

    fn end(&mut self, number: usize, how: &str) {
        if let Some(session) = &mut self.writers.sessions[number]
            && session.begun
        {
            session.begun = false;
            let _ = session.writer.try_run(how);
        }
    }

    fn end_all(&mut self) {
        (0..3).for_each(|number| self.end(number, "COMMIT"));
        (0..3).for_each(|_| self.commit_prepared());
    }

    fn commit_prepared(&mut self) {
        if let Some(name) = self.prepared.pop() {
            self.try_witness(&format!("COMMIT PREPARED '{name}'"));
        }
    }

    fn step(&mut self, number: usize, sql: &'static str) {
        let begun = self.session(number).begun;
        match (sql, begun) {
            ("BEGIN", false) => {
                let session = self.session(number);
                session.begun = true;
                session.writer.run("BEGIN; SAVEPOINT outside");
            }
            ("COMMIT" | "ROLLBACK", _) => self.end(number, sql),
            ("COMMIT PREPARED", _) => self.commit_prepared(),
            ("PREPARE", true) => {
                if let Some(name) = GIDS.get(self.prepared.len()) {
                    self.end(number, &format!("PREPARE TRANSACTION '{name}'"));
                    self.prepared.push(name);
                }
            }
            ("SAVEPOINT outside" | "ROLLBACK TO outside", true) => {
                self.session(number).writer.run(sql);
            }
            _ => {}
        }
    }

    fn disconnect(&mut self) {
        self.writers = Writers::default();
    }

    /// The log has no longer one history: what was saved before does not fit to what comes.
    fn forget_log(&mut self) {
        (self.saved, self.position) = (false, None);
        if self.standby.take() == Some(true) {
            self.cluster.stop_standby();
        }
    }

    /// The old one of two primaries goes away.
    fn end_two(&mut self) {
        if core::mem::take(&mut self.has_two) {
            self.disconnect();
            self.cluster.stop("fast");
            self.cluster.move_address();
            self.cluster.forget_primary();
            self.cluster.lead(&self.cluster.sockets()[0]);
            self.address = None;
        }
    }
}

impl Drop for Postgres<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.kept.replace(core::mem::take(&mut self.writers));
        }
    }
}

impl Database for Postgres<'_> {
    type Event = Event;

    const BLOB: [&'static str; 2] = ["BYTEA", "'\\x"];

    fn hex(column: &str) -> String {
        format!("encode({column}, 'hex')")
    }

    fn location(&self) -> String {
        let directory = self.cluster.directory().display();
        match &self.address {
            Some(address) => format!("host={} user=owner dbname=mint", address.display()),
            None if self.has_two => {
                format!("host={directory},{directory} port=5432,5433 user=owner dbname=mint")
            }
            None => self.url(),
        }
    }

    /// A statement that fails or waits for a lock is ignored; within a transaction it would end that, so it is a
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

    fn rows(&mut self, sql: &str, _is_read: bool) -> Vec<[Option<String>; 3]> {
        let rows = self.witness().try_run(sql).unwrap().into_iter();
        let rows = rows.filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => {
                Some([0, 1, 2].map(|column| row.get(column).map(str::to_owned)))
            }
            _ => None,
        });
        rows.collect()
    }

    fn happen(world: &mut World<Self>, event: &Event) {
        match *event {
            Event::Session(number, sql) => world.database.step(number, sql),
            Event::Quiet(sql, kind) => {
                world.database.end_all();
                let sql = world.sql(kind, sql);
                world.database.try_witness(&sql);
            }
            Event::Edit(edit, kind) => {
                world.database.end_all();
                change_table(world, edit, kind);
            }
            Event::Server(what, rows) => {
                server(world, what);
                // They take the ids that follow, which may have been given out before.
                (0..rows).for_each(|_| world.happen(&Op::Add(0, 0, 0, What::Counts)));
            }
        }
    }

    fn settle(world: &mut World<Self>) {
        world.database.end_all();
        world.refresh(false);
        world.database.forget_log();
        world.database.end_two();
    }
}

type Here<'w, 'c> = &'w mut World<Postgres<'c>>;

fn change_table(world: Here<'_, '_>, edit: Edit, kind: usize) {
    let run = |world: Here<'_, '_>, sql: &str| {
        let sql = world.sql(kind, sql).replace("$kind", &kind.to_string());
        world.database.try_witness(&sql)
    };
    match edit {
        Edit::Rewrite => {
            world.next += 1;
            let number = ["bigint", "numeric"][world.next as usize % 2];
            run(world, &format!("ALTER TABLE $table ALTER amount TYPE {number}"));
        }
        Edit::FastDefault => {
            run(
                world,
                "ALTER TABLE $table DROP $state; ALTER TABLE $table ADD $state TEXT DEFAULT $yes",
            );
        }
        Edit::SwapTable => {
            let swap = "ALTER TABLE $table RENAME TO gone; ALTER TABLE other_$kind RENAME TO $table; DROP TABLE gone CASCADE";
            if !run(world, swap) {
                let copy = "CREATE TABLE other_$kind (LIKE $table INCLUDING ALL); INSERT INTO other_$kind SELECT * FROM $table; ";
                let insert = world.insert(kind, 0, What::Counts).replace("$table", "other_$kind");
                run(world, &(copy.to_owned() + &insert));
            }
        }
        Edit::SwapDatabase => swap_database(world),
        Edit::Child => {
            run(world, "ALTER TABLE child_$kind INHERIT $table");
            run(world, "CREATE TABLE child_$kind (LIKE $table INCLUDING ALL)");
            let insert = world.insert(kind, 0, What::Counts).replace("$table", "child_$kind");
            run(world, &insert);
        }
    }
}

fn swap_database(world: Here<'_, '_>) {
    let cluster = world.database.cluster;
    world.database.disconnect();
    if let Some(pooler) = &world.database.address {
        let url = format!("postgres://owner@/pgbouncer?host={}", pooler.display());
        let pooler = Writer::connect(&url);
        for sql in ["KILL mint", "RESUME mint"] {
            let _ = pooler.try_run(sql);
        }
    }
    let owner = Writer::connect(&cluster.url("postgres"));
    if world.database.has_copy {
        owner.run(
            "ALTER DATABASE mint RENAME TO other; ALTER DATABASE copy RENAME TO mint; ALTER DATABASE other RENAME TO copy",
        );
    } else if owner.try_run("CREATE DATABASE copy TEMPLATE mint").is_ok() {
        world.database.has_copy = true;
        let insert = world.insert(0, 0, What::Counts);
        let insert = world.sql(0, &insert);
        let _ = Writer::connect(&cluster.url("copy")).try_run(&insert);
    }
}

fn server(world: Here<'_, '_>, what: Server) {
    world.database.end_two();
    let (cluster, saved, standby) =
        (world.database.cluster, world.database.saved, world.database.standby);
    match what {
        Server::KillBackend => {
            read_unflushed(world);
            let url = world.database.url();
            let (victim, witness) = (Writer::connect(&url), Writer::connect(&url));
            let process = victim.value("SELECT pg_backend_pid()");
            let killed = Command::new("kill").args(["-9", &process]).status();
            assert!(killed.unwrap().success());
            // Until the server has noticed it and ended the other sessions, it still accepts new ones.
            while witness.try_run("SELECT pg_sleep(0.005)").is_ok() {}
        }
        Server::Stop(mode) => {
            stop(world, mode);
            cluster.start_again();
        }
        Server::SaveVolume => {
            stop(world, "fast");
            cluster.copy("data", "saved");
            cluster.start_again();
            (world.database.saved, world.database.position) = (true, None);
        }
        Server::NotePosition if saved => {
            // Everything before is flushed.
            let sql = "CHECKPOINT; SELECT pg_current_wal_flush_lsn()";
            world.database.position = Some(world.database.witness().value(sql));
        }
        Server::RestoreVolume if saved => {
            stop(world, "fast");
            cluster.copy("saved", "data");
            cluster.start_again();
            world.database.forget_log();
        }
        Server::Recover => {
            let Some(position) = world.database.position.take() else {
                return;
            };
            stop(world, "fast");
            cluster.restore_until(&position);
            world.database.forget_log();
        }
        Server::StartStandby => start_standby(world),
        Server::PartStandby if standby == Some(true) => {
            cluster.stop_standby();
            world.database.standby = Some(false);
        }
        Server::Promote(mode) if standby.is_some() => promote(world, mode),
        Server::TwoPrimaries(has_one_address) => {
            if standby != Some(true) {
                start_standby(world);
            }
            world.database.disconnect();
            world.database.standby = None;
            cluster.promote_standby();
            world.database.has_two = true;
            let [old, new] = cluster.sockets();
            world.database.address = has_one_address.then(|| cluster.lead(&new));
            world.new_process(false);
            if has_one_address {
                world.refresh(false);
                world.happen(&Op::Add(0, 0, 0, What::Counts));
                cluster.lead(&old);
                let error = world.try_refresh(false).unwrap_err();
                assert!(error.contains("from before a failover"), "{error}");
                cluster.lead(&new);
            }
        }
        Server::Route(word) => {
            if standby != Some(true) {
                start_standby(world);
            }
            let lags = Writer::connect(&cluster.url("mint").replace("5432", "5433"));
            lags.run("SELECT pg_wal_replay_pause()");
            (0..2).for_each(|kind| world.happen(&Op::Add(0, kind, 0, What::Counts)));
            let router = Router::start(cluster.sockets(), word);
            world.database.address = Some(router.directory().into());
            world.new_process(false);
            match world.try_refresh(false) {
                Ok(_) => world.refresh(false),
                Err(error) => assert!(
                    error.contains("is a standby") || error.contains("sent to several servers"),
                    "{error}"
                ),
            }
            world.database.address = None;
            world.new_process(false);
            lags.run("SELECT pg_wal_replay_resume()");
        }
        // There is nothing to do it with.
        _ => return,
    }
    // Transactions that were prepared survive.
    world.database.disconnect();
    world.database.witness();
}

fn start_standby(world: Here<'_, '_>) {
    world.database.forget_log();
    stop(world, "fast");
    world.database.cluster.start_with_standby();
    world.database.standby = Some(true);
}

/// A commit that is known to readers, but not flushed.
fn read_unflushed(world: Here<'_, '_>) {
    let insert = world.insert(0, 1, What::Counts);
    let insert = world.sql(0, &insert);
    let sql = format!("BEGIN; SET LOCAL synchronous_commit = off; {insert}; COMMIT");
    world.database.witness().run(&sql);
    world.refresh(false);
}

fn stop(world: Here<'_, '_>, mode: Mode) {
    if mode == "immediate" {
        read_unflushed(world);
    }
    world.database.disconnect();
    world.database.cluster.stop(mode);
}

fn promote(world: Here<'_, '_>, mode: Mode) {
    let cluster = world.database.cluster;
    let follows = world.database.standby.take() == Some(true);
    if follows {
        let sql = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'";
        let start = Instant::now();
        while world.database.witness().value(sql) != "1" {
            assert!(start.elapsed() < PATIENCE, "the standby does not follow");
        }
    }
    let count = world.sql(0, "SELECT count(*) FROM $table");
    let before = world.database.witness().value(&count);
    stop(world, mode);
    if !follows {
        cluster.start_standby();
    }
    cluster.move_address();
    // A standby is not read, and what is served stays.
    let error = world.try_refresh(false).unwrap_err();
    let is_refused = ["is a standby", "connecting:"].iter().any(|said| error.contains(said));
    assert!(is_refused, "{error}");
    cluster.promote_standby();
    cluster.forget_primary();
    // A server that stops in order sends its standby everything.
    if follows && mode == "fast" {
        assert_eq!(world.database.witness().value(&count), before, "the standby lagged");
    }
}
