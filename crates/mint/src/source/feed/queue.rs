//! What waits in a feed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::{BYTES_BESIDE, Wanted};
use crate::source::{ItemBatch, KeysetInfo};
use crate::{KeysetId, Kind};

#[derive(Default)]
pub(super) struct State {
    pub(super) keysets: BTreeMap<KeysetId, KeysetInfo>,
    pub(super) spent: Queue,
    pub(super) issued: Queue,
}

impl State {
    pub(super) fn of(&mut self, kind: Kind) -> &mut Queue {
        match kind {
            Kind::Spent => &mut self.spent,
            Kind::Issued => &mut self.issued,
        }
    }
}

/// The notes of one kind that wait.
pub(super) struct Queue {
    /// Those that a reading has seen, or that fill a batch, with their numbers, which ascend.
    pub(super) batches: VecDeque<(u64, Arc<(KeysetId, ItemBatch)>)>,
    /// The number of the next batch.
    pub(super) next: u64,
    /// Those that came since.
    open: BTreeMap<KeysetId, ItemBatch>,
    pub(super) bytes: usize,
    /// What is being fed, or was.
    pub(super) began: Wanted,
    /// Whether the mint said so; if not, it may be about to ask.
    pub(super) is_said: bool,
    /// Whether batches were dropped since it began, as they had been read.
    dropped: bool,
    /// The mark of the latest checkpoint since it began.
    pub(super) mark: Option<Vec<u8>>,
    /// What a reading asked for.
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

    /// Drops the batches before this one.
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

    /// Empties it, and begins anew after this.
    pub(super) fn begin(&mut self, began: Wanted) {
        // Numbers are not used again: a watermark of before must not fit what comes.
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

    /// The number of the first batch that is still there, or will be.
    pub(super) fn first(&self) -> u64 {
        self.batches
            .front()
            .map_or(self.next, |(number, _)| *number)
    }

    /// Whether it holds all that was to be fed.
    pub(super) fn is_whole(&self) -> bool {
        self.mark.is_some() && !self.dropped
    }
}
