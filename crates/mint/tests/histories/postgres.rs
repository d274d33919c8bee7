//! A Postgres server: transactions in several sessions, maintenance, edits by hand, crashes, standbys that are promoted,
//! volumes that are put back.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Deref;
use std::path::PathBuf;
use std::process::Command;
use std::rc::Rc;
use std::time::Instant;

use tokio_postgres::SimpleQueryMessage;

use crate::cluster::{Cluster, PATIENCE, Writer};
use crate::router::Router;
use crate::world::{Database, Op, What, World};

/// Mints that share a server: to start, stop and copy it takes most of the time.
pub(crate) const TENANTS: usize = 16;

/// A commit that is not flushed stays so for long: the log and all pages have room in memory. The log stays for standbys and
/// recoveries, and no more of it, as it is copied. To start workers for tables of a few rows would take most of the time.
const SETTINGS: &str = "
    wal_writer_delay = 10s
    wal_buffers = 1MB
    wal_keep_size = 8
    min_wal_size = 2
    max_wal_size = 8
    wal_retrieve_retry_interval = 50
    shared_buffers = 16MB
    bgwriter_lru_maxpages = 0
    max_logical_replication_workers = 0
    max_parallel_workers_per_gather = 0";

#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A step of a transaction in a session: `BEGIN`, `COMMIT`, `ROLLBACK`; `PREPARE` and `COMMIT PREPARED` are two-phase
    /// commit; or another statement.
    Session(usize, &'static str),
    /// Maintenance or an edit by hand of a table, while no transaction is open: SQL.
    Quiet(&'static str, usize),
    Edit(Edit, usize),
}

/// What comes next in a history of several mints.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// One of the mints does something.
    Tenant(usize, Op<Event>),
    /// Something happens to the server; then each mint adds so many rows. All transactions may have ended before: one that runs
    /// makes rows look new to the readings of all.
    Server(Server, bool, usize),
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

/// A server of one or more mints, and what happened to it. Histories share it, and connections to it.
pub(crate) struct Host {
    cluster: Cluster,
    /// The directory of a pooler, if there is one, and its console: each connection of a service would be a process of the server.
    pooler: Option<(PathBuf, Writer)>,
    state: State,
}

#[derive(Default)]
pub(crate) struct State {
    /// For statements outside of transactions, with the tenant whose tables it sees.
    shared: RefCell<Option<(Rc<Writer>, usize)>>,
    /// Transactions, by tenant and session.
    begun: RefCell<HashMap<(usize, usize), Writer>>,
    idle: RefCell<Vec<Writer>>,
    saved: Cell<bool>,
    position: RefCell<Option<String>>,
    /// Whether the standby follows, if there is one.
    standby: Cell<Option<bool>>,
    has_two: Cell<bool>,
    /// The directory of the address that services know, if it is another one.
    address: RefCell<Option<PathBuf>>,
    /// The tenant that does something, and the steps so far.
    acting: Cell<(usize, usize)>,
}

impl Deref for Host {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl Host {
    /// One for each class: a transaction of another class would make old rows look new.
    pub(crate) fn start(is_frozen: bool) -> Option<Self> {
        let mut cluster = Cluster::start(None, &[("postgresql.auto.conf", SETTINGS)])?;
        Writer::connect(&cluster.url("postgres")).run("CREATE DATABASE mint");
        if is_frozen && !cluster.freeze() {
            return None;
        }
        let pooler = cluster.start_pooler();
        let pooler = pooler.map(|at| {
            let console = format!("postgres://owner@/pgbouncer?host={}", at.display());
            (at, Writer::connect(&console))
        });
        Some(Self { cluster, pooler, state: State::default() })
    }

    /// Removes what a history left. Then come so many mints.
    pub(crate) fn begin(&self, tenants: usize) -> Vec<Postgres<'_>> {
        self.begun.take();
        let mint = self.shared(0);
        loop {
            let name = mint.value("SELECT min(gid) FROM pg_prepared_xacts");
            if name.is_empty() {
                break;
            }
            mint.run(&format!("ROLLBACK PREPARED '{name}'"));
        }
        for tenant in 0..tenants {
            mint.run(&format!(
                "DROP SCHEMA IF EXISTS mint{tenant} CASCADE; CREATE SCHEMA mint{tenant}"
            ));
        }
        // Thousands of histories leave millions of dead rows there.
        mint.run("VACUUM pg_attribute, pg_class, pg_depend, pg_type");
        if mint.value("SELECT count(*) FROM pg_database WHERE datname = 'copy'") != "0" {
            Writer::connect(&self.cluster.url("postgres")).run("DROP DATABASE copy");
        }
        let new = |tenant| Postgres { host: self, tenant, prepared: vec![], has_copy: false };
        (0..tenants).map(new).collect()
    }

    /// Where the mints write.
    fn url(&self) -> String {
        let url = self.cluster.url("mint");
        if self.has_two.get() { url.replace("5432", "5433") } else { url }
    }

    fn shared(&self, tenant: usize) -> Rc<Writer> {
        let mut shared = self.shared.borrow_mut();
        let (writer, last) = shared.get_or_insert_with(|| {
            let writer = Writer::wait_for(&self.url());
            writer.run("SET lock_timeout = '5ms'");
            (Rc::new(writer), usize::MAX)
        });
        if *last != tenant {
            writer.run(&format!("SET search_path = mint{tenant}"));
            *last = tenant;
        }
        Rc::clone(writer)
    }

    fn disconnect(&self) {
        self.shared.take();
        self.begun.take();
        self.idle.take();
        if let Some((_, console)) = &self.pooler {
            for sql in ["KILL mint", "RESUME mint"] {
                let _ = console.try_run(sql);
            }
        }
    }

    fn stop(&self, mode: Mode) {
        self.disconnect();
        self.cluster.stop(mode);
    }

    /// The sockets of the server, behind its pooler, and of the standby.
    fn sockets(&self) -> [PathBuf; 2] {
        let [server, standby] = self.cluster.sockets();
        let pooler = self.pooler.as_ref().map(|(at, _)| at.join(server.file_name().unwrap()));
        [pooler.unwrap_or(server), standby]
    }

    fn start_standby(&self) {
        self.forget_log();
        self.stop("fast");
        self.cluster.start_with_standby();
        self.standby.set(Some(true));
    }

    /// The log has no longer one history: what was saved before does not fit to what comes.
    fn forget_log(&self) {
        self.saved.set(false);
        self.position.take();
        if self.standby.take() == Some(true) {
            self.cluster.stop_standby();
        }
    }

    /// The old one of two primaries goes away.
    fn end_two(&self) {
        if self.has_two.take() {
            self.stop("fast");
            self.cluster.move_address();
            self.cluster.forget_primary();
            self.cluster.lead(&self.sockets()[0]);
            self.address.take();
        }
    }
}

pub(crate) struct Postgres<'h> {
    host: &'h Host,
    tenant: usize,
    prepared: Vec<String>,
    has_copy: bool,
}

impl Postgres<'_> {
    fn shared(&self) -> Rc<Writer> {
        self.host.shared(self.tenant)
    }

    fn try_shared(&self, sql: &str) -> bool {
        self.shared().try_run(sql).is_ok()
    }

    fn end(&self, number: usize, how: &str) {
        if let Some(writer) = self.host.begun.borrow_mut().remove(&(self.tenant, number)) {
            let _ = writer.try_run(how);
            self.host.idle.borrow_mut().push(writer);
        }
    }

    fn end_all(&mut self) {
        (0..3).for_each(|number| self.end(number, "COMMIT"));
        (0..3).for_each(|_| self.commit_prepared());
    }

    fn commit_prepared(&mut self) {
        if let Some(name) = self.prepared.pop() {
            self.try_shared(&format!("COMMIT PREPARED '{name}'"));
        }
    }

    fn step(&mut self, number: usize, sql: &'static str) {
        let (session, tenant) = ((self.tenant, number), self.tenant);
        let begun = self.host.begun.borrow().contains_key(&session);
        match (sql, begun) {
            ("BEGIN", false) => {
                let idle = self.host.idle.borrow_mut().pop();
                let writer = idle.unwrap_or_else(|| Writer::connect(&self.host.url()));
                writer.run(&format!("SET lock_timeout = '5ms'; SET search_path = mint{tenant}"));
                writer.run("BEGIN; SAVEPOINT outside");
                self.host.begun.borrow_mut().insert(session, writer);
            }
            ("COMMIT" | "ROLLBACK", _) => self.end(number, sql),
            ("COMMIT PREPARED", _) => self.commit_prepared(),
            ("PREPARE", true) if self.prepared.len() < 2 => {
                let name = format!("{tenant}.{}", self.prepared.len());
                self.end(number, &format!("PREPARE TRANSACTION '{name}'"));
                self.prepared.push(name);
            }
            ("SAVEPOINT outside" | "ROLLBACK TO outside", true) => {
                self.host.begun.borrow()[&session].run(sql);
            }
            _ => {}
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
        let (host, direct) = (self.host, self.host.cluster.directory());
        let first = host.pooler.as_ref().map_or(direct, |(at, _)| at).display();
        let place = match &*host.address.borrow() {
            Some(address) => format!("host={}", address.display()),
            None if host.has_two.get() => {
                format!("host={first},{} port=5432,5433", direct.display())
            }
            None => format!("host={first}"),
        };
        format!("{place} user=owner dbname=mint schema=mint{}", self.tenant)
    }

    /// A statement that fails or waits for a lock is ignored; within a transaction it would end that, so it is a
    /// subtransaction.
    fn run(&mut self, number: usize, sql: &str) {
        let begun = self.host.begun.borrow();
        let Some(writer) = begun.get(&(self.tenant, number)) else {
            self.try_shared(sql);
            return;
        };
        if writer.try_run(&format!("SAVEPOINT inside; {sql}; RELEASE inside")).is_err() {
            let _ = writer.try_run("ROLLBACK TO inside");
        }
    }

    fn rows(&mut self, sql: &str, _is_read: bool) -> Vec<[Option<String>; 3]> {
        let rows = self.shared().try_run(sql).unwrap().into_iter();
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
                world.database.try_shared(&sql);
            }
            Event::Edit(edit, kind) => {
                world.database.end_all();
                change_table(world, edit, kind);
            }
        }
    }

    fn settle(world: &mut World<Self>) {
        world.database.end_all();
        world.refresh(false);
    }
}

type Tenant<'h> = World<Postgres<'h>>;

fn change_table(world: &mut Tenant<'_>, edit: Edit, kind: usize) {
    let run = |world: &mut Tenant<'_>, sql: &str| {
        let sql = world.sql(kind, sql).replace("$kind", &kind.to_string());
        world.database.try_shared(&sql)
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

fn swap_database(world: &mut Tenant<'_>) {
    let cluster = &world.database.host.cluster;
    world.database.host.disconnect();
    let owner = Writer::connect(&cluster.url("postgres"));
    if world.database.has_copy {
        owner.run(
            "ALTER DATABASE mint RENAME TO other; ALTER DATABASE copy RENAME TO mint; ALTER DATABASE other RENAME TO copy",
        );
    } else if owner.try_run("CREATE DATABASE copy TEMPLATE mint").is_ok() {
        world.database.has_copy = true;
        let insert = world.insert(0, 0, What::Counts);
        let insert = world.sql(0, &format!("SET search_path = mint0; {insert}"));
        let _ = Writer::connect(&cluster.url("copy")).try_run(&insert);
    }
}

// --- Several mints

/// A history of mints that share a server.
pub(crate) fn happen(host: &Host, worlds: &mut [Tenant<'_>], steps: &[Step]) {
    let _report = Report(host, steps);
    host.acting.take();
    each(worlds, World::begin);
    for step in steps {
        host.acting.set((0, host.acting.get().1 + 1));
        match step {
            Step::Tenant(tenant, op) => {
                each(&mut worlds[*tenant..=*tenant], |world| world.happen(op));
            }
            Step::Server(what, is_quiet, rows) => {
                if *is_quiet {
                    each(worlds, |world| world.database.end_all());
                }
                happen_to_server(host, worlds, *what, *rows);
                // They take the ids that follow, which may have been given out before.
                (0..*rows).for_each(|_| each(worlds, add));
            }
        }
    }
    each(worlds, |world| world.database.end_all());
    host.forget_log();
    host.end_two();
    each(worlds, |world| world.refresh(false));
}

/// What a mint that fails did so far, and its server.
struct Report<'a>(&'a Host, &'a [Step]);

impl Drop for Report<'_> {
    fn drop(&mut self) {
        let (tenant, done) = self.0.acting.get();
        let is_its = |step: &&Step| !matches!(step, Step::Tenant(of, _) if *of != tenant);
        if std::thread::panicking() {
            let steps: Vec<_> = self.1[..done].iter().filter(is_its).collect();
            eprintln!("mint {tenant} failed at step {done}: {steps:?}");
        }
    }
}

fn each<'h>(worlds: &mut [Tenant<'h>], mut happen: impl FnMut(&mut Tenant<'h>)) {
    for world in worlds {
        let acting = &world.database.host.acting;
        acting.set((world.database.tenant, acting.get().1));
        happen(world);
    }
}

/// Those of even numbers, or the others.
fn every_other<'h>(
    worlds: &mut [Tenant<'h>],
    rows: usize,
    mut happen: impl FnMut(&mut Tenant<'h>),
) {
    each(worlds, |world| {
        if (world.database.tenant + rows).is_multiple_of(2) {
            happen(world);
        }
    });
}

fn add(world: &mut Tenant<'_>) {
    world.happen(&Op::Add(0, 0, 0, What::Counts));
}

fn happen_to_server(host: &Host, worlds: &mut [Tenant<'_>], what: Server, rows: usize) {
    host.end_two();
    let (cluster, saved, standby) = (&host.cluster, host.saved.get(), host.standby.get());
    match what {
        Server::KillBackend => {
            read_unflushed(host, worlds, rows);
            let url = host.url();
            let (victim, witness) = (Writer::connect(&url), Writer::connect(&url));
            let process = victim.value("SELECT pg_backend_pid()");
            let killed = Command::new("kill").args(["-9", &process]).status();
            assert!(killed.unwrap().success());
            // Until the server has noticed it and ended the other sessions, it still accepts new ones.
            while witness.try_run("SELECT pg_sleep(0.005)").is_ok() {}
        }
        Server::Stop(mode) => {
            if mode == "immediate" {
                read_unflushed(host, worlds, rows);
            }
            host.stop(mode);
            cluster.start_again();
        }
        Server::SaveVolume => {
            host.stop("fast");
            cluster.copy("data", "saved");
            cluster.start_again();
            host.saved.set(true);
            host.position.take();
        }
        Server::NotePosition if saved => {
            // Everything before is flushed.
            let sql = "CHECKPOINT; SELECT pg_current_wal_flush_lsn()";
            host.position.replace(Some(host.shared(0).value(sql)));
            return;
        }
        Server::RestoreVolume if saved => {
            host.stop("fast");
            cluster.copy("saved", "data");
            cluster.start_again();
            host.forget_log();
        }
        Server::Recover => {
            let Some(position) = host.position.take() else {
                return;
            };
            host.stop("fast");
            cluster.restore_until(&position);
            host.forget_log();
        }
        Server::StartStandby => host.start_standby(),
        Server::PartStandby if standby == Some(true) => {
            cluster.stop_standby();
            host.standby.set(Some(false));
        }
        Server::Promote(mode) if standby.is_some() => promote(host, worlds, mode, rows),
        Server::TwoPrimaries(has_one_address) => {
            if standby != Some(true) {
                host.start_standby();
            }
            host.disconnect();
            host.standby.take();
            cluster.promote_standby();
            host.has_two.set(true);
            // The standby was ready before, to be read.
            host.shared(0);
            let [old, new] = host.sockets();
            host.address.replace(has_one_address.then(|| cluster.lead(&new)));
            each(worlds, |world| world.new_process(false));
            if has_one_address {
                each(worlds, |world| world.refresh(false));
                each(worlds, add);
                cluster.lead(&old);
                each(worlds, |world| {
                    let error = world.try_refresh(false).unwrap_err();
                    assert!(error.contains("from before a failover"), "{error}");
                });
                cluster.lead(&new);
            }
        }
        Server::Route(word) => {
            if standby != Some(true) {
                host.start_standby();
            }
            let lags = Writer::connect(&cluster.url("mint").replace("5432", "5433"));
            lags.run("SELECT pg_wal_replay_pause()");
            for kind in 0..2 {
                each(worlds, |world| world.happen(&Op::Add(0, kind, 0, What::Counts)));
            }
            let router = Router::start(host.sockets(), word);
            host.address.replace(Some(router.directory().into()));
            every_other(worlds, rows, |world| {
                world.new_process(false);
                match world.try_refresh(false) {
                    Ok(_) => world.refresh(false),
                    Err(error) => assert!(
                        error.contains("is a standby") || error.contains("sent to several servers"),
                        "{error}"
                    ),
                }
            });
            host.address.take();
            every_other(worlds, rows, |world| world.new_process(false));
            lags.run("SELECT pg_wal_replay_resume()");
        }
        // There is nothing to do it with.
        _ => return,
    }
    // Transactions that were prepared survive.
    host.disconnect();
    host.shared(0);
}

/// Commits of every other mint that are known to readers, but not flushed: they fit into one page of the log, as the server writes
/// those that are full. A mark looks back to the reading before its newest row, so only the second reading can make ids old
/// that are given out again. Each row has the id of a subtransaction.
fn read_unflushed(host: &Host, worlds: &mut [Tenant<'_>], rows: usize) {
    host.shared(0).run("SELECT pg_switch_wal()");
    for _ in 0..2 {
        let mut sql = "BEGIN; SET LOCAL synchronous_commit = off".to_owned();
        every_other(worlds, rows, |world| {
            let insert = world.insert(0, 1, What::Counts);
            let (insert, tenant) = (world.sql(0, &insert), world.database.tenant);
            sql += &format!("; SAVEPOINT one; SET LOCAL search_path = mint{tenant}; {insert}");
        });
        host.shared(0).run(&(sql + "; COMMIT"));
        every_other(worlds, rows, |world| world.refresh(false));
    }
}

fn promote(host: &Host, worlds: &mut [Tenant<'_>], mode: Mode, rows: usize) {
    let follows = host.standby.take() == Some(true);
    if follows {
        let sql = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'";
        let start = Instant::now();
        while host.shared(0).value(sql) != "1" {
            assert!(start.elapsed() < PATIENCE, "the standby does not follow");
        }
    }
    let count = |world: &mut Tenant<'_>| {
        let count = world.sql(0, "SELECT count(*) FROM $table");
        world.database.shared().value(&count)
    };
    let before: Vec<String> = worlds.iter_mut().map(count).collect();
    if mode == "immediate" {
        read_unflushed(host, worlds, rows);
    }
    host.stop(mode);
    let cluster = &host.cluster;
    if !follows {
        cluster.start_standby();
    }
    cluster.move_address();
    // A standby is not read, and what is served stays.
    each(worlds, |world| {
        let error = world.try_refresh(false).unwrap_err();
        let is_refused = ["is a standby", "connecting:"].iter().any(|said| error.contains(said));
        assert!(is_refused, "{error}");
    });
    cluster.promote_standby();
    cluster.forget_primary();
    // A server that stops in order sends its standby everything.
    if follows && mode == "fast" {
        let after: Vec<String> = worlds.iter_mut().map(count).collect();
        assert_eq!(after, before, "the standby lagged");
    }
}
