//! Consumers of decoded filters: a check, a table of places, and slices of values.

use alloc::vec::Vec;
use core::ops::ControlFlow;

use super::LONG_LANE;
use super::lane_decoder::Take;
use super::resync::{Boundary, Coded, ValueSink};
use crate::arch::SimdLevel;
use crate::arch::lanes::{self, Advanced, GROUP, Lanes, Point, Simd};
use crate::error::DecodeError;

/// Keeps nothing.
pub(super) struct Check;

impl<const N: usize> Take<N> for Check {}
impl<const N: usize> ValueSink<N> for Check {}

/// Places in a filter from which items can be decoded, made by [`seek_table`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SeekTable {
    /// The bit position of the first code after each place, in ascending order. The first is 0.
    pub(crate) positions: Vec<u64>,
    /// The value before each place, or 0 before the first item, in ascending order.
    pub(crate) bases: Vec<u64>,
    /// The bit position where the items end.
    pub(crate) end: u64,
    /// The codes that are longer than the maximum distance of two places, in order. Usual filters have none.
    pub(crate) gaps: Vec<Gap>,
}

/// A code that is longer than the maximum distance of two places.
///
/// No item has a value between `from` and `value`, so targets there are answered without reading its bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gap {
    /// The value of the item before it, or 0 before the first item.
    pub(crate) from: u64,
    /// The value of its item.
    pub(crate) value: u64,
    /// The bit position after the code.
    pub(crate) position: u64,
}

/// The maximum distance of two places in bits, in a filter of `len` bytes: that of two steps and 64 items of average
/// length, which uniform hashes never reach.
pub(crate) fn longest_span(n: u32, len: u64, step: u32) -> u64 {
    let mean = len.saturating_mul(8).div_ceil(u64::from(n.max(1)));
    mean.saturating_mul(2 * u64::from(step) + 64)
}

impl SeekTable {
    /// The place with this number, or that of the first item.
    pub(crate) fn point(&self, number: usize) -> Point {
        match (self.positions.get(number), self.bases.get(number)) {
            (Some(&position), Some(&base)) => Point { position, base },
            _ => Point::default(),
        }
    }

    /// Adds places to the table of a validated filter until at most `longest` bits lie between two of them, for filters
    /// crafted to have long codes. A single longer code becomes a gap.
    pub(super) fn divide(&mut self, coded: &Coded<'_>, longest: u64) -> Result<(), DecodeError> {
        if self.spans().all(|(start, end)| end - start <= longest) {
            return Ok(());
        }
        let mut divided = Self {
            positions: Vec::with_capacity(self.positions.len() + 64),
            bases: Vec::with_capacity(self.bases.len() + 64),
            end: self.end,
            gaps: Vec::new(),
        };
        for ((position, end), &base) in self.spans().zip(&self.bases) {
            divided.push(position, base);
            if end - position > longest {
                let place = Boundary { position, value: base, item: 0 };
                divided.divide_span(coded, place, end, longest)?;
            }
        }
        *self = divided;
        Ok(())
    }

    /// Pairs of bit positions without a place between them.
    fn spans(&self) -> impl Iterator<Item = (u64, u64)> {
        let ends = self.positions.iter().skip(1).chain([&self.end]);
        self.positions.iter().copied().zip(ends.copied())
    }

    fn push(&mut self, position: u64, base: u64) {
        self.positions.push(position);
        self.bases.push(base);
    }

    /// Adds places between `place`, which is the last one, and bit `end`.
    fn divide_span(
        &mut self,
        coded: &Coded<'_>,
        place: Boundary,
        end: u64,
        longest: u64,
    ) -> Result<(), DecodeError> {
        // The number of the item there is unknown; decoding stops at the end of the span.
        let mut scanner = coded.scanner(place);
        let mut start = place.position;
        while scanner.position() < end {
            let (before, from) = (scanner.position(), scanner.value());
            let Some(value) = scanner.next_value()? else {
                break;
            };
            let position = scanner.position();
            if position - start <= longest {
                continue;
            }
            if before > start {
                self.push(before, from);
                start = before;
            }
            if position - before > longest {
                self.gaps.push(Gap { from, value, position });
                if position < end {
                    self.push(position, value);
                    start = position;
                }
            }
        }
        Ok(())
    }
}

/// A table of places, and the memory that making it took.
#[derive(Clone, Debug, Default)]
pub(crate) struct SampleMemory {
    pub(crate) table: SeekTable,
    positions: Vec<u64>,
    values: Vec<u64>,
}

/// Records the place before every item whose number in its lane is a multiple of `step`.
pub(super) struct SampleVisitor {
    step: usize,
    /// `room` places per lane, for its items 0, `step`, and so on. Values are relative to the lane's start.
    positions: Vec<u64>,
    values: Vec<u64>,
    room: usize,
    table: SeekTable,
    /// The number of items that the serial scan may read before the next place.
    left: usize,
}

impl SampleVisitor {
    /// For about `n` items. `step` is at least 1, and at least a group if lanes are used.
    #[cfg(test)]
    pub(super) fn new(n: u32, step: usize) -> Self {
        Self::reusing(SampleMemory::default(), n, step)
    }

    /// For about `n` items, with the memory of an earlier one. `step` is at least 1, and at least a group if lanes
    /// are used.
    pub(super) fn reusing(memory: SampleMemory, n: u32, step: usize) -> Self {
        let SampleMemory { mut table, positions, values } = memory;
        table.positions.clear();
        table.bases.clear();
        table.gaps.clear();
        let places = n as usize / step + 64;
        table.positions.reserve(places);
        table.bases.reserve(places);
        Self {
            step: if step < GROUP { step } else { step - step % GROUP },
            positions,
            values,
            room: 0,
            table,
            left: 0,
        }
    }

    /// The lane length for at most 128 places per lane.
    pub(super) fn lane_items(&self) -> u64 {
        LONG_LANE.min(self.step as u64 * 128)
    }

    /// The table of a filter that ends at bit `end`, with the other memory.
    pub(super) fn into_memory(self, end: u64) -> SampleMemory {
        SampleMemory {
            table: SeekTable { end, ..self.table },
            positions: self.positions,
            values: self.values,
        }
    }
}

impl<const N: usize> Take<N> for SampleVisitor {
    #[inline]
    fn mark(&mut self, done: usize, lanes: &Lanes<N>) -> usize {
        let (at, since) = (done / self.step, done % self.step);
        if at >= self.room {
            return 0;
        }
        if since == 0 {
            for lane in 0..N {
                let place = lane * self.room + at;
                self.positions[place] = lanes.positions[lane];
                self.values[place] = lanes.values[lane];
            }
        }
        self.step - since
    }

    #[inline]
    fn mark_one(&mut self, lane: usize, done: usize, position: u64, value: u64) {
        let (at, since) = (done / self.step, done % self.step);
        if since == 0 && at < self.room {
            self.positions[lane * self.room + at] = position;
            self.values[lane * self.room + at] = value;
        }
    }

    #[inline]
    fn store_value(&mut self, _lane: usize, done: usize, _value: u64) -> bool {
        done < self.room.saturating_mul(self.step)
    }
}

impl<const N: usize> ValueSink<N> for SampleVisitor {
    fn begin(&mut self, room: usize) {
        // One more for the place after the last item.
        self.room = odd_lines(room / self.step + 2);
        self.positions.resize(N * self.room, 0);
        self.values.resize(N * self.room, 0);
    }

    fn lane(&mut self, lane: usize, count: usize, base: u64) -> ControlFlow<()> {
        let places = lane * self.room..lane * self.room + count.div_ceil(self.step);
        self.table.positions.extend_from_slice(&self.positions[places.clone()]);
        self.table.bases.extend(self.values[places].iter().map(|value| base + value));
        self.left = 0;
        ControlFlow::Continue(())
    }

    fn place(&mut self, position: u64, value: u64) -> usize {
        if self.left == 0 {
            self.table.positions.push(position);
            self.table.bases.push(value);
            self.left = self.step;
        }
        self.left
    }

    fn serial_values(&mut self, values: &[u64]) -> ControlFlow<()> {
        self.left -= values.len();
        ControlFlow::Continue(())
    }
}

/// The numbers of a cache line.
const LINE: usize = 8;

/// At least `numbers`, rounded to an odd number of cache lines. The lanes write their stretches in step, and
/// would otherwise compete for the same few cache sets.
fn odd_lines(numbers: usize) -> usize {
    (numbers.div_ceil(LINE) | 1) * LINE
}

/// The maximum number of values per call of the visitor: 4 KiB.
const SLICE: usize = 512;

/// Receives slices of values, each relative to a base. No slice is empty.
pub(super) type Each<'e> = dyn FnMut(&[u64], u64) -> ControlFlow<()> + 'e;

/// Adds the base to the values before they reach `each`.
pub(super) fn absolute(
    level: SimdLevel,
    mut each: impl FnMut(&[u64]) -> ControlFlow<()>,
) -> impl FnMut(&[u64], u64) -> ControlFlow<()> {
    let mut block = [0; SLICE];
    move |values, base| {
        if base == 0 {
            return each(values);
        }
        // Not in place: the lanes' buffer is in the second-level cache, and would have to be written back to it.
        let block = &mut block[..values.len()];
        add(level, values, base, block);
        each(block)
    }
}

/// Passes all values on, in slices. Not generic over the function: there would be a copy of the decoder for each.
pub(super) struct Visit<'m, 'e> {
    each: &'m mut Each<'e>,
    /// The values of each lane, relative to its start, in stretches of `room`. Longer if an earlier filter needed
    /// more.
    values: &'m mut Vec<u64>,
    /// The first value of the first lane, at the start of a cache line: stores then cross no line.
    first: usize,
    room: usize,
}

impl<'m, 'e> Visit<'m, 'e> {
    pub(super) fn new(values: &'m mut Vec<u64>, each: &'m mut Each<'e>) -> Self {
        Self { each, values, first: 0, room: 0 }
    }
}

impl<const N: usize> Take<N> for Visit<'_, '_> {
    fn mark(&mut self, done: usize, _lanes: &Lanes<N>) -> usize {
        self.room.saturating_sub(done)
    }

    fn store_value(&mut self, lane: usize, done: usize, value: u64) -> bool {
        if done >= self.room {
            return false;
        }
        self.values[self.first + lane * self.room + done] = value;
        true
    }

    fn decode_groups(
        &mut self,
        simd: impl Simd<N>,
        bytes: &[u8],
        p: u32,
        lanes: &mut Lanes<N>,
        done: usize,
        groups: usize,
    ) -> Advanced {
        let places = core::array::from_fn(|lane| self.first + lane * self.room + done);
        lanes::decode_groups_into(simd, bytes, p, lanes, groups, self.values, &places)
    }
}

impl<const N: usize> ValueSink<N> for Visit<'_, '_> {
    fn begin(&mut self, room: usize) {
        self.room = odd_lines(room);
        let len = N * self.room + LINE - 1;
        if self.values.len() < len {
            self.values.resize(len, 0);
        }
        // A line has so many numbers; without an answer, any start will do.
        self.first = self.values.as_ptr().align_offset(8 * LINE).min(LINE - 1);
    }

    fn lane(&mut self, lane: usize, count: usize, base: u64) -> ControlFlow<()> {
        let mut slices = self.values[self.first + lane * self.room..][..count].chunks(SLICE);
        slices.try_for_each(|slice| (self.each)(slice, base))
    }

    fn serial_values(&mut self, values: &[u64]) -> ControlFlow<()> {
        (self.each)(values, 0)
    }
}

/// Writes `values`, each plus `base`, to `out`.
pub(super) fn add(level: SimdLevel, values: &[u64], base: u64, out: &mut [u64]) {
    level.compiled(
        #[inline(always)]
        || {
            let out = &mut out[..values.len()];
            for (at, out) in out.iter_mut().enumerate() {
                *out = values[at].wrapping_add(base);
            }
        },
    );
}
