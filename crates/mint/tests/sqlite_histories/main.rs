//! Random histories of a mint's SQLite database: what mints, operators and power cuts do. After each refresh, every item
//! that counts is in the filter of its keyset, or the keyset is held back because of an unreadable row.
//!
//! `NUTFILTER_HISTORIES=3000` tries that many of each class instead of 40. A history that fails is shrunk. The histories that each rule is
//! for are in `docs/decisions/0014-sqlite-increments.md`.

#![cfg(unix)]

mod histories;
mod mint;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use nutfilter_mint::source::{DatabaseLocation, SqliteSource};
use nutfilter_mint::{MintType, Monitor, RefreshOptions, Refresher};
use nutfilter_objects::Table;
use proptest::prelude::*;
use proptest::sample::select;
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};

use self::histories::{missing, try_histories};
use self::mint::{Process, beside};

#[test]
fn mint_process() {
    mint::serve();
}

const KEYSETS: [&str; 3] = ["009a1f293253e41e", "00ad268c4d1f5826", "0012345678abcdef"];

/// A table, as far as histories need it: its name, the columns of the keyset and the item, and whether items are hex text.
/// Then the column that says whether a row counts, with the values of one that does, one that does not, and one that this
/// version does not know. `None` if every row counts.
struct Notes(Name, Name, Name, bool, Option<(Name, [Name; 3])>);

type Name = &'static str;

const CDK: [Notes; 2] = [
    Notes(
        "proof",
        "keyset_id",
        "y",
        false,
        Some(("state", ["'SPENT'", "'PENDING'", "'BURNT'"])),
    ),
    Notes(
        "blind_signature",
        "keyset_id",
        "blinded_message",
        false,
        Some(("c", ["x'02'", "NULL", "NULL"])),
    ),
];

const NUTSHELL: [Notes; 2] = [
    Notes("proofs_used", "id", "y", true, None),
    Notes(
        "promises",
        "id",
        "b_",
        true,
        Some(("c_", ["'02'", "NULL", "NULL"])),
    ),
];

impl Notes {
    fn create(&self) -> String {
        let Self(name, keyset, item, hex, state) = self;
        let of_item = if *hex { "TEXT" } else { "BLOB" };
        let state = state.map_or(String::new(), |(state, _)| format!("{state}, "));
        format!("CREATE TABLE {name} ({item} {of_item}, {keyset} TEXT, {state}UNIQUE ({item}))")
    }

    /// SQL that gives rows another keyset, in place. The third keyset stays.
    fn other_keysets(&self) -> String {
        let (Self(name, keyset, ..), [first, second, third]) = (self, KEYSETS);
        format!(
            "UPDATE {name} SET {keyset} = CASE {keyset} WHEN '{first}' THEN '{second}' WHEN '{second}' THEN '{third}' \
             ELSE {keyset} END"
        )
    }
}

#[derive(Clone, Debug)]
enum Op {
    /// A row of a kind and a keyset.
    Add(usize, usize, What),
    /// A row that did not count does now.
    Flip(usize, usize),
    /// A row that did not count is deleted.
    Drop(usize, usize),
    /// An unreadable item becomes readable.
    Repair(usize),
    Checkpoint,
    Vacuum,
    /// The mint is killed, or ends in order, and starts again, perhaps with a migration.
    Restart(bool, Migration),
    Stop(bool),
    Start,
    /// While the mint runs, or is stopped for it.
    Save(bool),
    Restore(Way),
    /// The machine loses the last commits after this one; mint and service start again.
    PowerLoss(usize),
    Refresh,
    Whole,
    RestartService,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Counts,
    Pending,
    UnknownState,
    BadItem,
    BadKeyset,
}

#[derive(Clone, Copy, Debug)]
enum Migration {
    None,
    /// Every row gets another keyset, in place.
    Update,
    /// A new table takes the place of the old one, with other row ids.
    Rebuild,
    /// As `Update`, by an operator while the mint is stopped; no mint records it.
    Edit,
}

#[derive(Clone, Copy, Debug)]
enum Way {
    /// `cp` over the file of a mint that was stopped.
    Copy,
    RemoveAndCopy,
    Move,
    /// `.restore` of the shell, while the mint runs.
    Api,
    /// All rows are inserted into a new file.
    Dump,
}

/// A database with its mint, and a service that reads it.
struct World {
    notes: &'static [Notes; 2],
    mint_type: MintType,
    _directory: tempfile::TempDir,
    path: PathBuf,
    mint: Option<Process>,
    refresher: Refresher,
    next: u32,
    saved: Option<Vec<u8>>,
    /// Lengths of the log after each commit since the last start.
    lengths: Vec<u64>,
}

impl World {
    fn new(mint_type: MintType) -> Self {
        let notes = if mint_type == MintType::Cdk {
            &CDK
        } else {
            &NUTSHELL
        };
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mint.db");
        let mut mint = Process::start(&path);
        for notes in notes {
            mint.run(&notes.create());
        }
        // Those of both mints.
        for table in [
            "keyset (id TEXT, unit TEXT, active BOOL, input_fee_ppk INTEGER)",
            "keysets (id TEXT, unit TEXT, active BOOL, input_fee_ppk INTEGER)",
            "migrations (name TEXT)",
            "dbversions (db TEXT, version INT)",
        ] {
            mint.run(&format!("CREATE TABLE {table}"));
        }
        let refresher = refresher(&path, mint_type);
        Self {
            notes,
            mint_type,
            _directory: directory,
            path,
            mint: Some(mint),
            refresher,
            next: 0,
            saved: None,
            lengths: vec![],
        }
    }

    /// Notes of all keysets, the last of them in the keyset that migrations leave alone; some are pending. They are read.
    fn begin(&mut self) {
        for kind in 0..2 {
            for (keyset, what) in [
                (0, What::Pending),
                (0, What::Counts),
                (1, What::Counts),
                (1, What::Pending),
                (2, What::Counts),
            ] {
                self.add(kind, keyset, what);
            }
        }
        self.refresh(false);
    }

    fn sql(&mut self, sql: &str) {
        if let Some(mint) = &mut self.mint {
            mint.run(sql);
            self.lengths
                .extend(fs::metadata(beside(&self.path, "-wal")).map(|metadata| metadata.len()));
        }
    }

    fn start(&mut self) {
        if self.mint.is_none() {
            self.mint = Some(Process::start(&self.path));
            self.lengths.clear();
        }
    }

    fn stop(&mut self, killed: bool) {
        match self.mint.take() {
            Some(mint) if killed => mint.kill(),
            Some(mint) => mint.stop(),
            None => {}
        }
    }

    fn new_item(&mut self, hex: bool) -> String {
        self.next += 1;
        let item = format!("02{:064x}", self.next);
        if hex {
            format!("'{item}'")
        } else {
            format!("x'{item}'")
        }
    }

    fn add(&mut self, kind: usize, keyset: usize, what: What) {
        let &Notes(name, column, of_item, hex, state) = &self.notes[kind];
        let mut item = self.new_item(hex);
        if let What::BadItem = what {
            item = format!("'odd{}'", self.next);
        }
        let keyset = match what {
            What::BadKeyset => "NULL".to_owned(),
            _ => format!("'{}'", KEYSETS[keyset]),
        };
        let mut columns = format!("{of_item}, {column}");
        let mut values = format!("{item}, {keyset}");
        if let Some((state, [counts, pending, unknown])) = state {
            columns += &format!(", {state}");
            values += ", ";
            values += match what {
                What::Pending => pending,
                What::UnknownState => unknown,
                _ => counts,
            };
        }
        self.sql(&format!("INSERT INTO {name} ({columns}) VALUES ({values})"));
    }

    /// Runs SQL on one of the rows that do not count. `{counts}` stands for what lets it count.
    fn on_pending(&mut self, kind: usize, which: usize, sql: &str) {
        let Notes(name, .., Some((state, [counts, pending, _]))) = &self.notes[kind] else {
            return;
        };
        let rows = format!("FROM {name} WHERE {state} IS {pending}");
        let at = format!("{which} % max(1, (SELECT count(*) {rows}))");
        let row = format!("(SELECT rowid {rows} ORDER BY rowid LIMIT 1 OFFSET {at})");
        let sql = sql
            .replace("{table}", name)
            .replace("{counts}", &format!("{state} = {counts}"));
        self.sql(&format!("{sql} WHERE rowid = {row}"));
    }

    fn happen(&mut self, op: &Op) {
        let notes = self.notes;
        match *op {
            Op::Add(kind, keyset, what) => self.add(kind, keyset, what),
            Op::Flip(kind, which) => self.on_pending(kind, which, "UPDATE {table} SET {counts}"),
            Op::Drop(kind, which) => self.on_pending(kind, which, "DELETE FROM {table}"),
            Op::Repair(kind) => {
                let &Notes(name, _, item, hex, _) = &notes[kind];
                let good = self.new_item(hex);
                self.sql(&format!(
                    "UPDATE {name} SET {item} = {good} WHERE rowid = (SELECT min(rowid) FROM {name} WHERE {item} LIKE 'odd%')"
                ));
            }
            Op::Checkpoint => self.sql("PRAGMA wal_checkpoint(TRUNCATE)"),
            Op::Vacuum => self.sql("VACUUM"),
            Op::Restart(killed, migration) => {
                self.stop(killed && !matches!(migration, Migration::Edit));
                if let Migration::Edit = migration {
                    // After a kill, a start and a stop remove the log.
                    self.start();
                    self.stop(false);
                    let shell = Connection::open(&self.path).unwrap();
                    notes
                        .iter()
                        .for_each(|notes| shell.execute_batch(&notes.other_keysets()).unwrap());
                }
                self.start();
                if let Migration::Update = migration {
                    self.next += 1;
                    let next = self.next;
                    self.sql(&match self.mint_type {
                        MintType::Cdk => format!("INSERT INTO migrations VALUES ('{next:09}')"),
                        _ => format!("INSERT INTO dbversions VALUES ('mint', {next})"),
                    });
                }
                for notes in notes {
                    let (name, create) = (notes.0, notes.create());
                    match migration {
                        Migration::None | Migration::Edit => {}
                        Migration::Update => self.sql(&notes.other_keysets()),
                        Migration::Rebuild => self.sql(&format!(
                            "BEGIN; CREATE TABLE old AS SELECT * FROM {name}; DROP TABLE {name}; {create}; INSERT INTO {name} SELECT * FROM old \
                             ORDER BY rowid DESC; DROP TABLE old; COMMIT"
                        )),
                    }
                }
            }
            Op::Stop(killed) => self.stop(killed),
            Op::Start => self.start(),
            Op::Save(true) => {
                let copy = self.path.with_extension("copy");
                let _ = fs::remove_file(&copy);
                self.sql(&format!(".backup {}", copy.display()));
                self.saved = fs::read(copy).ok().or(self.saved.take());
            }
            Op::Save(false) => {
                self.stop(false);
                // A database that was killed before still has a log.
                self.start();
                self.stop(false);
                self.saved = fs::read(&self.path).ok();
                self.start();
            }
            Op::Restore(way) => self.restore(way),
            Op::PowerLoss(kept) => {
                self.stop(true);
                if let Some(length) = kept
                    .checked_rem(self.lengths.len())
                    .map(|at| self.lengths[at])
                {
                    // A checkpoint in between may have begun the log again, and a mint that stopped has none.
                    if let Ok(log) = fs::OpenOptions::new()
                        .write(true)
                        .open(beside(&self.path, "-wal"))
                        && log.metadata().unwrap().len() > length
                    {
                        log.set_len(length).unwrap();
                    }
                }
                let _ = fs::remove_file(beside(&self.path, "-shm"));
                self.refresher = refresher(&self.path, self.mint_type);
                self.start();
            }
            Op::Refresh => self.refresh(false),
            Op::Whole => self.refresh(true),
            Op::RestartService => self.refresher = refresher(&self.path, self.mint_type),
        }
    }

    fn restore(&mut self, way: Way) {
        let Some(saved) = self.saved.clone() else {
            return;
        };
        let copy = self.path.with_extension("copy");
        fs::write(&copy, &saved).unwrap();
        if let Way::Api = way {
            return self.sql(&format!(".restore {}", copy.display()));
        }
        self.stop(false);
        self.start();
        self.stop(false);
        match way {
            Way::Copy => fs::write(&self.path, &saved).unwrap(),
            Way::RemoveAndCopy => {
                fs::remove_file(&self.path).unwrap();
                fs::write(&self.path, &saved).unwrap();
            }
            Way::Move => fs::rename(&copy, &self.path).unwrap(),
            _ => {
                fs::remove_file(&self.path).unwrap();
                let new = Connection::open(&self.path).unwrap();
                let run = |sql: String| new.execute_batch(&sql);
                let attach = format!("ATTACH '{}' AS old", copy.display());
                run("PRAGMA journal_mode = WAL; ".to_owned() + &attach).unwrap();
                for table in ["keyset", "keysets", "dbversions", "migrations"] {
                    run(format!("CREATE TABLE {table} AS SELECT * FROM old.{table}")).unwrap();
                }
                for notes in self.notes {
                    let (name, create) = (notes.0, notes.create());
                    run(format!(
                        "{create}; INSERT INTO {name} SELECT * FROM old.{name}"
                    ))
                    .unwrap();
                }
            }
        }
        self.start();
    }

    /// Refreshes, and compares what is served with the database.
    fn refresh(&mut self, whole: bool) {
        let report = self.refresher.refresh(whole).unwrap();
        let status = self.refresher.monitor().status();
        let is_held = |keyset: &str, kind| {
            let mut filters = status
                .filters
                .iter()
                .filter(|filter| filter.state == nutfilter_mint::FilterState::Unreadable);
            filters.any(|filter| {
                filter.kind as usize == kind && filter.keyset.as_ref().unwrap().as_str() == keyset
            })
        };
        for (kind, notes) in self.notes.iter().enumerate() {
            for ((keyset, is_bad), items) in self.rows(notes) {
                let is_held = is_held(&keyset, kind);
                let name = notes.0;
                if is_bad {
                    assert!(
                        is_held,
                        "{keyset}, {name}: an unreadable row does not hold it"
                    );
                } else if !is_held {
                    let all = items.len();
                    let missing = missing(&self.refresher, kind, &keyset, &items);
                    assert!(
                        missing == 0,
                        "{keyset}, {name}: {missing} of {all} missed; {report:?}"
                    );
                }
            }
        }
    }

    /// The items that count by keyset; apart, those that cannot be read.
    fn rows(&self, notes: &Notes) -> BTreeMap<(String, bool), Vec<Vec<u8>>> {
        let is_open = beside(&self.path, "-wal").exists();
        let how = if is_open { "mode=ro" } else { "immutable=1" };
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        let uri = format!("file:{}?{how}", self.path.display());
        let database = Connection::open_with_flags(uri, flags).unwrap();
        let Notes(name, keyset, item, _, state) = notes;
        let state = state.map_or("1", |(state, _)| state);
        let sql = format!("SELECT {keyset}, {item}, {state} FROM {name}");
        let mut statement = database.prepare(&sql).unwrap();
        let mut rows = statement.query([]).unwrap();
        let mut found: BTreeMap<(String, bool), Vec<Vec<u8>>> = BTreeMap::new();
        while let Some(row) = rows.next().unwrap() {
            let Ok(keyset) = row.get::<_, String>(0) else {
                continue;
            };
            let is_bad = match row.get::<_, Value>(2).unwrap() {
                Value::Null => continue,
                Value::Text(text) if text == "PENDING" => continue,
                Value::Text(text) => text == "BURNT",
                _ => false,
            };
            let item = match row.get::<_, Value>(1).unwrap() {
                Value::Blob(item) => Some(item),
                Value::Text(hex) => const_hex::decode(hex).ok(),
                _ => None,
            };
            match item.filter(|_| !is_bad) {
                Some(item) => found.entry((keyset, false)).or_default().push(item),
                None => _ = found.entry((keyset, true)).or_default(),
            }
        }
        found
    }
}

fn refresher(path: &std::path::Path, mint: MintType) -> Refresher {
    let source = SqliteSource::open(&DatabaseLocation::from(path), Some(mint)).unwrap();
    Refresher::new(
        source,
        Monitor::new(Arc::new(Table::in_memory())),
        RefreshOptions::default(),
    )
}

// --- classes of histories

fn of_mint() -> BoxedStrategy<Op> {
    let what = prop_oneof![3 => Just(What::Counts), 2 => Just(What::Pending)];
    prop_oneof![
        8 => (0..2_usize, 0..3_usize, what).prop_map(|(kind, keyset, what)| Op::Add(kind, keyset, what)),
        4 => (0..2_usize, 0..9_usize).prop_map(|(kind, which)| Op::Flip(kind, which)),
        2 => (0..2_usize, 0..9_usize).prop_map(|(kind, which)| Op::Drop(kind, which)),
        1 => Just(Op::Checkpoint),
        2 => any::<bool>().prop_map(|killed| Op::Restart(killed, Migration::None)),
        1 => any::<bool>().prop_map(Op::Stop),
        2 => Just(Op::Start),
        7 => Just(Op::Refresh),
        1 => Just(Op::Whole),
        1 => Just(Op::RestartService),
    ]
    .boxed()
}

fn of_maintenance() -> BoxedStrategy<Op> {
    let migration = select(vec![Migration::Update, Migration::Rebuild, Migration::Edit]);
    prop_oneof![
        Just(Op::Vacuum),
        (any::<bool>(), migration).prop_map(|(killed, migration)| Op::Restart(killed, migration)),
    ]
    .boxed()
}

fn of_backups() -> BoxedStrategy<Op> {
    use Way::{Api, Copy, Dump, Move, RemoveAndCopy};
    let way = select(vec![Copy, RemoveAndCopy, Move, Api, Dump]);
    prop_oneof![any::<bool>().prop_map(Op::Save), way.prop_map(Op::Restore)].boxed()
}

fn of_power() -> BoxedStrategy<Op> {
    (0..9_usize).prop_map(Op::PowerLoss).boxed()
}

fn of_faults() -> BoxedStrategy<Op> {
    let what = select(vec![What::BadItem, What::UnknownState, What::BadKeyset]);
    prop_oneof![
        2 => (0..2_usize, 0..3_usize, what).prop_map(|(kind, keyset, what)| Op::Add(kind, keyset, what)),
        1 => (0..2_usize).prop_map(Op::Repair),
    ]
    .boxed()
}

/// Runs random histories of what a mint does, and these operations.
fn try_class(more: Option<BoxedStrategy<Op>>) {
    let op = match more {
        None => of_mint(),
        Some(more) => prop_oneof![3 => of_mint(), 1 => more].boxed(),
    };
    let histories = (select(&MintType::ALL), prop::collection::vec(op, 1..22));
    try_histories(40, &histories, |(mint, ops)| {
        let mut world = World::new(mint);
        world.begin();
        ops.iter().for_each(|op| world.happen(op));
        world.refresh(false);
    });
}

#[test]
fn mint_alone_misses_nothing() {
    try_class(None);
}

#[test]
fn maintenance_misses_nothing() {
    try_class(Some(of_maintenance()));
}

#[test]
fn restored_backups_miss_nothing() {
    try_class(Some(of_backups()));
}

#[test]
fn power_loss_misses_nothing() {
    try_class(Some(of_power()));
}

#[test]
fn unreadable_rows_miss_nothing() {
    try_class(Some(of_faults()));
}

#[test]
fn all_at_once_misses_nothing() {
    try_class(Some(
        prop_oneof![of_maintenance(), of_backups(), of_power(), of_faults()].boxed(),
    ));
}
