//! Eight lanes of 32 bits, or four of 64.
//!
//! Each record is loaded 16 bytes at a time. A rest of fewer bytes is loaded with the bytes before it and shifted down.
//! Shorter records are left to the portable code.

use core::arch::x86_64::*;

use crate::arch::hash::{Rows, Words};
use crate::arch::lanes::Vectors;
use crate::arch::x86_64::Avx2;

impl Words for Avx2 {
    const LANES: usize = 4;
    const LOADED: usize = 2;
    const SHORTEST: usize = 16;

    token_methods! { "avx2",
        fn splat_32(number: u32) -> __m256i { _mm256_set1_epi32(number as i32) }
        fn xor(a: __m256i, b: __m256i) -> __m256i { _mm256_xor_si256(a, b) }
        fn add_32(a: __m256i, b: __m256i) -> __m256i { _mm256_add_epi32(a, b) }
        fn shl_32(x: __m256i, count: u32) -> __m256i { _mm256_sll_epi32(x, _mm_cvtsi32_si128(count as i32)) }
        fn shr_32(x: __m256i, count: u32) -> __m256i { _mm256_srl_epi32(x, _mm_cvtsi32_si128(count as i32)) }
        fn shl_64(x: __m256i, count: u32) -> __m256i { _mm256_sll_epi64(x, _mm_cvtsi32_si128(count as i32)) }
        fn shr_64(x: __m256i, count: u32) -> __m256i { _mm256_srl_epi64(x, _mm_cvtsi32_si128(count as i32)) }
        fn mul_32(a: __m256i, b: __m256i) -> __m256i { _mm256_mullo_epi32(a, b) }
        fn mul_64(x: __m256i, by: u64) -> __m256i { multiply(x, by) }
        fn swap_halves(x: __m256i) -> __m256i { swap_halves(x) }
        fn by_16() -> __m256i {
            // Hidden from the compiler, which would make two shuffles of it.
            let from = _mm_set_epi8(13, 12, 11, 10, 9, 8, 15, 14, 5, 4, 3, 2, 1, 0, 7, 6);
            core::hint::black_box(_mm256_broadcastsi128_si256(from))
        }
        fn rotate_16(x: __m256i, by_16: __m256i) -> __m256i { _mm256_shuffle_epi8(x, by_16) }
        fn map(hashes: __m256i, f: u64) -> __m256i { map(hashes, _mm256_set1_epi64x(f as i64)) }
    }

    #[inline(always)]
    fn words_64(self, group: impl Rows, at: usize) -> [__m256i; 4] {
        let columns = Columns::<_, 4>::new(group, at);
        // SAFETY: the token proves that the CPU has AVX2.
        unsafe {
            let zero = _mm256_setzero_si256();
            let (a, b) = (columns.two(0, 2), columns.two(1, 3));
            let (first, second) = (_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
            [first, second, zero, zero]
        }
    }

    #[inline(always)]
    fn words_32(self, group: impl Rows, at: usize) -> [__m256i; 8] {
        let columns = Columns::<_, 8>::new(group, at);
        // SAFETY: the token proves that the CPU has AVX2.
        unsafe {
            let zero = _mm256_setzero_si256();
            // The order of the records in the lanes is 0, 1, 4, 5, 2, 3, 6, 7.
            let (a, b) = (columns.two(0, 2), columns.two(1, 3));
            let (c, d) = (columns.two(4, 6), columns.two(5, 7));
            let (ab_01, ab_23) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
            let (cd_01, cd_23) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
            [
                _mm256_unpacklo_epi64(ab_01, cd_01),
                _mm256_unpackhi_epi64(ab_01, cd_01),
                _mm256_unpacklo_epi64(ab_23, cd_23),
                _mm256_unpackhi_epi64(ab_23, cd_23),
                zero,
                zero,
                zero,
                zero,
            ]
        }
    }

    #[inline(always)]
    fn store_halves(self, upper: __m256i, lower: __m256i, out: &mut [u64]) {
        // SAFETY: the token proves that the CPU has AVX2.
        let halves =
            unsafe { [_mm256_unpacklo_epi32(lower, upper), _mm256_unpackhi_epi32(lower, upper)] };
        for (hashes, out) in halves.into_iter().zip(out.chunks_exact_mut(4)) {
            self.store(hashes, out);
        }
    }
}

/// The bytes of a group of `LANES` records from byte `at` of each on, up to 16.
struct Columns<R, const LANES: usize> {
    group: R,
    /// The offset of the 16 bytes to load: `at`, or less if fewer bytes are left.
    from: usize,
    /// The number of loaded bytes before `at`.
    skip: usize,
}

impl<R: Rows, const LANES: usize> Columns<R, LANES> {
    #[inline(always)]
    fn new(group: R, at: usize) -> Self {
        let width = group.width();
        assert!(group.are(LANES) && width >= 16 && at < width);
        let from = at.min(width - 16);
        Self { group, from, skip: at - from }
    }

    /// The words of record `low` in the lower half and of record `high` in the upper; zeros beyond the records.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn two(&self, low: usize, high: usize) -> __m256i {
        assert!(low < LANES && high < LANES);
        let (low, high) = (self.group.start(low), self.group.start(high));
        // SAFETY: the group has record `low`, and 16 bytes at `from` are within the record: `new` checked it.
        let low = unsafe { _mm_loadu_si128(low.add(self.from).cast()) };
        // SAFETY: the same, for record `high`.
        let high = unsafe { _mm_loadu_si128(high.add(self.from).cast()) };
        let both = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high);
        if self.skip == 0 {
            return both;
        }
        _mm256_shuffle_epi8(both, shift_down(self.skip))
    }
}

/// The shuffle that moves the 16 bytes of each half down by `skip` (at most 16) and fills up with zeros.
#[inline]
#[target_feature(enable = "avx2")]
fn shift_down(skip: usize) -> __m256i {
    /// The shuffle gives zero for an index whose top bit is set.
    const FROM: [u8; 32] = {
        let mut from = [0x80; 32];
        let mut i = 0;
        while i < 16 {
            from[i] = i as u8;
            i += 1;
        }
        from
    };
    let from = &FROM[skip..skip + 16];
    // SAFETY: the slice is 16 bytes long.
    let from = unsafe { _mm_loadu_si128(from.as_ptr().cast()) };
    _mm256_broadcastsi128_si256(from)
}

/// The low 64 bits of the products, with two multiplications. One gives both products of a lower half and an
/// upper half, which count in the upper half of the result. The other multiplies the lower halves.
#[inline]
#[target_feature(enable = "avx2")]
fn multiply(x: __m256i, by: u64) -> __m256i {
    let crossed = _mm256_mullo_epi32(x, _mm256_set1_epi64x(by.rotate_left(32) as i64));
    let sum = _mm256_add_epi32(crossed, swap_halves(crossed));
    let upper = _mm256_blend_epi32::<0b1010_1010>(_mm256_setzero_si256(), sum);
    _mm256_add_epi64(_mm256_mul_epu32(x, _mm256_set1_epi64x(by as i64)), upper)
}

/// Rotates by 32 with one shuffle instead of three operations.
#[inline]
#[target_feature(enable = "avx2")]
fn swap_halves(x: __m256i) -> __m256i {
    _mm256_shuffle_epi32::<0b10_11_00_01>(x)
}

/// `hash * range >> 64`. No sum overflows: a product is at most the square of 2^32 - 1, and a half is less than 2^32.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn map(hash: __m256i, low: __m256i) -> __m256i {
    let high = _mm256_srli_epi64::<32>(low);
    let upper = _mm256_srli_epi64::<32>(hash);
    let sum = _mm256_add_epi64(
        _mm256_mul_epu32(upper, low),
        _mm256_srli_epi64::<32>(_mm256_mul_epu32(hash, low)),
    );
    let sum_low = _mm256_blend_epi32::<0b1010_1010>(sum, _mm256_setzero_si256());
    let carry = _mm256_add_epi64(_mm256_mul_epu32(hash, high), sum_low);
    let value = _mm256_add_epi64(_mm256_mul_epu32(upper, high), _mm256_srli_epi64::<32>(sum));
    _mm256_add_epi64(value, _mm256_srli_epi64::<32>(carry))
}
