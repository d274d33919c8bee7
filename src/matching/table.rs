//! [`Table`]: finds a place in the bits shortly before a value.
//!
//! A stream of differences can only be decoded from its start, or from a recorded [`Point`]. A table has a point for
//! every few items. They lie in [`Line`]s of 64 bytes, usually eleven in each: the first point in full, and the
//! others relative to it. A line is complete in itself, so a look-up reads one cache line of the table, apart from
//! the directory.
//!
//! The directory tells the line of a value. It divides the range `[0, F)` into as many equal parts as there are
//! lines, and has four bytes for each. Where hashes are crowded, many lines begin in one part, and are searched.
//!
//! A look-up waits for its line and then for the bits. The directory and a few landmarks in the stream tell about where
//! the bits are, so that both can be fetched at once ([`Table::estimate`]).
//!
//! The points follow the items, not the values, so no set can make a look-up long: from the point of
//! [`Table::locate`] to any value it is at most one step of items. Spans of many bits get more points. Longer
//! codes are *gaps*, which are recorded with their values: a target within a gap is answered without decoding it.
//!
//! The bytes may be others than when the table was made. Its points are then wrong, but [`Table::locate`] still gives a point for
//! every value. Readers of the bits there must do the usual checks.

use alloc::vec::Vec;
use core::fmt;
use core::hint::select_unpredictable;

use crate::arch::SimdLevel;
use crate::arch::lanes::Point;
use crate::arch::memory::prefetch;
use crate::decode::{self, Coded, Gap, longest_span};
use crate::matching::{Strategy, gaps, plan};
use crate::params::Params;

/// The length of a line in bytes.
pub(crate) const LINE: usize = 64;

/// The bytes of the first point of a line: eight for its base and six for its position.
const HEAD: usize = 14;

/// Up to eleven points: the first one, and entries for the others.
///
/// The top 32 bits of the entries are at the end of the line, and their other bytes follow the first point. Unused
/// entries consist of one-bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(64))]
pub(crate) struct Line(pub(crate) [u8; LINE]);

/// The bytes of an entry in addition to its top 32 bits, for usual parameters and for a large M or step.
const NARROW: usize = 1;
const WIDE: usize = 3;

/// How the entries of a line are encoded.
///
/// An entry is the difference of the bases, followed by a correction. The correction makes the position from the
/// other numbers: k items with values that add up to V have `k * (P + 1) + (V >> P)` bits, less at most k.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    p: u32,
    /// The maximum number of items between two points.
    pub(crate) step: u32,
    /// Whether entries have [`WIDE`] low bytes.
    is_wide: bool,
    /// The bits of a correction, at most 31.
    correction_bits: u32,
}

/// The number of entries of a line.
const fn entries(low_bytes: usize) -> usize {
    (LINE - HEAD) / (4 + low_bytes)
}

/// The bits of an entry.
const fn bits(low_bytes: usize) -> u32 {
    32 + 8 * low_bytes as u32
}

impl Layout {
    /// For points at most `step` items apart.
    fn new(params: Params, step: u32) -> Self {
        let correction_bits = |low_bytes| {
            let items = u128::from(step) * entries(low_bytes) as u128;
            // Half as many items again as expected. A line that does not fit ends early.
            let base_bits = bits_for((items + u128::from(step)) * u128::from(params.m()) * 3 / 2);
            let left = bits(low_bytes).saturating_sub(base_bits);
            (left, bits_for(items))
        };
        let (narrow, least_narrow) = correction_bits(NARROW);
        let (wide, least_wide) = correction_bits(WIDE);
        let is_wide = narrow < least_narrow;
        Self {
            p: params.p(),
            step,
            is_wide,
            correction_bits: if is_wide {
                wide.max(least_wide)
            } else {
                narrow
            }
            .min(31),
        }
    }

    fn low_bytes(self) -> usize {
        if self.is_wide { WIDE } else { NARROW }
    }

    /// The bits between `point` and the first point of its line for the entry with this number, apart from the
    /// correction.
    #[inline(always)]
    fn expected(self, number: usize, base: u64) -> u64 {
        number as u64 * u64::from(self.step) * (u64::from(self.p) + 1) + (base >> self.p)
    }

    /// The entry with this number, from 1, if `point` fits in it.
    fn encode(self, number: usize, first: Point, point: Point) -> Option<u64> {
        let low_bytes = self.low_bytes();
        let base = point.base.checked_sub(first.base)?;
        let position = point.position.checked_sub(first.position)?;
        let correction = self.expected(number, base).checked_sub(position)?;
        let entry = base << self.correction_bits | correction;
        // The last word is that of an unused entry.
        let fits = number <= entries(low_bytes)
            && base >> (bits(low_bytes) - self.correction_bits) == 0
            && correction >> self.correction_bits == 0
            && entry >> (8 * low_bytes) < u64::from(u32::MAX);
        fits.then_some(entry)
    }

    /// The point of the entry with this number. It means nothing if the entry is unused.
    #[inline(always)]
    fn decode(self, number: usize, first: Point, entry: u64) -> Point {
        let base = entry >> self.correction_bits;
        let correction = entry & ((1 << self.correction_bits) - 1);
        let position = self.expected(number, base).wrapping_sub(correction);
        Point {
            position: first.position.wrapping_add(position),
            base: first.base.wrapping_add(base),
        }
    }
}

/// The number of bits of numbers up to `largest`.
fn bits_for(largest: u128) -> u32 {
    u128::BITS - largest.leading_zeros()
}

impl Line {
    pub(crate) fn new(first: Point) -> Self {
        let mut line = [0xff; LINE];
        line[..8].copy_from_slice(&first.base.to_le_bytes());
        line[8..HEAD].copy_from_slice(&first.position.to_le_bytes()[..6]);
        Self(line)
    }

    #[inline(always)]
    fn base(&self) -> u64 {
        u64::from_le_bytes(self.bytes(0))
    }

    /// The bytes from `at` on.
    #[inline(always)]
    fn bytes<const COUNT: usize>(&self, at: usize) -> [u8; COUNT] {
        let bytes = self.0.get(at..).and_then(|rest| rest.first_chunk());
        bytes.copied().unwrap_or([0; COUNT])
    }

    #[inline(always)]
    fn first(&self) -> Point {
        Point {
            position: u64::from_le_bytes(self.bytes(8)) & ((1 << 48) - 1),
            base: self.base(),
        }
    }

    /// The 64-bit word of the stream in which the first point is.
    fn word(&self) -> u32 {
        (self.first().position / 64) as u32
    }

    /// The top word and the low bytes of the entry with this number begin here.
    #[inline(always)]
    const fn places<const LOW: usize>(number: usize) -> (usize, usize) {
        let word = LINE - 4 * (entries(LOW) + 1) + 4 * number;
        (word, HEAD + LOW * number - LOW)
    }

    /// The entry with this number, from 1. That of number 0 means nothing.
    #[inline(always)]
    fn entry<const LOW: usize>(&self, number: usize) -> u64 {
        let (word, low) = Self::places::<LOW>(number);
        let top = u64::from(u32::from_le_bytes(self.bytes(word)));
        let low = u32::from_le_bytes(self.bytes(low)) & ((1 << (8 * LOW)) - 1);
        top << (8 * LOW) | u64::from(low)
    }

    fn set_entry<const LOW: usize>(&mut self, number: usize, entry: u64) {
        let (word, low) = Self::places::<LOW>(number);
        let top = (entry >> (8 * LOW)) as u32;
        self.0[word..word + 4].copy_from_slice(&top.to_le_bytes());
        self.0[low..low + LOW].copy_from_slice(&entry.to_le_bytes()[..LOW]);
    }

    /// The last point with a base below `value`, or the first point. `LOW` is [`Layout::low_bytes`].
    #[inline(always)]
    fn locate<const LOW: usize>(&self, layout: Layout, value: u64) -> Point {
        let first = self.first();
        let Some(room) = value.checked_sub(first.base) else {
            return first;
        };
        // The top word of an entry for the value itself. A smaller word means a smaller value.
        let is_near = room >> (bits(LOW) - layout.correction_bits) == 0;
        let bound = match is_near {
            true => (room << layout.correction_bits >> (8 * LOW)) as u32,
            false => u32::MAX,
        };
        let (words, _) = self.0[Self::places::<LOW>(1).0..].as_chunks::<4>();
        let mut below = 0;
        for word in words {
            below += u32::from(u32::from_le_bytes(*word) < bound);
        }
        let mut number = below as usize;
        if LOW == WIDE {
            // Words do not tell close values apart.
            while is_near
                && number < entries(LOW)
                && self.entry::<LOW>(number + 1) >> layout.correction_bits < room
            {
                number += 1;
            }
        }
        // Without a branch, because chance decides. Entry 0 would be the first point itself.
        let entry = select_unpredictable(number == 0, 0, self.entry::<LOW>(number));
        layout.decode(number, first, entry)
    }
}

/// An entry of the directory has the line of the smallest value of a part in its top 27 bits. The low bits tell how
/// far into the part the next line begins, so that the other lines need not be read.
const CUT_BITS: u32 = 5;

/// The cut of a part in which no line begins.
const MOST_CUT: u32 = (1 << CUT_BITS) - 1;

/// There are five parts for four lines, and so as many cuts per line on average.
const CUTS_PER_LINE: u64 = (1 << CUT_BITS) * 5 / 4;

/// The number of lines per landmark. More would not stay in the first-level cache (ten million items: 14 KiB), and the
/// estimate drifts between fewer: a line may have a few items less than another.
const PER_LANDMARK: usize = 16;

/// The points of a filter, in lines.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) layout: Layout,
    pub(crate) lines: Vec<Line>,
    /// The number of points.
    pub(crate) points: usize,
    /// The number of entries of the last line.
    in_last: usize,
    /// The codes that are longer than the maximum distance of two points, in order.
    pub(crate) gaps: Vec<Gap>,
    /// One entry per part, and one for the end.
    directory: Vec<u32>,
    /// floor(parts * 2^64 / F): a value times this, shifted right by 64, is its part.
    scale: u64,
    /// The number of the 64-bit word of the stream in which every [`PER_LANDMARK`]th line begins.
    landmarks: Vec<u32>,
    /// The mean number of bits from one line to the next.
    line_bits: u64,
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("points", &self.points)
            .finish_non_exhaustive()
    }
}

/// The number of items between the points of a filter of `n` items in `len` bytes, if `wanted` are wanted.
///
/// It is a multiple of 8, because decoding in lanes can record a point after every eight items. A point must not stand
/// for less than two bytes of the filter: a byte may hold eight items. The directory has room for 2^27 lines.
pub(crate) fn step(n: u32, len: u64, wanted: u32) -> u32 {
    const GROUP: u32 = crate::arch::lanes::GROUP as u32;
    let up = |step: u32| step.min(1 << 31).next_multiple_of(GROUP);
    let by_memory = (u64::from(n) * 2).div_ceil(len.max(1));
    let by_memory = u32::try_from(by_memory).unwrap_or(u32::MAX);
    let least = up(by_memory.max(n >> 26)).max(GROUP);
    (wanted - wanted % GROUP).min(up(n)).max(least)
}

impl Table {
    /// Builds the table of a validated filter.
    pub(crate) fn build(coded: &Coded<'_>, wanted: u32) -> Self {
        let (n, params, len) = (coded.n, coded.params, coded.bytes.len() as u64);
        let step = step(n, len, wanted);
        let longest = longest_span(n, len, step);
        let places = decode::seek_table(*coded, step, longest);
        let places = places.unwrap_or_default();
        let mut table = Self::empty(params, step);
        let full = entries(table.layout.low_bytes()) + 1;
        table.lines.reserve(places.positions.len() / full + 1);
        for (&position, &base) in places.positions.iter().zip(&places.bases) {
            table.push(Point { position, base });
        }
        table.gaps = places.gaps;
        table.finish(params.range(n));
        table
    }

    /// A table without points.
    pub(crate) fn empty(params: Params, step: u32) -> Self {
        Self {
            layout: Layout::new(params, step),
            lines: Vec::new(),
            points: 0,
            in_last: 0,
            gaps: Vec::new(),
            directory: Vec::new(),
            scale: 0,
            landmarks: Vec::new(),
            line_bits: 0,
        }
    }

    /// Adds a point after the last one.
    pub(crate) fn push(&mut self, point: Point) {
        let Self { layout, lines, .. } = self;
        self.points += 1;
        if let Some(line) = lines.last_mut() {
            let number = self.in_last + 1;
            if let Some(entry) = layout.encode(number, line.first(), point) {
                match layout.is_wide {
                    false => line.set_entry::<NARROW>(number, entry),
                    true => line.set_entry::<WIDE>(number, entry),
                }
                self.in_last = number;
                return;
            }
        }
        lines.push(Line::new(point));
        self.in_last = 0;
    }

    /// Makes the directory for values below `range`, after the last point.
    pub(crate) fn finish(&mut self, range: u64) {
        let lines = self.lines.len();
        // So many more that two lines rarely begin in one part.
        let parts = lines + lines / 4;
        // If there is one part per value the quotient is 2^64, which does not fit. With 2^64 - 1, value v is in part
        // v - 1 instead of v, which is an equally good division.
        let scale = ((parts as u128) << 64).checked_div(u128::from(range));
        self.scale = u64::try_from(scale.unwrap_or_default()).unwrap_or(u64::MAX);
        self.directory.clear();
        self.directory.reserve_exact(parts + 1);
        // Line 0 is that of all values before line 1, whatever its base is.
        for line in 1..lines {
            let (part, cut) = self.part_of(self.lines[line].base());
            let before = (line as u32 - 1) << CUT_BITS;
            if self.directory.len() <= part {
                self.directory.resize(part, before | MOST_CUT);
                self.directory.push(before | cut);
            }
        }
        let last = (lines as u32).saturating_sub(1) << CUT_BITS;
        self.directory.resize(parts + 1, last | MOST_CUT);
        let landmarks = self.lines.iter().step_by(PER_LANDMARK);
        self.landmarks = landmarks.map(Line::word).collect();
        let bits = self.lines.last().map_or(0, |line| line.first().position);
        self.line_bits = bits / (lines as u64).saturating_sub(1).max(1);
    }

    /// The part of a value below F, and how far into the part it is.
    #[inline(always)]
    fn part_of(&self, value: u64) -> (usize, u32) {
        let product = u128::from(value) * u128::from(self.scale);
        let within = (product as u64) >> (64 - CUT_BITS);
        ((product >> 64) as usize, within as u32)
    }

    /// The entries of a part and of the next one.
    #[inline(always)]
    fn entries(&self, part: usize) -> &[u32; 2] {
        let entries = self.directory.get(part..);
        let entries = entries.and_then(|rest| rest.first_chunk());
        entries.unwrap_or(&[0, 0])
    }

    /// The last line with a base below `value`, or line 0.
    #[inline(always)]
    fn line_of(&self, value: u64) -> usize {
        let (part, within) = self.part_of(value);
        let &[entry, next] = self.entries(part);
        let (first, cut) = (entry >> CUT_BITS, entry & MOST_CUT);
        let others = (next >> CUT_BITS).wrapping_sub(first);
        if (within == cut) | (others > 1) {
            return self.search(first as usize, (first + others) as usize, value);
        }
        // Without a branch, because chance decides.
        (first + (u32::from(within > cut) & others)) as usize
    }

    /// About the bit position of `value`, without reading its line. If values are not uniform, it may be anywhere.
    #[inline(always)]
    pub(crate) fn estimate(&self, value: u64) -> u64 {
        let (part, within) = self.part_of(value);
        let &[entry, next] = self.entries(part);
        let line = (entry >> CUT_BITS) as usize;
        // The next line begins at this cut. If that is not in this part, it is in the next one.
        let cut = match next >> CUT_BITS == entry >> CUT_BITS {
            true => (1 << CUT_BITS) + (next & MOST_CUT),
            false => entry & MOST_CUT,
        };
        let landmark = self.landmarks.get(line / PER_LANDMARK);
        let cuts = (line % PER_LANDMARK + 1) as u64 * CUTS_PER_LINE + u64::from(within);
        let bits = self.line_bits * cuts.saturating_sub(cut.into()) / CUTS_PER_LINE;
        u64::from(landmark.copied().unwrap_or(0)) * 64 + bits
    }

    #[cold]
    #[inline(never)]
    fn search(&self, first: usize, last: usize, value: u64) -> usize {
        let lines = self.lines.get(first + 1..=last).unwrap_or_default();
        first + lines.partition_point(|line| line.base() < value)
    }

    /// The point from which to decode to find `value`, if it is below F: every item before the point is smaller
    /// than `value`. If nothing needs to be decoded, returns the answer as a point ([`Point::answer`]).
    ///
    /// A table without points may give the point of the first item.
    #[inline(always)]
    pub(crate) fn locate(&self, value: u64) -> Point {
        let line = self.line_of(value);
        match self.layout.is_wide {
            false => self.locate_in::<NARROW>(line, value),
            true => self.locate_in::<WIDE>(line, value),
        }
    }

    #[inline(always)]
    fn locate_in<const LOW: usize>(&self, line: usize, value: u64) -> Point {
        let point = match self.lines.get(line) {
            Some(line) => line.locate::<LOW>(self.layout, value),
            None => Point::default(),
        };
        if self.gaps.is_empty() {
            point
        } else {
            gaps::beyond(&self.gaps, value, point)
        }
    }

    /// [`Table::locate`] for many values.
    pub(crate) fn locate_all(&self, level: SimdLevel, values: &[u64], points: &mut [Point]) {
        level.compiled(
            #[inline(always)]
            || match self.layout.is_wide {
                false => self.locate_batches::<NARROW>(values, points),
                true => self.locate_batches::<WIDE>(values, points),
            },
        );
    }

    #[inline(always)]
    fn locate_batches<const LOW: usize>(&self, values: &[u64], points: &mut [Point]) {
        /// So many lines stay in the first-level cache.
        const BATCH: usize = 64;
        let mut lines = [0; BATCH];
        for (values, points) in values.chunks(BATCH).zip(points.chunks_mut(BATCH)) {
            for (at, &value) in values.iter().enumerate() {
                lines[at] = self.line_of(value);
                if let Some(line) = self.lines.get(lines[at]) {
                    prefetch(line);
                }
            }
            for (at, point) in points.iter_mut().enumerate() {
                *point = self.locate_in::<LOW>(lines[at], values[at]);
            }
        }
    }

    /// The strategy for so many targets in a filter of this size.
    pub(crate) fn planned(&self, level: SimdLevel, size: plan::Size, targets: usize) -> Strategy {
        plan::indexed(level, size, targets, self.layout.step)
    }

    /// The size in bytes.
    pub(crate) fn size(&self) -> usize {
        size_of_val(&*self.lines)
            + size_of_val(&*self.directory)
            + size_of_val(&*self.landmarks)
            + size_of_val(&*self.gaps)
    }
}
