//! [`SeekIndex`]: where in the bits the values of each part of the range begin.
//!
//! A stream of differences can only be read from its start, or from a place whose position and value
//! somebody wrote down. The index divides the range `[0, F)` into equal parts and writes down such a place
//! for each. A look-up computes its part from the value (one multiplication, no search) and decodes a few
//! items there. A. Langley's article on Golomb-coded sets has 32 such entries a filter; any number is
//! possible here.
//!
//! Parts are equal in range, and uniform hashes make them nearly equal in items. Hashes that somebody ground
//! to be equal, or close together, all fall in one part: that part then has a list of places of its own, and so
//! has a part of many bits. Codes that are very long are listed by their values, and not read again. So a
//! look-up never decodes more than about twice the items of an average part, and 64, nor more than a few times
//! the bits of so many average items.
//!
//! [`Table`] is the index itself; here is what it is to a user: how large, of which filter, as bytes
//! ([`bytes`]), and asked ([`IndexedFilter`]).

mod bytes;
mod indexed;
#[cfg(test)]
mod tests;

use crate::error::{SeekIndexError, SeekIndexFault};
use crate::filter::Filter;
use crate::hash::fingerprint;
use crate::matching::Table;
use crate::params::Params;

pub use indexed::IndexedFilter;

/// How many entries an index gets: at most one an item, and one for every two bytes of the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// One entry for so many items on average (0 counts as 1). A look-up decodes half of them on average
    /// where hashes are uniform, and at most twice as many and 64 where they are not. At 8 bytes an entry
    /// (and a thirtieth more), 64 items cost 1 bit an item, and 128 half a bit.
    Items(u32),
    /// So many entries in all (0 counts as 1).
    Entries(u32),
}

/// A sampled index over one filter, by value.
///
/// ```
/// use nutfilter::{Nut25, Params, SeekIndex, SortedHashes, Step};
///
/// let notes: Vec<[u8; 33]> = (0..1000_u16).map(|i| [i as u8 ^ (i >> 8) as u8 * 7; 33]).collect();
/// let filter = SortedHashes::<Nut25>::from_items(&notes).encode(Params::default())?;
/// let index = SeekIndex::build(&filter, Step::Items(64));
/// let indexed = filter.with_index(&index)?;
/// assert!(indexed.contains(&notes[500]));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeekIndex {
    filter: Identity,
    table: Table,
}

/// What tells one filter from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    n: u32,
    params: Params,
    len: u64,
    fingerprint: u64,
}

impl Identity {
    fn of<H>(filter: &Filter<'_, H>) -> Self {
        Self {
            n: filter.n(),
            params: filter.params(),
            len: filter.bytes().len() as u64,
            fingerprint: fingerprint(filter.bytes()),
        }
    }
}

impl Step {
    /// The number of entries for a filter.
    ///
    /// A stranger's filter can hold eight items a byte, and N alone must not decide how much memory an index
    /// takes; so the number of bytes has a say.
    fn entries<H>(self, filter: &Filter<'_, H>) -> u32 {
        let n = filter.n();
        let wanted = match self {
            Self::Items(items) => n.div_ceil(items.max(1)),
            Self::Entries(entries) => entries.max(1).min(n),
        };
        wanted.min(most_entries(filter.bytes().len() as u64))
    }
}

/// The most entries that the index of a filter of `len` bytes has.
fn most_entries(len: u64) -> u32 {
    u32::try_from(len.div_ceil(2)).unwrap_or(u32::MAX)
}

/// The table of a filter, for an index of this step.
fn table_of<H>(filter: &Filter<'_, H>, step: Step) -> Table {
    Table::build(&filter.coded(), step.entries(filter))
}

impl SeekIndex {
    /// The index of `filter`.
    ///
    /// Where in its part of the bits an entry points is up to the places that decoding notes on its way, and those
    /// differ between levels of the CPU and, with the feature `parallel`, numbers of threads. So two machines may
    /// make indexes of one filter that differ, in their bytes too ([`SeekIndex::to_bytes`]); each is as good
    /// anywhere, and all give the same answers.
    ///
    /// # Cost
    ///
    /// One decoding pass, and one over the bytes that tells this filter from others
    /// ([`Filter::into_indexed`] does without).
    ///
    /// Memory: a little above 8 bytes an entry where hashes are uniform, at most 64 where somebody ground them
    /// against it. So never more than 32 times the filter's bytes, if it is asked for that many entries and the
    /// set is hostile; at `Step::Items(64)`, a twentieth of the filter of an honest one. While it is built, about
    /// as much as the filter, and at most eight times, comes on top.
    #[must_use]
    pub fn build<H>(filter: &Filter<'_, H>, step: Step) -> Self {
        Self {
            filter: Identity::of(filter),
            table: table_of(filter, step),
        }
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.entries.len()
    }

    /// Whether there is no entry, as in the index of an empty filter.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.entries.is_empty()
    }

    /// The size of the serialised index in bits, for each item of the filter.
    #[must_use]
    pub fn bits_per_item(&self) -> f64 {
        self.serialised_len() as f64 * 8.0 / f64::from(self.filter.n.max(1))
    }
}

impl<'a, H> Filter<'a, H> {
    /// The filter with an index that was built for it.
    ///
    /// # Errors
    ///
    /// Where the index was built for another filter.
    ///
    /// # Cost
    ///
    /// One pass over the bytes to tell: do it once, then ask often. [`Filter::into_indexed`] has nothing to
    /// tell.
    pub fn with_index<'f>(
        &'f self,
        index: &'f SeekIndex,
    ) -> Result<IndexedFilter<'f, H>, SeekIndexError> {
        if index.filter != Identity::of(self) {
            return Err(SeekIndexError(SeekIndexFault::OtherFilter));
        }
        Ok(IndexedFilter::borrowed(self, &index.table))
    }

    /// The filter together with an index of its own.
    ///
    /// ```
    /// use nutfilter::{Nut25, Params, SortedHashes, Step};
    ///
    /// let notes = [[2_u8; 33], [3; 33]];
    /// let filter = SortedHashes::<Nut25>::from_items(&notes).encode(Params::default())?;
    /// let indexed = filter.into_indexed(Step::Items(64));
    /// assert_eq!(indexed.matches(&[[3; 33], [4; 33]]), [true, false]);
    /// # Ok::<(), nutfilter::BuildError>(())
    /// ```
    ///
    /// # Cost
    ///
    /// One decoding pass; memory as for [`SeekIndex::build`].
    #[must_use]
    pub fn into_indexed(self, step: Step) -> IndexedFilter<'a, H> {
        let table = table_of(&self, step);
        IndexedFilter::owned(self, table)
    }
}
