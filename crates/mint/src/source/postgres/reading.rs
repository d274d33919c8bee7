//! One reading of a table of notes: state of the database, count, and rows.

use super::PostgresSource;
use super::session::Session;
use super::watermark::{
    BadItem, FORMAT, MAX_BAD, Mark, Newest, Recent, Snapshot, State, count_bad,
};
use crate::source::by_keyset::{ByKeyset, Gathered, MAX_ID_CHARS, MAX_UNSERVABLE};
use crate::source::schema::{Notes, Schema};
use crate::source::{ItemBatch, ItemSink, Reading, RowFault, SourceError};
use crate::{KeysetId, NoteKind};

/// A reading that is about to copy rows.
pub(super) struct Begun<'u> {
    session: Session<'u>,
    pub(super) notes: &'static Notes,
    state: State,
    /// Whether the role may read the column that distinguishes new rows (`xmin`).
    pub(super) tells_new: bool,
    /// Whether nothing has happened since the last reading. Otherwise the table is locked, so that it cannot change
    /// under the transaction's snapshot.
    is_now: bool,
    /// Whether a count of the table was requested. A full reading counts the rows as they arrive.
    verify: bool,
}

/// The number of members in keysets that can be served, and the other keysets.
type Counted = (u64, Vec<String>);

impl<'u> Begun<'u> {
    pub(super) fn new(
        source: &'u PostgresSource,
        kind: NoteKind,
        since: Option<&Mark>,
        verify: bool,
    ) -> Result<Self, SourceError> {
        let (mut session, found, schema) = source.begin()?;
        let notes = schema.notes(kind);
        let state = state(&mut session, schema, notes)?;
        let mut begun = Self {
            session,
            notes,
            state,
            tells_new: found.may_read_xmin(notes),
            is_now: false,
            verify: verify && since.is_some(),
        };
        if let Some(mark) = since {
            let unreadable = || "the role can no longer read column `xmin`".to_owned();
            let obstacle = mark.obstacle(&begun.state);
            if let Some(reason) = obstacle.or_else(|| (!begun.tells_new).then(unreadable)) {
                return Err(SourceError::rescan(reason));
            }
            // A state that was counted then need not be counted again.
            if mark.is_now(&begun.state) && (mark.members.is_some() || !verify) {
                begun.is_now = true;
                return Ok(begun);
            }
        }
        lock(&mut begun.session, notes)?;
        let relation = relation_if_unchanged(&mut begun.session, notes.table.name)?;
        if relation != begun.state.relation {
            let table = notes.table.name;
            return Err(SourceError::Rewritten(table));
        }
        Ok(begun)
    }

    pub(super) fn read(
        mut self,
        kind: NoteKind,
        since: Option<Mark>,
        sink: &mut dyn ItemSink,
    ) -> Result<Reading, SourceError> {
        if let Some(mark) = &since {
            self.report_bad(kind, &mark.bad, sink)?;
            if self.is_now {
                self.session.finish();
                return Ok(reading(mark));
            }
            self.check_anchors(mark)?;
            self.check_bad(&mark.bad)?;
            self.session.expect_few_rows()?;
        }
        let sql = self.select(since.as_ref());
        let is_whole = since.is_none();
        let (anchors, recent, known_unservable, bad) = since
            .map_or_else(Default::default, |mark| {
                (mark.anchors, mark.recent, mark.unservable, mark.bad)
            });
        let mut copied = Copied {
            newest: Newest::among(anchors),
            recent: Recent::new(recent, &self.state.snapshot),
            bad,
        };
        let gathered = self.copy(kind, &sql, &mut copied, sink)?;
        let all_servable = known_unservable.is_empty() && gathered.unservable.is_empty();
        let counted = match (self.verify, all_servable) {
            (false, _) => None,
            (true, true) => Some(count(&mut self.session, self.notes)?),
            (true, false) => Some(count_by_keyset(&mut self.session, self.notes)?),
        };
        self.session.finish();
        let bad = copied.bad.len() as u64;
        let (members, unservable) = match counted {
            Some((members, unservable)) => (Some(members.saturating_sub(bad)), unservable),
            None => {
                let mut unservable = known_unservable;
                unservable.extend(gathered.unservable);
                unservable.sort();
                unservable.dedup();
                unservable.truncate(MAX_UNSERVABLE);
                // Rewritten rows are among the new ones, so adding up would give a wrong total.
                (is_whole.then_some(gathered.items), unservable)
            }
        };
        let mark = Mark {
            format: FORMAT,
            state: self.state,
            members,
            unservable,
            anchors: copied.newest.finish(),
            recent: copied.recent.finish(),
            bad: copied.bad,
        };
        let mut reading = reading(&mark);
        if bad > MAX_BAD as u64 || !self.tells_new {
            reading.watermark = None;
        }
        Ok(reading)
    }

    fn check_anchors(&mut self, mark: &Mark) -> Result<(), SourceError> {
        if mark.anchors.is_empty() {
            return Ok(());
        }
        let sql = mark.count_anchors(self.notes);
        let there = self.session.value("looking up the newest notes", &sql)?;
        let expected = mark.anchors.len();
        match there.parse() == Ok(expected) {
            true => Ok(()),
            false => Err(SourceError::rescan(format!(
                "only {there} of the {expected} newest items are left"
            ))),
        }
    }

    /// Reports rows that an earlier reading could not read. A later version of this program may be able to.
    fn report_bad(
        &self,
        kind: NoteKind,
        bad: &[BadItem],
        sink: &mut dyn ItemSink,
    ) -> Result<(), SourceError> {
        let mut by_keyset = ByKeyset::new(sink);
        for (row, bad) in (1..).zip(bad) {
            let (keyset, item) = bad.decode().unwrap_or_default();
            let mut is_bad = false;
            by_keyset.row(
                &keyset,
                |batch| push(batch, self.notes, item.as_deref()).inspect_err(|_| is_bad = true),
                |keyset, fault| self.notes.bad_row(keyset, kind, row, fault),
            )?;
            if !is_bad {
                return Err(SourceError::rescan("an unreadable row can be read now"));
            }
        }
        Ok(())
    }

    /// Checks that the rows which could not be read are unchanged.
    fn check_bad(&mut self, bad: &[BadItem]) -> Result<(), SourceError> {
        if bad.is_empty() {
            return Ok(());
        }
        let sql = count_bad(bad, self.notes);
        let there = self.session.value("looking up unreadable rows", &sql)?;
        // There may be new ones that look the same. They are among the new rows.
        match there.parse().is_ok_and(|there: usize| there >= bad.len()) {
            true => Ok(()),
            false => Err(SourceError::rescan(format!(
                "only {there} of {} unreadable rows are unchanged",
                bad.len()
            ))),
        }
    }

    /// Selects all members, or only those written by a transaction that the earlier reading may not have seen.
    fn select(&self, since: Option<&Mark>) -> String {
        let Notes {
            table,
            keyset,
            item,
            member,
            ..
        } = self.notes;
        let table = table.name;
        let Some(mark) = since else {
            let xmin = if self.tells_new { "t.xmin" } else { "NULL" };
            return format!(
                "SELECT {keyset}, {item}, {xmin}::pg_catalog.xid FROM {table} AS t WHERE ({member})"
            );
        };
        let is_new = mark.is_new(&self.state.snapshot, self.session.lists_quickly());
        // `OFFSET 0` keeps the two conditions apart. Otherwise, Postgres takes every old row apart to see whether it
        // is a member, which costs more than the rest.
        format!(
            "SELECT {keyset}, {item}, xid FROM (
                 SELECT {keyset}, {item}, t.xmin AS xid, ({member}) AS member
                 FROM {table} AS t WHERE {is_new} OFFSET 0
             ) AS new WHERE member"
        )
    }

    /// Passes on the rows of a query, except those that the earlier reading already passed on.
    fn copy(
        &mut self,
        kind: NoteKind,
        select: &str,
        copied: &mut Copied,
        sink: &mut dyn ItemSink,
    ) -> Result<Gathered, SourceError> {
        let (notes, snapshot) = (self.notes, &self.state.snapshot);
        let table = notes.table.name;
        let sql = format!("COPY ({select}) TO STDOUT (FORMAT binary)");
        let mut by_keyset = ByKeyset::new(sink);
        let mut row = 0;
        let take = |[keyset, item, xmin]: [Option<&[u8]>; 3]| {
            row += 1;
            let id = keyset.unwrap_or_default();
            let stored = item.unwrap_or_default();
            let is_repeat = copied.recent.is_repeat(id, stored);
            let mut is_bad = false;
            let served = is_repeat
                || by_keyset.row(
                    id,
                    |batch| push(batch, notes, item).inspect_err(|_| is_bad = true),
                    |keyset, fault| notes.bad_row(keyset, kind, row, fault),
                )?;
            if is_bad && copied.bad.len() <= MAX_BAD {
                copied.bad.push(BadItem::new(id, item));
            }
            if let (true, Some(xmin)) = (served, xmin) {
                let xmin = xmin.try_into().map_err(|_| {
                    let reason = format!("invalid transaction id of {} bytes", xmin.len());
                    SourceError::malformed(table, &reason)
                })?;
                let xid = snapshot.widen(u32::from_be_bytes(xmin));
                copied.recent.add(xid, id, stored);
                // Only items that can be looked up.
                let is_old = is_repeat && copied.is_bad(id, item);
                if !(is_bad || is_old) {
                    copied.newest.add(xid, || match notes.hex {
                        true => String::from_utf8_lossy(stored).into_owned(),
                        false => const_hex::encode(stored),
                    });
                }
            }
            Ok(())
        };
        self.session.copy("reading notes", table, &sql, take)?;
        by_keyset.finish()
    }
}

/// The remembered part of the copied rows.
struct Copied {
    newest: Newest,
    recent: Recent,
    /// Unreadable rows, of which at most one more than [`MAX_BAD`] are kept.
    bad: Vec<BadItem>,
}

impl Copied {
    /// Whether this is a row that an earlier reading could not read.
    fn is_bad(&self, keyset: &[u8], item: Option<&[u8]>) -> bool {
        !self.bad.is_empty() && self.bad.contains(&BadItem::new(keyset, item))
    }
}

fn reading(mark: &Mark) -> Reading {
    Reading {
        watermark: mark.encode(),
        total: mark.members,
        unservable: mark.unservable.clone(),
    }
}

/// The state of the server and the table at this moment.
fn state(session: &mut Session<'_>, schema: &Schema, notes: &Notes) -> Result<State, SourceError> {
    let doing = "reading the snapshot";
    let table = notes.table.name;
    let sql = format!(
        "SELECT (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()),
             extract(epoch FROM pg_catalog.pg_postmaster_start_time()),
             pg_catalog.to_regclass('{table}')::pg_catalog.oid,
             pg_catalog.pg_current_snapshot(),
             pg_catalog.has_function_privilege('pg_catalog.pg_control_system()', 'EXECUTE')"
    );
    let row = session.rows(doing, &sql)?.into_iter().next();
    let mut values = row
        .unwrap_or_default()
        .into_iter()
        .map(Option::unwrap_or_default);
    let mut next = || values.next().unwrap_or_default();
    let (database, started, relation, snapshot) = (next(), next(), next(), next());
    let system = match next() == "t" {
        true => {
            let sql = "SELECT system_identifier FROM pg_catalog.pg_control_system()";
            Some(session.value(doing, sql)?)
        }
        false => None,
    };
    let snapshot = Snapshot::parse(&snapshot)
        .ok_or_else(|| SourceError::Other(format!("invalid snapshot `{snapshot}`").into()))?;
    Ok(State {
        mint: schema.mint.to_string(),
        table: table.to_owned(),
        system,
        started,
        database,
        relation,
        snapshot,
    })
}

/// Prevents truncating or rewriting of the table until the transaction ends.
fn lock(session: &mut Session<'_>, notes: &Notes) -> Result<(), SourceError> {
    let (table, item) = (notes.table.name, notes.item);
    session.rows(
        "locking the table",
        &format!("SELECT {item} FROM {table} LIMIT 0"),
    )?;
    Ok(())
}

/// Counts all members. All of their keysets can be served.
///
/// Not grouping the rows by keyset makes this twice as fast.
fn count(session: &mut Session<'_>, notes: &Notes) -> Result<Counted, SourceError> {
    let (table, member) = (notes.table.name, notes.member);
    let sql = format!("SELECT count(*) FROM {table} WHERE ({member})");
    let members = session.value(COUNTING, &sql)?;
    Ok((members.parse().map_err(|_| no_count())?, vec![]))
}

fn count_by_keyset(session: &mut Session<'_>, notes: &Notes) -> Result<Counted, SourceError> {
    let (table, keyset, member) = (notes.table.name, notes.keyset, notes.member);
    let sql = format!("SELECT {keyset}, count(*) FROM {table} WHERE ({member}) GROUP BY {keyset}");
    let (mut members, mut unservable) = Counted::default();
    for row in session.rows(COUNTING, &sql)? {
        let mut row = row.into_iter();
        let id = row.next().flatten().unwrap_or_default();
        let notes = row.next().flatten().and_then(|count| count.parse().ok());
        let notes: u64 = notes.ok_or_else(no_count)?;
        if KeysetId::parse(&id).is_ok() {
            members += notes;
        } else if unservable.len() < MAX_UNSERVABLE {
            unservable.push(id.chars().take(MAX_ID_CHARS).collect());
        }
    }
    unservable.sort();
    Ok((members, unservable))
}

const COUNTING: &str = "counting notes";

fn no_count() -> SourceError {
    SourceError::Other("missing row count".into())
}

/// The oid of a table that this transaction has read, and thereby locked.
///
/// `TRUNCATE` and rewriting commands ignore snapshots. If one ran after the transaction's snapshot and before its
/// lock, the transaction would see an empty table, a state that never existed. The comparison detects this: the
/// snapshot shows the old file of the table, and the function returns its current file.
pub(super) fn relation_if_unchanged(
    session: &mut Session<'_>,
    table: &'static str,
) -> Result<String, SourceError> {
    let sql = format!(
        "SELECT c.oid FROM pg_catalog.pg_class c
         WHERE c.oid = pg_catalog.to_regclass('{table}')
           AND c.relfilenode = pg_catalog.pg_relation_filenode(c.oid)"
    );
    let relation = session.value("looking for changes", &sql)?;
    match relation.is_empty() {
        true => Err(SourceError::Rewritten(table)),
        false => Ok(relation),
    }
}

/// Adds the item of a row, or returns what is wrong with it.
fn push(batch: &mut ItemBatch, notes: &Notes, item: Option<&[u8]>) -> Result<(), RowFault> {
    match item {
        None => Err(RowFault::WrongType {
            found: "null",
            expected: if notes.hex { "hex text" } else { "bytes" },
        }),
        Some(stored) => notes.push(batch, stored),
    }
}
