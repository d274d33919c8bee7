//! Serialisation of a [`SeekIndex`].
//!
//! Reading accepts exactly what writing produces: the lines are made again from their points.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Identity, SeekIndex};
use crate::decode::{Gap, longest_span};
use crate::error::{SeekIndexError, SeekIndexFault};
use crate::hash::fingerprint;
use crate::matching::{LINE, Line, Point, Table, step};
use crate::params::Params;

const MAGIC: &[u8; 8] = b"nutfseek";
const VERSION: u32 = 4;
/// The lengths of the serialised pieces in bytes.
const HEADER: usize = 64;
const GAP: usize = 24;
const CHECKSUM: usize = 8;

impl SeekIndex {
    /// Serialises the index: a header that identifies the filter, the index, and a checksum. A filter has more
    /// than one valid index ([`SeekIndex::build`]), so do not compare these bytes to tell filters apart.
    ///
    /// ```text
    ///   0  "nutfseek"        8  version 4 (u32)   12  N (u32)     16  P (u32)   20  M (u32)
    ///  24  filter length in bytes (u64)           32  filter fingerprint (u64)
    ///  40  number of lines L (u64)                48  number of gaps G (u64)
    ///  56  items between two points, S (u32)      60  zero (u32)
    ///  64  L lines of 64 bytes
    ///      G gaps: the value before (u64), the value of the item (u64), the bit position behind (u64)
    ///      last 8 bytes: checksum (u64) of all before; all numbers little-endian
    ///
    /// A point is a bit position and the value of the item before it (the base). A line has its first point in full,
    /// and up to E others relative to it:
    ///
    ///   0  base (u64)        8  position (48 bits)
    ///  14  the low W bytes of E entries           64 - 4E  their high 32 bits
    /// ```
    ///
    /// An entry is `base << C | correction`, with the base relative to that of the line. Entry k, from 1, is at bit
    /// `k * S * (P + 1) + (base >> P) - correction` after the position of the line. Unused entries are all ones. A line
    /// ends where the next point does not fit.
    ///
    /// E is `50 / (4 + W)`. B is the number of bits of `3 * S * (E + 1) * M / 2`, and C of `S * E`. W is the
    /// first of 1, 2 and 3 for which entries have at least B + C bits; C then gets the bits that are left. If no W is
    /// enough, W is 3 and C is as it was.
    ///
    /// A gap is a code with more bits than `2 * S + 64` average items have. The average length of an
    /// item is ceil(filter length in bits / N). Gaps are in ascending order.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let Identity {
            n,
            params,
            len,
            fingerprint: of_filter,
        } = self.filter;
        let Table { lines, gaps, .. } = &*self.table;
        let mut bytes =
            Vec::with_capacity(HEADER + lines.len() * LINE + gaps.len() * GAP + CHECKSUM);
        bytes.extend_from_slice(MAGIC);
        for number in [VERSION, n, params.p(), params.m() as u32] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        let step = u64::from(self.table.layout.step);
        for number in [len, of_filter, lines.len() as u64, gaps.len() as u64, step] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for Line(line) in lines {
            bytes.extend_from_slice(line);
        }
        for number in gaps.iter().flat_map(|g| [g.from, g.value, g.position]) {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&fingerprint(&bytes).to_le_bytes());
        bytes
    }

    /// Deserialises an index written by [`SeekIndex::to_bytes`].
    ///
    /// # Errors
    ///
    /// The bytes are truncated, damaged, of another version, or not an index. The checksum protects only
    /// against accidents. Filters may come from untrusted sources; an index must not. It is quickly rebuilt.
    ///
    /// # Cost
    ///
    /// Two passes over the bytes; memory in proportion to them.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SeekIndexError> {
        let fault = |fault| Err(SeekIndexError(fault));
        let len = bytes.len() as u64;
        let u32_at = |at: usize| u32::from_le_bytes(core::array::from_fn(|i| bytes[at + i]));
        let u64_at = |at: usize| u64::from_le_bytes(core::array::from_fn(|i| bytes[at + i]));
        if bytes.len() < HEADER + CHECKSUM {
            // An index of an older version may be shorter; report its version instead of its length.
            if bytes.len() >= 12 && bytes.starts_with(MAGIC) && u32_at(8) != VERSION {
                let version = u32_at(8);
                return fault(SeekIndexFault::Version { version });
            }
            let needed = (HEADER + CHECKSUM) as u64;
            return fault(SeekIndexFault::TooShort { len, needed });
        }
        if !bytes.starts_with(MAGIC) {
            return fault(SeekIndexFault::Magic);
        }
        if u32_at(8) != VERSION {
            let version = u32_at(8);
            return fault(SeekIndexFault::Version { version });
        }
        let filter = Identity {
            n: u32_at(12),
            params: Params::new(u32_at(16), u64::from(u32_at(20)))
                .map_err(|_| SeekIndexError(SeekIndexFault::OtherFilter))?,
            len: u64_at(24),
            fingerprint: u64_at(32),
        };
        let (lines, gaps) = (u64_at(40), u64_at(48));
        let needed = u128::from(lines) * LINE as u128 + u128::from(gaps) * GAP as u128;
        let end = bytes.len() - CHECKSUM;
        if (end - HEADER) as u128 != needed {
            return fault(SeekIndexFault::Length { len, lines });
        }
        let (stored, computed) = (u64_at(end), fingerprint(&bytes[..end]));
        if stored != computed {
            return fault(SeekIndexFault::Checksum { stored, computed });
        }
        // No build makes another interval of it, nor an index without lines unless the filter is empty.
        let interval = u32_at(56);
        let made = step(filter.n, filter.len, interval) == interval && u32_at(60) == 0;
        if !made || (lines == 0) != (filter.n == 0) || lines > Table::MOST_LINES {
            return fault(SeekIndexFault::OtherFilter);
        }
        // All of these are below the length of the bytes.
        let (lines, gaps) = bytes[HEADER..end].split_at(lines as usize * LINE);
        let (lines, _) = lines.as_chunks::<LINE>();
        let mut table = Table::empty(filter.params, interval);
        read_lines(&mut table, lines, filter)?;
        let (gaps, _) = gaps.as_chunks::<GAP>();
        read_gaps(&mut table, gaps, filter)?;
        table.finish(filter.params.range(filter.n));
        Ok(Self {
            filter,
            table: Arc::new(table),
        })
    }
}

/// Rejects points that go backwards or lie outside the filter, and lines that are not as their points make them.
fn read_lines(
    table: &mut Table,
    lines: &[[u8; LINE]],
    filter: Identity,
) -> Result<(), SeekIndexError> {
    let range = filter.params.range(filter.n);
    let mut before = None;
    table.lines.reserve_exact(lines.len());
    for (number, line) in lines.iter().enumerate() {
        let line = Line(*line);
        for point in line.points(table.layout) {
            let inside = point.position <= filter.len.saturating_mul(8) && point.base < range;
            // The first item begins at bit 0 and has no predecessor.
            let behind = match before {
                None => point == Point::default(),
                Some(Point { position, base }) => point.position > position && point.base >= base,
            };
            if !inside || !behind {
                return Err(SeekIndexError(SeekIndexFault::Line {
                    line: number as u64,
                }));
            }
            before = Some(point);
            table.push(point);
        }
        // Also if the line before it had room for these points.
        if table.lines.len() != number + 1 || table.lines[number] != line {
            return Err(SeekIndexError(SeekIndexFault::Line {
                line: number as u64,
            }));
        }
    }
    Ok(())
}

/// Rejects gaps that go backwards, lie outside the filter, or are too short.
fn read_gaps(
    table: &mut Table,
    gaps: &[[u8; GAP]],
    filter: Identity,
) -> Result<(), SeekIndexError> {
    let Identity { n, params, len, .. } = filter;
    let longest = longest_span(n, len, table.layout.step);
    let mut before = Gap::default();
    table.gaps.reserve_exact(gaps.len());
    for (number, gap) in gaps.iter().enumerate() {
        let u64_at = |at: usize| u64::from_le_bytes(core::array::from_fn(|i| gap[at + i]));
        let gap = Gap {
            from: u64_at(0),
            value: u64_at(8),
            position: u64_at(16),
        };
        let bits = gap.value.checked_sub(gap.from).map(|difference| {
            let quotient = difference >> params.p();
            quotient + u64::from(params.p()) + 1
        });
        let inside = gap.position <= len.saturating_mul(8) && gap.value < params.range(n);
        let behind = gap.from >= before.value && gap.position >= before.position;
        let right = bits.is_some_and(|bits| {
            inside && behind && bits > longest && gap.position - before.position >= bits
        });
        if !right {
            return Err(SeekIndexError(SeekIndexFault::Gap { gap: number as u64 }));
        }
        before = gap;
        table.gaps.push(gap);
    }
    Ok(())
}
