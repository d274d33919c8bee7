//! Random histories: incremental readings always add up to the contents of the database.

use nutfilter_mint::source::MintSource;
use nutfilter_mint::{MintType, NoteKind};

use crate::history::{self, Database, Event, Random, Tally};
use crate::support::{MintDatabase, Writer, delete, flip, insert_member, table, tables};

/// A database changed through several connections. Some of their transactions began long before.
struct Postgres<'d> {
    database: &'d MintDatabase,
    /// Connections in a transaction with an id and a savepoint with its own id.
    late: Vec<Writer>,
    random: Random,
    saves: u32,
}

impl<'d> Postgres<'d> {
    /// The database with empty tables.
    fn new(database: &'d MintDatabase, seed: u64) -> Self {
        database.writer.run(&format!(
            "SET client_min_messages = error;
             DROP SCHEMA public CASCADE; CREATE SCHEMA public;
             CREATE TABLE scratch (x INT); {}",
            tables(database.mint)
        ));
        Self {
            database,
            late: vec![],
            random: Random::new(!seed),
            saves: 0,
        }
    }

    fn tables(&self) -> [&'static str; 2] {
        NoteKind::ALL.map(|kind| table(self.database.mint, kind))
    }

    fn run(&self, sql: &str) {
        self.database.writer.run(sql);
    }

    /// Begins a transaction that is committed some readings later.
    fn begin_late(&mut self) {
        if self.late.len() < 2 && self.random.one_in(2) {
            let writer = self.database.another_writer();
            writer.run(
                "BEGIN; INSERT INTO scratch VALUES (1);
                 SAVEPOINT a; INSERT INTO scratch VALUES (2);",
            );
            self.late.push(writer);
        }
    }

    /// Changes some rows in one of the ways that a transaction allows.
    fn change(&mut self, sql: &str) {
        match self.random.below(5) {
            0 => self.run(sql),
            1 => self.run(&format!("BEGIN; SAVEPOINT a; {sql} RELEASE a; COMMIT;")),
            2 => self.run(&format!("BEGIN; {sql} ROLLBACK; BEGIN; {sql} COMMIT;")),
            _ => match self.late.pop() {
                None => self.run(sql),
                Some(late) => late.run(&format!("{sql} COMMIT;")),
            },
        }
    }

    fn tidy(&mut self) {
        for table in self.tables() {
            let how = ["", "FREEZE", "FULL", "FULL FREEZE"][self.random.below(4) as usize];
            self.run(&format!("VACUUM {how} {table}"));
        }
    }

    fn save(&mut self) {
        self.saves += 1;
        for table in self.tables() {
            self.run(&format!(
                "DROP TABLE IF EXISTS saved_{table};
                 CREATE TABLE saved_{table} (LIKE {table} INCLUDING ALL);
                 INSERT INTO saved_{table} SELECT * FROM {table}"
            ));
        }
    }

    fn restore(&mut self) {
        let how = self.random.below(4);
        for table in self.tables() {
            self.run(&match how {
                0 => format!("TRUNCATE {table}; INSERT INTO {table} SELECT * FROM saved_{table}"),
                1 => {
                    format!("DELETE FROM {table}; INSERT INTO {table} SELECT * FROM saved_{table}")
                }
                2 => format!(
                    "BEGIN; DROP TABLE {table};
                     CREATE TABLE {table} (LIKE saved_{table} INCLUDING ALL);
                     INSERT INTO {table} SELECT * FROM saved_{table}; COMMIT"
                ),
                // The copy itself, whose rows were written before.
                _ => format!(
                    "BEGIN; DROP TABLE {table}; ALTER TABLE saved_{table} RENAME TO {table};
                     CREATE TABLE saved_{table} (LIKE {table} INCLUDING ALL);
                     INSERT INTO saved_{table} SELECT * FROM {table}; COMMIT"
                ),
            });
        }
    }
}

impl Database for Postgres<'_> {
    fn mint(&self) -> MintType {
        self.database.mint
    }

    fn apply(&mut self, events: &[Event]) {
        let mint = self.database.mint;
        let mut sql = String::new();
        for event in events {
            let row = match event {
                Event::Insert(note) => {
                    insert_member(mint, note.kind, note.keyset, &note.item, note.counts)
                }
                Event::Flip(note) => flip(mint, note.kind, &note.item),
                Event::Delete(note) => delete(mint, note.kind, &note.item),
                Event::Tidy | Event::Save | Event::Restore => {
                    self.change(&core::mem::take(&mut sql));
                    match event {
                        Event::Tidy => self.tidy(),
                        Event::Save => self.save(),
                        _ => self.restore(),
                    }
                    continue;
                }
            };
            sql += &row;
            if events.len() < 20 && self.random.one_in(3) {
                self.change(&core::mem::take(&mut sql));
            }
        }
        self.change(&sql);
        self.begin_late();
    }

    fn source(&self) -> Box<dyn MintSource> {
        Box::new(self.database.source())
    }
}

fn follow(mint: MintType) {
    if let Some(database) = MintDatabase::new(mint) {
        history::run_all(mint, 5, |seed| Postgres::new(&database, seed));
    }
}

#[test]
fn nutshell_increments_add_up_to_the_contents() {
    follow(MintType::Nutshell);
}

#[test]
fn cdk_increments_add_up_to_the_contents() {
    follow(MintType::Cdk);
}

#[test]
fn replaced_database_is_read_in_full() {
    let mint = MintType::Cdk;
    let Some(database) = MintDatabase::new(mint) else {
        return;
    };
    let insert = |index| insert_member(mint, NoteKind::Spent, history::IDS[0], &[2, index], true);
    database.writer.run(&insert(1));
    let mut consumer = history::Consumer::default();
    let (mut source, mut tally) = (database.source(), Tally::default());
    consumer.refresh(&mut source, NoteKind::Spent, &mut tally);
    // The copy has the same table with the same oid, and rows of the same transactions.
    let name = database.name.clone();
    let MintDatabase {
        cluster, writer, ..
    } = database;
    let url = cluster.url(&name);
    drop(writer);
    let owner = Writer::connect(&cluster.url("postgres"));
    let gone = format!("SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}'");
    let wait_until_unused = || {
        while owner.column(&gone) != ["0"] {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    };
    wait_until_unused();
    owner.run(&format!("CREATE DATABASE {name}_copy TEMPLATE {name}"));
    Writer::connect(&url).run(&insert(2));
    consumer.refresh(&mut source, NoteKind::Spent, &mut tally);
    assert_eq!((tally.increments, tally.whole), (1, 1));
    wait_until_unused();
    owner.run(&format!(
        "ALTER DATABASE {name} RENAME TO {name}_old; ALTER DATABASE {name}_copy RENAME TO {name}"
    ));
    Writer::connect(&url).run(&insert(3));
    consumer.refresh(&mut source, NoteKind::Spent, &mut tally);
    let held = consumer.of(NoteKind::Spent).items.values().flatten();
    assert_eq!(held.collect::<Vec<_>>(), [&[2, 1], &[2, 3]]);
    let another = tally.started_over.get("the database was replaced");
    assert_eq!(another, Some(&1), "{tally:?}");
}
