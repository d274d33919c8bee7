//! [`PointTable`]: finds a place in the bits shortly before a value.
//!
//! A stream of differences can only be decoded from its start, or from a recorded [`Point`]. The range `[0, F)` is
//! divided into equal parts, and a table has the last point before each, as the table in A. Langley's article on
//! Golomb-coded sets. A value tells its part by one product, so nothing is searched.
//!
//! Hashes that somebody chose can crowd a part, or stretch it by long codes. Such a table keeps all points instead, a few
//! items from each other, and searches them. Spans of many bits get more points. Longer codes are *gaps*, which are
//! recorded with their values: a target within a gap is answered without decoding it.
//!
//! A look-up waits for its point and then for the bits. The points of groups of parts tell about where the bits are,
//! so that both can be fetched at once ([`PointTable::estimate`]).

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use crate::arch::SimdLevel;
use crate::arch::lanes::Point;
use crate::arch::memory::prefetch;
use crate::decode::{self, Coded, SeekTable, longest_span};
use crate::matching::{Strategy, gaps, plan};

/// The parts of a group. The points of more would not stay near the core (ten million items: 600 KiB), and between fewer
/// the position of a part is estimated less well: one may have a few items less than another.
const GROUP: usize = 16;

/// The points of a filter.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct PointTable {
    /// The mean number of items of a part.
    pub(crate) interval: u32,
    /// The last point before each part, relative to that before the first of [`GROUP`] parts: the base above
    /// [`PointTable::position_bits`], and the position.
    pub(crate) starts: Vec<u64>,
    position_bits: u32,
    /// The last point before every [`GROUP`]th part, and before the last one.
    groups: Vec<Point>,
    /// floor(parts * 2^64 / F): a value times this, shifted right by 64, is its part.
    scale: u64,
    /// All points instead, if a part would be too long.
    pub(crate) crowded: Option<SeekTable>,
}

impl fmt::Debug for PointTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PointTable").field("entries", &self.entries()).finish_non_exhaustive()
    }
}

/// The number of items between the points of a filter of `n` items in `len` bytes, if `wanted` are wanted.
///
/// It is a multiple of 8, because decoding in lanes can record a point after every eight items. A point must not stand
/// for less than two bytes of the filter: a byte may hold eight items.
pub(crate) fn step(n: u32, len: u64, wanted: u32) -> u32 {
    const GROUP: u32 = crate::arch::lanes::GROUP as u32;
    let up = |step: u32| step.min(1 << 31).next_multiple_of(GROUP);
    let by_memory = (u64::from(n) * 2).div_ceil(len.max(1));
    let by_memory = u32::try_from(by_memory).unwrap_or(u32::MAX);
    let least = up(by_memory).max(GROUP);
    (wanted - wanted % GROUP).min(up(n)).max(least)
}

/// The most items that a look-up decodes, apart from those between two points.
pub(crate) const fn most_items(interval: u32) -> u64 {
    4 * interval as u64 + 64
}

impl PointTable {
    /// Builds the table of a validated filter, with a part for every `interval` items ([`step`]).
    pub(crate) fn build(coded: &Coded<'_>, interval: u32) -> Self {
        let (n, len) = (coded.n, coded.bytes.len() as u64);
        let step = step(n, len, interval);
        let places = decode::seek_table(*coded, step, longest_span(n, len, step));
        let places = places.unwrap_or_default();
        let parts = n.div_ceil(interval) as usize;
        // If there is one part per value the quotient is 2^64, which does not fit. With 2^64 - 1, value v is in part
        // v - 1 instead of v, which is an equally good division.
        let scale = ((parts as u128) << 64).checked_div(u128::from(coded.range()));
        // Twice the values of a group.
        let group = u128::from(coded.range()) * 2 * GROUP as u128 / parts.max(1) as u128;
        let mut table = Self {
            interval,
            starts: vec![0; parts],
            position_bits: 64 - (u128::BITS - group.leading_zeros()).clamp(8, 44),
            groups: Vec::with_capacity(parts / GROUP + 2),
            scale: u64::try_from(scale.unwrap_or_default()).unwrap_or(u64::MAX),
            crowded: None,
        };
        // A part and the points around it have three intervals, which is less.
        let longest = longest_span(n, len, interval.saturating_mul(2));
        let most_points = (most_items(interval) / u64::from(step)) as usize;
        // At first the number of the last point in each part, or 0.
        for (number, &base) in (0..).zip(&places.bases) {
            let part = table.part_of(base);
            if let Some(last) = table.starts.get_mut(part) {
                *last = number;
            }
        }
        let mut is_crowded = !places.gaps.is_empty();
        let (mut last, mut start) = (0, Point::default());
        let mut first = start;
        for (part, packed) in table.starts.iter_mut().enumerate() {
            start = places.point(last);
            if part % GROUP == 0 {
                first = start;
                table.groups.push(first);
            }
            let inside = (*packed as usize).saturating_sub(last);
            last += inside;
            // The point behind this part.
            let end = places.positions.get(last + 1).copied();
            let bits = end.unwrap_or(places.end) - start.position;
            is_crowded |= inside > most_points || bits > longest;
            let (base, position) = (start.base - first.base, start.position - first.position);
            let base_bits = 64 - table.position_bits;
            is_crowded |= base >> base_bits > 0 || position >> table.position_bits > 0;
            *packed = base << table.position_bits | position;
        }
        table.groups.push(start);
        if is_crowded {
            (table.starts, table.groups) = (vec![], vec![]);
            table.crowded = Some(places);
        }
        table
    }

    /// Gives every part this start.
    #[cfg(test)]
    pub(crate) fn set_all(&mut self, start: Point) {
        self.starts.fill(0);
        self.groups.fill(start);
    }

    /// The number of points.
    pub(crate) fn entries(&self) -> usize {
        match &self.crowded {
            Some(all) => all.bases.len(),
            None => self.starts.len(),
        }
    }

    #[inline(always)]
    fn part_of(&self, value: u64) -> usize {
        ((u128::from(value) * u128::from(self.scale)) >> 64) as usize
    }

    /// The last point before a part.
    #[inline(always)]
    fn start(&self, part: usize) -> Option<Point> {
        let (start, group) = (self.starts.get(part)?, self.groups.get(part / GROUP)?);
        Some(Point {
            position: group.position + (start & ((1 << self.position_bits) - 1)),
            base: group.base + (start >> self.position_bits),
        })
    }

    /// About the bit position of `value`, without reading its point. If values are crowded it may be anywhere.
    #[inline(always)]
    pub(crate) fn estimate(&self, value: u64) -> u64 {
        let part = self.part_of(value);
        let around = self.groups.get(part / GROUP..);
        match around.and_then(|rest| rest.first_chunk()) {
            Some([first, next]) => {
                let bits = next.position - first.position;
                first.position + bits / GROUP as u64 * (part % GROUP) as u64
            }
            None => 0,
        }
    }

    /// The point from which to decode to find `value`, if it is below F: every item before the point is smaller
    /// than `value`. If nothing needs to be decoded, returns the answer as a point ([`Point::answer`]).
    ///
    /// A table without points gives the point of the first item.
    #[inline(always)]
    pub(crate) fn locate(&self, value: u64) -> Point {
        match self.start(self.part_of(value)) {
            Some(start) => start,
            None => self.search(value),
        }
    }

    #[cold]
    #[inline(never)]
    fn search(&self, value: u64) -> Point {
        let Some(all) = &self.crowded else {
            return Point::default();
        };
        let before = all.bases.partition_point(|&base| base < value);
        gaps::beyond(&all.gaps, value, all.point(before.saturating_sub(1)))
    }

    /// [`PointTable::locate`] for many values.
    pub(crate) fn locate_all(&self, level: SimdLevel, values: &[u64], points: &mut [Point]) {
        if let Some(all) = &self.crowded {
            return super::locate_all(level, all, values, points);
        }
        for &value in values {
            if let Some(start) = self.starts.get(self.part_of(value)) {
                prefetch(start);
            }
        }
        for (point, &value) in points.iter_mut().zip(values) {
            *point = self.start(self.part_of(value)).unwrap_or_default();
        }
    }

    /// The strategy for so many targets in a filter of this size.
    pub(crate) fn planned(
        &self,
        level: SimdLevel,
        size: plan::FilterSize,
        targets: usize,
    ) -> Strategy {
        plan::indexed(level, size, targets, self.interval)
    }

    /// The size in bytes.
    pub(crate) fn size(&self) -> usize {
        let all = self.crowded.iter();
        let all = all.map(|all| size_of_val(&*all.bases) * 2 + size_of_val(&*all.gaps));
        size_of_val(&*self.starts) + size_of_val(&*self.groups) + all.sum::<usize>()
    }
}
