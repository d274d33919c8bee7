//! Collects items from a source into sets and hashes them on arrival.

use core::ops::ControlFlow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nutfilter::{ItemHash, Nut25, SortedHashes};

use super::report::{RefreshError, RefreshProgress};
use crate::source::{ItemBatch, ItemSink, SourceError};
use crate::state::{COLLECT_LIMIT, DataDirectory, KeysetHashes, StateError};
use crate::{KeysetId, NoteKind};

/// Items of one reading.
pub(super) struct Collector<'a> {
    kind: NoteKind,
    stop: &'a AtomicBool,
    progress: &'a mut dyn FnMut(RefreshProgress<'_>),
    beyond: Beyond<'a>,
    /// Hashes in order of arrival.
    pub(super) hashes: BTreeMap<KeysetId, Vec<u64>>,
    held: usize,
    came: BTreeMap<KeysetId, u64>,
    /// Keysets with an unreadable row, and the first error of each.
    pub(super) bad: BTreeMap<KeysetId, SourceError>,
    /// Number of unreadable rows.
    pub(super) unreadable: u64,
    pub(super) hashing: Duration,
    /// Why the sink stopped the reading.
    pub(super) failed: Option<RefreshError>,
}

/// The reaction to more hashes than fit into the memory limit.
pub(super) enum Beyond<'a> {
    /// There is no limit.
    Never,
    /// Stop the reading.
    TooMany,
    /// Move the hashes into sets on disk.
    Disk {
        directory: &'a mut DataDirectory,
        sets: BTreeMap<KeysetId, KeysetHashes>,
        as_of: u64,
    },
}

impl<'a> Collector<'a> {
    pub(super) fn new(
        kind: NoteKind,
        stop: &'a AtomicBool,
        progress: &'a mut dyn FnMut(RefreshProgress<'_>),
        beyond: Beyond<'a>,
    ) -> Self {
        Self {
            kind,
            stop,
            progress,
            beyond,
            hashes: BTreeMap::new(),
            held: 0,
            came: BTreeMap::new(),
            bad: BTreeMap::new(),
            unreadable: 0,
            hashing: Duration::ZERO,
            failed: None,
        }
    }

    /// Number of items received.
    pub(super) fn came(&self) -> u64 {
        self.came.values().sum()
    }

    /// The sets of a full reading.
    pub(super) fn into_sets(mut self) -> Result<BTreeMap<KeysetId, KeysetHashes>, StateError> {
        self.spill()?;
        if let Beyond::Disk { sets, .. } = self.beyond {
            return Ok(sets);
        }
        let sets = self.hashes.into_iter().map(|(keyset, hashes)| {
            let set = KeysetHashes::in_memory(SortedHashes::from_hashes(hashes));
            (keyset, set)
        });
        Ok(sets.collect())
    }

    /// Moves the collected hashes to disk, if this reading uses the disk.
    fn spill(&mut self) -> Result<(), StateError> {
        let Beyond::Disk {
            directory,
            sets,
            as_of,
            ..
        } = &mut self.beyond
        else {
            return Ok(());
        };
        while let Some((keyset, hashes)) = self.hashes.pop_first() {
            directory.add(self.kind, &keyset, sets, hashes, *as_of)?;
        }
        self.held = 0;
        Ok(())
    }

    fn has_room(&mut self) -> Result<(), RefreshError> {
        match self.beyond {
            Beyond::TooMany if self.held > COLLECT_LIMIT => {
                let reason = format!("more than {COLLECT_LIMIT} items are new");
                Err(SourceError::rescan(reason).into())
            }
            Beyond::Disk { .. } if self.held > COLLECT_LIMIT => Ok(self.spill()?),
            _ => Ok(()),
        }
    }

    fn go_on(&mut self, result: Result<(), RefreshError>) -> ControlFlow<()> {
        let error = match result {
            Ok(()) if self.stop.load(Ordering::Relaxed) => SourceError::Stopped.into(),
            Ok(()) => return ControlFlow::Continue(()),
            Err(error) => error,
        };
        self.failed = Some(error);
        ControlFlow::Break(())
    }
}

impl ItemSink for Collector<'_> {
    fn items(&mut self, keyset: &KeysetId, items: &ItemBatch) -> ControlFlow<()> {
        let start = Instant::now();
        if !self.hashes.contains_key(keyset) {
            self.hashes.insert(keyset.clone(), vec![]);
        }
        if let Some(hashes) = self.hashes.get_mut(keyset) {
            hash_batch(items, hashes);
        }
        self.hashing += start.elapsed();
        self.held += items.len();
        let came = self.came.entry(keyset.clone()).or_default();
        *came += items.len() as u64;
        (self.progress)(RefreshProgress {
            keyset,
            kind: self.kind,
            items: *came,
        });
        let room = self.has_room();
        self.go_on(room)
    }

    fn bad_row(&mut self, keyset: &KeysetId, error: SourceError) -> ControlFlow<()> {
        // The first error per keyset is enough.
        self.bad.entry(keyset.clone()).or_insert(error);
        self.unreadable += 1;
        self.go_on(Ok(()))
    }
}

fn hash_batch(batch: &ItemBatch, hashes: &mut Vec<u64>) {
    let hashed = hashes.len();
    match batch.records() {
        Some((records, length)) => {
            hashes.resize(hashed + batch.len(), 0);
            Nut25.hash_records(records, length, &mut hashes[hashed..]);
        }
        None => hashes.extend(batch.items().map(|item| Nut25.hash(item))),
    }
}
