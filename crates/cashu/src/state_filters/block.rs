//! [`Block`]: a Bloom filter with a power of two of bits and 16 positions per element.

use alloc::vec;
use alloc::vec::Vec;

use sha2::{Digest, Sha256};

use super::element::Element;
use super::{Fault, StateFilterError};

/// The 16 numbers of an element from which its positions follow at any width: 64 bytes that a wallet can keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Positions([u32; 16]);

impl Positions {
    /// The numbers of an element: the big-endian words of `SHA256(E || 0u32) || SHA256(E || 1u32)`.
    #[must_use]
    pub fn of(element: &Element) -> Self {
        let mut words = [0; 16];
        for (half, words) in (0_u32..).zip(words.chunks_exact_mut(8)) {
            let digest: [u8; 32] = Sha256::new()
                .chain_update(element)
                .chain_update(half.to_be_bytes())
                .finalize()
                .into();
            let (bytes, _) = digest.as_chunks::<4>();
            for (word, bytes) in words.iter_mut().zip(bytes) {
                *word = u32::from_be_bytes(*bytes);
            }
        }
        Self(words)
    }

    /// The byte and the mask of each position in a block of 2^`width` bits.
    fn at(self, width: u32) -> impl Iterator<Item = (usize, u8)> {
        self.0.into_iter().map(move |word| {
            // The width is 5 to 26.
            let position = word >> (32 - width);
            ((position >> 3) as usize, 0x80 >> (position & 7))
        })
    }
}

/// A bitmap of 2^b bits, for a width b of 5 to 26.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    width: u32,
    bits: Vec<u8>,
}

impl Block {
    /// The minimum of b.
    pub const MIN_WIDTH: u32 = 5;

    /// The maximum of b.
    pub const MAX_WIDTH: u32 = 26;

    /// An empty block of 2^`width` bits.
    ///
    /// # Errors
    ///
    /// `width` is below 5 or above 26.
    pub fn new(width: u32) -> Result<Self, StateFilterError> {
        let bits = vec![0; 1 << (check_width(width)? - 3)];
        Ok(Self { width, bits })
    }

    /// A block with this bitmap. Every bitmap of a valid length is a valid block.
    ///
    /// # Errors
    ///
    /// The number of bytes is not a power of two from 4 to 8,388,608.
    pub fn from_bytes(bits: Vec<u8>) -> Result<Self, StateFilterError> {
        let bytes = bits.len();
        let fault = StateFilterError(Fault::BlockLength { bytes });
        if !bytes.is_power_of_two() {
            return Err(fault);
        }
        let width = check_width(bytes.ilog2() + 3).map_err(|_| fault)?;
        Ok(Self { width, bits })
    }

    /// b: the binary logarithm of the number of bits.
    #[must_use]
    pub fn width(&self) -> u32 {
        self.width
    }

    /// The bitmap.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bits
    }

    /// Inserts an element.
    pub fn insert(&mut self, element: &Element) {
        for (byte, mask) in Positions::of(element).at(self.width) {
            self.bits[byte] |= mask;
        }
    }

    /// Returns whether the element may have been inserted. False is certain.
    #[must_use]
    pub fn may_contain(&self, element: &Element) -> bool {
        self.may_contain_at(Positions::of(element))
    }

    /// [`Block::may_contain`] for an element whose numbers are known.
    #[must_use]
    pub fn may_contain_at(&self, positions: Positions) -> bool {
        positions
            .at(self.width)
            .all(|(byte, mask)| self.bits[byte] & mask != 0)
    }

    /// The block of the same elements with 2^`width` bits.
    ///
    /// # Errors
    ///
    /// `width` is below 5 or above this block's width.
    pub fn fold(&self, width: u32) -> Result<Self, StateFilterError> {
        if check_width(width)? > self.width {
            let (width, wanted) = (self.width, width);
            return Err(StateFilterError(Fault::Wider { width, wanted }));
        }
        let mut bits = self.bits.clone();
        for _ in width..self.width {
            // A position of the smaller block covers two neighbours of the larger one.
            let pairs = bits.chunks_exact(2);
            bits = pairs
                .map(|pair| halve(pair[0]) << 4 | halve(pair[1]))
                .collect();
        }
        Ok(Self { width, bits })
    }

    /// The number of set bits.
    #[must_use]
    pub fn popcount(&self) -> u32 {
        self.bits.iter().map(|byte| byte.count_ones()).sum()
    }

    /// The probability that an element that was not inserted matches: `(popcount / 2^b)^16`.
    #[must_use]
    pub fn false_positive_rate(&self) -> f64 {
        let mut rate = f64::from(self.popcount()) / f64::from(1_u32 << self.width);
        for _ in 0..4 {
            rate *= rate;
        }
        rate
    }

    /// The number of insertions after which a block of 2^`width` bits is sealed:
    /// `floor(2^width * 6931471805599453 / 160000000000000000)`, which leaves half the bits clear.
    ///
    /// # Errors
    ///
    /// `width` is below 5 or above 26.
    pub fn capacity(width: u32) -> Result<u32, StateFilterError> {
        let bits = 1_u128 << check_width(width)?;
        // At most 2,907,269.
        Ok((bits * 6_931_471_805_599_453 / 160_000_000_000_000_000) as u32)
    }

    /// The width to which a block of `count` insertions is folded when its time is over: the smallest whose
    /// capacity is at least `count`, or 26.
    #[must_use]
    pub fn width_for(count: u32) -> u32 {
        let fits = |&width: &u32| Self::capacity(width).is_ok_and(|capacity| capacity >= count);
        (Self::MIN_WIDTH..=Self::MAX_WIDTH)
            .find(fits)
            .unwrap_or(Self::MAX_WIDTH)
    }
}

fn check_width(width: u32) -> Result<u32, StateFilterError> {
    if !(Block::MIN_WIDTH..=Block::MAX_WIDTH).contains(&width) {
        return Err(StateFilterError(Fault::Width { width }));
    }
    Ok(width)
}

/// Eight bits to four: each is set if one of its two neighbours is.
fn halve(byte: u8) -> u8 {
    let pairs = (byte | byte << 1) & 0b1010_1010;
    (pairs >> 4 & 8) | (pairs >> 3 & 4) | (pairs >> 2 & 2) | (pairs >> 1 & 1)
}
