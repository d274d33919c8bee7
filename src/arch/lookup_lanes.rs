//! Many look-ups at once. Each lane decodes from its own place until it passes its own target, and then takes the
//! next target.
//!
//! The vectors of [`crate::arch::lanes`] are interleaved step by step: the chain from one code to the next takes 20
//! cycles and more, and one vector would use only a few of them. A step decodes two codes, or one if two usually do
//! not fit in the 57 bits that one load gives at any bit position.
//!
//! LookupLanes are checked once per lap of [`STEPS`] steps. In between, a lane may pass its target. Values never
//! decrease, so it cannot meet the target again. It may also pass the end, or meet a code that does not fit. What
//! it decodes is then meaningless, the check at the end of the lap detects it, and the answer is [`REDO`]: the
//! caller looks up that target in scalar code. With the usual parameters that is one target in a thousand.
//!
//! Memory safety: a lap begins only if the positions of all lanes leave room for its steps. LookupLanes beyond that, and
//! places of other bytes, are left to the caller. Every lap consumes bits in each lane, so the loop ends for any places.
//!
//! Rows `match/1k-absent-indexed` and `lookup/batched` in docs/benchmarking.md.

use super::lanes::{Point, Simd, VECTORS, WINDOW};

/// The target is not in the filter.
pub(crate) const ABSENT: u8 = 0;
/// The target is in the filter.
pub(crate) const FOUND: u8 = 1;
/// The lanes could not decide.
pub(crate) const REDO: u8 = 2;

/// The number of steps per lap. Fewer check the lanes too often; more decode too far past the targets.
const STEPS: u64 = 4;

/// The lanes of the widest vector.
const WIDEST: usize = 8;

/// The maximum number of targets.
pub(crate) const BATCH: usize = 256;

/// The number of each target.
const PLACES: [u64; BATCH] = {
    let mut places = [0; BATCH];
    let mut at = 0;
    while at < BATCH {
        places[at] = at as u64;
        at += 1;
    }
    places
};

/// What look-ups need in addition. Numbers are compared as if they were below 2^63.
pub(crate) trait LookUp<const LANES: usize>: Simd<LANES> {
    /// A set of the lanes of a vector.
    type Set: Copy;

    /// Runs `f` with a token whose fields the compiler knows.
    #[inline(always)]
    fn known<R>(self, f: impl FnOnce(Self) -> R) -> R {
        f(self)
    }

    fn empty(self) -> Self::Set;
    /// Adds the lanes in which the numbers are equal.
    fn or_equal(self, set: Self::Set, a: Self::Vector, b: Self::Vector) -> Self::Set;
    fn without(self, set: Self::Set, bits: u32) -> Self::Set;
    fn bits(self, set: Self::Set) -> u32;
    /// The lanes in which `a` is above `b`.
    fn above(self, a: Self::Vector, b: Self::Vector) -> u32;
    /// The first numbers of `next`, in order, in the lanes of these bits, and those of `old` in the others.
    fn expand(self, old: Self::Vector, bits: u32, next: Self::Vector) -> Self::Vector;
}

/// Targets and where to decode from: three lists of the same length.
#[derive(Clone, Copy)]
struct Lists<'a> {
    positions: &'a [u64],
    bases: &'a [u64],
    targets: &'a [u64],
}

/// The lanes of a vector.
#[derive(Clone, Copy)]
struct LookupLanes<V, S> {
    position: V,
    value: V,
    target: V,
    place: V,
    /// The lanes that met their target.
    found: S,
    /// Negative if a code did not fit.
    slack: V,
    /// A bit mask of the lanes that have a target.
    active: u32,
}

/// Tells of each target whether it is among the values coded from the position of its point on, after the point's
/// base: [`ABSENT`], [`FOUND`] or [`REDO`].
///
/// `in_pairs` means that two codes usually fit in a window. It affects only the number of `REDO` answers.
///
/// # Panics
///
/// P is above 32, the lists differ in length, or there are more than [`BATCH`] targets.
pub(crate) fn look_up<const N: usize, S: LookUp<N>>(
    simd: S,
    bytes: &[u8],
    (p, in_pairs): (u32, bool),
    points: &[Point],
    targets: &[u64],
    answers: &mut [u8],
) {
    let n = targets.len();
    assert!(p <= 32 && n <= BATCH && points.len() == n && answers.len() == n);
    let codes = if in_pairs { 2 } else { 1 };
    // The last position from which a lap reads only `bytes`.
    let lap = STEPS * codes * (u64::from(p) + 1 + S::LONGEST_RUN);
    let Some(limit) = (bytes.len() as u64 * 8).checked_sub(lap + 71) else {
        answers.fill(REDO);
        return;
    };
    answers.fill(ABSENT);
    let (mut positions, mut bases) = ([0; BATCH], [0; BATCH]);
    let mut farthest = 0;
    for (at, point) in points.iter().enumerate() {
        farthest = farthest.max(point.position);
        (positions[at], bases[at]) = (point.position.min(limit), point.base);
    }
    let lists = Lists { positions: &positions[..n], bases: &bases[..n], targets };
    match in_pairs {
        true => run::<N, S, 2>(simd, bytes, limit, p, lists, answers),
        false => run::<N, S, 1>(simd, bytes, limit, p, lists, answers),
    }
    if farthest > limit {
        let all = answers.iter_mut().zip(points);
        for (answer, _) in all.filter(|(_, point)| point.position > limit) {
            *answer = REDO;
        }
    }
}

#[inline(never)]
fn run<const N: usize, S: LookUp<N>, const CODES: u64>(
    simd: S,
    bytes: &[u8],
    limit: u64,
    p: u32,
    lists: Lists<'_>,
    answers: &mut [u8],
) {
    simd.compiled(
        #[inline(always)]
        || {
            simd.known(
                #[inline(always)]
                // SAFETY: by the callers' choice of the limit and of the positions.
                |simd| unsafe { body::<N, S, CODES>(simd, bytes, limit, p, lists, answers) },
            );
        },
    );
}

/// # Safety
///
/// From a position up to `limit`, [`STEPS`] steps of [`Simd::window`] are within `bytes`, each of which moves it by at
/// most `CODES * (p + 1 + LONGEST_RUN)`. All positions in the lists are at most the limit.
#[inline(always)]
unsafe fn body<const N: usize, S: LookUp<N>, const CODES: u64>(
    simd: S,
    bytes: &[u8],
    limit: u64,
    p: u32,
    lists: Lists<'_>,
    answers: &mut [u8],
) {
    // The compiler now knows that the lengths are equal.
    let n = lists.targets.len();
    let lists = Lists { positions: &lists.positions[..n], bases: &lists.bases[..n], ..lists };
    let width = u64::from(p) + 1;
    let (zero, limit) = (simd.splat(0), simd.splat(limit));
    let (shift, power) = (simd.splat(p.into()), simd.splat(1 << p));
    let (widths, downs) = (simd.splat(width), simd.splat(64 - width));
    let step_widths = simd.splat(CODES * width);
    let all_ones = simd.splat((2 << p) - 1);
    // A run that may be longer than it counts never fits.
    let room = (i64::from(WINDOW) - (CODES * width) as i64).min(S::LONGEST_RUN as i64 - 1);
    let room = simd.splat(room as u64);

    let mut next = 0;
    let mut vectors = [LookupLanes {
        position: zero,
        value: zero,
        target: zero,
        place: zero,
        found: simd.empty(),
        slack: zero,
        active: 0,
    }; VECTORS];
    loop {
        let mut busy = 0;
        for lanes in &mut vectors {
            finish(simd, lanes, limit, answers);
            next = refill(simd, lanes, lists, next);
            busy |= lanes.active;
        }
        if busy == 0 {
            return;
        }
        let mut before = [zero; VECTORS];
        for v in 0..VECTORS {
            before[v] = vectors[v].position;
        }
        for _ in 0..STEPS {
            for lanes in &mut vectors {
                // SAFETY: by the contract of this function; no position was beyond the limit before the lap.
                let window = unsafe { simd.window(bytes, lanes.position) };
                let mut runs = zero;
                let mut rest = window;
                for code in 0..CODES {
                    let (run, after) = simd.run(rest);
                    let low = simd.shr(after, downs);
                    let value = simd.add_quotient(lanes.value, run, shift, power);
                    lanes.value = simd.add(value, simd.remainder(low, all_ones));
                    lanes.found = simd.or_equal(lanes.found, lanes.value, lanes.target);
                    runs = if code == 0 { run } else { simd.add(runs, run) };
                    rest = simd.shl(after, widths);
                }
                lanes.slack = simd.or(lanes.slack, simd.sub(room, runs));
                lanes.position = simd.add(simd.add(lanes.position, step_widths), runs);
            }
        }
        crate::cost::count(|| {
            let laps = vectors.iter().zip(before);
            let read = laps.map(|(lanes, before)| {
                let mut bits = [0; WIDEST];
                simd.store(simd.sub(lanes.position, before), &mut bits);
                let active = (0..WIDEST).filter(|lane| lanes.active >> lane & 1 == 1);
                active.map(|lane| bits[lane]).sum::<u64>()
            });
            read.sum()
        });
    }
}

/// Writes the answers of the lanes that have one, and frees these lanes.
#[inline(always)]
fn finish<const N: usize, S: LookUp<N>>(
    simd: S,
    lanes: &mut LookupLanes<S::Vector, S::Set>,
    limit: S::Vector,
    answers: &mut [u8],
) {
    let found = simd.bits(lanes.found);
    let redo = simd.negative(lanes.slack) | simd.above(lanes.position, limit);
    let done = lanes.active & (!simd.above(lanes.target, lanes.value) | found | redo);
    lanes.active &= !done;
    let mut known = done & (found | redo);
    if known != 0 {
        let mut places = [0; WIDEST];
        simd.store(lanes.place, &mut places);
        while known != 0 {
            let lane = known.trailing_zeros() as usize;
            let answer = if redo >> lane & 1 == 1 { REDO } else { FOUND };
            answers[places[lane] as usize] = answer;
            known &= known - 1;
        }
    }
}

/// Puts the first numbers of `list` into the free lanes of a vector.
#[inline(always)]
fn expand<const N: usize, S: LookUp<N>>(
    simd: S,
    old: S::Vector,
    free: u32,
    list: &[u64],
) -> S::Vector {
    let numbers = if list.len() < S::WIDTH {
        let mut last = [0; WIDEST];
        last[..list.len()].copy_from_slice(list);
        simd.load(&last)
    } else {
        simd.load(list)
    };
    simd.expand(old, free, numbers)
}

/// Assigns the next targets to free lanes. Returns the number of targets assigned so far.
#[inline(always)]
fn refill<const N: usize, S: LookUp<N>>(
    simd: S,
    lanes: &mut LookupLanes<S::Vector, S::Set>,
    lists: Lists<'_>,
    next: usize,
) -> usize {
    let mut free = !lanes.active & ((1 << S::WIDTH) - 1);
    let waiting = lists.targets.len() - next;
    if free.count_ones() as usize > waiting {
        // Free lanes stay at the first bit.
        lanes.position = simd.expand(lanes.position, free, simd.splat(0));
        while free.count_ones() as usize > waiting {
            free &= free - 1;
        }
    }
    if free == 0 {
        return next;
    }
    lanes.position = expand(simd, lanes.position, free, &lists.positions[next..]);
    lanes.value = expand(simd, lanes.value, free, &lists.bases[next..]);
    lanes.target = expand(simd, lanes.target, free, &lists.targets[next..]);
    lanes.place = expand(simd, lanes.place, free, &PLACES[next..]);
    lanes.slack = simd.expand(lanes.slack, free, simd.splat(0));
    lanes.found = simd.without(lanes.found, free);
    lanes.active |= free;
    next + free.count_ones() as usize
}
