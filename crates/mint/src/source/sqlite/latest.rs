//! The rows that began to count last, by the mint's own clock.

use super::progress::NEWEST;

/// The number of rows that are kept before the latest of them are selected.
const ROOM: usize = 16 * NEWEST;

/// The row ids of the latest rows seen.
///
/// # Cost
///
/// A few nanoseconds per row, also if the rows are in the order of their times, so that each is later than all before.
#[derive(Default)]
pub(super) struct Latest {
    /// Times and row ids.
    rows: Vec<(i64, i64)>,
    /// Rows that are not later are of no interest.
    floor: Option<(i64, i64)>,
}

impl Latest {
    pub(super) fn see(&mut self, time: i64, rowid: i64) {
        if self.floor < Some((time, rowid)) {
            self.rows.push((time, rowid));
            if self.rows.len() == ROOM {
                self.select();
            }
        }
    }

    /// Keeps the latest rows.
    fn select(&mut self) {
        if let Some(earlier) = self.rows.len().checked_sub(NEWEST + 1) {
            let (_, &mut floor, _) = self.rows.select_nth_unstable(earlier);
            self.floor = Some(floor);
            self.rows.drain(..=earlier);
        }
    }

    /// Adds the rows of another part of the table.
    pub(super) fn merge(&mut self, other: Self) {
        for (time, rowid) in other.into_rows() {
            self.see(time, rowid);
        }
    }

    /// Times and row ids, in any order.
    pub(super) fn into_rows(mut self) -> impl Iterator<Item = (i64, i64)> {
        self.select();
        self.rows.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latest_rows_are_kept_in_any_order() {
        for rows in [1, 64, 65, 97, 1024, 5003] {
            for step in [1, 7, 31, rows - 1] {
                let mut latest = Latest::default();
                (0..rows).for_each(|n| latest.see(n * step % rows, n));
                let mut found: Vec<(i64, i64)> = latest.into_rows().collect();
                found.sort_unstable();
                let mut expected: Vec<_> = (0..rows).map(|n| (n * step % rows, n)).collect();
                expected.sort_unstable();
                let first = expected.len().saturating_sub(NEWEST);
                assert_eq!(found, expected[first..], "{rows} rows, step {step}");
            }
        }
    }
}
