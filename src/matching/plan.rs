//! Chooses the strategy from the numbers of items and targets, the SIMD level, and the distance of the points.
//!
//! The thresholds are measured (rows `match/*` in docs/benchmarking.md). Near them two strategies take about the same
//! time, so they need not be exact.

use crate::arch::{Kind, SimdLevel};

/// How targets are looked up. The answers are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// The one that is expected to take the least time.
    #[default]
    Cheapest,
    /// A look-up for each target.
    Lookup,
    /// One pass over the filter and the sorted targets, or a bitmap of them if all answers are wanted and they are many.
    Merge,
    /// One pass that puts the values into a bitmap, and a test of each target.
    Bitmap,
}

/// The number of items of a filter, and its length in bytes.
pub(super) type FilterSize = (u32, usize);

/// From how few targets on one pass over the filter is faster than look-ups.
struct Thresholds {
    /// Look-ups need this many items per target if points must be found first, and the pass makes a bitmap.
    bitmap: u64,
    /// The same if the pass is a merge.
    merge: u64,
    /// With points, look-ups may decode so many tenths of the items, and the pass makes a bitmap.
    indexed_bitmap: u64,
    /// The same if the pass is a merge.
    indexed_merge: u64,
    /// The number of items that a look-up with points decodes in addition to an interval, before a lane is checked again, and
    /// that take as long as finding its point.
    beside: u64,
    /// So few items are decoded serially by a pass, or a bitmap takes as long before the first. It then takes longer per item.
    serial: u64,
}

impl Thresholds {
    const BASELINE: Self = Self {
        bitmap: 56,
        merge: 160,
        indexed_bitmap: 10,
        indexed_merge: 10,
        beside: 8,
        serial: 3_500,
    };
    #[cfg(target_arch = "x86_64")]
    const AVX2: Self = Self {
        bitmap: 56,
        merge: 96,
        indexed_bitmap: 18,
        indexed_merge: 23,
        beside: 14,
        serial: 1_500,
    };
    #[cfg(target_arch = "x86_64")]
    const AVX512: Self = Self {
        bitmap: 48,
        merge: 48,
        indexed_bitmap: 20,
        indexed_merge: 30,
        beside: 8,
        serial: 3_500,
    };

    /// The thresholds, and whether look-ups run in lanes.
    fn of(level: SimdLevel) -> (Self, bool) {
        match level.kind() {
            Kind::Baseline(_) => (Self::BASELINE, false),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(_) => (Self::AVX2, true),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512(_) => (Self::AVX512, true),
        }
    }
}

/// The maximum number of items of a bitmap, which takes 11 bytes per item. More do not fit in a cache near the
/// core, and at a million items the page faults of fresh memory take longer than a merge.
const MOST_IN_BITMAP: u32 = 1 << 17;
/// The bitmap of more targets does not fit in a cache near the core.
const MOST_DENSE: usize = 1 << 19;
/// With fewer bits per item, a bitmap would take more than six times the memory of the filter.
const BITS_FOR_BITMAP: u64 = 16;
/// With points so near each other, a look-up in lanes takes no longer than a target in a merge.
const NEAR: u32 = 8;
/// In lanes, finding the points of fewer items takes as long as a merge.
const FEW_FOR_POINTS: u32 = 4_096;

impl Strategy {
    /// This strategy, or the planned one if this is `Cheapest`.
    pub(super) fn unless_open(self, planned: impl FnOnce() -> Self) -> Self {
        match self {
            Self::Cheapest => planned(),
            chosen => chosen,
        }
    }

    /// One pass over a filter of this size.
    fn pass(size: FilterSize) -> Self {
        match has_room_for_bitmap(size) {
            true => Self::Bitmap,
            false => Self::Merge,
        }
    }
}

/// The strategy for a filter with an index of `interval` items per entry, which is what a look-up decodes on average.
pub(super) fn indexed(
    level: SimdLevel,
    size: FilterSize,
    targets: usize,
    interval: u32,
) -> Strategy {
    let (thresholds, in_lanes) = Thresholds::of(level);
    let pass = Strategy::pass(size);
    let tenths = match pass {
        Strategy::Bitmap => thresholds.indexed_bitmap,
        _ if in_lanes && interval <= NEAR => return Strategy::Lookup,
        _ => thresholds.indexed_merge,
    };
    let n = u64::from(size.0);
    let decoded = (targets as u64).saturating_mul(u64::from(interval) + thresholds.beside);
    match decoded.saturating_mul(10) <= (n + n.min(thresholds.serial)) * tenths {
        true => Strategy::Lookup,
        false => pass,
    }
}

/// The strategy without an index. If the `whole` filter must be decoded, a merge does not end at the largest target.
pub(super) fn unindexed(
    level: SimdLevel,
    size: FilterSize,
    targets: usize,
    whole: bool,
) -> Strategy {
    let (thresholds, in_lanes) = Thresholds::of(level);
    let pass = Strategy::pass(size);
    let items_per_target = match pass {
        Strategy::Bitmap => thresholds.bitmap,
        _ => thresholds.merge,
    };
    if (targets as u64).saturating_mul(items_per_target) > u64::from(size.0) {
        return pass;
    }
    // A merge decodes nothing for no target, and half of the filter for one. In lanes, it decodes at least a large block.
    let ends_early = match targets {
        0 => !whole,
        1 => !whole && (!in_lanes || size.0 > MOST_IN_BITMAP),
        _ => false,
    };
    match ends_early || (in_lanes && size.0 < FEW_FOR_POINTS) {
        true => Strategy::Merge,
        false => Strategy::Lookup,
    }
}

/// Points or a bitmap, for targets in batches: a merge would have to sort all of them.
pub(super) fn in_batches(level: SimdLevel, size: FilterSize, targets: usize) -> Strategy {
    let (thresholds, _) = Thresholds::of(level);
    match (targets as u64).saturating_mul(thresholds.bitmap) <= u64::from(size.0) {
        true => Strategy::Lookup,
        false => Strategy::Bitmap,
    }
}

/// Whether a bitmap of the targets, of up to 4 bytes per target, is faster than sorting them. With fewer, testing all values
/// takes longer.
pub(super) fn is_dense(n: u32, targets: usize) -> bool {
    targets <= MOST_DENSE && targets * 12 >= (n as usize).max(1)
}

fn has_room_for_bitmap((n, len): FilterSize) -> bool {
    n <= MOST_IN_BITMAP && u64::from(n) * BITS_FOR_BITMAP <= len as u64 * 8
}

/// The number of items between the start points that are found for one batch of targets.
///
/// At 64 items, a thousand look-ups cost less than a tenth of finding the points. The points of a small filter, such as that of
/// a block, stay in the first-level cache: 16 items save a sixth of 120 look-ups. If a byte holds many items, the points
/// must not take more memory than a quarter of the filter.
pub(super) fn seek_step((n, len): FilterSize) -> u32 {
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
    fn usual(n: u32) -> FilterSize {
        (n, (u64::from(n) * 21 / 8) as usize)
    }

    #[test]
    fn few_targets_use_look_ups_and_many_do_not() {
        for level in SimdLevel::available() {
            for n in [10_000, 1_000_000, 100_000_000, u32::MAX] {
                assert_eq!(indexed(level, usual(n), 10, INDEXED), Strategy::Lookup, "{level}, {n}");
                // An index of few entries helps little, and one of a single entry not at all.
                assert_ne!(indexed(level, usual(n), 1000, n), Strategy::Lookup, "{level}, {n}");
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
            assert_eq!(indexed(level, usual(100), 1000, INDEXED), Strategy::Bitmap, "{level}");
            // Eight bits per item: a bitmap would take too much memory.
            assert_eq!(indexed(level, (1000, 1000), 1000, INDEXED), Strategy::Merge, "{level}");
            assert_eq!(unindexed(level, usual(1000), 1, false), Strategy::Merge, "{level}");
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
    fn the_largest_numbers_do_not_overflow() {
        for level in SimdLevel::available() {
            for n in [0, 1, u32::MAX] {
                for targets in [0, 1, usize::MAX / 2, usize::MAX] {
                    for step in [1, u32::MAX] {
                        let _ = indexed(level, usual(n), targets, step);
                        let _ = unindexed(level, usual(n), targets, true);
                        let _ = in_batches(level, usual(n), targets);
                    }
                }
            }
        }
    }

    #[test]
    fn points_take_at_most_a_quarter_of_the_filter() {
        for (n, len) in [(1_000_000, 2_631_549), (8_000_000, 1_000_000), (u32::MAX, 1), (0, 0)] {
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
