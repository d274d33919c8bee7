//! One keyset's hashes.

use std::io::Write;

use nutfilter::store::{Store, StoreError, StoreErrorKind};
use nutfilter::{Nut25, Params, SortedHashes};

use super::KeptError;

/// The sorted hashes of one keyset and kind. An empty one is in memory in any case.
#[derive(Debug)]
pub(crate) struct KeptSet {
    hashes: Hashes,
    /// Whether it is another than the one that was published last.
    pub(crate) changed: bool,
    /// The Unix second as of which it is complete.
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

impl Default for KeptSet {
    fn default() -> Self {
        Self::in_memory(SortedHashes::from_hashes(vec![]))
    }
}

impl KeptSet {
    /// A set without items, as of a Unix second.
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

    /// A set in a directory of this name.
    pub(super) fn on_disk(store: Store<Nut25>, name: String) -> Self {
        let as_of = note_to_as_of(store.note());
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

    /// The name of its directory, if it has one.
    pub(super) fn directory_name(&self) -> Option<&str> {
        match &self.hashes {
            Hashes::Memory(_) => None,
            Hashes::Disk { name, .. } => Some(name),
        }
    }

    /// N.
    pub(crate) fn len(&self) -> u64 {
        match &self.hashes {
            Hashes::Memory(hashes) => hashes.len() as u64,
            Hashes::Disk { store, .. } => store.len(),
        }
    }

    /// Whether it holds the same hashes as another, where that is cheap to see.
    pub(crate) fn is_known_to_equal(&self, other: &Self) -> bool {
        match (&self.hashes, &other.hashes) {
            (Hashes::Memory(ours), Hashes::Memory(theirs)) => ours == theirs,
            _ => false,
        }
    }

    /// Those of `hashes`, given in any order, that are not in it, sorted. Equal ones among them all stay: a source
    /// may hand over again what it did before, but no item twice in one reading.
    pub(crate) fn without_known(&self, hashes: Vec<u64>) -> Result<Vec<u64>, KeptError> {
        let mut new = SortedHashes::<Nut25>::from_hashes(hashes).into_hashes();
        match &self.hashes {
            Hashes::Memory(kept) => {
                let mut rest = kept.as_slice();
                new.retain(|hash| {
                    // Both are in order: what was passed is not looked at again.
                    rest = &rest[rest.partition_point(|kept| kept < hash)..];
                    rest.first() != Some(hash)
                });
            }
            Hashes::Disk { store, .. } => remove_kept(store, &mut new)?,
        }
        Ok(new)
    }

    /// Adds hashes, in any order, whether they are there or not. They are on the disk then, if the set is.
    ///
    /// After an error a set in memory may be empty, and is to be read whole; one on the disk is as it was.
    pub(crate) fn add(&mut self, hashes: Vec<u64>, as_of: u64) -> Result<(), KeptError> {
        if hashes.is_empty() {
            return Ok(());
        }
        match &mut self.hashes {
            Hashes::Memory(kept) => {
                let more = SortedHashes::from_hashes(hashes);
                let empty = SortedHashes::from_hashes(vec![]);
                *kept = core::mem::replace(kept, empty).merge(more)?;
            }
            Hashes::Disk { store, .. } => commit(store, &hashes, as_of)?,
        }
        self.changed = true;
        self.as_of = as_of;
        Ok(())
    }

    /// Writes the filter; says N.
    pub(crate) fn encode_to(
        &self,
        params: Params,
        output: &mut impl Write,
    ) -> Result<u32, KeptError> {
        match &self.hashes {
            Hashes::Memory(hashes) => {
                let filter = hashes.encode(params)?;
                output.write_all(filter.bytes()).map_err(KeptError::Body)?;
                Ok(filter.n())
            }
            Hashes::Disk { store, .. } => match store.encode_to(params, output) {
                Ok(written) => Ok(written.n),
                Err(error) => Err(body_or_store(error)),
            },
        }
    }
}

/// Tells what the output refused from what is wrong with the store.
fn body_or_store(error: StoreError) -> KeptError {
    match (error.kind(), error.io_error()) {
        (StoreErrorKind::Output, Some(said)) => {
            // The original stays with the store's error; what counts is its kind and its words.
            let error = std::io::Error::new(said.kind(), said.to_string());
            KeptError::Body(error)
        }
        _ => error.into(),
    }
}

/// Puts sorted hashes into a store, for good.
fn commit(store: &mut Store<Nut25>, hashes: &[u64], as_of: u64) -> Result<(), KeptError> {
    let mut batch = store.batch();
    batch.push_hashes(hashes)?;
    batch.commit_with_note(&as_of.to_le_bytes())?;
    Ok(())
}

/// What a store's note says: the Unix second of its last commit. Anything else is none.
fn note_to_as_of(note: &[u8]) -> u64 {
    note.try_into().map_or(0, u64::from_le_bytes)
}

/// Takes those out of `new`, which is sorted, that the store holds: one pass over it.
fn remove_kept(store: &Store<Nut25>, new: &mut Vec<u64>) -> Result<(), KeptError> {
    let mut known = vec![false; new.len()];
    let mut at = 0;
    store.for_each_piece(|mut piece| {
        while let Some(last) = piece.last()
            && at < new.len()
            && new[at] <= *last
        {
            piece = &piece[piece.partition_point(|&kept| kept < new[at])..];
            let hash = new[at];
            let is_known = piece.first() == Some(&hash);
            while at < new.len() && new[at] == hash {
                known[at] = is_known;
                at += 1;
            }
        }
    })?;
    let mut known = known.into_iter();
    new.retain(|_| known.next() != Some(true));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nutfilter::store::{MIN_MEMORY, Options};

    #[test]
    fn what_is_there_is_not_added_again_in_memory_or_on_disk() {
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
            let mut expected = kept.clone();
            expected.extend(new.iter().filter(|hash| !kept.contains(hash)));
            expected.sort_unstable();

            let mut memory = KeptSet::in_memory(SortedHashes::from_hashes(kept.clone()));
            let path = directory.path().join(new.len().to_string());
            let path = path.with_extension(new.first().map_or_else(String::new, u64::to_string));
            let options = Options::<Nut25>::new(MIN_MEMORY);
            let mut store = Store::create(&path, options.clone()).unwrap();
            commit(&mut store, &kept, 5).unwrap();
            let mut disk = KeptSet::on_disk(store, "here".to_owned());
            assert_eq!(disk.as_of, 5);

            let added = (expected.len() - kept.len()) as u64;
            for set in [&mut memory, &mut disk] {
                set.changed = false;
                let really_new = set.without_known(new.clone()).unwrap();
                assert_eq!(really_new.len() as u64, added);
                set.add(really_new, 9).unwrap();
                assert_eq!((set.changed, set.len()), (added > 0, expected.len() as u64));
                let mut bytes = vec![];
                set.encode_to(Params::CASHU, &mut bytes).unwrap();
                let whole = SortedHashes::<Nut25>::from_hashes(expected.clone());
                assert_eq!(bytes, whole.encode(Params::CASHU).unwrap().bytes());
            }
            drop(disk);
            let again = Store::open(&path, options).unwrap();
            assert_eq!(note_to_as_of(again.note()), if added > 0 { 9 } else { 5 });
        }
    }
}
