//! Reading only what is new: always what a whole reading gives.

use std::fs;
use std::path::PathBuf;

use nutfilter_mint::MintType;
use nutfilter_mint::source::MintSource;
use rusqlite::Connection;

use crate::support::MintDatabase;
use crate::support::history::{self, Database, Event, Tally};

/// A SQLite database, and the connection of the mint that writes to it.
struct Sqlite {
    database: MintDatabase,
    /// `None` while the mint is stopped.
    connection: Option<Connection>,
    restored: u32,
}

impl Sqlite {
    fn new(mint: MintType) -> Self {
        Self {
            database: MintDatabase::new(mint),
            connection: None,
            restored: 0,
        }
    }

    fn connection(&mut self) -> &Connection {
        self.connection.get_or_insert_with(|| {
            let connection = self.database.connect();
            connection
                .execute_batch("PRAGMA synchronous = OFF;")
                .unwrap();
            connection
        })
    }

    fn copy(&self) -> PathBuf {
        self.database.directory().join("copy.db")
    }

    fn begin(&mut self) {
        if self.connection().is_autocommit() {
            self.connection().execute_batch("BEGIN").unwrap();
        }
    }

    fn commit(&mut self) {
        if !self.connection().is_autocommit() {
            self.connection().execute_batch("COMMIT").unwrap();
        }
    }

    /// The last connection that is closed moves everything into the one file.
    fn stop(&mut self) {
        self.commit();
        self.connection = None;
    }
}

impl Database for Sqlite {
    fn mint(&self) -> MintType {
        self.database.mint
    }

    fn apply(&mut self, events: &[Event]) {
        for event in events {
            match event {
                Event::Insert(_) | Event::Flip(_) | Event::Delete(_) => {
                    self.begin();
                    let connection = self.connection.as_ref().unwrap();
                    self.database.happen(connection, event).unwrap();
                }
                Event::Tidy => {
                    self.commit();
                    self.connection().execute_batch("VACUUM").unwrap();
                }
                Event::Save => {
                    self.stop();
                    fs::copy(&self.database.path, self.copy()).unwrap();
                }
                Event::Restore => {
                    self.stop();
                    self.restored += 1;
                    // Over the file, or in its place.
                    if self.restored.is_multiple_of(2) {
                        fs::copy(self.copy(), &self.database.path).unwrap();
                    } else {
                        let twin = self.database.directory().join("twin.db");
                        fs::copy(self.copy(), &twin).unwrap();
                        fs::rename(twin, &self.database.path).unwrap();
                    }
                }
            }
        }
        // A mint that was stopped is read as well as one that runs.
        match events.len() % 3 {
            0 => self.stop(),
            _ => self.commit(),
        }
    }

    fn source(&self) -> Box<dyn MintSource> {
        Box::new(self.database.source())
    }
}

/// How many histories of each mint: `NUTFILTER_HISTORIES` of them, or few enough for every day.
fn histories() -> u64 {
    let told = std::env::var("NUTFILTER_HISTORIES");
    told.map_or(150, |count| count.parse().expect("a number"))
}

fn follow(mint: MintType) {
    let mut tally = Tally::default();
    for seed in 0..histories() {
        history::run(seed, &mut Sqlite::new(mint), &mut tally);
    }
    eprintln!("{mint}: {tally:#?}");
    assert!(
        tally.increments > tally.whole,
        "most readings go on: {tally:?}"
    );
}

#[test]
fn what_nutshells_increments_add_up_to_is_what_is_there() {
    follow(MintType::Nutshell);
}

#[test]
fn what_cdks_increments_add_up_to_is_what_is_there() {
    follow(MintType::Cdk);
}
