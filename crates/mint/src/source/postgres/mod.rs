//! The Postgres databases of both mints.
//!
//! Notes are read with binary `COPY`. New rows are found by the ids of the transactions that wrote them (`xmin`): those
//! not older than the oldest one that ran at the last reading. This needs no column of the mint's and no clock. Between two
//! readings of one process a *mark* remembers that transaction, and what says that ids and table have one continuous
//! history since. In any doubt everything is read. `docs/decisions/0015-postgres-increments.md` has the histories that
//! each condition is for.

mod mark;
mod schema;
mod session;
mod stream;
mod tls;
mod url;

pub(super) use self::url::PostgresUrl;

use self::mark::Mark;
use self::schema::{Found, keysets};
use self::session::Session;
use super::by_keyset::ByKeyset;
use super::schema::{Notes, Schema};
use super::{
    AsOf, DatabaseLocation, ItemSink, Keysets, MintSource, MintType, Reading, Result, RowFault,
    SourceError,
};
use crate::NoteKind;

/// A mint's Postgres database. Each reading uses its own transaction.
///
/// The mint's writers are not blocked: a reading waits for no row lock, and no row lock waits for it. `ALTER TABLE`
/// and `TRUNCATE` wait until the reading is over, as they do during a backup.
///
/// The role only needs privileges on the columns that are read, and on `xmin`. Without `xmin`, every reading is whole:
///
/// ```sql
/// GRANT SELECT (id, unit, active, input_fee_ppk) ON keyset TO nutfilter;
/// GRANT SELECT (y, keyset_id, state, xmin) ON proof TO nutfilter;
/// GRANT SELECT (blinded_message, keyset_id, c, xmin) ON blind_signature TO nutfilter;
/// ```
///
/// A standby is refused, since it shows an earlier state, and so is a table that a subscription fills.
///
/// # Cost
///
/// The server scans the table at each reading. Only new rows cross the network.
#[derive(Debug)]
pub struct PostgresSource {
    url: PostgresUrl,
    mint: MintType,
    /// What the last reading of each kind left behind.
    marks: [Option<Mark>; 2],
}

impl PostgresSource {
    /// Checks the database. It detects the mint by its tables, unless `mint` is given, and verifies that everything
    /// it needs exists and may be read. It can be called on an async thread, which is blocked for a moment.
    ///
    /// # Errors
    ///
    /// If the location is not a Postgres URL, or the server cannot be reached, refuses the login, or is a standby. Also if
    /// the schema is not one that this version supports; the error names the first missing table, column or privilege.
    pub fn open(location: &DatabaseLocation, mint: Option<MintType>) -> Result<Self> {
        let url = location.postgres()?;
        let look = || {
            let (session, found, schema) = begin(url, mint)?;
            found.warn_of_xmin(schema);
            session.finish();
            Ok(schema.mint)
        };
        // A separate thread, because a runtime cannot be entered from within another one.
        let looked = std::thread::scope(|scope| scope.spawn(look).join());
        let panicked = |_| Err(SourceError::Other("schema check thread panicked".into()));
        Ok(Self {
            url: url.clone(),
            mint: looked.unwrap_or_else(panicked)?,
            marks: [None, None],
        })
    }
}

/// Begins a transaction and verifies the schema.
fn begin(
    url: &PostgresUrl,
    mint: Option<MintType>,
) -> Result<(Session<'_>, Found, &'static Schema)> {
    let mut session = Session::begin(url)?;
    let found = Found::look(&mut session)?;
    let schema = found.verify(mint)?;
    Ok((session, found, schema))
}

impl MintSource for PostgresSource {
    fn mint(&self) -> &str {
        self.mint.as_str()
    }

    fn keysets(&mut self) -> Result<Keysets> {
        let (mut session, _, schema) = begin(&self.url, Some(self.mint))?;
        let rows = session.rows("listing keysets", &schema.keysets.select())?;
        session.finish();
        Ok(keysets(rows))
    }

    fn read(&mut self, kind: NoteKind, whole: bool, sink: &mut dyn ItemSink) -> Result<Reading> {
        // A reading that fails leaves no mark.
        let mark = self.marks[kind as usize].take();
        let (mut session, found, schema) = begin(&self.url, Some(self.mint))?;
        let notes = schema.notes(kind);
        // The lock comes before the snapshot of the copy: a table that is rewritten in between would seem empty.
        let lock = format!("SELECT {} FROM {} LIMIT 0", notes.item, notes.table.name);
        session.rows("locking the table", &lock)?;
        found.refuse_subscriber(&mut session, notes)?;
        let now = match found.may_read_xmin(notes) {
            true => Mark::now(&mut session, notes)?,
            false => None,
        };
        let mark = mark.filter(|mark| !whole && now.as_ref().is_some_and(|now| mark.holds(now)));
        let mut rows = ByKeyset::new(sink, notes, kind);
        copy(&mut session, notes, mark.as_ref(), &mut rows)?;
        session.finish();
        let reading = rows.finish(mark.is_none().then_some("no mark"), AsOf::Beginning)?;
        self.marks[kind as usize] = now;
        Ok(reading)
    }
}

/// Copies the rows that count, or only those that transactions since the mark may have written.
///
/// New is not what the mark's snapshot did not see: it does not list running subtransactions.
fn copy(
    session: &mut Session<'_>,
    notes: &'static Notes,
    mark: Option<&Mark>,
    rows: &mut ByKeyset<'_>,
) -> Result<()> {
    let (columns, table) = (notes.columns(), notes.table.name);
    let is_new = mark.map_or("true".to_owned(), |mark| {
        let oldest = mark.oldest % (1 << 32);
        format!("pg_catalog.age(xmin) <= (SELECT pg_catalog.age('{oldest}'::pg_catalog.xid))")
    });
    // `OFFSET 0` keeps the conditions apart, or Postgres takes every old row apart to see whether it counts.
    let sql = format!(
        "COPY (SELECT * FROM (SELECT {columns} FROM {table} WHERE {is_new} OFFSET 0) AS new
             WHERE counts IS DISTINCT FROM 0) TO STDOUT (FORMAT binary)"
    );
    let mut number = 0;
    session.copy("reading notes", &sql, |keyset, item, counts| {
        number += 1;
        let item = match (counts, item) {
            (None, _) => Err(RowFault::UnknownState),
            (_, Some(stored)) => Ok(stored),
            (_, None) => Err(RowFault::WrongType {
                found: "null",
                expected: if notes.hex { "hex text" } else { "bytes" },
            }),
        };
        rows.row(|| number, keyset.unwrap_or_default(), item)
    })
}
