//! The SQLite databases of both mints.
//!
//! Every call opens the database and closes it again, which costs a fraction of a millisecond. In return, no
//! transaction outlives a call, a replaced database (a restored backup) is noticed, and the schema is verified each
//! time.

mod connect;
mod latest;
mod progress;
mod readers;
mod reading;
mod schema;
mod totals;

use std::path::{Path, PathBuf};

use rusqlite::types::ValueRef;

use self::connect::{JournalMode, ReadOnly};
use self::progress::Progress;
use self::readers::Readers;
use self::reading::{Failure, Table};
use super::schema::{Notes, Schema};
use super::{
    DatabaseLocation, ItemBatch, ItemSink, Keysets, MintSource, MintType, Reading, RowFault,
    SourceError, Watermark, retry_once,
};
use crate::NoteKind;

/// A mint's SQLite database, opened read-only for each reading.
///
/// It can be read while the mint is running. In WAL mode, which both mints use, readers and writers do not wait for
/// each other. A database in another journal mode is read too, with a warning: the mint's commits then wait until
/// the reading of a table is over.
///
/// # Cost
///
/// A full reading is one pass over the table. Several connections read parts of a large table at the same time, if they
/// can be brought to the same state ([`with_readers`](Self::with_readers)). An incremental reading looks up about 128 rows and those that do not
/// count yet, and reads the new rows. It also counts the rows if it is [asked to](MintSource::verify_next), or if
/// another file, a restarted mint or another schema casts doubt on the identity of the database. A count is a pass
/// over the smallest index of the table.
#[derive(Clone, Debug)]
pub struct SqliteSource {
    path: PathBuf,
    mint: MintType,
    /// How often the mint's totals were the only sign of a difference, for each kind.
    alarms: [u32; 2],
    /// Whether the next reading counts the rows.
    verify: bool,
    readers: usize,
}

/// Maximum number of connections for a full reading, unless configured: the mint needs the CPUs too.
const MAX_READERS: usize = 4;

impl SqliteSource {
    /// Checks the database. It detects the mint by its tables, unless `mint` is given, and verifies that everything
    /// it needs exists.
    ///
    /// # Errors
    ///
    /// If the file does not exist (it is never created) or is not a SQLite database. Also if the schema is not one
    /// that this version supports; the error names the first missing table or column.
    pub fn open(location: &DatabaseLocation, mint: Option<MintType>) -> Result<Self, SourceError> {
        let path = location.file()?;
        retry_once(|| Self::look(&path, mint))
    }

    fn look(path: &Path, mint: Option<MintType>) -> Result<Self, SourceError> {
        let database = ReadOnly::open(path)?;
        let mint = match mint {
            Some(mint) => mint,
            None => schema::recognise(&database.connection, path)?,
        };
        schema::verify(&database.connection, path, Schema::of(mint))?;
        warn_of_access(&database, path);
        database.finish()?;
        Ok(Self {
            path: path.into(),
            mint,
            alarms: [0; 2],
            verify: false,
            readers: std::thread::available_parallelism()
                .map_or(1, |cpus| cpus.get().min(MAX_READERS)),
        })
    }

    /// Sets the number of connections, each with its own thread, for a full reading of a large table. The default is
    /// the number of CPUs, and at most 4.
    #[must_use]
    pub fn with_readers(mut self, readers: usize) -> Self {
        self.readers = readers;
        self
    }

    /// The mint that the database belongs to.
    #[must_use]
    pub fn mint_type(&self) -> MintType {
        self.mint
    }

    /// The database file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn connect(&self) -> Result<(ReadOnly, &'static Schema), SourceError> {
        let database = ReadOnly::open(&self.path)?;
        let schema = Schema::of(self.mint);
        schema::verify(&database.connection, &self.path, schema)?;
        Ok((database, schema))
    }

    fn alarm(&mut self, kind: NoteKind) {
        self.alarms[kind as usize] += 1;
        if self.alarms[kind as usize] == MAX_ALARMS {
            tracing::warn!(
                %kind,
                alarms = MAX_ALARMS,
                "the mint's totals disagree with its notes too often; no longer comparing them"
            );
        }
    }

    fn failed(&self, doing: &'static str) -> impl Fn(rusqlite::Error) -> SourceError {
        move |source| sqlite_error(&self.path, doing, source)
    }
}

impl MintSource for SqliteSource {
    fn mint(&self) -> &str {
        self.mint.as_str()
    }

    fn keysets(&mut self) -> Result<Keysets, SourceError> {
        let (database, schema) = self.connect()?;
        let mut listed = Keysets::default();
        let mut read = || -> rusqlite::Result<()> {
            let mut statement = database.connection.prepare(&schema.keysets.select())?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let id = match row.get_ref(0)? {
                    ValueRef::Text(id) => String::from_utf8_lossy(id),
                    // None of these names is a valid id.
                    other => type_name(other).into(),
                };
                let (active, fee) = (is_true(row.get_ref(2)?), fee(row.get_ref(3)?));
                listed.add(&id, unit(row.get_ref(1)?), active, fee);
            }
            Ok(())
        };
        read().map_err(self.failed("listing keysets"))?;
        database.finish()?;
        Ok(listed)
    }

    fn read(
        &mut self,
        kind: NoteKind,
        since: Option<&Watermark>,
        sink: &mut dyn ItemSink,
    ) -> Result<Reading, SourceError> {
        let verify = core::mem::take(&mut self.verify);
        let (database, schema) = self.connect()?;
        let notes = schema.notes(kind);
        let mint = self.mint.as_str();
        let before = since
            .map(|watermark| Progress::parse(watermark, mint, notes.table.name))
            .transpose()?;
        let readers = match since {
            None => Readers::open(&database, &self.path, notes, self.readers),
            Some(_) => None,
        };
        let table = Table {
            connection: &database.connection,
            path: &self.path,
            mint,
            notes,
            kind,
            compare_totals: self.alarms[kind as usize] < MAX_ALARMS,
            verify,
            identity: database.identity.as_deref(),
        };
        let reading = table.read(before, readers, sink);
        let reading = reading.map_err(|failure| match failure {
            Failure::Totals(error) => {
                self.alarm(kind);
                error
            }
            Failure::Other(error) => error,
        })?;
        database.finish()?;
        Ok(reading)
    }

    fn verify_next(&mut self) {
        self.verify = true;
    }
}

/// How often the mint's totals may be the only sign of a difference. After that, they are assumed to count
/// something else in this version of the mint. Databases are not restored that often.
const MAX_ALARMS: u32 = 3;

fn sqlite_error(path: &Path, doing: &'static str, source: rusqlite::Error) -> SourceError {
    SourceError::Sqlite {
        path: path.into(),
        doing,
        source,
    }
}

/// Warns once about how the database is accessed, if the operator should know.
fn warn_of_access(database: &ReadOnly, path: &Path) {
    let database_path = path.display();
    if database.mode == JournalMode::Rollback {
        tracing::warn!(
            database = %database_path,
            "database is not in WAL mode: reads block the mint's commits"
        );
    } else if database.is_closed() {
        // A container with access to the file only sees this state, while the latest notes are in the `-wal` file.
        tracing::warn!(
            database = %database_path,
            "no process has the database open; if the mint is running, its -wal file is not \
             visible here and reads are stale: mount the whole directory"
        );
    }
}

/// Adds the item of a row, or returns what is wrong with it.
fn push(batch: &mut ItemBatch, notes: &Notes, value: ValueRef<'_>) -> Result<(), RowFault> {
    match value {
        ValueRef::Text(b"") | ValueRef::Blob(b"") => Err(RowFault::Empty),
        ValueRef::Text(text) if notes.hex => notes.push(batch, text),
        ValueRef::Blob(bytes) if !notes.hex => notes.push(batch, bytes),
        other => Err(RowFault::WrongType {
            found: type_name(other),
            expected: if notes.hex { "hex text" } else { "a blob" },
        }),
    }
}

fn type_name(value: ValueRef<'_>) -> &'static str {
    match value {
        ValueRef::Null => "null",
        ValueRef::Integer(_) => "an integer",
        ValueRef::Real(_) => "a real number",
        ValueRef::Text(_) => "text",
        ValueRef::Blob(_) => "a blob",
    }
}

fn unit(value: ValueRef<'_>) -> Option<String> {
    value.as_str().ok().map(str::to_owned)
}

/// SQLite has no type `BOOL`. The stored value depends on the mint's driver.
fn is_true(value: ValueRef<'_>) -> bool {
    match value {
        ValueRef::Integer(number) => number != 0,
        ValueRef::Text(text) => text.eq_ignore_ascii_case(b"true") || text == b"1",
        _ => false,
    }
}

fn fee(value: ValueRef<'_>) -> u64 {
    match value {
        ValueRef::Integer(number) => u64::try_from(number).unwrap_or(0),
        _ => 0,
    }
}
