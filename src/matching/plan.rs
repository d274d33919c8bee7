//! The cost model. It chooses the strategy from the number of items, the number of targets, the SIMD level, and
//! whether there is an index.
//!
//! Costs are in picoseconds, measured on one machine (`benches/cost_model.rs` compares them with the clock).
//! Only their ratios matter, and for one level those differ little between machines.

use crate::arch::lanes::WINDOW;
use crate::arch::{Kind, SimdLevel};

/// How targets are looked up. The answers are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// The cheaper one according to the cost model.
    #[default]
    Cheapest,
    /// A look-up for each target.
    Lookup,
    /// One pass over the filter and the sorted targets.
    Merge,
    /// One pass that puts the values into a bitmap, and a test of each target.
    Bitmap,
}

/// Costs of the steps of both strategies, in picoseconds.
struct Costs {
    /// Decoding an item and passing it on: `decode::visit`.
    visit: Pass,
    /// The number of items that [`Self::visit`] decodes before it passes the first on.
    block: u64,
    /// Finding start points, per item: `decode::seek_table`.
    seek: Pass,
    /// The cost of a look-up per target, without its items.
    look_up: u64,
    /// The cost of an item in a look-up.
    scan: u64,
    /// The extra cost of a look-up if the filter has more than [`NEAR_BYTES`]. The bits are prefetched.
    far: u64,
}

/// A pass over all items, in lanes or, if that is cheaper, serially.
struct Pass {
    serial: u64,
    /// The cost of an item if there are enough items to fill the lanes.
    lanes: u64,
    /// The cost of filling the lanes.
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
    fn of(level: SimdLevel) -> Self {
        match level.kind() {
            Kind::Baseline(_) => Self {
                visit: Pass {
                    serial: 4_200,
                    lanes: 2_750,
                    start: 10_000_000,
                },
                // Small filters are decoded serially.
                block: 512,
                seek: Pass {
                    serial: 4_200,
                    lanes: 1_850,
                    start: 2_000_000,
                },
                look_up: 15_000,
                scan: 2_400,
                far: 30_000,
            },
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(_) => Self {
                visit: Pass {
                    serial: 2_900,
                    lanes: 1_150,
                    start: 4_000_000,
                },
                block: 32 << 10,
                seek: Pass {
                    serial: 3_400,
                    lanes: 730,
                    start: 4_500_000,
                },
                look_up: 6_000,
                scan: 1_000,
                far: 15_000,
            },
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512(_) => Self {
                visit: Pass {
                    serial: 2_900,
                    lanes: 900,
                    start: 3_000_000,
                },
                block: 32 << 10,
                seek: Pass {
                    serial: 3_400,
                    lanes: 420,
                    start: 6_000_000,
                },
                look_up: 8_000,
                scan: 500,
                far: 15_000,
            },
        }
    }
}

/// Sorting, per target and per doubling of the number of targets.
const SORT: u64 = 1_000;
/// The cost of the merge pass per target.
const MERGE: u64 = 8_000;
/// Skipping to the next target, per doubling of the number of items between two targets.
const SKIP: u64 = 2_500;
/// The size in bytes up to which a filter fits in a cache near the core.
const NEAR_BYTES: u64 = 1 << 20;
/// Searching a table for the start point of a target, per doubling of the number of points.
const SEARCH: u64 = 700;
/// The number of items that a look-up decodes in addition to half a step, before a lane is checked again, and that
/// take as long as finding its point.
const BESIDE: u64 = 8;
/// Putting an item into a bitmap.
const KEEP: u64 = 600;
/// Testing a target in a bitmap. One in twenty needs a search.
const TEST: u64 = 1_400;
/// The maximum number of items of a bitmap, which takes 11 bytes per item. More do not fit in a cache near the
/// core, and at a million items the page faults of fresh memory take longer than a merge.
const MOST_IN_BITMAP: u32 = 1 << 17;
/// With fewer bits per item, a bitmap would take more than six times the memory of the filter.
const BITS_FOR_BITMAP: u64 = 16;
/// Reading one more window of a code that does not fit in one.
const LONG: u64 = 2_000;

/// The number of items of a filter, and its length in bytes. Items with many bits cost more than items with
/// few.
pub(super) type Size = (u32, usize);

/// The cost of the bits of an average item beyond those of one window.
fn long_codes((n, len): Size) -> u64 {
    let bits = len as u64 * 8 / u64::from(n.max(1));
    bits / u64::from(WINDOW) * LONG
}

impl Strategy {
    /// This strategy, or the planned one if this is `Cheapest`.
    pub(super) fn unless_open(self, planned: impl FnOnce() -> Self) -> Self {
        match self {
            Self::Cheapest => planned(),
            chosen => chosen,
        }
    }
}

/// The cheapest strategy for a filter with an index of `step` items per entry.
pub(super) fn indexed(level: SimdLevel, size: Size, targets: usize, step: u32) -> Strategy {
    let points = (targets as u64).saturating_mul(look_up(level, size, step));
    cheapest(points, level, size, targets, false)
}

/// The cheapest strategy without an index. If the `whole` filter must be decoded, a merge does not end at the
/// largest target.
pub(super) fn unindexed(level: SimdLevel, size: Size, targets: usize, whole: bool) -> Strategy {
    if targets == 0 && !whole {
        // It decodes nothing.
        return Strategy::Merge;
    }
    let points = points(level, size, targets);
    cheapest(points, level, size, targets, whole)
}

/// The cheaper one of points and a bitmap.
pub(super) fn in_batches(level: SimdLevel, size: Size, targets: usize) -> Strategy {
    // A merge would have to sort all targets. A filter that is too large for a bitmap has other worries.
    if points(level, size, targets) <= bitmap(level, size, targets) {
        Strategy::Lookup
    } else {
        Strategy::Bitmap
    }
}

fn cheapest(points: u64, level: SimdLevel, size: Size, targets: usize, whole: bool) -> Strategy {
    let merge = merge(level, size, targets, whole);
    let bitmap = match has_room_for_bitmap(size) {
        true => bitmap(level, size, targets),
        false => u64::MAX,
    };
    if points <= merge && points <= bitmap {
        Strategy::Lookup
    } else if merge <= bitmap {
        Strategy::Merge
    } else {
        Strategy::Bitmap
    }
}

/// The cost without an index: start points must be found first.
fn points(level: SimdLevel, size: Size, targets: usize) -> u64 {
    let step = seek_step(size);
    let places = u64::from(size.0 / step) + 1;
    let each = look_up(level, size, step).saturating_add(SEARCH * u64::from(places.ilog2()));
    let seek = Costs::of(level).seek.over(size);
    (targets as u64).saturating_mul(each).saturating_add(seek)
}

fn bitmap(level: SimdLevel, size: Size, targets: usize) -> u64 {
    let visit = Costs::of(level).visit.over(size);
    let tests = (targets as u64).saturating_mul(TEST);
    (KEEP * u64::from(size.0))
        .saturating_add(visit)
        .saturating_add(tests)
}

fn has_room_for_bitmap((n, len): Size) -> bool {
    n <= MOST_IN_BITMAP && u64::from(n) * BITS_FOR_BITMAP <= len as u64 * 8
}

fn look_up(level: SimdLevel, size: Size, step: u32) -> u64 {
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

fn merge(level: SimdLevel, size: Size, targets: usize, whole: bool) -> u64 {
    let (n, targets) = (u64::from(size.0), targets as u64);
    let between = n / (targets + 1) + 1;
    let each = SORT * u64::from((targets + 1).ilog2()) + MERGE + SKIP * u64::from(between.ilog2());
    let Costs { visit, block, .. } = Costs::of(level);
    // A pass ends with the block of the largest target.
    let items = match whole {
        true => n,
        false => n.min(n - n / (targets + 1) + block / 2),
    };
    let visit = visit.over(size) / n.max(1) * items;
    targets.saturating_mul(each).saturating_add(visit)
}

/// The number of items between the start points that are found for one batch of targets.
///
/// At 64 items, a thousand look-ups cost less than a tenth of finding the points. The points of a small filter, such as that of
/// a block, stay in the first-level cache: 16 items save a sixth of 120 look-ups. If a byte holds many items, the points
/// must not take more memory than a quarter of the filter.
pub(super) fn seek_step((n, len): Size) -> u32 {
    const SMALL: usize = 64 << 10;
    let most = u64::from(n) * 64 / (len as u64).max(1);
    let least = if len <= SMALL { 16 } else { 64 };
    u32::try_from(most).unwrap_or(u32::MAX).max(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEXED: u32 = 64;

    /// The number of bytes of `n` items with the usual parameters.
    fn usual(n: u32) -> Size {
        (n, (u64::from(n) * 21 / 8) as usize)
    }

    #[test]
    fn few_targets_use_look_ups_and_many_do_not() {
        for level in SimdLevel::available() {
            for n in [10_000, 1_000_000, 100_000_000, u32::MAX] {
                assert_eq!(
                    indexed(level, usual(n), 10, INDEXED),
                    Strategy::Lookup,
                    "{level}, {n}"
                );
                // An index of few entries helps little, and one of a single entry not at all.
                assert_ne!(
                    indexed(level, usual(n), 1000, n),
                    Strategy::Lookup,
                    "{level}, {n}"
                );
                let many = n as usize * 64;
                let expected = match n <= MOST_IN_BITMAP {
                    true => Strategy::Bitmap,
                    false => Strategy::Merge,
                };
                for whole in [false, true] {
                    let planned = unindexed(level, usual(n), many, whole);
                    assert_eq!(planned, expected, "{level}, {n}");
                    assert_eq!(unindexed(level, usual(n), 0, false), Strategy::Merge);
                }
            }
            assert_eq!(
                indexed(level, usual(100), 1000, INDEXED),
                Strategy::Bitmap,
                "{level}"
            );
            // Eight bits per item: a bitmap would take too much memory.
            assert_eq!(
                indexed(level, (1000, 1000), 1000, INDEXED),
                Strategy::Merge,
                "{level}"
            );
            assert_eq!(
                unindexed(level, usual(1000), 1, false),
                Strategy::Merge,
                "{level}"
            );
        }
    }

    #[test]
    fn a_thousand_targets_in_a_million_items_use_look_ups() {
        for level in SimdLevel::available() {
            for n in [1_000_000, 10_000_000] {
                for whole in [false, true] {
                    let planned = unindexed(level, usual(n), 1000, whole);
                    assert_eq!(planned, Strategy::Lookup, "{level}, {n}");
                }
            }
        }
    }

    #[test]
    fn more_targets_never_make_look_ups_cheaper() {
        // A pass for one or two targets ends early.
        let counts: [usize; 12] = core::array::from_fn(|i| 20 * 10_usize.pow(i as u32));
        for level in SimdLevel::available() {
            for n in [1, 10, 1000, 30_000, 1_000_000, 50_000_000, u32::MAX] {
                let ways: [&dyn Fn(usize) -> Strategy; 3] = [
                    &|targets| indexed(level, usual(n), targets, INDEXED),
                    &|targets| unindexed(level, usual(n), targets, false),
                    &|targets| unindexed(level, usual(n), targets, true),
                ];
                for (what, way) in ways.iter().enumerate() {
                    let merged = counts.map(|targets| way(targets) != Strategy::Lookup);
                    // If all targets lie close together, sorting grows by their logarithm and a look-up does
                    // not. A merge may then lose again, with a hundred times as many targets as items.
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
        for level in SimdLevel::available() {
            for n in [0, 1, u32::MAX] {
                for targets in [0, 1, usize::MAX / 2, usize::MAX - 1] {
                    for step in [1, u32::MAX] {
                        let _ = indexed(level, usual(n), targets, step);
                        let _ = unindexed(level, usual(n), targets, true);
                    }
                }
            }
        }
    }

    #[test]
    fn points_take_at_most_a_quarter_of_the_filter() {
        for (n, len) in [
            (1_000_000, 2_631_549),
            (8_000_000, 1_000_000),
            (u32::MAX, 1),
            (0, 0),
        ] {
            let step = seek_step((n, len));
            let places = u64::from(n) / u64::from(step);
            assert!(
                step >= 16 && (places * 16 <= len as u64 / 4 || step == u32::MAX),
                "{n}, {len}"
            );
        }
        // That of a block may take half as much as the filter.
        let (n, len) = (7_400, 19_460);
        assert!(u64::from(n / seek_step((n, len))) * 16 <= len as u64 / 2);
    }
}
