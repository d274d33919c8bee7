//! Four lanes a vector.
//!
//! AVX2 cannot count leading ones in lanes. The exponent of a floating-point number gives them instead. 52 bits
//! of the window fit the mantissa, so a longer run counts as 52.
//!
//! Memory safety must not depend on the rounding mode, which is outside state. The float is therefore m + 0.5, from
//! a subtraction whose result has at most 53 bits. It is exact, positive and normal in every mode, and its exponent
//! bounds the run. Counting with integers alone (nibbles looked up in a table, then the first byte that is not zero)
//! takes 14 operations instead of 5.

use core::arch::x86_64::*;

use crate::arch::lanes::{GROUP, Simd, Vectors};
use crate::arch::lookup_lanes::LookUp;
use crate::arch::x86_64::Avx2;

// SAFETY: each operation is that of its instruction.
unsafe impl Vectors for Avx2 {
    type Vector = __m256i;

    #[inline(always)]
    fn compiled<R>(self, f: impl FnOnce() -> R) -> R {
        Avx2::compiled(self, f)
    }

    token_methods! { "avx2",
        fn splat(number: u64) -> __m256i { _mm256_set1_epi64x(number as i64) }
        fn add(a: __m256i, b: __m256i) -> __m256i { _mm256_add_epi64(a, b) }
        fn or(a: __m256i, b: __m256i) -> __m256i { _mm256_or_si256(a, b) }
    }

    #[inline(always)]
    fn load(self, numbers: &[u64]) -> __m256i {
        let numbers = &numbers[..4];
        // SAFETY: the token proves that the CPU has AVX2, and the slice has 32 bytes.
        unsafe { _mm256_loadu_si256(numbers.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store(self, vector: __m256i, numbers: &mut [u64]) {
        let numbers = &mut numbers[..4];
        // SAFETY: the token proves that the CPU has AVX2, and the slice has 32 bytes.
        unsafe { _mm256_storeu_si256(numbers.as_mut_ptr().cast(), vector) }
    }
}

// SAFETY: operations on lanes do what their instructions do. A run is 51 minus an exponent of at least -1: at most 52.
unsafe impl Simd<16> for Avx2 {
    const LONGEST_RUN: u64 = 52;
    const SLACKS: usize = 4;
    const INVERTED: bool = false;

    token_methods! { "avx2",
        fn sub(a: __m256i, b: __m256i) -> __m256i { _mm256_sub_epi64(a, b) }
        fn shl(vector: __m256i, counts: __m256i) -> __m256i { _mm256_sllv_epi64(vector, counts) }
        fn shr(vector: __m256i, counts: __m256i) -> __m256i { _mm256_srlv_epi64(vector, counts) }
        fn run(window: __m256i) -> (__m256i, __m256i) { run(window) }
        fn remainder(low: __m256i, _ones: __m256i) -> __m256i { low }
        fn negative(vector: __m256i) -> u32 { _mm256_movemask_pd(_mm256_castsi256_pd(vector)) as u32 }
        fn select(condition: __m256i, a: __m256i, b: __m256i) -> __m256i { select(condition, a, b) }
    }

    #[inline(always)]
    unsafe fn window(self, bytes: &[u8], positions: __m256i) -> __m256i {
        // SAFETY: the token proves that the CPU has AVX2; the rest is the contract of the method.
        unsafe { window(bytes.as_ptr(), positions) }
    }

    #[inline(always)]
    unsafe fn store_columns(
        self,
        rows: &[__m256i; GROUP],
        out: &mut [u64],
        at: impl Fn(usize) -> usize,
    ) {
        // SAFETY: the token proves that the CPU has AVX2.
        let columns = unsafe { transposed(rows) };
        for (lane, column) in columns.into_iter().enumerate() {
            // SAFETY: the same; the rest is the contract of the method.
            unsafe { _mm256_storeu_si256(out.as_mut_ptr().add(at(lane)).cast(), column) };
        }
    }
}

impl LookUp<16> for Avx2 {
    type Set = __m256i;

    token_methods! { "avx2",
        fn empty() -> __m256i { _mm256_setzero_si256() }
        fn or_equal(set: __m256i, a: __m256i, b: __m256i) -> __m256i {
            _mm256_or_si256(set, _mm256_cmpeq_epi64(a, b))
        }
        fn without(set: __m256i, bits: u32) -> __m256i { expand(set, bits, _mm256_setzero_si256()) }
        fn bits(set: __m256i) -> u32 { _mm256_movemask_pd(_mm256_castsi256_pd(set)) as u32 }
        fn above(a: __m256i, b: __m256i) -> u32 {
            _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(a, b))) as u32
        }
        fn expand(old: __m256i, bits: u32, next: __m256i) -> __m256i { expand(old, bits, next) }
    }
}

/// For each set of lanes, the numbers of the halves of the next lanes. Those of the others are negative.
const EXPANDED: [[u32; 8]; 16] = {
    let mut all = [[1 << 31; 8]; 16];
    let mut bits = 0;
    while bits < 16 {
        let (mut lane, mut next) = (0, 0);
        while lane < 4 {
            if bits >> lane & 1 == 1 {
                all[bits][2 * lane] = 2 * next;
                all[bits][2 * lane + 1] = 2 * next + 1;
                next += 1;
            }
            lane += 1;
        }
        bits += 1;
    }
    all
};

#[inline]
#[target_feature(enable = "avx2")]
fn expand(old: __m256i, bits: u32, next: __m256i) -> __m256i {
    let halves = &EXPANDED[bits as usize % 16];
    // SAFETY: the array has 32 bytes.
    let halves = unsafe { _mm256_loadu_si256(halves.as_ptr().cast()) };
    select(halves, old, _mm256_permutevar8x32_epi32(next, halves))
}

/// # Safety
///
/// For each lane, the 8 bytes from `position / 8` on are within the bytes that `bytes` points to.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn window(bytes: *const u8, positions: __m256i) -> __m256i {
    let index = _mm256_srli_epi64::<3>(positions);
    let low = _mm256_castsi256_si128(index);
    let high = _mm256_extracti128_si256::<1>(index);
    // On AMD (Zen 3), four loads take a quarter less time than a gather for the whole kernel. On Intel they take 5 %
    // more, except on CPUs up to 2021 whose microcode slows gathers down.
    let load = |at: i64| {
        // SAFETY: by the contract of this function.
        unsafe { bytes.add(at as usize).cast::<i64>().read_unaligned() }
    };
    let words = _mm256_set_epi64x(
        load(_mm_extract_epi64::<1>(high)),
        load(_mm_cvtsi128_si64(high)),
        load(_mm_extract_epi64::<1>(low)),
        load(_mm_cvtsi128_si64(low)),
    );
    let swap = _mm_set_epi64x(0x0809_0a0b_0c0d_0e0f, 0x0001_0203_0405_0607);
    let swapped = _mm256_shuffle_epi8(words, _mm256_broadcastsi128_si256(swap));
    _mm256_sllv_epi64(swapped, _mm256_and_si256(positions, _mm256_set1_epi64x(7)))
}

/// The number of leading ones, and the window after them.
#[inline]
#[target_feature(enable = "avx2")]
fn run(window: __m256i) -> (__m256i, __m256i) {
    // With the exponent of 2^52 above its 52 bits, m is the float 2^52 + m. Minus 2^52 - 0.5 it is m + 0.5, whose
    // exponent gives the first one of m.
    let high = _mm256_srli_epi64::<12>(window);
    let inverted = _mm256_xor_si256(high, _mm256_set1_epi64x(0x433f_ffff_ffff_ffff));
    let float =
        _mm256_sub_pd(_mm256_castsi256_pd(inverted), _mm256_set1_pd(4_503_599_627_370_495.5));
    let exponent = _mm256_srli_epi64::<52>(_mm256_castpd_si256(float));
    // The bias of an exponent is 1,023. The exponent of m + 0.5 is -1 to 51.
    let run = _mm256_sub_epi64(_mm256_set1_epi64x(1023 + 51), exponent);
    (run, _mm256_sllv_epi64(window, run))
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn select(condition: __m256i, a: __m256i, b: __m256i) -> __m256i {
    _mm256_castpd_si256(_mm256_blendv_pd(
        _mm256_castsi256_pd(b),
        _mm256_castsi256_pd(a),
        _mm256_castsi256_pd(condition),
    ))
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn transposed(rows: &[__m256i; GROUP]) -> [__m256i; 4] {
    let [a, b, c, d, ..] = *rows;
    let (ab0, ab1) = (_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
    let (cd0, cd1) = (_mm256_unpacklo_epi64(c, d), _mm256_unpackhi_epi64(c, d));
    [
        _mm256_permute2x128_si256::<0x20>(ab0, cd0),
        _mm256_permute2x128_si256::<0x20>(ab1, cd1),
        _mm256_permute2x128_si256::<0x31>(ab0, cd0),
        _mm256_permute2x128_si256::<0x31>(ab1, cd1),
    ]
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_any_length_is_counted_before_any_bits() {
        let Some(avx2) = Avx2::detect() else {
            return;
        };
        for ones in 0..=64 {
            let lead = u64::MAX.checked_shr(ones).unwrap_or(0);
            let after = lead >> 1;
            // After the run a zero, then zeros, ones, one of each at the end, and a mixture.
            for rest in [0, after, after & 1, after & !1, after & 0x9e37_79b9_7f4a_7c15] {
                let window = !lead | rest;
                let (mut counted, mut left) = ([0; 4], [0; 4]);
                // SAFETY: detection above.
                let (run, rest) = unsafe { run(_mm256_set1_epi64x(window as i64)) };
                avx2.store(run, &mut counted);
                avx2.store(rest, &mut left);
                let expected = u64::from(window.leading_ones().min(52));
                assert_eq!(counted, [expected; 4], "{window:#x}");
                assert_eq!(left, [window << expected; 4], "{window:#x}");
            }
        }
    }
}
