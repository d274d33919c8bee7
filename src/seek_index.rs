//! [`SeekIndex`]: where in the bits the values of each part of the range begin.
//!
//! A stream of differences can only be read from its start, or from a place whose position and value
//! somebody wrote down. The index divides the range `[0, F)` into equal parts and writes down, for each
//! part, the bit position of its first item and the value before it. A look-up computes its part from
//! the value (one multiplication, no search) and decodes a few items there. A. Langley's article on
//! Golomb-coded sets has 32 such entries a filter; any number is possible here.
//!
//! Parts are equal in range, and uniform hashes make them nearly equal in items. Hashes that somebody ground
//! to be equal, or close together, all fall in one part: then a look-up there decodes all of them, as one
//! without an index would. Answers stay right.

use alloc::vec;
use alloc::vec::Vec;

use crate::decode::Scanner;
use crate::error::{DecodeError, SeekIndexError, SeekIndexFault};
use crate::filter::Filter;
use crate::hash::{ItemHash, Nut25, fingerprint, map_to_range};
use crate::matching::{Target, first_at_least, sort_targets};
use crate::params::Params;

/// How many entries an index gets: at most one an item, and one for each byte of the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// One entry for so many items on average (0 counts as 1). A look-up decodes half of them on
    /// average where hashes are uniform. At 16 bytes an entry, 128 items cost 1 bit an item.
    Items(u32),
    /// So many entries in all (0 counts as 1).
    Entries(u32),
}

/// A sampled index over one filter, by value.
///
/// ```
/// use nutfilter::{Nut25, Params, SeekIndex, SortedHashes, Step};
///
/// let notes: Vec<[u8; 33]> = (0..1000_u16).map(|i| [i as u8 ^ (i >> 8) as u8 * 7; 33]).collect();
/// let filter = SortedHashes::<Nut25>::from_items(&notes).encode(Params::default())?;
/// let index = SeekIndex::build(&filter, Step::Items(128));
/// let indexed = filter.with_index(&index)?;
/// assert!(indexed.contains(&notes[500]));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeekIndex {
    filter: Identity,
    /// One for each part of the range, in order; positions and bases never decrease.
    entries: Vec<Entry>,
}

/// What tells one filter from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    n: u32,
    params: Params,
    len: u64,
    fingerprint: u64,
}

/// Where a part of the range begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Entry {
    /// The bit position of the first item of this part or, where it has none, of a later one; the end of
    /// the last item where there is none at all.
    position: u64,
    /// The value of the item before that, 0 where there is none.
    base: u64,
}

/// How many items are decoded before the part they are in is looked at.
const STRIDE: usize = 16;

impl Identity {
    fn of<H>(filter: &Filter<'_, H>) -> Self {
        Self {
            n: filter.n(),
            params: filter.params(),
            len: filter.bytes().len() as u64,
            fingerprint: fingerprint(filter.bytes()),
        }
    }
}

impl SeekIndex {
    /// The index of `filter`.
    ///
    /// # Cost
    ///
    /// One decoding pass, and 16 bytes an entry; so at most 16 times the filter's bytes, if it is asked for
    /// that many.
    #[must_use]
    pub fn build<H>(filter: &Filter<'_, H>, step: Step) -> Self {
        let n = filter.n();
        let wanted = match step {
            Step::Items(items) => n.div_ceil(items.max(1)),
            Step::Entries(entries) => entries.max(1).min(n),
        };
        // A stranger's filter can hold eight items a byte, and N decides how much memory an index takes.
        let bytes = u32::try_from(filter.bytes().len()).unwrap_or(u32::MAX);
        let wanted = wanted.min(bytes);
        let mut entries = Vec::with_capacity(wanted as usize);
        let parts = Parts::new(wanted, filter.range());
        let mut scanner = filter.scanner();
        let mut block = [0; STRIDE];
        loop {
            let start = scanner.clone();
            let filled = scanner.fill(&mut block).unwrap_or_default();
            let Some(&last) = block[..filled].last() else {
                break;
            };
            // Positions are known between fills only. Most strides begin no new part; those that do are
            // read again item by item.
            if parts.part_of(last) >= entries.len() {
                Self::enter(&mut entries, parts, start, filled);
            }
        }
        entries.resize(
            wanted as usize,
            Entry {
                position: filter.end(),
                base: scanner.value(),
            },
        );
        Self {
            filter: Identity::of(filter),
            entries,
        }
    }

    /// Adds the entries of the parts that begin within the next `count` items.
    fn enter(entries: &mut Vec<Entry>, parts: Parts, mut scanner: Scanner<'_>, count: usize) {
        for _ in 0..count {
            let entry = Entry {
                position: scanner.position(),
                base: scanner.value(),
            };
            let Ok(Some(value)) = scanner.next_value() else {
                return;
            };
            let reached = parts.part_of(value) + 1;
            if reached > entries.len() {
                entries.resize(reached, entry);
            }
        }
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry, as in the index of an empty filter.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The size of the serialised index in bits, for each item of the filter.
    #[must_use]
    pub fn bits_per_item(&self) -> f64 {
        let bits = (HEADER + self.entries.len() * ENTRY + CHECKSUM) * 8;
        bits as f64 / f64::from(self.filter.n.max(1))
    }

    /// The index as bytes: a header that names the filter, the entries, and a checksum.
    ///
    /// ```text
    ///   0  "nutfseek"        8  version 1 (u32)   12  N (u32)     16  P (u32)   20  M (u32)
    ///  24  filter length in bytes (u64)           32  filter fingerprint (u64)
    ///  40  number of entries (u64)                48  entries: position (u64), base value (u64)
    ///      last 8 bytes: checksum (u64) of all before; all numbers little-endian
    /// ```
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let Identity {
            n,
            params,
            len,
            fingerprint: of_filter,
        } = self.filter;
        let mut bytes = Vec::with_capacity(HEADER + self.entries.len() * ENTRY + CHECKSUM);
        bytes.extend_from_slice(MAGIC);
        for number in [VERSION, n, params.p(), params.m() as u32] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for number in [len, of_filter, self.entries.len() as u64] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for entry in &self.entries {
            bytes.extend_from_slice(&entry.position.to_le_bytes());
            bytes.extend_from_slice(&entry.base.to_le_bytes());
        }
        bytes.extend_from_slice(&fingerprint(&bytes).to_le_bytes());
        bytes
    }

    /// The index in `bytes`, as [`SeekIndex::to_bytes`] wrote them.
    ///
    /// # Errors
    ///
    /// Bytes that are cut, damaged, of another version, or no index at all. The checksum is against
    /// accidents: take an index only from where you would take a program (a filter may come from
    /// anywhere; its index is quickly built).
    ///
    /// # Cost
    ///
    /// One pass over the bytes; memory in proportion to them.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SeekIndexError> {
        let fault = |fault| Err(SeekIndexError(fault));
        let len = bytes.len() as u64;
        if bytes.len() < HEADER + CHECKSUM {
            let needed = (HEADER + CHECKSUM) as u64;
            return fault(SeekIndexFault::TooShort { len, needed });
        }
        let (body, stored) = bytes.split_at(bytes.len() - CHECKSUM);
        let u32_at = |at: usize| u32::from_le_bytes(core::array::from_fn(|i| body[at + i]));
        let u64_at = |at: usize| u64::from_le_bytes(core::array::from_fn(|i| body[at + i]));
        if !body.starts_with(MAGIC) {
            return fault(SeekIndexFault::Magic);
        }
        if u32_at(8) != VERSION {
            let version = u32_at(8);
            return fault(SeekIndexFault::Version { version });
        }
        let count = u64_at(40);
        if (body.len() - HEADER) as u128 != u128::from(count) * ENTRY as u128 {
            return fault(SeekIndexFault::Length {
                len,
                entries: count,
            });
        }
        let stored = u64::from_le_bytes(core::array::from_fn(|i| stored[i]));
        let computed = fingerprint(body);
        if stored != computed {
            return fault(SeekIndexFault::Checksum { stored, computed });
        }
        let filter = Identity {
            n: u32_at(12),
            params: Params::new(u32_at(16), u64::from(u32_at(20)))
                .map_err(|_| SeekIndexError(SeekIndexFault::OtherFilter))?,
            len: u64_at(24),
            fingerprint: u64_at(32),
        };
        let entries = (HEADER..body.len()).step_by(ENTRY).map(|at| Entry {
            position: u64_at(at),
            base: u64_at(at + 8),
        });
        let index = Self {
            filter,
            entries: entries.collect(),
        };
        index.check_entries()?;
        Ok(index)
    }

    /// Entries that go backwards or out of the filter were not written by this code.
    fn check_entries(&self) -> Result<(), SeekIndexError> {
        let Identity { n, params, len, .. } = self.filter;
        let count = self.entries.len() as u64;
        if count > u64::from(n) || (count == 0 && n > 0) {
            return Err(SeekIndexError(SeekIndexFault::OtherFilter));
        }
        let mut before = Entry::default();
        for (number, &entry) in (0..).zip(&self.entries) {
            let inside = entry.position <= len.saturating_mul(8) && entry.base < params.range(n);
            if !inside || entry.position < before.position || entry.base < before.base {
                return Err(SeekIndexError(SeekIndexFault::Entry { entry: number }));
            }
            before = entry;
        }
        Ok(())
    }
}

const MAGIC: &[u8; 8] = b"nutfseek";
const VERSION: u32 = 1;
/// The lengths of the serialised pieces in bytes.
const HEADER: usize = 48;
const ENTRY: usize = 16;
const CHECKSUM: usize = 8;

/// The division of the range into equal parts.
#[derive(Clone, Copy, Debug)]
struct Parts {
    /// floor(parts * 2^64 / F): a value times this, shifted down by 64, is its part.
    scale: u64,
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
    #[inline]
    fn part_of(self, value: u64) -> usize {
        map_to_range(value, self.scale) as usize
    }
}

/// A filter with its index; made by [`Filter::with_index`].
///
/// The answers are those of the filter alone, only sooner.
#[derive(Clone, Copy, Debug)]
pub struct IndexedFilter<'f, H = Nut25> {
    filter: &'f Filter<'f, H>,
    entries: &'f [Entry],
    parts: Parts,
}

impl<H> Filter<'_, H> {
    /// The filter with an index that was built for it.
    ///
    /// # Errors
    ///
    /// Where the index was built for another filter.
    ///
    /// # Cost
    ///
    /// One pass over the bytes to tell, at about 6 bytes a nanosecond: do it once, then ask often.
    pub fn with_index<'f>(
        &'f self,
        index: &'f SeekIndex,
    ) -> Result<IndexedFilter<'f, H>, SeekIndexError> {
        if index.filter != Identity::of(self) {
            return Err(SeekIndexError(SeekIndexFault::OtherFilter));
        }
        Ok(IndexedFilter {
            filter: self,
            entries: &index.entries,
            // At most N entries, checked where they came from bytes.
            parts: Parts::new(index.entries.len() as u32, self.range()),
        })
    }
}

impl<'f, H> IndexedFilter<'f, H> {
    /// The filter without its index.
    #[must_use]
    pub fn filter(&self) -> &'f Filter<'f, H> {
        self.filter
    }

    /// Whether a mapped value is in the set.
    ///
    /// # Cost
    ///
    /// Decodes half of a step's items on average where hashes are uniform; all items of the value's part of
    /// the range at worst.
    #[must_use]
    pub fn contains_value(&self, value: u64) -> bool {
        self.any_of(&[(value, 0)])
            .unwrap_or_else(|_| self.filter.contains_value(value))
    }

    /// Whether any of the mapped values is in the set.
    #[must_use]
    pub fn match_any_values(&self, values: &[u64]) -> bool {
        self.any_of(&sort_targets(values))
            .unwrap_or_else(|_| self.filter.match_any_values(values))
    }

    /// For each mapped value whether it is in the set, in the order given.
    #[must_use]
    pub fn matches_values(&self, values: &[u64]) -> Vec<bool> {
        let mut found = vec![false; values.len()];
        let visited = self.visit_parts(&sort_targets(values), |position| {
            found[position] = true;
            true
        });
        match visited {
            Ok(()) => found,
            Err(_) => self.filter.matches_values(values),
        }
    }

    fn any_of(&self, targets: &[Target]) -> Result<bool, DecodeError> {
        let mut any = false;
        self.visit_parts(targets, |_| {
            any = true;
            false
        })?;
        Ok(any)
    }

    /// Skips from part to part, and reads on where the next target's part is already reached.
    ///
    /// # Errors
    ///
    /// Only an index that was forged leads to where the filter cannot be decoded. Then the filter without
    /// it has to answer.
    fn visit_parts(
        &self,
        targets: &[Target],
        mut visit: impl FnMut(usize) -> bool,
    ) -> Result<(), DecodeError> {
        if self.entries.is_empty() {
            return Ok(());
        }
        let (range, end) = (self.filter.range(), self.filter.end());
        let mut scanner = self.filter.scanner();
        let mut block = [0; STRIDE];
        let mut filled = 0;
        for &(target, position) in targets {
            if target >= range {
                break;
            }
            let entry = self.entries[self.parts.part_of(target)];
            if entry.position > scanner.position() {
                let numbers = (range, self.filter.params());
                let start = (entry.position, entry.base);
                let (level, bytes) = (self.filter.level(), self.filter.bytes());
                scanner = Scanner::resume(level, bytes, numbers, start, end);
                filled = 0;
            }
            while block[..filled].last().is_none_or(|&last| last < target) {
                filled = scanner.fill(&mut block)?;
                if filled == 0 {
                    break;
                }
            }
            let values = &block[..filled];
            if values.get(first_at_least(values, target)) == Some(&target) && !visit(position) {
                break;
            }
        }
        Ok(())
    }
}

impl<H: ItemHash> IndexedFilter<'_, H> {
    /// Whether `item` may be in the set: never false for a member, true for one stranger in M.
    #[must_use]
    pub fn contains(&self, item: impl AsRef<[u8]>) -> bool {
        let hash = self.filter.hasher().hash(item.as_ref());
        self.contains_value(map_to_range(hash, self.filter.range()))
    }

    /// For each item whether it may be in the set: one answer for each position.
    #[must_use]
    pub fn matches<I: AsRef<[u8]>>(&self, items: &[I]) -> Vec<bool> {
        self.matches_values(&self.filter.map(items))
    }

    /// Whether any of `items` may be in the set.
    #[must_use]
    pub fn match_any<I: AsRef<[u8]>>(&self, items: &[I]) -> bool {
        self.match_any_values(&self.filter.map(items))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Unhashed;
    use crate::sorted_hashes::SortedHashes;

    fn filter(n: u64) -> Filter<'static, Unhashed> {
        let hashes = (0..n)
            .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15))
            .collect();
        let params = Params::new(4, 20).unwrap();
        let set = SortedHashes::<Nut25>::from_hashes(hashes);
        set.encode(params)
            .unwrap()
            .with_hasher(Unhashed)
            .into_owned()
    }

    #[test]
    fn the_number_of_entries_is_what_was_asked_for() {
        let filter = filter(1000);
        let most = filter.bytes().len();
        assert!(
            most < 1000,
            "fewer bytes than items, or the test shows less than it should"
        );
        for (step, entries) in [
            (Step::Items(0), most),
            (Step::Items(1), most),
            (Step::Items(128), 8),
            (Step::Items(u32::MAX), 1),
            (Step::Entries(0), 1),
            (Step::Entries(32), 32),
            (Step::Entries(u32::MAX), most),
        ] {
            assert_eq!(SeekIndex::build(&filter, step).len(), entries, "{step:?}");
        }
    }

    #[test]
    fn seek_agrees_with_scan_for_every_value_of_the_range() {
        for n in [0, 1, 2, 7, 200] {
            let filter = filter(n);
            let values: Vec<u64> = (0..filter.range() + 2).collect();
            let expected = filter.matches_values(&values);
            for step in (1..=n as u32 + 1)
                .map(Step::Items)
                .chain([Step::Entries(3)])
            {
                let index = SeekIndex::build(&filter, step);
                let indexed = filter.with_index(&index).unwrap();
                assert_eq!(
                    indexed.matches_values(&values),
                    expected,
                    "{n} items, {step:?}"
                );
                for (&value, &found) in values.iter().zip(&expected) {
                    assert_eq!(indexed.contains_value(value), found, "{value}, {step:?}");
                }
            }
        }
    }

    #[test]
    fn forged_entries_never_reach_outside_the_filter() {
        let filter = filter(200);
        let bits = filter.bytes().len() as u64 * 8;
        let made = SeekIndex::build(&filter, Step::Entries(4));
        for position in (0..=bits).chain([u64::MAX]) {
            for base in [0, 1, filter.range() - 1, u64::MAX] {
                let mut forged = made.clone();
                forged.entries[2] = Entry { position, base };
                // In memory it is the look-up alone that stands against it; no answer is asked for.
                let indexed = filter.with_index(&forged).unwrap();
                for value in (0..filter.range()).step_by(37) {
                    let _ = indexed.contains_value(value);
                }
                // As bytes, with a right checksum, it is refused wherever it goes backwards or outside.
                let read = SeekIndex::from_bytes(&forged.to_bytes());
                if position > bits || base >= filter.range() {
                    assert!(read.is_err(), "position {position}, base {base}");
                }
            }
        }
    }

    #[test]
    fn another_filters_index_is_refused() {
        let index = SeekIndex::build(&filter(100), Step::Entries(4));
        for other in [99, 101] {
            let error = filter(other).with_index(&index).unwrap_err();
            assert_eq!(error.0, SeekIndexFault::OtherFilter);
        }
        // The same numbers, another set.
        let values: Vec<u64> = filter(100).values().map(|value| value / 2).collect();
        let other = Filter::from_values(&values, filter(100).params()).unwrap();
        assert!(other.with_index(&index).is_err());
        assert!(filter(100).with_index(&index).is_ok());
    }

    #[test]
    fn bytes_that_are_damaged_anywhere_are_refused() {
        let index = SeekIndex::build(&filter(100), Step::Entries(4));
        let bytes = index.to_bytes();
        assert_eq!(SeekIndex::from_bytes(&bytes), Ok(index));
        for len in 0..bytes.len() {
            assert!(
                SeekIndex::from_bytes(&bytes[..len]).is_err(),
                "cut to {len} bytes"
            );
        }
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(SeekIndex::from_bytes(&damaged).is_err(), "bit {bit}");
        }
    }
}
