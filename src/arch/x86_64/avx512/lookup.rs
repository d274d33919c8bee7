//! Many look-ups at once, in 32 lanes. Each lane decodes from its own place until it passes its own target, and
//! then takes the next target.
//!
//! Four vectors of eight lanes are interleaved step by step. The dependency chain from one code to the next takes
//! about 20 cycles, and one vector would use only a few of them. A step decodes two codes. If two usually do not
//! fit in the 57 bits that one load gives at any bit position, it decodes one.
//!
//! Lanes are checked once per lap of [`STEPS`] steps. In between, a lane may pass its target. Values never
//! decrease, so it cannot meet the target again. It may also pass the end, or meet a code that does not fit. What
//! it decodes is then meaningless, the check at the end of the lap detects it, and the answer is [`REDO`]: the
//! caller looks up that target in scalar code. With the usual parameters that is one target in a thousand.
//!
//! Memory safety: the only reads are gathers at byte offsets clamped to `bytes.len() - 8`, and expanding loads
//! within the lists of targets. Every lap consumes bits in each lane, so the loop ends for any start positions.
//!
//! Rows `match/1k-absent-indexed` and `lookup/batched` in docs/benchmarking.md.

use core::arch::x86_64::*;

use super::step::{Code, window};
use crate::arch::x86_64::Avx512;

/// The target is not in the filter.
pub(crate) const ABSENT: u8 = 0;
/// The target is in the filter.
pub(crate) const FOUND: u8 = 1;
/// The lanes could not decide.
const REDO: u8 = 2;

/// The number of interleaved vectors. Two leave execution units idle; eight spill registers.
const VECTORS: usize = 4;

/// The number of steps per lap. Fewer check the lanes too often; more decode too far past the targets.
const STEPS: usize = 4;

impl Avx512 {
    /// Returns for each target whether it is among the values coded from its position on, after the value of its
    /// base: [`ABSENT`], [`FOUND`] or [`REDO`].
    ///
    /// `in_pairs` means that two codes usually fit in 57 bits. It affects only the number of `REDO` answers.
    ///
    /// # Panics
    ///
    /// The slices differ in length, or P is above 32.
    pub(crate) fn look_up(
        self,
        bytes: &[u8],
        (p, in_pairs): (u32, bool),
        (positions, bases, targets): (&[u64], &[u64], &[u64]),
        answers: &mut [u8],
    ) {
        assert!(p <= 32);
        let n = targets.len();
        assert!(positions.len() == n && bases.len() == n && answers.len() == n);
        let Some(last) = bytes.len().checked_sub(8) else {
            answers.fill(REDO);
            return;
        };
        answers.fill(ABSENT);
        let lists = Lists {
            positions,
            bases,
            targets,
        };
        // SAFETY: the token proves that the CPU has the features.
        unsafe {
            if in_pairs {
                look_up::<true>(bytes, last, p, lists, answers);
            } else {
                look_up::<false>(bytes, last, p, lists, answers);
            }
        }
    }
}

/// Three lists of the same length.
#[derive(Clone, Copy)]
struct Lists<'a> {
    positions: &'a [u64],
    bases: &'a [u64],
    targets: &'a [u64],
}

/// Eight lanes.
#[derive(Clone, Copy)]
struct Lanes {
    position: __m512i,
    value: __m512i,
    target: __m512i,
    /// Indexes in the lists.
    place: __m512i,
    active: __mmask8,
    found: __mmask8,
    /// Negative if a code did not fit.
    slack: __m512i,
}

#[target_feature(
    enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512ifma,bmi1,bmi2,lzcnt,popcnt"
)]
fn look_up<const PAIRS: bool>(
    bytes: &[u8],
    last: usize,
    p: u32,
    lists: Lists<'_>,
    answers: &mut [u8],
) {
    let code = Code::new(p);
    let zero = _mm512_setzero_si512();
    let limit = _mm512_set1_epi64(last as i64 * 8 + 7);
    let idle = Lanes {
        position: zero,
        value: zero,
        target: zero,
        place: zero,
        active: 0,
        found: 0,
        slack: zero,
    };
    let mut vectors = [idle; VECTORS];
    let mut next = 0;
    loop {
        let mut busy = 0;
        for lanes in &mut vectors {
            finish(lanes, limit, answers);
            next = refill(lanes, lists, next);
            busy |= lanes.active;
        }
        if busy == 0 {
            return;
        }
        let before = vectors;
        for _ in 0..STEPS {
            for lanes in &mut vectors {
                step::<PAIRS>(lanes, &code, bytes, limit);
            }
        }
        crate::cost::count(|| {
            let laps = vectors.iter().zip(&before);
            laps.map(|(now, before)| {
                let bits = _mm512_maskz_sub_epi64(now.active, now.position, before.position);
                _mm512_reduce_add_epi64(bits) as u64
            })
            .sum()
        });
    }
}

/// Decodes two codes, or one, in each lane.
///
/// `limit` is the last bit position at which `bytes` has eight bytes.
#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512ifma,bmi1,bmi2,lzcnt,popcnt"
)]
fn step<const PAIRS: bool>(lanes: &mut Lanes, code: &Code, bytes: &[u8], limit: __m512i) {
    let within = _mm512_min_epu64(lanes.position, limit);
    // SAFETY: no position is beyond the limit, where `look_up` found eight bytes.
    let window = unsafe { window(bytes.as_ptr(), within, true) };
    let (mut runs, top, rest) = code.one(window);
    lanes.value = code.value(lanes.value, runs, top);
    lanes.found |= _mm512_cmpeq_epi64_mask(lanes.value, lanes.target);
    let mut codes = 1;
    if PAIRS {
        let (run, top, _) = code.one(rest);
        lanes.value = code.value(lanes.value, run, top);
        lanes.found |= _mm512_cmpeq_epi64_mask(lanes.value, lanes.target);
        runs = _mm512_add_epi64(runs, run);
        codes = 2;
    }
    lanes.slack = _mm512_or_si512(lanes.slack, code.slack(codes, runs));
    lanes.position = code.behind(lanes.position, codes, runs);
}

/// Writes the answers of the lanes that have one, and frees these lanes.
#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512ifma,bmi1,bmi2,lzcnt,popcnt"
)]
fn finish(lanes: &mut Lanes, limit: __m512i, answers: &mut [u8]) {
    let passed = _mm512_cmpge_epu64_mask(lanes.value, lanes.target);
    let redo = _mm512_movepi64_mask(lanes.slack) | _mm512_cmpgt_epu64_mask(lanes.position, limit);
    let done = lanes.active & (passed | lanes.found | redo);
    lanes.active &= !done;
    let mut known = done & (lanes.found | redo);
    if known != 0 {
        let mut places = [0_u64; 8];
        // SAFETY: the array has 64 bytes.
        unsafe { _mm512_storeu_si512(places.as_mut_ptr().cast(), lanes.place) };
        while known != 0 {
            let lane = known.trailing_zeros() as usize;
            let answer = if redo >> lane & 1 == 1 { REDO } else { FOUND };
            answers[places[lane] as usize] = answer;
            known &= known - 1;
        }
    }
}

/// Assigns the next targets to free lanes. Returns the number of targets assigned so far.
#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512ifma,bmi1,bmi2,lzcnt,popcnt"
)]
fn refill(lanes: &mut Lanes, lists: Lists<'_>, next: usize) -> usize {
    let waiting = (lists.targets.len() - next).min(8);
    // The first free lanes, at most as many as targets are waiting.
    let free = _pdep_u32((1 << waiting) - 1, u32::from(!lanes.active)) as __mmask8;
    if free == 0 {
        return next;
    }
    // SAFETY: an expanding load reads as many elements as the mask has bits: at most `waiting`. Each list has that
    // many left, because all have the same length (asserted in `Avx512::look_up`).
    unsafe {
        let load = |into, list: &[u64]| {
            _mm512_mask_expandloadu_epi64(into, free, list[next..].as_ptr().cast())
        };
        lanes.position = load(lanes.position, lists.positions);
        lanes.value = load(lanes.value, lists.bases);
        lanes.target = load(lanes.target, lists.targets);
    }
    let places = _mm512_add_epi64(
        _mm512_set1_epi64(next as i64),
        _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0),
    );
    lanes.place = _mm512_mask_expand_epi64(lanes.place, free, places);
    lanes.active |= free;
    lanes.found &= !free;
    lanes.slack = _mm512_maskz_mov_epi64(!free, lanes.slack);
    next + free.count_ones() as usize
}
