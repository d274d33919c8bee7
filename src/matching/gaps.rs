//! Answers for targets at codes that are too long to be decoded repeatedly.

use crate::arch::lanes::Point;
use crate::decode::Gap;

impl Point {
    /// Beyond the bits of any filter, and far enough below 2^64 that steps from there do not wrap around.
    const NOWHERE: u64 = 1 << 63;

    /// The target is not in the set; nothing needs to be decoded.
    pub(crate) const ABSENT: Self = Self { position: Self::NOWHERE, base: 0 };

    /// The target is in the set; nothing needs to be decoded.
    pub(crate) const PRESENT: Self = Self { position: Self::NOWHERE, base: 1 };

    /// The answer, if this point is one.
    #[inline(always)]
    pub(crate) fn answer(self) -> Option<bool> {
        (self.position == Self::NOWHERE).then_some(self.base == 1)
    }
}

/// Applies the last gap that begins before `target`. If the target lies within the gap or at its end, returns
/// the answer. If the target is behind the gap, returns the end of the gap or `point`, whichever is nearer.
/// Between the returned point and the target there is no gap.
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
        Point { position: gap.position, base: gap.value }
    } else {
        point
    }
}
