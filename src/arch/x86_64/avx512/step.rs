//! Decodes Golomb-Rice codes in each of 8 lanes, for the look-ups; the lane kernels share [`window`] and [`run`].
//!
//! A lane is a bit position. [`window`] gathers 8 bytes at each one and shifts the next bits to the top,
//! inverted, so that a leading-zeros instruction counts a unary run (see `rice::read_one`). At least 57 of these
//! bits are valid. If the codes of a step take more than 57 bits, the lane is *odd*, and its caller reads them in
//! another way.
//!
//! `top` of a code is the P + 1 bits `1, inverted remainder`. A code adds `(run << P) + ones - top` to the value,
//! with `ones = 2^(P+1) - 1`.
//!
//! All variable shifts and counts use one execution port, which limits the kernels: nine of them for two codes.
//! Interleave four vectors, because the latency of a step is at least 45 cycles. Rows match/\* and decode/\* of
//! docs/benchmarking.md.

use core::arch::x86_64::*;

use crate::arch::lanes::WINDOW;

/// The constants of one P.
#[derive(Clone, Copy)]
pub(super) struct Code {
    /// P + 1 in each lane.
    width: __m512i,
    /// 63 - P in each lane.
    down: __m512i,
    /// 2^P in each lane.
    scale: __m512i,
    /// 2^(P+1) - 1 in each lane.
    ones: __m512i,
    p: u32,
}

impl Code {
    /// The constants for a `p` from 0 to 32.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512ifma")]
    pub(super) fn new(p: u32) -> Self {
        debug_assert!(p <= 32);
        let p_wide = i64::from(p);
        Self {
            width: _mm512_set1_epi64(p_wide + 1),
            down: _mm512_set1_epi64(63 - p_wide),
            scale: _mm512_set1_epi64(1 << p),
            ones: _mm512_set1_epi64((2 << p) - 1),
            p,
        }
    }

    /// The run and the top of the first code, and the window after it.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512ifma")]
    pub(super) fn one(&self, window: __m512i) -> (__m512i, __m512i, __m512i) {
        let (run, end_of_run) = run(window);
        let top = _mm512_srlv_epi64(end_of_run, self.down);
        (run, top, _mm512_sllv_epi64(end_of_run, self.width))
    }

    /// Negative in lanes where `codes` codes with `runs` ones in total do not fit in a window. Run and top of such a
    /// lane are meaningless.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512ifma")]
    pub(super) fn slack(&self, codes: u32, runs: __m512i) -> __m512i {
        let room = i64::from(WINDOW) - i64::from(codes * (self.p + 1));
        _mm512_sub_epi64(_mm512_set1_epi64(room), runs)
    }

    /// The position after `codes` codes with `runs` ones in total.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512ifma")]
    pub(super) fn behind(&self, position: __m512i, codes: u32, runs: __m512i) -> __m512i {
        let fixed = _mm512_set1_epi64(i64::from(codes * (self.p + 1)));
        _mm512_add_epi64(_mm512_add_epi64(position, fixed), runs)
    }

    /// The value of the code after `value`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512ifma")]
    pub(super) fn value(&self, value: __m512i, run: __m512i, top: __m512i) -> __m512i {
        // run * 2^P fits in 52 bits: a run is at most 2^6, and 2^P at most 2^32.
        let with_run = _mm512_madd52lo_epu64(value, run, self.scale);
        _mm512_add_epi64(with_run, _mm512_sub_epi64(self.ones, top))
    }
}

/// The next bits of each lane, inverted, at the top. Zeros follow them. `gathers` affects only the speed.
///
/// # Safety
///
/// For each lane, the 8 bytes from `position / 8` on are within the bytes that `bytes` points to.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
pub(super) unsafe fn window(bytes: *const u8, positions: __m512i, gathers: bool) -> __m512i {
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
        _mm_set_epi64x(
            load(_mm_extract_epi64::<1>(index)),
            load(_mm_cvtsi128_si64(index)),
        )
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
pub(super) fn run(window: __m512i) -> (__m512i, __m512i) {
    let run = _mm512_lzcnt_epi64(window);
    // A rotation brings in the bits of the run, which are zeros, so it equals a shift. Rust defines shifts for
    // counts of 64 and more too, and the compiler would add a test for them.
    (run, _mm512_rolv_epi64(window, run))
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
