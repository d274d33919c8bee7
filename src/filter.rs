//! [`Filter`]: bytes that are known to be a filter, and the questions one can ask of it.
//!
//! Bytes from somebody else pass two gates. [`AdmittedFilter`] has passed the first, O(1): their length
//! is possible for N, P and M. [`Filter`] has passed the second, one decoding pass: every item is in
//! range and the bytes end where the items do. Whoever holds a `Filter` therefore gets answers and no
//! errors.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::iter::FusedIterator;
use core::ops::ControlFlow;

use crate::arch::Level;
use crate::decode::{self, BLOCK, Scanner};
use crate::encode::{self, Encoded};
use crate::error::{BuildError, DecodeError};
use crate::hash::{ItemHash, Nut25, Unhashed, map_to_range};
use crate::matching::{Coded, Strategy, Stream, map_items};
use crate::params::Params;

/// A validated filter over borrowed or owned bytes.
///
/// "Not contained" is certain; "contained" is wrong for one stranger in M.
///
/// ```
/// use nutfilter::{Filter, Nut25, Params, SortedHashes};
///
/// let notes = [[2_u8; 33], [3; 33]];
/// let made = SortedHashes::<Nut25>::from_items(&notes).encode(Params::default())?;
///
/// // What a wallet receives: bytes, and the numbers that came with them.
/// let filter = Filter::<Nut25>::parse(made.bytes(), 2, Params::default())?;
/// assert_eq!(filter.matches(&[[3; 33], [4; 33]]), [true, false]);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter<'a, H = Nut25> {
    admitted: AdmittedFilter<'a, H>,
    /// The bit position where the last item ends.
    end: u64,
}

/// Bytes whose length is possible for their N, P and M, and of which nothing else is known.
///
/// Made by [`Filter::admit`]. Use it where the filter is asked one batch of questions and dropped: then
/// validation and matching share one pass.
#[derive(Clone, Debug)]
pub struct AdmittedFilter<'a, H = Nut25> {
    bytes: Cow<'a, [u8]>,
    n: u32,
    params: Params,
    hasher: H,
    /// Changes no answer, and so is no part of equality.
    level: Level,
}

impl<H: PartialEq> PartialEq for AdmittedFilter<'_, H> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
            && self.n == other.n
            && self.params == other.params
            && self.hasher == other.hasher
    }
}

impl<H: Eq> Eq for AdmittedFilter<'_, H> {}

impl<'a, H: Default> Filter<'a, H> {
    /// The filter of `n` items in `bytes`, checked from the first bit to the last.
    ///
    /// # Errors
    ///
    /// Every class of [`DecodeErrorKind`](crate::DecodeErrorKind) except non-canonical.
    ///
    /// # Cost
    ///
    /// The admission bound in O(1), then one decoding pass, as [`AdmittedFilter::validate`]. Borrowed bytes stay
    /// borrowed.
    pub fn parse(
        bytes: impl Into<Cow<'a, [u8]>>,
        n: u64,
        params: Params,
    ) -> Result<Self, DecodeError> {
        Self::parse_with(H::default(), bytes, n, params)
    }

    /// The admission bound alone: see [`Params::admit`].
    ///
    /// # Errors
    ///
    /// Bad parameter, too short, too long.
    pub fn admit(
        bytes: impl Into<Cow<'a, [u8]>>,
        n: u64,
        params: Params,
    ) -> Result<AdmittedFilter<'a, H>, DecodeError> {
        Self::admit_with(H::default(), bytes, n, params)
    }
}

impl Filter<'static, Unhashed> {
    /// The filter of values that the caller has mapped: sorted, equal ones allowed, each below N * M.
    ///
    /// # Errors
    ///
    /// A value that is smaller than the one before or not below N * M, more than 2^32 - 1 values, or no
    /// memory for the filter.
    pub fn from_values(values: &[u64], params: Params) -> Result<Self, BuildError> {
        let encoded = encode::encode_values(values, params)?;
        Ok(Self::encoded(encoded, params, Unhashed))
    }
}

impl<'a, H> Filter<'a, H> {
    /// [`Filter::parse`] with a hasher that has a key.
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
        Self::admit_with(hasher, bytes, n, params)?.validate()
    }

    /// [`Filter::admit`] with a hasher that has a key.
    ///
    /// # Errors
    ///
    /// As [`Filter::admit`].
    pub fn admit_with(
        hasher: H,
        bytes: impl Into<Cow<'a, [u8]>>,
        n: u64,
        params: Params,
    ) -> Result<AdmittedFilter<'a, H>, DecodeError> {
        let bytes = bytes.into();
        let n = params.admit(n, bytes.len() as u64)?;
        Ok(AdmittedFilter {
            bytes,
            n,
            params,
            hasher,
            level: Level::detect(),
        })
    }

    /// What the encoder made needs no check.
    pub(crate) fn encoded(Encoded { bytes, n, end }: Encoded, params: Params, hasher: H) -> Self {
        let admitted = AdmittedFilter {
            bytes: Cow::Owned(bytes),
            n,
            params,
            hasher,
            level: Level::detect(),
        };
        Self { admitted, end }
    }

    /// The same filter, asked at this level.
    #[must_use]
    pub fn with_level(mut self, level: Level) -> Self {
        self.admitted.level = level;
        self
    }

    /// N: the number of items, equal ones counted each.
    #[must_use]
    pub fn n(&self) -> u32 {
        self.admitted.n
    }

    /// The parameters that the filter was made with.
    #[must_use]
    pub fn params(&self) -> Params {
        self.admitted.params
    }

    /// F = N * M: all values are below it.
    #[must_use]
    pub fn range(&self) -> u64 {
        self.params().range(self.n())
    }

    /// The hasher that questions are asked with.
    #[must_use]
    pub fn hasher(&self) -> &H {
        &self.admitted.hasher
    }

    /// The coded set.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.admitted.bytes
    }

    /// The coded set, copied only where it was borrowed.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.admitted.bytes.into_owned()
    }

    /// The same filter with bytes of its own.
    #[must_use]
    pub fn into_owned(self) -> Filter<'static, H> {
        Filter {
            admitted: AdmittedFilter {
                bytes: Cow::Owned(self.admitted.bytes.into_owned()),
                ..self.admitted
            },
            end: self.end,
        }
    }

    /// The same filter asked with another hasher: to find out which one it was made with.
    #[must_use]
    pub fn with_hasher<G>(&self, hasher: G) -> Filter<'_, G> {
        Filter {
            admitted: AdmittedFilter {
                bytes: Cow::Borrowed(self.bytes()),
                n: self.n(),
                params: self.params(),
                hasher,
                level: self.level(),
            },
            end: self.end,
        }
    }

    /// The mapped values in order, equal ones each.
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

    /// Puts the values behind what `out` holds: [`Filter::values`], all at once.
    ///
    /// # Cost
    ///
    /// One decoding pass, in lanes where the CPU has them; room for 8 bytes an item (and a filter of a small
    /// P can hold eight items a byte).
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
    /// Decodes up to the value, each time: ask for many at once ([`Filter::matches_values`]). An index
    /// ([`Filter::with_index`]) makes it a fraction of a microsecond.
    #[must_use]
    pub fn contains_value(&self, value: u64) -> bool {
        self.any_of(Strategy::Merge, &[value])
    }

    /// Whether any of the mapped values is in the set.
    ///
    /// # Cost
    ///
    /// As [`Filter::matches_values`], but it ends with the first match.
    #[must_use]
    pub fn match_any_values(&self, values: &[u64]) -> bool {
        self.any_of(Strategy::Cheapest, values)
    }

    /// For each mapped value whether it is in the set, in the order given.
    ///
    /// # Cost
    ///
    /// One decoding pass over the filter. Of few values each is then looked up from a place that the pass noted
    /// shortly before it; many are sorted first, and the pass ends at the largest. Which of the two is reckoned from
    /// the numbers of both and the length of the filter. The places take a tenth of the filter's memory as a rule,
    /// and less than the filter itself in one that was made to be slow. If you ask more than once, build an index:
    /// [`Filter::into_indexed`].
    ///
    /// In any filter of B bits, k values decode at most `5 * (B + k * x)` bits, where x is what 192 items have on
    /// average, or 192 bytes where that is more.
    #[must_use]
    pub fn matches_values(&self, values: &[u64]) -> Vec<bool> {
        self.matches_values_by(Strategy::Cheapest, values)
    }

    /// [`Filter::matches_values`] in a way that the caller chooses: for tests and benchmarks.
    #[doc(hidden)]
    #[must_use]
    pub fn matches_values_by(&self, strategy: Strategy, values: &[u64]) -> Vec<bool> {
        let found = self.admitted.coded().matches(strategy, values, false);
        found.expect(VALIDATED)
    }

    pub(crate) fn scanner(&self) -> Scanner<'_> {
        self.admitted.scanner()
    }

    pub(crate) fn coded(&self) -> Coded<'_> {
        self.admitted.coded()
    }

    /// The bits, for look-ups that begin in the middle.
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
        self.admitted.level
    }

    /// The way that [`Filter::matches_values`] takes for so many values: for tests and benchmarks.
    #[doc(hidden)]
    #[must_use]
    pub fn planned(&self, values: usize) -> Strategy {
        self.coded().planned(values, false)
    }

    fn any_of(&self, strategy: Strategy, values: &[u64]) -> bool {
        let mut any = false;
        let coded = self.admitted.coded();
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
    /// Whether `item` may be in the set: never false for a member, true for one stranger in M.
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

    /// For each item whether it may be in the set: one answer for each position, whether or not items
    /// are equal or collide.
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
    /// As [`Filter::matches`], but it ends with the first match.
    #[must_use]
    pub fn match_any<I: AsRef<[u8]>>(&self, items: &[I]) -> bool {
        self.match_any_values(&self.map(items))
    }

    /// The mapped values of `items`, in their order.
    pub(crate) fn map<I: AsRef<[u8]>>(&self, items: &[I]) -> Vec<u64> {
        map_items(self.level(), self.hasher(), items, self.range())
    }
}

impl<'a, H> AdmittedFilter<'a, H> {
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

    /// The hasher that questions are asked with.
    #[must_use]
    pub fn hasher(&self) -> &H {
        &self.hasher
    }

    /// The same filter, asked at this level.
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

    /// Checks the bytes from the first bit to the last.
    ///
    /// # Errors
    ///
    /// Too short, out of range, trailing data, padding.
    ///
    /// # Cost
    ///
    /// One decoding pass, in many places at once; nothing is allocated but what threads need (feature
    /// `parallel`, from a million items on).
    pub fn validate(self) -> Result<Filter<'a, H>, DecodeError> {
        let end = decode::validate(self.level, &self.bytes, self.n, self.params)?;
        Ok(Filter {
            admitted: self,
            end,
        })
    }

    /// For each mapped value whether it is in the set, in the order given; the whole filter is validated
    /// in the same pass.
    ///
    /// # Errors
    ///
    /// As [`AdmittedFilter::validate`].
    ///
    /// # Cost
    ///
    /// As [`Filter::matches_values`], but the pass always goes to the end.
    pub fn matches_values(&self, values: &[u64]) -> Result<Vec<bool>, DecodeError> {
        self.matches_values_by(Strategy::Cheapest, values)
    }

    /// [`AdmittedFilter::matches_values`] in a way that the caller chooses: for tests and benchmarks.
    ///
    /// # Errors
    ///
    /// As [`AdmittedFilter::validate`].
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

impl<H: ItemHash> AdmittedFilter<'_, H> {
    /// For each item whether it may be in the set; the whole filter is validated in the same pass.
    ///
    /// # Errors
    ///
    /// As [`AdmittedFilter::validate`]: a filter that is wrong anywhere answers nothing.
    ///
    /// # Cost
    ///
    /// As [`AdmittedFilter::matches_values`].
    pub fn matches<I: AsRef<[u8]>>(&self, items: &[I]) -> Result<Vec<bool>, DecodeError> {
        let range = self.params.range(self.n);
        self.matches_values(&map_items(self.level, &self.hasher, items, range))
    }
}

/// The values of a [`Filter`], never decreasing; made by [`Filter::values`].
#[derive(Clone, Debug)]
pub struct Values<'a> {
    bytes: &'a [u8],
    params: Params,
    scanner: Scanner<'a>,
    /// Decoded ahead; those from `given` to `filled` are still to come.
    block: [u64; BLOCK],
    given: usize,
    filled: usize,
}

impl Values<'_> {
    /// Decodes the next block; none are left where it stays empty.
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
            // The mask changes nothing, and spares the check that it makes needless.
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

    /// From one end to the other the values of a large filter take a third of the time: several places are
    /// decoded at once. Buffers of at most half a megabyte are allocated for it.
    fn fold<B, F: FnMut(B, u64) -> B>(self, init: B, mut f: F) -> B {
        let decoded = self.block[self.given..self.filled].iter().copied();
        // An option, because a visitor cannot be given the value and give it back.
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
