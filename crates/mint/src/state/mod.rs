//! State between two readings: the sorted hashes of each keyset and kind, and the watermark of each kind.
//!
//! With these hashes, a new filter costs the new items and one linear pass. No old row is read, hashed or sorted
//! again. The hashes are in memory, and in a [`DataDirectory`] too if a restart has to continue from them.

mod directory;
mod file;
mod manifest;
mod set;

use std::collections::{BTreeMap, BTreeSet};

pub use directory::{DataDirectory, StateError};
pub(crate) use set::{Changes, KeysetHashes};

use crate::KeysetId;
use crate::source::Watermark;

/// The state of one kind.
#[derive(Debug, Default)]
pub(crate) struct KindSets {
    /// Where the source continues; `None` if everything must be read.
    pub(crate) watermark: Option<Watermark>,
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
