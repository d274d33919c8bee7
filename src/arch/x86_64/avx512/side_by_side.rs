//! The decoder of [`side_by_side`](crate::arch::x86_64::side_by_side), eight lanes a vector.

use core::arch::x86_64::*;

use super::encode::map;
use super::lanes::transposed;
use crate::arch::x86_64::Avx512;
use crate::arch::x86_64::side_by_side::{
    AHEAD, Decodes, LANES, NEXT, P, PAIRS, STEP, SideBySide, Stopped, WORD,
};

const VECTORS: usize = LANES / 8;

/// Vectors that are decoded together.
const TOGETHER: usize = 4;

impl Decodes for Avx512 {
    token_methods! { "avx512f,avx512ifma",
        fn order(a: __m512i, b: __m512i) -> (__m512i, __m512i) {
            (_mm512_min_epu32(a, b), _mm512_max_epu32(a, b))
        }
        fn map_each(hashes: __m512i, ranges: __m512i, dropped: __m512i) -> __m512i {
            _mm512_srlv_epi64(map::<52>(hashes, ranges), dropped)
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
#[target_feature(
    enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi2"
)]
unsafe fn decode_groups(
    lanes: &mut SideBySide,
    bytes: &[*const u8; LANES],
    limits: &[u64; LANES],
    groups: usize,
    targets: &[*const u32; LANES],
) -> Stopped {
    let number = |number: u64| _mm512_set1_epi64(number as i64);
    // SAFETY: eight numbers are 64 bytes.
    let load = |from: &[u64; 8]| unsafe { _mm512_loadu_si512(from.as_ptr().cast()) };
    // SAFETY: as above.
    let store = |v, to: &mut [u64; 8]| unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), v) };
    // SAFETY: eight numbers are 32 bytes.
    let load_eight = |from: &[u32; 8]| unsafe { _mm256_loadu_si256(from.as_ptr().cast()) };
    // SAFETY: as above.
    let store_eight =
        |v, to: &mut [u32; 8]| unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), v) };
    let each_first = _mm512_broadcast_i32x4(_mm_set_epi64x(0x0808_0808_0808_0808, 0));
    let twice = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);
    let swap = _mm_set_epi64x(0x0809_0a0b_0c0d_0e0f, 0x0001_0203_0405_0607);
    let swap = _mm512_broadcast_i32x4(swap);
    let (zero, ones) = (_mm512_setzero_si512(), number(u64::MAX));
    let (sixty_four, seven) = (number(64), number(7));
    let after_step = number((1 << (64 - STEP)) - 1);
    let fixed = number(STEP << P);
    let remainder = |window| _mm512_srli_epi64::<{ 64 - STEP as u32 }>(window);
    let step = |window| _mm512_lzcnt_epi64(_mm512_andnot_si512(window, after_step));
    let (positions, _) = lanes.positions.as_chunks_mut::<8>();
    let (sums, _) = lanes.sums.as_chunks_mut::<8>();
    let (at_target, _) = lanes.at_target.as_chunks_mut::<8>();
    let (dropped, _) = lanes.dropped.as_chunks::<8>();
    let (limits, _) = limits.as_chunks::<8>();
    let active = lanes.active.to_le_bytes();
    let (mut done, mut odd, mut stopped) = (0, 0, 0);
    while done < groups && stopped == 0 {
        for first in (0..VECTORS).step_by(TOGETHER) {
            let mut words = [[zero; 8]; TOGETHER];
            // Bits from the first loaded one on, and the value so far less `at << P`.
            let (mut at, mut sum) = ([zero; TOGETHER], [zero; TOGETHER]);
            for i in 0..TOGETHER {
                let v = first + i;
                let mut rows = [zero; 8];
                for lane in 0..8 {
                    let from = bytes[8 * v + lane].wrapping_add((positions[v][lane] / 8) as usize);
                    _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(AHEAD).cast());
                    // SAFETY: by the contract; lanes stop behind their limits.
                    let loaded = unsafe { _mm512_loadu_si512(from.cast()) };
                    rows[lane] = _mm512_shuffle_epi8(loaded, swap);
                }
                words[i] = transposed(&rows);
                let position = load(&positions[v]);
                at[i] = _mm512_and_si512(position, seven);
                let begin = _mm512_slli_epi64::<P>(_mm512_sub_epi64(position, at[i]));
                sum[i] = _mm512_add_epi64(load(&sums[v]), begin);
            }
            let start = at;
            let (mut far, mut long) = ([zero; TOGETHER], [zero; TOGETHER]);
            // Without the dropped bits, two in each word.
            let mut values = [[zero; PAIRS]; TOGETHER];
            // Of each value the 32 bits above those that are dropped: where their bytes begin, twice.
            let mut kept = [zero; TOGETHER];
            for i in 0..TOGETHER {
                let dropped = _mm512_shuffle_epi8(load(&dropped[first + i]), each_first);
                kept[i] = _mm512_add_epi64(number(0x1810_0800_1810_0800), dropped);
            }
            for pair in 0..PAIRS {
                let word = WORD[pair];
                let (mut windows, mut length) = ([zero; TOGETHER], [zero; TOGETHER]);
                let mut seconds = [zero; TOGETHER];
                for i in 0..TOGETHER {
                    let from = _mm512_sub_epi64(at[i], number(64 * word as u64));
                    far[i] = _mm512_or_si512(far[i], from);
                    let next = _mm512_test_epi64_mask(from, sixty_four);
                    let [a, b, c] = [words[i][word], words[i][word + 1], words[i][word + 2]];
                    let high = _mm512_mask_mov_epi64(a, next, b);
                    let low = _mm512_mask_mov_epi64(b, next, c);
                    windows[i] = _mm512_shldv_epi64(high, low, at[i]);
                }
                for i in 0..TOGETHER {
                    length[i] = step(windows[i]);
                    // Ones follow: a run that is cut off has no end.
                    seconds[i] = _mm512_shldv_epi64(windows[i], ones, length[i]);
                }
                for i in 0..TOGETHER {
                    sum[i] = _mm512_add_epi64(sum[i], remainder(windows[i]));
                    let value = _mm512_add_epi64(_mm512_slli_epi64::<P>(at[i]), sum[i]);
                    at[i] = _mm512_add_epi64(at[i], length[i]);
                    let more = _mm512_sub_epi64(remainder(seconds[i]), fixed);
                    sum[i] = _mm512_add_epi64(sum[i], more);
                    let second = _mm512_add_epi64(_mm512_slli_epi64::<P>(at[i]), sum[i]);
                    sum[i] = _mm512_sub_epi64(sum[i], fixed);
                    values[i][pair] = _mm512_mask_multishift_epi64_epi8(
                        _mm512_multishift_epi64_epi8(kept[i], value),
                        0xf0f0_f0f0_f0f0_f0f0,
                        kept[i],
                        second,
                    );
                    let length = step(seconds[i]);
                    at[i] = _mm512_add_epi64(at[i], length);
                    // 64 has a bit of its own; after such a first length, the second window equals the first.
                    long[i] = _mm512_or_si512(long[i], length);
                }
            }
            for i in 0..TOGETHER {
                let (v, active) = (first + i, active[first + i]);
                let before = load(&positions[v]);
                let moved = _mm512_sub_epi64(at[i], start[i]);
                let position = _mm512_mask_add_epi64(before, active, before, moved);
                let value = _mm512_add_epi64(_mm512_slli_epi64::<P>(at[i]), sum[i]);
                let rest = _mm512_sub_epi64(value, _mm512_slli_epi64::<P>(position));
                let is_far = _mm512_test_epi64_mask(far[i], number(!127));
                let is_odd = active & (is_far | _mm512_test_epi64_mask(long[i], sixty_four));
                let is_last = _mm512_cmpgt_epu64_mask(position, load(&limits[v]));
                odd |= u32::from(is_odd) << (8 * v);
                stopped |= u32::from(is_odd | is_last) << (8 * v);
                store(position, &mut positions[v]);
                store(_mm512_mask_mov_epi64(load(&sums[v]), active, rest), &mut sums[v]);
                // Targets up to the last value are passed: each is among the values of the group, or absent.
                let last = _mm512_cvtepi64_epi32(_mm512_srli_epi64::<32>(values[i][PAIRS - 1]));
                let last = _mm256_min_epu32(last, _mm256_set1_epi32(-2));
                // One for each target, because they wait for each other.
                let mut apart = [u16::MAX; NEXT];
                loop {
                    let at = &mut at_target[v];
                    let mut index = load_eight(at);
                    let mut rows = [_mm_setzero_si128(); 8];
                    for lane in 0..8 {
                        // SAFETY: by the contract, four targets follow.
                        let four = unsafe { targets[8 * v + lane].add(at[lane] as usize) };
                        // SAFETY: as above.
                        rows[lane] = unsafe { _mm_loadu_si128(four.cast()) };
                    }
                    let next = columns(rows);
                    // With few scripts, most groups pass none.
                    if _mm256_cmple_epu32_mask(next[0], last) == 0 {
                        break;
                    }
                    let mut twins = [zero; NEXT];
                    for (twin, target) in twins.iter_mut().zip(next) {
                        *twin = _mm512_permutexvar_epi32(twice, _mm512_castsi256_si512(target));
                        let passed = _mm256_cmple_epu32_mask(target, last);
                        index = _mm256_mask_add_epi32(index, passed, index, _mm256_set1_epi32(1));
                    }
                    for &pair in &values[i] {
                        for (apart, twin) in apart.iter_mut().zip(twins) {
                            *apart = _mm512_mask_cmpneq_epi32_mask(*apart, twin, pair);
                        }
                    }
                    store_eight(index, at);
                    if _mm256_cmple_epu32_mask(next[NEXT - 1], last) == 0 {
                        break;
                    }
                }
                let hits = !(apart[0] & apart[1] & apart[2] & apart[3]);
                let [low, high] = hits.to_le_bytes();
                lanes.found[2 * v] |= low;
                lanes.found[2 * v + 1] |= high;
            }
        }
        done += 1;
    }
    Stopped { groups: done, odd, stopped }
}

/// Number `i` of each row.
#[inline]
#[target_feature(enable = "avx2")]
fn columns(rows: [__m128i; 8]) -> [__m256i; NEXT] {
    let [a, b, c, d, e, f, g, h] = rows;
    let two = |low, high| _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high);
    let [a, b, c, d] = [two(a, e), two(b, f), two(c, g), two(d, h)];
    let (ab, cd) = (_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d));
    let (ab_high, cd_high) = (_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));
    [
        _mm256_unpacklo_epi64(ab, cd),
        _mm256_unpackhi_epi64(ab, cd),
        _mm256_unpacklo_epi64(ab_high, cd_high),
        _mm256_unpackhi_epi64(ab_high, cd_high),
    ]
}
