//! Sorting of hashes: fast because they are uniform, safe where somebody saw to it that they are not.
//!
//! Uniform hashes need no comparison to find nearly their place. A pass deals them to buckets by their
//! leading bits, each bucket with room for what it may expect and eight standard deviations more
//! ([`Buckets`]). Further passes deal a bucket, which is in cache by then, to smaller ones ([`Stage`]), until
//! one has about two thousand hashes and is sorted within the first cache ([`leaf`]). Nothing is counted
//! beforehand.
//!
//! **Who can choose items can choose hashes.** So every step has a limit, and what goes beyond it has the
//! general sort, `sort_unstable`, which nothing makes quadratic: the surplus of the buckets (up to an eighth
//! of the set; beyond, the whole set), a bucket whose parts overflow, a leaf whose cells do. No hash is
//! dealt more than [`MOST_DEALS`] times before that, and [`Work`] counts it.

mod buckets;
mod deal;
mod leaf;
#[cfg(feature = "parallel")]
mod parallel;
mod stage;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::mem;
use core::ops::Range;

use crate::arch::{Kind, Level};
pub(crate) use buckets::BLOCK;
use buckets::Buckets;
use leaf::LEAF_ITEMS;

/// Below this the general sort is as fast.
fn few(level: Level) -> usize {
    match level.kind() {
        // Few leaves, so integers (see `leaf`), and no vectors for these.
        Kind::Portable => 8192,
        #[cfg(target_arch = "x86_64")]
        Kind::Avx2(_) | Kind::Avx512(_) => 1024,
    }
}

/// Into how many buckets a pass deals at most where they are in memory, beyond the caches. 64 streams of
/// stores are as fast as one here, 70 take twice the time.
const WAYS: u64 = 64;

/// And where they are in the second cache.
const CACHED_WAYS: u64 = 128;

/// Three passes and the leaf.
#[cfg(test)]
const MOST_DEALS: usize = 4;

/// What sorting took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    /// Hashes dealt by a pass or to a leaf, once for each time.
    pub(crate) dealt: usize,
    /// Hashes that went through the general sort.
    pub(crate) general: usize,
}

/// Sorts `hashes`.
///
/// Takes 8 to 10 bytes an item beside them; where these are not to be had, it sorts in place with
/// `sort_unstable`. With the feature `parallel`, large sets are sorted by the threads of the current pool.
pub(crate) fn sort_hashes(level: Level, hashes: Vec<u64>) -> Vec<u64> {
    #[cfg(feature = "parallel")]
    if parallel::threads(hashes.len()) > 1 {
        return parallel::sort(level, hashes);
    }
    sort_counting(level, hashes).0
}

/// [`sort_hashes`] on this thread alone: its memory is 8 to 10 bytes an item whatever the features are.
#[cfg(feature = "store")]
pub(crate) fn sort_alone(level: Level, hashes: Vec<u64>) -> Vec<u64> {
    sort_counting(level, hashes).0
}

/// Sorts the `n` hashes that `hash` gives, block by block, without ever having them in a row: `hash` is told
/// where to begin and fills what it is given, from any thread.
///
/// Takes 8 to 10 bytes an item, with what is returned; twice that where threads share the work.
pub(crate) fn sort_made(
    level: Level,
    n: usize,
    hash: impl Fn(usize, &mut [u64]) + Sync,
) -> Vec<u64> {
    #[cfg(feature = "parallel")]
    if parallel::threads(n) > 1 {
        return parallel::sort_made(level, n, hash);
    }
    let mut collector = Collector::new(level, n);
    collector.make(0..n, hash);
    collector.into_sorted()
}

fn sort_counting(level: Level, mut hashes: Vec<u64>) -> (Vec<u64>, Work) {
    let mut work = Work::default();
    if is_ordered(&mut hashes) {
        return (hashes, work);
    }
    if let Some(mut buckets) = Buckets::new(level, Plan::new(hashes.len()), hashes.len()) {
        if hashes.chunks(BLOCK).all(|block| buckets.deal(block)) {
            drop(hashes);
            return buckets.into_sorted();
        }
        work.dealt = buckets.len();
    }
    hashes.sort_unstable();
    work.general += hashes.len();
    (hashes, work)
}

/// Sorts `hashes` in passes of `parts` parts each, 1 or more, whatever their number; `None` where they are too few
/// for the level, or not uniform. For tests: sets of more than one pass are large.
#[doc(hidden)]
#[must_use]
pub fn sort_in_passes(level: Level, parts: [u64; 3], hashes: &[u64]) -> Option<Vec<u64>> {
    let mut buckets = Buckets::new(level, Plan { parts }, hashes.len())?;
    let dealt = hashes.chunks(BLOCK).all(|block| buckets.deal(block));
    dealt.then(|| buckets.into_sorted().0)
}

/// Whether somebody has sorted `hashes` already, which are turned where they go down.
///
/// Both looks end at the first step the other way: at once, where nobody has.
fn is_ordered(hashes: &mut [u64]) -> bool {
    if hashes.is_sorted() {
        return true;
    }
    let descends = hashes.is_sorted_by(|a, b| a >= b);
    if descends {
        hashes.reverse();
    }
    descends
}

/// Hashes that come in blocks and are dealt at once, for as long as they look uniform.
pub(crate) struct Collector {
    level: Level,
    state: State,
}

enum State {
    Dealt(Buckets),
    /// As they came: few, of unknown number, without memory for more, or skewed.
    Plain(Vec<u64>),
}

impl Collector {
    /// A collector of about `n` hashes.
    pub(crate) fn new(level: Level, n: usize) -> Self {
        Self::of_part(level, Plan::new(n), n)
    }

    /// A collector of about `n` hashes of a set that is cut up by `plan`.
    fn of_part(level: Level, plan: Plan, n: usize) -> Self {
        let state = match Buckets::new(level, plan, n) {
            Some(buckets) => State::Dealt(buckets),
            None => State::Plain(Vec::new()),
        };
        Self { level, state }
    }

    /// Takes `block`, of no more than [`BLOCK`] hashes.
    pub(crate) fn push(&mut self, block: &[u64]) {
        match &mut self.state {
            State::Plain(hashes) => hashes.extend_from_slice(block),
            State::Dealt(buckets) => {
                if !buckets.deal(block)
                    && let State::Dealt(buckets) =
                        mem::replace(&mut self.state, State::Plain(Vec::new()))
                {
                    self.state = State::Plain(buckets.into_unsorted());
                }
            }
        }
    }

    /// Takes the hashes of this range, made as by [`sort_made`].
    fn make(&mut self, range: Range<usize>, hash: impl Fn(usize, &mut [u64])) {
        let mut block = [0; BLOCK];
        for start in range.clone().step_by(BLOCK) {
            let len = BLOCK.min(range.end - start);
            hash(start, &mut block[..len]);
            self.push(&block[..len]);
        }
    }

    /// All of them, sorted.
    pub(crate) fn into_sorted(self) -> Vec<u64> {
        match self.state {
            #[cfg(feature = "parallel")]
            State::Dealt(buckets) if parallel::threads(buckets.len()) > 1 => {
                parallel::sort_dealt(buckets)
            }
            State::Dealt(buckets) => buckets.into_sorted().0,
            State::Plain(hashes) => sort_hashes(self.level, hashes),
        }
    }
}

/// How a set is cut up, by its size alone: into how many parts each pass deals what the one before it made.
/// Passes that are not needed have one part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plan {
    parts: [u64; 3],
}

impl Plan {
    /// The plan for a set of about `n` hashes.
    fn new(n: usize) -> Self {
        let leaves = (n as u64).div_ceil(LEAF_ITEMS as u64).max(1);
        let parts = if leaves <= WAYS {
            [leaves, 1, 1]
        } else if leaves <= WAYS * CACHED_WAYS {
            let first = leaves.isqrt().min(WAYS);
            [first, leaves.div_ceil(first), 1]
        } else {
            let each = leaves.div_ceil(WAYS);
            // As many as may be before the last pass, whose parts then stay in the second cache; evenly, they
            // take a third more time at 100 million.
            let third = each.div_ceil(WAYS);
            [WAYS, each.div_ceil(third), third]
        };
        Self { parts }
    }
}

/// Merges `more` into `hashes`, whose last `more.len()` places are free; both are sorted.
fn merge_tail(hashes: &mut [u64], more: &[u64]) {
    let mut end = hashes.len() - more.len();
    for (ahead, &hash) in more.iter().enumerate().rev() {
        // Search from the end by doubling steps: near it where there are many, and never far.
        let mut step = 1;
        while step < end && hashes[end - step] > hash {
            step *= 2;
        }
        let from = end.saturating_sub(step);
        let at = from + hashes[from..end].partition_point(|&other| other <= hash);
        hashes.copy_within(at..end, at + ahead + 1);
        hashes[at + ahead] = hash;
        end = at;
    }
}
