//! Segments: Golomb-coded sets in a fixed universe, whose unions are exact.
//!
//! The values of a [`Filter`] depend on N, so one more item moves all of them. A [`Segment`] takes its range from
//! the sequence that it belongs to: every value has w bits ([`Universe`]), regardless of the number of values. Two
//! segments therefore merge without their items, and the result is the same, byte for byte, as the segment of all
//! items. Anyone who has the parts can check it.
//!
//! A segment is a set: repeated values are kept once. A non-member matches a segment of n values with probability
//! n / 2^w. Hashes are the caller's. For Cashu state filters, the hash is the first eight bytes of an element,
//! big-endian ([`element_hash`]).
//!
//! ```
//! use nutfilter::segment::{Segment, Universe, element_hash};
//!
//! let universe = Universe::new(40)?;
//! let monday = Segment::from_elements(universe, &[[1; 32], [2; 32]])?;
//! let tuesday = Segment::from_elements(universe, &[[2; 32], [3; 32]])?;
//! let both = Segment::merge(&[monday, tuesday])?;
//! assert_eq!(both, Segment::from_elements(universe, &[[1; 32], [2; 32], [3; 32]])?);
//!
//! let bytes = both.to_bytes();
//! let read = Segment::parse(&bytes)?; // checks that it is well-formed
//! assert_eq!(read.matches_elements(&[[3; 32], [4; 32]]), [true, false]);
//! assert!(read.contains(element_hash(&[1; 32])));
//! # Ok::<(), nutfilter::segment::SegmentError>(())
//! ```
//!
//! Invariant: the values of a segment are distinct and below 2^w, and P is [`Universe::remainder_bits`] of n. Sets
//! of values and valid byte strings therefore correspond one to one. `docs/format-segments.md` is the
//! specification.

mod bytes;
mod error;
mod stream;
#[cfg(test)]
mod tests;
mod universe;

use alloc::vec::Vec;

use crate::arch::SimdLevel;
use crate::arch::memory::prefer_huge_pages;
use crate::encode;
use crate::error::{BuildError, BuildFault};
use crate::filter::{Filter, Values};
use crate::merge;
use crate::params::Params;
use crate::seek_index::{IndexInterval, IndexedFilter};
use crate::sort::sort_hashes;

use error::SegmentFault;
pub use error::{SegmentError, SegmentErrorKind};
pub use stream::SegmentEncoder;
pub use universe::Universe;

/// The hash of a 32-byte element: its first eight bytes, big-endian.
#[must_use]
pub const fn element_hash(element: &[u8; 32]) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *element;
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

impl Universe {
    /// The parameters of the code of `n` values.
    fn params(self, n: u32) -> Params {
        Params::in_universe(self.remainder_bits(n), self.width(), n)
    }
}

/// A validated set of values in a [`Universe`], over borrowed or owned bytes.
///
/// "Not contained" is certain. A non-member matches with probability n / 2^w.
#[derive(Clone, Debug, Eq)]
pub struct Segment<D: AsRef<[u8]> = Vec<u8>> {
    universe: Universe,
    /// The code. Its values need no hasher: they are the top bits of the hashes.
    filter: Filter<D, ()>,
}

impl<D: AsRef<[u8]>, E: AsRef<[u8]>> PartialEq<Segment<E>> for Segment<D> {
    fn eq(&self, other: &Segment<E>) -> bool {
        self.universe == other.universe && self.filter == other.filter
    }
}

impl Segment {
    /// The segment of elements with these 64-bit hashes, given in any order.
    ///
    /// # Errors
    ///
    /// There are 2^32 or more distinct values, or memory cannot be allocated.
    ///
    /// # Cost
    ///
    /// One sort of the hashes and one encoding pass. Memory: up to 10 bytes per hash in addition to `hashes`.
    pub fn from_hashes(universe: Universe, hashes: Vec<u64>) -> Result<Self, BuildError> {
        Self::build(SimdLevel::detect(), universe, hashes)
    }

    /// The segment of these elements, given in any order.
    ///
    /// # Errors
    ///
    /// As [`Segment::from_hashes`].
    pub fn from_elements(universe: Universe, elements: &[[u8; 32]]) -> Result<Self, BuildError> {
        Self::from_hashes(universe, elements.iter().map(element_hash).collect())
    }

    fn build(level: SimdLevel, universe: Universe, hashes: Vec<u64>) -> Result<Self, BuildError> {
        Self::encode(level, universe, sort_hashes(level, hashes))
    }

    /// Encodes sorted hashes. Hashes of equal values count once.
    fn encode(
        level: SimdLevel,
        universe: Universe,
        mut sorted: Vec<u64>,
    ) -> Result<Self, BuildError> {
        sorted.dedup_by_key(|hash| universe.value_of(*hash));
        let n = u32::try_from(sorted.len()).map_err(|_| {
            let n = sorted.len() as u64;
            BuildError(BuildFault::TooManyItems { n })
        })?;
        let params = universe.params(n);
        // Mapping a hash to the range 2^w gives its top w bits.
        let encoded = encode::encode_hashes(level, &sorted, params)?;
        let filter = Filter::encoded(level, encoded, params, ());
        Ok(Self { universe, filter })
    }

    /// The union of segments of one universe: the segment of all their elements.
    ///
    /// The result does not depend on the order of the parts, on repetitions among them, or on the merges that made
    /// them.
    ///
    /// # Errors
    ///
    /// There are no parts, their universes differ, there are 2^32 or more values, or memory cannot be allocated.
    ///
    /// # Cost
    ///
    /// Linear in the number of values of all parts: each part is decoded once. Memory: up to 18 bytes per value.
    pub fn merge<D: AsRef<[u8]>>(parts: &[Segment<D>]) -> Result<Self, SegmentError> {
        let Some(first) = parts.first() else {
            return Err(SegmentError(SegmentFault::NoParts));
        };
        for part in parts {
            first.check_universe(part)?;
        }
        let level = first.filter.level();
        let sorted = if let [one, other] = parts {
            let mut sorted = one.hashes()?;
            merge::merge_into(&mut sorted, &other.hashes()?, merge::LARGE_BLOCK, |_| {})?;
            sorted
        } else {
            // From three parts on, one sort is faster than merges in pairs: 18 against 22 ns per value for four
            // parts of a million values together, and 20 against 36 for a hundred.
            let mut hashes = Vec::new();
            let n = parts.iter().map(|part| part.n() as usize).sum();
            merge::reserve(&mut hashes, n)?;
            // Each part alone is too small to ask for them.
            prefer_huge_pages(&mut hashes);
            for part in parts {
                part.append_hashes(&mut hashes);
            }
            sort_hashes(level, hashes)
        };
        Ok(Self::encode(level, first.universe, sorted)?)
    }
}

impl<D: AsRef<[u8]>> Segment<D> {
    #[cfg(feature = "__internals")]
    #[doc(hidden)]
    #[must_use]
    pub fn with_level(self, level: SimdLevel) -> Self {
        let filter = self.filter.with_level(level);
        Self { filter, ..self }
    }

    /// The universe of the values.
    #[must_use]
    pub fn universe(&self) -> Universe {
        self.universe
    }

    /// n: the number of distinct values.
    #[must_use]
    pub fn n(&self) -> u32 {
        self.filter.n()
    }

    /// P: the number of low bits of a gap that are written as they are.
    #[must_use]
    pub fn p(&self) -> u32 {
        self.universe.remainder_bits(self.n())
    }

    /// The coded values, without header and checksum.
    #[must_use]
    pub fn code(&self) -> &[u8] {
        self.filter.bytes()
    }

    /// The probability that a non-member matches: n / 2^w.
    #[must_use]
    pub fn false_positive_rate(&self) -> f64 {
        f64::from(self.n()) / self.universe.size() as f64
    }

    /// Iterates over the values in ascending order.
    #[must_use]
    pub fn values(&self) -> Values<'_> {
        self.filter.values()
    }

    /// Converts to a segment that owns its bytes.
    #[must_use]
    pub fn into_owned(self) -> Segment {
        Segment {
            universe: self.universe,
            filter: self.filter.into_owned(),
        }
    }

    /// Returns whether an element with this hash may be in the set.
    ///
    /// # Cost
    ///
    /// Each call decodes the segment up to the value. Use [`Segment::matches`] for many hashes, and an index
    /// ([`Segment::into_indexed`]) for repeated queries.
    #[must_use]
    pub fn contains(&self, hash: u64) -> bool {
        self.filter.contains_value(self.universe.value_of(hash))
    }

    /// Returns for each hash whether its element may be in the set, in the given order.
    ///
    /// # Cost
    ///
    /// As [`Filter::matches_values`]: one decoding pass, and a look-up per hash or one merge.
    #[must_use]
    pub fn matches(&self, hashes: &[u64]) -> Vec<bool> {
        self.filter.matches_values(&self.universe.values_of(hashes))
    }

    /// [`Segment::matches`] for elements.
    #[must_use]
    pub fn matches_elements(&self, elements: &[[u8; 32]]) -> Vec<bool> {
        let hashes: Vec<u64> = elements.iter().map(element_hash).collect();
        self.matches(&hashes)
    }

    /// The same set with values of fewer bits: the segment of the same elements in the smaller universe.
    ///
    /// # Errors
    ///
    /// `universe` is wider than this one, or memory cannot be allocated.
    pub fn fold(&self, universe: Universe) -> Result<Segment, SegmentError> {
        let (width, wanted) = (self.universe.width(), universe.width());
        if wanted > width {
            return Err(SegmentError(SegmentFault::Wider { width, wanted }));
        }
        Ok(Segment::encode(
            self.filter.level(),
            universe,
            self.hashes()?,
        )?)
    }

    /// The values of this segment that are not in `other`.
    ///
    /// # Errors
    ///
    /// The universes differ, or memory cannot be allocated.
    pub fn difference<E: AsRef<[u8]>>(&self, other: &Segment<E>) -> Result<Segment, SegmentError> {
        self.select(other, false)
    }

    /// The values that are in both segments.
    ///
    /// # Errors
    ///
    /// As [`Segment::difference`].
    pub fn intersection<E: AsRef<[u8]>>(
        &self,
        other: &Segment<E>,
    ) -> Result<Segment, SegmentError> {
        self.select(other, true)
    }

    fn select<E: AsRef<[u8]>>(
        &self,
        other: &Segment<E>,
        common: bool,
    ) -> Result<Segment, SegmentError> {
        self.check_universe(other)?;
        let mut hashes = self.hashes()?;
        let others = other.hashes()?;
        let mut others = others.iter().copied().peekable();
        hashes.retain(|&hash| {
            while others.next_if(|&other| other < hash).is_some() {}
            (others.peek() == Some(&hash)) == common
        });
        Ok(Segment::encode(self.filter.level(), self.universe, hashes)?)
    }

    fn check_universe<E: AsRef<[u8]>>(&self, other: &Segment<E>) -> Result<(), SegmentError> {
        if self.universe == other.universe {
            return Ok(());
        }
        let (width, other) = (self.universe.width(), other.universe.width());
        Err(SegmentError(SegmentFault::OtherWidth { width, other }))
    }

    /// The values as hashes whose other bits are zero.
    fn hashes(&self) -> Result<Vec<u64>, BuildError> {
        let mut hashes = Vec::new();
        merge::reserve(&mut hashes, self.n() as usize)?;
        self.append_hashes(&mut hashes);
        Ok(hashes)
    }

    fn append_hashes(&self, hashes: &mut Vec<u64>) {
        let start = hashes.len();
        self.filter.append_values(hashes);
        for value in &mut hashes[start..] {
            *value <<= self.universe.unused_bits();
        }
    }
}

impl<D: AsRef<[u8]>> Segment<D> {
    /// Builds a seek index and combines it with the segment.
    ///
    /// # Cost
    ///
    /// As [`Filter::into_indexed`].
    #[must_use]
    pub fn into_indexed(self, step: IndexInterval) -> IndexedSegment<D> {
        IndexedSegment {
            universe: self.universe,
            indexed: self.filter.into_indexed(step),
        }
    }
}

/// A segment with its seek index, made by [`Segment::into_indexed`]. It gives the same answers, but faster.
#[derive(Clone, Debug)]
pub struct IndexedSegment<D: AsRef<[u8]> = Vec<u8>> {
    universe: Universe,
    indexed: IndexedFilter<D, ()>,
}

impl<D: AsRef<[u8]>> IndexedSegment<D> {
    /// Returns whether an element with this hash may be in the set.
    #[must_use]
    pub fn contains(&self, hash: u64) -> bool {
        self.indexed.contains_value(self.universe.value_of(hash))
    }

    /// Returns for each hash whether its element may be in the set, in the given order.
    #[must_use]
    pub fn matches(&self, hashes: &[u64]) -> Vec<bool> {
        self.indexed
            .matches_values(&self.universe.values_of(hashes))
    }
}

impl Universe {
    fn values_of(self, hashes: &[u64]) -> Vec<u64> {
        hashes.iter().map(|&hash| self.value_of(hash)).collect()
    }
}
