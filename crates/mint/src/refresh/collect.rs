//! Collects items from a source into sets and hashes them on arrival.

use core::ops::ControlFlow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nutfilter::{ItemHash, Nut25};

use super::report::RefreshProgress;
use crate::source::{ItemBatch, ItemSink, SourceError};
use crate::{KeysetId, NoteKind};

/// Items of one reading.
pub(super) struct Collector<'a> {
    kind: NoteKind,
    stop: &'a AtomicBool,
    progress: &'a mut dyn FnMut(RefreshProgress<'_>),
    /// Hashes in order of arrival.
    pub(super) hashes: BTreeMap<KeysetId, Vec<u64>>,
    came: BTreeMap<KeysetId, u64>,
    /// Keysets with an unreadable row, and the first error of each.
    pub(super) bad: BTreeMap<KeysetId, SourceError>,
    /// Number of unreadable rows.
    pub(super) unreadable: u64,
    pub(super) hashing: Duration,
    /// Whether the reading was stopped, so that items are missing.
    pub(super) stopped: bool,
}

impl<'a> Collector<'a> {
    pub(super) fn new(
        kind: NoteKind,
        stop: &'a AtomicBool,
        progress: &'a mut dyn FnMut(RefreshProgress<'_>),
    ) -> Self {
        Self {
            kind,
            stop,
            progress,
            hashes: BTreeMap::new(),
            came: BTreeMap::new(),
            bad: BTreeMap::new(),
            unreadable: 0,
            hashing: Duration::ZERO,
            stopped: false,
        }
    }

    /// Number of items received.
    pub(super) fn came(&self) -> u64 {
        self.came.values().sum()
    }

    fn go_on(&mut self) -> ControlFlow<()> {
        self.stopped |= self.stop.load(Ordering::Relaxed);
        match self.stopped {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
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
        let came = self.came.entry(keyset.clone()).or_default();
        *came += items.len() as u64;
        (self.progress)(RefreshProgress {
            keyset,
            kind: self.kind,
            items: *came,
        });
        self.go_on()
    }

    fn bad_row(&mut self, keyset: &KeysetId, error: SourceError) -> ControlFlow<()> {
        // The first error per keyset is enough.
        self.bad.entry(keyset.clone()).or_insert(error);
        self.unreadable += 1;
        self.go_on()
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
