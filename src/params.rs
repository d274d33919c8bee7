//! [`Params`]: the two parameters of a filter, and the sizes and rates that follow from them.
//!
//! A set of N items is mapped to `[0, F)` with F = N * M. The mean gap between neighbours is therefore M for
//! any N. The low P bits of a gap are written as they are and the rest in unary. M sets the false-positive rate
//! (1/M). P affects only the compression.
//!
//! A. Kiely, "Selecting the Golomb parameter in Rice coding", 2004, derives the P that suits a mean.
//!
//! Invariant: a `Params` has 0 <= P <= 32 and 1 <= M < 2^32, so F = N * M fits in 64 bits for every N < 2^32.

use crate::error::{DecodeError, DecodeFault, ParamsError, ParamsFault};

/// The remainder bits P and the inverse false-positive rate M of a filter.
///
/// ```
/// use nutfilter::{Params, SortedHashes};
///
/// let params = Params::default();
/// assert_eq!((params.p(), params.m()), (19, 784_931));
/// assert_eq!(params.expected_bytes(1_000_000), 2_631_549);
///
/// // One false positive in 1,000, in 11.5 bits per item.
/// let params = Params::for_rate(1e-3)?;
/// let (members, others) = (0..100_000_u32, 100_000..200_000_u32);
/// let filter = SortedHashes::from_items(members.map(u32::to_be_bytes)).encode(params)?;
/// let bits = filter.bytes().len() as f64 * 8.0 / f64::from(filter.n());
/// assert!((bits - 11.5).abs() < 0.02 && (params.bits_per_item() - 11.5).abs() < 0.02);
/// let found = filter.matches(&others.map(u32::to_be_bytes).collect::<Vec<_>>());
/// assert!((60..140).contains(&found.iter().filter(|found| **found).count()));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    p: u8,
    m: u32,
}

impl Default for Params {
    fn default() -> Self {
        Self::CASHU
    }
}

impl Params {
    /// P = 19 and M = 784931, the values of NUT-23, NUT-25 and BIP158.
    pub const CASHU: Self = Self { p: 19, m: 784_931 };

    /// The maximum of P in the format.
    pub const MAX_P: u32 = 32;

    /// Parameters with the given P and M.
    ///
    /// # Errors
    ///
    /// P is above 32, or M is 0 or above 2^32 - 1.
    pub const fn new(p: u32, m: u64) -> Result<Self, ParamsError> {
        if p > Self::MAX_P {
            return Err(ParamsError(ParamsFault::RemainderBits { p: p as u64 }));
        }
        if m == 0 || m > u32::MAX as u64 {
            return Err(ParamsError(ParamsFault::InverseRate { m }));
        }
        Ok(Self { p: p as u8, m: m as u32 })
    }

    /// Parameters with the given M and the P that needs the fewest bits ([`Params::best_p`]).
    ///
    /// # Errors
    ///
    /// M is 0 or above 2^32 - 1.
    pub fn with_best_p(m: u64) -> Result<Self, ParamsError> {
        Self::new(Self::best_p(m)?, m)
    }

    /// The parameters of the smallest filter with a false-positive rate of at most `rate`, which must be
    /// between 1/(2^32 - 1) and 1.
    ///
    /// # Errors
    ///
    /// `rate` is outside that interval or not a number.
    pub fn for_rate(rate: f64) -> Result<Self, ParamsError> {
        let fault = ParamsError(ParamsFault::Rate { rate });
        if !(rate > 0.0 && rate <= 1.0) {
            return Err(fault);
        }
        let estimate = libm::ceil(1.0 / rate);
        if estimate > f64::from(u32::MAX) {
            return Err(fault);
        }
        // The division rounds, so the estimate can be off by one either way. The rate that the filter will have
        // decides.
        let keeps = |m: u64| m > 0 && 1.0 / m as f64 <= rate;
        let mut m = estimate as u64;
        if keeps(m - 1) {
            m -= 1;
        } else if !keeps(m) {
            m += 1;
        }
        Self::with_best_p(m).map_err(|_| fault)
    }

    /// The P that codes gaps of mean M in the fewest bits.
    ///
    /// P and P + 1 give equal lengths at M = 2^P / ln(golden ratio), about 2.078 * 2^P. This function compares
    /// the two lengths themselves ([`Params::bits_per_item`]).
    ///
    /// # Errors
    ///
    /// M is 0 or above 2^32 - 1.
    pub fn best_p(m: u64) -> Result<u32, ParamsError> {
        let mut best = Self::new(0, m)?;
        for p in 1..=Self::MAX_P {
            let candidate = Self::new(p, m)?;
            if candidate.bits_per_item() >= best.bits_per_item() {
                break;
            }
            best = candidate;
        }
        Ok(best.p())
    }

    /// P: the number of low bits of a gap that are written as they are.
    #[must_use]
    pub const fn p(self) -> u32 {
        self.p as u32
    }

    /// M: the inverse of the false-positive rate, and the mean gap.
    #[must_use]
    pub const fn m(self) -> u64 {
        self.m as u64
    }

    /// F = `n` * M: the values of a set of `n` items lie in `[0, F)`.
    #[must_use]
    pub const fn range(self, n: u32) -> u64 {
        // Both factors are below 2^32, so the product is below 2^64.
        n as u64 * self.m()
    }

    /// The probability that an item outside the set matches: 1/M.
    #[must_use]
    pub fn false_positive_rate(self) -> f64 {
        1.0 / f64::from(self.m)
    }

    /// The mean length of a coded gap in bits, for uniform hashes.
    ///
    /// Gaps between N uniform points are exponential with mean M. Both ends are rounded down, so the
    /// probability of a gap of at least k (k >= 1) is `M * (e^(1/M) - 1) * e^(-k/M)`. The mean quotient is the
    /// sum of that over the multiples of 2^P: `M * (e^(1/M) - 1) / (e^(2^P/M) - 1)`. A zero bit and P bits are
    /// added.
    #[must_use]
    pub fn bits_per_item(self) -> f64 {
        let rate = self.false_positive_rate();
        let divisor = (1_u64 << self.p) as f64;
        let mean_quotient = f64::from(self.m) * libm::expm1(rate) / libm::expm1(divisor * rate);
        f64::from(self.p) + 1.0 + mean_quotient
    }

    /// The mean size in bytes of a filter of `n` items with uniform hashes, rounded up. It is limited to
    /// [`Params::max_bytes`], because for few items and a small P the asymptotic mean exceeds that maximum.
    #[must_use]
    pub fn expected_bytes(self, n: u32) -> u64 {
        let mean = libm::ceil(f64::from(n) * self.bits_per_item() / 8.0) as u64;
        mean.min(self.max_bytes(n))
    }

    /// The minimum size in bytes of a filter of `n` items: every quotient is 0.
    #[must_use]
    pub const fn min_bytes(self, n: u32) -> u64 {
        // At most 2^32 * 33 bits.
        (n as u64 * (self.p as u64 + 1)).div_ceil(8)
    }

    /// The maximum size in bytes of a filter of `n` items.
    ///
    /// The values are below F, so the quotients add up to at most (F - 1) >> P.
    #[must_use]
    pub const fn max_bytes(self, n: u32) -> u64 {
        if n == 0 {
            return 0;
        }
        let bits = n as u128 * (self.p as u128 + 1) + (self.max_quotient(n) as u128);
        // Below 2^64 / 8 + 2^38, so it fits.
        bits.div_ceil(8) as u64
    }

    /// The maximum sum of the quotients of `n` items (at least one).
    pub(crate) const fn max_quotient(self, n: u32) -> u64 {
        (self.range(n) - 1) >> self.p
    }

    /// Checks that a filter of `n` items can have `len` bytes, and returns `n` as a 32-bit number.
    ///
    /// With the default parameters only 20 to 21.5 bits per item pass. A declared N therefore cannot make a
    /// reader allocate much more memory than the bytes that it already holds.
    ///
    /// # Errors
    ///
    /// Bad parameter if `n` >= 2^32, otherwise too short or too long.
    ///
    /// # Cost
    ///
    /// O(1), without allocation.
    pub const fn check_length(self, n: u64, len: u64) -> Result<u32, DecodeError> {
        if n > u32::MAX as u64 {
            return Err(DecodeError(DecodeFault::ItemCount { n }));
        }
        let n = n as u32;
        let (min, max) = (self.min_bytes(n), self.max_bytes(n));
        if len < min {
            return Err(DecodeError(DecodeFault::TooFewBytes { n, len, min }));
        }
        if len > max {
            return Err(DecodeError(DecodeFault::TooManyBytes { n, len, max }));
        }
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p_and_m_outside_the_format_are_rejected() {
        for (p, m, ok) in [
            (0, 1, true),
            (32, u64::from(u32::MAX), true),
            (33, 1, false),
            (255, 1, false),
            (19, 0, false),
            (19, 1 << 32, false),
        ] {
            assert_eq!(Params::new(p, m).is_ok(), ok, "P = {p}, M = {m}");
        }
        for m in [0, 1 << 32] {
            assert!(Params::best_p(m).is_err(), "M = {m}");
            assert!(Params::with_best_p(m).is_err(), "M = {m}");
        }
    }

    #[test]
    fn bits_per_item_match_published_sizes() {
        let bits = Params::CASHU.bits_per_item();
        assert!((bits - 21.0524).abs() < 1e-4, "{bits}");
        // M = 1 makes the mean gap exactly 1, so P = 0 costs two bits.
        let one = Params::new(0, 1).unwrap().bits_per_item();
        assert!((one - 2.0).abs() < 1e-12, "{one}");
    }

    #[test]
    fn best_p_is_never_beaten_by_another_p() {
        for m in (0..32).map(|s| 1_u64 << s).chain([3, 100, 784_931, u64::from(u32::MAX)]) {
            let best = Params::with_best_p(m).unwrap();
            for p in 0..=32 {
                let other = Params::new(p, m).unwrap();
                assert!(
                    best.bits_per_item() <= other.bits_per_item(),
                    "M = {m}: {best:?} against P = {p}"
                );
            }
        }
        assert_eq!(Params::best_p(784_931).unwrap(), 19);
    }

    #[test]
    fn best_p_changes_at_the_golden_ratio() {
        let switch = 1.0 / libm::log(f64::midpoint(1.0, 5.0_f64.sqrt()));
        for p in 12..31 {
            let m = switch * (1_u64 << p) as f64;
            assert_eq!(Params::best_p((m * 0.999) as u64).unwrap(), p);
            assert_eq!(Params::best_p((m * 1.001) as u64).unwrap(), p + 1);
        }
    }

    #[test]
    fn for_rate_never_exceeds_the_given_rate() {
        for rate in [1.0, 0.5, 0.1, 1e-3, 1.3e-6, 1.0 / f64::from(u32::MAX)] {
            let params = Params::for_rate(rate).unwrap();
            assert!(params.false_positive_rate() <= rate, "{rate}");
        }
        for m in (1..200_000_u32).chain(u32::MAX - 1000..=u32::MAX) {
            let exact = 1.0 / f64::from(m);
            let params = Params::for_rate(exact).unwrap();
            assert_eq!(params.m(), u64::from(m));
            if m < u32::MAX {
                // The next lower rate needs the next M.
                let params = Params::for_rate(exact.next_down()).unwrap();
                assert_eq!(params.m(), u64::from(m) + 1);
            }
        }
        assert!(Params::for_rate((1.0 / f64::from(u32::MAX)).next_down()).is_err());
        for rate in [0.0, -1.0, 1.0_f64.next_up(), f64::NAN, f64::INFINITY] {
            assert!(Params::for_rate(rate).is_err(), "{rate}");
        }
    }

    #[test]
    fn expected_size_lies_between_minimum_and_maximum() {
        for p in [0, 1, 6, 19, 32] {
            for m in [1, 8, 1000, 784_931, u64::from(u32::MAX)] {
                let params = Params::new(p, m).unwrap();
                for n in [0, 1, 2, 3, 100, u32::MAX] {
                    let bytes = params.expected_bytes(n);
                    assert!(bytes <= params.max_bytes(n), "{params:?}, {n} items: {bytes}");
                    assert!(bytes >= params.min_bytes(n), "{params:?}, {n} items: {bytes}");
                }
            }
        }
    }

    #[test]
    fn largest_filter_has_a_length() {
        let widest = Params::new(0, u64::from(u32::MAX)).unwrap();
        assert_eq!(
            widest.max_bytes(u32::MAX),
            2_305_843_008_676_823_040,
            "(2^32-1)^2 - 1 quotient bits and 2^32 - 1 zeros"
        );
    }
}
