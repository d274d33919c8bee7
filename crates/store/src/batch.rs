//! [`Batch`]: a transaction that adds items to a store.

use std::num::NonZeroUsize;
use std::sync::Arc;

use crate::error::{Fault, StoreError};
use crate::run::Run;
use crate::{MAX_METADATA_BYTES, Store};
use nutfilter::{ItemHash, Nut25, SortedHashes};

/// The number of items that are hashed at once, and the bytes that are held for that.
const HASHED_AT_ONCE: usize = 256;
const HELD_BYTES: usize = 16 << 10;

/// Items that are being added to a [`Store`]. They are part of the store after [`commit`](Self::commit).
///
/// If a batch is dropped before that, or fails, all its items are lost and the store is unchanged. A mint whose
/// database fails during a read starts again with a new batch.
#[derive(Debug)]
pub struct Batch<'s, H: ItemHash = Nut25> {
    store: &'s mut Store<H>,
    /// The number of items in `runs` and in `hashes`.
    n: u64,
    runs: Vec<Arc<Run>>,
    /// Not sorted yet.
    hashes: Vec<u64>,
    /// Consecutive items of one length that are not hashed yet.
    held: Vec<u8>,
    held_width: usize,
    /// An error occurred that may have lost items.
    failed: bool,
}

impl<'s, H: ItemHash> Batch<'s, H> {
    pub(crate) fn new(store: &'s mut Store<H>) -> Self {
        Self {
            store,
            n: 0,
            runs: Vec::new(),
            hashes: Vec::new(),
            held: Vec::new(),
            held_width: 0,
            failed: false,
        }
    }

    /// Adds one item, given as raw bytes. Consecutive items of one length are hashed together.
    ///
    /// # Errors
    ///
    /// A full run cannot be written, there are more than 2^32 - 1 items, or the memory that the limit allows
    /// cannot be allocated. After such an error the batch cannot be committed.
    pub fn push_item(&mut self, item: impl AsRef<[u8]>) -> Result<(), StoreError> {
        let item = item.as_ref();
        let full = self.held.len() + item.len() > HELD_BYTES;
        if full || item.len() != self.held_width {
            self.hash_held()?;
            self.held_width = item.len();
        }
        if item.is_empty() || item.len() > HELD_BYTES {
            let hash = self.store.options.hasher.hash(item);
            return self.push_hashes(&[hash]);
        }
        self.held.extend_from_slice(item);
        Ok(())
    }

    /// Adds all of `items`, in any order.
    ///
    /// # Errors
    ///
    /// As [`Batch::push_item`].
    pub fn push_items<I: IntoIterator<Item: AsRef<[u8]>>>(
        &mut self,
        items: I,
    ) -> Result<(), StoreError> {
        items.into_iter().try_for_each(|item| self.push_item(item))
    }

    /// Adds the records of `record_bytes` bytes each that lie one after another in `records`.
    ///
    /// # Errors
    ///
    /// As [`Batch::push_item`]. Also fails if `records` is not a whole number of records; then no record is
    /// added.
    pub fn push_records(&mut self, records: &[u8], record_bytes: usize) -> Result<(), StoreError> {
        let width = NonZeroUsize::new(record_bytes)
            .filter(|width| records.len().is_multiple_of(width.get()))
            .ok_or(StoreError(Fault::RecordLength {
                len: records.len(),
                record_bytes,
            }))?;
        self.hash_held()?;
        self.hash_records(records, width)
    }

    /// Adds items given by their hashes, in any order.
    ///
    /// # Errors
    ///
    /// As [`Batch::push_item`].
    pub fn push_hashes(&mut self, mut hashes: &[u64]) -> Result<(), StoreError> {
        while !hashes.is_empty() {
            let room = self.room(hashes.len())?;
            let (first, rest) = hashes.split_at(room);
            self.hashes.extend_from_slice(first);
            hashes = rest;
        }
        Ok(())
    }

    /// The number of items added so far.
    #[must_use]
    pub fn len(&self) -> u64 {
        let held = self.held.len().checked_div(self.held_width);
        self.n + held.unwrap_or(0) as u64
    }

    /// Returns whether no item was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all added items and clears an error, so that the caller can start again.
    pub fn clear(&mut self) {
        self.n = 0;
        self.runs.clear();
        self.hashes.clear();
        self.held.clear();
        self.failed = false;
    }

    /// Adds all items to the store. In a persistent store they are then on the disk.
    ///
    /// # Errors
    ///
    /// As [`Batch::push_item`]. Errors of merging occur if there are more runs than can be read at once. After
    /// an error the store is unchanged, with one exception. If
    /// [`StoreErrorKind::Io`](crate::StoreErrorKind::Io) concerns syncing the store's directory, the items are
    /// in the store, but possibly not yet on the disk.
    pub fn commit(self) -> Result<(), StoreError> {
        self.commit_all(None)
    }

    /// [`Batch::commit`] with metadata that is stored together with the items, for example where reading them
    /// ended. Both are committed, or neither. The metadata replaces that of the previous commit, even if no item
    /// was added.
    ///
    /// # Errors
    ///
    /// As [`Batch::commit`]. Also fails if the metadata has more than [`MAX_METADATA_BYTES`].
    pub fn commit_with_metadata(self, metadata: &[u8]) -> Result<(), StoreError> {
        if metadata.len() > MAX_METADATA_BYTES {
            return Err(StoreError(Fault::LongMetadata {
                bytes: metadata.len(),
            }));
        }
        self.commit_all(Some(metadata))
    }

    fn commit_all(mut self, metadata: Option<&[u8]>) -> Result<(), StoreError> {
        self.hash_held()?;
        self.guarded(Self::write_run)?;
        // Merging uses the memory that collecting used.
        drop(std::mem::take(&mut self.hashes));
        let news = metadata.is_some_and(|metadata| metadata != self.store.metadata);
        if self.runs.is_empty() && !news {
            return Ok(());
        }
        let mut runs = self.store.runs.clone();
        runs.append(&mut self.runs);
        let runs = self.store.reduced(runs, self.store.budget.fan_in)?;
        self.store.adopt(runs, metadata)
    }

    fn hash_held(&mut self) -> Result<(), StoreError> {
        if let Some(width) = NonZeroUsize::new(self.held_width) {
            let held = std::mem::take(&mut self.held);
            self.hash_records(&held, width)?;
            self.held = held;
        }
        self.held.clear();
        Ok(())
    }

    fn hash_records(&mut self, records: &[u8], width: NonZeroUsize) -> Result<(), StoreError> {
        for records in records.chunks(HASHED_AT_ONCE * width.get()) {
            let mut records = records;
            while !records.is_empty() {
                let room = self.room(records.len() / width)?;
                let (first, rest) = records.split_at(room * width.get());
                let from = self.hashes.len();
                self.hashes.resize(from + room, 0);
                let options = &self.store.options;
                let places = &mut self.hashes[from..];
                options.hasher.hash_records(first, width, places);
                records = rest;
            }
        }
        Ok(())
    }

    /// Reserves room for up to `wanted` more hashes, at least one, and counts them as added.
    fn room(&mut self, wanted: usize) -> Result<usize, StoreError> {
        let run_items = self.store.budget.run_items;
        self.guarded(|batch| batch.reserve(run_items))?;
        let room = wanted.min(run_items - self.hashes.len());
        self.guarded(|batch| batch.store.check_room(batch.n + room as u64))?;
        self.n += room as u64;
        Ok(room)
    }

    /// Runs an operation that may lose items if it fails.
    fn guarded(
        &mut self,
        step: impl FnOnce(&mut Self) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        if self.failed {
            return Err(StoreError(Fault::Abandoned));
        }
        let done = step(self);
        self.failed = done.is_err();
        done
    }

    /// Makes room for at least one hash.
    fn reserve(&mut self, run_items: usize) -> Result<(), StoreError> {
        if self.hashes.len() >= run_items {
            self.write_run()?;
        }
        if self.hashes.capacity() < run_items {
            // Reserves the whole run, because growing would hold the old and the new vector at once. The system
            // provides memory only when it is written.
            let reserved = self.hashes.try_reserve_exact(run_items);
            reserved.map_err(|_| {
                StoreError(Fault::OutOfMemory {
                    bytes: run_items * 8,
                })
            })?;
        }
        Ok(())
    }

    /// Sorts the collected hashes and writes them as a run.
    fn write_run(&mut self) -> Result<(), StoreError> {
        if self.hashes.is_empty() {
            return Ok(());
        }
        let gathered = std::mem::take(&mut self.hashes);
        // The sorted vector is another one, and its capacity may exceed the limit for collecting. Drop it; the
        // next hashes get a new one.
        let sorted = SortedHashes::from_hashes(gathered).into_hashes();
        let mut writer = self.store.new_run(sorted.len() as u64)?;
        writer.push(&sorted)?;
        let run = writer.finish(self.store.kept.is_some())?;
        drop(sorted);
        self.runs.push(Arc::new(run));
        let most = self.store.budget.fan_in;
        if self.runs.len() + self.store.runs.len() >= most && self.runs.len() > most / 2 {
            let runs = std::mem::take(&mut self.runs);
            self.runs = self.store.reduced(runs, most / 2)?;
        }
        Ok(())
    }
}
