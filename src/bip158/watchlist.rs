//! [`Watchlist`]: scripts that are looked for in the filters of many blocks.

use alloc::vec::Vec;
use core::fmt;
use core::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::columns::Columns;
use super::{PARAMS, compact_size};
#[cfg(target_arch = "x86_64")]
use crate::arch::x86_64::{
    side_by_side::Decodes,
    targets::{Keyed, TargetRow, hash_for_all},
};
use crate::arch::{SimdLevel, level_setter};
use crate::decode::Coded;
#[cfg(target_arch = "x86_64")]
use crate::decode::filter_batch::Batch;
use crate::error::DecodeError;
use crate::hash::{SipHash, map_all_at};
use crate::matching::Prepared;

/// Scripts that are looked for in the basic filters of many blocks.
///
/// The scripts are arranged for hashing once. What remains to do per block is to decode the filter, which
/// validates it, and to hash the scripts with the key of the block and test them.
///
/// ```
/// use nutfilter::SipHash;
/// use nutfilter::bip158::{self, Scratch, Watchlist};
///
/// // 22 bytes: OP_0 and a public key hash.
/// let (mine, other) = ([0; 22], [1; 22]);
/// let mut watchlist = Watchlist::from_iter([mine]);
///
/// // What a wallet receives: a block's hash, in internal order, and its filter.
/// let block = [7; 32];
/// let filter = bip158::serialize(&bip158::build(SipHash::from(block), [mine, other])?);
///
/// let mut scratch = Scratch::new();
/// assert!(watchlist.match_any(&mut scratch, block, &filter)?);
/// assert_eq!(watchlist.matches(&mut scratch, block, &filter)?, [mine]);
///
/// assert!(watchlist.remove(mine));
/// assert!(!watchlist.match_any(&mut scratch, block, &filter)?);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
///
/// [`Watchlist::scan`] does this for many blocks.
///
/// # Cost
///
/// Per block, one decoding pass and one hash per script. Only the scripts that match allocate memory, once the
/// [`Scratch`] has grown to the largest filter. A list takes about 100 bytes per script.
#[derive(Clone)]
pub struct Watchlist {
    /// In ascending order of the number of words. None is empty.
    columns: Vec<Columns>,
    /// Where each script is.
    places: HashTable<ScriptPlace>,
    hasher: DefaultHashBuilder,
}

/// Where a script is: the number of its words, which tells the columns, and the place there.
#[derive(Clone, Copy)]
struct ScriptPlace {
    words: usize,
    place: usize,
}

impl fmt::Debug for Watchlist {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watchlist").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl Default for Watchlist {
    fn default() -> Self {
        Self::new()
    }
}

impl Watchlist {
    /// A list without scripts.
    #[must_use]
    pub fn new() -> Self {
        Self {
            columns: Vec::new(),
            places: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
        }
    }

    /// The number of scripts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are no scripts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether a script is in the list.
    #[must_use]
    pub fn contains(&self, script: impl AsRef<[u8]>) -> bool {
        let script = script.as_ref();
        let hash = self.hasher.hash_one(script);
        let found = |place: &ScriptPlace| script_at(&self.columns, *place) == Some(script);
        self.places.find(hash, found).is_some()
    }

    /// Iterates over the scripts, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.columns.iter().flat_map(Columns::scripts)
    }

    /// Adds a script. Returns false if it was in the list already.
    pub fn insert(&mut self, script: impl AsRef<[u8]>) -> bool {
        let script = script.as_ref();
        if self.contains(script) {
            return false;
        }
        let words = words_of(script);
        let at = columns_of(&self.columns, words).unwrap_or_else(|at| {
            self.columns.insert(at, Columns::new(words));
            at
        });
        let columns = &mut self.columns[at];
        let place = columns.len();
        columns.push(script);
        let (hasher, columns) = (&self.hasher, &self.columns);
        let hash =
            |place: &ScriptPlace| hasher.hash_one(script_at(columns, *place).unwrap_or_default());
        self.places.insert_unique(hasher.hash_one(script), ScriptPlace { words, place }, hash);
        true
    }

    /// Removes a script. Returns false if it was not in the list.
    pub fn remove(&mut self, script: impl AsRef<[u8]>) -> bool {
        let script = script.as_ref();
        let hash = self.hasher.hash_one(script);
        let columns = &self.columns;
        let found = |place: &ScriptPlace| script_at(columns, *place) == Some(script);
        let Ok(entry) = self.places.find_entry(hash, found) else {
            return false;
        };
        let ScriptPlace { words, place } = entry.remove().0;
        let Ok(at) = columns_of(&self.columns, words) else {
            return false;
        };
        // The last script takes the place.
        let columns = &mut self.columns[at];
        let last = columns.len() - 1;
        let moved = self.hasher.hash_one(columns.script(last));
        let is_moved = |found: &ScriptPlace| found.words == words && found.place == last;
        if let Some(found) = self.places.find_mut(moved, is_moved) {
            found.place = place;
        }
        columns.swap_remove(place);
        if columns.len() == 0 {
            self.columns.remove(at);
        }
        true
    }

    /// Whether any of the scripts may be in the serialised `filter` of `block`.
    ///
    /// `block` is a block hash in internal order (of type `bitcoin::BlockHash` with the feature `bitcoin`), or the
    /// key itself.
    ///
    /// # Errors
    ///
    /// As [`parse`](super::parse): the same pass validates the filter, whatever the answer.
    pub fn match_any(
        &self,
        scratch: &mut Scratch,
        block: impl Into<SipHash>,
        filter: &[u8],
    ) -> Result<bool, DecodeError> {
        let mut any = false;
        self.visit_matches(scratch, block.into(), filter, |_, _| {
            any = true;
            false
        })?;
        Ok(any)
    }

    /// The scripts that may be in the serialised `filter` of `block`, in no particular order. A script that is not
    /// in the filter is reported with probability 1/784931.
    ///
    /// # Errors
    ///
    /// As [`Watchlist::match_any`].
    pub fn matches(
        &self,
        scratch: &mut Scratch,
        block: impl Into<SipHash>,
        filter: &[u8],
    ) -> Result<Vec<&[u8]>, DecodeError> {
        let mut found = Vec::new();
        self.visit_matches(scratch, block.into(), filter, |columns, place| {
            found.push(columns.script(place));
            true
        })?;
        Ok(found)
    }

    /// Calls `visit` with the columns and the place of each script that may be in the filter, until `visit` returns
    /// false.
    fn visit_matches<'w>(
        &'w self,
        scratch: &mut Scratch,
        hasher: SipHash,
        filter: &[u8],
        visit: impl FnMut(&'w Columns, usize) -> bool,
    ) -> Result<(), DecodeError> {
        let coded = self.coded(scratch.level, filter)?;
        let prepared = &mut scratch.prepared;
        prepared.load(&coded, coded.planned_in_batches(self.len()))?;
        self.visit_prepared(prepared, &coded, hasher, visit);
        Ok(())
    }

    /// The parts of a serialised filter.
    pub(super) fn coded<'f>(
        &self,
        level: SimdLevel,
        filter: &'f [u8],
    ) -> Result<Coded<'f>, DecodeError> {
        let (n, width) = compact_size(filter)?;
        let bytes = &filter[width..];
        let n = PARAMS.check_length(n, bytes.len() as u64)?;
        Ok(Coded { level, bytes, n, params: PARAMS })
    }

    /// Writes a row for each script: its value in each filter.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn hash_for_all(
        &self,
        simd: impl Decodes,
        keyed: &Keyed,
        mut rows: &mut [TargetRow],
    ) {
        for columns in &self.columns {
            let (now, later) = rows.split_at_mut(columns.len());
            hash_for_all(simd, keyed, columns.rows(), columns.words(), now);
            rows = later;
        }
    }

    fn visit_prepared<'w>(
        &'w self,
        prepared: &Prepared,
        coded: &Coded<'_>,
        hasher: SipHash,
        mut visit: impl FnMut(&'w Columns, usize) -> bool,
    ) {
        for columns in &self.columns {
            let all = columns.each_batch(coded.level, hasher, |start, hashes| {
                map_all_at(coded.level, hashes, coded.range());
                prepared.visit_matches(coded, hashes, |place| visit(columns, start + place))
            });
            if !all {
                break;
            }
        }
    }
}

/// The index of the columns for scripts of `words` words, or the index where to insert them.
fn columns_of(columns: &[Columns], words: usize) -> Result<usize, usize> {
    columns.binary_search_by_key(&words, Columns::words)
}

fn script_at(columns: &[Columns], ScriptPlace { words, place }: ScriptPlace) -> Option<&[u8]> {
    let at = columns_of(columns, words).ok()?;
    Some(columns[at].script(place))
}

/// The number of words of a script when it is hashed.
fn words_of(script: &[u8]) -> usize {
    script.len() / 8 + 1
}

impl<S: AsRef<[u8]>> Extend<S> for Watchlist {
    fn extend<I: IntoIterator<Item = S>>(&mut self, scripts: I) {
        let scripts = scripts.into_iter();
        let (hasher, columns) = (&self.hasher, &self.columns);
        let hash =
            |place: &ScriptPlace| hasher.hash_one(script_at(columns, *place).unwrap_or_default());
        self.places.reserve(scripts.size_hint().0, hash);
        for script in scripts {
            self.insert(script);
        }
    }
}

impl<S: AsRef<[u8]>> FromIterator<S> for Watchlist {
    fn from_iter<I: IntoIterator<Item = S>>(scripts: I) -> Self {
        let mut list = Self::new();
        list.extend(scripts);
        list
    }
}

/// Memory that matching needs, kept from one filter to the next. Each thread needs its own.
///
/// It takes at most eight times the memory of the largest filter that was matched, and in a scan with AVX2 or AVX-512
/// another 640 bytes per script of a list of up to 2,048.
#[derive(Clone)]
pub struct Scratch {
    pub(super) level: SimdLevel,
    pub(super) prepared: Prepared,
    #[cfg(target_arch = "x86_64")]
    pub(super) side_by_side: Batch,
}

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scratch").finish_non_exhaustive()
    }
}

impl Scratch {
    /// No memory yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            level: SimdLevel::detect(),
            prepared: Prepared::default(),
            #[cfg(target_arch = "x86_64")]
            side_by_side: Batch::default(),
        }
    }

    level_setter!(level);
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bip158::{build, serialize};

    /// A script of `len` bytes that differs from those with other numbers, if there is room.
    fn script(number: u32, len: usize) -> Vec<u8> {
        let bytes = number.wrapping_mul(0x9e37_79b1).to_le_bytes();
        bytes.into_iter().cycle().take(len).collect()
    }

    #[test]
    fn removed_scripts_are_not_found() {
        let scripts: Vec<_> = (0..60).map(|i| script(i, 20 + i as usize % 10)).collect();
        let key = SipHash::new(3, 4);
        let filter = serialize(&build(key, &scripts).unwrap());
        let mut scratch = Scratch::new();
        let mut list: Watchlist = scripts.iter().collect();
        // In an order in which the first, the last and others are removed while others remain.
        let mut left = scripts.clone();
        for step in 0..scripts.len() {
            let removed = left.remove(step * 7 % left.len());
            assert!(list.remove(&removed));
            assert!(!list.remove(&removed) && !list.contains(&removed));
            let mut found = list.matches(&mut scratch, key, &filter).unwrap();
            found.sort_unstable();
            let mut expected = left.clone();
            expected.sort_unstable();
            assert_eq!(found, expected);
            let mut listed: Vec<_> = list.iter().collect();
            listed.sort_unstable();
            assert_eq!(listed, expected);
            assert_eq!(list.len(), left.len());
        }
        assert!(list.is_empty());
        assert!(list.columns.is_empty());
        assert!(list.insert(&scripts[0]) && !list.insert(&scripts[0]));
    }

    /// Scripts are hashed in batches, the last of which becomes empty.
    #[test]
    fn long_lists_that_become_shorter_keep_the_others() {
        let scripts: Vec<_> = (0..530).map(|i| script(i, 22)).collect();
        let key = SipHash::new(7, 8);
        let filter = serialize(&build(key, &scripts).unwrap());
        let mut list: Watchlist = scripts.iter().collect();
        for left in (490..scripts.len()).rev() {
            assert!(list.remove(&scripts[left]));
            let found = list.matches(&mut Scratch::new(), key, &filter).unwrap();
            assert_eq!(found.len(), left);
        }
    }
}
