//! What a statement proves about itself, and whether new rows can be told by their transactions since the last one.

use std::collections::VecDeque;

use super::session::{START, Session};
use crate::source::schema::NoteTable;
use crate::source::{Result, SourceError};

/// The most transactions between two readings for which ids can be compared. They have 32 bits and wrap.
const MAX_DISTANCE: u64 = 1 << 30;

/// The most transactions whose rows a mark remembers. A row that was there already when a machine was saved may be changed
/// again by a transaction of the same id. So many in a row are not.
const MAX_NEWEST: usize = 16;

/// Where, when and of what a statement read. Facts of another statement may come from another server.
#[derive(Debug)]
pub(super) struct Proof {
    is_standby: bool,
    /// Whether another server fills the table or a child of it.
    is_subscriber: bool,
    /// The earlier one of the server's times when transaction and statement began, in Unix seconds.
    pub(super) date: u64,
    /// Every transaction below had ended, and what it wrote was read.
    oldest: u64,
    /// The first id that was not given out yet.
    next: u64,
    /// Whether the mark's newest rows are there.
    has_newest: bool,
    /// Start of the server, backend, start of the transaction and oid of the table: equal for all statements of one reading.
    pub(super) place: [Option<String>; 4],
    /// Equal within one continuous history of transaction ids and of the table; incomplete if that cannot be told.
    ///
    /// It says that this is the same server process without a crash inside (recovery resets these statistics, and gives ids
    /// that were not flushed out again), the same database, the same plain heap table without children and
    /// virtual columns, and the same columns (a default that is added later changes rows without rewriting them, and so does the
    /// expression of a virtual column).
    state: [Option<String>; 5],
}

impl Proof {
    /// SQL for a proof as text.
    pub(super) fn sql(notes: &NoteTable, mark: Option<&PostgresMark>) -> String {
        let table = notes.table.name;
        let is_there = |Newest { item, xid }: &Newest| {
            let (column, xid) = (notes.item, xid % (1 << 32));
            let item = format!("'\\x{}'", const_hex::encode(item));
            let item = match notes.hex {
                true => format!("pg_catalog.convert_from({item}, 'UTF8')"),
                false => item,
            };
            format!("EXISTS (SELECT FROM {table} WHERE {column} = {item} AND xmin = '{xid}')")
        };
        let has_newest = mark.map_or("false".to_owned(), |mark| {
            mark.newest.iter().map(is_there).collect::<Vec<_>>().join(" AND ")
        });
        format!(
            "(SELECT pg_catalog.to_json(ARRAY[
                 pg_catalog.pg_is_in_recovery()::text,
                 EXISTS (WITH RECURSIVE filled(oid) AS (
                     SELECT srrelid FROM pg_catalog.pg_subscription_rel
                     UNION ALL SELECT ftrelid FROM pg_catalog.pg_foreign_table
                     UNION SELECT inhparent FROM pg_catalog.pg_inherits JOIN filled ON inhrelid = oid)
                     SELECT FROM filled WHERE oid = t.oid)::text,
                 pg_catalog.floor(pg_catalog.date_part('epoch',
                     LEAST(pg_catalog.now(), pg_catalog.statement_timestamp())))::bigint::text,
                 pg_catalog.pg_snapshot_xmin(s)::text, pg_catalog.pg_snapshot_xmax(s)::text, ({has_newest})::text,
                 {START}, pg_catalog.pg_backend_pid()::text, pg_catalog.now()::text,
                 t.oid::text,
                 (SELECT stats_reset FROM pg_catalog.pg_stat_bgwriter)::text,
                 (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())::text,
                 (SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_am a ON a.oid = c.relam
                  WHERE c.oid = t.oid AND c.relkind = 'r' AND a.amname = 'heap' AND NOT c.relhassubclass AND NOT EXISTS (
                      SELECT FROM pg_catalog.pg_attribute WHERE attrelid = t.oid AND attgenerated = 'v'))::text,
                 (SELECT pg_catalog.array_agg((attnum, atttypid, attmissingval::text)::text ORDER BY attnum)
                  FROM pg_catalog.pg_attribute WHERE attrelid = t.oid AND attnum > 0)::text])::text
             FROM pg_catalog.pg_current_snapshot() s, (SELECT pg_catalog.to_regclass('{table}')::oid AS oid) t)"
        )
    }

    /// `None` if the text is not a proof.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let fields: Vec<Option<String>> = serde_json::from_slice(text).ok()?;
        let [
            standby,
            subscriber,
            date,
            oldest,
            next,
            newest,
            start,
            backend,
            begun,
            table,
            rest @ ..,
        ] = <[_; 14]>::try_from(fields).ok()?;
        let [reset, database, plain, columns] = rest;
        let number = |field: Option<String>| field?.parse().ok();
        let is = |field: Option<String>| Some(field? == "true");
        Some(Self {
            is_standby: is(standby)?,
            is_subscriber: is(subscriber)?,
            date: number(date)?,
            oldest: number(oldest)?,
            next: number(next)?,
            has_newest: is(newest)?,
            state: [start.clone(), reset, database, plain, columns],
            place: [start, backend, begun, table],
        })
    }

    /// Whether the rows of this statement are those of the mint's own server, and of the transaction that has the lock.
    pub(super) fn verify(
        &self,
        session: &Session<'_>,
        lock: &Self,
        notes: &NoteTable,
    ) -> Result<()> {
        let (url, table) = (session.url(), notes.table.name);
        let refused = |reason: &str| Err(SourceError::schema(url, reason));
        if self.is_standby {
            return refused(super::session::STANDBY);
        }
        if self.is_subscriber {
            return refused(&format!(
                "table `{table}`, or a child of it, is a replica that a subscription fills, or on another server, so that its \
                 notes may be older than the mint's; give the address of the mint's own server"
            ));
        }
        let is_chosen = session.start().is_none_or(|start| self.place[0].as_deref() == Some(start));
        if self.place != lock.place || !is_chosen {
            return refused(
                "the statements of one reading were sent to several servers or sessions; give the address of the primary \
                 itself, not that of a program that routes statements",
            );
        }
        Ok(())
    }
}

/// A row that counts.
#[derive(Clone, Debug, Default)]
struct Newest {
    item: Vec<u8>,
    /// The transaction that wrote it.
    xid: u64,
}

/// Finds the newest ones of the rows that are read, one for each transaction.
pub(super) struct Newer {
    /// An id that is not older than nearly all of them.
    near: u64,
    /// In the order of transactions.
    newest: VecDeque<Newest>,
}

impl Newer {
    /// Those of the mark are still there.
    pub(super) fn than(lock: &Proof, mark: Option<&PostgresMark>) -> Self {
        let newest = mark.map_or_else(VecDeque::new, |mark| mark.newest.clone());
        Self { near: lock.next, newest }
    }

    pub(super) fn row(&mut self, item: &[u8], xid: u32) {
        // A row that was frozen two billion transactions ago seems to be of a later one.
        const LATER: i32 = 1 << 20;
        let ahead = xid.wrapping_sub(self.near as u32).cast_signed();
        let xid = self.near.saturating_add_signed(ahead.into());
        let is_full = self.newest.len() == MAX_NEWEST;
        let place = match self.newest.binary_search_by_key(&xid, |one| one.xid) {
            Err(place) if ahead < LATER && (place > 0 || !is_full) => place,
            _ => return,
        };
        let oldest = if is_full { self.newest.pop_front() } else { None };
        let mut one = oldest.unwrap_or_default();
        one.xid = xid;
        one.item.clear();
        one.item.extend_from_slice(item);
        self.newest.insert(place - usize::from(is_full), one);
    }
}

/// What a reading leaves for the next one.
#[derive(Debug)]
pub(super) struct PostgresMark {
    state: [String; 5],
    oldest: u64,
    next: u64,
    /// A machine that is put back together with its memory gives ids out again, in the same state. If these rows are there
    /// all the same, that was after their commits.
    newest: VecDeque<Newest>,
    /// What could still become new then, even if it had ended otherwise since: the oldest transaction that ran at the last
    /// reading that did not see the newest row, or that of the first one of these rows, so that all between them is read again.
    from: u64,
}

impl PostgresMark {
    /// The mark after a reading; `before` is that of the reading before, if it holds. Otherwise the reason.
    pub(super) fn after(
        proof: Proof,
        before: Option<Self>,
        newer: Newer,
    ) -> Result<Self, &'static str> {
        let Proof { oldest, next, state, .. } = proof;
        let [Some(a), Some(b), Some(c), Some(d), Some(e)] = state else {
            return Err("no plain table");
        };
        let mut newest = newer.newest;
        newest.retain(|one| 0 < one.xid && one.xid < next);
        let (Some(first), Some(last)) = (newest.front(), newest.back()) else {
            return Err("no notes");
        };
        let from = match before {
            Some(before) if last.xid >= before.next => before.oldest,
            Some(before) => before.from,
            None => last.xid + 1,
        };
        // While there are fewer, a machine may have been put back to before all of them.
        let is_full = newest.len() == MAX_NEWEST;
        let from = if is_full { from.min(first.xid) } else { 0 };
        // Not too far back, if the mint rests and others do not.
        let from = from.max(next.saturating_sub(MAX_DISTANCE / 2)).min(oldest);
        Ok(Self { state: [a, b, c, d, e], oldest, next, newest, from })
    }

    /// Why ids of transactions do not say what is new since this mark.
    pub(super) fn broken(&self, now: &Proof) -> Option<&'static str> {
        let same = |field: usize| now.state[field].as_ref() == Some(&self.state[field]);
        let distance = now.next.checked_sub(self.from);
        if !same(0) || !same(1) {
            Some("server restarted")
        } else if !(2..5).all(same) {
            Some("table changed")
        } else if !now.has_newest || now.next < self.next {
            Some("newest row gone")
        } else if distance.is_none_or(|distance| distance >= MAX_DISTANCE) {
            Some("ids too far apart")
        } else {
            None
        }
    }

    /// SQL that is true for rows that can be new: not what the mark's snapshot did not see, as that does not list running
    /// subtransactions.
    pub(super) fn is_new(&self) -> String {
        let from = self.from % (1 << 32);
        format!("pg_catalog.age(xmin) <= (SELECT pg_catalog.age('{from}'::pg_catalog.xid))")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proof(oldest: u64, next: u64) -> Proof {
        let some = || Some(String::new());
        Proof {
            is_standby: false,
            is_subscriber: false,
            date: 0,
            oldest,
            next,
            has_newest: true,
            place: [some(), some(), some(), some()],
            state: [some(), some(), some(), some(), some()],
        }
    }

    /// The mark after a reading of one row, and the id of the newest row that it has.
    fn mark(oldest: u64, next: u64, before: Option<PostgresMark>, xid: u32) -> PostgresMark {
        let mut newer = Newer::than(&proof(oldest, next), before.as_ref());
        newer.row(b"\x02", xid);
        PostgresMark::after(proof(oldest, next), before, newer).unwrap()
    }

    fn ids(mark: &PostgresMark) -> Vec<u64> {
        mark.newest.iter().map(|one| one.xid).collect()
    }

    #[test]
    fn mark_holds_while_ids_can_be_compared() {
        let mark = mark(800, 900, None, 799);
        let holds = |next| mark.broken(&proof(800, next)).is_none();
        assert!(holds(900) && holds(MAX_DISTANCE - 1));
        assert!(!holds(899) && !holds(MAX_DISTANCE));
        let gone = Proof { has_newest: false, ..proof(800, 900) };
        assert_eq!(mark.broken(&gone), Some("newest row gone"));
    }

    #[test]
    fn rows_are_new_since_the_reading_before_the_newest_row() {
        let first = mark(800, 900, None, 700);
        // A mint without a note may have been put back.
        assert_eq!((ids(&first), first.from), (vec![700], 0));
        let second = mark(850, 950, Some(first), 899);
        assert_eq!((ids(&second), second.from), (vec![700, 899], 0));
        let far = mark(900, 3 << 30, Some(second), 4);
        assert_eq!((ids(&far), far.from), (vec![700, 899], 900));
        // Frozen before ids wrapped.
        let wrapped = PostgresMark::after(proof(9, 9), None, {
            let mut newer = Newer::than(&proof(9, 9), None);
            newer.row(b"\x02", 1 << 30);
            newer
        });
        assert_eq!(wrapped.unwrap_err(), "no notes");
    }

    #[test]
    fn all_between_the_newest_rows_is_read_again() {
        let mut last = mark(100, 101, None, 100);
        for xid in 101..140 {
            last = mark(u64::from(xid), u64::from(xid) + 1, Some(last), xid);
        }
        let newest: Vec<u64> = (124..140).collect();
        assert_eq!((ids(&last), last.from), (newest.clone(), 124));
        // Other rows of the same transactions, and older ones, change nothing.
        for xid in [130, 139, 99] {
            last = mark(140, 141, Some(last), xid);
        }
        assert_eq!((ids(&last), last.from), (newest, 124));
        // A row that was not there at the reading before may have been written by any transaction that ran then.
        last = mark(150, 200, Some(last), 199);
        last = mark(210, 220, Some(last), 219);
        assert_eq!(last.from, 126);
        let old = mark(120, 300, Some(last), 299);
        assert_eq!(mark(299, 400, Some(old), 350).from, 120);
    }
}
