//! The Postgres databases of both mints.
//!
//! Notes are read with binary `COPY`. New rows are found by the ids of the transactions that wrote them (`xmin`): those
//! not older than the oldest one that ran at the last reading. This needs no column of the mint's and no clock. Between two
//! readings of one process a *mark* remembers that transaction, and what says that ids and table have one continuous
//! history since. In any doubt everything is read. `docs/increments.md` has the histories that
//! each condition is for.
//!
//! The statement that reads also returns a *proof*: where, when and of what it read. Facts of other statements are hints:
//! a program in between may have sent them to another server.

mod mark;
mod postgres_tables;
mod session;
mod tls;
mod url;

pub(super) use self::url::PostgresUrl;

use nutfilter_cashu::NoteKind;

use self::mark::{Newer, PostgresMark, Proof};
use self::postgres_tables::{FoundTables, XMIN, keysets};
use self::session::{Link, Session};
use super::by_keyset::ByKeyset;
use super::schema::{NoteTable, Schema};
use super::{
    AsOf, DatabaseLocation, ItemSink, Keysets, MintSource, MintType, Reading, Result, RowFault,
    SourceError,
};

/// A mint's Postgres database. Each reading uses its own transaction.
///
/// The mint's writers are not blocked: a reading waits for no row lock, and no row lock waits for it. `ALTER TABLE`
/// and `TRUNCATE` wait until the reading is over, as they do during a backup.
///
/// The role only needs privileges on the columns that are read, and on `xmin`. Without `xmin`, every reading is whole:
///
/// ```sql
/// GRANT SELECT (id, unit, active, input_fee_ppk, valid_to) ON keyset TO nutfilter;
/// GRANT SELECT (y, keyset_id, state, xmin) ON proof TO nutfilter;
/// GRANT SELECT (blinded_message, keyset_id, c, xmin) ON blind_signature TO nutfilter;
/// ```
///
/// A standby is refused, since it shows an earlier state, and so are a table that a subscription fills, and statements that
/// are sent to several servers. Of several hosts that accept writes, the one with the highest timeline is read.
///
/// # Cost
///
/// The server scans the table at each reading. Only new rows cross the network.
#[derive(Debug)]
pub struct PostgresSource {
    link: Link,
    mint: MintType,
    /// What the last reading of each kind left behind, or why it left nothing.
    marks: [Result<PostgresMark, &'static str>; 2],
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
        let mut link = Link::new(location.postgres()?.clone());
        let look = || {
            let look = |link: &mut Link| {
                let (session, found, schema) = begin(link, mint)?;
                found.warn_of_xmin(schema);
                session.finish();
                Ok(schema.mint)
            };
            look(&mut link).map_err(|error| link.explain(error))
        };
        // A separate thread, because a runtime cannot be entered from within another one.
        let looked = std::thread::scope(|scope| scope.spawn(look).join());
        let panicked = |_| Err(SourceError::Other("schema check thread panicked".into()));
        let mint = looked.unwrap_or_else(panicked)?;
        let marks = [Err("first"), Err("first")];
        Ok(Self { link, mint, marks })
    }

    fn list(&mut self) -> Result<Keysets> {
        let (mut session, found, schema) = begin(&mut self.link, Some(self.mint))?;
        let list = schema.list_keysets(found.may_read(schema.keysets.name, schema.final_expiry));
        let list = format!(
            "SELECT pg_catalog.pg_is_in_recovery(), listed.* FROM (SELECT) AS here LEFT JOIN ({list}) AS listed ON true"
        );
        let rows = session.rows("listing keysets", &list)?;
        let listed = keysets(&session, rows)?;
        session.finish();
        Ok(listed)
    }

    fn read_rows(
        &mut self,
        kind: NoteKind,
        whole: bool,
        sink: &mut dyn ItemSink,
    ) -> Result<Reading> {
        // A reading that fails leaves no mark.
        let mark = core::mem::replace(&mut self.marks[kind as usize], Err("failure"));
        let (mut session, found, schema) = begin(&mut self.link, Some(self.mint))?;
        let notes = schema.notes(kind);
        let has_xmin = found.may_read(notes.table.name, XMIN);
        let mark = if has_xmin { mark } else { Err("no xmin") };
        // The lock comes before the snapshot of the copy: a table that is rewritten in between would seem empty.
        let (item, table) = (notes.item, notes.table.name);
        let proof = Proof::sql(notes, mark.as_ref().ok());
        let lock = format!("SELECT {proof}, (SELECT {item} FROM {table} LIMIT 0)");
        let lock = session.rows("locking the table", &lock)?.pop();
        let lock = lock.and_then(|row| Proof::parse(row.first()?.as_ref()?.as_bytes()));
        let lock = lock.ok_or_else(|| unproved(&session))?;
        let mark = mark.and_then(|mark| mark.broken(&lock).map_or(Ok(mark), Err));
        let mut rows = ByKeyset::new(sink, notes, kind);
        let mut newer = Newer::than(&lock, mark.as_ref().ok());
        let sql = statement(notes, mark.as_ref().ok(), whole, has_xmin);
        let proof = copy(&mut session, &sql, notes, &mut rows, &mut newer)?;
        proof.verify(&session, &lock, notes)?;
        if mark.as_ref().is_ok_and(|mark| mark.broken(&proof).is_some()) {
            return Err(SourceError::ChangedWhileRead(session.url().to_string().into()));
        }
        session.finish();
        let reason = mark.as_ref().err().copied().or(whole.then_some("asked"));
        let reading = rows.finish(reason, AsOf::StoreClock(proof.date))?;
        if has_xmin {
            self.marks[kind as usize] = PostgresMark::after(proof, mark.ok(), newer);
        }
        Ok(reading)
    }
}

/// Begins a transaction and verifies the schema.
fn begin(
    link: &mut Link,
    mint: Option<MintType>,
) -> Result<(Session<'_>, FoundTables, &'static Schema)> {
    let mut session = Session::begin(link)?;
    let found = FoundTables::look(&mut session)?;
    let schema = found.verify(mint)?;
    Ok((session, found, schema))
}

impl MintSource for PostgresSource {
    fn mint(&self) -> &str {
        self.mint.as_str()
    }

    fn keysets(&mut self) -> Result<Keysets> {
        self.list().map_err(|error| self.link.explain(error))
    }

    fn read(&mut self, kind: NoteKind, whole: bool, sink: &mut dyn ItemSink) -> Result<Reading> {
        let reading = self.read_rows(kind, whole, sink);
        reading.map_err(|error| self.link.explain(error))
    }
}

fn unproved(session: &Session<'_>) -> SourceError {
    let reason =
        "the answer does not prove where it was read; give the address of the primary itself";
    SourceError::schema(session.url(), reason)
}

/// SQL for the rows that count, or only those that transactions since the mark may have written, and for the proof.
fn statement(
    notes: &NoteTable,
    mark: Option<&PostgresMark>,
    whole: bool,
    has_xmin: bool,
) -> String {
    let (columns, table, proof) = (notes.columns(), notes.table.name, Proof::sql(notes, mark));
    let is_new = mark.filter(|_| !whole).map_or("true".to_owned(), PostgresMark::is_new);
    let wrote = if has_xmin { XMIN } else { "'3'::pg_catalog.xid" };
    // `OFFSET 0` keeps the conditions apart, or Postgres takes every old row apart to see whether it counts. The row of the
    // proof has the id 0, which no transaction has.
    format!(
        "COPY (SELECT keyset, item, CASE counts WHEN 1 THEN wrote END
             FROM (SELECT {columns}, {wrote} AS wrote FROM {table} WHERE {is_new} OFFSET 0) AS new
             WHERE counts IS DISTINCT FROM 0
             UNION ALL SELECT {proof}, NULL, '0'::pg_catalog.xid) TO STDOUT (FORMAT binary)"
    )
}

/// Copies rows and returns their proof.
fn copy(
    session: &mut Session<'_>,
    sql: &str,
    notes: &'static NoteTable,
    rows: &mut ByKeyset<'_>,
    newer: &mut Newer,
) -> Result<Proof> {
    let (mut number, mut proof) = (0, None);
    session.copy("reading notes", sql, |keyset, item, wrote| {
        let keyset = keyset.unwrap_or_default();
        if wrote == Some(0) {
            proof = Proof::parse(keyset);
            return Ok(());
        }
        number += 1;
        let item = match (wrote, item) {
            (None, _) => Err(RowFault::UnknownState),
            (Some(id), Some(stored)) => {
                newer.row(stored, id);
                Ok(stored)
            }
            (_, None) => Err(RowFault::WrongType {
                found: "null",
                expected: if notes.hex { "hex text" } else { "bytes" },
            }),
        };
        rows.row(|| number, keyset, item)
    })?;
    proof.ok_or_else(|| unproved(session))
}
