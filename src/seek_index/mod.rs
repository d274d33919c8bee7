//! A sampled index: places in the bits of a filter, by value.
//!
//! A stream of differences can only be decoded from its start, or from a recorded place: a bit position and the
//! value before it. The index divides the range of the values into equal parts, and records the last place before
//! each. A. Langley's article on Golomb-coded sets has 32 such entries per filter; this index supports any number.
//!
//! Hashes that somebody chose can crowd a part. The index then has all places, a few items from each other, and searches
//! them; very long codes are listed with their values and are not decoded again. A look-up therefore decodes at most
//! a few intervals of items, and at most the bits of about twice as many average items.
//!
//! [`PointTable`] is the index itself. This module has the public parts: size and queries ([`IndexedFilter`]).

mod indexed;
#[cfg(test)]
mod tests;

use crate::filter::Filter;
use crate::matching::{PointTable, step};

pub use indexed::IndexedFilter;

/// The number of items between two entries of an index: smaller is faster and takes more memory.
///
/// | interval | bits per item | for |
/// |---|---|---|
/// | `Items(8)`, the default | 9.0 | single look-ups and batches |
/// | `Items(16)` | 4.5 | less memory: batches take half as long again |
/// | `Items(64)` | 1.1 | little memory: single look-ups take about twice as long, batches four times |
///
/// It is rounded down to a multiple of 8, and is at least 8. An entry takes 9 bytes, and never stands for less than two
/// bytes of the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexInterval {
    /// About this number of items (less than 8, including 0, counts as 8). A look-up decodes as many on
    /// average, and at most five times as many and 64.
    Items(u32),
    /// As many items as give about this number of entries in total (0 counts as 1).
    Entries(u32),
}

impl IndexInterval {
    /// The number of items between two entries for a filter of `n` items in `len` bytes.
    fn step(self, n: u32, len: u64) -> u32 {
        let wanted = match self {
            Self::Items(items) => items,
            Self::Entries(entries) => n.div_ceil(entries.max(1)),
        };
        step(n, len, wanted)
    }
}

impl Default for IndexInterval {
    fn default() -> Self {
        Self::Items(8)
    }
}

impl<D: AsRef<[u8]>, H> Filter<D, H> {
    /// Builds a seek index and combines it with the filter. The filter's storage may be borrowed: `&[u8]`.
    ///
    /// ```
    /// use nutfilter::{IndexInterval, Params, SortedHashes};
    ///
    /// let notes = [[2_u8; 33], [3; 33]];
    /// let filter = SortedHashes::from_items(&notes).encode(Params::default())?;
    /// let indexed = filter.into_indexed(IndexInterval::default());
    /// assert!(indexed.contains([3; 33]));
    /// assert_eq!(indexed.matches(&[[3; 33], [4; 33]]), [true, false]);
    /// # Ok::<(), nutfilter::BuildError>(())
    /// ```
    ///
    /// # Cost
    ///
    /// One decoding pass. Memory: 9 bytes per entry; if an attacker chose the hashes 16, and 24 per code that is longer
    /// than two intervals. That is at most 48 times the filter's bytes. Building temporarily takes 16 bytes more per
    /// entry.
    #[must_use]
    pub fn into_indexed(self, interval: IndexInterval) -> IndexedFilter<D, H> {
        let step = interval.step(self.n(), self.bytes().len() as u64);
        let table = PointTable::build(&self.coded(), step);
        IndexedFilter { filter: self, table }
    }
}
