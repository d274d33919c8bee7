//! The rows that began to count last, by the mint's own clock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::progress::NEWEST;

/// The row ids of the latest rows seen.
///
/// # Cost
///
/// About 20 ns per row if the rows are in the order of their times, because each row then replaces another.
#[derive(Default)]
pub(super) struct Latest {
    /// Time and row id, with the earliest on top.
    rows: BinaryHeap<Reverse<(i64, i64)>>,
}

impl Latest {
    pub(super) fn see(&mut self, time: i64, rowid: i64) {
        let row = Reverse((time, rowid));
        if self.rows.len() < NEWEST {
            self.rows.push(row);
        } else if let Some(mut earliest) = self.rows.peek_mut()
            && row < *earliest
        {
            *earliest = row;
        }
    }

    /// Adds the rows of another part of the table.
    pub(super) fn merge(&mut self, other: Self) {
        for (time, rowid) in other.into_rows() {
            self.see(time, rowid);
        }
    }

    /// Times and row ids, in any order.
    pub(super) fn into_rows(self) -> impl Iterator<Item = (i64, i64)> {
        self.rows.into_iter().map(|Reverse(row)| row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latest_rows_are_kept_in_any_order() {
        for step in [1, 7, 31, 96] {
            let mut latest = Latest::default();
            (0..97).for_each(|n| latest.see(n * step % 97, n));
            let mut times: Vec<i64> = latest.into_rows().map(|(time, _)| time).collect();
            times.sort_unstable();
            let expected: Vec<i64> = (97 - NEWEST as i64..97).collect();
            assert_eq!(times, expected);
        }
    }
}
