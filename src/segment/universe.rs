//! [`Universe`]: the fixed range of the values of a sequence of segments.

use super::error::{SegmentError, SegmentFault};

/// The values below 2^w, for a width w of 8 to 56 bits.
///
/// All segments of a sequence have one universe. The value of an element is the top w bits of its hash, so it
/// does not depend on the other elements.
///
/// ```
/// use nutfilter::segment::Universe;
///
/// let universe = Universe::new(16)?;
/// assert_eq!(universe.value_of(0xdce0_2b59_3be7_ddd8), 0xdce0);
/// assert_eq!(universe.remainder_bits(1000), 5);
/// # Ok::<(), nutfilter::segment::SegmentError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Universe {
    width: u8,
}

/// ln((1 + sqrt 5) / 2), in units of 2^-32. P and P + 1 give equal lengths at a mean gap of 2^P divided by this.
const LN_GOLDEN_RATIO: u128 = 2_066_789_051;

/// sqrt(5) / 10, in units of 2^-32: corrects the rule for short gaps, because gaps are whole numbers.
const SHORT_GAPS: u128 = 960_383_883;

impl Universe {
    /// The minimum of w.
    pub const MIN_WIDTH: u32 = 8;

    /// The maximum of w. The code of a value then has at most 55 remainder bits.
    pub const MAX_WIDTH: u32 = 56;

    /// The universe of `width` bits.
    ///
    /// # Errors
    ///
    /// `width` is below 8 or above 56.
    pub const fn new(width: u32) -> Result<Self, SegmentError> {
        if width < Self::MIN_WIDTH || width > Self::MAX_WIDTH {
            return Err(SegmentError(SegmentFault::Width { width }));
        }
        Ok(Self { width: width as u8 })
    }

    /// w: the number of bits of a value.
    #[must_use]
    pub const fn width(self) -> u32 {
        self.width as u32
    }

    /// 2^w: the number of values.
    #[must_use]
    pub const fn size(self) -> u64 {
        1 << self.width
    }

    /// The value of an element with this 64-bit hash: its top w bits.
    #[must_use]
    pub const fn value_of(self, hash: u64) -> u64 {
        hash >> self.unused_bits()
    }

    /// P of a segment of `n` values: the best P for a mean gap of 2^w / n.
    ///
    /// With the integers a = 2066789051 and b = 960383883, P is the bit length of
    /// `floor((2^w * a + n * b) / (n * 2^32))`; for n = 0 it is 0. That is the P of
    /// [`Params::best_p`](crate::Params::best_p) for every whole mean gap.
    #[must_use]
    pub const fn remainder_bits(self, n: u32) -> u32 {
        match n {
            0 => 0,
            _ => best_remainder_bits(self.size(), n),
        }
    }

    /// The number of low bits of a hash that are not part of the value.
    pub(super) const fn unused_bits(self) -> u32 {
        u64::BITS - self.width as u32
    }
}

/// The best P for `n` values (not 0) of a range.
pub(super) const fn best_remainder_bits(range: u64, n: u32) -> u32 {
    let n = n as u128;
    // At most 2^56 * 2^31, and 2^32 * 2^30.
    let scaled = ((range as u128) * LN_GOLDEN_RATIO + n * SHORT_GAPS) / (n << 32);
    u128::BITS - scaled.leading_zeros()
}
