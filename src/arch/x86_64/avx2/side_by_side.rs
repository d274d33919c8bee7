//! The decoder of [`side_by_side`](crate::arch::x86_64::side_by_side), four lanes a vector.
//!
//! Windows are inverted, so that a shift brings in what ends no run, and leading zeros are counted as in `lanes`: 44 bits of
//! a window fit the mantissa of a float.

use core::arch::x86_64::*;

use super::hash::map;
use super::lanes::{select, transposed};
use crate::arch::x86_64::Avx2;
use crate::arch::x86_64::side_by_side::{
    AHEAD, Decodes, LANES, NEXT, P, PAIRS, STEP, SideBySide, Stopped, WORD,
};

const VECTORS: usize = LANES / 4;

/// Vectors that are decoded together.
const TOGETHER: usize = 4;

impl Decodes for Avx2 {
    token_methods! { "avx2",
        fn order(a: __m256i, b: __m256i) -> (__m256i, __m256i) {
            (_mm256_min_epu32(a, b), _mm256_max_epu32(a, b))
        }
        fn map_each(hashes: __m256i, ranges: __m256i, dropped: __m256i) -> __m256i {
            _mm256_srlv_epi64(map(hashes, ranges), dropped)
        }
    }

    unsafe fn decode_groups(
        self,
        lanes: &mut SideBySide,
        bytes: &[*const u8; LANES],
        limits: &[u64; LANES],
        groups: usize,
        targets: &[*const u32; LANES],
    ) -> Stopped {
        // SAFETY: the token proves that the CPU has the features; the rest is the contract of the method.
        unsafe { decode_groups(lanes, bytes, limits, groups, targets) }
    }
}

/// # Safety
///
/// As [`Decodes::decode_groups`].
#[target_feature(enable = "avx2,bmi1,bmi2")]
unsafe fn decode_groups(
    lanes: &mut SideBySide,
    bytes: &[*const u8; LANES],
    limits: &[u64; LANES],
    groups: usize,
    targets: &[*const u32; LANES],
) -> Stopped {
    let number = |number: u64| _mm256_set1_epi64x(number as i64);
    // SAFETY: four numbers are 32 bytes.
    let load = |from: &[u64; 4]| unsafe { _mm256_loadu_si256(from.as_ptr().cast()) };
    // SAFETY: as above.
    let store = |v, to: &mut [u64; 4]| unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), v) };
    // SAFETY: four numbers are 16 bytes.
    let load_four = |from: &[u32; 4]| unsafe { _mm_loadu_si128(from.as_ptr().cast()) };
    // SAFETY: as above.
    let store_four = |v, to: &mut [u32; 4]| unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), v) };
    let signs = |v| _mm256_movemask_pd(_mm256_castsi256_pd(v)) as u32;
    let swap = _mm_set_epi64x(0x0809_0a0b_0c0d_0e0f, 0x0001_0203_0405_0607);
    let swap = _mm256_broadcastsi128_si256(swap);
    let twice = _mm256_set_epi32(3, 3, 2, 2, 1, 1, 0, 0);
    let second_halves = _mm256_set_epi32(7, 5, 3, 1, 7, 5, 3, 1);
    let each = _mm256_set_epi64x(8, 4, 2, 1);
    let zero = _mm256_setzero_si256();
    let shift_p = |v| _mm256_slli_epi64::<{ P as i32 }>(v);
    let remainder = |window| _mm256_srli_epi64::<{ 64 - STEP as i32 }>(window);
    // Leading zeros of m < 2^44: with the exponent of 2^52 it is the float 2^52 + m; less 2^52 - 0.5 it is m + 0.5, exactly.
    let step = |window| {
        let m = _mm256_and_si256(window, number((1 << (64 - STEP)) - 1));
        let float = _mm256_castsi256_pd(_mm256_or_si256(m, number(0x433 << 52)));
        let float = _mm256_sub_pd(float, _mm256_set1_pd(4_503_599_627_370_495.5));
        let exponent = _mm256_srli_epi64::<52>(_mm256_castpd_si256(float));
        _mm256_sub_epi64(number(1023 + 63), exponent)
    };
    // What a step adds to the value by its position, and what makes a remainder of inverted bits, less that. So a sum that is
    // `fixed` more gives the next value.
    let fixed = number(STEP << P);
    let inverted = number(((1 << STEP) - 1_u64).wrapping_sub(STEP << P));
    let (positions, _) = lanes.positions.as_chunks_mut::<4>();
    let (sums, _) = lanes.sums.as_chunks_mut::<4>();
    let (at_target, _) = lanes.at_target.as_chunks_mut::<4>();
    let (dropped, _) = lanes.dropped.as_chunks::<4>();
    let (limits, _) = limits.as_chunks::<4>();
    let (mut done, mut odd, mut stopped) = (0, 0, 0);
    while done < groups && stopped == 0 {
        for first in (0..VECTORS).step_by(TOGETHER) {
            let mut words = [[zero; 8]; TOGETHER];
            // Bits from the first loaded one on, and the value so far less `at << P`.
            let (mut at, mut sum) = ([zero; TOGETHER], [zero; TOGETHER]);
            for i in 0..TOGETHER {
                let v = first + i;
                let mut rows = [[zero; 8]; 2];
                for lane in 0..4 {
                    let from = bytes[4 * v + lane].wrapping_add((positions[v][lane] / 8) as usize);
                    _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(AHEAD).cast());
                    for (half, rows) in rows.iter_mut().enumerate() {
                        // SAFETY: by the contract; lanes stop behind their limits.
                        let loaded = unsafe { _mm256_loadu_si256(from.add(32 * half).cast()) };
                        let swapped = _mm256_shuffle_epi8(loaded, swap);
                        rows[lane] = _mm256_xor_si256(swapped, number(u64::MAX));
                    }
                }
                let [low, high] = [transposed(&rows[0]), transposed(&rows[1])];
                words[i][..4].copy_from_slice(&low);
                words[i][4..].copy_from_slice(&high);
                let position = load(&positions[v]);
                at[i] = _mm256_and_si256(position, number(7));
                let begin = shift_p(_mm256_sub_epi64(position, at[i]));
                sum[i] = _mm256_add_epi64(_mm256_add_epi64(load(&sums[v]), begin), fixed);
            }
            let start = at;
            let (mut far, mut long) = ([zero; TOGETHER], [zero; TOGETHER]);
            // Without the dropped bits, two in each word.
            let mut values = [[zero; PAIRS]; TOGETHER];
            for pair in 0..PAIRS {
                let word = WORD[pair];
                let (mut windows, mut length) = ([zero; TOGETHER], [zero; TOGETHER]);
                for i in 0..TOGETHER {
                    let from = _mm256_sub_epi64(at[i], number(64 * word as u64));
                    far[i] = _mm256_or_si256(far[i], from);
                    let next = _mm256_slli_epi64::<57>(from);
                    let [a, b, c] = [words[i][word], words[i][word + 1], words[i][word + 2]];
                    let (high, low) = (select(next, b, a), select(next, c, b));
                    let shift = _mm256_and_si256(at[i], number(63));
                    let low = _mm256_srlv_epi64(low, _mm256_sub_epi64(number(64), shift));
                    windows[i] = _mm256_or_si256(_mm256_sllv_epi64(high, shift), low);
                }
                for i in 0..TOGETHER {
                    length[i] = step(windows[i]);
                }
                for i in 0..TOGETHER {
                    // Zeros follow: a run that is cut off has no end.
                    let second = _mm256_sllv_epi64(windows[i], length[i]);
                    let more = _mm256_sub_epi64(inverted, remainder(windows[i]));
                    sum[i] = _mm256_add_epi64(sum[i], more);
                    let value = _mm256_add_epi64(shift_p(at[i]), sum[i]);
                    at[i] = _mm256_add_epi64(at[i], length[i]);
                    let low = _mm256_srlv_epi64(value, load(&dropped[first + i]));
                    let more = _mm256_sub_epi64(inverted, remainder(second));
                    sum[i] = _mm256_add_epi64(sum[i], more);
                    let value = _mm256_add_epi64(shift_p(at[i]), sum[i]);
                    let up = _mm256_sub_epi64(number(32), load(&dropped[first + i]));
                    let high = _mm256_sllv_epi64(value, up);
                    values[i][pair] = _mm256_blend_epi32::<0b1010_1010>(low, high);
                    let length = step(second);
                    at[i] = _mm256_add_epi64(at[i], length);
                    // 64 has a bit of its own; after such a first length, the second window is zero.
                    long[i] = _mm256_or_si256(long[i], length);
                }
            }
            for i in 0..TOGETHER {
                let v = first + i;
                let bits = number(u64::from(lanes.active >> (4 * v)));
                let active = _mm256_cmpeq_epi64(_mm256_and_si256(bits, each), each);
                let moved = _mm256_and_si256(_mm256_sub_epi64(at[i], start[i]), active);
                let position = _mm256_add_epi64(load(&positions[v]), moved);
                let value = _mm256_add_epi64(shift_p(at[i]), _mm256_sub_epi64(sum[i], fixed));
                let rest = _mm256_sub_epi64(value, shift_p(position));
                let is_far = _mm256_and_si256(far[i], number(!127));
                let is_long = _mm256_and_si256(long[i], number(64));
                let usual = _mm256_cmpeq_epi64(_mm256_or_si256(is_far, is_long), zero);
                let is_odd = signs(_mm256_andnot_si256(usual, active));
                let is_last = signs(_mm256_cmpgt_epi64(position, load(&limits[v])));
                odd |= is_odd << (4 * v);
                stopped |= (is_odd | is_last) << (4 * v);
                store(position, &mut positions[v]);
                store(select(active, rest, load(&sums[v])), &mut sums[v]);
                // Targets up to the last value are passed: each is among the values of the group, or absent.
                let last = _mm256_permutevar8x32_epi32(values[i][PAIRS - 1], second_halves);
                let last = _mm_min_epu32(_mm256_castsi256_si128(last), _mm_set1_epi32(-2));
                let mut equal = zero;
                loop {
                    let at = &mut at_target[v];
                    let mut rows = [_mm_setzero_si128(); 4];
                    for lane in 0..4 {
                        // SAFETY: by the contract, four targets follow.
                        let four = unsafe { targets[4 * v + lane].add(at[lane] as usize) };
                        // SAFETY: as above.
                        rows[lane] = unsafe { _mm_loadu_si128(four.cast()) };
                    }
                    let next = columns(rows);
                    // With few scripts, most groups pass none.
                    let any = _mm_cmpeq_epi32(_mm_max_epu32(next[0], last), last);
                    if _mm_movemask_epi8(any) == 0 {
                        break;
                    }
                    let mut index = load_four(at);
                    let mut passed = _mm_setzero_si128();
                    let mut twins = [zero; NEXT];
                    for (twin, target) in twins.iter_mut().zip(next) {
                        *twin = _mm256_permutevar8x32_epi32(_mm256_castsi128_si256(target), twice);
                        passed = _mm_cmpeq_epi32(_mm_max_epu32(target, last), last);
                        index = _mm_sub_epi32(index, passed);
                    }
                    for &pair in &values[i] {
                        for twin in twins {
                            equal = _mm256_or_si256(equal, _mm256_cmpeq_epi32(twin, pair));
                        }
                    }
                    store_four(index, at);
                    if _mm_movemask_epi8(passed) == 0 {
                        break;
                    }
                }
                lanes.found[v] |= _mm256_movemask_ps(_mm256_castsi256_ps(equal)) as u8;
            }
        }
        done += 1;
    }
    Stopped { groups: done, odd, stopped }
}

/// Number `i` of each row.
#[inline]
#[target_feature(enable = "avx2")]
fn columns(rows: [__m128i; 4]) -> [__m128i; NEXT] {
    let [a, b, c, d] = rows;
    let (ab, cd) = (_mm_unpacklo_epi32(a, b), _mm_unpacklo_epi32(c, d));
    let (ab_high, cd_high) = (_mm_unpackhi_epi32(a, b), _mm_unpackhi_epi32(c, d));
    [
        _mm_unpacklo_epi64(ab, cd),
        _mm_unpackhi_epi64(ab, cd),
        _mm_unpacklo_epi64(ab_high, cd_high),
        _mm_unpackhi_epi64(ab_high, cd_high),
    ]
}
