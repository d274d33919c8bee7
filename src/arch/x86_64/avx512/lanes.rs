//! Eight lanes a vector.

use core::arch::x86_64::*;

use crate::arch::lanes::{GROUP, Simd, Vectors};
use crate::arch::lookup_lanes::LookUp;
use crate::arch::x86_64::Avx512;

// SAFETY: each operation is that of its instruction.
unsafe impl Vectors for Avx512 {
    type Vector = __m512i;

    #[inline(always)]
    fn compiled<R>(self, f: impl FnOnce() -> R) -> R {
        Avx512::compiled(self, f)
    }

    token_methods! { "avx512f",
        fn splat(number: u64) -> __m512i { _mm512_set1_epi64(number as i64) }
        fn add(a: __m512i, b: __m512i) -> __m512i { _mm512_add_epi64(a, b) }
        fn or(a: __m512i, b: __m512i) -> __m512i { _mm512_or_si512(a, b) }
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
}

// SAFETY: operations on lanes do what their instructions do. A run has the leading zeros of 64 bits: at most 64.
unsafe impl Simd<32> for Avx512 {
    const LONGEST_RUN: u64 = 64;
    const SLACKS: usize = 4;

    token_methods! { "avx512f,avx512cd,avx512dq,avx512ifma",
        fn sub(a: __m512i, b: __m512i) -> __m512i { _mm512_sub_epi64(a, b) }
        fn shl(vector: __m512i, counts: __m512i) -> __m512i { _mm512_sllv_epi64(vector, counts) }
        fn shr(vector: __m512i, counts: __m512i) -> __m512i { _mm512_srlv_epi64(vector, counts) }
        fn run(window: __m512i) -> (__m512i, __m512i) { run(window) }
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
    unsafe fn window(self, bytes: &[u8], positions: __m512i) -> __m512i {
        // SAFETY: the token proves that the CPU has AVX-512; the rest is the contract of the method.
        unsafe { window(bytes.as_ptr(), positions, self.gathers) }
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

impl LookUp<32> for Avx512 {
    type Set = __mmask8;

    #[inline(always)]
    fn known<R>(self, f: impl FnOnce(Self) -> R) -> R {
        // Otherwise the kernel would decide at each load.
        match self.gathers {
            true => f(Self { gathers: true }),
            false => f(Self { gathers: false }),
        }
    }

    token_methods! { "avx512f,avx512dq",
        fn empty() -> __mmask8 { 0 }
        fn or_equal(set: __mmask8, a: __m512i, b: __m512i) -> __mmask8 { set | _mm512_cmpeq_epi64_mask(a, b) }
        fn without(set: __mmask8, bits: u32) -> __mmask8 { set & !(bits as __mmask8) }
        fn bits(set: __mmask8) -> u32 { set.into() }
        fn above(a: __m512i, b: __m512i) -> u32 { _mm512_cmpgt_epi64_mask(a, b).into() }
        fn expand(old: __m512i, bits: u32, next: __m512i) -> __m512i {
            _mm512_mask_expand_epi64(old, bits as __mmask8, next)
        }
    }
}

/// The next bits of each lane, inverted, at the top. Zeros follow them. `gathers` affects only the speed.
///
/// # Safety
///
/// For each lane, the 8 bytes from `position / 8` on are within the bytes that `bytes` points to.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
unsafe fn window(bytes: *const u8, positions: __m512i, gathers: bool) -> __m512i {
    let index = _mm512_srli_epi64::<3>(positions);
    let words = if gathers {
        // SAFETY: by the contract of this function. The scale is 1, so an index is a byte offset.
        unsafe { _mm512_i64gather_epi64::<1>(index, bytes.cast()) }
    } else {
        // SAFETY: by the contract of this function.
        unsafe { eight_loads(bytes, index) }
    };
    // In each 16 bytes: 7 down to 0, then 15 down to 8.
    let swap = _mm_set_epi64x(0x0809_0a0b_0c0d_0e0f, 0x0001_0203_0405_0607);
    let swapped = _mm512_shuffle_epi8(words, _mm512_broadcast_i32x4(swap));
    let inverted = _mm512_xor_si512(swapped, _mm512_set1_epi64(-1));
    _mm512_sllv_epi64(inverted, _mm512_and_si512(positions, _mm512_set1_epi64(7)))
}

/// The 8 bytes at each byte offset.
///
/// # Safety
///
/// They are within the bytes that `bytes` points to.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
unsafe fn eight_loads(bytes: *const u8, index: __m512i) -> __m512i {
    let two = |index: __m128i| {
        // SAFETY: by the contract of this function.
        let load = |at: i64| unsafe { bytes.add(at as usize).cast::<i64>().read_unaligned() };
        _mm_set_epi64x(load(_mm_extract_epi64::<1>(index)), load(_mm_cvtsi128_si64(index)))
    };
    let low = _mm256_set_m128i(
        two(_mm512_extracti64x2_epi64::<1>(index)),
        two(_mm512_castsi512_si128(index)),
    );
    let high = _mm256_set_m128i(
        two(_mm512_extracti64x2_epi64::<3>(index)),
        two(_mm512_extracti64x2_epi64::<2>(index)),
    );
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
}

/// The number of leading zeros, and the window after them.
#[inline]
#[target_feature(enable = "avx512f,avx512cd")]
fn run(window: __m512i) -> (__m512i, __m512i) {
    let run = _mm512_lzcnt_epi64(window);
    // A rotation brings in the bits of the run, which are zeros, so it equals a shift. Rust defines shifts for
    // counts of 64 and more too, and the compiler would add a test for them.
    (run, _mm512_rolv_epi64(window, run))
}

/// Transposes rows of 8 lanes into 8 runs of values, one per lane. In registers, because 64 scattered stores take
/// twice as long as the steps that make the values.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn transposed(rows: &[__m512i; GROUP]) -> [__m512i; GROUP] {
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

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::arch::x86_64::Avx512;

    #[test]
    fn loads_equal_gathers() {
        if Avx512::detect().is_none() {
            return;
        }
        let bytes: [u8; 256] = core::array::from_fn(|i| (i * 89 + i / 7) as u8);
        for first in 0..1_000 {
            let positions: [u64; 8] =
                core::array::from_fn(|lane| (first + 977 * lane as u64) % (248 * 8 + 8));
            // SAFETY: detection above; the largest position is bit 7 of byte 248.
            let equal = unsafe {
                let positions = _mm512_loadu_si512(positions.as_ptr().cast());
                let [gathered, loaded] =
                    [true, false].map(|gathers| window(bytes.as_ptr(), positions, gathers));
                _mm512_cmpeq_epi64_mask(gathered, loaded)
            };
            assert_eq!(equal, 0xff, "from bit {first}");
        }
    }
}
