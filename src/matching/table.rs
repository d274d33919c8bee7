//! [`Table`]: from a value to a place in the bits shortly before it, in 8 bytes an entry.
//!
//! A stream of differences can only be read from its start, or from a [`Point`] that somebody wrote down.
//! The range `[0, F)` is divided into equal parts, one for each entry, so that a value finds its entry by one
//! multiplication and no search. An entry gives a point that has no item of the part before it, and few
//! items of the parts before between it and them.
//!
//! An entry is relative to its superblock's first point, an *anchor*, and therefore fits 8 bytes. What does
//! not fit, and every part that holds many more items than the average one, has a list of points of its own,
//! ordered by value: hashes that somebody ground to be equal or close make lists, not long scans. So have parts
//! of many more bits than the average one. From the point that [`Table::locate`] gives, an item is at most
//! [`Shape::most_items`] away, and the bits of at most twice as many average items, whatever the set is. Codes longer
//! than that are *gaps* and known by their values: a target within one is answered without reading it.
//!
//! A table may come from bytes that somebody forged. Then points are wrong, but [`Table::locate`] gives one
//! for every value, and who reads the bits there has to check what every reader checks.

use alloc::vec::Vec;

use crate::arch::Level;
use crate::decode::{self, Gap, longest_span, most_items};
use crate::hash::map_to_range;
use crate::matching::{Coded, Strategy, gaps, plan};
use crate::params::Params;

/// A place in the bits from which items can be decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Point {
    /// The bit position of an item, or the end of the last one.
    pub(crate) position: u64,
    /// The value of the item before it, 0 where there is none.
    pub(crate) base: u64,
}

/// The number of items of a filter, its parameters, and how many entries its table has: all that the layout
/// of a table depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) n: u32,
    pub(crate) params: Params,
    /// At most `n`.
    pub(crate) entries: u32,
}

impl Shape {
    /// How many items an average part has, rounded up.
    pub(crate) fn step(self) -> u32 {
        self.n.div_ceil(self.entries.max(1))
    }

    /// From the point that a table gives for a value, how many items are decoded at most before the value is
    /// found or passed: a little above twice the average number of items of a part, which a part of uniform
    /// hashes reaches in no set that fits a machine where the average is 32 or more.
    pub(crate) fn most_items(self) -> u64 {
        most_items(self.step())
    }

    /// A code of more bits is a gap, in a filter of `len` bytes.
    pub(crate) fn longest(self, len: u64) -> u64 {
        longest_span(self.n, len, self.step())
    }
}

/// Points of a filter by value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) parts: Parts,
    pub(crate) layout: Layout,
    /// The first point of each superblock.
    pub(crate) anchors: Vec<Point>,
    /// One for each part of the range, in order.
    pub(crate) entries: Vec<u64>,
    /// The lists of the entries that have one, one after another.
    pub(crate) points: Vec<Point>,
    /// The codes of more than [`Shape::longest`] bits, in order.
    pub(crate) gaps: Vec<Gap>,
}

/// What an entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// One point, relative to the anchor.
    Near { position: u64, base: u64 },
    /// So many points from the `first` one of the lists.
    List { first: u64, count: u64 },
}

/// The division of the range into equal parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    /// floor(parts * 2^64 / F): a value times this, shifted down by 64, is its part.
    pub(crate) scale: u64,
}

impl Parts {
    fn new(parts: u32, range: u64) -> Self {
        // At most one part an item, so parts <= F. Where they are equal (M = 1) the quotient is 2^64,
        // one more than fits: then value v is in part v - 1 instead of v, which is as good a division.
        let scale = (u128::from(parts) << 64)
            .checked_div(u128::from(range))
            .unwrap_or_default();
        Self {
            scale: u64::try_from(scale).unwrap_or(u64::MAX),
        }
    }

    /// The part of `value`: never decreases with it, and is below the number of parts for every value
    /// below F. Building and asking both use this, so what it rounds away does not matter.
    #[inline(always)]
    pub(crate) fn part_of(self, value: u64) -> usize {
        map_to_range(value, self.scale) as usize
    }
}

/// How the 64 bits of an entry are divided, and how many entries share an anchor.
///
/// The highest bit tells a list (then 32 bits of where it begins, and 31 of how long it is). Otherwise the
/// lowest bits are the base and the others the position, both counted from the anchor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// log2 of the number of entries that share an anchor.
    pub(crate) shift: u32,
    /// How many bits the base has, at most 63.
    pub(crate) base_bits: u32,
}

const LIST: u64 = 1 << 63;
const COUNT_BITS: u32 = 31;
/// What is left beside the flag.
const NEAR_BITS: u32 = 63;
/// Four times the average of a superblock is coded in place: sets that are not ground never come near.
const SLACK: u128 = 4;

impl Layout {
    fn new(Shape { n, params, entries }: Shape) -> Self {
        let step = u128::from(n.div_ceil(entries.max(1)));
        let item_bits = u128::from(u64::from(params.p()) + 2 + (params.m() >> params.p()));
        // A wider gap between two items leaves room for fewer entries. With one entry an anchor nothing is
        // relative to anything, and everything fits.
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

    /// The entry that stands for `point`, where it fits.
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

/// The number of bits that numbers up to `largest` take.
fn bits_for(largest: u128) -> u32 {
    u128::BITS - largest.leading_zeros()
}

impl Table {
    /// A table of this shape that has no entries yet.
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

    /// The point to read from to find `value`, if it is below F: each item before the point is smaller than
    /// `value`. Where nothing has to be read, the answer as a point ([`Point::answer`]).
    ///
    /// A table without entries, and one that was forged, give the first item's.
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
        // Equal values may lie on both sides of a point, so the item before it has to be a smaller one.
        let before = list.partition_point(|point| point.base < value);
        let point = list.get(before.saturating_sub(1));
        point.copied().unwrap_or_default()
    }

    /// The points of a list, none where they lie outside.
    pub(crate) fn list(&self, first: u64, count: u64) -> &[Point] {
        let range = first as usize..(first + count) as usize;
        self.points.get(range).unwrap_or_default()
    }

    /// How many entries share an anchor.
    pub(crate) fn entries_per_anchor(&self) -> u64 {
        1 << self.layout.shift
    }

    /// The anchor of an entry.
    pub(crate) fn anchor_of(&self, entry: usize) -> Option<Point> {
        self.anchors.get(entry >> self.layout.shift).copied()
    }

    /// Whether an entry for one point is written as it has to be: in a list only where it must.
    pub(crate) fn is_canonical(&self, entry: u64, anchor: Point, point: Point) -> bool {
        match self.layout.near(anchor, point) {
            Some(near) => entry == near,
            None => entry & LIST != 0,
        }
    }

    /// The way that the cost model takes for so many targets in a filter of `n` items.
    pub(crate) fn planned(&self, level: Level, size: plan::Size, targets: usize) -> Strategy {
        let entries = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        plan::indexed(level, size, targets, size.0.div_ceil(entries.max(1)))
    }

    /// The size in bytes of what the entries take.
    pub(crate) fn size(&self) -> usize {
        (self.anchors.len() + self.points.len()) * size_of::<Point>()
            + self.entries.len() * 8
            + size_of_val(&*self.gaps)
    }
}

/// How many items lie between the points that an index is built of, in a filter of `len` bytes.
///
/// A look-up decodes half of that more than its part holds, and a point takes as long as a few items. Eight is
/// what lanes sample at least; where the step is so small that it would show, items are read one by one. Where a
/// byte holds many items, the points must not take much more memory than the filter.
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
    /// The table of a filter that was validated.
    pub(crate) fn build(coded: &Coded<'_>, entries: u32) -> Self {
        let (n, params) = (coded.n, coded.params);
        let shape = Shape { n, params, entries };
        let spacing = spacing(shape, coded.bytes.len());
        let longest = shape.longest(coded.bytes.len() as u64);
        let places = decode::seek_table(coded.level, coded.bytes, n, params, spacing, longest);
        let places = places.unwrap_or_default();
        let mut builder = TableBuilder::new(shape, u64::from(spacing), longest);
        builder.table.gaps = places.gaps;
        // The first place is where every builder begins.
        for (&position, &base) in places.positions.iter().zip(&places.bases).skip(1) {
            builder.add(Point { position, base });
        }
        builder.finish()
    }
}

/// Makes a [`Table`] of points that come in order.
#[derive(Debug)]
pub(crate) struct TableBuilder {
    table: Table,
    shape: Shape,
    /// At most so many items lie between two points that are added.
    spacing: u64,
    /// At most so many bits lie between two points that are added, but where there is a gap.
    longest: u64,
    /// Of so many points, a list keeps one.
    stride: u64,
    /// The points that the open part keeps for its list; the first one comes before all its items.
    kept: Vec<Point>,
    /// How many points were added to the open part after its first one.
    added: u64,
    /// How many points are still to come before one is kept; at least 1.
    wait: u64,
    /// The last point that was added.
    last: Point,
}

impl TableBuilder {
    /// A builder for points every `spacing` items and `longest` bits, beginning with the first item's.
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
            added: 0,
            wait: stride,
            last: Point::default(),
        }
    }

    /// Adds a point that comes after the last one.
    #[inline]
    pub(crate) fn add(&mut self, point: Point) {
        let part = self.table.parts.part_of(point.base);
        if part > self.table.entries.len() {
            self.open(part);
        }
        self.added += 1;
        self.wait -= 1;
        let kept = self.kept.last().copied().unwrap_or_default();
        if self.wait == 0 || point.position - kept.position > self.longest {
            self.kept.push(point);
            self.wait = self.stride;
        }
        self.last = point;
    }

    /// Closes the open part, writes the empty ones between, and opens `part`: the last point is where all of
    /// them begin.
    fn open(&mut self, part: usize) {
        let most = self.shape.entries as usize;
        self.close();
        while self.table.entries.len() < part.min(most) {
            self.close();
        }
    }

    /// Writes the entry of the open part and opens the next one, at the last point.
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
        // Every point added closes at most `spacing` items, and as many may follow the last one.
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
        self.added = 0;
        self.wait = self.stride;
    }

    /// The table, with the entries of the parts after the last point.
    pub(crate) fn finish(mut self) -> Table {
        while self.table.entries.len() < self.shape.entries as usize {
            self.close();
        }
        self.table.points.shrink_to_fit();
        self.table
    }
}
