//! One pass of the sort: deals hashes to runs by their leading bits, each to the next free place of its run.

/// The number of places that are computed before the first hash is stored.
///
/// With one place at a time, the CPU must delay the read of a run until it knows that no earlier store changed
/// it. The addresses of those stores depend on reads of runs in turn. The stores are then serialised, at 6
/// cycles per hash. Eight places at a time depend only on hashes, and take 2 to 3 cycles.
pub(super) const BATCH: usize = 8;

/// The place of a run's next hash, and the end of its room.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) next: usize,
    pub(super) end: usize,
}

/// `count` consecutive runs of `room` places each.
pub(super) fn runs(count: u64, room: usize) -> impl Iterator<Item = Run> {
    (0..count as usize).map(move |run| Run { next: run * room, end: (run + 1) * room })
}

/// The room of a run that expects one in `count` of `n` uniform hashes. In one set of 10^14, a run exceeds it.
pub(super) fn room(n: usize, count: u64) -> usize {
    let mean = n.div_ceil(count as usize);
    mean + 8 * mean.isqrt() + 8
}

/// Maps a hash to a run: number `hash * factor >> 64`, relative to `base`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Split {
    pub(super) factor: u64,
    pub(super) base: u64,
}

/// Deals `hashes` to their runs in `slots`. `surplus` receives those without room, and returns whether to
/// continue.
///
/// Each hash must belong to one of `runs`.
///
/// Compiled for the baseline at every level. It has nothing for vectors, and compiled with AVX2 and BMI2 the same
/// loop made the whole sort take 1.4 to 1.7 times as long on a Zen 4.
#[inline]
pub(super) fn scatter(
    slots: &mut [u64],
    runs: &mut [Run],
    split: Split,
    hashes: &[u64],
    mut surplus: impl FnMut(u64) -> bool,
) -> bool {
    let mut store = |place: usize, hash| match slots.get_mut(place) {
        Some(slot) => {
            *slot = hash;
            true
        }
        None => surplus(hash),
    };
    let (batches, rest) = hashes.as_chunks::<BATCH>();
    for batch in batches {
        let mut places = [0; BATCH];
        for (at, place) in places.iter_mut().enumerate() {
            *place = take_place(runs, split, batch[at]);
        }
        for (at, &place) in places.iter().enumerate() {
            if !store(place, batch[at]) {
                return false;
            }
        }
    }
    rest.iter().all(|&hash| store(take_place(runs, split, hash), hash))
}

/// The place of `hash`, or one beyond all slots if its run is full.
#[inline(always)]
fn take_place(runs: &mut [Run], split: Split, hash: u64) -> usize {
    let run = ((u128::from(hash) * u128::from(split.factor)) >> 64) as u64;
    let run = &mut runs[run.wrapping_sub(split.base) as usize];
    // No branch: the sender of skewed hashes could make it unpredictable.
    let free = run.next < run.end;
    let place = if free { run.next } else { usize::MAX };
    run.next += usize::from(free);
    place
}
