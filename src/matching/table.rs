//! [`Table`]: maps a value to a place in the bits shortly before it, with 8 bytes per entry.
//!
//! A stream of differences can only be decoded from its start, or from a recorded [`Point`]. The range `[0, F)`
//! is divided into equal parts, one per entry. A value therefore finds its entry by one multiplication, without
//! a search. The point of an entry precedes all items of its part, and only few items of earlier parts lie
//! between.
//!
//! An entry is relative to the first point of its superblock, the *anchor*, and therefore fits in 8 bytes. If
//! an entry does not fit, or its part holds many more items or bits than the average one, it has its own list
//! of points, ordered by value. Hashes that an attacker made equal or close together thus make lists, not long
//! scans. For any set, an item is at most [`Shape::most_items`] items away from the point of [`Table::locate`],
//! and at most the bits of twice that many average items. Longer codes are *gaps*, which are recorded with
//! their values: a target within a gap is answered without decoding it.
//!
//! A table may come from forged bytes. Its points are then wrong, but [`Table::locate`] still gives a point for
//! every value. Readers of the bits there must do the usual checks.

use alloc::vec::Vec;

use crate::arch::SimdLevel;
use crate::decode::{self, Gap, longest_span, most_items};
use crate::hash::map_to_range;
use crate::matching::{Coded, Strategy, gaps, plan};
use crate::params::Params;

/// A place in the bits from which items can be decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Point {
    /// The bit position of an item, or the end of the last one.
    pub(crate) position: u64,
    /// The value of the item before it, or 0 before the first item.
    pub(crate) base: u64,
}

/// The parameters of a table's layout: the number of items of the filter, its P and M, and the number of
/// entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) n: u32,
    pub(crate) params: Params,
    /// At most `n`.
    pub(crate) entries: u32,
}

impl Shape {
    /// The number of items of an average part, rounded up.
    pub(crate) fn step(self) -> u32 {
        self.n.div_ceil(self.entries.max(1))
    }

    /// The maximum number of items decoded from a table's point until the value is found or passed. It is
    /// slightly more than twice the average number of items of a part. With uniform hashes and an average of at
    /// least 32, no part of a set that fits in a machine reaches it.
    pub(crate) fn most_items(self) -> u64 {
        most_items(self.step())
    }

    /// In a filter of `len` bytes, a code with more bits than this is a gap.
    pub(crate) fn longest(self, len: u64) -> u64 {
        longest_span(self.n, len, self.step())
    }
}

/// The points of a filter, by value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) parts: Parts,
    pub(crate) layout: Layout,
    /// The first point of each superblock.
    pub(crate) anchors: Vec<Point>,
    /// One entry per part of the range, in order.
    pub(crate) entries: Vec<u64>,
    /// The lists of the entries that have one, concatenated.
    pub(crate) points: Vec<Point>,
    /// The codes of more than [`Shape::longest`] bits, in order.
    pub(crate) gaps: Vec<Gap>,
}

/// A decoded entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// One point, relative to the anchor.
    Near { position: u64, base: u64 },
    /// `count` points of the lists, starting at `first`.
    List { first: u64, count: u64 },
}

/// The division of the range into equal parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    /// floor(parts * 2^64 / F): a value times this, shifted right by 64, is its part.
    pub(crate) scale: u64,
}

impl Parts {
    fn new(parts: u32, range: u64) -> Self {
        // There is at most one part per item, so parts <= F. If they are equal (M = 1) the quotient is 2^64,
        // which does not fit. With 2^64 - 1, value v is in part v - 1 instead of v, which is an equally good
        // division.
        let scale = (u128::from(parts) << 64)
            .checked_div(u128::from(range))
            .unwrap_or_default();
        Self {
            scale: u64::try_from(scale).unwrap_or(u64::MAX),
        }
    }

    /// The part of `value`. Monotonic, and below the number of parts for every value below F. Building and
    /// querying both use this function, so its rounding does not matter.
    #[inline(always)]
    pub(crate) fn part_of(self, value: u64) -> usize {
        map_to_range(value, self.scale) as usize
    }
}

/// How the 64 bits of an entry are divided, and how many entries share an anchor.
///
/// The highest bit marks a list; then 32 bits give its start and 31 its length. Otherwise the lowest bits are
/// the base and the others the position, both relative to the anchor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// log2 of the number of entries that share an anchor.
    pub(crate) shift: u32,
    /// The number of bits of the base, at most 63.
    pub(crate) base_bits: u32,
}

const LIST: u64 = 1 << 63;
const COUNT_BITS: u32 = 31;
/// The bits without the list flag.
const NEAR_BITS: u32 = 63;
/// Entries hold up to four times the average of a superblock. Uniform sets never come near that limit.
const SLACK: u128 = 4;

impl Layout {
    fn new(Shape { n, params, entries }: Shape) -> Self {
        let step = u128::from(n.div_ceil(entries.max(1)));
        let item_bits = u128::from(u64::from(params.p()) + 2 + (params.m() >> params.p()));
        // A wider gap between two items leaves room for fewer entries. With one entry per anchor nothing is
        // relative, and everything fits.
        for shift in [6, 4, 2] {
            let items = (step << shift) * SLACK;
            let position_bits = bits_for(items * item_bits);
            let base_bits = bits_for(items * u128::from(params.m()));
            if position_bits + base_bits <= NEAR_BITS {
                let base_bits = NEAR_BITS - position_bits;
                return Self { shift, base_bits };
            }
        }
        Self {
            shift: 0,
            base_bits: NEAR_BITS / 2,
        }
    }

    /// Encodes `point`, if it fits.
    fn near(self, anchor: Point, point: Point) -> Option<u64> {
        let position = point.position.checked_sub(anchor.position)?;
        let base = point.base.checked_sub(anchor.base)?;
        let fits = position >> (NEAR_BITS - self.base_bits) == 0 && base >> self.base_bits == 0;
        fits.then_some(position << self.base_bits | base)
    }

    fn list(first: usize, count: usize) -> u64 {
        LIST | (first as u64) << COUNT_BITS | count as u64
    }

    #[inline(always)]
    pub(crate) fn entry(self, entry: u64) -> Entry {
        if entry & LIST == 0 {
            Entry::Near {
                position: entry >> self.base_bits,
                base: entry & ((1 << self.base_bits) - 1),
            }
        } else {
            Entry::List {
                first: (entry & !LIST) >> COUNT_BITS,
                count: entry & ((1 << COUNT_BITS) - 1),
            }
        }
    }
}

/// The number of bits of numbers up to `largest`.
fn bits_for(largest: u128) -> u32 {
    u128::BITS - largest.leading_zeros()
}

impl Table {
    /// A table of this shape without entries.
    pub(crate) fn empty(shape: Shape) -> Self {
        Self {
            parts: Parts::new(shape.entries, shape.params.range(shape.n)),
            layout: Layout::new(shape),
            anchors: Vec::new(),
            entries: Vec::new(),
            points: Vec::new(),
            gaps: Vec::new(),
        }
    }

    /// The point from which to decode to find `value`, if it is below F: every item before the point is smaller
    /// than `value`. If nothing needs to be decoded, returns the answer as a point ([`Point::answer`]).
    ///
    /// A table without entries, or a forged one, may give the point of the first item.
    #[inline(always)]
    pub(crate) fn locate(&self, value: u64) -> Point {
        let point = self.locate_part(value);
        if self.gaps.is_empty() {
            point
        } else {
            gaps::beyond(&self.gaps, value, point)
        }
    }

    #[inline(always)]
    fn locate_part(&self, value: u64) -> Point {
        let part = self.parts.part_of(value);
        let Some(&entry) = self.entries.get(part) else {
            return Point::default();
        };
        match self.layout.entry(entry) {
            Entry::Near { position, base } => {
                let Some(anchor) = self.anchors.get(part >> self.layout.shift) else {
                    return Point::default();
                };
                Point {
                    position: anchor.position.wrapping_add(position),
                    base: anchor.base.wrapping_add(base),
                }
            }
            Entry::List { first, count } => self.locate_in_list(first, count, value),
        }
    }

    #[cold]
    #[inline(never)]
    fn locate_in_list(&self, first: u64, count: u64, value: u64) -> Point {
        let list = self.list(first, count);
        // Equal values may lie on both sides of a point, so the item before it must be smaller.
        let before = list.partition_point(|point| point.base < value);
        let point = list.get(before.saturating_sub(1));
        point.copied().unwrap_or_default()
    }

    /// The points of a list; empty if they lie outside.
    pub(crate) fn list(&self, first: u64, count: u64) -> &[Point] {
        let range = first as usize..(first + count) as usize;
        self.points.get(range).unwrap_or_default()
    }

    /// The number of entries that share an anchor.
    pub(crate) fn entries_per_anchor(&self) -> u64 {
        1 << self.layout.shift
    }

    /// The anchor of an entry.
    pub(crate) fn anchor_of(&self, entry: usize) -> Option<Point> {
        self.anchors.get(entry >> self.layout.shift).copied()
    }

    /// Returns whether an entry for one point is encoded canonically: as a list only if necessary.
    pub(crate) fn is_canonical(&self, entry: u64, anchor: Point, point: Point) -> bool {
        match self.layout.near(anchor, point) {
            Some(near) => entry == near,
            None => entry & LIST != 0,
        }
    }

    /// The strategy of the cost model for so many targets in a filter of `n` items.
    pub(crate) fn planned(&self, level: SimdLevel, size: plan::Size, targets: usize) -> Strategy {
        let entries = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        plan::indexed(level, size, targets, size.0.div_ceil(entries.max(1)))
    }

    /// The size of the entries in bytes.
    pub(crate) fn size(&self) -> usize {
        (self.anchors.len() + self.points.len()) * size_of::<Point>()
            + self.entries.len() * 8
            + size_of_val(&*self.gaps)
    }
}

/// The number of items between the points that an index is built from, in a filter of `len` bytes.
///
/// A look-up decodes half of that in addition to its part. A point costs as much time as a few items. Lanes
/// sample at least every eight items; if the step is so small that this would matter, items are decoded one by
/// one. If a byte holds many items, the points must not take much more memory than the filter.
fn spacing(shape: Shape, len: usize) -> u32 {
    let step = shape.step();
    let by_step = match step {
        0..16 => step / 8,
        _ => (step / 8).clamp(8, 16),
    };
    let by_memory = u64::from(shape.n) * 8 / (len as u64).max(1);
    let most = shape.most_items().min(u64::from(u32::MAX));
    u64::from(by_step).max(by_memory).clamp(1, most) as u32
}

impl Table {
    /// Builds the table of a validated filter.
    pub(crate) fn build(coded: &Coded<'_>, entries: u32) -> Self {
        let (n, params) = (coded.n, coded.params);
        let shape = Shape { n, params, entries };
        let spacing = spacing(shape, coded.bytes.len());
        let longest = shape.longest(coded.bytes.len() as u64);
        let places = decode::seek_table(coded.level, coded.bytes, n, params, spacing, longest);
        let places = places.unwrap_or_default();
        let mut builder = TableBuilder::new(shape, u64::from(spacing), longest);
        builder.table.gaps = places.gaps;
        // The first place is where every builder starts.
        for (&position, &base) in places.positions.iter().zip(&places.bases).skip(1) {
            builder.add(Point { position, base });
        }
        builder.finish()
    }
}

/// Builds a [`Table`] from points in ascending order.
#[derive(Debug)]
pub(crate) struct TableBuilder {
    table: Table,
    shape: Shape,
    /// The maximum number of items between two added points.
    spacing: u64,
    /// The maximum number of bits between two added points, except at a gap.
    longest: u64,
    /// A list keeps one of this many points.
    stride: u64,
    /// The points kept for the list of the open part; the first one precedes all its items.
    kept: Vec<Point>,
    /// The position of the last of them.
    last_kept: u64,
    /// The number of points added to the open part after its first one.
    added: u64,
    /// The number of points until the next one is kept, at least 1.
    wait: u64,
    /// The last added point.
    last: Point,
}

impl TableBuilder {
    /// A builder for points every `spacing` items and `longest` bits, starting with the first item's.
    pub(crate) fn new(shape: Shape, spacing: u64, longest: u64) -> Self {
        let entries = shape.entries as usize;
        let mut table = Table::empty(shape);
        table.anchors = Vec::with_capacity((entries >> table.layout.shift) + 1);
        table.entries = Vec::with_capacity(entries);
        let stride = (shape.most_items() / spacing.max(1)).max(1);
        let mut kept = Vec::new();
        if entries > 0 {
            kept.push(Point::default());
        }
        Self {
            table,
            shape,
            spacing,
            longest,
            stride,
            kept,
            last_kept: 0,
            added: 0,
            wait: stride,
            last: Point::default(),
        }
    }

    /// Adds a point after the last one.
    #[inline]
    pub(crate) fn add(&mut self, point: Point) {
        let part = self.table.parts.part_of(point.base);
        if part > self.table.entries.len() {
            self.open(part);
        }
        self.added += 1;
        self.wait -= 1;
        if self.wait == 0 || point.position - self.last_kept > self.longest {
            self.kept.push(point);
            self.last_kept = point.position;
            self.wait = self.stride;
        }
        self.last = point;
    }

    /// Closes the open part, writes the empty parts before `part`, and opens `part`. All of them start at the
    /// last point.
    fn open(&mut self, part: usize) {
        let most = self.shape.entries as usize;
        self.close();
        while self.table.entries.len() < part.min(most) {
            self.close();
        }
    }

    /// Writes the entry of the open part and opens the next part at the last point.
    fn close(&mut self) {
        let Table {
            layout,
            anchors,
            entries,
            points,
            ..
        } = &mut self.table;
        let Some(&first) = self.kept.first() else {
            return;
        };
        if entries.len().is_multiple_of(1 << layout.shift) {
            anchors.push(first);
        }
        // Every added point closes at most `spacing` items, and as many may follow the last one.
        let items = (self.added + 1).saturating_mul(self.spacing);
        let bits = self.last.position - first.position;
        let short = items <= self.shape.most_items() && bits <= self.longest;
        let near = anchors
            .last()
            .and_then(|&anchor| layout.near(anchor, first));
        let entry = match near {
            Some(entry) if short => entry,
            _ => {
                let kept = if short { &self.kept[..1] } else { &self.kept };
                points.extend_from_slice(kept);
                Layout::list(points.len() - kept.len(), kept.len())
            }
        };
        entries.push(entry);
        self.kept.clear();
        self.kept.push(self.last);
        self.last_kept = self.last.position;
        self.added = 0;
        self.wait = self.stride;
    }

    /// Returns the table, including the entries of the parts after the last point.
    pub(crate) fn finish(mut self) -> Table {
        while self.table.entries.len() < self.shape.entries as usize {
            self.close();
        }
        self.table.points.shrink_to_fit();
        self.table
    }
}
