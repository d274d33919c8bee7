//! [`Store`]: the sorted hashes of a set that is larger than memory, as sorted runs on disk.
//!
//! Added items are hashed and sorted in memory up to the limit, and then written as a *run*. A filter is made
//! by merging all runs as they stream into the encoder. Neither the set nor the filter has to fit in memory.
//! The bytes are those of [`SortedHashes::encode`](nutfilter::SortedHashes::encode).
//!
//! For a set that is needed only once, use a scratch store, which leaves no files behind:
//!
//! ```
//! use nutfilter_store::{Options, Store};
//! use nutfilter::{Nut25, Params};
//!
//! # let spent: Vec<[u8; 33]> = (0..100_u8).map(|i| [i; 33]).collect();
//! # let mut file = Vec::new();
//! let mut store = Store::scratch_in(std::env::temp_dir(), Options::<Nut25>::new(256 << 20))?;
//! let mut batch = store.batch();
//! for note in &spent {
//!     batch.push_item(note)?;
//! }
//! batch.commit()?;
//! let written = store.encode_to(Params::default(), &mut file)?;
//! assert_eq!((written.n, written.bytes), (100, file.len() as u64));
//! # Ok::<(), nutfilter_store::StoreError>(())
//! ```
//!
//! A mint keeps its store and adds the items that are new since the last filter:
//!
//! ```
//! # use nutfilter_store::{Options, Store};
//! # use nutfilter::{Nut25, Params};
//! # let directory = std::env::temp_dir().join(format!("nutfilter-doc-{}", std::process::id()));
//! # let _ = std::fs::remove_dir_all(&directory);
//! # let (since_monday, mut file) = ([[7_u8; 33]], Vec::new());
//! // The label prevents using one keyset's store for another keyset.
//! let options = Options::<Nut25>::new(256 << 20).with_label("009a1f293253e41e spent");
//! let mut store = Store::open_or_create(&directory, options)?;
//! let mut batch = store.batch();
//! batch.push_items(&since_monday)?;
//! batch.commit()?; // now durable: it survives a crash of the machine
//! store.encode_to(Params::default(), &mut file)?;
//! # drop(store);
//! # std::fs::remove_dir_all(&directory).unwrap();
//! # Ok::<(), nutfilter_store::StoreError>(())
//! ```
//!
//! # Cost
//!
//! Memory: the given limit, of which collecting and merging each use at most seven eighths, at different times.
//! Disk: 8 bytes per hash (8.02 with checksums), and temporarily the same again for the runs that are being
//! merged. If the limit allows 128 runs (2^32 - 1 items: from 768 MiB on), each hash is written once and read
//! once. With a lower limit, as few runs as possible are first merged into longer ones, which are then written
//! and read once more. At most 200 files are open.

#![forbid(unsafe_code)]

mod batch;
mod budget;
mod directory;
mod error;
mod merge;
mod run;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nutfilter::{ItemHash, Nut23, Nut25, Params, StreamEncoder};

use budget::Budget;
use directory::Directory;
use error::Fault;
use run::{Header, Mark, Run, RunReader, RunWriter};

pub use batch::Batch;
pub use error::{StoreError, StoreErrorKind};

/// The minimum memory limit: 256 KiB.
pub const MIN_MEMORY: usize = 256 << 10;

/// The maximum length of a commit's metadata: 64 KiB.
pub const MAX_METADATA_BYTES: usize = 64 << 10;

/// The hasher, label and memory limit of a store.
#[derive(Clone, Debug)]
pub struct Options<H = Nut25> {
    hasher: H,
    memory: usize,
    label: Vec<u8>,
}

impl<H: ItemHash + Default> Options<H> {
    /// Options for a store that uses at most `memory` bytes while it collects, merges and encodes.
    ///
    /// More memory means fewer runs; with one gibibyte, the largest set has 83. The limit does not include the
    /// program's other memory, nor the file pages that the system caches while memory is free.
    #[must_use]
    pub fn new(memory: usize) -> Self {
        Self::with_hasher(H::default(), memory)
    }
}

impl<H: ItemHash> Options<H> {
    /// [`Options::new`] with a given hasher, for hashers that have a key.
    pub fn with_hasher(hasher: H, memory: usize) -> Self {
        Self {
            hasher,
            memory,
            label: Vec::new(),
        }
    }

    /// Sets the label of the set. A persistent store opens only with the same label. The hasher is always
    /// compared.
    #[must_use]
    pub fn with_label(self, label: impl AsRef<[u8]>) -> Self {
        let label = label.as_ref().to_vec();
        Self { label, ..self }
    }

    fn mark(&self) -> Mark {
        // A fixed item that nobody uses, in lengths that take different code paths of a hash.
        let item = b"a nutfilter store's own item, which is nobody's note";
        let label = match self.label.as_slice() {
            [] => 0,
            label => fingerprint(label),
        };
        [
            self.hasher.hash(&item[..33]),
            self.hasher.hash(&item[33..]),
            label,
        ]
    }

    fn check(&self) -> Result<(), StoreError> {
        let memory = self.memory;
        if memory < MIN_MEMORY {
            return Err(StoreError(Fault::TooLittleMemory { memory }));
        }
        Ok(())
    }
}

/// Sorted hashes on disk; see the [module](self).
#[derive(Debug)]
pub struct Store<H = Nut25> {
    options: Options<H>,
    budget: Budget,
    /// Where files are created.
    directory: PathBuf,
    /// `None` for a scratch store.
    kept: Option<Directory>,
    /// The metadata of the last commit that had some.
    metadata: Vec<u8>,
    /// The committed runs.
    runs: Vec<Arc<Run>>,
    next_id: u64,
    /// The maximum of N.
    max_items: u64,
}

/// The result of writing a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Written {
    /// N: the number of items, duplicates included.
    pub n: u32,
    /// The length of the filter in bytes.
    pub bytes: u64,
    /// The number of items whose hash equals that of their predecessor in the filter.
    pub repeated: u64,
}

impl<H: ItemHash> Store<H> {
    /// Creates an empty store in `directory` whose files are temporary. On Unix they are unnamed from the
    /// start, so even a killed process leaves none behind. On other systems they are removed on drop.
    ///
    /// # Errors
    ///
    /// The limit is below [`MIN_MEMORY`]. A missing or unwritable directory is reported only when the first run
    /// is written.
    pub fn scratch_in(
        directory: impl AsRef<Path>,
        options: Options<H>,
    ) -> Result<Self, StoreError> {
        options.check()?;
        Ok(Self::empty(directory.as_ref(), options, None))
    }

    /// Creates a new store in `directory`. The directory is created if it does not exist; its parent must
    /// exist.
    ///
    /// # Errors
    ///
    /// The limit is below [`MIN_MEMORY`], or the directory cannot be created, is not writable, or already
    /// contains a store.
    pub fn create(directory: impl AsRef<Path>, options: Options<H>) -> Result<Self, StoreError> {
        options.check()?;
        let directory = directory.as_ref();
        let kept = Directory::create(directory)?;
        kept.write(options.mark(), &[], &[])?;
        Ok(Self::empty(directory, options, Some(kept)))
    }

    /// Opens the persistent store in `directory`, in the state of the last commit.
    ///
    /// # Errors
    ///
    /// The limit is below [`MIN_MEMORY`]. There is no store. The store has another hasher, key or label, is in
    /// use, or has damaged files. Only cheap checks are made: the list of runs, their headers and their
    /// lengths. [`Store::verify`] reads the rest.
    pub fn open(directory: impl AsRef<Path>, options: Options<H>) -> Result<Self, StoreError> {
        options.check()?;
        let directory = directory.as_ref();
        let (kept, metadata, runs) = Directory::open(directory, options.mark())?;
        kept.remove_unlisted(&runs)?;
        Self::empty(directory, options, Some(kept)).holding(metadata, runs)
    }

    /// Reads all files of the store in a directory, and changes none. Returns the number of items.
    ///
    /// # Errors
    ///
    /// As [`Store::open`] and [`Store::verify`].
    pub fn check(directory: impl AsRef<Path>, options: Options<H>) -> Result<u64, StoreError> {
        options.check()?;
        let directory = directory.as_ref();
        let (kept, metadata, runs) = Directory::open(directory, options.mark())?;
        let store = Self::empty(directory, options, Some(kept)).holding(metadata, runs)?;
        store.verify()?;
        Ok(store.len())
    }

    /// The result of [`Store::open`] for a directory with this list and these files, given by name. For tests
    /// with more damaged files than a disk could handle. Items added to this store are not persistent.
    ///
    /// # Errors
    ///
    /// As [`Store::open`].
    #[doc(hidden)]
    pub fn read_files(
        list: Vec<u8>,
        file: impl FnMut(&str) -> Option<Vec<u8>>,
        options: Options<H>,
    ) -> Result<Self, StoreError> {
        options.check()?;
        let (metadata, runs) = Directory::read(list, file, options.mark())?;
        Self::empty(&std::env::temp_dir(), options, None).holding(metadata, runs)
    }

    fn holding(mut self, metadata: Vec<u8>, runs: Vec<Run>) -> Result<Self, StoreError> {
        self.metadata = metadata;
        self.next_id = runs.iter().map(Run::id).max().map_or(0, |id| id + 1);
        self.runs = runs.into_iter().map(Arc::new).collect();
        self.check_room(0)?;
        Ok(self)
    }

    /// [`Store::open`] if the store exists, otherwise [`Store::create`].
    ///
    /// # Errors
    ///
    /// As [`Store::open`] and [`Store::create`].
    pub fn open_or_create(
        directory: impl AsRef<Path>,
        options: Options<H>,
    ) -> Result<Self, StoreError> {
        if Directory::is_in(directory.as_ref()) {
            Self::open(directory, options)
        } else {
            Self::create(directory, options)
        }
    }

    fn empty(directory: &Path, options: Options<H>, kept: Option<Directory>) -> Self {
        Self {
            budget: Budget::of(options.memory),
            options,
            directory: directory.to_owned(),
            kept,
            metadata: Vec::new(),
            runs: Vec::new(),
            next_id: 0,
            max_items: u64::from(u32::MAX),
        }
    }

    /// Starts a batch of items. Committing it adds all of them or none.
    pub fn batch(&mut self) -> Batch<'_, H> {
        Batch::new(self)
    }

    /// The metadata of the last commit by [`Batch::commit_with_metadata`]; empty if there was none.
    #[must_use]
    pub fn metadata(&self) -> &[u8] {
        &self.metadata
    }

    /// Writes the filter of this set to `output`, and flushes it at the end.
    ///
    /// # Errors
    ///
    /// A file cannot be read or is damaged, or `output` fails. The bytes written before the error are not a
    /// filter.
    ///
    /// # Cost
    ///
    /// One pass over all runs. The output is written in pieces of up to 64 KiB. It takes about
    /// [`Params::expected_bytes`], and at most [`Params::max_bytes`], which is large if P is far below log2 M.
    pub fn encode_to<W: Write>(
        &self,
        params: Params,
        mut output: W,
    ) -> Result<Written, StoreError> {
        // `check_room` has checked that N is not larger.
        let n = u32::try_from(self.len()).unwrap_or(u32::MAX);
        let mut encoder = StreamEncoder::new(n, params);
        let mut bytes = 0;
        let mut write = |piece: &[u8]| match output.write_all(piece) {
            Ok(()) => {
                bytes += piece.len() as u64;
                Ok(())
            }
            Err(error) => Err(StoreError(Fault::Output {
                written: bytes,
                error,
            })),
        };
        let (mut repeated, mut last) = (0, None);
        self.merge(&self.runs, |hashes| {
            repeated += equal_neighbours(last, hashes);
            last = hashes.last().copied().or(last);
            encoder.push_hashes(hashes, &mut write)
        })?;
        encoder.finish(&mut write)?;
        output.flush().map_err(|error| {
            StoreError(Fault::Output {
                written: bytes,
                error,
            })
        })?;
        Ok(Written { n, bytes, repeated })
    }

    /// Passes all hashes to `visit`, in order, in pieces of some thousands.
    ///
    /// # Errors
    ///
    /// A file cannot be read or is damaged.
    pub fn for_each_piece(&self, mut visit: impl FnMut(&[u64])) -> Result<(), StoreError> {
        self.merge(&self.runs, |hashes| {
            visit(hashes);
            Ok(())
        })
    }

    /// Reads all runs and verifies their checksums.
    ///
    /// # Errors
    ///
    /// A file cannot be read or is damaged.
    pub fn verify(&self) -> Result<(), StoreError> {
        for run in &self.runs {
            self.merge(std::slice::from_ref(run), |_| Ok(()))?;
        }
        Ok(())
    }

    /// Merges all runs into one, so that later filters need no merge. A commit merges runs automatically if
    /// there are too many files.
    ///
    /// # Errors
    ///
    /// A file cannot be read or written, or is damaged. The store is then unchanged.
    ///
    /// # Cost
    ///
    /// Reads and writes all data once. Until it is done, it needs the same disk space again.
    pub fn compact(&mut self) -> Result<(), StoreError> {
        if self.runs.len() > 1 {
            let runs = self.reduced(self.runs.clone(), 1)?;
            self.adopt(runs, None)?;
        }
        Ok(())
    }

    /// The runs. If there are more than `most`, as few as possible are merged, shortest first.
    fn reduced(
        &mut self,
        mut runs: Vec<Arc<Run>>,
        most: usize,
    ) -> Result<Vec<Arc<Run>>, StoreError> {
        while runs.len() > most {
            runs.sort_by_key(|run| run.items());
            let excess = runs.len() - most + 1;
            let rest = runs.split_off(excess.min(self.budget.fan_in));
            let items = runs.iter().map(|run| run.items()).sum();
            let mut writer = self.new_run(items)?;
            self.merge(&runs, |hashes| writer.push(hashes))?;
            // The files of a batch are removed immediately, which frees disk space.
            runs = rest;
            runs.push(Arc::new(writer.finish(self.kept.is_some())?));
        }
        Ok(runs)
    }

    /// Commits: `runs` become the contents of the store, and `metadata` replaces its metadata, if given.
    fn adopt(&mut self, runs: Vec<Arc<Run>>, metadata: Option<&[u8]>) -> Result<(), StoreError> {
        let metadata = metadata.unwrap_or(&self.metadata).to_vec();
        let Some(kept) = &self.kept else {
            (self.runs, self.metadata) = (runs, metadata);
            return Ok(());
        };
        kept.replace(self.options.mark(), &metadata, &runs)?;
        self.metadata = metadata;
        let old = std::mem::replace(&mut self.runs, runs);
        // The commit cannot be undone from here on. Old files are removed only after the new list is on the disk.
        self.runs.iter().for_each(|run| run.keep(true));
        kept.sync_directory()?;
        for run in old {
            let stays = self.runs.iter().any(|other| other.id() == run.id());
            run.keep(stays);
        }
        Ok(())
    }

    /// Creates the file of a run of `items` hashes.
    fn new_run(&mut self, items: u64) -> Result<RunWriter, StoreError> {
        let header = Header {
            id: self.next_id,
            items,
            mark: self.options.mark(),
        };
        self.next_id += 1;
        let scratch = self.kept.is_none();
        let path = match scratch {
            true => directory::scratch_path(&self.directory),
            false => directory::run_path(&self.directory, header.id),
        };
        RunWriter::create(path, header, scratch, self.budget.chunk)
    }

    fn merge(
        &self,
        runs: &[Arc<Run>],
        sink: impl FnMut(&[u64]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let ahead = self.budget.read_ahead_items(runs.len());
        let readers: Result<Vec<_>, _> = runs
            .iter()
            .map(|run| RunReader::open(run, ahead.min(run::whole_capacity(run.items()))))
            .collect();
        let longest = runs.iter().map(|run| run.items()).max().unwrap_or(0);
        let chunk = self.budget.chunk.min(run::whole_chunk(longest));
        merge::merge(&mut readers?, self.budget.window, chunk, sink)
    }

    /// Checks that this many items fit in addition to the committed ones.
    fn check_room(&self, more: u64) -> Result<(), StoreError> {
        let n = self.len().saturating_add(more);
        if n > self.max_items {
            let limit = self.max_items;
            return Err(StoreError(Fault::TooManyItems { n, limit }));
        }
        Ok(())
    }
}

impl<H> Store<H> {
    /// N: the number of committed items, duplicates included.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.runs
            .iter()
            .fold(0, |sum, run| sum.saturating_add(run.items()))
    }

    /// Returns whether no item was committed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of sorted runs that hold the items.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// The hasher of the items.
    #[must_use]
    pub fn hasher(&self) -> &H {
        &self.options.hasher
    }
}

/// A checksum of local bytes: protects against accidents, not against attackers.
fn fingerprint(bytes: &[u8]) -> u64 {
    Nut23.hash(bytes)
}

/// The number of `hashes` that equal their predecessor. `last` precedes the first one.
fn equal_neighbours(last: Option<u64>, hashes: &[u64]) -> u64 {
    let within = hashes.iter().zip(hashes.iter().skip(1));
    let count: u64 = within.map(|(a, b)| u64::from(a == b)).sum();
    count + u64::from(last.is_some() && last == hashes.first().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_items_are_rejected_on_arrival() {
        let mut store = Store::scratch_in(std::env::temp_dir(), Options::<Nut25>::new(MIN_MEMORY))
            .expect("a store");
        assert_eq!(store.max_items, 0xffff_ffff);
        // The real limit would take too long.
        store.max_items = 20_000;
        let mut batch = store.batch();
        batch.push_hashes(&[1; 15_000]).expect("room");
        batch.commit().expect("a commit");
        let mut batch = store.batch();
        batch.push_hashes(&[2; 5_000]).expect("room");
        let error = batch.push_hashes(&[3]).expect_err("one too many");
        assert_eq!(error.kind(), StoreErrorKind::TooManyItems);
        assert!(error.to_string().starts_with("20001 items"), "{error}");
        drop(batch);
        let mut batch = store.batch();
        batch.push_items([[4; 33]; 5_000]).expect("room");
        batch.commit().expect("a commit");
        assert_eq!(store.len(), 20_000);
    }

    #[test]
    fn equal_neighbours_are_counted_across_pieces() {
        assert_eq!(equal_neighbours(None, &[]), 0);
        assert_eq!(equal_neighbours(Some(0), &[]), 0);
        assert_eq!(equal_neighbours(None, &[0, 0, 1]), 1);
        assert_eq!(equal_neighbours(Some(0), &[0, 0, 1, 1]), 3);
        assert_eq!(equal_neighbours(Some(1), &vec![1; 100]), 100);
    }
}
