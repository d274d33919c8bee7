//! What is kept from one reading to the next: for each keyset and kind the sorted hashes, and for each kind how
//! far the source was read.
//!
//! With hashes kept, a new filter takes the new items and one linear pass; no old row is read, hashed or sorted
//! again. They are in memory, or in a [`DataDirectory`], from where a restart goes on.

mod directory;
mod set;
mod state;

use std::collections::{BTreeMap, BTreeSet};

pub use directory::{DataDirectory, KeptError};
pub(crate) use set::{Changes, KeptSet};

use crate::source::{KeysetInfo, Watermark};
use crate::{KeysetId, Kind};

/// Everything that is kept of one kind.
#[derive(Debug, Default)]
pub(crate) struct KindSets {
    /// From where the source goes on; `None` if it is to be read whole.
    pub(crate) watermark: Option<Watermark>,
    /// The Unix second in which the latest reading began; 0 before the first.
    pub(crate) as_of: u64,
    /// The one that was recorded last. No filter is dated later: a restart would have only an older date for it.
    pub(crate) recorded: u64,
    /// How many readings there were since the source was last asked to count; `None` before it was.
    pub(crate) uncounted: Option<u32>,
    pub(crate) sets: BTreeMap<KeysetId, KeptSet>,
    /// Keysets that had sets which cannot be used: there is nothing to say of them before a whole reading, and
    /// least of all that they have no notes.
    pub(crate) lost: BTreeSet<KeysetId>,
}

impl KindSets {
    /// How many items all sets hold.
    pub(crate) fn items(&self) -> u64 {
        self.sets.values().map(KeptSet::len).sum()
    }

    /// The dates of all that is recorded.
    pub(crate) fn dates(&self) -> impl Iterator<Item = u64> {
        let sets = self.sets.values().map(|set| set.as_of);
        sets.chain([self.recorded])
    }

    /// Throws a set away that cannot be used.
    pub(crate) fn lose(&mut self, keyset: &KeysetId) {
        self.sets.remove(keyset);
        self.lost.insert(keyset.clone());
        self.watermark = None;
    }
}

/// Where sets are kept.
#[derive(Debug)]
pub(crate) enum Keep {
    Memory,
    Directory(DataDirectory),
}

impl Keep {
    /// How many hashes may be gathered in memory, where there is a limit.
    pub(crate) fn gather_limit(&self) -> Option<usize> {
        match self {
            Keep::Memory => None,
            Keep::Directory(directory) => Some(directory.gather_limit()),
        }
    }

    /// Adds hashes to the set of a keyset, which is made unless it is there.
    pub(crate) fn add(
        &mut self,
        kind: Kind,
        keyset: &KeysetId,
        sets: &mut BTreeMap<KeysetId, KeptSet>,
        hashes: Vec<u64>,
        as_of: u64,
    ) -> Result<(), KeptError> {
        let entry = sets.entry(keyset.clone());
        // By the spelling that will be recorded: a store opens under the name that it was made under alone.
        let keyset = entry.key().clone();
        let set = entry.or_default();
        if let Keep::Directory(directory) = self
            && set.is_in_memory()
            && !hashes.is_empty()
        {
            let empty_as_of = set.as_of;
            *set = directory.create(kind, &keyset)?;
            set.as_of = empty_as_of;
        }
        set.add(hashes, as_of)
    }

    /// Records what is kept of a kind, where a restart is to find it; in memory there is nothing to do.
    pub(crate) fn record(
        &mut self,
        kind: Kind,
        kept: &KindSets,
        keysets: &[KeysetInfo],
    ) -> Result<(), KeptError> {
        match self {
            Keep::Memory => Ok(()),
            Keep::Directory(directory) => directory.record(kind, kept, keysets),
        }
    }
}
