//! One pass of the sort: hashes go to runs by their leading bits, each to the next free place of its run.

/// How many places are found before the first hash is stored.
///
/// Place by place, the CPU has to hold back the look at a run until it knows that no earlier store changed
/// it, and where those went it learns from looks at runs: one store after another, at 6 cycles a hash. Found
/// eight at a time, the places depend on nothing but hashes, and it takes 2 to 3.
pub(super) const BATCH: usize = 8;

/// Where a run's next hash goes, and where its room ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) next: usize,
    pub(super) end: usize,
}

/// `count` runs of `room` places each, one after another.
pub(super) fn runs(count: u64, room: usize) -> impl Iterator<Item = Run> {
    (0..count as usize).map(move |run| Run {
        next: run * room,
        end: (run + 1) * room,
    })
}

/// The room that a run needs which may expect one in `count` of `n` uniform hashes: one set in 10^14 has
/// one with more.
pub(super) fn room(n: usize, count: u64) -> usize {
    let mean = n.div_ceil(count as usize);
    mean + 8 * mean.isqrt() + 8
}

/// Which run a hash goes to: number `hash * factor >> 64`, counted from `base`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Split {
    pub(super) factor: u64,
    pub(super) base: u64,
}

/// Deals `hashes` to their runs in `slots`; `surplus` takes those without room, and says whether to go on.
///
/// Each hash belongs to one of `runs`.
#[inline(always)]
pub(super) fn deal(
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
        for (place, &hash) in places.iter_mut().zip(batch) {
            *place = take_place(runs, split, hash);
        }
        for (&hash, place) in batch.iter().zip(places) {
            if !store(place, hash) {
                return false;
            }
        }
    }
    // A loop, not Iterator::all: that one is not always inlined, and then not compiled for the level.
    for &hash in rest {
        if !store(take_place(runs, split, hash), hash) {
            return false;
        }
    }
    true
}

/// The place of `hash`, or one beyond all slots where its run is full.
#[inline(always)]
fn take_place(runs: &mut [Run], split: Split, hash: u64) -> usize {
    let run = ((u128::from(hash) * u128::from(split.factor)) >> 64) as u64;
    let run = &mut runs[run.wrapping_sub(split.base) as usize];
    // No branch: only who sends skewed hashes knows where it would go.
    let free = run.next < run.end;
    let place = if free { run.next } else { usize::MAX };
    run.next += usize::from(free);
    place
}
