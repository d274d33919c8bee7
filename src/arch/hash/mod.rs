//! Hashes records of one length side by side, and maps hashes to the range of a filter.
//!
//! A lane is a record. The vectors of an instruction set ([`Words`]) load some bytes of each record of a group and
//! transpose them to vectors of one word of each. Several groups are interleaved, because the chain of each is long.
//!
//! Words go through memory, in the first-level cache, from the loads to the folds, which are a loop of their own. With
//! words in registers, the compiler put one group after the other, and waiting for the chains took 1.5 times as long.
//!
//! Nothing is read past a record. The last group ends with the last record and overlaps the group before it; records
//! that are hashed twice get the same hash.
//!
//! Rows `hash/*/100k` in docs/benchmarking.md.

mod murmur3_lanes;
mod siphash_lanes;

use super::lanes::Vectors;
use super::x86_64::ask_ahead;

pub(crate) use murmur3_lanes::{nut23, nut25};
pub(crate) use siphash_lanes::{siphash, siphash_broadcast, siphash_columns};

/// What hashing needs in addition. A vector also has twice as many lanes of 32 bits.
pub(crate) trait Words: Vectors {
    /// The number of 64-bit lanes.
    const LANES: usize;
    /// The number of 64-bit words that are loaded together of each record: 2 or 4.
    const LOADED: usize;
    /// Shorter records cannot be loaded.
    const SHORTEST: usize;

    fn splat_32(self, number: u32) -> Self::Vector;
    fn xor(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn add_32(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Counts are constants.
    fn shl_32(self, vector: Self::Vector, count: u32) -> Self::Vector;
    fn shr_32(self, vector: Self::Vector, count: u32) -> Self::Vector;
    fn shl_64(self, vector: Self::Vector, count: u32) -> Self::Vector;
    fn shr_64(self, vector: Self::Vector, count: u32) -> Self::Vector;

    #[inline(always)]
    fn rotate_32(self, vector: Self::Vector, count: u32) -> Self::Vector {
        self.or(self.shl_32(vector, count), self.shr_32(vector, 32 - count))
    }

    #[inline(always)]
    fn rotate_64(self, vector: Self::Vector, count: u32) -> Self::Vector {
        self.or(self.shl_64(vector, count), self.shr_64(vector, 64 - count))
    }

    fn mul_32(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// The low 64 bits of the products.
    fn mul_64(self, vector: Self::Vector, by: u64) -> Self::Vector;
    /// Rotates 64-bit lanes by 32.
    fn swap_halves(self, vector: Self::Vector) -> Self::Vector;
    /// What [`Words::rotate_16`] needs.
    fn by_16(self) -> Self::Vector;
    /// Rotates 64-bit lanes left by 16.
    fn rotate_16(self, vector: Self::Vector, by_16: Self::Vector) -> Self::Vector;
    /// `hash * f >> 64` in each lane.
    fn map(self, hashes: Self::Vector, f: u64) -> Self::Vector;

    /// The 64-bit words from byte `at` on of [`Words::LANES`] records of `width` bytes: [`Words::LOADED`] of each.
    /// Zeros fill up the last one.
    fn words_64(self, group: impl Rows, at: usize) -> [Self::Vector; 4];
    /// The 32-bit words of twice as many records, twice as many of each, with the records in the order of
    /// [`Words::store_halves`].
    fn words_32(self, group: impl Rows, at: usize) -> [Self::Vector; 8];
    /// Stores hashes from their halves.
    fn store_halves(self, upper: Self::Vector, lower: Self::Vector, out: &mut [u64]);
}

/// The maximum length of a record in bytes. Offsets within a group then fit in 32 bits.
pub(crate) const LONGEST: usize = 1 << 20;

/// The number of words of a record of any length that are kept from the loads to the folds.
const KEPT: usize = 16;

/// Records of one width. Kernels read `width` bytes from each of `count` starts.
pub(crate) trait Rows: Copy {
    /// Whether they lie one after another.
    const IN_PLACE: bool;
    /// Whether there are so many.
    fn are(self, count: usize) -> bool;
    fn width(self) -> usize;
    /// The records from `from` on, so many.
    fn part(self, from: usize, count: usize) -> Self;
    /// The first byte of a record that is there.
    fn start(self, record: usize) -> *const u8;
    /// The same, if the width is known at compile time.
    fn of_width(self, width: usize) -> Self;
    /// Prefetches records that may follow these in memory.
    fn ask_ahead(self);
}

/// Records that lie one after another.
#[derive(Clone, Copy)]
pub(crate) struct Records<'a> {
    bytes: &'a [u8],
    width: usize,
}

impl<'a> Records<'a> {
    pub(crate) fn new(bytes: &'a [u8], width: usize) -> Self {
        Self { bytes, width }
    }
}

impl Rows for Records<'_> {
    const IN_PLACE: bool = true;

    #[inline(always)]
    fn are(self, count: usize) -> bool {
        Some(self.bytes.len()) == count.checked_mul(self.width)
    }

    #[inline(always)]
    fn width(self) -> usize {
        self.width
    }

    #[inline(always)]
    fn part(self, from: usize, count: usize) -> Self {
        let bytes = &self.bytes[from * self.width..][..count * self.width];
        Self { bytes, ..self }
    }

    #[inline(always)]
    fn start(self, record: usize) -> *const u8 {
        self.bytes.as_ptr().wrapping_add(record * self.width)
    }

    #[inline(always)]
    fn of_width(self, width: usize) -> Self {
        assert_eq!(self.width, width);
        Self { width, ..self }
    }

    #[inline(always)]
    fn ask_ahead(self) {
        ask_ahead(self.bytes, self.bytes.len());
    }
}

/// Records anywhere.
impl<const WIDTH: usize> Rows for &[&[u8; WIDTH]] {
    const IN_PLACE: bool = false;

    #[inline(always)]
    fn are(self, count: usize) -> bool {
        self.len() == count
    }

    #[inline(always)]
    fn width(self) -> usize {
        WIDTH
    }

    #[inline(always)]
    fn part(self, from: usize, count: usize) -> Self {
        &self[from..][..count]
    }

    #[inline(always)]
    fn start(self, record: usize) -> *const u8 {
        self[record].as_ptr()
    }

    #[inline(always)]
    fn of_width(self, _: usize) -> Self {
        self
    }

    #[inline(always)]
    fn ask_ahead(self) {
        ask_ahead(self[0], WIDTH * self.len());
    }
}

/// `hash * f >> 64` for each, in place.
pub(crate) fn map_to_range<S: Words>(simd: S, hashes: &mut [u64], f: u64) {
    simd.compiled(
        #[inline(always)]
        || {
            let mut groups = hashes.chunks_exact_mut(S::LANES);
            for group in &mut groups {
                simd.store(simd.map(simd.load(group), f), group);
            }
            for hash in groups.into_remainder() {
                *hash = super::x86_64::map_to_range(*hash, f);
            }
        },
    );
}
