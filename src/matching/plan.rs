//! Which way to ask: what each would cost, from the number of items, the number of targets, the level, and
//! whether there is an index.
//!
//! Costs are picoseconds of the machine that they were measured on (`benches/cost_model.rs` holds them against
//! the clock). Only their ratios matter, and those of one level differ little from machine to machine.

use crate::arch::lanes::WINDOW;
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
    visit: Pass,
    /// Finding places to begin at, an item: `decode::seek_table`.
    seek: Pass,
    /// A target's own share of a look-up, but for the items.
    look_up: u64,
    /// An item in a look-up.
    scan: u64,
    /// What a look-up takes more where the filter has more than [`NEAR_BYTES`].
    far: u64,
}

/// A pass over all items, in lanes or, where that is cheaper, serially.
struct Pass {
    serial: u64,
    /// An item where there are enough of them to fill the lanes.
    lanes: u64,
    /// What filling the lanes takes.
    start: u64,
}

impl Pass {
    fn over(&self, size: Size) -> u64 {
        let n = u64::from(size.0);
        let short = (self.serial * n).min(self.lanes * n + self.start);
        long_codes(size).saturating_mul(n).saturating_add(short)
    }
}

impl Costs {
    fn of(level: Level) -> Self {
        match level.kind() {
            Kind::Portable => Self {
                visit: Pass {
                    serial: 4_200,
                    lanes: 2_750,
                    start: 10_000_000,
                },
                seek: Pass {
                    serial: 4_200,
                    lanes: 1_850,
                    start: 2_000_000,
                },
                look_up: 15_000,
                scan: 2_400,
                far: 120_000,
            },
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(_) => Self {
                visit: Pass {
                    serial: 2_900,
                    lanes: 1_150,
                    start: 8_000_000,
                },
                seek: Pass {
                    serial: 3_400,
                    lanes: 730,
                    start: 4_500_000,
                },
                look_up: 12_000,
                scan: 1_700,
                far: 120_000,
            },
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512(_) => Self {
                visit: Pass {
                    serial: 2_900,
                    lanes: 900,
                    start: 5_000_000,
                },
                seek: Pass {
                    serial: 3_400,
                    lanes: 420,
                    start: 6_000_000,
                },
                look_up: 8_000,
                scan: 500,
                // The bits of all targets are asked for early.
                far: 15_000,
            },
        }
    }
}

/// Sorting a target, for each doubling of their number.
const SORT: u64 = 1_000;
/// A target's own share of the pass over both.
const MERGE: u64 = 8_000;
/// Skipping to the next target, for each doubling of how many items lie between two of them.
const SKIP: u64 = 2_500;
/// The most bytes of a filter that a cache near the core holds.
const NEAR_BYTES: u64 = 4 << 20;
/// Finding the place for a target in a table by search, for each doubling of their number.
const SEARCH: u64 = 700;
/// How many items a look-up decodes beside half a step: those before its part, those before a lane is looked
/// at again.
const BESIDE: u64 = 8;
/// Reading one more window of a code that does not fit one.
const LONG: u64 = 2_000;

/// The number of items of a filter and its bytes. An item of many bits costs more than one of few.
pub(super) type Size = (u32, usize);

/// What the bits of an average item cost beyond those that a window has.
fn long_codes((n, len): Size) -> u64 {
    let bits = len as u64 * 8 / u64::from(n.max(1));
    bits / u64::from(WINDOW) * LONG
}

impl Strategy {
    /// This way, or the planned one where none was chosen.
    pub(super) fn unless_open(self, planned: impl FnOnce() -> Self) -> Self {
        match self {
            Self::Cheapest => planned(),
            chosen => chosen,
        }
    }
}

/// The cheaper way for a filter that has an index of `step` items an entry.
pub(super) fn indexed(level: Level, size: Size, targets: usize, step: u32) -> Strategy {
    let points = (targets as u64).saturating_mul(look_up(level, size, step));
    cheaper(points, merge(level, size, targets, false))
}

/// The same without an index: places every `step` items have to be found first. Where the `whole` filter has
/// to be read, a pass does not end at the largest target.
pub(super) fn unindexed(
    level: Level,
    size: Size,
    targets: usize,
    step: u32,
    whole: bool,
) -> Strategy {
    if targets < 2 && !whole {
        // It is found half-way on average, and then a pass costs no more, and no memory.
        return Strategy::Merge;
    }
    let places = u64::from(size.0 / step.max(1)) + 1;
    let each = look_up(level, size, step).saturating_add(SEARCH * u64::from(places.ilog2()));
    let seek = Costs::of(level).seek.over(size);
    let points = (targets as u64).saturating_mul(each).saturating_add(seek);
    cheaper(points, merge(level, size, targets, whole))
}

fn cheaper(points: u64, merge: u64) -> Strategy {
    if points <= merge {
        Strategy::Points
    } else {
        Strategy::Merge
    }
}

fn look_up(level: Level, size: Size, step: u32) -> u64 {
    let costs = Costs::of(level);
    let far = if size.1 as u64 > NEAR_BYTES {
        costs.far
    } else {
        0
    };
    let items = u64::from(step) / 2 + BESIDE;
    let each = costs.scan.saturating_add(long_codes(size));
    each.saturating_mul(items)
        .saturating_add(costs.look_up + far)
}

fn merge(level: Level, size: Size, targets: usize, whole: bool) -> u64 {
    let targets = targets as u64;
    let between = u64::from(size.0) / (targets + 1) + 1;
    let each = SORT * u64::from((targets + 1).ilog2()) + MERGE + SKIP * u64::from(between.ilog2());
    let visit = Costs::of(level).visit.over(size);
    // A pass ends at the largest target.
    let visit = if whole {
        visit
    } else {
        visit / (targets + 1) * targets
    };
    targets.saturating_mul(each).saturating_add(visit)
}

/// How many items lie between places that are found for one batch of targets.
///
/// At 64 items, a thousand targets cost less than a tenth of finding the places. Where a byte holds many items,
/// the places must not take more memory than a quarter of the filter.
pub(super) fn seek_step((n, len): Size) -> u32 {
    let most = u64::from(n) * 64 / (len as u64).max(1);
    u32::try_from(most).unwrap_or(u32::MAX).max(64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEXED: u32 = 64;

    /// As many bytes as `n` items of the usual parameters take.
    fn usual(n: u32) -> Size {
        (n, (u64::from(n) * 21 / 8) as usize)
    }

    #[test]
    fn few_targets_are_looked_up_and_many_are_merged() {
        for level in Level::available() {
            for n in [10_000, 1_000_000, 100_000_000, u32::MAX] {
                assert_eq!(
                    indexed(level, usual(n), 10, INDEXED),
                    Strategy::Points,
                    "{level}, {n}"
                );
                // An index of few entries gives little, and one entry nothing.
                assert_eq!(
                    indexed(level, usual(n), 1000, n),
                    Strategy::Merge,
                    "{level}, {n}"
                );
                let many = n as usize * 64;
                for whole in [false, true] {
                    let planned = unindexed(level, usual(n), many, 64, whole);
                    assert_eq!(planned, Strategy::Merge, "{level}, {n}");
                    assert_eq!(unindexed(level, usual(n), 0, 64, false), Strategy::Merge);
                }
            }
            assert_eq!(
                indexed(level, usual(100), 1000, INDEXED),
                Strategy::Merge,
                "{level}"
            );
            assert_eq!(
                unindexed(level, usual(1000), 1, 64, false),
                Strategy::Merge,
                "{level}"
            );
        }
    }

    #[test]
    fn places_for_a_thousand_targets_in_a_million_items_are_worth_finding() {
        for level in Level::available() {
            for n in [1_000_000, 10_000_000] {
                for whole in [false, true] {
                    let planned = unindexed(level, usual(n), 1000, 64, whole);
                    assert_eq!(planned, Strategy::Points, "{level}, {n}");
                }
            }
        }
    }

    #[test]
    fn with_more_targets_a_merge_never_becomes_worse() {
        // A pass for one or two ends early.
        let counts: [usize; 12] = core::array::from_fn(|i| 20 * 10_usize.pow(i as u32));
        for level in Level::available() {
            for n in [1, 10, 1000, 30_000, 1_000_000, 50_000_000, u32::MAX] {
                let ways: [&dyn Fn(usize) -> Strategy; 3] = [
                    &|targets| indexed(level, usual(n), targets, INDEXED),
                    &|targets| unindexed(level, usual(n), targets, 64, false),
                    &|targets| unindexed(level, usual(n), targets, 64, true),
                ];
                for (what, way) in ways.iter().enumerate() {
                    let merged = counts.map(|targets| way(targets) == Strategy::Merge);
                    // Where all targets lie close, sorting grows by their logarithm and a look-up does not: a
                    // merge may lose again, with a hundred times as many targets as items.
                    let counts = counts
                        .iter()
                        .filter(|&&targets| targets as u64 <= u64::from(n));
                    let merged = &merged[..counts.count()];
                    assert!(
                        merged.is_sorted(),
                        "{level}, {n} items, way {what}: {merged:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn costs_of_the_largest_numbers_do_not_overflow() {
        for level in Level::available() {
            for n in [0, 1, u32::MAX] {
                for targets in [0, 1, usize::MAX / 2, usize::MAX - 1] {
                    for step in [1, u32::MAX] {
                        let _ = indexed(level, usual(n), targets, step);
                        let _ = unindexed(level, usual(n), targets, step, true);
                    }
                }
            }
        }
    }

    #[test]
    fn places_never_take_more_than_a_quarter_of_the_filter() {
        for (n, len) in [
            (1_000_000, 2_631_549),
            (8_000_000, 1_000_000),
            (u32::MAX, 1),
            (0, 0),
        ] {
            let step = seek_step((n, len));
            let places = u64::from(n) / u64::from(step);
            assert!(
                step >= 64 && (places * 16 <= len as u64 / 4 || step == u32::MAX),
                "{n}, {len}"
            );
        }
    }
}
