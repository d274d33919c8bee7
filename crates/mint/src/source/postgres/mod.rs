//! The Postgres databases of both mints.
//!
//! Notes are read with binary `COPY`. New rows are found by the ids of the transactions that wrote them (`xmin`): those
//! not older than the oldest one that ran at the last reading. This needs no column of the mint's and no clock. Between two
//! readings of one process a *mark* remembers that transaction, and what says that ids and table have one continuous
//! history since. In any doubt everything is read. `docs/decisions/0015-postgres-increments.md` has the histories that
//! each condition is for.

mod schema;
mod session;
mod stream;
mod tls;
mod url;

pub(super) use self::url::PostgresUrl;

use self::schema::{Found, keysets};
use self::session::Session;
use super::by_keyset::ByKeyset;
use super::schema::{Notes, Schema};
use super::{
    DatabaseLocation, ItemSink, Keysets, MintSource, MintType, Reading, Result, RowFault,
    SourceError,
};
use crate::NoteKind;

/// The most transactions between two readings for which ids can be compared. They have 32 bits and wrap.
const MAX_DISTANCE: u64 = 1 << 30;

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

/// A state of the table.
#[derive(Debug)]
struct Mark {
    /// Equal within one continuous history of transaction ids and of the table.
    state: Vec<String>,
    /// Every transaction below had ended, and what it wrote was read.
    oldest: u64,
    /// The first id that was not given out yet.
    next: u64,
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
        let reading = rows.finish(mark.is_none())?;
        self.marks[kind as usize] = now;
        Ok(reading)
    }
}

impl Mark {
    /// The present state; `None` if the table is not a plain one, or the server does not tell something.
    ///
    /// The state says that this is the same server process without a crash inside (recovery resets these statistics, and
    /// gives ids that were not flushed out again), the same database, the same plain heap table without children, and the
    /// same columns (a default that is added later changes rows without rewriting them).
    fn now(session: &mut Session<'_>, notes: &Notes) -> Result<Option<Self>> {
        let table = notes.table.name;
        let sql = format!(
            "SELECT pg_catalog.pg_postmaster_start_time(),
                 (SELECT stats_reset FROM pg_catalog.pg_stat_bgwriter),
                 (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()),
                 (SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_am a ON a.oid = c.relam
                  WHERE c.oid = pg_catalog.to_regclass('{table}') AND c.relkind = 'r' AND a.amname = 'heap'
                    AND NOT c.relhassubclass),
                 (SELECT pg_catalog.array_agg((attnum, atttypid, attmissingval::text)::text ORDER BY attnum)
                  FROM pg_catalog.pg_attribute WHERE attrelid = pg_catalog.to_regclass('{table}') AND attnum > 0),
                 pg_catalog.pg_snapshot_xmin(s), pg_catalog.pg_snapshot_xmax(s)
             FROM pg_catalog.pg_current_snapshot() s"
        );
        let row = session.rows("reading the state of the server", &sql)?.pop();
        let state: Option<Vec<String>> = row.unwrap_or_default().into_iter().collect();
        Ok(state.and_then(|mut state| {
            let next = state.pop()?.parse().ok()?;
            let oldest = state.pop()?.parse().ok()?;
            Some(Self {
                state,
                oldest,
                next,
            })
        }))
    }

    /// Whether ids of transactions say what is new since this mark.
    fn holds(&self, now: &Self) -> bool {
        let distance = now.next.checked_sub(self.oldest);
        self.state == now.state && distance.is_some_and(|distance| distance < MAX_DISTANCE)
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

#[cfg(test)]
mod tests {
    use super::{MAX_DISTANCE, Mark};

    #[test]
    fn mark_holds_while_ids_can_be_compared() {
        let mark = |next| Mark {
            state: vec![],
            oldest: 800,
            next,
        };
        let holds = |next| mark(900).holds(&mark(next));
        assert!(holds(800) && holds(799 + MAX_DISTANCE));
        assert!(!holds(799) && !holds(800 + MAX_DISTANCE));
    }
}
