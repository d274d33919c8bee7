//! [`Filter`]: a validated filter, and the queries on it.
//!
//! Untrusted bytes pass two checks. The first takes O(1) and gives an [`UnvalidatedFilter`]: the length of the
//! bytes is possible for N, P and M. The second takes one decoding pass and gives a [`Filter`]: every item is
//! in range, and the bytes end with the last item. Queries on a `Filter` therefore cannot fail.

use alloc::vec::Vec;
use core::fmt;
use core::iter::FusedIterator;
use core::ops::ControlFlow;

use crate::arch::memory::prefer_huge_pages;
use crate::arch::{SimdLevel, level_setter};
use crate::decode::{self, Coded, VALIDATED};
use crate::encode::{self, Encoded};
use crate::error::{BuildError, DecodeError};
use crate::hash::{ItemHash, Nut25, RawValues, map_to_range};
use crate::matching::{Strategy, ValidatedBits, map_items};
use crate::params::Params;

/// A validated filter over bytes in storage of the caller's choice: `&[u8]`, `Vec<u8>`, `Arc<[u8]>`, a memory map.
///
/// "Not contained" is certain. "Contained" has a false-positive rate of 1/M. The storage must always return the
/// same bytes. If it does not, answers are wrong or queries panic.
///
/// ```
/// use nutfilter::{Filter, Params, SortedHashes};
///
/// let notes = [[2_u8; 33], [3; 33]];
/// let made = SortedHashes::from_items(&notes).encode(Params::default())?;
///
/// // What a wallet receives: the bytes, and the numbers that came with them.
/// let filter = Filter::parse(made.bytes(), 2, Params::default())?;
/// assert_eq!(filter.matches(&[[3; 33], [4; 33]]), [true, false]);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Filter<D = Vec<u8>, H = Nut25> {
    unvalidated: UnvalidatedFilter<D, H>,
    /// The bit position where the last item ends.
    end: u64,
}

/// An unvalidated filter: only its length has been checked against N, P and M.
///
/// Made by [`Filter::check_length`]. Use it for a filter that is queried once and then dropped: validation and
/// matching share one pass.
#[derive(Clone)]
pub struct UnvalidatedFilter<D = Vec<u8>, H = Nut25> {
    data: D,
    /// The coded set within the data.
    start: usize,
    len: usize,
    n: u32,
    params: Params,
    hasher: H,
    /// Changes no answer, so equality ignores it.
    level: SimdLevel,
}

impl<D, H: fmt::Debug> UnvalidatedFilter<D, H> {
    /// Without the bytes: an application may log values that hold a filter, and `unwrap` prints them.
    fn fmt_as(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(name)
            .field("n", &self.n)
            .field("params", &self.params)
            .field("len", &self.len)
            .field("hasher", &self.hasher)
            .finish_non_exhaustive()
    }
}

impl<D, H: fmt::Debug> fmt::Debug for UnvalidatedFilter<D, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as("UnvalidatedFilter", f)
    }
}

impl<D, H: fmt::Debug> fmt::Debug for Filter<D, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.unvalidated.fmt_as("Filter", f)
    }
}

impl<D: AsRef<[u8]>, E: AsRef<[u8]>, H: PartialEq> PartialEq<UnvalidatedFilter<E, H>>
    for UnvalidatedFilter<D, H>
{
    fn eq(&self, other: &UnvalidatedFilter<E, H>) -> bool {
        self.bytes() == other.bytes()
            && self.n == other.n
            && self.params == other.params
            && self.hasher == other.hasher
    }
}

impl<D: AsRef<[u8]>, H: Eq> Eq for UnvalidatedFilter<D, H> {}

impl<D: AsRef<[u8]>, E: AsRef<[u8]>, H: PartialEq> PartialEq<Filter<E, H>> for Filter<D, H> {
    fn eq(&self, other: &Filter<E, H>) -> bool {
        self.unvalidated == other.unvalidated
    }
}

impl<D: AsRef<[u8]>, H: Eq> Eq for Filter<D, H> {}

impl<D: AsRef<[u8]>> Filter<D> {
    /// Parses and fully validates the [`Nut25`] filter of `n` items in `bytes`.
    ///
    /// # Errors
    ///
    /// Every class of [`DecodeErrorKind`](crate::error::DecodeErrorKind) except non-canonical.
    ///
    /// # Cost
    ///
    /// The length check of [`Params::check_length`] in O(1), then one decoding pass as in
    /// [`UnvalidatedFilter::validate`]. The bytes are not copied.
    pub fn parse(bytes: D, n: u64, params: Params) -> Result<Self, DecodeError> {
        Self::parse_with(Nut25, bytes, n, params)
    }

    /// Checks only the length of the bytes, as [`Params::check_length`] does.
    ///
    /// # Errors
    ///
    /// Bad parameter, too short, or too long.
    pub fn check_length(
        bytes: D,
        n: u64,
        params: Params,
    ) -> Result<UnvalidatedFilter<D>, DecodeError> {
        Self::check_length_with(Nut25, bytes, n, params)
    }
}

impl Filter<Vec<u8>, RawValues> {
    /// Encodes values that the caller has already mapped. They must be sorted and below N * M; duplicates are
    /// allowed.
    ///
    /// # Errors
    ///
    /// A value is smaller than its predecessor or not below N * M, there are more than 2^32 - 1 values, or the
    /// filter's memory cannot be allocated.
    pub fn from_values(values: &[u64], params: Params) -> Result<Self, BuildError> {
        let encoded = encode::encode_values(values, params)?;
        Ok(Self::encoded(SimdLevel::detect(), encoded, params, RawValues))
    }
}

impl<D: AsRef<[u8]>, H> Filter<D, H> {
    /// [`Filter::parse`] with a given hasher.
    ///
    /// # Errors
    ///
    /// As [`Filter::parse`].
    pub fn parse_with(hasher: H, bytes: D, n: u64, params: Params) -> Result<Self, DecodeError> {
        Self::check_length_with(hasher, bytes, n, params)?.validate()
    }

    /// [`Filter::check_length`] with a given hasher.
    ///
    /// # Errors
    ///
    /// As [`Filter::check_length`].
    pub fn check_length_with(
        hasher: H,
        bytes: D,
        n: u64,
        params: Params,
    ) -> Result<UnvalidatedFilter<D, H>, DecodeError> {
        Self::check_length_from(hasher, bytes, 0, n, params)
    }

    /// [`Filter::check_length_with`] for a coded set that starts at byte `start` of `data`.
    pub(crate) fn check_length_from(
        hasher: H,
        data: D,
        start: usize,
        n: u64,
        params: Params,
    ) -> Result<UnvalidatedFilter<D, H>, DecodeError> {
        let len = data.as_ref().len().saturating_sub(start);
        let n = params.check_length(n, len as u64)?;
        Ok(UnvalidatedFilter { data, start, len, n, params, hasher, level: SimdLevel::detect() })
    }

    level_setter!(unvalidated.level);

    /// N: the number of items, duplicates included.
    #[must_use]
    pub fn n(&self) -> u32 {
        self.unvalidated.n
    }

    /// The parameters that the filter was made with.
    #[must_use]
    pub fn params(&self) -> Params {
        self.unvalidated.params
    }

    /// F = N * M: the exclusive upper limit of the values.
    #[must_use]
    pub fn range(&self) -> u64 {
        self.params().range(self.n())
    }

    /// The hasher of the queries.
    #[must_use]
    pub fn hasher(&self) -> &H {
        &self.unvalidated.hasher
    }

    /// The coded set.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.unvalidated.bytes()
    }

    /// Returns the storage that the filter was made with.
    #[must_use]
    pub fn into_bytes(self) -> D {
        self.unvalidated.data
    }

    /// The same filter over a copy of its bytes.
    #[must_use]
    pub fn into_owned(self) -> Filter<Vec<u8>, H> {
        let UnvalidatedFilter { n, params, len, level, .. } = self.unvalidated;
        let (data, hasher) = (self.bytes().to_vec(), self.unvalidated.hasher);
        let unvalidated = UnvalidatedFilter { data, start: 0, len, n, params, hasher, level };
        Filter { unvalidated, end: self.end }
    }

    /// The same filter with another hasher, for example to find out which hasher made it.
    #[must_use]
    pub fn with_hasher<G>(&self, hasher: G) -> Filter<&[u8], G> {
        let UnvalidatedFilter { n, params, len, level, .. } = self.unvalidated;
        let data = self.bytes();
        let unvalidated = UnvalidatedFilter { data, start: 0, len, n, params, hasher, level };
        Filter { unvalidated, end: self.end }
    }

    /// Iterates over the mapped values in ascending order, duplicates included.
    #[must_use]
    pub fn values(
        &self,
    ) -> impl ExactSizeIterator<Item = u64> + FusedIterator + Clone + fmt::Debug {
        decode::Values::of(self.coded())
    }

    /// Appends all values to `out`; a faster [`Filter::values`].
    ///
    /// # Cost
    ///
    /// One decoding pass, in several lanes if the CPU supports it. Memory: 8 bytes per item. A filter with a
    /// small P can hold eight items per byte.
    pub fn append_values(&self, out: &mut Vec<u64>) {
        let n = self.n() as usize;
        out.reserve(n);
        prefer_huge_pages(out);
        decode::append_values(&mut Vec::new(), out, self.coded()).expect(VALIDATED);
    }

    /// Whether a mapped value is in the set.
    ///
    /// # Cost
    ///
    /// Each call decodes the filter up to the value. Query many values at once with [`Filter::matches_values`].
    /// An index ([`Filter::into_indexed`]) reduces the time to a fraction of a microsecond.
    #[must_use]
    pub fn contains_value(&self, value: u64) -> bool {
        self.any_of(Strategy::Merge, &[value])
    }

    /// Whether any of the mapped values is in the set.
    ///
    /// # Cost
    ///
    /// As [`Filter::matches_values`], but stops at the first match.
    #[must_use]
    pub fn match_any_values(&self, values: &[u64]) -> bool {
        self.any_of(Strategy::Cheapest, values)
    }

    /// Returns for each mapped value whether it is in the set, in the given order.
    ///
    /// # Cost
    ///
    /// One decoding pass over the filter. An estimate from both counts and the length of the filter selects what
    /// follows.
    ///
    /// - Few values are looked up, each from a place that the pass recorded shortly before it. The places usually
    ///   take a tenth of the filter's memory. For a filter crafted to be slow they take more, but less than the
    ///   filter itself.
    /// - Many values are tested in a bitmap of the set's values, up to 131,072 items. It takes 11 bytes per item,
    ///   and decoding takes 8 more, at most half a megabyte.
    /// - In larger filters, up to 524,288 values, if they are at least a twelfth of N, are tested in a bitmap of their
    ///   own. It takes up to 4 bytes per value, and up to 16 per item that shares a bit with one of them: usually few.
    /// - Otherwise many values are sorted first, and the pass ends at the largest.
    ///
    /// For repeated queries, build an index: [`Filter::into_indexed`].
    ///
    /// In any filter of B bits, k values decode at most `5 * (B + k * x)` bits. Here x is the average length of
    /// 192 items, or 192 bytes if that is more.
    #[must_use]
    pub fn matches_values(&self, values: &[u64]) -> Vec<bool> {
        self.matches_by(Strategy::Cheapest, values)
    }

    /// [`Filter::matches_values`] with a given strategy, for tests and benchmarks.
    #[cfg(feature = "__internals")]
    #[doc(hidden)]
    #[must_use]
    pub fn matches_values_by(&self, strategy: Strategy, values: &[u64]) -> Vec<bool> {
        self.matches_by(strategy, values)
    }

    fn matches_by(&self, strategy: Strategy, values: &[u64]) -> Vec<bool> {
        let found = self.coded().matches(strategy, values, false);
        found.expect(VALIDATED)
    }

    /// Calls `each` with slices of the values, in order, until it breaks.
    pub(crate) fn visit_values(&self, each: impl FnMut(&[u64]) -> ControlFlow<()>) {
        let _end = decode::visit(self.coded(), each).expect(VALIDATED);
    }

    pub(crate) fn coded(&self) -> Coded<'_> {
        self.unvalidated.coded()
    }

    /// The bits, for look-ups that start in the middle.
    pub(crate) fn stream(&self) -> ValidatedBits<'_> {
        ValidatedBits { coded: self.coded(), end: self.end }
    }

    pub(crate) fn level(&self) -> SimdLevel {
        self.unvalidated.level
    }

    /// The strategy of [`Filter::matches_values`] for this many values, for tests and benchmarks.
    #[cfg(feature = "__internals")]
    #[doc(hidden)]
    #[must_use]
    pub fn planned(&self, values: usize) -> Strategy {
        self.coded().planned(values, false)
    }

    fn any_of(&self, strategy: Strategy, values: &[u64]) -> bool {
        let mut any = false;
        let asked = self.coded().visit_matches(strategy, values, false, |_| {
            any = true;
            false
        });
        asked.expect(VALIDATED);
        any
    }
}

impl<H> Filter<Vec<u8>, H> {
    /// The encoder's output needs no validation.
    pub(crate) fn encoded(level: SimdLevel, encoded: Encoded, params: Params, hasher: H) -> Self {
        let Encoded { bytes, n, end } = encoded;
        let unvalidated =
            UnvalidatedFilter { start: 0, len: bytes.len(), data: bytes, n, params, hasher, level };
        Self { unvalidated, end }
    }
}

/// The queries about items, by those about values. `$plain` is the filter that hashes them.
macro_rules! item_queries {
    ($queried:ident, $self:ident => $plain:expr) => {
        impl<D: AsRef<[u8]>, H: ItemHash> $queried<D, H> {
            /// Returns whether `item` may be in the set: always true for a member, true for a non-member with
            /// probability 1/M.
            ///
            /// # Cost
            ///
            /// As [`Self::contains_value`].
            #[must_use]
            pub fn contains(&$self, item: impl AsRef<[u8]>) -> bool {
                let hash = $plain.hasher().hash(item.as_ref());
                $self.contains_value(map_to_range(hash, $plain.range()))
            }

            /// Returns for each item whether it may be in the set. Each position gets its own answer, even if items are
            /// equal or collide.
            ///
            /// # Cost
            ///
            /// As [`Self::matches_values`].
            #[must_use]
            pub fn matches<I: AsRef<[u8]>>(&$self, items: &[I]) -> Vec<bool> {
                $self.matches_values(&$plain.map(items))
            }

            /// Whether any of `items` may be in the set.
            ///
            /// # Cost
            ///
            /// As [`Self::matches`], but stops at the first match.
            #[must_use]
            pub fn match_any<I: AsRef<[u8]>>(&$self, items: &[I]) -> bool {
                $self.match_any_values(&$plain.map(items))
            }
        }
    };
}
pub(crate) use item_queries;

item_queries!(Filter, self => self);

impl<D: AsRef<[u8]>, H: ItemHash> Filter<D, H> {
    /// The mapped values of `items`, in the given order.
    pub(crate) fn map<I: AsRef<[u8]>>(&self, items: &[I]) -> Vec<u64> {
        map_items(self.level(), self.hasher(), items, self.range())
    }
}

impl<D: AsRef<[u8]>, H> UnvalidatedFilter<D, H> {
    /// N, as declared.
    #[must_use]
    pub fn n(&self) -> u32 {
        self.n
    }

    /// The parameters, as declared.
    #[must_use]
    pub fn params(&self) -> Params {
        self.params
    }

    /// The hasher of the queries.
    #[must_use]
    pub fn hasher(&self) -> &H {
        &self.hasher
    }

    level_setter!(level);

    /// The bytes, not yet validated.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // The length is not taken from the data again: look-ups rely on it.
        &self.data.as_ref()[self.start..][..self.len]
    }

    /// Validates the bytes completely.
    ///
    /// # Errors
    ///
    /// Too short, out of range, trailing data, or padding.
    ///
    /// # Cost
    ///
    /// One decoding pass, at several places at once, without an allocation.
    pub fn validate(self) -> Result<Filter<D, H>, DecodeError> {
        let end = decode::validate(self.coded())?;
        Ok(Filter { unvalidated: self, end })
    }

    /// Returns for each mapped value whether it is in the set, in the given order. The same pass validates the
    /// whole filter.
    ///
    /// # Errors
    ///
    /// As [`UnvalidatedFilter::validate`].
    ///
    /// # Cost
    ///
    /// As [`Filter::matches_values`], but the pass always decodes the whole filter.
    pub fn matches_values(&self, values: &[u64]) -> Result<Vec<bool>, DecodeError> {
        self.coded().matches(Strategy::Cheapest, values, true)
    }

    /// [`UnvalidatedFilter::matches_values`] with a given strategy, for tests and benchmarks.
    ///
    /// # Errors
    ///
    /// As [`UnvalidatedFilter::validate`].
    #[cfg(feature = "__internals")]
    #[doc(hidden)]
    pub fn matches_values_by(
        &self,
        strategy: Strategy,
        values: &[u64],
    ) -> Result<Vec<bool>, DecodeError> {
        self.coded().matches(strategy, values, true)
    }

    fn coded(&self) -> Coded<'_> {
        Coded { level: self.level, bytes: self.bytes(), n: self.n, params: self.params }
    }
}

impl<D: AsRef<[u8]>, H: ItemHash> UnvalidatedFilter<D, H> {
    /// Returns for each item whether it may be in the set. The same pass validates the whole filter.
    ///
    /// # Errors
    ///
    /// As [`UnvalidatedFilter::validate`]: an invalid filter gives no answers at all.
    ///
    /// # Cost
    ///
    /// As [`UnvalidatedFilter::matches_values`].
    pub fn matches<I: AsRef<[u8]>>(&self, items: &[I]) -> Result<Vec<bool>, DecodeError> {
        let range = self.params.range(self.n);
        self.matches_values(&map_items(self.level, &self.hasher, items, range))
    }
}
