//! [`Run`]: the sorted hashes of the elements of one interval, in a file.
//!
//! ```text
//! "nutknow1", the hashes in ascending order (8 bytes each, little-endian), CRC-32 of everything before
//! ```
//!
//! Values of w bits could not tell an element that came again from another one with an equal value. Hashes of
//! 64 bits can: of a billion elements, two have equal hashes with a probability of 1 in 37.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, at};
use crate::files::{self, NewFile};

const MAGIC: &[u8; 8] = b"nutknow1";
const SUM_BYTES: u64 = 4;

/// Hashes that are read at once: 32 KiB.
const PAGE: u64 = 4096;

/// Runs of at most this many hashes are kept in memory.
const SMALL: u64 = 4096;

/// If a look-up would skip fewer hashes than this between two of its own, reading all of them is faster.
const DENSE: u64 = 512;

/// The hashes that are read for one step of a merge: 8 MiB.
pub(crate) const SLICE: u64 = 1 << 20;

/// A file of sorted hashes.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    path: PathBuf,
    pub(crate) n: u64,
    small: Option<Arc<[u64]>>,
}

impl Run {
    pub(crate) fn open(path: PathBuf) -> Result<Self, Error> {
        let mut file = File::open(&path).map_err(at(&path))?;
        let length = file.metadata().map_err(at(&path))?.len();
        let hashes = length.checked_sub(MAGIC.len() as u64 + SUM_BYTES);
        let n = hashes.filter(|bytes| bytes % 8 == 0).map(|bytes| bytes / 8);
        let n = n.ok_or_else(|| Error::damaged(&path, "a file of hashes has another length"))?;
        let mut run = Self {
            path,
            n,
            small: None,
        };
        if n <= SMALL {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).map_err(at(&run.path))?;
            run.small = Some(run.checked(&bytes)?.into());
        }
        Ok(run)
    }

    /// Reads the whole file, and checks its checksum.
    pub(crate) fn check(&self) -> Result<(), Error> {
        merge(core::slice::from_ref(self), |_| Ok(()))
    }

    /// The hashes of the whole file.
    fn checked(&self, bytes: &[u8]) -> Result<Vec<u64>, Error> {
        let damaged = || Error::damaged(&self.path, "a file of hashes has another checksum");
        let (content, sum) = bytes.split_last_chunk::<4>().ok_or_else(damaged)?;
        if crc32fast::hash(content) != u32::from_le_bytes(*sum) {
            return Err(damaged());
        }
        let hashes = content.strip_prefix(MAGIC).ok_or_else(damaged)?;
        Ok(numbers(hashes))
    }

    /// Reads the hashes from number `from` to number `to`.
    fn read(&self, file: &mut File, from: u64, to: u64) -> Result<Vec<u64>, Error> {
        if let Some(hashes) = &self.small {
            return Ok(hashes[from as usize..to as usize].to_vec());
        }
        let mut bytes = vec![0; (to - from) as usize * 8];
        let at_byte = SeekFrom::Start(MAGIC.len() as u64 + from * 8);
        let read = file.seek(at_byte).and_then(|_| file.read_exact(&mut bytes));
        read.map_err(at(&self.path))?;
        Ok(numbers(&bytes))
    }

    /// Sets the flags of those of the `sorted` hashes that are in this run.
    pub(crate) fn mark(&self, sorted: &[u64], known: &mut [bool]) -> Result<(), Error> {
        let (Some(&first), Some(&last)) = (sorted.first(), sorted.last()) else {
            return Ok(());
        };
        if let Some(hashes) = &self.small {
            mark_known(hashes, sorted, known, &mut 0);
            return Ok(());
        }
        let mut file = File::open(&self.path).map_err(at(&self.path))?;
        let from = self.lower_bound(&mut file, first, 0)?.0;
        let to = self.lower_bound(&mut file, last, from)?.0;
        if (to - from) / DENSE <= sorted.len() as u64 {
            let (mut from, mut done) = (from, 0);
            while from < self.n && done < sorted.len() {
                let to = (from + PAGE).min(self.n);
                let page = self.read(&mut file, from, to)?;
                mark_known(&page, sorted, known, &mut done);
                from = to;
            }
            return Ok(());
        }
        let mut from = from;
        for (&hash, known) in sorted.iter().zip(known) {
            let found;
            (from, found) = self.lower_bound(&mut file, hash, from)?;
            *known |= found;
        }
        Ok(())
    }

    /// The number of the first hash that is not below `hash`, and whether it is equal. All hashes before number
    /// `low` are smaller.
    fn lower_bound(&self, file: &mut File, hash: u64, low: u64) -> Result<(u64, bool), Error> {
        let (mut low, mut high) = (low, self.n);
        let (mut min, mut max) = (0, u64::MAX);
        // Hashes are uniform, so interpolation finds the page at once. Every other step bisects, in case it does not.
        for step in 0.. {
            if high - low <= PAGE {
                break;
            }
            let span = high - low;
            let middle = match step % 2 {
                0 => {
                    let share = u128::from(hash.clamp(min, max) - min) * u128::from(span);
                    // Less than the span.
                    low + (share / (u128::from(max - min) + 1)) as u64
                }
                _ => low + span / 2,
            };
            let from = middle.saturating_sub(PAGE / 2).clamp(low, high - PAGE);
            let page = self.read(file, from, from + PAGE)?;
            let at = page.partition_point(|&other| other < hash);
            match (page.get(at), at) {
                (None, _) => {
                    low = from + PAGE;
                    min = page[page.len() - 1];
                }
                (Some(&other), 0) if from > low && other != hash => {
                    high = from;
                    max = other;
                }
                (Some(&other), _) => return Ok((from + at as u64, other == hash)),
            }
        }
        let page = self.read(file, low, high)?;
        let at = page.partition_point(|&other| other < hash);
        let found = page.get(at) == Some(&hash);
        Ok((low + at as u64, found))
    }
}

/// Sets the flags of the `sorted` hashes in this page, from number `done` on, and moves `done` past the page.
fn mark_known(page: &[u64], sorted: &[u64], known: &mut [bool], done: &mut usize) {
    let (mut page, Some(&last)) = (page, page.last()) else {
        return;
    };
    while let Some(&hash) = sorted.get(*done)
        && hash <= last
    {
        page = &page[page.partition_point(|&other| other < hash)..];
        known[*done] |= page.first() == Some(&hash);
        *done += 1;
    }
}

fn numbers(bytes: &[u8]) -> Vec<u64> {
    let (numbers, _) = bytes.as_chunks::<8>();
    numbers
        .iter()
        .map(|&bytes| u64::from_le_bytes(bytes))
        .collect()
}

/// Reads a run from its start. It keeps no file open, so that thousands can be merged.
struct Reader<'a> {
    run: &'a Run,
    page: Vec<u64>,
    used: usize,
    next: u64,
    checksum: crc32fast::Hasher,
}

impl<'a> Reader<'a> {
    fn new(run: &'a Run) -> Self {
        Self {
            run,
            page: Vec::new(),
            used: 0,
            next: 0,
            checksum: crc32fast::Hasher::new_with_initial(crc32fast::hash(MAGIC)),
        }
    }

    /// Moves the next hashes that are at most `last`.
    fn take_until(&mut self, last: u64, into: &mut Vec<u64>) -> Result<(), Error> {
        loop {
            let rest = &self.page[self.used..];
            let taken = rest.partition_point(|&hash| hash <= last);
            into.extend_from_slice(&rest[..taken]);
            self.used += taken;
            if self.used < self.page.len() || self.next == self.run.n {
                return Ok(());
            }
            let to = (self.next + PAGE).min(self.run.n);
            let path = &self.run.path;
            let mut file = File::open(path).map_err(at(path))?;
            self.page = self.run.read(&mut file, self.next, to)?;
            (self.used, self.next) = (0, to);
            for hash in &self.page {
                self.checksum.update(&hash.to_le_bytes());
            }
            if to == self.run.n && self.run.small.is_none() {
                let mut sum = [0; 4];
                let read = file.read_exact(&mut sum);
                read.map_err(at(path))?;
                if self.checksum.clone().finalize() != u32::from_le_bytes(sum) {
                    return Err(Error::damaged(
                        path,
                        "a file of hashes has another checksum",
                    ));
                }
            }
        }
    }
}

/// Passes the hashes of all runs to `visit`, in order and without repetitions, about [`SLICE`] at a time.
pub(crate) fn merge(
    runs: &[Run],
    mut visit: impl FnMut(&[u64]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut readers: Vec<Reader<'_>> = runs.iter().map(Reader::new).collect();
    let mut hashes = Vec::new();
    for last in slice_ends(runs.iter().map(|run| run.n).sum()) {
        hashes.clear();
        for reader in &mut readers {
            reader.take_until(last, &mut hashes)?;
        }
        // The parts are sorted already, which this sort makes use of.
        hashes.sort();
        hashes.dedup();
        visit(&hashes)?;
    }
    Ok(())
}

/// The last hashes of equal parts of the range, of which each has about [`SLICE`] of `n` uniform hashes.
pub(crate) fn slice_ends(n: u64) -> impl Iterator<Item = u64> {
    let slices = u128::from(n / SLICE + 1);
    // The end of the last part is 2^64 - 1.
    (1..=slices).map(move |slice| ((slice << 64) / slices - 1) as u64)
}

/// Writes a run.
pub(crate) struct RunWriter<'a> {
    file: NewFile<'a>,
    path: &'a Path,
    checksum: crc32fast::Hasher,
    bytes: Vec<u8>,
}

impl<'a> RunWriter<'a> {
    pub(crate) fn create(path: &'a Path) -> Result<Self, Error> {
        let mut file = files::create(path)?;
        file.write(MAGIC)?;
        Ok(Self {
            file,
            path,
            checksum: crc32fast::Hasher::new_with_initial(crc32fast::hash(MAGIC)),
            bytes: Vec::new(),
        })
    }

    pub(crate) fn push(&mut self, sorted: &[u64]) -> Result<(), Error> {
        for part in sorted.chunks(PAGE as usize) {
            self.bytes.clear();
            self.bytes
                .extend(part.iter().flat_map(|hash| hash.to_le_bytes()));
            self.checksum.update(&self.bytes);
            self.file.write(&self.bytes)?;
        }
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<Run, Error> {
        self.file.write(&self.checksum.finalize().to_le_bytes())?;
        self.file.finish()?;
        Run::open(self.path.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(i: u64) -> u64 {
        let i = (i ^ i >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (i ^ i >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    fn run(path: &Path, sorted: &[u64]) -> Run {
        let mut writer = RunWriter::create(path).unwrap();
        writer.push(sorted).unwrap();
        writer.finish().unwrap()
    }

    #[test]
    fn hashes_are_found_in_uniform_and_skewed_runs() {
        let directory = tempfile::tempdir().unwrap();
        for (name, skew) in [("uniform", 0), ("skewed", 40)] {
            for n in [0, 1, SMALL, SMALL + 1, 50_000] {
                let mut hashes: Vec<u64> = (0..n).map(|i| spread(i) >> skew).collect();
                hashes.sort_unstable();
                hashes.dedup();
                let run = run(&directory.path().join(format!("{name}-{n}")), &hashes);
                for step in [1, 3, 997, 20_000] {
                    let mut asked: Vec<u64> = hashes.iter().copied().step_by(step).collect();
                    asked.extend((0..20).map(|i| spread(i + 1_000_000) >> skew));
                    asked.extend([0, u64::MAX]);
                    asked.sort_unstable();
                    let mut known = vec![false; asked.len()];
                    run.mark(&asked, &mut known).unwrap();
                    for (hash, known) in asked.iter().zip(known) {
                        let expected = hashes.binary_search(hash).is_ok();
                        assert_eq!(known, expected, "{hash} of {n}, {name}, every {step}");
                    }
                }
            }
        }
    }

    #[test]
    fn merge_has_every_hash_once() {
        let directory = tempfile::tempdir().unwrap();
        let mut all = vec![];
        let mut runs = vec![];
        for i in 0..5 {
            let n = [0, 10, SMALL + 7, SLICE, SLICE / 3][i as usize];
            let mut hashes: Vec<u64> = (0..n).map(|j| spread(j * 5 + i)).collect();
            hashes.push(7);
            hashes.sort_unstable();
            runs.push(run(&directory.path().join(i.to_string()), &hashes));
            all.extend(hashes);
        }
        all.sort_unstable();
        all.dedup();
        let mut merged = vec![];
        let collect = |hashes: &[u64]| {
            merged.extend_from_slice(hashes);
            Ok(())
        };
        merge(&runs, collect).unwrap();
        assert!(merged == all);
    }

    #[test]
    fn damaged_run_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        for n in [10, 3 * SMALL] {
            let path = directory.path().join(n.to_string());
            let hashes: Vec<u64> = (0..n).map(|i| i << 40).collect();
            run(&path, &hashes);
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[50] ^= 1;
            std::fs::write(&path, &bytes).unwrap();
            let merged = Run::open(path.clone()).and_then(|run| merge(&[run], |_| Ok(())));
            assert!(merged.unwrap_err().to_string().contains("checksum"));
            std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
            assert!(Run::open(path).unwrap_err().to_string().contains("length"));
        }
    }
}
