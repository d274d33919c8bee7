//! The hashes of one keyset.

use bytes::Bytes;
use nutfilter::{Nut25, Params, SortedHashes};

use super::StateError;
use super::file::SetFile;
use crate::body::BodyPlace;

/// The sorted hashes of one keyset and kind.
#[derive(Debug)]
pub(crate) struct KeysetHashes {
    hashes: SortedHashes<Nut25>,
    /// `None` without a data directory, and for a set that had no hash yet.
    file: Option<SetFile>,
    /// Whether it differs from the set that was encoded last.
    pub(crate) changed: bool,
    /// The Unix second up to which the set is complete.
    pub(crate) as_of: u64,
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

impl Default for KeysetHashes {
    fn default() -> Self {
        Self::empty(0)
    }
}

impl KeysetHashes {
    /// Creates a set without items, complete up to a Unix second.
    pub(crate) fn empty(as_of: u64) -> Self {
        Self {
            hashes: SortedHashes::from_hashes(vec![]),
            file: None,
            changed: true,
            as_of,
        }
    }

    /// Creates the set of a file, with all of its hashes in any order.
    pub(super) fn restored(file: SetFile, hashes: Vec<u64>, as_of: u64) -> Self {
        Self {
            hashes: SortedHashes::from_hashes(hashes),
            file: Some(file),
            changed: true,
            as_of,
        }
    }

    /// Stores later additions in a file of this set.
    pub(super) fn set_file(&mut self, file: SetFile) {
        self.file = Some(file);
    }

    pub(super) fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// The name of its file, if it has one.
    pub(super) fn file_name(&self) -> Option<&str> {
        self.file.as_ref()?.path().file_name()?.to_str()
    }

    /// The number of items.
    pub(crate) fn len(&self) -> u64 {
        self.hashes.len() as u64
    }

    /// Whether both sets hold the same hashes.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        self.hashes == other.hashes
    }

    /// Splits `hashes`, in any order, into unknown hashes, of items that are certainly new, and known ones: repeated
    /// items, or new items with the same hash. Both are sorted.
    pub(crate) fn split_known(&self, hashes: Vec<u64>) -> [Vec<u64>; 2] {
        let sorted = SortedHashes::from_hashes(hashes).into_hashes();
        let mut kept = self.hashes.as_slice();
        let mut split = [vec![], vec![]];
        for hash in sorted {
            // Both are sorted, so the part before `hash` need not be searched again.
            kept = &kept[kept.partition_point(|&kept| kept < hash)..];
            split[usize::from(kept.first() == Some(&hash))].push(hash);
        }
        split
    }

    /// Compares the set with the one that it replaces. Equal hashes count separately, because they belong to different
    /// items.
    pub(crate) fn changes_since(&self, old: &Self) -> Changes {
        let mut old = old.hashes.as_slice().iter().peekable();
        let mut changes = Changes::default();
        for hash in self.hashes.as_slice() {
            while old.next_if(|&old| old < hash).is_some() {
                changes.lost += 1;
            }
            if old.next_if_eq(&hash).is_none() {
                changes.added += 1;
            }
        }
        changes.lost += old.count() as u64;
        changes
    }

    /// Adds hashes in any order; repeated hashes count again. In a file they are durable afterwards.
    ///
    /// After [`StateError::Build`] the set cannot be used any more; after other errors it is unchanged.
    pub(crate) fn add(&mut self, hashes: Vec<u64>, as_of: u64) -> Result<(), StateError> {
        if hashes.is_empty() {
            return Ok(());
        }
        let new = SortedHashes::from_hashes(hashes);
        if let Some(file) = &mut self.file {
            let appended = file.append(new.as_slice(), as_of);
            appended.map_err(|source| StateError::Io {
                path: file.path().into(),
                source,
            })?;
        }
        if self.hashes.is_empty() {
            // The first reading: a merge would copy all of it.
            self.hashes = new;
        } else {
            self.hashes.merge(&new)?;
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
        let filter = self.hashes.encode(params)?;
        let n = filter.n();
        let body = place.keep(filter.into_bytes()).map_err(StateError::Body)?;
        Ok((body, n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(hashes: &[u64]) -> KeysetHashes {
        let mut set = KeysetHashes::empty(5);
        set.add(hashes.to_vec(), 5).unwrap();
        set
    }

    #[test]
    fn only_unknown_hashes_are_added() {
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

            let mut set = set(&kept);
            set.changed = false;
            let [new, old] = set.split_known(new);
            assert_eq!((&old, &new), (&known, &unknown));
            set.add(new, 9).unwrap();
            let is_changed = !unknown.is_empty();
            let as_of = if is_changed { 9 } else { 5 };
            assert_eq!((set.changed, set.as_of), (is_changed, as_of));
            let (body, n) = set.encode(Params::CASHU, &BodyPlace::Memory).unwrap();
            let whole = SortedHashes::from_hashes(expected);
            let whole = whole.encode(Params::CASHU).unwrap();
            assert_eq!((&body[..], n), (whole.bytes(), whole.n()));
        }
    }

    #[test]
    fn changes_count_equal_hashes_separately() {
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
        for (old, new, lost, added) in cases {
            let changes = set(new).changes_since(&set(old));
            assert_eq!(changes, Changes { lost, added });
        }
    }
}
