//! Whether a table is still the same one, on the same server, so that new rows can be told by their transactions.

use super::session::Session;
use crate::source::Result;
use crate::source::schema::Notes;

/// The most transactions between two readings for which ids can be compared. They have 32 bits and wrap.
const MAX_DISTANCE: u64 = 1 << 30;

/// A state of the table.
#[derive(Debug)]
pub(super) struct Mark {
    /// Equal within one continuous history of transaction ids and of the table.
    state: Vec<String>,
    /// Every transaction below had ended, and what it wrote was read.
    pub(super) oldest: u64,
    /// The first id that was not given out yet.
    next: u64,
}

impl Mark {
    /// The present state; `None` if the table is not a plain one, or the server does not tell something.
    ///
    /// The state says that this is the same server process without a crash inside (recovery resets these statistics, and
    /// gives ids that were not flushed out again), the same database, the same plain heap table without children, and the
    /// same columns (a default that is added later changes rows without rewriting them).
    pub(super) fn now(session: &mut Session<'_>, notes: &Notes) -> Result<Option<Self>> {
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
    pub(super) fn holds(&self, now: &Self) -> bool {
        let distance = now.next.checked_sub(self.oldest);
        self.state == now.state && distance.is_some_and(|distance| distance < MAX_DISTANCE)
    }
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
