//! Damaged files of a persistent store: they are rejected, or the store returns exactly their contents.

mod files;

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use arbitrary::Arbitrary;
use nutfilter::{Nut25, Params, SortedHashes};
use nutfilter_store::{MIN_MEMORY, Options, Store, StoreError, StoreErrorKind};

use crate::folder::Folder;
use crate::{is_long, seeded};
use files::{
    Files, LIST, Mark, Said, file_name, repair_blocks, repair_header, repair_list, run_name,
    run_of, said, written,
};

/// A store built from a recipe, and changes to its files.
#[derive(Arbitrary, Clone, Debug)]
pub struct Case<'a> {
    /// How the store is opened and read: see [`Case::check`].
    pub form: u8,
    /// Which checksums are corrected after the edits: of the list, of headers, of blocks (the lowest bits).
    pub repaired: u8,
    /// The length of the note.
    pub note: u8,
    /// The number of hashes of each run, before `length`.
    pub runs: [u8; 3],
    /// The seed of the hashes.
    pub seed: u8,
    /// The edits of the files, one after another.
    pub edits: [Edit; 3],
    /// Bytes that some edits insert.
    pub junk: &'a [u8],
}

/// A change of one file.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Edit {
    /// The file, in the order of the names: the list, then the runs.
    pub file: u8,
    /// The kind of edit (modulo 16): see `Case::apply`.
    pub what: u8,
    /// The place of the edit.
    pub at: u16,
    /// The value to write.
    pub with: u64,
}

/// The number of hashes of a run: usually a few, and up to four blocks for some runs of long inputs.
fn length(run: u8, long: bool) -> usize {
    match run {
        252.. if long => usize::from(run - 251) * 440,
        // Around the ends of blocks.
        240..=251 if long => 511 * (1 + usize::from(run % 2)) + usize::from(run % 3) - 1,
        _ => usize::from(run % 12),
    }
}

impl Case<'_> {
    /// Writes the files, damages them, opens the store and reads it.
    ///
    /// # Panics
    ///
    /// If an invalid store is opened, a valid one is rejected, or its contents differ from its files.
    pub fn check(&self) {
        let files = self.files();
        let said = said(&files, mark());
        if self.long() && (self.form % 16 == 15 || !files.contains_key(&None)) {
            // The file system takes most of the time of such a case.
            self.check_in_directory(&files, &said);
        } else if let Some(list) = files.get(&None) {
            let file = |name: &str| files.get(&Some(run_of(name)?)).cloned();
            let store = Store::read_files(list.clone(), file, options());
            self.check_store(store, &said);
        }
    }

    fn long(&self) -> bool {
        is_long::<Self>(self.junk)
    }

    fn files(&self) -> Files {
        let mut numbers = seeded::numbers(self.seed.into());
        let runs = self.runs.iter().filter(|&&run| run != 0);
        let runs: Vec<Vec<u64>> = runs
            .map(|&run| {
                let count = length(run, self.long()) as u64;
                // Non-decreasing as generated: each hash has its own range.
                let stretch = match self.seed % 4 {
                    0 => 1,
                    1 => 3,
                    _ => u64::MAX / count.max(1),
                };
                let numbers = numbers.by_ref().take(count as usize);
                let spread = numbers
                    .zip(0..)
                    .map(|(number, i)| i / 2 * stretch + number % stretch);
                let mut hashes: Vec<u64> = spread.collect();
                hashes.sort();
                hashes
            })
            .collect();
        let note = match self.long() {
            true => self.note,
            false => self.note % 8,
        };
        let mut files = written(mark(), &seeded::bytes(1, note.into()), &runs);
        for edit in self.edits {
            self.apply(edit, &mut files);
        }
        for (name, bytes) in &mut files {
            if name.is_none() {
                if self.repaired & 1 != 0 {
                    repair_list(bytes);
                }
                continue;
            }
            if self.repaired & 2 != 0 {
                repair_header(bytes);
            }
            if self.repaired & 4 != 0 {
                repair_blocks(bytes);
            }
        }
        files
    }

    fn apply(&self, edit: Edit, files: &mut Files) {
        if files.is_empty() {
            return;
        }
        let named = |number: usize| files.keys().nth(number % files.len());
        let name = *named(edit.file.into()).expect("one of them");
        // Most edits affect only one file.
        let (other, copy) = match edit.what % 16 {
            9 | 10 | 12 => {
                let other = *named(edit.with as usize).expect("one of them");
                (other, files[&other].clone())
            }
            _ => Default::default(),
        };
        let bytes = files.get_mut(&name).expect("one of the names");
        let (len, at) = (bytes.len(), usize::from(edit.at));
        let junk = &self.junk[..self.junk.len().min(512)];
        match edit.what % 16 {
            0 | 1 if len > 0 => bytes[at % len] ^= edit.with as u8,
            2 if len > 0 => bytes[at % len] = edit.with as u8,
            // Change a word: a field of a header, a hash, a checksum.
            3 | 4 => {
                let (words, _) = bytes.as_chunks_mut::<8>();
                if let Some(word) = words.get_mut(at % (len / 8).max(1)) {
                    *word = match edit.what % 16 {
                        3 => edit.with,
                        _ => u64::from_le_bytes(*word).wrapping_add_signed(edit.with as i8 as i64),
                    }
                    .to_le_bytes();
                }
            }
            5 => bytes.truncate(at % (len + 1)),
            6 => bytes.truncate(len - (edit.with as usize % 32).min(len)),
            7 => drop(bytes.splice(at % (len + 1)..at % (len + 1), junk.iter().copied())),
            8 => {
                let from = at % (len + 1);
                let to = (from + junk.len()).min(len);
                drop(bytes.splice(from..to, junk.iter().copied()));
            }
            // Swap two files.
            9 => {
                let moved = core::mem::replace(bytes, copy);
                files.insert(other, moved);
            }
            // Insert a block of another file, or of another place in this file.
            10 => {
                let blocks = |len: usize| (len.saturating_sub(64) / 4096).max(1);
                let from = 64 + edit.with as usize / 8 % blocks(copy.len()) * 4096;
                let block = copy.get(from..).unwrap_or_default();
                let block = &block[..block.len().min(4096)];
                let to = (64 + at % blocks(len) * 4096).min(len);
                let end = (to + block.len()).min(len);
                bytes[to..end].copy_from_slice(&block[..end - to]);
            }
            11 => drop(files.remove(&name)),
            // Add a file that no list names.
            12 => drop(files.insert(Some(edit.with), copy)),
            13..=15 => edit_list(edit, files),
            _ => {}
        }
    }

    fn check_in_directory(&self, files: &Files, said: &Result<Said, StoreErrorKind>) {
        let directory = Folder::of(files.iter().map(|(&of, bytes)| (file_name(of), bytes)));
        let store = Store::open(&directory.0, options());
        // An unreadable list must not cause a removal.
        let listed = store.as_ref().err().is_none_or(|error| {
            error
                .path()
                .is_none_or(|path| !path.ends_with(LIST) && path != directory.0)
        });
        for (&of, bytes) in files.iter().filter(|_| !listed) {
            let kept = fs::read(directory.0.join(file_name(of)));
            assert_eq!(kept.ok().as_ref(), Some(bytes), "{of:?}: {self:?}");
        }
        self.check_store(store, said);
        let Ok(said) = said else { return };
        for &id in files.keys().flatten() {
            let kept = directory.0.join(run_name(id)).exists();
            assert_eq!(kept, said.runs.contains(&id), "{id}: {self:?}");
        }
        if let (Ok(hashes), true) = (&said.hashes, self.form & 16 == 0) {
            self.check_commit(&directory.0, said, hashes);
        }
    }

    /// An opened store accepts more hashes, and then holds both.
    fn check_commit(&self, directory: &Path, said: &Said, hashes: &[u64]) {
        let more = [u64::from(self.seed), u64::MAX];
        let mut store = Store::open(directory, options()).expect("it was opened before");
        let mut batch = store.batch();
        batch.push_hashes(&more).expect("room");
        batch.commit().expect("a commit");
        drop(store);
        let mut hashes = [hashes, &more].concat();
        hashes.sort();
        let said = Said {
            items: said.items + 2,
            hashes: Ok(hashes),
            ..said.clone()
        };
        self.check_store(Store::open(directory, options()), &Ok(said));
    }

    fn check_store(&self, store: Result<Store, StoreError>, said: &Result<Said, StoreErrorKind>) {
        let (store, said) = match (store, said) {
            (Ok(store), Ok(said)) => (store, said),
            (Err(error), Err(kind)) => {
                assert_eq!(error.kind(), *kind, "{error}: {self:?}");
                return;
            }
            (store, said) => panic!("{store:?}, and the files say {said:?}: {self:?}"),
        };
        assert_eq!(store.len(), said.items, "{self:?}");
        assert_eq!(store.metadata(), said.note, "{self:?}");
        let ways = match self.form >> 5 {
            7 if self.long() => 0..3,
            way => way % 3..way % 3 + 1,
        };
        for way in ways {
            let read = match way {
                0 => {
                    let mut read = Vec::new();
                    let done = store.for_each_piece(|piece| read.extend_from_slice(piece));
                    // Hashes before the damage may have been visited, in order.
                    assert!(read.is_sorted(), "{self:?}");
                    done.map(|()| assert_eq!(Ok(&read), said.hashes.as_ref(), "{self:?}"))
                }
                1 => store.verify(),
                _ => self.check_encoding(&store, said),
            };
            let kind = read.as_ref().map_err(StoreError::kind).copied();
            let expected = said.hashes.as_ref().map(|_| ()).map_err(|&kind| kind);
            assert_eq!(kind, expected, "way {way}, {read:?}: {self:?}");
        }
    }

    fn check_encoding(&self, store: &Store, said: &Said) -> Result<(), StoreError> {
        let mut bytes = Vec::new();
        let written = store.encode_to(Params::CASHU, &mut bytes)?;
        let hashes = said.hashes.clone().unwrap_or_default();
        let repeated = hashes.windows(2).filter(|pair| pair[0] == pair[1]).count() as u64;
        let set = SortedHashes::builder(Nut25)
            .sorted(hashes)
            .expect("sorted by then");
        let filter = set.encode(Params::CASHU).expect("a small set");
        assert_eq!(bytes, filter.bytes(), "{self:?}");
        assert_eq!(
            (written.n, written.repeated),
            (filter.n(), repeated),
            "{self:?}"
        );
        Ok(())
    }
}

/// Changes, repeats or renumbers a line of the list.
fn edit_list(edit: Edit, files: &mut Files) {
    let Some(list) = files.get_mut(&None) else {
        return;
    };
    let text = String::from_utf8_lossy(list).into_owned();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if lines.is_empty() {
        return;
    }
    let at = usize::from(edit.at) % lines.len();
    match edit.what % 16 {
        13 => lines.insert(at, lines[edit.with as usize % lines.len()].clone()),
        14 => lines[at] = format!("run {:x} {}", edit.with >> 32, edit.with as u32),
        _ => lines[at] = format!("run {:016x} {}", edit.with, edit.at >> 3),
    }
    *list = (lines.join("\n") + "\n").into_bytes();
}

fn options() -> Options {
    Options::new(MIN_MEMORY).with_label("a label")
}

/// The mark of [`options`], from the list of a store created with them.
fn mark() -> Mark {
    static MARK: OnceLock<Mark> = OnceLock::new();
    *MARK.get_or_init(|| {
        let directory = Folder::empty();
        drop(Store::create(&directory.0, options()).expect("a store"));
        let list = fs::read_to_string(directory.0.join(LIST)).expect("its list");
        let words = list.lines().find_map(|line| line.strip_prefix("set "));
        let words = words.expect("its mark").split(' ');
        let words = words.map(|word| u64::from_str_radix(word, 16).expect("a number"));
        words
            .collect::<Vec<u64>>()
            .try_into()
            .expect("three numbers")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_that_are_written_here_are_those_of_a_store() {
        let runs: Vec<Vec<u64>> = [3, 511, 512, 1500]
            .map(|len| {
                let mut hashes: Vec<u64> = seeded::numbers(len).take(len as usize).collect();
                hashes.sort();
                hashes
            })
            .to_vec();
        let directory = Folder::empty();
        let mut store = Store::create(&directory.0, options()).expect("a store");
        for run in &runs {
            let mut batch = store.batch();
            batch.push_hashes(run).expect("room");
            batch.commit_with_metadata(b"a note").expect("a commit");
        }
        drop(store);
        let files = written(mark(), b"a note", &runs);
        for (&of, bytes) in &files {
            assert_eq!(run_of(&file_name(of)), of);
            let theirs = fs::read(directory.0.join(file_name(of))).expect("the same name");
            assert!(theirs == *bytes, "{of:?}");
        }
        let mut all = runs.concat();
        all.sort_unstable();
        let said = said(&files, mark()).expect("a store");
        assert_eq!(
            (said.items, &*said.note),
            (all.len() as u64, &b"a note"[..])
        );
        assert_eq!(said.hashes, Ok(all));
    }
}
