//! Which way to ask: what each would cost, from the number of items, the number of targets, the level, and
//! whether there is an index.
//!
//! Costs are picoseconds of the machine that they were measured on (`benches/cost_model.rs` holds them against
//! the clock). Only their ratios matter, and those of one level differ little from machine to machine.

use crate::arch::{Kind, Level};

/// How targets are looked for. The answers are the same.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Whatever the cost model finds cheaper.
    #[default]
    Cheapest,
    /// Each target on its own.
    Points,
    /// One pass over the whole filter.
    Merge,
}

/// What the steps of the two ways cost, in picoseconds.
struct Costs {
    /// Decoding an item and handing it on: `decode::visit`.
    visit: u64,
    /// Finding places to begin at, an item: `decode::seek_table`.
    seek: u64,
    /// A target's own share of a look-up, but for the items.
    look_up: u64,
    /// An item in a look-up.
    scan: u64,
}

impl Costs {
    fn of(level: Level) -> Self {
        match level.kind() {
            Kind::Portable => Self {
                visit: 3_400,
                seek: 3_400,
                look_up: 15_000,
                scan: 3_000,
            },
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(_) => Self {
                visit: 2_600,
                seek: 2_600,
                look_up: 15_000,
                scan: 2_200,
            },
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512(_) => Self {
                visit: 1_000,
                seek: 500,
                look_up: 10_000,
                scan: 600,
            },
        }
    }
}

/// Sorting a target, for each doubling of their number.
const SORT: u64 = 900;
/// Finding a target among the values that are decoded.
const MERGE: u64 = 8_000;
/// A target whose bits, and whose place in the index, come from beyond the second cache.
const MISS: u64 = 15_000;
/// What of a filter lies in the second cache when it is asked.
const SECOND_CACHE: u64 = 2 << 20;
/// Finding the place for a target in a table by search, for each doubling of their number.
const SEARCH: u64 = 1_500;
/// How many items a look-up decodes beside half a step: those before its part, those before a lane is looked
/// at again.
const BESIDE: u64 = 8;

/// Whether point look-ups are cheaper than a pass over a filter that has an index of `step` items an entry.
pub(super) fn points_win_indexed(level: Level, n: u32, targets: usize, step: u32) -> bool {
    let look_up = look_up(level, n, step);
    (targets as u64).saturating_mul(look_up) <= merge(level, n, targets)
}

/// The same without an index: places every `step` items have to be found first.
pub(super) fn points_win_unindexed(level: Level, n: u32, targets: usize, step: u32) -> bool {
    let places = u64::from(n / step.max(1)) + 1;
    let look_up = look_up(level, n, step) + SEARCH * u64::from(places.ilog2());
    let seek = Costs::of(level).seek * u64::from(n);
    (targets as u64)
        .saturating_mul(look_up)
        .saturating_add(seek)
        <= merge(level, n, targets)
}

fn look_up(level: Level, n: u32, step: u32) -> u64 {
    let costs = Costs::of(level);
    // The usual parameters take two bytes and a half an item.
    let miss = if u64::from(n) * 5 / 2 > SECOND_CACHE {
        MISS
    } else {
        0
    };
    costs.look_up + miss + costs.scan * (u64::from(step) / 2 + BESIDE)
}

fn merge(level: Level, n: u32, targets: usize) -> u64 {
    let targets = targets as u64;
    let doublings = u64::from((targets + 1).ilog2());
    let each = SORT * doublings + MERGE;
    targets
        .saturating_mul(each)
        .saturating_add(Costs::of(level).visit * u64::from(n))
}

/// How many items lie between places that are found for one batch of targets.
///
/// At 64 items, a thousand targets cost less than a tenth of finding the places. Where a byte holds many items,
/// the places must not take more memory than a quarter of the filter.
pub(super) fn seek_step(n: u32, len: usize) -> u32 {
    let most = u64::from(n) * 64 / (len as u64).max(1);
    u32::try_from(most).unwrap_or(u32::MAX).max(64)
}
