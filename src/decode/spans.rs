//! Limits the number of bits between two places, for filters crafted to have long codes.

use alloc::vec::Vec;

use super::SeekTable;
use super::sync::{Coded, Place};
use crate::error::DecodeError;

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

/// Adds places to the table of a validated filter until at most `longest` bits lie between two of them. A
/// single longer code becomes a gap.
pub(super) fn divide(
    table: &mut SeekTable,
    coded: &Coded<'_>,
    longest: u64,
) -> Result<(), DecodeError> {
    if table.spans().all(|(start, end)| end - start <= longest) {
        return Ok(());
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
            divided.divide_span(coded, place, end, longest)?;
        }
    }
    *table = divided;
    Ok(())
}

impl SeekTable {
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
        place: Place,
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
