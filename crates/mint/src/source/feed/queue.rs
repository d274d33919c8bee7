//! The queue of a feed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::{BYTES_BESIDE, Wanted};
use crate::source::{ItemBatch, KeysetInfo};
use crate::{KeysetId, NoteKind};

#[derive(Default)]
pub(super) struct State {
    pub(super) keysets: BTreeMap<KeysetId, KeysetInfo>,
    pub(super) spent: Queue,
    pub(super) issued: Queue,
}

impl State {
    pub(super) fn of(&mut self, kind: NoteKind) -> &mut Queue {
        match kind {
            NoteKind::Spent => &mut self.spent,
            NoteKind::Issued => &mut self.issued,
        }
    }
}

/// The queued notes of one kind.
pub(super) struct Queue {
    /// Batches that a reading has seen or that are full, with their ascending numbers.
    pub(super) batches: VecDeque<(u64, Arc<(KeysetId, ItemBatch)>)>,
    /// The number of the next batch.
    pub(super) next: u64,
    /// Notes that came later.
    open: BTreeMap<KeysetId, ItemBatch>,
    pub(super) bytes: usize,
    /// The notes that the mint is feeding or has fed.
    pub(super) began: Wanted,
    /// Whether the mint called `begin`. If not, it may be about to ask what is wanted.
    pub(super) is_said: bool,
    /// Whether batches were dropped after they were read, since the last `begin`.
    dropped: bool,
    /// The mark of the latest checkpoint since the last `begin`.
    pub(super) mark: Option<Vec<u8>>,
    /// The notes that a reading asked for.
    pub(super) wanted: Option<Wanted>,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            batches: VecDeque::new(),
            next: 0,
            open: BTreeMap::new(),
            bytes: 0,
            began: Wanted::Everything,
            is_said: false,
            dropped: false,
            mark: None,
            wanted: None,
        }
    }
}

impl Queue {
    pub(super) fn push(&mut self, keyset: &KeysetId, item: &[u8]) {
        self.bytes += item.len() + BYTES_BESIDE;
        if !self.open.contains_key(keyset) {
            self.open.insert(keyset.clone(), ItemBatch::new());
        }
        if let Some(batch) = self.open.get_mut(keyset) {
            batch.push(item);
            if batch.is_full() {
                let full = core::mem::take(batch);
                self.close(keyset.clone(), full);
            }
        }
    }

    fn close(&mut self, keyset: KeysetId, batch: ItemBatch) {
        self.batches
            .push_back((self.next, Arc::new((keyset, batch))));
        self.next += 1;
    }

    pub(super) fn close_all(&mut self) {
        for (keyset, batch) in core::mem::take(&mut self.open) {
            if !batch.is_empty() {
                self.close(keyset, batch);
            }
        }
    }

    /// Drops the batches before number `first`.
    pub(super) fn drop_before(&mut self, first: u64) {
        while self.first() < first
            && let Some((_, batch)) = self.batches.pop_front()
        {
            let (_, items) = &*batch;
            let bytes: usize = items.items().map(|item| item.len() + BYTES_BESIDE).sum();
            self.bytes -= bytes;
            self.dropped = true;
        }
    }

    /// Empties the queue and starts a new feed.
    pub(super) fn begin(&mut self, began: Wanted) {
        // Numbers are never reused: an earlier watermark must not match the new batches.
        self.batches.clear();
        self.next += 1;
        self.open.clear();
        self.bytes = 0;
        self.began = began;
        self.is_said = true;
        self.dropped = false;
        self.mark = None;
        self.wanted = None;
    }

    /// The number of the first batch that is queued, or that will be.
    pub(super) fn first(&self) -> u64 {
        self.batches
            .front()
            .map_or(self.next, |(number, _)| *number)
    }

    /// Whether the queue holds everything that was to be fed.
    pub(super) fn is_whole(&self) -> bool {
        self.mark.is_some() && !self.dropped
    }
}
