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

use self::schema::Found;
use self::session::{Session, TextRow};
use super::by_keyset::ByKeyset;
use super::schema::{Notes, Schema};
use super::{
    DatabaseLocation, ItemSink, Keysets, MintSource, MintType, Reading, RowFault, SourceError,
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
    /// Whether the missing privilege on `xmin` was logged.
    warned: bool,
}

/// A state of the table.
#[derive(Debug)]
struct Mark {
    state: TextRow,
    /// Every transaction below had ended, and what it wrote was read.
    oldest: u64,
}

impl PostgresSource {
    /// Checks the database. It detects the mint by its tables, unless `mint` is given, and verifies that everything
    /// it needs exists and may be read. It can be called on an async thread, which is blocked for a moment.
    ///
    /// # Errors
    ///
    /// If the location is not a Postgres URL, or the server cannot be reached, refuses the login, or is a standby. Also if
    /// the schema is not one that this version supports; the error names the first missing table, column or privilege.
    pub fn open(location: &DatabaseLocation, mint: Option<MintType>) -> Result<Self, SourceError> {
        let url = location.postgres().ok_or_else(|| {
            SourceError::postgres_url("must begin with postgres:// or postgresql://")
        })?;
        let look = || {
            let mut session = Session::begin(url)?;
            let found = Found::look(&mut session, url.to_string())?;
            let mint = mint.map_or_else(|| found.recognise(), Ok)?;
            found.verify(Schema::of(mint))?;
            session.finish();
            Ok(mint)
        };
        // A separate thread, because a runtime cannot be entered from within another one.
        let mint = std::thread::scope(|scope| {
            let looked = scope.spawn(look).join();
            looked
                .unwrap_or_else(|_| Err(SourceError::Other("schema check thread panicked".into())))
        })?;
        Ok(Self {
            url: url.clone(),
            mint,
            marks: [None, None],
            warned: false,
        })
    }

    /// Begins a transaction and verifies the schema.
    fn begin(&self) -> Result<(Session<'_>, Found, &'static Schema), SourceError> {
        let mut session = Session::begin(&self.url)?;
        let found = Found::look(&mut session, self.url.to_string())?;
        let schema = Schema::of(self.mint);
        found.verify(schema)?;
        Ok((session, found, schema))
    }

    fn warn_of_xmin(&mut self, table: &str) {
        if !std::mem::replace(&mut self.warned, true) {
            tracing::warn!(
                table,
                "role cannot read column `xmin`, so every refresh rereads the full table; grant SELECT (xmin) on the \
                 table to the role"
            );
        }
    }
}

impl MintSource for PostgresSource {
    fn mint(&self) -> &str {
        self.mint.as_str()
    }

    fn keysets(&mut self) -> Result<Keysets, SourceError> {
        let (mut session, _, schema) = self.begin()?;
        let rows = session.rows("listing keysets", &schema.keysets.select())?;
        session.finish();
        let mut listed = Keysets::default();
        for row in rows {
            let mut row = row.into_iter();
            let mut next = || row.next().flatten();
            let (id, unit) = (next().unwrap_or_default(), next());
            let active = next().is_some_and(|value| ["t", "true", "1"].contains(&&*value));
            listed.add(
                &id,
                unit,
                active,
                next().and_then(|fee| fee.parse().ok()).unwrap_or(0),
            );
        }
        Ok(listed)
    }

    fn read(
        &mut self,
        kind: NoteKind,
        whole: bool,
        sink: &mut dyn ItemSink,
    ) -> Result<Reading, SourceError> {
        // A reading that fails leaves no mark.
        let mark = self.marks[kind as usize].take();
        let (mut session, found, schema) = self.begin()?;
        let notes = schema.notes(kind);
        let tells_new = found.may_read_xmin(notes);
        // The lock comes before the snapshot of the copy: a table that is rewritten in between would seem empty.
        let lock = format!("SELECT {} FROM {} LIMIT 0", notes.item, notes.table.name);
        session.rows("locking the table", &lock)?;
        found.refuse_subscriber(&mut session, notes)?;
        let state = session
            .rows("reading the state of the server", &state_of(notes))?
            .pop()
            .unwrap_or_default();
        let (oldest, newest) = snapshot(&mut session)?;
        let mark = mark.filter(|mark| {
            let distance = newest.checked_sub(mark.oldest);
            !whole
                && tells_new
                && mark.state == state
                && distance.is_some_and(|distance| distance < MAX_DISTANCE)
        });
        let mut rows = ByKeyset::new(sink, notes, kind);
        copy(&mut session, notes, mark.as_ref(), &mut rows)?;
        session.finish();
        let unservable = rows.finish()?;
        // NULL: not a plain table, or something that the server does not tell.
        if tells_new && state.iter().all(Option::is_some) {
            self.marks[kind as usize] = Some(Mark { state, oldest });
        }
        let is_whole = mark.is_none();
        if !tells_new {
            self.warn_of_xmin(notes.table.name);
        }
        Ok(Reading {
            is_whole,
            unservable,
        })
    }
}

/// One continuous history of transaction ids and of this table has equal values: the same server process without a crash
/// inside (recovery resets these statistics, and gives ids that were not flushed out again), the same database, the same
/// plain heap table without children, and the same columns (a default that is added later changes rows without rewriting
/// them).
fn state_of(notes: &Notes) -> String {
    let table = notes.table.name;
    format!(
        "SELECT pg_catalog.pg_postmaster_start_time(),
             (SELECT stats_reset FROM pg_catalog.pg_stat_bgwriter),
             (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()),
             (SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_am a ON a.oid = c.relam
              WHERE c.oid = pg_catalog.to_regclass('{table}') AND c.relkind = 'r' AND a.amname = 'heap'
                AND NOT c.relhassubclass),
             (SELECT pg_catalog.array_agg((attnum, atttypid, attmissingval::text)::text ORDER BY attnum)
              FROM pg_catalog.pg_attribute WHERE attrelid = pg_catalog.to_regclass('{table}') AND attnum > 0)"
    )
}

/// The oldest transaction that runs, and the first id that is not given out yet.
fn snapshot(session: &mut Session<'_>) -> Result<(u64, u64), SourceError> {
    let sql = "SELECT pg_catalog.pg_snapshot_xmin(s), pg_catalog.pg_snapshot_xmax(s) FROM pg_catalog.pg_current_snapshot() s";
    let row = session
        .rows("reading the snapshot", sql)?
        .pop()
        .unwrap_or_default();
    let mut ids = row.iter().flatten().filter_map(|id| id.parse().ok());
    match (ids.next(), ids.next()) {
        (Some(oldest), Some(newest)) => Ok((oldest, newest)),
        _ => Err(SourceError::Other("the server sent no snapshot".into())),
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
) -> Result<(), SourceError> {
    let (table, counts) = (notes.table.name, notes.counts());
    let (keyset, item) = (notes.keyset, notes.item);
    let is_new = match mark {
        None => "true".to_owned(),
        Some(mark) => format!(
            "pg_catalog.age(xmin) <= (SELECT pg_catalog.age('{}'::pg_catalog.xid))",
            mark.oldest % (1 << 32)
        ),
    };
    // `OFFSET 0` keeps the conditions apart, or Postgres takes every old row apart to see whether it counts.
    let sql = format!(
        "COPY (SELECT keyset, item, counts FROM (
             SELECT {keyset} AS keyset, {item} AS item, {counts} AS counts FROM {table} WHERE {is_new} OFFSET 0
         ) AS new WHERE counts IS DISTINCT FROM 0) TO STDOUT (FORMAT binary)"
    );
    let mut number = 0;
    session.copy("reading notes", &sql, |keyset, item, counts| {
        number += 1;
        rows.row(keyset.unwrap_or_default(), number, |batch| {
            match (counts, item) {
                (None, _) => Err(RowFault::UnknownState),
                (_, Some(stored)) => notes.push(batch, stored),
                (_, None) => Err(RowFault::WrongType {
                    found: "null",
                    expected: if notes.hex { "hex text" } else { "bytes" },
                }),
            }
        })
    })
}
