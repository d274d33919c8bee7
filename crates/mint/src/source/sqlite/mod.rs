//! The SQLite databases of both mints.
//!
//! A reading opens the database, reads in one transaction, and closes it. Between two readings of one process it
//! remembers a *mark*: the newest rows that count, and the rows that do not count yet. SQLite gives a new row an id above
//! all others. So while the newest counting rows are still the same, and only a mint wrote to the same files, all other rows
//! below them were read or are remembered. In any doubt everything is read. `docs/increments.md` has
//! the histories that each condition is for.

mod connect;
mod file_system;
mod identity;
mod sqlite_tables;
mod watch;

use std::path::PathBuf;
use std::time::{Instant, SystemTime};

use nutfilter_cashu::NoteKind;
use rusqlite::Row;
use rusqlite::types::ValueRef;

use self::connect::OpenDatabase;
use self::file_system::dates_changes;
use self::identity::{Identity, Settled};
use self::sqlite_tables::{item, keyset, keysets, newest_time, value, verify, warn_of_access};
pub use self::watch::IsLocked;
use self::watch::Watch;
use super::by_keyset::ByKeyset;
use super::schema::{NoteTable, Schema};
use super::{
    AsOf, DatabaseLocation, ItemSink, Keysets, MintSource, MintType, Reading, Result, RowFault,
    retry_changed,
};

/// Rows that do not count yet and are remembered for the next reading. With more, everything is read each time.
const MAX_PENDING: usize = 1 << 20;

/// A mint's SQLite database, opened read-only for each reading.
///
/// It can be read while the mint runs. In WAL mode, which both mints use, readers and writers do not wait for each other.
/// A database that no mint has open, such as a copy or one without its log, is true as of its last change.
///
/// # Cost
///
/// A whole reading is one pass over the table. Other readings look up the newest rows and those that did not count, and
/// read the rows above. A closed database that nobody touched since a whole reading is not read again.
#[derive(Debug)]
pub struct SqliteSource {
    path: PathBuf,
    mint: MintType,
    /// What the last reading of each kind left behind, or why it left nothing. A process that starts reads everything: after a power
    /// loss a database in WAL mode can lack its last commits, in the same files.
    marks: [Result<SqliteMark, &'static str>; 2],
    settled: [Option<Settled>; 2],
    watch: Watch,
}

/// A state of the table.
#[derive(Debug)]
struct SqliteMark {
    identity: Identity,
    /// The newest rows that count, descending.
    newest: Vec<CountingRow>,
    /// Ids of the rows that did not count, ascending.
    pending: Vec<i64>,
}

/// Row id, and keyset and item as they are stored.
type CountingRow = (i64, [Option<Vec<u8>>; 2]);

impl SqliteSource {
    /// Checks the database. It detects the mint by its tables, unless `mint` is given, and verifies that everything
    /// it needs exists.
    ///
    /// # Errors
    ///
    /// If the file does not exist (it is never created) or is not a SQLite database. Also if the schema is not one
    /// that this version supports; the error names the first missing table or column.
    pub fn open(location: &DatabaseLocation, mint: Option<MintType>) -> Result<Self> {
        Self::open_alone(location, mint, None)
    }

    /// See [`open_alone`](super::open_alone).
    pub(super) fn open_alone(
        location: &DatabaseLocation,
        mint: Option<MintType>,
        is_locked: Option<IsLocked>,
    ) -> Result<Self> {
        let (path, watch) = (location.file()?, Watch::new(is_locked));
        let schema = retry_changed(|| {
            let opened = watch.open(&path)?;
            let schema = verify(&opened, mint)?;
            warn_of_access(&opened);
            opened.close().map(|()| schema)
        })?;
        Ok(Self {
            path,
            mint: schema.mint,
            marks: [Err("first"), Err("first")],
            settled: [None, None],
            watch,
        })
    }

    /// Opens the database for a reading, and verifies its tables.
    fn connect(&mut self) -> Result<(OpenDatabase, &'static Schema)> {
        let opened = self.watch.open(&self.path)?;
        let schema = verify(&opened, Some(self.mint))?;
        self.watch.note(&opened)?;
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
        let began = (SystemTime::now(), Instant::now());
        // A reading that fails leaves no mark.
        let mark = core::mem::replace(&mut self.marks[kind as usize], Err("failed"));
        let settled = self.settled[kind as usize].take();
        self.watch.is_disturbed = matches!(mark, Err("failed"));
        let (opened, schema) = self.connect()?;
        if let Some(settled) = settled.filter(|_| !whole)
            && let Some(reading) = settled.still(&opened.files, began)
        {
            opened.close()?;
            self.marks[kind as usize] = mark;
            self.settled[kind as usize] = Some(settled);
            return Ok(reading);
        }
        let notes = schema.notes(kind);
        let identity = opened.identity(schema.migrations);
        // Beside a row with the highest possible id, SQLite chooses ids at random.
        let (mut is_random, highest) = (false, select(notes, "1") + BY_ID);
        opened.rows("looking up the highest row id", &highest, [[i64::MAX]], |_| {
            is_random = true;
            Ok(())
        })?;
        let mark = mark.and_then(|mark| {
            let identity = identity.as_ref().map_err(|reason| *reason);
            let is_proved = match whole {
                true => return Err("asked"),
                false if is_random => return Err("no last row"),
                false => identity?.continues(&opened.path, &mark.identity)?,
            };
            let known = &mark.newest[..if is_proved { 1 } else { mark.newest.len() }];
            let now = look_up(&opened, notes, BY_ID, known.iter().map(|(id, _)| *id));
            match now.is_ok_and(|now| now == known) {
                true => Ok(mark),
                false => Err("newest rows"),
            }
        });
        let as_of = match opened.is_live {
            true => AsOf::Beginning,
            false => newest_time(&opened, schema)?.map_or(AsOf::Unknown, AsOf::LastChange),
        };
        let mut rows = ByKeyset::new(sink, notes, kind);
        let (mark, reason) = match mark {
            Ok(mark) => (Some(mark), None),
            Err(reason) => (None, Some(reason)),
        };
        let mut pending = read_rows(&opened, notes, mark, &mut rows)?;
        let reading = rows.finish(reason, as_of)?;
        let newest = look_up(&opened, notes, NEWEST, [i64::MAX])?;
        let is_told = opened.is_closed() && dates_changes(&opened.path);
        let settled = is_told.then(|| Settled::of(&opened.files, began, &reading)).flatten();
        opened.close()?;
        self.settled[kind as usize] = settled;
        self.marks[kind as usize] = identity.and_then(|identity| {
            let last = newest.first().map_or(i64::MAX, |(id, _)| *id);
            // Those above are read again.
            pending.retain(|&id| id < last);
            match last {
                _ if pending.len() > MAX_PENDING => Err("many pending"),
                // None counts.
                i64::MAX => Err("no last row"),
                _ if is_random => Err("no last row"),
                _ => Ok(SqliteMark { identity, newest, pending }),
            }
        });
        Ok(reading)
    }

    fn is_alone(&self) -> bool {
        self.watch.is_alone
    }
}

/// Reads the rows that can be new since `mark`, or all of them. Returns the ids of those that do not count.
fn read_rows(
    opened: &OpenDatabase,
    notes: &NoteTable,
    mark: Option<SqliteMark>,
    rows: &mut ByKeyset<'_>,
) -> Result<Vec<i64>> {
    let (from, mut waiting) =
        mark.map_or((i64::MIN, vec![]), |mark| (mark.newest[0].0 + 1, mark.pending));
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

/// The newest rows that count, up to an id. One is enough while the log proves that only mints wrote. Later, wallets may have sent the
/// same note last to a database that was put back in place.
const NEWEST: &str = "NOT INDEXED WHERE rowid <= ?1 AND counts = 1 ORDER BY rowid DESC LIMIT 256";

/// Row ids are integers.
fn id(row: &Row<'_>) -> i64 {
    value(row, 0).as_i64().unwrap_or(i64::MAX)
}

/// What a mark remembers of rows, without those that are gone or do not count.
fn look_up(
    opened: &OpenDatabase,
    notes: &NoteTable,
    which: &str,
    ids: impl IntoIterator<Item = i64>,
) -> Result<Vec<CountingRow>> {
    let (mut found, sql) = (vec![], select(notes, &notes.columns()) + which);
    let ids = ids.into_iter().map(|id| [id]);
    opened.rows("looking up the newest notes", &sql, ids, |row| {
        let stored = |column| value(row, column).as_bytes().ok().map(<[u8]>::to_vec);
        if value(row, 3) == ValueRef::Integer(1) {
            found.push((id(row), [stored(1), stored(2)]));
        }
        Ok(())
    })?;
    Ok(found)
}

fn select(notes: &NoteTable, columns: &str) -> String {
    format!("SELECT rowid, {columns} FROM {} ", notes.table.name)
}
