//! Decodes 32 filters of P = 19 side by side, one in each lane: `block_filters` in docs/block-filters.md.
//!
//! A lane begins at its filter's first code. So there is nothing to synchronise, and values are absolute at once.
//!
//! A position is that of the zero that ends the quotient of the code at hand. From there, the remainder is at the top of the
//! window, and one count of leading zeros after it gives the length of a whole step: the zero, the remainder, and the ones of
//! the next quotient. A step adds `remainder + (ones << P)` to the value, and moves by `P + 1 + ones`. So the value so far,
//! with the quotient at hand, is `(position << P) + sum`, where `sum` needs the remainders alone.
//!
//! Each group of [`CODES`] codes loads 64 bytes per lane, which are transposed to eight words of all lanes. Filters of uniform
//! hashes advance at nearly the same speed, so each pair of codes begins in one of two known words. (Gathers are
//! slow on AMD: docs/decisions/0008-decoding.md.) A lane that is elsewhere, or has a code that does
//! not fit, is *odd*: its filter is left to other code.

use core::arch::x86_64::*;

use super::lanes::transposed;
use crate::arch::x86_64::Avx512;

/// The number of filters.
pub(crate) const LANES: usize = 32;

/// The number of codes of a group.
pub(crate) const CODES: usize = 2 * PAIRS;

/// The bytes that are loaded for a group.
pub(crate) const LOADED: usize = 64;

/// The only P for which these lanes are made, with M = 784931.
pub(crate) const P: u32 = 19;

/// The bits of a zero and a remainder.
const STEP: u64 = P as u64 + 1;

const PAIRS: usize = 10;

/// The first of the two words in which a pair of codes begins. With 42.1 bits a pair, each begins on average at least 32 bits
/// after the beginning of the first, and before the end of the second.
const WORD: [usize; PAIRS] = [0, 0, 0, 1, 2, 2, 3, 4, 4, 5];

const VECTORS: usize = LANES / 8;

/// Vectors that are decoded together. Four would need more registers than there are.
const TOGETHER: usize = 2;

/// How far ahead bytes are prefetched: 32 streams are more than a CPU follows by itself.
const AHEAD: usize = 512;

/// The lanes between two calls.
#[derive(Clone, Debug)]
pub(crate) struct SideBySide {
    /// The bit position of the zero that ends the quotient at hand.
    pub(crate) positions: [u64; LANES],
    /// The value so far, with that quotient, less `position << P`.
    pub(crate) sums: [u64; LANES],
    /// A bit for each lane that decodes. The others stand still.
    pub(crate) active: u32,
    /// The place of the target that each lane looks for, and the target.
    pub(crate) at_target: [u64; LANES],
    pub(crate) next: [u64; LANES],
    /// Two bits for each lane: whether a target was found.
    pub(crate) found: [u16; VECTORS],
}

/// Why a call ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopped {
    /// The groups that were decoded.
    pub(crate) groups: usize,
    /// The lanes that are odd: their state means nothing.
    pub(crate) odd: u32,
    /// The lanes that are odd, or have no room for another group.
    pub(crate) stopped: u32,
}

impl SideBySide {
    /// Decodes up to `groups` groups of [`CODES`] codes, until a lane stops, and looks for targets among their values. Each lane
    /// has an equal share of `targets`, in ascending order.
    ///
    /// # Panics
    ///
    /// A lane has fewer than [`LOADED`] bytes left, is beyond its targets, or the last of them is not `u64::MAX`.
    pub(crate) fn advance(
        &mut self,
        _: Avx512,
        bytes: &[&[u8]; LANES],
        groups: usize,
        targets: &[u64],
    ) -> Stopped {
        let mut limits = [0; LANES];
        let share = targets.len() / LANES;
        for lane in 0..LANES {
            let last = bytes[lane].len().checked_sub(LOADED);
            let last = last.expect("the bytes of a group");
            assert!(self.positions[lane] / 8 <= last as u64);
            limits[lane] = last as u64 * 8 + 7;
            let end = share * (lane + 1) - 1;
            assert!(self.at_target[lane] <= end as u64 && targets[end] == u64::MAX);
        }
        let start = bytes.map(<[u8]>::as_ptr);
        // SAFETY: the token proves that the CPU has the features. Each position, and each up to its limit, is at least 64 bytes
        // before the end of its bytes. No value is `u64::MAX`, so no lane passes the end of its targets.
        unsafe { advance(self, &start, &limits, groups, targets.as_ptr()) }
    }
}

/// # Safety
///
/// The bytes of each lane have 64 bytes from the byte of its position on, and of any position up to its limit. From its target
/// on there is one in `targets` that is `u64::MAX`.
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi2,bmi2")]
unsafe fn advance(
    lanes: &mut SideBySide,
    bytes: &[*const u8; LANES],
    limits: &[u64; LANES],
    groups: usize,
    targets: *const u64,
) -> Stopped {
    let number = |number: u64| _mm512_set1_epi64(number as i64);
    // SAFETY: eight numbers are 64 bytes.
    let load = |from: &[u64; 8]| unsafe { _mm512_loadu_si512(from.as_ptr().cast()) };
    // SAFETY: as above.
    let store = |v, to: &mut [u64; 8]| unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), v) };
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
    let (next, _) = lanes.next.as_chunks_mut::<8>();
    let (at_target, _) = lanes.at_target.as_chunks_mut::<8>();
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
            // The low halves of the values, two in each word. They tell a value from all that a group can pass.
            let mut values = [[zero; PAIRS]; TOGETHER];
            let mut last = [zero; TOGETHER];
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
                    last[i] = _mm512_add_epi64(_mm512_slli_epi64::<P>(at[i]), sum[i]);
                    sum[i] = _mm512_sub_epi64(sum[i], fixed);
                    values[i][pair] =
                        _mm512_mask_shuffle_epi32::<0b10_10_00_00>(value, 0xaaaa, last[i]);
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
                store(
                    _mm512_mask_mov_epi64(load(&sums[v]), active, rest),
                    &mut sums[v],
                );
                // Targets up to the last value are passed: each is among the values of the group, or absent.
                let (mut target, last) = (load(&next[v]), last[i]);
                let mut due = _mm512_mask_cmple_epu64_mask(active & !is_odd, target, last);
                while due != 0 {
                    // The low half twice. It tells a value from all others that a group can span.
                    let low = _mm512_shuffle_epi32::<0b10_10_00_00>(target);
                    let halves = (_pdep_u32(due.into(), 0x5555) * 3) as u16;
                    let mut hits = 0;
                    for &pair in &values[i] {
                        hits |= _mm512_mask_cmpeq_epi32_mask(halves, low, pair);
                    }
                    lanes.found[v] |= hits;
                    let index = load(&at_target[v]);
                    let index = _mm512_mask_add_epi64(index, due, index, number(1));
                    store(index, &mut at_target[v]);
                    // SAFETY: by the contract, a lane stays within its targets: the last one is never passed.
                    target = unsafe {
                        _mm512_mask_i64gather_epi64::<8>(target, due, index, targets.cast())
                    };
                    due = _mm512_mask_cmple_epu64_mask(due, target, last);
                }
                store(target, &mut next[v]);
            }
        }
        done += 1;
    }
    Stopped {
        groups: done,
        odd,
        stopped,
    }
}
