//! Sixteen lanes of 32 bits, or eight of 64.
//!
//! Each record is loaded 32 bytes at a time, masked if fewer are left. The records are loaded in such an order that the
//! shuffles leave the lanes as the stores need them. A rest that fits in one word is loaded as the last word of the
//! record and shifted down.

use core::arch::x86_64::*;

use super::encode::map;
use crate::arch::hash::{LONGEST, Rows, Words};
use crate::arch::lanes::Vectors;
use crate::arch::x86_64::Avx512;

impl Words for Avx512 {
    const LANES: usize = 8;
    const LOADED: usize = 4;
    const SHORTEST: usize = 1;

    token_methods! { "avx512f,avx512bw,avx512dq,avx512ifma",
        fn splat_32(number: u32) -> __m512i { _mm512_set1_epi32(number as i32) }
        fn xor(a: __m512i, b: __m512i) -> __m512i { _mm512_xor_si512(a, b) }
        fn add_32(a: __m512i, b: __m512i) -> __m512i { _mm512_add_epi32(a, b) }
        fn shl_32(x: __m512i, count: u32) -> __m512i { _mm512_sll_epi32(x, _mm_cvtsi32_si128(count as i32)) }
        fn shr_32(x: __m512i, count: u32) -> __m512i { _mm512_srl_epi32(x, _mm_cvtsi32_si128(count as i32)) }
        fn shl_64(x: __m512i, count: u32) -> __m512i { _mm512_sll_epi64(x, _mm_cvtsi32_si128(count as i32)) }
        fn shr_64(x: __m512i, count: u32) -> __m512i { _mm512_srl_epi64(x, _mm_cvtsi32_si128(count as i32)) }
        // As shifts, the one to the left would become a second multiplication.
        fn rotate_32(x: __m512i, count: u32) -> __m512i { _mm512_rolv_epi32(x, _mm512_set1_epi32(count as i32)) }
        fn rotate_64(x: __m512i, count: u32) -> __m512i { _mm512_rolv_epi64(x, _mm512_set1_epi64(count.into())) }
        fn mul_32(a: __m512i, b: __m512i) -> __m512i { _mm512_mullo_epi32(a, b) }
        fn mul_64(x: __m512i, by: u64) -> __m512i { _mm512_mullo_epi64(x, _mm512_set1_epi64(by as i64)) }
        fn swap_halves(x: __m512i) -> __m512i { _mm512_shuffle_epi32::<0b10_11_00_01>(x) }
        fn by_16() -> __m512i { _mm512_setzero_si512() }
        fn rotate_16(x: __m512i, _by_16: __m512i) -> __m512i { _mm512_rol_epi64::<16>(x) }
        fn map(hashes: __m512i, f: u64) -> __m512i {
            let range = _mm512_set1_epi64(f as i64);
            if f < 1 << 52 { map::<52>(hashes, range) } else { map::<64>(hashes, range) }
        }
    }

    #[inline(always)]
    fn words_64(self, group: impl Rows, at: usize) -> [__m512i; 4] {
        let width = group.width();
        // SAFETY: the token proves that the CPU has the features.
        unsafe {
            let left = width - at;
            if left <= 8 && width >= 8 {
                let zero = _mm512_setzero_si512();
                return [tail_64(group, left), zero, zero, zero];
            }
            let columns = Columns::<_, 8>::new(group, at);
            let (a, b) = (columns.two(0, 2), columns.two(1, 3));
            let (c, d) = (columns.two(4, 6), columns.two(5, 7));
            // Each quarter of a vector has two words of one record now, and one word of two records afterwards.
            let (even_ab, odd_ab) = (_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
            let (even_cd, odd_cd) = (_mm512_unpacklo_epi64(c, d), _mm512_unpackhi_epi64(c, d));
            [
                _mm512_shuffle_i64x2::<EVEN>(even_ab, even_cd),
                _mm512_shuffle_i64x2::<EVEN>(odd_ab, odd_cd),
                _mm512_shuffle_i64x2::<ODD>(even_ab, even_cd),
                _mm512_shuffle_i64x2::<ODD>(odd_ab, odd_cd),
            ]
        }
    }

    #[inline(always)]
    fn words_32(self, group: impl Rows, at: usize) -> [__m512i; 8] {
        let width = group.width();
        // SAFETY: the token proves that the CPU has the features.
        unsafe {
            let left = width - at;
            if left <= 4 && width >= 4 {
                let zero = _mm512_setzero_si512();
                let tail = tail_32(group, left);
                return [tail, zero, zero, zero, zero, zero, zero, zero];
            }
            let columns = Columns::<_, 16>::new(group, at);
            let mut halves = [[_mm512_setzero_si512(); 4]; 2];
            for (half, first) in [0, 4].into_iter().enumerate() {
                let a = columns.two(first, first + 2);
                let b = columns.two(first + 1, first + 3);
                let c = columns.two(first + 8, first + 10);
                let d = columns.two(first + 9, first + 11);
                let (ab_01, ab_23) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
                let (cd_01, cd_23) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
                // Each quarter has one word of four records now: words 0 to 3 in the even quarters, 4 to 7 in the odd ones.
                halves[half] = [
                    _mm512_unpacklo_epi64(ab_01, cd_01),
                    _mm512_unpackhi_epi64(ab_01, cd_01),
                    _mm512_unpacklo_epi64(ab_23, cd_23),
                    _mm512_unpackhi_epi64(ab_23, cd_23),
                ];
            }
            let [front, back] = halves;
            [
                _mm512_shuffle_i64x2::<EVEN>(front[0], back[0]),
                _mm512_shuffle_i64x2::<EVEN>(front[1], back[1]),
                _mm512_shuffle_i64x2::<EVEN>(front[2], back[2]),
                _mm512_shuffle_i64x2::<EVEN>(front[3], back[3]),
                _mm512_shuffle_i64x2::<ODD>(front[0], back[0]),
                _mm512_shuffle_i64x2::<ODD>(front[1], back[1]),
                _mm512_shuffle_i64x2::<ODD>(front[2], back[2]),
                _mm512_shuffle_i64x2::<ODD>(front[3], back[3]),
            ]
        }
    }

    #[inline(always)]
    fn store_halves(self, upper: __m512i, lower: __m512i, out: &mut [u64]) {
        // SAFETY: the token proves that the CPU has AVX-512.
        let halves =
            unsafe { [_mm512_unpacklo_epi32(lower, upper), _mm512_unpackhi_epi32(lower, upper)] };
        for (hashes, out) in halves.into_iter().zip(out.chunks_exact_mut(8)) {
            self.store(hashes, out);
        }
    }
}

/// The bytes of a group of `LANES` records from byte `at` of each on, up to 32.
struct Columns<R, const LANES: usize> {
    group: R,
    at: usize,
    /// A bit for each byte within the record.
    mask: __mmask32,
}

impl<R: Rows, const LANES: usize> Columns<R, LANES> {
    #[inline(always)]
    fn new(group: R, at: usize) -> Self {
        let width = group.width();
        assert!(group.are(LANES) && at < width);
        let mask = u32::MAX >> (32 - (width - at).min(32));
        Self { group, at, mask }
    }

    /// The words of record `low` in the lower half and of record `high` in the upper. Zeros beyond the records.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
    fn two(&self, low: usize, high: usize) -> __m512i {
        assert!(low < LANES && high < LANES);
        let (low, high) = (self.group.start(low), self.group.start(high));
        // SAFETY: the group has record `low`, and byte `at` is within the record, as asserted. The mask ends with the
        // record, and masked bytes are not read.
        let low = unsafe { _mm256_maskz_loadu_epi8(self.mask, low.add(self.at).cast()) };
        // SAFETY: the same for record `high`.
        let high = unsafe { _mm256_maskz_loadu_epi8(self.mask, high.add(self.at).cast()) };
        _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
    }
}

/// The even 128-bit quarters of both, or the odd ones.
const EVEN: i32 = 0b10_00_10_00;
const ODD: i32 = 0b11_01_11_01;

/// The last `len` bytes (1 to 8) of eight records of at least 8 bytes, each as a word.
///
/// Loads that fill a vector with one word, and blends: NUT-23 of points took a tenth longer with a gather (Zen 4).
/// With 32-bit words, the gather of sixteen is faster once the records come from memory.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
fn tail_64(group: impl Rows, len: usize) -> __m512i {
    let width = group.width();
    assert!(width >= 8 && group.are(8));
    let mut halves = [_mm256_setzero_si256(); 2];
    for (half, first) in [0, 4].into_iter().enumerate() {
        let last = |record: usize| {
            assert!(record < 4);
            // SAFETY: the eight bytes end with the record, which has at least eight and is in the group.
            let word = unsafe { group.start(first + record).add(width - 8).cast::<i64>() };
            // SAFETY: they may be read, as said, at any alignment.
            _mm256_set1_epi64x(unsafe { word.read_unaligned() })
        };
        let low = _mm256_blend_epi32::<0b1100>(last(0), last(1));
        let high = _mm256_blend_epi32::<0b1100_0000>(last(2), last(3));
        halves[half] = _mm256_blend_epi32::<0b1111_0000>(low, high);
    }
    let last = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(halves[0]), halves[1]);
    _mm512_srl_epi64(last, _mm_cvtsi64_si128(64 - 8 * len as i64))
}

/// The order of sixteen records in the lanes of [`words_32`], the first eight are in the
/// lower halves of the four quarters.
const ORDER_32: [i32; 16] = [0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15];

/// The last `len` bytes (1 to 4) of sixteen records of at least 4 bytes, in the order of [`ORDER_32`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
fn tail_32<R: Rows>(group: R, len: usize) -> __m512i {
    let width = group.width();
    assert!((4..=LONGEST).contains(&width) && group.are(16));
    let shift = _mm_cvtsi32_si128(32 - 8 * len as i32);
    if !R::IN_PLACE {
        let last = ORDER_32.map(|record| {
            // SAFETY: the four bytes end with the record, which has at least four and is in the group.
            let word = unsafe { group.start(record as usize).add(width - 4).cast::<i32>() };
            // SAFETY: they may be read, as said, at any alignment.
            unsafe { word.read_unaligned() }
        });
        // SAFETY: the array has 64 bytes.
        return _mm512_srl_epi32(unsafe { _mm512_loadu_si512(last.as_ptr().cast()) }, shift);
    }
    // SAFETY: the array has 64 bytes.
    let order = unsafe { _mm512_loadu_si512(ORDER_32.as_ptr().cast()) };
    let starts = _mm512_mullo_epi32(order, _mm512_set1_epi32(width as i32));
    let offsets = _mm512_add_epi32(starts, _mm512_set1_epi32(width as i32 - 4));
    // SAFETY: reads four bytes at each offset. By the assertions, the first offset is not negative, the last word
    // ends with the group, and no offset overflows.
    let last = unsafe { _mm512_i32gather_epi32::<1>(offsets, group.start(0).cast()) };
    _mm512_srl_epi32(last, shift)
}
