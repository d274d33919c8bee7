//! [`SeekIndex`]: a map from parts of the value range to bit positions.
//!
//! A stream of differences can only be decoded from its start, or from a recorded place: a bit position and the
//! value before it. The index divides the range `[0, F)` into equal parts and records such a place for each. A
//! look-up computes its part from the value (one multiplication, no search) and decodes a few items there. A.
//! Langley's article on Golomb-coded sets has 32 such entries per filter; this index supports any number.
//!
//! The parts have equal range, and uniform hashes make them nearly equal in items. Hashes that an attacker made
//! equal, or close together, all fall into one part. That part then has its own list of places, and so does a
//! part with many bits. Very long codes are listed with their values and are not decoded again. A look-up
//! therefore decodes at most about twice the items of an average part plus 64. It also decodes at most a few
//! times the bits of that many average items.
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
use crate::matching::Table;
use crate::params::Params;

pub use indexed::IndexedFilter;

/// The number of entries of an index. At most one per item, and one for every two bytes of the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexInterval {
    /// One entry per this number of items on average (0 counts as 1). If hashes are uniform, a look-up decodes
    /// half of them on average; otherwise it decodes at most twice as many plus 64. An entry takes 8 bytes (and
    /// a thirtieth more), so 64 items cost 1 bit per item, and 128 half a bit.
    Items(u32),
    /// This number of entries in total (0 counts as 1).
    Entries(u32),
}

/// A sampled index over one filter, by value.
///
/// ```
/// use nutfilter::{Nut25, Params, SeekIndex, SortedHashes, IndexInterval};
///
/// let notes: Vec<[u8; 33]> = (0..1000_u16).map(|i| [i as u8 ^ (i >> 8) as u8 * 7; 33]).collect();
/// let filter = SortedHashes::from_items(&notes).encode(Params::default())?;
/// let index = SeekIndex::build(&filter, IndexInterval::Items(64));
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
    /// The number of entries for a filter.
    ///
    /// An untrusted filter can hold eight items per byte, and N alone must not determine the memory of an
    /// index. The number of bytes therefore limits it too.
    fn entries<D: AsRef<[u8]>, H>(self, filter: &Filter<D, H>) -> u32 {
        let n = filter.n();
        let wanted = match self {
            Self::Items(items) => n.div_ceil(items.max(1)),
            Self::Entries(entries) => entries.max(1).min(n),
        };
        wanted.min(most_entries(filter.bytes().len() as u64))
    }
}

/// The maximum number of entries for a filter of `len` bytes.
fn most_entries(len: u64) -> u32 {
    u32::try_from(len.div_ceil(2)).unwrap_or(u32::MAX)
}

/// The table of a filter, for an index of this step.
fn table_of<D: AsRef<[u8]>, H>(filter: &Filter<D, H>, step: IndexInterval) -> Table {
    Table::build(&filter.coded(), step.entries(filter))
}

impl SeekIndex {
    /// Builds the index of `filter`.
    ///
    /// The place of an entry within its part depends on the places that decoding records. Those depend on the
    /// SIMD level. Two machines may therefore build different indexes of one filter, with different bytes ([`SeekIndex::to_bytes`]). Each works on any
    /// machine, and all give the same answers.
    ///
    /// # Cost
    ///
    /// One decoding pass, and one pass over the bytes for a fingerprint of the filter ([`Filter::into_indexed`]
    /// needs no fingerprint).
    ///
    /// Memory: slightly more than 8 bytes per entry if hashes are uniform, at most 64 if an attacker chose
    /// them. For a hostile set with the maximum number of entries, that is at most 32 times the filter's bytes.
    /// With `IndexInterval::Items(64)` and uniform hashes it is a twentieth of the filter. Building temporarily takes
    /// about as much memory again as the filter, and at most eight times as much.
    #[must_use]
    pub fn build<D: AsRef<[u8]>, H>(filter: &Filter<D, H>, step: IndexInterval) -> Self {
        Self {
            filter: Identity::of(filter),
            table: Arc::new(table_of(filter, step)),
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
        self.table.entries.len()
    }

    /// Returns whether the index has no entries. Only the index of an empty filter has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.entries.is_empty()
    }

    /// The size of the serialised index in bits per item of the filter.
    #[must_use]
    pub fn bits_per_item(&self) -> f64 {
        self.serialised_len() as f64 * 8.0 / f64::from(self.filter.n.max(1))
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
    /// # let stored = SeekIndex::build(&filter, IndexInterval::Items(64)).to_bytes();
    /// let index = SeekIndex::from_bytes(&stored)?; // from a file, for example
    /// let indexed: IndexedFilter = match filter.into_indexed_with(index) {
    ///     Ok(indexed) => indexed,
    ///     Err(mismatch) => mismatch.filter.into_indexed(IndexInterval::Items(64)),
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
    /// let indexed = filter.into_indexed(IndexInterval::Items(64));
    /// assert_eq!(indexed.matches(&[[3; 33], [4; 33]]), [true, false]);
    /// # Ok::<(), nutfilter::BuildError>(())
    /// ```
    ///
    /// # Cost
    ///
    /// One decoding pass; memory as for [`SeekIndex::build`].
    #[must_use]
    pub fn into_indexed(self, step: IndexInterval) -> IndexedFilter<D, H> {
        let table = Arc::new(table_of(&self, step));
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
