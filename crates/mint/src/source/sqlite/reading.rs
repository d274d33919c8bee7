//! One reading of a table of notes: all rows, or only those added since an earlier reading.
//!
//! All four tables are alike. A row names its keyset, holds an item that is unique in the table, and counts or does
//! not count yet. A mint adds rows, lets pending rows count, and deletes rows that do not count. After a keyset's
//! expiry it may delete other rows too.
//!
//! SQLite gives a new row an id above all existing ones. So as long as the counted row with the highest id still
//! exists, every row with a lower id existed at that time too. Such a row was counted, or is remembered as pending.
//! All other rows have higher ids, and are read.
//!
//! An operator who restores a backup breaks these rules. `docs/decisions/0014` describes what is detected and what
//! is not.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, Statement, Transaction};

use super::latest::Latest;
use super::progress::{Item, MAX_BAD, NEWEST, Progress};
use super::readers::Readers;
use super::totals::{check_totals, keyset_of};
use super::{push, sqlite_error};
use crate::source::by_keyset::ByKeyset;
use crate::source::schema::{self, Notes, Totals};
use crate::source::{ItemSink, Reading, SourceError};
use crate::{KeysetId, NoteKind};

/// Selected instead of the amount if no one needs it.
pub(super) const NO_AMOUNT: &str = "0";

/// Selected instead of the time column.
const NO_TIME: &str = "NULL";

/// How often several connections are tried to be brought to the same state of the database.
const ATTEMPTS: u32 = 8;

/// The table to read, and how to read it.
pub(super) struct Table<'a> {
    pub(super) connection: &'a Connection,
    pub(super) path: &'a Path,
    pub(super) mint: &'static str,
    pub(super) notes: &'static Notes,
    pub(super) kind: NoteKind,
    /// Whether the mint's own totals are considered useful.
    pub(super) compare_totals: bool,
    /// Whether the rows are counted in any case.
    pub(super) verify: bool,
    /// Identity of the database, if it can be told.
    pub(super) identity: Option<&'a str>,
}

/// Part of a table: the first and the last row id.
pub(super) type Range = (i64, i64);

/// Why a reading failed.
pub(super) enum Failure {
    /// Only the mint's totals contradict the result.
    Totals(SourceError),
    Other(SourceError),
}

impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Self {
        Failure::Other(error)
    }
}

/// The rows read so far.
pub(super) struct Taken<'s> {
    pub(super) by_keyset: ByKeyset<'s>,
    pub(super) bad: Vec<(i64, String)>,
    /// The column with a row's amount, if the sums will be needed.
    amount: &'static str,
    /// The column with the time at which a row began to count.
    pub(super) since: &'static str,
    pub(super) latest: Latest,
    /// The sum of the amounts per keyset.
    sums: BTreeMap<KeysetId, i64>,
}

impl<'s> Taken<'s> {
    pub(super) fn new(
        sink: &'s mut dyn ItemSink,
        amount: &'static str,
        since: &'static str,
    ) -> Self {
        Self {
            by_keyset: ByKeyset::new(sink),
            bad: vec![],
            amount,
            since,
            latest: Latest::default(),
            sums: BTreeMap::new(),
        }
    }
}

impl Table<'_> {
    /// Reads the rows added since `before`, or all rows. All rows are read by `readers`, if there are any.
    pub(super) fn read(
        &self,
        before: Option<Progress>,
        mut readers: Option<Readers>,
        sink: &mut dyn ItemSink,
    ) -> Result<Reading, Failure> {
        // One transaction, so that all statements see one state. Dropping it ends it.
        let _transaction = self.begin(&mut readers)?;
        let totals = match self.compare_totals {
            true => self.notes.totals(self.connection, self.path)?,
            false => None,
        };
        let whole = before.is_none();
        let mut progress = before.unwrap_or_else(|| Progress::of(self.mint, self.notes.table.name));
        let totals_now = totals.map(|totals| self.totals(totals)).transpose()?;
        let totals_before = core::mem::replace(&mut progress.totals, totals_now);
        let amount = match (totals, &totals_before) {
            (Some(totals), Some(_)) => totals.amount,
            _ => NO_AMOUNT,
        };
        let since = self.notes.since(self.connection, self.path)?;
        let mut taken = Taken::new(sink, amount, since);
        if !whole {
            self.check_anchors(&progress)?;
            self.check_flipped(&progress)?;
            self.check_bad(&progress, &mut taken)?;
            self.take_flipped(&mut progress, &mut taken)?;
        }
        let forgotten = match readers {
            Some(readers) => readers.take_all(self, &mut progress, &mut taken)?,
            None => self.take_new(&mut progress, &mut taken)?,
        };
        let Taken {
            by_keyset,
            bad,
            latest,
            sums,
            ..
        } = taken;
        let gathered = by_keyset.finish()?;
        progress.members += gathered.items;
        progress.bad = bad;
        // If the mint only continued the database, every new row is found without a count. If the database was
        // replaced, rows may be back that were already forgotten.
        let is_same = self.identity.is_some() && progress.identity.as_deref() == self.identity;
        if !whole && (self.verify || !is_same) {
            let pending = progress.pending.len() as u64 + forgotten;
            let known = progress.members + progress.bad.len() as u64 + progress.unservable;
            self.check_count(known + pending)?;
        }
        progress.identity = self.identity.map(str::to_owned);
        if let (Some(before), Some(now)) = (&totals_before, &progress.totals) {
            check_totals(before, now, &sums).map_err(Failure::Totals)?;
        }
        for id in gathered.unservable {
            if !progress.unservable_ids.contains(&id) {
                progress.unservable_ids.push(id);
            }
        }
        let mut reading = Reading::whole(progress.members);
        reading.unservable.clone_from(&progress.unservable_ids);
        if forgotten > 0 {
            tracing::warn!(
                table = self.notes.table.name,
                pending = progress.pending.len() as u64 + forgotten,
                forgotten,
                "too many pending rows to track; the next refresh rereads the full table"
            );
        } else if progress.bad.len() <= MAX_BAD
            && let Some(anchors) = self.anchors(&progress.bad)?
        {
            progress.anchors = anchors;
            progress.trim_flipped();
            self.add_latest(&mut progress, latest)?;
            reading.watermark = progress.watermark();
        }
        Ok(reading)
    }

    /// Begins a transaction, and one of each reader in the same state. Without such a state there are no readers.
    fn begin(&self, readers: &mut Option<Readers>) -> Result<Transaction<'_>, SourceError> {
        for _ in 0..ATTEMPTS {
            let transaction = self.connection.unchecked_transaction();
            let transaction = transaction.map_err(self.failed())?;
            let Some(others) = readers else {
                return Ok(transaction);
            };
            if others.begin_with(&transaction).map_err(self.failed())? {
                return Ok(transaction);
            }
        }
        // The mint commits all the time.
        *readers = None;
        let transaction = self.connection.unchecked_transaction();
        transaction.map_err(self.failed())
    }

    /// Checks that the rows that counted and had the highest ids are unchanged. Then no relevant row was
    /// renumbered, and all new rows are above the highest of them.
    fn check_anchors(&self, progress: &Progress) -> Result<(), SourceError> {
        let mut look_up = self.look_up(NO_AMOUNT, NO_TIME)?;
        for (rowid, item) in &progress.anchors {
            let mut rows = look_up.query([item]).map_err(self.failed())?;
            let reason = match rows.next().map_err(self.failed())? {
                None => "is gone",
                Some(row) if row.get::<_, i64>(0).map_err(self.failed())? != *rowid => {
                    "has another id"
                }
                Some(row) if !self.counts(row)? => "no longer counts",
                Some(_) => continue,
            };
            return Err(SourceError::rescan(format!(
                "row {rowid} of `{}` {reason}",
                self.notes.table.name
            )));
        }
        Ok(())
    }

    /// Checks that rows which began to count late, and the rows with the latest times, still count.
    fn check_flipped(&self, progress: &Progress) -> Result<(), SourceError> {
        let mut look_up = self.look_up(NO_AMOUNT, NO_TIME)?;
        let latest = progress.latest.iter().map(|(_, item)| item);
        for item in progress.flipped.iter().chain(latest) {
            let mut rows = look_up.query([item]).map_err(self.failed())?;
            let reason = match rows.next().map_err(self.failed())? {
                None => "is gone",
                Some(row) if !self.counts(row)? => "no longer counts",
                Some(_) => continue,
            };
            return Err(SourceError::rescan(format!(
                "a recently counted row of `{}` {reason}",
                self.notes.table.name
            )));
        }
        Ok(())
    }

    /// Checks that the rows which could not be read are still there and still cannot be read, and reports them again.
    fn check_bad(&self, progress: &Progress, taken: &mut Taken<'_>) -> Result<(), SourceError> {
        let mut look_up = self.select(NO_AMOUNT, NO_TIME, "WHERE rowid = ?1")?;
        for (number, (rowid, keyset)) in progress.bad.iter().enumerate() {
            let mut rows = look_up.query([rowid]).map_err(self.failed())?;
            let reason = match rows.next().map_err(self.failed())? {
                None => "is gone",
                Some(row) if !self.counts(row)? => "no longer counts",
                Some(row) => {
                    let id = row.get_ref(1).map_err(self.failed())?;
                    self.add_item(row, id.as_bytes().unwrap_or_default(), taken)?;
                    match taken.bad.get(number).map(|(_, keyset)| keyset) == Some(keyset) {
                        true => continue,
                        false => "was changed",
                    }
                }
            };
            let table = self.notes.table.name;
            return Err(SourceError::rescan(format!(
                "unreadable row {rowid} of `{table}` {reason}"
            )));
        }
        Ok(())
    }

    /// Takes the pending rows that count now.
    fn take_flipped(
        &self,
        progress: &mut Progress,
        taken: &mut Taken<'_>,
    ) -> Result<(), SourceError> {
        let pending = core::mem::take(&mut progress.pending);
        let Some(last) = progress.last() else {
            // All rows will be read again.
            return Ok(());
        };
        let mut by_item = self.look_up(taken.amount, taken.since)?;
        let mut by_row = self.select(taken.amount, taken.since, "WHERE rowid = ?1")?;
        for item in pending {
            let look_up = match item {
                Item::Row(_) => &mut by_row,
                _ => &mut by_item,
            };
            let mut rows = look_up.query([&item]).map_err(self.failed())?;
            // The row was deleted, so it is forgotten.
            let Some(row) = rows.next().map_err(self.failed())? else {
                continue;
            };
            // A row above the last one was there before, or was deleted and added again. It will be read with the
            // new rows.
            if row.get::<_, i64>(0).map_err(self.failed())? > last {
                continue;
            }
            if self.counts(row)? {
                self.take(row, progress, taken)?;
                // One that still has none is unreadable, and recognized by its row id.
                if let Some(item) = Item::of(row.get_ref(2).map_err(self.failed())?) {
                    progress.add_flipped(item);
                }
            } else {
                progress.pending.push(item);
            }
        }
        Ok(())
    }

    /// Takes the rows above the last counted row. Returns the number of rows that do not count and could not be
    /// remembered.
    fn take_new(&self, progress: &mut Progress, taken: &mut Taken<'_>) -> Result<u64, SourceError> {
        let first = match progress.last() {
            None => i64::MIN,
            // There are no higher ids, and SQLite would look for free ones below.
            Some(i64::MAX) => {
                return Err(SourceError::rescan("a row has the highest possible rowid"));
            }
            Some(last) => last + 1,
        };
        self.take_range((first, i64::MAX), progress, taken)
    }

    /// Takes the rows of a range. Returns the number of rows that do not count and could not be remembered.
    pub(super) fn take_range(
        &self,
        (first, last): Range,
        progress: &mut Progress,
        taken: &mut Taken<'_>,
    ) -> Result<u64, SourceError> {
        let mut forgotten = 0;
        // Reading in row order is the fastest and needs no sort, whatever indexes exist.
        let mut statement = self.select(
            taken.amount,
            taken.since,
            "NOT INDEXED WHERE rowid BETWEEN ?1 AND ?2 ORDER BY rowid",
        )?;
        let mut rows = statement.query([first, last]).map_err(self.failed())?;
        while let Some(row) = rows.next().map_err(self.failed())? {
            if self.counts(row)? {
                self.take(row, progress, taken)?;
                continue;
            }
            let item = Item::of(row.get_ref(2).map_err(self.failed())?);
            let item = match item {
                Some(item) => item,
                None => Item::Row(row.get(0).map_err(self.failed())?),
            };
            forgotten += u64::from(!progress.remember(item));
        }
        Ok(forgotten)
    }

    fn take(
        &self,
        row: &Row<'_>,
        progress: &mut Progress,
        taken: &mut Taken<'_>,
    ) -> Result<(), SourceError> {
        let value = |column| row.get_ref(column).map_err(self.failed());
        let id = value(1)?.as_bytes().unwrap_or_default();
        progress.unservable += u64::from(!self.add_item(row, id, taken)?);
        if taken.since != NO_TIME
            && let ValueRef::Integer(time) = value(5)?
            && let ValueRef::Integer(rowid) = value(0)?
        {
            taken.latest.see(time, rowid);
        }
        if taken.amount != NO_AMOUNT
            && let ValueRef::Integer(amount) = value(4)?
            && let Some(keyset) = keyset_of(id)
        {
            let sum = taken.sums.entry(keyset).or_default();
            *sum = sum.wrapping_add(amount);
        }
        Ok(())
    }

    /// Passes on the item of a row, or its fault. Returns whether the keyset can be served.
    fn add_item(
        &self,
        row: &Row<'_>,
        id: &[u8],
        taken: &mut Taken<'_>,
    ) -> Result<bool, SourceError> {
        let item = row.get_ref(2).map_err(self.failed())?;
        let rowid = || row.get(0).unwrap_or(0);
        let mut is_bad = false;
        let is_served = taken.by_keyset.row(
            id,
            |batch| push(batch, self.notes, item),
            |keyset, fault| {
                is_bad = true;
                self.notes.bad_row(keyset, self.kind, rowid(), fault)
            },
        )?;
        if is_bad {
            taken
                .bad
                .push((rowid(), String::from_utf8_lossy(id).into_owned()));
        }
        Ok(is_served)
    }

    /// Checks that the table has as many rows as were found. Then no counted or remembered row is missing, and no
    /// row was left unread.
    fn check_count(&self, expected: u64) -> Result<(), SourceError> {
        let table = self.notes.table.name;
        let count: i64 = self
            .prepare(&format!("SELECT COUNT(*) FROM {table}"))?
            .query_row([], |row| row.get(0))
            .map_err(self.failed())?;
        match u64::try_from(count) {
            Ok(count) if count == expected => Ok(()),
            _ => Err(SourceError::rescan(format!(
                "`{table}` has {count} rows, expected {expected}"
            ))),
        }
    }

    /// The rows by which the next reading recognizes this state; `None` if one of them has no item.
    ///
    /// The search ends when enough rows are found. It skips rows that do not count; all of those were just read. Rows that
    /// cannot be read are recognized by their row ids.
    fn anchors(&self, bad: &[(i64, String)]) -> Result<Option<Vec<(i64, Item)>>, SourceError> {
        let newest = format!(
            "NOT INDEXED WHERE {} ORDER BY rowid DESC LIMIT {}",
            self.notes.member,
            NEWEST + bad.len()
        );
        let mut statement = self.select(NO_AMOUNT, NO_TIME, &newest)?;
        let mut rows = statement.query([]).map_err(self.failed())?;
        let mut anchors = vec![];
        while let Some(row) = rows.next().map_err(self.failed())? {
            let rowid = row.get(0).map_err(self.failed())?;
            if bad.iter().any(|&(bad, _)| bad == rowid) {
                continue;
            }
            // In a keyset that cannot be served, the item can have any type.
            let Some(item) = Item::of(row.get_ref(2).map_err(self.failed())?) else {
                return Ok(None);
            };
            anchors.push((rowid, item));
        }
        Ok(Some(anchors))
    }

    /// Remembers the rows that began to count last. A row without an item cannot be recognized and is skipped.
    fn add_latest(&self, progress: &mut Progress, latest: Latest) -> Result<(), SourceError> {
        let mut statement = self.select(NO_AMOUNT, NO_TIME, "WHERE rowid = ?1")?;
        let mut rows = vec![];
        for (time, rowid) in latest.into_rows() {
            let mut found = statement.query([rowid]).map_err(self.failed())?;
            if let Some(row) = found.next().map_err(self.failed())?
                && let Some(item) = Item::of(row.get_ref(2).map_err(self.failed())?)
            {
                rows.push((time, item));
            }
        }
        progress.add_latest(rows.into_iter());
        Ok(())
    }

    /// The mint's own totals of the amounts per keyset.
    fn totals(&self, totals: &Totals) -> Result<BTreeMap<String, i64>, SourceError> {
        let mut statement = self.prepare(&totals.table.select())?;
        let mut rows = statement.query([]).map_err(self.failed())?;
        let mut found = BTreeMap::new();
        while let Some(row) = rows.next().map_err(self.failed())? {
            let id = row.get_ref(0).map_err(self.failed())?;
            let sum = row.get_ref(1).map_err(self.failed())?;
            if let (ValueRef::Text(id), ValueRef::Integer(sum)) = (id, sum) {
                found.insert(String::from_utf8_lossy(id).into_owned(), sum);
            }
        }
        Ok(found)
    }

    /// Looks up rows by item.
    fn look_up(&self, amount: &str, since: &str) -> Result<Statement<'_>, SourceError> {
        self.select(amount, since, &format!("WHERE {} = ?1", self.notes.item))
    }

    fn select(
        &self,
        amount: &str,
        since: &str,
        of_which: &str,
    ) -> Result<Statement<'_>, SourceError> {
        let Notes {
            keyset,
            item,
            member,
            ..
        } = self.notes;
        let table = self.notes.table.name;
        self.prepare(&format!(
            "SELECT rowid, {keyset}, {item}, {member}, {amount}, {since} FROM {table} {of_which}"
        ))
    }

    fn counts(&self, row: &Row<'_>) -> Result<bool, SourceError> {
        if self.notes.member == schema::EVERY_ROW {
            return Ok(true);
        }
        let value = row.get_ref(3).map_err(self.failed())?;
        Ok(matches!(value, ValueRef::Integer(1)))
    }

    fn prepare(&self, sql: &str) -> Result<Statement<'_>, SourceError> {
        self.connection.prepare(sql).map_err(self.failed())
    }

    fn failed(&self) -> impl Fn(rusqlite::Error) -> SourceError {
        let path = self.path;
        move |source| sqlite_error(path, "reading notes", source)
    }
}
