//! The hashes of one keyset.

use std::panic::resume_unwind;
use std::sync::mpsc::sync_channel;
use std::thread;

use bytes::Bytes;
use nutfilter::{Nut25, Params, SortedHashes};
use nutfilter_store::{Store, StoreError, StoreErrorKind};

use super::StateError;
use crate::body::BodyPlace;

/// The sorted hashes of one keyset and kind. An empty set is always in memory.
#[derive(Debug)]
pub(crate) struct KeysetHashes {
    hashes: Hashes,
    /// Whether it differs from the set that was encoded last.
    pub(crate) changed: bool,
    /// The Unix second up to which the set is complete.
    pub(crate) as_of: u64,
}

#[derive(Debug)]
enum Hashes {
    Memory(SortedHashes<Nut25>),
    Disk {
        store: Box<Store<Nut25>>,
        /// The name of its directory.
        name: String,
    },
}

/// Differences between a set and its predecessor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) lost: u64,
    pub(crate) added: u64,
}

impl core::ops::AddAssign for Changes {
    fn add_assign(&mut self, other: Self) {
        self.lost += other.lost;
        self.added += other.added;
    }
}

/// How many pieces of the old set are read ahead during a comparison.
const PIECES_AHEAD: usize = 4;

impl Default for KeysetHashes {
    fn default() -> Self {
        Self::in_memory(SortedHashes::from_hashes(vec![]))
    }
}

impl KeysetHashes {
    /// Creates a set without items, complete up to a Unix second.
    pub(crate) fn empty(as_of: u64) -> Self {
        Self {
            as_of,
            ..Self::default()
        }
    }

    pub(crate) fn in_memory(hashes: SortedHashes<Nut25>) -> Self {
        Self {
            hashes: Hashes::Memory(hashes),
            changed: true,
            as_of: 0,
        }
    }

    /// Creates a set that is stored in a directory of this name.
    pub(super) fn on_disk(store: Store<Nut25>, name: String) -> Self {
        let as_of = as_of_from(store.metadata());
        Self {
            hashes: Hashes::Disk {
                store: Box::new(store),
                name,
            },
            changed: true,
            as_of,
        }
    }

    pub(crate) fn is_in_memory(&self) -> bool {
        matches!(self.hashes, Hashes::Memory(_))
    }

    /// The name of its directory; `None` if it is in memory.
    pub(super) fn directory_name(&self) -> Option<&str> {
        match &self.hashes {
            Hashes::Memory(_) => None,
            Hashes::Disk { name, .. } => Some(name),
        }
    }

    /// The number of items.
    pub(crate) fn len(&self) -> u64 {
        match &self.hashes {
            Hashes::Memory(hashes) => hashes.len() as u64,
            Hashes::Disk { store, .. } => store.len(),
        }
    }

    /// Whether both sets hold the same hashes, if this can be told cheaply.
    pub(crate) fn is_known_to_equal(&self, other: &Self) -> bool {
        match (&self.hashes, &other.hashes) {
            (Hashes::Memory(ours), Hashes::Memory(theirs)) => ours == theirs,
            _ => false,
        }
    }

    /// Splits `hashes`, in any order, into unknown hashes, of items that are certainly new, and known ones: repeated
    /// items, or new items with the same hash. Both are sorted.
    pub(crate) fn split_known(&self, hashes: Vec<u64>) -> Result<[Vec<u64>; 2], StateError> {
        let sorted = SortedHashes::from_hashes(hashes).into_hashes();
        let mut is_known = vec![false; sorted.len()];
        let mut at = 0;
        self.for_each_piece(|piece| mark_known(piece, &sorted, &mut is_known, &mut at))?;
        let mut split = [vec![], vec![]];
        for (hash, is_known) in sorted.into_iter().zip(is_known) {
            split[usize::from(is_known)].push(hash);
        }
        Ok(split)
    }

    /// Compares the set with the one that it replaces.
    pub(crate) fn changes_since(&self, old: &Self) -> Result<Changes, StateError> {
        let store = match &old.hashes {
            Hashes::Memory(old) => return self.changes_from(old.as_slice().iter().copied()),
            Hashes::Disk { store, .. } => store,
        };
        // Both sets may be larger than memory, and a store calls back for each piece. So each set gets its own
        // thread.
        thread::scope(|scope| {
            let (sender, pieces) = sync_channel::<Vec<u64>>(PIECES_AHEAD);
            let reader = thread::Builder::new()
                .spawn_scoped(scope, move || {
                    // The receiver is gone if the other set could not be read.
                    store.for_each_piece(|piece| drop(sender.send(piece.to_vec())))
                })
                .map_err(StateError::Body)?;
            let changes = self.changes_from(pieces.into_iter().flatten())?;
            match reader.join() {
                Ok(read) => read?,
                Err(panic) => resume_unwind(panic),
            }
            Ok(changes)
        })
    }

    fn changes_from(&self, old: impl Iterator<Item = u64>) -> Result<Changes, StateError> {
        let mut old = old.peekable();
        let mut changes = Changes::default();
        self.for_each_piece(|piece| {
            for &hash in piece {
                while old.next_if(|&old| old < hash).is_some() {
                    changes.lost += 1;
                }
                // Equal hashes count separately, because they belong to different items.
                if old.next_if_eq(&hash).is_none() {
                    changes.added += 1;
                }
            }
        })?;
        changes.lost += old.count() as u64;
        Ok(changes)
    }

    fn for_each_piece(&self, mut visit: impl FnMut(&[u64])) -> Result<(), StateError> {
        match &self.hashes {
            Hashes::Memory(hashes) => visit(hashes.as_slice()),
            Hashes::Disk { store, .. } => store.for_each_piece(visit)?,
        }
        Ok(())
    }

    /// Adds hashes in any order; repeated hashes count again. A set on disk is durable afterwards.
    ///
    /// After an error the set is unchanged.
    pub(crate) fn add(&mut self, hashes: Vec<u64>, as_of: u64) -> Result<(), StateError> {
        if hashes.is_empty() {
            return Ok(());
        }
        match &mut self.hashes {
            Hashes::Memory(kept) => {
                let new = SortedHashes::from_hashes(hashes);
                if kept.is_empty() {
                    // The first reading: a merge would copy all of it.
                    *kept = new;
                } else {
                    kept.merge(&new)?;
                }
            }
            Hashes::Disk { store, .. } => commit(store, &hashes, as_of)?,
        }
        self.changed = true;
        self.as_of = as_of;
        Ok(())
    }

    /// Returns the filter and its number of items.
    pub(crate) fn encode(
        &self,
        params: Params,
        place: &BodyPlace,
    ) -> Result<(Bytes, u32), StateError> {
        match &self.hashes {
            Hashes::Memory(hashes) => {
                let filter = hashes.encode(params)?;
                let n = filter.n();
                let body = place.keep(filter.into_bytes()).map_err(StateError::Body)?;
                Ok((body, n))
            }
            Hashes::Disk { store, .. } => {
                let mut writer = place.writer().map_err(StateError::Body)?;
                let written = store
                    .encode_to(params, &mut writer)
                    .map_err(body_or_store)?;
                let body = writer.finish().map_err(StateError::Body)?;
                Ok((body, written.n))
            }
        }
    }
}

/// Distinguishes errors of the output from errors of the store.
fn body_or_store(error: StoreError) -> StateError {
    match (error.kind(), error.io_error()) {
        (StoreErrorKind::Output, Some(said)) => {
            // The original error stays inside the store's error. Its kind and its text are enough.
            let error = std::io::Error::new(said.kind(), said.to_string());
            StateError::Body(error)
        }
        _ => error.into(),
    }
}

/// Adds sorted hashes to a store durably.
fn commit(store: &mut Store<Nut25>, hashes: &[u64], as_of: u64) -> Result<(), StateError> {
    let mut batch = store.batch();
    batch.push_hashes(hashes)?;
    batch.commit_with_metadata(&as_of.to_le_bytes())?;
    Ok(())
}

/// The Unix second in a store's note, written by its last commit; 0 if the note has another length.
fn as_of_from(note: &[u8]) -> u64 {
    note.try_into().map_or(0, u64::from_le_bytes)
}

/// Marks the hashes of `sorted` that this piece of a set contains, starting at `at`, and advances `at`.
fn mark_known(mut piece: &[u64], sorted: &[u64], is_known: &mut [bool], at: &mut usize) {
    while let Some(last) = piece.last()
        && *at < sorted.len()
        && sorted[*at] <= *last
    {
        let hash = sorted[*at];
        // Both are sorted, so the part before `hash` need not be searched again.
        piece = &piece[piece.partition_point(|&held| held < hash)..];
        let found = piece.first() == Some(&hash);
        while *at < sorted.len() && sorted[*at] == hash {
            is_known[*at] = found;
            *at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nutfilter_store::{MIN_MEMORY, Options};

    fn on_disk(path: &std::path::Path, hashes: &[u64]) -> KeysetHashes {
        let mut store = Store::create(path, Options::<Nut25>::new(MIN_MEMORY)).unwrap();
        commit(&mut store, hashes, 5).unwrap();
        KeysetHashes::on_disk(store, "here".to_owned())
    }

    fn in_memory(hashes: &[u64]) -> KeysetHashes {
        KeysetHashes::in_memory(SortedHashes::from_hashes(hashes.to_vec()))
    }

    #[test]
    fn only_unknown_hashes_are_added() {
        let directory = tempfile::tempdir().unwrap();
        let kept: Vec<u64> = (0..200_000).map(|i| i * 7).collect();
        for new in [
            vec![],
            vec![0],
            vec![1],
            vec![0, 0, 1, 1],
            vec![7 * 199_999, u64::MAX, 7 * 200_000],
            (0..300_000).rev().collect(),
        ] {
            let (mut known, mut unknown): (Vec<u64>, Vec<u64>) = new
                .iter()
                .partition(|&hash| kept.binary_search(hash).is_ok());
            known.sort_unstable();
            unknown.sort_unstable();
            let mut expected = [&kept[..], &unknown].concat();
            expected.sort_unstable();

            let path = directory.path().join(new.len().to_string());
            let path = path.with_extension(new.first().map_or_else(String::new, u64::to_string));
            let mut memory = in_memory(&kept);
            let mut disk = on_disk(&path, &kept);
            assert_eq!(disk.as_of, 5);

            for set in [&mut memory, &mut disk] {
                set.changed = false;
                let [new, old] = set.split_known(new.clone()).unwrap();
                assert_eq!((&old, &new), (&known, &unknown));
                set.add(new, 9).unwrap();
                let len = expected.len() as u64;
                assert_eq!((set.changed, set.len()), (!unknown.is_empty(), len));
                let (body, n) = set.encode(Params::CASHU, &BodyPlace::Memory).unwrap();
                let whole = SortedHashes::from_hashes(expected.clone());
                let whole = whole.encode(Params::CASHU).unwrap();
                assert_eq!((&body[..], n), (whole.bytes(), whole.n()));
            }
            drop(disk);
            let again = Store::open(&path, Options::<Nut25>::new(MIN_MEMORY)).unwrap();
            let as_of = if unknown.is_empty() { 5 } else { 9 };
            assert_eq!(as_of_from(again.metadata()), as_of);
        }
    }

    #[test]
    fn changes_count_equal_hashes_separately() {
        let directory = tempfile::tempdir().unwrap();
        let long: Vec<u64> = (0..100_000).collect();
        let cases: [(&[u64], &[u64], u64, u64); 7] = [
            (&[], &[], 0, 0),
            (&[1, 2, 3], &[1, 2, 3], 0, 0),
            (&[1, 2, 2, 2], &[2, 4], 3, 1),
            (&[2], &[2, 2, 2], 0, 2),
            (&[u64::MAX], &[0], 1, 1),
            (&long, &long[10..99_000], 1010, 0),
            (&long[..5], &long, 0, 99_995),
        ];
        for (number, (old, new, lost, added)) in cases.into_iter().enumerate() {
            let at = |name: &str| directory.path().join(format!("{name}-{number}"));
            let old = [in_memory(old), on_disk(&at("old"), old)];
            let new = [in_memory(new), on_disk(&at("new"), new)];
            for (old, new) in old
                .iter()
                .flat_map(|old| new.iter().map(move |new| (old, new)))
            {
                assert_eq!(new.changes_since(old).unwrap(), Changes { lost, added });
            }
        }
    }
}
