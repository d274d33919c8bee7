//! What is kept from one reading to the next: for each keyset and kind the sorted hashes, and for each kind how
//! far the source was read.
//!
//! With hashes kept, a new filter takes the new items and one linear pass; no old row is read, hashed or sorted
//! again. They are in memory, or in a [`DataDirectory`], from where a restart goes on.

mod directory;
mod set;
mod state;

use std::collections::BTreeMap;

pub use directory::{DataDirectory, DataDirectoryError};
pub(crate) use directory::Building;
pub(crate) use set::KeptSet;
pub(crate) use state::Recorded;

use crate::source::Watermark;
use crate::{KeysetId, Kind};

/// Everything that is kept of one kind.
#[derive(Debug, Default)]
pub(crate) struct KindSets {
    /// From where the source goes on; `None` if it is to be read whole.
    pub(crate) watermark: Option<Watermark>,
    /// The Unix second in which the latest reading began, all of which is in the sets; 0 before the first.
    pub(crate) as_of: u64,
    /// The latest of these that was recorded, and may stand in a filter: a restart never goes back behind it.
    pub(crate) recorded: u64,
    pub(crate) sets: BTreeMap<KeysetId, KeptSet>,
}

impl KindSets {
    /// How many items all sets hold.
    pub(crate) fn items(&self) -> u64 {
        self.sets.values().map(KeptSet::len).sum()
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

    /// Adds new hashes to the set of a keyset, those that are not in it yet; says how many that were.
    pub(crate) fn add(
        &mut self,
        kind: Kind,
        keyset: &KeysetId,
        sets: &mut BTreeMap<KeysetId, KeptSet>,
        hashes: Vec<u64>,
        as_of: u64,
    ) -> Result<u64, DataDirectoryError> {
        let set = sets.entry(keyset.clone()).or_default();
        if let Keep::Directory(directory) = self
            && set.is_in_memory()
        {
            *set = directory.create(kind, keyset)?;
        }
        set.add(hashes, as_of)
    }
}
