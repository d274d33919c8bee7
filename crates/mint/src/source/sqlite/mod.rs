//! The SQLite databases of both mints.
//!
//! A reading opens the database, reads in one transaction, and closes it. Between two readings of one process it
//! remembers a *mark*: the newest row that counts, and the rows that do not count yet. SQLite gives a new row an id above
//! all others. So while the newest counting row is still the same, and only a mint wrote to the same files, all other rows
//! below it were read or are remembered. In any doubt everything is read. `docs/decisions/0014-sqlite-increments.md` has
//! the histories that each condition is for.

mod connect;
mod identity;
mod schema;

use std::path::PathBuf;

use rusqlite::Row;
use rusqlite::types::ValueRef;

use self::connect::Opened;
use self::identity::Identity;
use self::schema::{item, keyset, keysets, value, verify, warn_of_access};
use super::by_keyset::ByKeyset;
use super::schema::{Notes, Schema};
use super::{
    AsOf, DatabaseLocation, ItemSink, Keysets, MintSource, MintType, Reading, Result, RowFault,
    retry_changed,
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

/// Row id, and keyset and item as they are stored.
type Newest = (i64, [Option<Vec<u8>>; 2]);

impl SqliteSource {
    /// Checks the database. It detects the mint by its tables, unless `mint` is given, and verifies that everything
    /// it needs exists.
    ///
    /// # Errors
    ///
    /// If the file does not exist (it is never created) or is not a SQLite database. Also if the schema is not one
    /// that this version supports; the error names the first missing table or column.
    pub fn open(location: &DatabaseLocation, mint: Option<MintType>) -> Result<Self> {
        let path = location.file()?;
        let schema = retry_changed(|| {
            let opened = Opened::open(&path)?;
            let schema = verify(&opened, mint)?;
            warn_of_access(&opened);
            opened.close().map(|()| schema)
        })?;
        Ok(Self {
            path,
            mint: schema.mint,
            marks: [None, None],
        })
    }

    /// Opens the database for a reading, and verifies its tables.
    fn connect(&self) -> Result<(Opened, &'static Schema)> {
        let opened = Opened::open(&self.path)?;
        let schema = verify(&opened, Some(self.mint))?;
        Ok((opened, schema))
    }
}

impl MintSource for SqliteSource {
    fn mint(&self) -> &str {
        self.mint.as_str()
    }

    fn keysets(&mut self) -> Result<Keysets> {
        retry_changed(|| {
            let (opened, schema) = self.connect()?;
            let listed = keysets(&opened, schema)?;
            opened.close().map(|()| listed)
        })
    }

    fn read(&mut self, kind: NoteKind, whole: bool, sink: &mut dyn ItemSink) -> Result<Reading> {
        // A reading that fails leaves no mark.
        let mark = self.marks[kind as usize].take();
        let (opened, schema) = self.connect()?;
        let notes = schema.notes(kind);
        let identity = opened.identity(schema.migrations);
        let mark = mark.filter(|mark| {
            let newest = || look_up(&opened, notes, BY_ID, mark.newest.0);
            !whole
                && identity.as_ref() == Some(&mark.identity)
                && newest().is_ok_and(|newest| newest.as_ref() == Some(&mark.newest))
        });
        let reason = mark.is_none().then_some("no mark");
        let mut rows = ByKeyset::new(sink, notes, kind);
        let mut pending = read_rows(&opened, notes, mark, &mut rows)?;
        let reading = rows.finish(reason, AsOf::Beginning)?;
        // Above the highest possible id, SQLite chooses ids at random.
        let newest =
            look_up(&opened, notes, NEWEST, i64::MAX)?.filter(|newest| newest.0 < i64::MAX);
        opened.close()?;
        self.marks[kind as usize] = identity.zip(newest).and_then(|(identity, newest)| {
            // Those above are read again.
            pending.retain(|&id| id < newest.0);
            (pending.len() <= MAX_PENDING).then_some(Mark {
                identity,
                newest,
                pending,
            })
        });
        Ok(reading)
    }
}

/// Reads the rows that can be new since `mark`, or all of them. Returns the ids of those that do not count.
fn read_rows(
    opened: &Opened,
    notes: &Notes,
    mark: Option<Mark>,
    rows: &mut ByKeyset<'_>,
) -> Result<Vec<i64>> {
    let (from, mut waiting) =
        mark.map_or((i64::MIN, vec![]), |mark| (mark.newest.0 + 1, mark.pending));
    // In row order, which is the fastest and needs no sort, whatever indexes exist. To read a column takes as long as to
    // hash the item, so this query has an item only if the row counts, and the state is looked up if it has none.
    let sql = select(notes, &notes.counting_columns());
    let sql = sql + "NOT INDEXED WHERE rowid >= ?1 ORDER BY rowid";
    opened.rows("reading notes", &sql, [[from]], |row| match value(row, 2) {
        ValueRef::Null => {
            waiting.push(id(row));
            Ok(())
        }
        stored => rows.row(|| id(row), keyset(row), item(notes, stored)),
    })?;
    let (mut pending, sql) = (vec![], select(notes, &notes.columns()) + BY_ID);
    let ids = waiting.iter().map(|id| [id]);
    opened.rows("reading notes", &sql, ids, |row| {
        let item = match value(row, 3) {
            ValueRef::Integer(1) => item(notes, value(row, 2)),
            state => {
                // One that is not known may count later, too.
                pending.push(id(row));
                if state == ValueRef::Integer(0) {
                    return Ok(());
                }
                Err(RowFault::UnknownState)
            }
        };
        rows.row(|| id(row), keyset(row), item)
    })?;
    Ok(pending)
}

const BY_ID: &str = "WHERE rowid = ?1";

/// The newest row that counts, up to an id.
const NEWEST: &str = "NOT INDEXED WHERE rowid <= ?1 AND counts = 1 ORDER BY rowid DESC LIMIT 1";

/// Row ids are integers.
fn id(row: &Row<'_>) -> i64 {
    value(row, 0).as_i64().unwrap_or(i64::MAX)
}

/// What a mark remembers of a row; `None` if it is gone or does not count.
fn look_up(opened: &Opened, notes: &Notes, which: &str, newest: i64) -> Result<Option<Newest>> {
    let (mut found, sql) = (None, select(notes, &notes.columns()) + which);
    opened.rows("looking up the newest note", &sql, [[newest]], |row| {
        let stored = |column| value(row, column).as_bytes().ok().map(<[u8]>::to_vec);
        let counts = value(row, 3) == ValueRef::Integer(1);
        found = counts.then(|| (id(row), [stored(1), stored(2)]));
        Ok(())
    })?;
    Ok(found)
}

fn select(notes: &Notes, columns: &str) -> String {
    format!("SELECT rowid, {columns} FROM {} ", notes.table.name)
}
