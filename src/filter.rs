//! [`Filter`]: a validated filter, and the queries on it.
//!
//! Untrusted bytes pass two checks. The first takes O(1) and gives an [`UnvalidatedFilter`]: the length of the
//! bytes is possible for N, P and M. The second takes one decoding pass and gives a [`Filter`]: every item is
//! in range, and the bytes end with the last item. Queries on a `Filter` therefore cannot fail.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::iter::FusedIterator;
use core::ops::ControlFlow;

use crate::arch::Level;
use crate::decode::{self, BLOCK, Scanner};
use crate::encode::{self, Encoded};
use crate::error::{BuildError, DecodeError};
use crate::hash::{ItemHash, Nut25, RawValues, map_to_range};
use crate::matching::{Coded, Strategy, Stream, map_items};
use crate::params::Params;

/// A validated filter over borrowed or owned bytes.
///
/// "Not contained" is certain. "Contained" has a false-positive rate of 1/M.
///
/// ```
/// use nutfilter::{Filter, Nut25, Params, SortedHashes};
///
/// let notes = [[2_u8; 33], [3; 33]];
/// let made = SortedHashes::<Nut25>::from_items(&notes).encode(Params::default())?;
///
/// // What a wallet receives: the bytes, and the numbers that came with them.
/// let filter = Filter::<Nut25>::parse(made.bytes(), 2, Params::default())?;
/// assert_eq!(filter.matches(&[[3; 33], [4; 33]]), [true, false]);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter<'a, H = Nut25> {
    unvalidated: UnvalidatedFilter<'a, H>,
    /// The bit position where the last item ends.
    end: u64,
}

/// An unvalidated filter: only its length has been checked against N, P and M.
///
/// Made by [`Filter::check_length`]. Use it for a filter that is queried once and then dropped: validation and
/// matching share one pass.
#[derive(Clone, Debug)]
pub struct UnvalidatedFilter<'a, H = Nut25> {
    bytes: Cow<'a, [u8]>,
    n: u32,
    params: Params,
    hasher: H,
    /// Changes no answer, so equality ignores it.
    level: Level,
}

impl<H: PartialEq> PartialEq for UnvalidatedFilter<'_, H> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
            && self.n == other.n
            && self.params == other.params
            && self.hasher == other.hasher
    }
}

impl<H: Eq> Eq for UnvalidatedFilter<'_, H> {}

impl<'a, H: Default> Filter<'a, H> {
    /// Parses and fully validates the filter of `n` items in `bytes`.
    ///
    /// # Errors
    ///
    /// Every class of [`DecodeErrorKind`](crate::DecodeErrorKind) except non-canonical.
    ///
    /// # Cost
    ///
    /// The length check of [`Params::check_length`] in O(1), then one decoding pass as in
    /// [`UnvalidatedFilter::validate`]. Borrowed bytes stay borrowed.
    pub fn parse(
        bytes: impl Into<Cow<'a, [u8]>>,
        n: u64,
        params: Params,
    ) -> Result<Self, DecodeError> {
        Self::parse_with(H::default(), bytes, n, params)
    }

    /// Checks only the length of the bytes, as [`Params::check_length`] does.
    ///
    /// # Errors
    ///
    /// Bad parameter, too short, or too long.
    pub fn check_length(
        bytes: impl Into<Cow<'a, [u8]>>,
        n: u64,
        params: Params,
    ) -> Result<UnvalidatedFilter<'a, H>, DecodeError> {
        Self::check_length_with(H::default(), bytes, n, params)
    }
}

impl Filter<'static, RawValues> {
    /// Encodes values that the caller has already mapped. They must be sorted and below N * M; duplicates are
    /// allowed.
    ///
    /// # Errors
    ///
    /// A value is smaller than its predecessor or not below N * M, there are more than 2^32 - 1 values, or the
    /// filter's memory cannot be allocated.
    pub fn from_values(values: &[u64], params: Params) -> Result<Self, BuildError> {
        let encoded = encode::encode_values(values, params)?;
        Ok(Self::encoded(encoded, params, RawValues))
    }
}

impl<'a, H> Filter<'a, H> {
    /// [`Filter::parse`] with a given hasher, for hashers that have a key.
    ///
    /// # Errors
    ///
    /// As [`Filter::parse`].
    pub fn parse_with(
        hasher: H,
        bytes: impl Into<Cow<'a, [u8]>>,
        n: u64,
        params: Params,
    ) -> Result<Self, DecodeError> {
        Self::check_length_with(hasher, bytes, n, params)?.validate()
    }

    /// [`Filter::check_length`] with a given hasher, for hashers that have a key.
    ///
    /// # Errors
    ///
    /// As [`Filter::check_length`].
    pub fn check_length_with(
        hasher: H,
        bytes: impl Into<Cow<'a, [u8]>>,
        n: u64,
        params: Params,
    ) -> Result<UnvalidatedFilter<'a, H>, DecodeError> {
        let bytes = bytes.into();
        let n = params.check_length(n, bytes.len() as u64)?;
        Ok(UnvalidatedFilter {
            bytes,
            n,
            params,
            hasher,
            level: Level::detect(),
        })
    }

    /// The encoder's output needs no validation.
    pub(crate) fn encoded(Encoded { bytes, n, end }: Encoded, params: Params, hasher: H) -> Self {
        let unvalidated = UnvalidatedFilter {
            bytes: Cow::Owned(bytes),
            n,
            params,
            hasher,
            level: Level::detect(),
        };
        Self { unvalidated, end }
    }

    /// Sets the SIMD level of later queries.
    #[must_use]
    pub fn with_level(mut self, level: Level) -> Self {
        self.unvalidated.level = level;
        self
    }

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
        &self.unvalidated.bytes
    }

    /// Returns the coded set; copies it only if it was borrowed.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.unvalidated.bytes.into_owned()
    }

    /// Converts to a filter that owns its bytes.
    #[must_use]
    pub fn into_owned(self) -> Filter<'static, H> {
        Filter {
            unvalidated: UnvalidatedFilter {
                bytes: Cow::Owned(self.unvalidated.bytes.into_owned()),
                ..self.unvalidated
            },
            end: self.end,
        }
    }

    /// The same filter with another hasher, for example to find out which hasher made it.
    #[must_use]
    pub fn with_hasher<G>(&self, hasher: G) -> Filter<'_, G> {
        Filter {
            unvalidated: UnvalidatedFilter {
                bytes: Cow::Borrowed(self.bytes()),
                n: self.n(),
                params: self.params(),
                hasher,
                level: self.level(),
            },
            end: self.end,
        }
    }

    /// Iterates over the mapped values in ascending order, duplicates included.
    #[must_use]
    pub fn values(&self) -> Values<'_> {
        Values {
            bytes: self.bytes(),
            params: self.params(),
            scanner: self.scanner(),
            block: [0; BLOCK],
            given: 0,
            filled: 0,
        }
    }

    /// Appends all values to `out`; a faster [`Filter::values`].
    ///
    /// # Cost
    ///
    /// One decoding pass, in several lanes if the CPU supports it. Memory: 8 bytes per item. A filter with a
    /// small P can hold eight items per byte.
    pub fn append_values(&self, out: &mut Vec<u64>) {
        out.reserve(self.n() as usize);
        let coded = self.coded();
        let decoded = decode::visit(coded.level, coded.bytes, coded.n, coded.params, |values| {
            out.extend_from_slice(values);
            ControlFlow::Continue(())
        });
        let _ = decoded.expect(VALIDATED);
    }

    /// Whether a mapped value is in the set.
    ///
    /// # Cost
    ///
    /// Each call decodes the filter up to the value. Query many values at once with [`Filter::matches_values`].
    /// An index ([`Filter::with_index`]) reduces the time to a fraction of a microsecond.
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
    /// - Many values are tested in a bitmap of the set's values, up to a million items. It takes 13 bytes per item.
    /// - In larger filters, many values are sorted first, and the pass ends at the largest.
    ///
    /// For repeated queries, build an index: [`Filter::into_indexed`].
    ///
    /// In any filter of B bits, k values decode at most `5 * (B + k * x)` bits. Here x is the average length of
    /// 192 items, or 192 bytes if that is more.
    #[must_use]
    pub fn matches_values(&self, values: &[u64]) -> Vec<bool> {
        self.matches_values_by(Strategy::Cheapest, values)
    }

    /// [`Filter::matches_values`] with a given strategy, for tests and benchmarks.
    #[doc(hidden)]
    #[must_use]
    pub fn matches_values_by(&self, strategy: Strategy, values: &[u64]) -> Vec<bool> {
        let found = self.unvalidated.coded().matches(strategy, values, false);
        found.expect(VALIDATED)
    }

    pub(crate) fn scanner(&self) -> Scanner<'_> {
        self.unvalidated.scanner()
    }

    pub(crate) fn coded(&self) -> Coded<'_> {
        self.unvalidated.coded()
    }

    /// The bits, for look-ups that start in the middle.
    pub(crate) fn stream(&self) -> Stream<'_> {
        Stream {
            level: self.level(),
            bytes: self.bytes(),
            params: self.params(),
            range: self.range(),
            end: self.end,
        }
    }

    pub(crate) fn level(&self) -> Level {
        self.unvalidated.level
    }

    /// The strategy of [`Filter::matches_values`] for so many values, for tests and benchmarks.
    #[doc(hidden)]
    #[must_use]
    pub fn planned(&self, values: usize) -> Strategy {
        self.coded().planned(values, false)
    }

    fn any_of(&self, strategy: Strategy, values: &[u64]) -> bool {
        let mut any = false;
        let coded = self.unvalidated.coded();
        let asked = coded.visit_matches(strategy, values, false, |_| {
            any = true;
            false
        });
        asked.expect(VALIDATED);
        any
    }
}

/// Why decoding a [`Filter`] cannot fail.
const VALIDATED: &str = "the bytes of a filter were validated when it was made";

impl<H: ItemHash> Filter<'_, H> {
    /// Returns whether `item` may be in the set: always true for a member, true for a non-member with
    /// probability 1/M.
    ///
    /// # Cost
    ///
    /// As [`Filter::contains_value`].
    #[must_use]
    pub fn contains(&self, item: impl AsRef<[u8]>) -> bool {
        self.contains_value(map_to_range(
            self.hasher().hash(item.as_ref()),
            self.range(),
        ))
    }

    /// Returns for each item whether it may be in the set. Each position gets its own answer, even if items are
    /// equal or collide.
    ///
    /// # Cost
    ///
    /// As [`Filter::matches_values`].
    #[must_use]
    pub fn matches<I: AsRef<[u8]>>(&self, items: &[I]) -> Vec<bool> {
        self.matches_values(&self.map(items))
    }

    /// Whether any of `items` may be in the set.
    ///
    /// # Cost
    ///
    /// As [`Filter::matches`], but stops at the first match.
    #[must_use]
    pub fn match_any<I: AsRef<[u8]>>(&self, items: &[I]) -> bool {
        self.match_any_values(&self.map(items))
    }

    /// The mapped values of `items`, in the given order.
    pub(crate) fn map<I: AsRef<[u8]>>(&self, items: &[I]) -> Vec<u64> {
        map_items(self.level(), self.hasher(), items, self.range())
    }
}

impl<'a, H> UnvalidatedFilter<'a, H> {
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

    /// Sets the SIMD level of later queries.
    #[must_use]
    pub fn with_level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    /// The bytes, not yet validated.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Validates the bytes completely.
    ///
    /// # Errors
    ///
    /// Too short, out of range, trailing data, or padding.
    ///
    /// # Cost
    ///
    /// One decoding pass, at several places at once. Only threads need an allocation (feature `parallel`, from
    /// a million items on).
    pub fn validate(self) -> Result<Filter<'a, H>, DecodeError> {
        let end = decode::validate(self.level, &self.bytes, self.n, self.params)?;
        Ok(Filter {
            unvalidated: self,
            end,
        })
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
        self.matches_values_by(Strategy::Cheapest, values)
    }

    /// [`UnvalidatedFilter::matches_values`] with a given strategy, for tests and benchmarks.
    ///
    /// # Errors
    ///
    /// As [`UnvalidatedFilter::validate`].
    #[doc(hidden)]
    pub fn matches_values_by(
        &self,
        strategy: Strategy,
        values: &[u64],
    ) -> Result<Vec<bool>, DecodeError> {
        self.coded().matches(strategy, values, true)
    }

    fn coded(&self) -> Coded<'_> {
        Coded {
            level: self.level,
            bytes: &self.bytes,
            n: self.n,
            params: self.params,
        }
    }

    fn scanner(&self) -> Scanner<'_> {
        Scanner::new(self.level, &self.bytes, self.n, self.params)
    }
}

impl<H: ItemHash> UnvalidatedFilter<'_, H> {
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

/// An iterator over the values of a [`Filter`] in ascending order, made by [`Filter::values`].
#[derive(Clone, Debug)]
pub struct Values<'a> {
    bytes: &'a [u8],
    params: Params,
    scanner: Scanner<'a>,
    /// Values decoded ahead; those from `given` to `filled` are not returned yet.
    block: [u64; BLOCK],
    given: usize,
    filled: usize,
}

impl Values<'_> {
    /// Decodes the next block. An empty block means that no values are left.
    #[cold]
    #[inline(never)]
    fn refill(&mut self) {
        self.filled = self.scanner.fill(&mut self.block).expect(VALIDATED);
        self.given = 0;
    }

    fn remaining(&self) -> u64 {
        (self.filled - self.given) as u64 + u64::from(self.scanner.remaining())
    }
}

impl Iterator for Values<'_> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        if self.given == self.filled {
            self.refill();
        }
        if self.given < self.filled {
            // The mask has no effect on the index; it saves the bounds check.
            let value = self.block[self.given % BLOCK];
            self.given += 1;
            return Some(value);
        }
        None
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let remaining = usize::try_from(self.remaining());
        (remaining.unwrap_or(usize::MAX), remaining.ok())
    }

    /// A full fold over a large filter takes a third of the time, because several places are decoded at once.
    /// It allocates buffers of at most half a megabyte.
    fn fold<B, F: FnMut(B, u64) -> B>(self, init: B, mut f: F) -> B {
        let decoded = self.block[self.given..self.filled].iter().copied();
        // An `Option`, because the closure must move the value out and put it back.
        let mut folded = Some(decoded.fold(init, &mut f));
        let visited = decode::visit_rest(&self.scanner, self.bytes, self.params, |values| {
            folded = folded
                .take()
                .map(|folded| values.iter().copied().fold(folded, &mut f));
            ControlFlow::Continue(())
        });
        let _end = visited.expect(VALIDATED);
        folded.expect("it is put back each time")
    }
}

impl ExactSizeIterator for Values<'_> {}
impl FusedIterator for Values<'_> {}
