//! [`Watchlist`]: scripts that are looked for in the filters of many blocks.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;

use super::columns::Columns;
use super::{PARAMS, compact_size};
use crate::arch::SimdLevel;
use crate::error::DecodeError;
use crate::hash::{SipHash, map_all_at};
use crate::matching::{Coded, Prepared};

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
#[derive(Clone, Default)]
pub struct Watchlist {
    /// Each script, and its place in the columns for its number of words.
    places: BTreeMap<Box<[u8]>, usize>,
    /// In ascending order of the number of words. None is empty.
    columns: Vec<Columns>,
}

impl fmt::Debug for Watchlist {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watchlist")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl Watchlist {
    /// A list without scripts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
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
        self.places.contains_key(script.as_ref())
    }

    /// Iterates over the scripts, sorted by their bytes.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.places.keys().map(|script| &**script)
    }

    /// Adds a script. Returns false if it was in the list already.
    pub fn insert(&mut self, script: impl AsRef<[u8]>) -> bool {
        let script = script.as_ref();
        if self.contains(script) {
            return false;
        }
        let at = self.columns_for(script).unwrap_or_else(|at| {
            self.columns.insert(at, Columns::new(words_of(script)));
            at
        });
        let columns = &mut self.columns[at];
        self.places.insert(script.into(), columns.len());
        columns.push(script);
        true
    }

    /// Removes a script. Returns false if it was not in the list.
    pub fn remove(&mut self, script: impl AsRef<[u8]>) -> bool {
        let script = script.as_ref();
        let (Some(place), Ok(at)) = (self.places.remove(script), self.columns_for(script)) else {
            return false;
        };
        let columns = &mut self.columns[at];
        let moved = columns.script(columns.len() - 1);
        if let Some(moved) = self.places.get_mut(&*moved) {
            *moved = place;
        }
        columns.swap_remove(place);
        if columns.len() == 0 {
            self.columns.remove(at);
        }
        true
    }

    /// The index of the columns for a script, or the index where to insert them.
    fn columns_for(&self, script: &[u8]) -> Result<usize, usize> {
        let words = words_of(script);
        self.columns.binary_search_by_key(&words, Columns::words)
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
            let script = self.places.get_key_value(&*columns.script(place));
            found.extend(script.map(|(script, _)| &**script));
            true
        })?;
        Ok(found)
    }

    /// Calls `visit` with the columns and the place of each script that may be in the filter, until `visit` returns
    /// false.
    fn visit_matches(
        &self,
        scratch: &mut Scratch,
        hasher: SipHash,
        filter: &[u8],
        mut visit: impl FnMut(&Columns, usize) -> bool,
    ) -> Result<(), DecodeError> {
        let (n, width) = compact_size(filter)?;
        let bytes = &filter[width..];
        let coded = Coded {
            level: scratch.level,
            bytes,
            n: PARAMS.check_length(n, bytes.len() as u64)?,
            params: PARAMS,
        };
        let prepared = &mut scratch.prepared;
        prepared.load(&coded, coded.planned_in_batches(self.len()))?;
        for columns in &self.columns {
            let all = columns.each_batch(coded.level, hasher, |start, hashes| {
                map_all_at(coded.level, hashes, coded.range());
                prepared.visit_matches(&coded, hashes, |place| visit(columns, start + place))
            });
            if !all {
                break;
            }
        }
        Ok(())
    }
}

/// The number of words of a script when it is hashed.
fn words_of(script: &[u8]) -> usize {
    script.len() / 8 + 1
}

impl<S: AsRef<[u8]>> Extend<S> for Watchlist {
    fn extend<I: IntoIterator<Item = S>>(&mut self, scripts: I) {
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
/// It takes at most eight times the memory of the largest filter that was matched.
#[derive(Clone)]
pub struct Scratch {
    level: SimdLevel,
    prepared: Prepared,
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
        }
    }

    /// Sets the SIMD level, for tests and benchmarks.
    #[cfg(feature = "__internals")]
    #[doc(hidden)]
    #[must_use]
    pub fn with_level(mut self, level: SimdLevel) -> Self {
        self.level = level;
        self
    }
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
    fn scripts_of_every_length_are_found_at_every_level() {
        let scripts: Vec<_> = (0..700).map(|i| script(i, i as usize % 81)).collect();
        let list: Watchlist = scripts.iter().collect();
        let absent: Watchlist = (700..900).map(|i| script(i, 34)).collect();
        let key = SipHash::new(1, 2);
        // With one item in the filter and many, so that both strategies are used.
        for items in [&scripts[..1], &scripts[..]] {
            let filter = serialize(&build(key, items).unwrap());
            let mut expected: Vec<&[u8]> = items.iter().map(|item| &**item).collect();
            expected.sort_unstable();
            expected.dedup();
            for level in SimdLevel::available() {
                let mut scratch = Scratch::new().with_level(level);
                let mut found = list.matches(&mut scratch, key, &filter).unwrap();
                found.sort_unstable();
                assert_eq!(found, expected, "{level}");
                for item in &expected {
                    let one = Watchlist::from_iter([item]);
                    assert!(one.match_any(&mut scratch, key, &filter).unwrap());
                }
                assert!(!absent.match_any(&mut scratch, key, &filter).unwrap());
            }
        }
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
            assert!(list.iter().eq(&expected));
            assert_eq!(list.len(), left.len());
        }
        assert!(list.is_empty());
        assert!(list.columns.is_empty());
        assert!(list.insert(&scripts[0]) && !list.insert(&scripts[0]));
    }

    #[test]
    fn an_invalid_filter_is_rejected_without_scripts() {
        let key = SipHash::new(5, 6);
        let mut filter = serialize(&build(key, [b"script"]).unwrap());
        let list = Watchlist::new();
        let mut scratch = Scratch::new();
        assert_eq!(list.match_any(&mut scratch, key, &filter), Ok(false));
        filter.push(0);
        let error = list.match_any(&mut scratch, key, &filter).unwrap_err();
        assert_eq!(Err(error), crate::bip158::parse(key, &*filter).map(drop));
    }
}
