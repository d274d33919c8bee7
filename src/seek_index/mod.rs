//! [`SeekIndex`]: places in the bits of a filter, by value.
//!
//! A stream of differences can only be decoded from its start, or from a recorded place: a bit position and the
//! value before it. The index records one every few items. A. Langley's article on Golomb-coded sets has 32 such
//! entries per filter; this index supports any number.
//!
//! The places follow the items, so no choice of hashes can put many items between two of them. A span of many bits
//! gets more places, and very long codes are listed with their values and are not decoded again. A look-up
//! therefore decodes at most one interval of items, and at most the bits of about twice as many average items.
//!
//! [`Table`] is the index itself. This module has the public parts: size, the filter it belongs to,
//! serialisation ([`bytes`]), and queries ([`IndexedFilter`]).

mod bytes;
mod indexed;
#[cfg(test)]
mod tests;

use alloc::sync::Arc;
use core::error::Error;
use core::fmt;

use crate::error::{SeekIndexError, SeekIndexFault};
use crate::filter::Filter;
use crate::hash::fingerprint;
use crate::matching::{Table, step};
use crate::params::Params;

pub use indexed::IndexedFilter;

/// The number of items between two entries of an index: smaller is faster and takes more memory.
///
/// | interval | bits per item | for |
/// |---|---|---|
/// | `Items(8)` | 6.3 | batches of targets, where memory matters little |
/// | `Items(16)`, the default | 3.2 | single look-ups and batches |
/// | `Items(64)` | 0.8 | little memory: a look-up takes about twice as long as with 8 |
///
/// It is rounded down to a multiple of 8, and is at least 8. An entry takes 6 bytes, and never stands for less than two
/// bytes of the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexInterval {
    /// At most this number of items (less than 8, including 0, counts as 8). A look-up decodes half of them on average,
    /// and never more.
    Items(u32),
    /// As many items as give about this number of entries in total (0 counts as 1).
    Entries(u32),
}

/// A sampled index over one filter, by value.
///
/// ```
/// use nutfilter::{IndexInterval, Params, SeekIndex, SortedHashes};
///
/// let notes: Vec<[u8; 33]> = (0..1000_u16).map(|i| [i as u8 ^ (i >> 8) as u8 * 7; 33]).collect();
/// let filter = SortedHashes::from_items(&notes).encode(Params::default())?;
/// let index = SeekIndex::build(&filter, IndexInterval::default());
/// let indexed = filter.with_index(&index)?;
/// assert!(indexed.contains(&notes[500]));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeekIndex {
    filter: Identity,
    /// Shared with every [`IndexedFilter`] that uses the index.
    table: Arc<Table>,
}

/// Identifies the filter that an index belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    n: u32,
    params: Params,
    len: u64,
    fingerprint: u64,
}

impl Identity {
    fn of<D: AsRef<[u8]>, H>(filter: &Filter<D, H>) -> Self {
        Self {
            n: filter.n(),
            params: filter.params(),
            len: filter.bytes().len() as u64,
            fingerprint: fingerprint(filter.bytes()),
        }
    }
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
        Self::Items(16)
    }
}

/// The table of a filter, for an index of this step.
fn table_of<D: AsRef<[u8]>, H>(filter: &Filter<D, H>, interval: IndexInterval) -> Table {
    let step = interval.step(filter.n(), filter.bytes().len() as u64);
    Table::build(&filter.coded(), step)
}

impl SeekIndex {
    /// Builds the index of `filter`.
    ///
    /// The places that decoding records depend on the SIMD level. Two machines may therefore build different indexes
    /// of one filter, with different bytes ([`SeekIndex::to_bytes`]). Each works on any machine, and all give the
    /// same answers.
    ///
    /// # Cost
    ///
    /// One decoding pass, and one pass over the bytes for a fingerprint of the filter ([`Filter::into_indexed`]
    /// needs no fingerprint).
    ///
    /// Memory: about 6 bytes per entry if hashes are uniform, at most 70 if an attacker chose them, and 24 per code
    /// that is longer than two intervals. That is at most 48 times the filter's bytes. Building temporarily takes 16
    /// bytes more per entry.
    #[must_use]
    pub fn build<D: AsRef<[u8]>, H>(filter: &Filter<D, H>, interval: IndexInterval) -> Self {
        Self {
            filter: Identity::of(filter),
            table: Arc::new(table_of(filter, interval)),
        }
    }

    fn check<D: AsRef<[u8]>, H>(&self, filter: &Filter<D, H>) -> Result<(), SeekIndexError> {
        if self.filter == Identity::of(filter) {
            Ok(())
        } else {
            Err(SeekIndexError(SeekIndexFault::OtherFilter))
        }
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.points
    }

    /// Returns whether the index has no entries. Only the index of an empty filter has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.points == 0
    }

    /// The size of the index in memory in bits per item of the filter.
    #[must_use]
    pub fn bits_per_item(&self) -> f64 {
        self.table.size() as f64 * 8.0 / f64::from(self.filter.n.max(1))
    }
}

impl<D: AsRef<[u8]>, H> Filter<D, H> {
    /// Combines a borrowed filter with an index that was built for it.
    ///
    /// # Errors
    ///
    /// The index was built for another filter.
    ///
    /// # Cost
    ///
    /// One pass over the bytes to compare the fingerprints, so call it once and then query often.
    pub fn with_index(&self, index: &SeekIndex) -> Result<IndexedFilter<&[u8], H>, SeekIndexError>
    where
        H: Clone,
    {
        index.check(self)?;
        let filter = self.with_hasher(self.hasher().clone());
        Ok(IndexedFilter::new(filter, index.table.clone()))
    }

    /// Combines the filter with an index that was built for it, in one value that owns both. It can be stored in
    /// a struct and sent to another thread.
    ///
    /// ```
    /// use nutfilter::{Filter, IndexInterval, IndexedFilter, Params, SeekIndex, SortedHashes};
    ///
    /// # let filter = SortedHashes::from_items(["one", "two"]).encode(Params::default())?;
    /// # let stored = SeekIndex::build(&filter, IndexInterval::default()).to_bytes();
    /// let index = SeekIndex::from_bytes(&stored)?; // from a file, for example
    /// let indexed: IndexedFilter = match filter.into_indexed_with(index) {
    ///     Ok(indexed) => indexed,
    ///     Err(mismatch) => mismatch.filter.into_indexed(IndexInterval::default()),
    /// };
    /// assert!(indexed.contains("two"));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The index was built for another filter. The error returns both.
    ///
    /// # Cost
    ///
    /// As [`Filter::with_index`].
    pub fn into_indexed_with(
        self,
        index: SeekIndex,
    ) -> Result<IndexedFilter<D, H>, IndexMismatch<D, H>> {
        match index.check(&self) {
            Ok(()) => Ok(IndexedFilter::new(self, index.table)),
            Err(_) => Err(IndexMismatch {
                filter: self,
                index,
            }),
        }
    }

    /// Builds an index and combines it with the filter.
    ///
    /// ```
    /// use nutfilter::{IndexInterval, Params, SortedHashes};
    ///
    /// let notes = [[2_u8; 33], [3; 33]];
    /// let filter = SortedHashes::from_items(&notes).encode(Params::default())?;
    /// let indexed = filter.into_indexed(IndexInterval::default());
    /// assert_eq!(indexed.matches(&[[3; 33], [4; 33]]), [true, false]);
    /// # Ok::<(), nutfilter::BuildError>(())
    /// ```
    ///
    /// # Cost
    ///
    /// One decoding pass; memory as for [`SeekIndex::build`].
    #[must_use]
    pub fn into_indexed(self, interval: IndexInterval) -> IndexedFilter<D, H> {
        let table = Arc::new(table_of(&self, interval));
        IndexedFilter::new(self, table)
    }
}

/// The error of [`Filter::into_indexed_with`]: the index was built for another filter.
#[derive(Clone, Debug)]
pub struct IndexMismatch<D, H> {
    /// The filter.
    pub filter: Filter<D, H>,
    /// The index of another filter.
    pub index: SeekIndex,
}

impl<D, H> fmt::Display for IndexMismatch<D, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SeekIndexError(SeekIndexFault::OtherFilter).fmt(f)
    }
}

impl<D: fmt::Debug, H: fmt::Debug> Error for IndexMismatch<D, H> {}

impl<D, H> From<IndexMismatch<D, H>> for SeekIndexError {
    fn from(_: IndexMismatch<D, H>) -> Self {
        Self(SeekIndexFault::OtherFilter)
    }
}
