//! Serialisation of a [`SeekIndex`].
//!
//! Reading accepts exactly what writing produces. Every entry is compared with its predecessor, and its place
//! must have the canonical encoding.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Identity, SeekIndex, most_entries};
use crate::decode::Gap;
use crate::error::{SeekIndexError, SeekIndexFault};
use crate::hash::fingerprint;
use crate::matching::{Entry, Point, Shape, Table};
use crate::params::Params;

const MAGIC: &[u8; 8] = b"nutfseek";
const VERSION: u32 = 3;
/// The lengths of the serialised pieces in bytes.
const HEADER: usize = 64;
const ENTRY: usize = 8;
const POINT: usize = 16;
const GAP: usize = 24;
const CHECKSUM: usize = 8;

impl SeekIndex {
    /// Serialises the index: a header that identifies the filter, the index, and a checksum. A filter has more
    /// than one valid index ([`SeekIndex::build`]), so do not compare these bytes to tell filters apart.
    ///
    /// ```text
    ///   0  "nutfseek"        8  version 3 (u32)   12  N (u32)     16  P (u32)   20  M (u32)
    ///  24  filter length in bytes (u64)           32  filter fingerprint (u64)
    ///  40  number of entries E (u64)              48  number of points L in lists (u64)
    ///  56  number of gaps G (u64)
    ///  64  anchors: ceil(E / S) points
    ///      entries: E times u64
    ///      lists: L points
    ///      gaps: G times the value before (u64), the value of the item (u64), the bit position behind (u64)
    ///      last 8 bytes: checksum (u64) of all before; all numbers little-endian
    ///
    /// A point is a bit position (u64) and the value of the item before it (u64).
    /// An entry is    0 | position, 63 - B bits | base, B bits    counted from its anchor, or
    ///                1 | first, 32 bits | count, 31 bits         so many points of the lists.
    /// ```
    ///
    /// Entry k is for the values v with `v * floor(E * 2^64 / F) >> 64 = k` (the quotient is at most 2^64 - 1).
    /// S consecutive entries share an anchor: the first point of the first of them.
    ///
    /// With `items = 4 * S * ceil(N / E)`, the position needs as many bits as `items * (P + 2 + (M >> P))` and
    /// the base as many as `items * M`. S is the first of 64, 16 and 4 for which the sum is at most 63 bits.
    /// The remaining bits go to the base (B). If no S fits, S = 1 and B = 31.
    ///
    /// A gap is a code with more bits than `2 * ceil(N / E) + 64` average items have. The average length of an
    /// item is ceil(filter length in bits / N). Gaps are in ascending order.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let Identity {
            n,
            params,
            len,
            fingerprint: of_filter,
        } = self.filter;
        let Table {
            anchors,
            entries,
            points,
            gaps,
            ..
        } = &*self.table;
        let mut bytes = Vec::with_capacity(self.serialised_len());
        bytes.extend_from_slice(MAGIC);
        for number in [VERSION, n, params.p(), params.m() as u32] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        let counts = [entries.len(), points.len(), gaps.len()].map(|count| count as u64);
        let anchors = anchors.iter().flat_map(|p| [p.position, p.base]);
        let points = points.iter().flat_map(|p| [p.position, p.base]);
        let gaps = gaps.iter().flat_map(|g| [g.from, g.value, g.position]);
        for number in [len, of_filter]
            .into_iter()
            .chain(counts)
            .chain(anchors)
            .chain(entries.iter().copied())
            .chain(points)
            .chain(gaps)
        {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&fingerprint(&bytes).to_le_bytes());
        bytes
    }

    pub(super) fn serialised_len(&self) -> usize {
        HEADER + self.table.size() + CHECKSUM
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
        let (entries, points, gaps) = (u64_at(40), u64_at(48), u64_at(56));
        let most = filter.n.min(most_entries(filter.len));
        let Some(shape) = u32::try_from(entries)
            .ok()
            .filter(|&entries| entries <= most && (entries > 0 || filter.n == 0))
            .map(|entries| Shape {
                n: filter.n,
                params: filter.params,
                entries,
            })
        else {
            return fault(SeekIndexFault::OtherFilter);
        };
        let mut table = Table::empty(shape);
        let anchors = entries.div_ceil(table.entries_per_anchor());
        let needed = u128::from(anchors) * POINT as u128
            + u128::from(entries) * ENTRY as u128
            + u128::from(points) * POINT as u128
            + u128::from(gaps) * GAP as u128;
        let end = bytes.len() - CHECKSUM;
        if (end - HEADER) as u128 != needed {
            return fault(SeekIndexFault::Length { len, entries });
        }
        let (stored, computed) = (u64_at(end), fingerprint(&bytes[..end]));
        if stored != computed {
            return fault(SeekIndexFault::Checksum { stored, computed });
        }
        // All of these are below the length of the bytes.
        let entries_at = HEADER + anchors as usize * POINT;
        let points_at = entries_at + entries as usize * ENTRY;
        let gaps_at = points_at + points as usize * POINT;
        let point_at = |at| Point {
            position: u64_at(at),
            base: u64_at(at + 8),
        };
        let anchors = (HEADER..entries_at).step_by(POINT).map(point_at);
        let points = (points_at..gaps_at).step_by(POINT).map(point_at);
        let gaps = (gaps_at..end).step_by(GAP).map(|at| Gap {
            from: u64_at(at),
            value: u64_at(at + 8),
            position: u64_at(at + 16),
        });
        table.anchors = anchors.collect();
        table.entries = (entries_at..points_at).step_by(ENTRY).map(u64_at).collect();
        table.points = points.collect();
        table.gaps = gaps.collect();
        let index = Self {
            filter,
            table: Arc::new(table),
        };
        index.check_entries()?;
        index.check_gaps(shape)?;
        Ok(index)
    }

    /// The same check for gaps. Also rejects codes that are too short to be gaps.
    fn check_gaps(&self, shape: Shape) -> Result<(), SeekIndexError> {
        let Identity { n, params, len, .. } = self.filter;
        let longest = shape.longest(len);
        let mut before = Gap::default();
        for (number, &gap) in self.table.gaps.iter().enumerate() {
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
        }
        Ok(())
    }

    /// Rejects entries that go backwards, point outside the filter, or are not in canonical form.
    fn check_entries(&self) -> Result<(), SeekIndexError> {
        let Identity { n, params, len, .. } = self.filter;
        let table = &self.table;
        let range = params.range(n);
        let mut before = Point::default();
        let mut in_lists = 0;
        for (number, &entry) in table.entries.iter().enumerate() {
            let fault = || {
                SeekIndexError(SeekIndexFault::Entry {
                    entry: number as u64,
                })
            };
            let anchor = table.anchor_of(number).ok_or_else(fault)?;
            let near;
            let list = match table.layout.entry(entry) {
                Entry::Near { position, base } => {
                    near = [Point {
                        position: anchor.position.checked_add(position).ok_or_else(fault)?,
                        base: anchor.base.checked_add(base).ok_or_else(fault)?,
                    }];
                    &near[..]
                }
                Entry::List { first, count } => {
                    let list = table.list(first, count);
                    if first != in_lists || list.is_empty() {
                        return Err(fault());
                    }
                    in_lists += count;
                    list
                }
            };
            // The first item begins at bit 0 and has no predecessor.
            if number == 0 && list[0] != Point::default() {
                return Err(fault());
            }
            let starts_block = (number as u64).is_multiple_of(table.entries_per_anchor());
            if starts_block && list[0] != anchor
                || list.len() == 1 && !table.is_canonical(entry, anchor, list[0])
            {
                return Err(fault());
            }
            for &point in list {
                let inside = point.position <= len.saturating_mul(8) && point.base < range;
                if !inside || point.position < before.position || point.base < before.base {
                    return Err(fault());
                }
                before = point;
            }
        }
        if in_lists != table.points.len() as u64 {
            return Err(SeekIndexError(SeekIndexFault::Entry {
                entry: table.entries.len() as u64,
            }));
        }
        Ok(())
    }
}
