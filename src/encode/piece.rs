//! [`Piece`]: a part of a filter that several machines encode.
//!
//! Each machine has the hashes of one range. The code of the first item of a piece depends on the last value of the
//! piece before it, which another machine has. A piece therefore holds its first and last value, and the codes of
//! all items but the first.

use alloc::vec::Vec;

use super::coder::Coder;
use super::{count, encode_run};
use crate::arch::SimdLevel;
use crate::error::{BuildError, BuildFault};
use crate::hash::{ItemHash, fingerprint};
use crate::params::Params;
use crate::sorted_hashes::SortedHashes;

const MAGIC: &[u8; 8] = b"nutpiece";
const VERSION: u32 = 1;
const HEADER: usize = 56;
const CHECKSUM: usize = 8;

/// The part of a filter whose hashes fall into one range of the hash space.
///
/// For sets that are distributed over several machines. Count the items first: every value depends on N. Divide the
/// hashes into ranges, for example by their upper bits. Encode one piece per range, anywhere, and [`stitch`](super::stitch) them in
/// the order of the ranges.
///
/// ```
/// use nutfilter::{BuildError, Params, SortedHashes};
/// use nutfilter::pieces::{Piece, stitch};
///
/// let set = SortedHashes::from_items(["one", "two", "three"]);
/// let (low, high) = set.as_slice().split_at(2);
/// let pieces = [low, high].map(|hashes| {
///     let range = SortedHashes::from_hashes(hashes.to_vec());
///     Piece::encode(&range, 3, Params::default())
/// });
/// let mut bytes = Vec::new();
/// let write = |part: &[u8]| Ok::<(), BuildError>(bytes.extend_from_slice(part));
/// stitch(3, Params::default(), pieces.into_iter().flatten(), write)?;
/// assert_eq!(bytes, set.encode(Params::default())?.bytes());
/// # Ok::<(), BuildError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub(super) params: Params,
    /// N of the whole set.
    pub(super) n: u32,
    pub(super) items: u32,
    /// The first and the last value; 0 if there are no items.
    pub(super) first: u64,
    pub(super) last: u64,
    /// The codes of all items but the first, and their number of bits.
    pub(super) bytes: Vec<u8>,
    pub(super) bits: u64,
}

impl Piece {
    /// Encodes the hashes of one range. `n` is the number of items of the whole set.
    ///
    /// # Errors
    ///
    /// The range has more than `n` items, or memory for the bytes cannot be allocated.
    ///
    /// # Cost
    ///
    /// As [`SortedHashes::encode`], on one thread.
    pub fn encode<H: ItemHash>(
        range: &SortedHashes<H>,
        n: u32,
        params: Params,
    ) -> Result<Self, BuildError> {
        Self::encode_at(SimdLevel::detect(), range.as_slice(), n, params)
    }

    pub(super) fn encode_at(
        level: SimdLevel,
        hashes: &[u64],
        n: u32,
        params: Params,
    ) -> Result<Self, BuildError> {
        let items = count(hashes.len())?;
        if items > n {
            let pushed = u64::from(items);
            return Err(BuildError(BuildFault::OtherCount { n, pushed }));
        }
        let coder = Coder::of_hashes(level, params, params.range(n));
        let (first, rest) = match hashes.split_first() {
            Some((&first, rest)) => (coder.value_of(first), rest),
            None => (0, hashes),
        };
        let (bytes, bits) = encode_run(coder, rest, first, n)?;
        let last = rest.last().map_or(first, |&hash| coder.value_of(hash));
        Ok(Self { params, n, items, first, last, bytes, bits })
    }

    /// The number of items of this piece.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.items
    }

    /// Returns whether the piece has no items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items == 0
    }

    /// N: the number of items of the whole set.
    #[must_use]
    pub fn n(&self) -> u32 {
        self.n
    }

    /// The parameters of the filter.
    #[must_use]
    pub fn params(&self) -> Params {
        self.params
    }

    /// Serialises the piece.
    ///
    /// ```text
    ///   0  "nutpiece"        8  version 1 (u32)   12  P (u32)     16  M (u32)     20  N (u32)
    ///  24  items (u32)      28  zero (u32)        32  first value (u64)
    ///  40  last value (u64)                       48  number of bits (u64)
    ///  56  the codes of all items but the first, padded with zero bits to a byte
    ///      last 8 bytes: checksum (u64) of all before; all numbers little-endian
    /// ```
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER + self.bytes.len() + CHECKSUM);
        bytes.extend_from_slice(MAGIC);
        for number in [VERSION, self.params.p(), self.params.m() as u32, self.n, self.items, 0] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for number in [self.first, self.last, self.bits] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.bytes);
        bytes.extend_from_slice(&fingerprint(&bytes).to_le_bytes());
        bytes
    }

    /// Deserialises a piece written by [`Piece::to_bytes`].
    ///
    /// # Errors
    ///
    /// The bytes are truncated, damaged, of another version, or not a piece. The checksum protects only against
    /// accidents, so accept pieces from your own machines only, or validate the stitched filter.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BuildError> {
        let len = bytes.len() as u64;
        let malformed = BuildError(BuildFault::MalformedPiece { len });
        let u32_at = |at: usize| u32::from_le_bytes(core::array::from_fn(|i| bytes[at + i]));
        let u64_at = |at: usize| u64::from_le_bytes(core::array::from_fn(|i| bytes[at + i]));
        if bytes.len() < HEADER + CHECKSUM || !bytes.starts_with(MAGIC) || u32_at(8) != VERSION {
            return Err(malformed);
        }
        let (content, _) = bytes.split_at(bytes.len() - CHECKSUM);
        if fingerprint(content) != u64_at(content.len()) {
            return Err(malformed);
        }
        let params = Params::new(u32_at(12), u64::from(u32_at(16))).map_err(|_| malformed)?;
        let piece = Self {
            params,
            n: u32_at(20),
            items: u32_at(24),
            first: u64_at(32),
            last: u64_at(40),
            bits: u64_at(48),
            bytes: content[HEADER..].to_vec(),
        };
        if u32_at(28) == 0 && piece.is_possible() { Ok(piece) } else { Err(malformed) }
    }

    /// Whether the numbers fit each other. The codes are not decoded.
    fn is_possible(&self) -> bool {
        let Some(codes) = self.items.checked_sub(1) else {
            return self.first == 0 && self.last == 0 && self.bits == 0 && self.bytes.is_empty();
        };
        let p = self.params.p();
        let least = u128::from(codes) * u128::from(p + 1);
        self.items <= self.n
            && self.first <= self.last
            && self.last < self.params.range(self.n)
            && (least..=least + u128::from((self.last - self.first) >> p))
                .contains(&u128::from(self.bits))
            && self.bytes.len() as u64 == self.bits.div_ceil(8)
            && self.bytes.last().is_none_or(|last| {
                let padding = (8 - self.bits % 8) % 8;
                last.trailing_zeros() as u64 >= padding
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Noise, sorted};

    #[test]
    fn damaged_pieces_are_rejected() {
        // All values are small enough for N = 99.
        let hashes = sorted(Noise::of(1).map(|hash| hash / 11), 100);
        let piece = Piece::encode_at(SimdLevel::detect(), &hashes, 1000, Params::CASHU).unwrap();
        let bytes = piece.to_bytes();
        assert_eq!(Piece::from_bytes(&bytes), Ok(piece));
        for cut in 0..bytes.len() {
            assert!(Piece::from_bytes(&bytes[..cut]).is_err(), "{cut} bytes");
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(Piece::from_bytes(&damaged).is_err(), "byte {at}");
        }
        // With a correct checksum.
        let impossible: [(usize, u64); 6] = [
            (20, 99),             // N, below the number of items
            (24, 200),            // items
            (28, 1),              // zero
            (40, 784_931 * 1000), // last value
            (48, 100),            // bits
            (32, 784_931 * 1000), // first value
        ];
        for (at, number) in impossible {
            let mut wrong = bytes[..bytes.len() - CHECKSUM].to_vec();
            let size = if at < 32 { 4 } else { 8 };
            wrong[at..at + size].copy_from_slice(&number.to_le_bytes()[..size]);
            let checksum = fingerprint(&wrong);
            wrong.extend_from_slice(&checksum.to_le_bytes());
            let len = wrong.len() as u64;
            let expected = Err(BuildError(BuildFault::MalformedPiece { len }));
            assert_eq!(Piece::from_bytes(&wrong), expected, "offset {at}");
        }
    }

    #[test]
    fn ones_in_the_padding_of_a_piece_are_rejected() {
        let mut paddings = 0;
        for count in 1..40 {
            let hashes = sorted(Noise::of(1), count);
            let piece = Piece::encode_at(SimdLevel::detect(), &hashes, 1000, Params::CASHU);
            let piece = piece.unwrap();
            let bytes = piece.to_bytes();
            let padding = (8 - piece.bits % 8) % 8;
            paddings += padding;
            for bit in 0..padding {
                let mut wrong = bytes[..bytes.len() - CHECKSUM].to_vec();
                *wrong.last_mut().unwrap() |= 1 << bit;
                let checksum = fingerprint(&wrong);
                wrong.extend_from_slice(&checksum.to_le_bytes());
                assert!(Piece::from_bytes(&wrong).is_err(), "{count} items, bit {bit}");
            }
        }
        assert!(paddings > 50, "{paddings}");
    }
}
