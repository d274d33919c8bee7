//! The SQLite databases of both mints.
//!
//! A reading opens the database, reads in one transaction, and closes it. Between two readings of one process it
//! remembers a *mark*: the newest row that counts, and the rows that do not count yet. SQLite gives a new row an id above
//! all others. So while the newest counting row is still the same, and only a mint wrote to the same files, all other rows
//! below it were read or are remembered. In any doubt everything is read. `docs/decisions/0014-sqlite-increments.md` has
//! the histories that each condition is for.

mod connect;
mod schema;

use std::path::{Path, PathBuf};

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Row};

use self::connect::{Identity, Opened};
use self::schema::{columns, fee, is_true, type_name, verify, warn_of_access};
use super::by_keyset::ByKeyset;
use super::schema::{Notes, Schema, recognise};
use super::{
    DatabaseLocation, ItemBatch, ItemSink, Keysets, MintSource, MintType, Reading, RowFault,
    SourceError,
};
use crate::NoteKind;

/// Rows that do not count yet and are remembered for the next reading. With more, everything is read each time.
const MAX_PENDING: usize = 1 << 20;

/// A mint's SQLite database, opened read-only for each reading.
///
/// It can be read while the mint runs. In WAL mode, which both mints use, readers and writers do not wait for each other.
///
/// # Cost
///
/// A whole reading is one pass over the table. Other readings look up the newest row and those that did not count, and
/// read the rows above.
#[derive(Debug)]
pub struct SqliteSource {
    path: PathBuf,
    mint: MintType,
    /// What the last reading of each kind left behind. A process that starts reads everything: after a power loss a
    /// database in WAL mode can lack its last commits, in the same files.
    marks: [Option<Mark>; 2],
}

/// A state of the table.
#[derive(Debug)]
struct Mark {
    identity: Identity,
    /// The newest row that counts.
    newest: Newest,
    /// Ids of the rows that did not count, ascending.
    pending: Vec<i64>,
}

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
        let mint = once_more(|| {
            let opened = Opened::open(&path)?;
            let tables = |table: &str| Ok(!columns(&opened.connection, &path, table)?.is_empty());
            let mint = match mint {
                Some(mint) => mint,
                None => recognise(&path, tables)?,
            };
            verify(&opened.connection, &path, Schema::of(mint))?;
            warn_of_access(&opened, &path);
            opened.close().map(|()| mint)
        })?;
        Ok(Self {
            path,
            mint,
            marks: [None, None],
        })
    }

    /// Opens the database for a reading, and verifies its tables.
    fn connect(&self) -> Result<Opened, SourceError> {
        let opened = Opened::open(&self.path)?;
        opened
            .connection
            .execute_batch("BEGIN")
            .map_err(self.failed("beginning"))?;
        verify(&opened.connection, &self.path, Schema::of(self.mint))?;
        Ok(opened)
    }

    fn identity(&self, opened: &Opened) -> Result<Option<Identity>, SourceError> {
        opened.identity(Schema::of(self.mint).migrations)
    }

    fn failed(&self, doing: &'static str) -> impl Fn(rusqlite::Error) -> SourceError {
        move |source| sqlite_error(&self.path, doing, source)
    }

    /// Reads the rows that can be new since `mark`, or all of them. Returns what the next reading can begin from.
    fn read_rows(
        &self,
        notes: &Notes,
        mark: Option<Mark>,
        opened: &Opened,
        rows: &mut ByKeyset<'_>,
    ) -> Result<Option<Mark>, SourceError> {
        let (mut newest, mut pending) = (None, vec![]);
        let mut read = |which: &str, ids: &[i64]| -> rusqlite::Result<Result<(), SourceError>> {
            let mut statement = opened.connection.prepare(&(select(notes) + which))?;
            for id in ids {
                let mut found = statement.query([id])?;
                while let Some(row) = found.next()? {
                    let id = row.get(0)?;
                    match take(row, id, notes, rows) {
                        Ok(true) => newest = newest.max(Some(id)),
                        Ok(false) => pending.push(id),
                        Err(error) => return Ok(Err(error)),
                    }
                }
            }
            Ok(Ok(()))
        };
        let failed = self.failed("reading notes");
        match &mark {
            // In row order, which is the fastest and needs no sort, whatever indexes exist.
            None => read("NOT INDEXED WHERE rowid >= ?1 ORDER BY rowid", &[i64::MIN])
                .map_err(&failed)??,
            Some(Mark {
                newest, pending, ..
            }) => {
                let (first, below) = (newest.0, pending.partition_point(|&id| id < newest.0));
                read("NOT INDEXED WHERE rowid > ?1 ORDER BY rowid", &[first])
                    .map_err(&failed)??;
                read("WHERE rowid = ?1", &pending[..below]).map_err(&failed)??;
            }
        }
        pending.sort_unstable();
        let newest = newest.max(mark.map(|mark| mark.newest.0));
        // Above the highest possible id, SQLite chooses ids at random.
        let Some(newest) = newest.filter(|&id| id < i64::MAX && pending.len() <= MAX_PENDING)
        else {
            return Ok(None);
        };
        let newest = self.look_up(notes, newest, &opened.connection)?;
        Ok(newest
            .zip(self.identity(opened)?)
            .map(|(newest, identity)| Mark {
                identity,
                newest,
                pending,
            }))
    }

    /// What a mark remembers of a row; `None` if it is gone or does not count.
    fn look_up(
        &self,
        notes: &Notes,
        id: i64,
        connection: &Connection,
    ) -> Result<Option<Newest>, SourceError> {
        let looked = connection
            .prepare(&(select(notes) + "WHERE rowid = ?1"))
            .and_then(|mut statement| {
                let mut rows = statement.query([id])?;
                Ok(match rows.next()? {
                    Some(row) if row.get_ref(3)? == ValueRef::Integer(1) => {
                        Some((row.get(0)?, row.get(1)?, row.get(2)?))
                    }
                    _ => None,
                })
            });
        looked.map_err(self.failed("looking up the newest note"))
    }
}

/// Row id, keyset and item.
type Newest = (i64, Value, Value);

fn select(notes: &Notes) -> String {
    let Notes {
        table,
        keyset,
        item,
        ..
    } = notes;
    format!(
        "SELECT rowid, {keyset}, {item}, {} FROM {} ",
        notes.counts(),
        table.name
    )
}

impl MintSource for SqliteSource {
    fn mint(&self) -> &str {
        self.mint.as_str()
    }

    fn keysets(&mut self) -> Result<Keysets, SourceError> {
        once_more(|| {
            let opened = self.connect()?;
            let mut listed = Keysets::default();
            let mut list = || -> rusqlite::Result<()> {
                let select = Schema::of(self.mint).keysets.select();
                let mut statement = opened.connection.prepare(&select)?;
                let mut rows = statement.query([])?;
                while let Some(row) = rows.next()? {
                    let id = match row.get_ref(0)? {
                        ValueRef::Text(id) => String::from_utf8_lossy(id),
                        // None of these names is a valid id.
                        other => type_name(other).into(),
                    };
                    let unit = row.get_ref(1)?.as_str().ok().map(str::to_owned);
                    listed.add(&id, unit, is_true(row.get_ref(2)?), fee(row.get_ref(3)?));
                }
                Ok(())
            };
            list().map_err(self.failed("listing keysets"))?;
            opened.close()?;
            Ok(listed)
        })
    }

    fn read(
        &mut self,
        kind: NoteKind,
        whole: bool,
        sink: &mut dyn ItemSink,
    ) -> Result<Reading, SourceError> {
        // A reading that fails leaves no mark.
        let mark = self.marks[kind as usize].take();
        let notes = Schema::of(self.mint).notes(kind);
        let opened = self.connect()?;
        let identity = self.identity(&opened)?;
        let mark = mark.filter(|mark| !whole && identity.as_ref() == Some(&mark.identity));
        let mark = match mark {
            Some(mark) => {
                let found = self.look_up(notes, mark.newest.0, &opened.connection)?;
                (found.as_ref() == Some(&mark.newest)).then_some(mark)
            }
            None => None,
        };
        let is_whole = mark.is_none();
        let mut rows = ByKeyset::new(sink, notes, kind);
        let mark = self.read_rows(notes, mark, &opened, &mut rows)?;
        let unservable = rows.finish()?;
        opened.close()?;
        self.marks[kind as usize] = mark;
        Ok(Reading {
            is_whole,
            unservable,
        })
    }
}

/// Passes on a row. Returns whether it counts; a row with an unknown state is reported, and may count later.
fn take(
    row: &Row<'_>,
    id: i64,
    notes: &Notes,
    rows: &mut ByKeyset<'_>,
) -> Result<bool, SourceError> {
    let value = |column| row.get_ref(column).unwrap_or(ValueRef::Null);
    let counts = match value(3) {
        ValueRef::Integer(0) => return Ok(false),
        ValueRef::Integer(_) => true,
        _ => false,
    };
    let keyset = value(1).as_bytes().unwrap_or_default();
    rows.row(keyset, id, |batch| match counts {
        true => push(batch, notes, value(2)),
        false => Err(RowFault::UnknownState),
    })?;
    Ok(counts)
}

/// Adds the item of a row, or returns what is wrong with it.
fn push(batch: &mut ItemBatch, notes: &Notes, value: ValueRef<'_>) -> Result<(), RowFault> {
    match value {
        ValueRef::Text(text) if notes.hex => notes.push(batch, text),
        ValueRef::Blob(bytes) if !notes.hex => notes.push(batch, bytes),
        ValueRef::Text(b"") | ValueRef::Blob(b"") => Err(RowFault::Empty),
        other => Err(RowFault::WrongType {
            found: type_name(other),
            expected: if notes.hex { "hex text" } else { "a blob" },
        }),
    }
}

fn sqlite_error(path: &Path, doing: &'static str, source: rusqlite::Error) -> SourceError {
    SourceError::Sqlite {
        path: path.into(),
        doing,
        source,
    }
}

/// Tries again if the files changed meanwhile: a mint that started or stopped has done so by then.
fn once_more<T>(mut attempt: impl FnMut() -> Result<T, SourceError>) -> Result<T, SourceError> {
    match attempt() {
        Err(SourceError::ChangedWhileRead(_)) => attempt(),
        result => result,
    }
}
