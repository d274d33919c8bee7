//! Sorts hashes: fast if they are uniform, and safe if an attacker chose them.
//!
//! Uniform hashes almost determine their places without comparisons. A pass deals them to buckets by their
//! leading bits. Each bucket has room for its expected number plus eight standard deviations ([`Buckets`]).
//! Further passes deal a bucket, which is in cache by then, to smaller ones ([`Stage`]). A bucket of about two
//! thousand hashes is sorted within the first-level cache ([`leaf`]). Nothing is counted beforehand. P. McIlroy, K. Bostic and
//! M. D. McIlroy, "Engineering radix sort", 1993; K.-D. Neubert, "The Flashsort1 algorithm", 1998, for places by value.
//!
//! **An attacker who chooses items can choose hashes.** Every step therefore has a limit. Beyond the limit, the
//! general sort `sort_unstable` is used, which no input makes quadratic. It sorts the surplus of the buckets
//! (up to an eighth of the set), a bucket whose parts overflow, and a leaf whose cells overflow. Beyond that the set is
//! dealt once more, by its span in place of all 64 bits, and sorted whole if that fails, too. Before that, no hash is dealt
//! more than [`MOST_DEALS`] times; [`Work`] counts it.

mod buckets;
mod leaf;
mod scatter;
mod stage;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::mem;
use core::ops::Range;

use crate::arch::{Kind, SimdLevel};
pub(crate) use buckets::BLOCK;
use buckets::Buckets;
use leaf::LEAF_ITEMS;

/// Below this number of hashes the general sort is as fast.
fn few(level: SimdLevel) -> usize {
    match level.kind() {
        // Few leaves, so integers (see `leaf`), and no vectors for these.
        Kind::Baseline(_) => 8192,
        #[cfg(target_arch = "x86_64")]
        Kind::Avx2(_) | Kind::Avx512(_) => 1024,
    }
}

/// The maximum number of buckets of a pass that works in memory, beyond the caches. 64 streams of stores are as
/// fast as one here; 70 take twice the time.
const WAYS: u64 = 64;

/// The same for a pass within the second-level cache.
const CACHED_WAYS: u64 = 128;

/// Three passes and the leaf, and before that what an eighth of the set in surplus ends.
#[cfg(test)]
const MOST_DEALS: usize = 5;

/// The work of a sort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    /// The number of hashes dealt by passes and to leaves; each deal counts.
    pub(crate) dealt: usize,
    /// The number of hashes sorted by the general sort.
    pub(crate) general: usize,
}

/// Sorts `hashes`.
///
/// Allocates 8 to 10 bytes per item. If that fails, it sorts in place with `sort_unstable`.
pub(crate) fn sort_hashes(level: SimdLevel, hashes: Vec<u64>) -> Vec<u64> {
    sort_counting(level, hashes).0
}

/// Sorts `n` hashes that `hash` produces in blocks, without ever storing them all unsorted in one vector.
/// `hash` receives the start index and the slice to fill.
///
/// Allocates 8 to 10 bytes per item including the result.
pub(crate) fn sort_made(level: SimdLevel, n: usize, hash: impl Fn(usize, &mut [u64])) -> Vec<u64> {
    let mut collector = Collector::new(level, n);
    collector.make(0..n, hash);
    collector.into_sorted()
}

fn sort_counting(level: SimdLevel, mut hashes: Vec<u64>) -> (Vec<u64>, Work) {
    let mut work = Work::default();
    if is_ordered(&mut hashes) {
        return (hashes, work);
    }
    if let Some(buckets) = scatter_all(level, &hashes, hashes.len(), &mut work) {
        drop(hashes);
        return buckets.into_sorted();
    }
    // Values of 48 bits, or those that an attacker put into one bucket, may be uniform within their span.
    let (min, max) = span(&hashes);
    let shift = (max - min).leading_zeros();
    if shift == 0 {
        hashes.sort_unstable();
        work.general += hashes.len();
        return (hashes, work);
    }
    hashes.iter_mut().for_each(|hash| *hash = (*hash - min) << shift);
    // So many would fill the whole range.
    let all = ((hashes.len() as u128) << 64) / (u128::from((max - min) << shift) + 1);
    let mut sorted = match scatter_all(level, &hashes, all as usize, &mut work) {
        Some(buckets) => {
            drop(hashes);
            let (sorted, more) = buckets.into_sorted();
            work.dealt += more.dealt;
            work.general += more.general;
            sorted
        }
        None => {
            hashes.sort_unstable();
            work.general += hashes.len();
            hashes
        }
    };
    sorted.iter_mut().for_each(|hash| *hash = (*hash >> shift) + min);
    (sorted, work)
}

/// Deals `hashes` to the buckets of about `n`. `None` if there are few, or they are not uniform.
fn scatter_all(level: SimdLevel, hashes: &[u64], n: usize, work: &mut Work) -> Option<Buckets> {
    let mut buckets = Buckets::new(level, Plan::new(n), n)?;
    let is_uniform = hashes.chunks(BLOCK).all(|block| buckets.scatter(block));
    if !is_uniform {
        work.dealt += buckets.len();
    }
    is_uniform.then_some(buckets)
}

/// The least and the greatest hash.
fn span(hashes: &[u64]) -> (u64, u64) {
    let ends = (u64::MAX, u64::MIN);
    hashes.iter().fold(ends, |(min, max), &hash| (min.min(hash), max.max(hash)))
}

/// Sorts `hashes` in passes of `parts` parts each (at least 1), for any number of hashes. Returns `None` if
/// there are too few for the level, or they are not uniform. For tests, because sets that need several passes
/// are large.
#[cfg(feature = "__internals")]
#[must_use]
pub fn sort_in_passes(level: SimdLevel, parts: [u64; 3], hashes: &[u64]) -> Option<Vec<u64>> {
    let mut buckets = Buckets::new(level, Plan { parts }, hashes.len())?;
    let dealt = hashes.chunks(BLOCK).all(|block| buckets.scatter(block));
    dealt.then(|| buckets.into_sorted().0)
}

/// Returns whether `hashes` are already sorted. Reverses them if they descend.
///
/// Both checks end at the first step in the other direction; for unsorted hashes that is immediately.
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

/// Receives hashes in blocks, and deals them at once as long as they look uniform.
pub(crate) struct Collector {
    level: SimdLevel,
    state: Collected,
}

enum Collected {
    Dealt(Buckets),
    /// In input order: few, of unknown number, without memory for buckets, or skewed.
    Plain(Vec<u64>),
}

impl Collector {
    /// A collector of about `n` hashes.
    pub(crate) fn new(level: SimdLevel, n: usize) -> Self {
        Self::of_part(level, Plan::new(n), n)
    }

    /// A collector of about `n` hashes of a set that is divided by `plan`.
    fn of_part(level: SimdLevel, plan: Plan, n: usize) -> Self {
        let state = match Buckets::new(level, plan, n) {
            Some(buckets) => Collected::Dealt(buckets),
            None => Collected::Plain(Vec::new()),
        };
        Self { level, state }
    }

    /// Adds `block`, of at most [`BLOCK`] hashes.
    pub(crate) fn push(&mut self, block: &[u64]) {
        match &mut self.state {
            Collected::Plain(hashes) => hashes.extend_from_slice(block),
            Collected::Dealt(buckets) => {
                if !buckets.scatter(block)
                    && let Collected::Dealt(buckets) =
                        mem::replace(&mut self.state, Collected::Plain(Vec::new()))
                {
                    self.state = Collected::Plain(buckets.into_unsorted());
                }
            }
        }
    }

    /// Adds the hashes of this range, produced as in [`sort_made`].
    pub(crate) fn make(&mut self, range: Range<usize>, hash: impl Fn(usize, &mut [u64])) {
        let mut block = [0; BLOCK];
        for start in range.clone().step_by(BLOCK) {
            let len = BLOCK.min(range.end - start);
            hash(start, &mut block[..len]);
            self.push(&block[..len]);
        }
    }

    /// Returns all hashes, sorted.
    pub(crate) fn into_sorted(self) -> Vec<u64> {
        match self.state {
            Collected::Dealt(buckets) => buckets.into_sorted().0,
            Collected::Plain(hashes) => sort_hashes(self.level, hashes),
        }
    }
}

/// The division of a set, which depends only on its size: the number of parts that each pass makes of a part of
/// the previous one. Passes that are not needed have one part.
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
            // As many parts as possible before the last pass, so that its parts stay in the second-level cache.
            // With an even division, sorting 100 million hashes takes a third more time.
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
        // Search from the end in doubling steps: short if there are many hashes, and never long.
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
