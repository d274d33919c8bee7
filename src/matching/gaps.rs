//! Targets at codes so long that nobody should read them twice.

use crate::decode::Gap;
use crate::matching::table::Point;

impl Point {
    /// Beyond the bits of any filter, and so far below 2^64 that steps from there do not come back to the start.
    const NOWHERE: u64 = 1 << 63;

    /// The target is not in the set: there is nothing to read.
    pub(crate) const ABSENT: Self = Self {
        position: Self::NOWHERE,
        base: 0,
    };

    /// The target is in the set: there is nothing to read.
    pub(crate) const PRESENT: Self = Self {
        position: Self::NOWHERE,
        base: 1,
    };

    /// The answer, where this point is one.
    #[inline(always)]
    pub(crate) fn answer(self) -> Option<bool> {
        (self.position == Self::NOWHERE).then_some(self.base == 1)
    }
}

/// `point`, or the end of the last gap before `target` if that is nearer, or the answer if the target lies
/// within the gap or at its end. From what this gives to the target there is no gap.
#[cold]
#[inline(never)]
pub(super) fn beyond(gaps: &[Gap], target: u64, point: Point) -> Point {
    let before = gaps.partition_point(|gap| gap.from < target);
    let Some(gap) = before.checked_sub(1).and_then(|last| gaps.get(last)) else {
        return point;
    };
    if target < gap.value {
        Point::ABSENT
    } else if target == gap.value {
        Point::PRESENT
    } else if point.position < gap.position {
        Point {
            position: gap.position,
            base: gap.value,
        }
    } else {
        point
    }
}
