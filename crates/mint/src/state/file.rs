//! The file of a set: all hashes that were added to it.
//!
//! ```text
//! nutfilter set 1\n
//! additions, each: number of hashes (8)   date (8)   the hashes (8 each)   SHA-256 (32)
//! ```
//!
//! Numbers are little-endian. Each sum covers the label of the set, all additions before it, and its own. It detects
//! changed bytes, the file of another set, and an addition that a crash has cut. Bytes after the last valid addition
//! do not count, and the next addition replaces them.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

const FIRST_LINE: &[u8; 16] = b"nutfilter set 1\n";

/// Length of the number and the date of an addition, in bytes.
const HEAD_BYTES: usize = 16;

const SUM_BYTES: usize = 32;

/// Number of hashes that are read or written at once.
const PIECE: usize = 8 << 10;

#[derive(Debug)]
pub(super) struct SetFile {
    path: PathBuf,
    /// Length up to the end of the last valid addition, in bytes.
    length: u64,
    /// Has taken the label and all valid additions.
    sum: Sha256,
}

impl SetFile {
    /// Creates the file of an empty set, which must not exist.
    pub(super) fn create(path: PathBuf, label: &str) -> io::Result<Self> {
        nutfilter_files::write_all(nutfilter_files::create(&path)?, FIRST_LINE)?;
        Ok(Self::empty(path, label))
    }

    /// Opens a file. Returns the hashes of its valid additions, unsorted, and the latest date; 0 without an addition.
    pub(super) fn open(path: PathBuf, label: &str) -> io::Result<(Self, Vec<u64>, u64)> {
        let mut reader = BufReader::with_capacity(PIECE * 8, File::open(&path)?);
        let mut first = [0; FIRST_LINE.len()];
        if !fill(&mut reader, &mut first)? || first != *FIRST_LINE {
            return Err(io::Error::other("not a set of this version"));
        }
        let mut file = Self::empty(path, label);
        let (mut hashes, mut date) = (vec![], 0);
        while let Some(added) = file.read_addition(&mut reader, &mut hashes)? {
            date = added;
        }
        Ok((file, hashes, date))
    }

    fn empty(path: PathBuf, label: &str) -> Self {
        Self {
            path,
            length: FIRST_LINE.len() as u64,
            sum: Sha256::new_with_prefix(label),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds hashes durably. After an error, the file counts as unchanged.
    pub(super) fn append(&mut self, hashes: &[u64], date: u64) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).open(&self.path)?;
        // An addition that failed may have left bytes.
        file.set_len(self.length)?;
        file.seek(SeekFrom::End(0))?;
        let mut sum = self.sum.clone();
        let mut write = |bytes: &[u8]| {
            sum.update(bytes);
            nutfilter_files::write_all(&file, bytes)
        };
        let head = [hashes.len() as u64, date].map(u64::to_le_bytes);
        write(head.as_flattened())?;
        let mut bytes = Vec::with_capacity(8 * PIECE.min(hashes.len()));
        for piece in hashes.chunks(PIECE) {
            bytes.clear();
            bytes.extend(piece.iter().flat_map(|hash| hash.to_le_bytes()));
            write(&bytes)?;
        }
        nutfilter_files::write_all(&file, &sum.clone().finalize())?;
        nutfilter_files::sync(&file)?;
        self.length += (HEAD_BYTES + 8 * hashes.len() + SUM_BYTES) as u64;
        self.sum = sum;
        Ok(())
    }

    /// Reads one addition, and returns its date; `None` after the last valid one.
    fn read_addition(
        &mut self,
        reader: &mut impl Read,
        hashes: &mut Vec<u64>,
    ) -> io::Result<Option<u64>> {
        let (before, mut sum) = (hashes.len(), self.sum.clone());
        let mut head = [[0; 8]; HEAD_BYTES / 8];
        let mut is_whole = fill(reader, head.as_flattened_mut())?;
        sum.update(head.as_flattened());
        let [number, date] = head.map(u64::from_le_bytes);
        let (mut left, mut bytes) = (number, Vec::new());
        // The number may be wrong. The file ends, whatever it says.
        while is_whole && left > 0 {
            let length = left.min(PIECE as u64) as usize;
            bytes.resize(length * 8, 0);
            is_whole = fill(reader, &mut bytes)?;
            sum.update(&bytes);
            let (words, _) = bytes.as_chunks::<8>();
            hashes.extend(words.iter().copied().map(u64::from_le_bytes));
            left -= length as u64;
        }
        let mut said = [0; SUM_BYTES];
        if !is_whole || !fill(reader, &mut said)? || sum.clone().finalize()[..] != said {
            hashes.truncate(before);
            return Ok(None);
        }
        self.length += (HEAD_BYTES + SUM_BYTES) as u64 + 8 * number;
        self.sum = sum;
        Ok(Some(date))
    }
}

/// Fills `bytes`, or returns false if the file ends before.
fn fill(reader: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match reader.read_exact(bytes) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// What is read from a file with these bytes: the hashes and the latest date.
    fn read(bytes: &[u8], label: &str) -> Option<(Vec<u64>, u64)> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), bytes).unwrap();
        let (_, hashes, date) = SetFile::open(file.path().into(), label).ok()?;
        Some((hashes, date))
    }

    #[test]
    fn changed_or_cut_additions_do_not_count() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("set");
        let mut file = SetFile::create(path.clone(), "spent a").unwrap();
        file.append(&[1, 2, u64::MAX], 10).unwrap();
        let first = fs::metadata(&path).unwrap().len() as usize;
        file.append(&[3], 11).unwrap();
        let bytes = fs::read(&path).unwrap();
        let (one, both) = ((vec![1, 2, u64::MAX], 10), (vec![1, 2, u64::MAX, 3], 11));
        assert_eq!(read(&bytes, "spent a"), Some(both.clone()));
        assert_eq!(read(&bytes, "spent b"), Some((vec![], 0)));
        let expected = |at: usize| match at {
            _ if at < FIRST_LINE.len() => None,
            _ if at < first => Some((vec![], 0)),
            _ => Some(one.clone()),
        };
        for at in 0..bytes.len() {
            assert_eq!(read(&bytes[..at], "spent a"), expected(at), "cut to {at}");
            for bit in 0..8 {
                let mut bytes = bytes.clone();
                bytes[at] ^= 1 << bit;
                assert_eq!(read(&bytes, "spent a"), expected(at), "bit {bit} of {at}");
            }
        }
    }

    #[test]
    fn failed_addition_is_replaced_by_the_next() {
        let directory = tempfile::tempdir().unwrap();
        let many: Vec<u64> = (0..3 * PIECE as u64).collect();
        // Four writes, the sum, and the wait for the disk.
        for changes in 0..6 {
            let path = directory.path().join(changes.to_string());
            let mut file = SetFile::create(path.clone(), "a").unwrap();
            file.append(&[7, 8], 1).unwrap();
            nutfilter_files::faults::after(changes);
            file.append(&many, 2).unwrap_err();
            nutfilter_files::faults::off();
            file.append(&[9], 3).unwrap();
            let (mut file, hashes, date) = SetFile::open(path.clone(), "a").unwrap();
            assert_eq!((hashes, date), (vec![7, 8, 9], 3), "{changes}");
            file.append(&many, 4).unwrap();
            let (_, hashes, date) = SetFile::open(path, "a").unwrap();
            assert_eq!((hashes.len(), date), (3 + many.len(), 4));
        }
    }
}
