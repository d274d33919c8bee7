//! State between two readings: the sorted hashes of each keyset and kind, and the watermark of each kind.
//!
//! With these hashes, a new filter costs the new items and one linear pass. No old row is read, hashed or sorted
//! again. The hashes are in memory, or in a [`DataDirectory`] from which a restart continues.

mod directory;
mod manifest;
mod set;

use std::collections::{BTreeMap, BTreeSet};

pub use directory::{DataDirectory, StateError, verify};
pub(crate) use set::{Changes, KeysetHashes};

use crate::source::{KeysetInfo, Watermark};
use crate::{KeysetId, NoteKind};

/// The state of one kind.
#[derive(Debug, Default)]
pub(crate) struct KindSets {
    /// Where the source continues; `None` if everything must be read.
    pub(crate) watermark: Option<Watermark>,
    /// What the sequence of state filters has seen at the watermark.
    pub(crate) sequence: Option<u64>,
    /// The Unix second in which the latest reading began; 0 before the first.
    pub(crate) as_of: u64,
    /// The last recorded value of `as_of`. No filter is dated later, because a restart would only have an older
    /// date.
    pub(crate) recorded: u64,
    /// Readings since the source was last asked to count; `None` before the first count.
    pub(crate) uncounted: Option<u32>,
    pub(crate) sets: BTreeMap<KeysetId, KeysetHashes>,
    /// Keysets whose sets were unusable. Until a full reading, nothing is known about their notes. They must not be
    /// treated as empty.
    pub(crate) lost: BTreeSet<KeysetId>,
}

impl KindSets {
    /// Number of items in all sets.
    pub(crate) fn items(&self) -> u64 {
        self.sets.values().map(KeysetHashes::len).sum()
    }

    /// The dates of everything recorded.
    pub(crate) fn dates(&self) -> impl Iterator<Item = u64> {
        let sets = self.sets.values().map(|set| set.as_of);
        sets.chain([self.recorded])
    }

    /// Discards a set that cannot be used.
    pub(crate) fn lose(&mut self, keyset: &KeysetId) {
        self.sets.remove(keyset);
        self.lost.insert(keyset.clone());
        self.watermark = None;
    }
}

/// Where sets are stored.
#[derive(Debug)]
pub(crate) enum Storage {
    Memory,
    Directory(DataDirectory),
}

impl Storage {
    /// Number of hashes that may be collected in memory; `None` means no limit.
    pub(crate) fn collect_limit(&self) -> Option<usize> {
        match self {
            Storage::Memory => None,
            Storage::Directory(directory) => Some(directory.collect_limit()),
        }
    }

    /// Adds hashes to the set of a keyset, and creates the set if necessary.
    pub(crate) fn add(
        &mut self,
        kind: NoteKind,
        keyset: &KeysetId,
        sets: &mut BTreeMap<KeysetId, KeysetHashes>,
        hashes: Vec<u64>,
        as_of: u64,
    ) -> Result<(), StateError> {
        let entry = sets.entry(keyset.clone());
        // Use the spelling that will be recorded: a store can only be opened under the name with which it was
        // created.
        let keyset = entry.key().clone();
        let set = entry.or_default();
        if let Storage::Directory(directory) = self
            && set.is_in_memory()
            && !hashes.is_empty()
        {
            let empty_as_of = set.as_of;
            *set = directory.create(kind, &keyset)?;
            set.as_of = empty_as_of;
        }
        set.add(hashes, as_of)
    }

    /// Records the state of a kind for a restart. Does nothing if the sets are in memory.
    pub(crate) fn record(
        &mut self,
        kind: NoteKind,
        state: &KindSets,
        keysets: &[KeysetInfo],
    ) -> Result<(), StateError> {
        match self {
            Storage::Memory => Ok(()),
            Storage::Directory(directory) => directory.record(kind, state, keysets),
        }
    }
}
