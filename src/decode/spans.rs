//! Places so close together that no bits between two of them cost much, however somebody made the filter.

use alloc::vec::Vec;

use super::SeekTable;
use super::sync::{Place, Stream};
use crate::error::DecodeError;

/// A code that alone is longer than what may lie between two places.
///
/// No item has a value between `from` and `value`, so targets there are answered without reading its bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gap {
    /// The value of the item before it, 0 where there is none.
    pub(crate) from: u64,
    /// The value of its item.
    pub(crate) value: u64,
    /// The bit position behind it.
    pub(crate) position: u64,
}

/// How many average items take as many bits as may lie between two places, and in an index between a place
/// and the items that are looked up from it: twice a step and 64, which uniform hashes never reach.
pub(crate) fn most_items(step: u32) -> u64 {
    2 * u64::from(step) + 64
}

/// The bits of [`most_items`] average items in a filter of `len` bytes.
pub(crate) fn longest_span(n: u32, len: u64, step: u32) -> u64 {
    let mean = len.saturating_mul(8).div_ceil(u64::from(n.max(1)));
    mean.saturating_mul(most_items(step))
}

/// Adds places to the table of a validated filter until between two of them lie at most `longest` bits, or one
/// code, which is then one of its gaps.
pub(super) fn divide(
    table: SeekTable,
    stream: &Stream<'_>,
    longest: u64,
) -> Result<SeekTable, DecodeError> {
    if table.spans().all(|(start, end)| end - start <= longest) {
        return Ok(table);
    }
    let mut divided = SeekTable {
        positions: Vec::with_capacity(table.positions.len() + 64),
        bases: Vec::with_capacity(table.bases.len() + 64),
        end: table.end,
        gaps: Vec::new(),
    };
    for ((position, end), &base) in table.spans().zip(&table.bases) {
        divided.push(position, base);
        if end - position > longest {
            let place = Place {
                position,
                value: base,
                item: 0,
            };
            divided.divide_span(stream, place, end, longest)?;
        }
    }
    Ok(divided)
}

impl SeekTable {
    /// The bit positions between which no place lies.
    fn spans(&self) -> impl Iterator<Item = (u64, u64)> {
        let ends = self.positions.iter().skip(1).chain([&self.end]);
        self.positions.iter().copied().zip(ends.copied())
    }

    fn push(&mut self, position: u64, base: u64) {
        self.positions.push(position);
        self.bases.push(base);
    }

    /// Adds the places between `place`, which is the last one, and bit `end`.
    fn divide_span(
        &mut self,
        stream: &Stream<'_>,
        place: Place,
        end: u64,
        longest: u64,
    ) -> Result<(), DecodeError> {
        // Which item comes there is not known: the end of the span ends it.
        let mut scanner = stream.scanner(place);
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
                self.gaps.push(Gap {
                    from,
                    value,
                    position,
                });
                if position < end {
                    self.push(position, value);
                    start = position;
                }
            }
        }
        Ok(())
    }
}
