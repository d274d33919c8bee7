//! Eight lanes a vector.

use core::arch::x86_64::*;

use super::step;
use crate::arch::lanes::{GROUP, Simd};
use crate::arch::x86_64::{Avx512, token_methods};

impl Simd<32> for Avx512 {
    type Vector = __m512i;

    const LONGEST_RUN: u64 = 64;
    const SLACKS: usize = 4;

    #[inline(always)]
    fn compiled<R>(self, f: impl FnOnce() -> R) -> R {
        Avx512::compiled(self, f)
    }

    token_methods! { "avx512f,avx512cd,avx512dq,avx512ifma",
        fn splat(number: u64) -> __m512i { _mm512_set1_epi64(number as i64) }
        fn add(a: __m512i, b: __m512i) -> __m512i { _mm512_add_epi64(a, b) }
        fn sub(a: __m512i, b: __m512i) -> __m512i { _mm512_sub_epi64(a, b) }
        fn or(a: __m512i, b: __m512i) -> __m512i { _mm512_or_si512(a, b) }
        fn shl(vector: __m512i, counts: __m512i) -> __m512i { _mm512_sllv_epi64(vector, counts) }
        fn shr(vector: __m512i, counts: __m512i) -> __m512i { _mm512_srlv_epi64(vector, counts) }
        fn leading_zeros(vector: __m512i) -> __m512i { _mm512_lzcnt_epi64(vector) }
        fn run(window: __m512i) -> (__m512i, __m512i) { step::run(window) }
        fn add_quotient(value: __m512i, run: __m512i, _p: __m512i, power: __m512i) -> __m512i {
            // One operation for two: the product fits in 52 bits.
            _mm512_madd52lo_epu64(value, run, power)
        }
        fn negative(vector: __m512i) -> u32 { _mm512_movepi64_mask(vector).into() }
        fn select(condition: __m512i, a: __m512i, b: __m512i) -> __m512i {
            _mm512_mask_mov_epi64(b, _mm512_movepi64_mask(condition), a)
        }
    }

    #[inline(always)]
    fn load(self, numbers: &[u64]) -> __m512i {
        let numbers = &numbers[..8];
        // SAFETY: the token proves that the CPU has AVX-512, and the slice has 64 bytes.
        unsafe { _mm512_loadu_si512(numbers.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store(self, vector: __m512i, numbers: &mut [u64]) {
        let numbers = &mut numbers[..8];
        // SAFETY: the token proves that the CPU has AVX-512, and the slice has 64 bytes.
        unsafe { _mm512_storeu_si512(numbers.as_mut_ptr().cast(), vector) }
    }

    #[inline(always)]
    unsafe fn window(self, bytes: &[u8], positions: __m512i) -> __m512i {
        // SAFETY: the token proves that the CPU has AVX-512; the rest is the contract of the method.
        unsafe { step::window(bytes.as_ptr(), positions, self.gathers) }
    }

    #[inline(always)]
    unsafe fn store_columns(
        self,
        rows: &[__m512i; GROUP],
        out: &mut [u64],
        at: impl Fn(usize) -> usize,
    ) {
        // SAFETY: the token proves that the CPU has AVX-512.
        let columns = unsafe { transposed(rows) };
        for (lane, column) in columns.into_iter().enumerate() {
            // SAFETY: the same; the rest is the contract of the method.
            unsafe { _mm512_storeu_si512(out.as_mut_ptr().add(at(lane)).cast(), column) };
        }
    }
}

/// Transposes rows of 8 lanes into 8 runs of values, one per lane. In registers, because 64 scattered stores take
/// twice as long as the steps that make the values.
#[inline]
#[target_feature(enable = "avx512f")]
fn transposed(rows: &[__m512i; GROUP]) -> [__m512i; GROUP] {
    let [a, b, c, d, e, f, g, h] = *rows;
    // Pairs of rows: lanes 0 2 4 6 and 1 3 5 7.
    let (ab0, ab1) = (_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    let (cd0, cd1) = (_mm512_unpacklo_epi64(c, d), _mm512_unpackhi_epi64(c, d));
    let (ef0, ef1) = (_mm512_unpacklo_epi64(e, f), _mm512_unpackhi_epi64(e, f));
    let (gh0, gh1) = (_mm512_unpacklo_epi64(g, h), _mm512_unpackhi_epi64(g, h));
    // Rows a to d and e to h: lanes 0 and 4 (low), 2 and 6 (high) of the even ones, and so on.
    let low_0 = _mm512_shuffle_i64x2::<0b10_00_10_00>(ab0, cd0);
    let high_0 = _mm512_shuffle_i64x2::<0b11_01_11_01>(ab0, cd0);
    let low_1 = _mm512_shuffle_i64x2::<0b10_00_10_00>(ab1, cd1);
    let high_1 = _mm512_shuffle_i64x2::<0b11_01_11_01>(ab1, cd1);
    let low_4 = _mm512_shuffle_i64x2::<0b10_00_10_00>(ef0, gh0);
    let high_4 = _mm512_shuffle_i64x2::<0b11_01_11_01>(ef0, gh0);
    let low_5 = _mm512_shuffle_i64x2::<0b10_00_10_00>(ef1, gh1);
    let high_5 = _mm512_shuffle_i64x2::<0b11_01_11_01>(ef1, gh1);
    [
        _mm512_shuffle_i64x2::<0b10_00_10_00>(low_0, low_4),
        _mm512_shuffle_i64x2::<0b10_00_10_00>(low_1, low_5),
        _mm512_shuffle_i64x2::<0b10_00_10_00>(high_0, high_4),
        _mm512_shuffle_i64x2::<0b10_00_10_00>(high_1, high_5),
        _mm512_shuffle_i64x2::<0b11_01_11_01>(low_0, low_4),
        _mm512_shuffle_i64x2::<0b11_01_11_01>(low_1, low_5),
        _mm512_shuffle_i64x2::<0b11_01_11_01>(high_0, high_4),
        _mm512_shuffle_i64x2::<0b11_01_11_01>(high_1, high_5),
    ]
}
