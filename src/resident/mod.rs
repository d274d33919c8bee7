//! [`ResidentFilter`]: the values of a filter in a form for look-ups, one cache line each.
//!
//! The range of the filter is divided equally among lines of 64 bytes. One product of a value gives its line (the
//! upper half) and its tag there (the first 24 bits of the lower half), together its [`LineTag`]. Keys ascend with values
//! and are distinct, so answers are exactly the filter's.
//!
//! A line has 21 tags, in order. Up to 20 that do not fit are at the front of the next line; the others are
//! exceptions, a sorted list of keys. With 17.1 values per line, 4 percent of uniform values are not in their own line.
//! With at most 20, every line keeps a slot for its own tags, and the last tag of a line says whether to look further.

mod bytes;
#[cfg(test)]
mod tests;

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::hint::select_unpredictable;
use core::ops::ControlFlow;

use crate::arch::line::{HIGH, Line, SLOTS, as_bytes, same};
use crate::arch::memory::prefetch;
use crate::arch::{SimdLevel, level_setter};
use crate::error::{ResidentError, ResidentFault};
use crate::filter::Filter;
use crate::hash::{ItemHash, Nut25, map_all_at, map_to_range};
use crate::matching::HASHED;

/// The bits of a tag.
const TAG: u32 = 24;

/// The largest M: 16 values per line fill the tags.
const MOST_M: u64 = 1 << 20;

/// The tags that fit in a line and at the front of the next one.
const REACH: usize = 2 * SLOTS - 1;

/// Exceptions that are always accepted: 8 KiB. Beyond that they may be an eighth of the items.
const FEW: u64 = 1024;

/// Byte 63 of a line: the number of its first own slot (21 if it has none), and flags.
const COUNTS: usize = 63;
const FIRST_OWN: u8 = 31;
/// Tags of this line are in the next one.
const MORE: u8 = 32;
/// Tags of this line are exceptions.
const EXCEPTIONS: u8 = 64;

/// The number of look-ups that run side by side.
const BATCH: usize = 64;

/// The line of a value, and its tag in the lowest 24 bits.
type LineTag = u64;

/// The values of a filter in a form for look-ups: about 30 bits per item instead of 21, and one cache line per look-up.
///
/// Use it for a filter that answers many queries from memory, single ones most of all. A seek index
/// ([`IndexedFilter`](crate::IndexedFilter)) takes 1 to 9 bits per item in addition to the filter, so use it where memory counts, or where the filter's bytes are
/// needed anyway.
///
/// It gives the answers of the filter that it was made from, which may be dropped. The storage must always return the
/// same bytes. If it does not, answers are wrong.
///
/// ```
/// use nutfilter::{Params, ResidentFilter, SortedHashes};
///
/// let notes = [[2_u8; 33], [3; 33]];
/// let filter = SortedHashes::from_items(&notes).encode(Params::default())?;
/// let resident = filter.to_resident()?;
/// assert_eq!(resident.matches(&[[3; 33], [4; 33]]), [true, false]);
///
/// // Store it, and map it later.
/// let mapped = ResidentFilter::from_bytes(resident.bytes())?;
/// assert!(mapped.contains([2; 33]));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ResidentFilter<D = CacheLines, H = Nut25> {
    data: D,
    shape: Shape,
    exceptions: usize,
    hasher: H,
    /// Changes no answer.
    level: SimdLevel,
}

/// Bytes that begin at a cache line.
#[derive(Clone)]
pub struct CacheLines(Vec<Line>);

impl AsRef<[u8]> for CacheLines {
    fn as_ref(&self) -> &[u8] {
        as_bytes(&self.0)
    }
}

impl fmt::Debug for CacheLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CacheLines({} bytes)", self.as_ref().len())
    }
}

impl<D, H: fmt::Debug> fmt::Debug for ResidentFilter<D, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResidentFilter")
            .field("n", &self.shape.n)
            .field("m", &self.shape.m)
            .field("hasher", &self.hasher)
            .finish_non_exhaustive()
    }
}

/// What N and M determine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    n: u32,
    m: u64,
    /// F = N * M.
    range: u64,
    /// The lines that the range is divided among. One more follows, which has only tags of the last one.
    lines: u64,
    /// `floor(2^64 * lines / range)`.
    scale: u64,
}

impl Shape {
    fn new(n: u32, m: u64) -> Result<Self, ResidentFault> {
        if m > MOST_M {
            let most = MOST_M;
            return Err(ResidentFault::InverseRate { m, most });
        }
        let range = u64::from(n) * m;
        // At most 2^24 values of the range to a line, so that tags are distinct.
        let lines = (u64::from(n) * 10).div_ceil(171);
        let lines = lines.max(range.div_ceil(1 << TAG)).max(1);
        let scale = (u128::from(lines) << 64) / u128::from(range.max(1));
        Ok(Self { n, m, range, lines, scale: u64::try_from(scale).unwrap_or(u64::MAX) })
    }

    fn check_exceptions(&self, exceptions: u64) -> Result<(), ResidentFault> {
        let n = self.n;
        match exceptions > FEW.max(u64::from(n) / 8) {
            true => Err(ResidentFault::Crowded { n, exceptions }),
            false => Ok(()),
        }
    }

    /// The key of a value of the range: `value * scale >> 40`, without a shift of two words, which is slow on AMD.
    #[inline(always)]
    fn key(&self, value: u64) -> LineTag {
        let (whole, rest) = (self.scale >> (64 - TAG), self.scale << TAG);
        let upper = (u128::from(value) * u128::from(rest)) >> 64;
        value.wrapping_mul(whole).wrapping_add(upper as u64)
    }

    /// The key of any value: beyond the range, one in the line after the last, which is not found.
    #[inline(always)]
    fn any_key(&self, value: u64) -> LineTag {
        let beyond = self.lines << TAG;
        select_unpredictable(value < self.range, self.key(value), beyond)
    }
}

fn line_of(key: LineTag) -> u64 {
    key >> TAG
}

fn tag_of(key: LineTag) -> u32 {
    key as u32 & ((1 << TAG) - 1)
}

/// The lines in the making: the next one, and the tags for it so far.
#[derive(Debug)]
struct Maker {
    /// First those of the line before.
    tags: [u32; REACH],
    len: usize,
    earlier: usize,
    flags: u8,
    /// The next exception or item has a larger key.
    last: Option<LineTag>,
}

impl Maker {
    const EMPTY: Self = Self { tags: [0; REACH], len: 0, earlier: 0, flags: 0, last: None };

    /// Adds a tag of the line. Returns whether it fits; otherwise it is an exception.
    #[inline(always)]
    fn push(&mut self, tag: u32) -> bool {
        let before = self.len;
        self.len = self.push_at(before, tag);
        self.len > before
    }

    /// [`Maker::push`] for a caller that keeps the number of tags, `len`, and gets the next. Kept in memory, each addition to
    /// it would wait for the one before: 4.3 instead of 4.1 ns per item (Zen 4).
    #[inline(always)]
    fn push_at(&mut self, len: usize, tag: u32) -> usize {
        let Some(slot) = self.tags.get_mut(len) else {
            self.flags = EXCEPTIONS;
            return len;
        };
        *slot = tag;
        len + 1
    }

    /// The line, which has the last of its tags in all unused slots. The tags that did not fit are the first of the next.
    fn line(&mut self) -> Line {
        let first_own = if self.len > self.earlier { self.earlier } else { SLOTS };
        let filled = self.len.min(SLOTS);
        let filler = self.tags[filled.saturating_sub(1)] * u32::from(filled > 0);
        self.tags[filled..SLOTS].fill(filler);
        let mut line = [0; 64];
        let (lows, highs) = line.split_at_mut(HIGH);
        let (lows, _) = lows.as_chunks_mut::<2>();
        for (slot, &tag) in self.tags[..SLOTS].iter().enumerate() {
            lows[slot] = (tag as u16).to_le_bytes();
            highs[slot] = (tag >> 16) as u8;
        }
        self.earlier = self.len - filled;
        let more = if self.earlier > 0 { MORE } else { 0 };
        line[COUNTS] = first_own as u8 | more | self.flags;
        if self.earlier > 0 {
            self.tags.copy_within(SLOTS.., 0);
        }
        self.len = self.earlier;
        self.flags = 0;
        Line(line)
    }
}

impl<D: AsRef<[u8]>, H> Filter<D, H> {
    /// Makes the form for look-ups. It needs neither the filter nor its bytes.
    ///
    /// # Errors
    ///
    /// M is above 2^20. Or the hashes are so far from uniform that more than 1,024 items, and more than an eighth of
    /// them, have no room in the lines, because somebody chose them. Use
    /// [`Filter::into_indexed`] then.
    ///
    /// # Cost
    ///
    /// One decoding pass. Memory: about 30 bits per item, up to 32 if M is near 2^20, and 8 bytes per item without room.
    pub fn to_resident(&self) -> Result<ResidentFilter<CacheLines, H>, ResidentError>
    where
        H: Clone,
    {
        let shape = Shape::new(self.n(), self.params().m()).map_err(ResidentError)?;
        let mut lines = bytes::header(&shape);
        let mut exceptions = Vec::new();
        let mut maker = Maker::EMPTY;
        let mut at = 0;
        // A value that is repeated has one tag.
        self.visit_values(|values| {
            let (mut len, mut last) = (maker.len, maker.last);
            for &value in values {
                let key = shape.key(value);
                if last == Some(key) {
                    continue;
                }
                last = Some(key);
                if at < line_of(key) {
                    maker.len = len;
                    while at < line_of(key) {
                        lines.push(maker.line());
                        at += 1;
                    }
                    len = maker.len;
                }
                let longer = maker.push_at(len, tag_of(key));
                if longer == len {
                    exceptions.push(key);
                }
                len = longer;
            }
            (maker.len, maker.last) = (len, last);
            match shape.check_exceptions(exceptions.len() as u64) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        });
        let crowded = shape.check_exceptions(exceptions.len() as u64);
        crowded.map_err(ResidentError)?;
        while at <= shape.lines {
            lines.push(maker.line());
            at += 1;
        }
        bytes::finish(&mut lines, &exceptions);
        Ok(ResidentFilter {
            data: CacheLines(lines),
            shape,
            exceptions: exceptions.len(),
            hasher: self.hasher().clone(),
            level: self.level(),
        })
    }
}

impl<D: AsRef<[u8]>, H> ResidentFilter<D, H> {
    /// N: the number of items, duplicates included.
    #[must_use]
    pub fn n(&self) -> u32 {
        self.shape.n
    }

    /// F = N * M: the exclusive upper limit of the values.
    #[must_use]
    pub fn range(&self) -> u64 {
        self.shape.range
    }

    /// The hasher of the queries.
    #[must_use]
    pub fn hasher(&self) -> &H {
        &self.hasher
    }

    /// The size in bits per item of the filter.
    #[must_use]
    pub fn bits_per_item(&self) -> f64 {
        self.bytes().len() as f64 * 8.0 / f64::from(self.n().max(1))
    }

    level_setter!(level);

    /// Whether a mapped value is in the set.
    ///
    /// # Cost
    ///
    /// One cache line; two and a binary search among the exceptions if somebody chose the hashes. Many values at once
    /// take a fraction of the time: [`ResidentFilter::matches_values`].
    #[must_use]
    pub fn contains_value(&self, value: u64) -> bool {
        let key = self.shape.any_key(value);
        let (found, further) = look_up(self.lines(), key);
        found || (further && self.find_further(key))
    }

    /// Returns for each mapped value whether it is in the set, in the given order.
    #[must_use]
    pub fn matches_values(&self, values: &[u64]) -> Vec<bool> {
        let mut found = vec![false; values.len()];
        self.find_all(values, &mut found);
        found
    }

    /// Whether any of the mapped values is in the set. Stops soon after the first match.
    #[must_use]
    pub fn match_any_values(&self, values: &[u64]) -> bool {
        let mut found = [false; HASHED];
        values.chunks(HASHED).any(|values| {
            let found = &mut found[..values.len()];
            self.find_all(values, found);
            found.contains(&true)
        })
    }

    fn lines(&self) -> &[[u8; 64]] {
        bytes::lines(self.data.as_ref(), &self.shape)
    }

    /// Writes the answer for each value.
    fn find_all(&self, values: &[u64], found: &mut [bool]) {
        self.level.compiled(
            #[inline(always)]
            || {
                let (lines, shape) = (self.lines(), &self.shape);
                let mut keys = [0; BATCH];
                let mut beyond = [0_u8; BATCH];
                for (values, found) in values.chunks(BATCH).zip(found.chunks_mut(BATCH)) {
                    for (at, &value) in values.iter().enumerate() {
                        let key = shape.any_key(value);
                        keys[at] = key;
                        if let Some(line) = lines.get(line_of(key) as usize) {
                            prefetch(line);
                        }
                    }
                    // A branch would be mispredicted for the few that may be in the next line.
                    let mut later = 0;
                    for (at, found) in found.iter_mut().enumerate() {
                        let (here, further) = look_up(lines, keys[at]);
                        *found = here;
                        beyond[later % BATCH] = at as u8;
                        later += usize::from(further);
                    }
                    for &at in &beyond[..later] {
                        found[usize::from(at)] = self.find_further(keys[usize::from(at)]);
                    }
                }
            },
        );
    }

    /// Whether the key is at the front of the line after its own, or among the exceptions.
    #[cold]
    #[inline(never)]
    fn find_further(&self, key: LineTag) -> bool {
        let (lines, at) = (self.lines(), line_of(key) as usize);
        let [Some(line), Some(next)] = [lines.get(at), lines.get(at + 1)] else {
            return false;
        };
        let earlier = (1 << (next[COUNTS] & FIRST_OWN)) - 1;
        same(next, tag_of(key)) & earlier != 0
            || (line[COUNTS] & EXCEPTIONS != 0 && self.is_exception(key))
    }

    fn is_exception(&self, key: LineTag) -> bool {
        let exceptions = bytes::exceptions(self.data.as_ref(), &self.shape, self.exceptions);
        let found = exceptions.binary_search_by_key(&key, |bytes| u64::from_le_bytes(*bytes));
        found.is_ok()
    }
}

/// Whether the key is in its own line, and if not, whether it may be further on.
#[inline(always)]
fn look_up(lines: &[[u8; 64]], key: LineTag) -> (bool, bool) {
    let Some(line) = lines.get(line_of(key) as usize) else {
        return (false, false);
    };
    let counts = line[COUNTS];
    let own = same(line, tag_of(key)) >> (counts & FIRST_OWN);
    (own != 0, (counts >= MORE) & (tag_of(key) > last_tag(line)))
}

fn last_tag(line: &[u8; 64]) -> u32 {
    let low = u16::from_le_bytes([line[HIGH - 2], line[HIGH - 1]]);
    u32::from(low) | u32::from(line[COUNTS - 1]) << 16
}

impl<D: AsRef<[u8]>, H: ItemHash> ResidentFilter<D, H> {
    /// Returns whether `item` may be in the set: always true for a member, true for a non-member with
    /// probability 1/M.
    ///
    /// # Cost
    ///
    /// As [`ResidentFilter::contains_value`].
    #[must_use]
    pub fn contains(&self, item: impl AsRef<[u8]>) -> bool {
        let hash = self.hasher.hash_in_halves(item.as_ref(), |upper| {
            let key = self.shape.key(map_to_range(upper, self.range()));
            if let Some(line) = self.lines().get(line_of(key) as usize) {
                prefetch(line);
            }
        });
        self.contains_value(map_to_range(hash, self.range()))
    }

    /// Returns for each item whether it may be in the set, one answer per position.
    ///
    /// # Cost
    ///
    /// One hash and one cache line per item, 64 items at a time.
    #[must_use]
    pub fn matches<I: AsRef<[u8]>>(&self, items: &[I]) -> Vec<bool> {
        let mut found = vec![false; items.len()];
        for (items, found) in items.chunks(HASHED).zip(found.chunks_mut(HASHED)) {
            self.find_items(items, found);
        }
        found
    }

    /// Returns whether any of `items` may be in the set; false without items.
    ///
    /// # Cost
    ///
    /// As [`ResidentFilter::matches`], in steps of 512 items, until one matches.
    #[must_use]
    pub fn match_any<I: AsRef<[u8]>>(&self, items: &[I]) -> bool {
        let mut found = [false; HASHED];
        items.chunks(HASHED).any(|items| {
            let found = &mut found[..items.len()];
            self.find_items(items, found);
            found.contains(&true)
        })
    }

    /// Writes the answers of up to [`HASHED`] items.
    fn find_items<I: AsRef<[u8]>>(&self, items: &[I], found: &mut [bool]) {
        let mut values = [0; HASHED];
        let values = &mut values[..items.len()];
        self.hasher.hash_items_at(self.level, items, values);
        map_all_at(self.level, values, self.range());
        self.find_all(values, found);
    }
}
