//! Many look-ups at once: 32 lanes, each of which decodes from its own place until it has passed its own
//! target, and then takes the next target.
//!
//! Four vectors of eight lanes are in flight, interleaved step by step, because the chain from one code to
//! the next is some 20 cycles long and a vector keeps only a few of them busy. A step decodes two codes, or
//! one where two do not fit the 57 bits that one load gives at any bit position.
//!
//! Lanes are looked at once a lap of [`STEPS`] steps. In between a lane may run past its target: values never
//! decrease, so that it cannot meet it again. It may also run past the end, or meet a code that does not fit;
//! then what it decodes means nothing, the lap's end sees it, and the answer is [`REDO`]: the caller looks
//! that target up in plain code. With the usual parameters it is one in a thousand.
//!
//! Memory safety: the only reads are gathers at byte offsets that are clamped to `bytes.len() - 8`, and
//! expanding loads of the lists of targets, as long as those are. Every lap moves a lane on by bits, so that
//! it ends whatever its position was.
//!
//! Rows `match/1k-absent-indexed` and `lookup/batched` in docs/benchmarking.md.

use core::arch::x86_64::*;

use super::step::Code;
use crate::arch::x86_64::Avx512;

/// The target is not there.
pub(crate) const ABSENT: u8 = 0;
/// The target is there.
pub(crate) const FOUND: u8 = 1;
/// The lanes could not tell.
const REDO: u8 = 2;

/// How many vectors are in flight. Two leave the units idle, eight spill.
const VECTORS: usize = 4;

/// How many steps a lap has: fewer look at the lanes too often, more run too far past the targets.
const STEPS: usize = 4;

impl Avx512 {
    /// For each target whether it is among the values that are coded from its position on, the first of which
    /// is counted from its base: [`ABSENT`], [`FOUND`] or [`REDO`].
    ///
    /// `in_pairs` says whether two codes usually fit 57 bits; it changes no answer but how many are `REDO`.
    ///
    /// # Panics
    ///
    /// Where the slices differ in length, or P is above 32.
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
        prefetch(bytes, positions);
        let lists = Lists {
            positions,
            bases,
            targets,
        };
        // SAFETY: the token says that the CPU has the features.
        unsafe {
            if in_pairs {
                look_up::<true>(bytes, last, p, lists, answers);
            } else {
                look_up::<false>(bytes, last, p, lists, answers);
            }
        }
    }
}

/// Asks for the bits of all targets at once. Lanes would wait for them: each reads on in a place of its own, and
/// four lanes more do not make up for that (look-ups in a filter beyond the second cache take twice the time).
fn prefetch(bytes: &[u8], positions: &[u64]) {
    /// What the items of half a part take, and a little more.
    const LINES: usize = 2;
    for &position in positions {
        let at = usize::try_from(position / 8).unwrap_or(usize::MAX);
        let Some(rest) = bytes.get(at..) else {
            continue;
        };
        for line in rest.chunks(64).take(LINES) {
            // SAFETY: the pointer is that of a slice; and to ask for a line reads nothing.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
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
    /// Places in the lists.
    place: __m512i,
    active: __mmask8,
    found: __mmask8,
    /// Negative where a code did not fit.
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
    // SAFETY: no position is beyond the limit, which the gate found to have eight bytes.
    let window = unsafe { code.window(bytes.as_ptr(), within) };
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

/// Writes the answers of the lanes that know them, and frees these lanes.
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
        // SAFETY: the array has the 64 bytes that are written.
        unsafe { _mm512_storeu_si512(places.as_mut_ptr().cast(), lanes.place) };
        while known != 0 {
            let lane = known.trailing_zeros() as usize;
            let answer = if redo >> lane & 1 == 1 { REDO } else { FOUND };
            answers[places[lane] as usize] = answer;
            known &= known - 1;
        }
    }
}

/// Gives the next targets to lanes that are free; gives how many targets have been given then.
#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512ifma,bmi1,bmi2,lzcnt,popcnt"
)]
fn refill(lanes: &mut Lanes, lists: Lists<'_>, next: usize) -> usize {
    let waiting = (lists.targets.len() - next).min(8);
    // The first free lanes, no more than there are targets waiting.
    let free = _pdep_u32((1 << waiting) - 1, u32::from(!lanes.active)) as __mmask8;
    if free == 0 {
        return next;
    }
    // SAFETY: an expanding load reads as many elements as the mask has bits, which is at most `waiting`, and so
    // many are left in each list (the gate asserted that they are equally long).
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
