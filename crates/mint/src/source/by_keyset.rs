//! Groups rows of many keysets by keyset and passes them to a sink in batches.

use core::ops::ControlFlow;
use std::collections::{BTreeMap, HashMap};

use super::{ItemBatch, ItemSink, RowFault, SourceError};
use crate::KeysetId;

/// Number of invalid ids that are remembered, for the log.
pub(in crate::source) const MAX_UNSERVABLE: usize = 64;

/// Number of characters of an invalid id that are remembered.
pub(in crate::source) const MAX_ID_CHARS: usize = 128;

/// Collects rows in table order, in which the keysets are mixed.
///
/// # Cost
///
/// One batch of at most [`ItemBatch::FULL`] items per keyset: 170 KiB with compressed points. A row costs one
/// comparison of ids if it has the same keyset as the previous row, and one hash table lookup otherwise.
pub(super) struct ByKeyset<'s> {
    sink: &'s mut dyn ItemSink,
    /// Index in `gathered` of each id as written; `None` for an invalid id.
    places: HashMap<Vec<u8>, Option<usize>>,
    /// Several spellings of one id share an index.
    known: BTreeMap<KeysetId, usize>,
    gathered: Vec<(KeysetId, ItemBatch)>,
    /// The id of the previous row and its index.
    latest: Option<(Vec<u8>, Option<usize>)>,
    unservable: Vec<String>,
    items: u64,
}

fn passed(flow: ControlFlow<()>) -> Result<(), SourceError> {
    match flow {
        ControlFlow::Break(()) => Err(SourceError::Stopped),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Result over all rows.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// Number of items passed on.
    pub(super) items: u64,
    /// Invalid ids.
    pub(super) unservable: Vec<String>,
}

impl<'s> ByKeyset<'s> {
    pub(super) fn new(sink: &'s mut dyn ItemSink) -> Self {
        Self {
            sink,
            places: HashMap::new(),
            known: BTreeMap::new(),
            gathered: vec![],
            latest: None,
            unservable: vec![],
            items: 0,
        }
    }

    /// Takes one row of the keyset with this id, as written. `add` puts the row's item into a batch, or returns
    /// what is wrong with it. `describe` turns a fault into the error to report. Returns whether the keyset can be
    /// served.
    pub(super) fn row(
        &mut self,
        id: &[u8],
        add: impl FnOnce(&mut ItemBatch) -> Result<(), RowFault>,
        describe: impl FnOnce(&KeysetId, RowFault) -> SourceError,
    ) -> Result<bool, SourceError> {
        let Some(place) = self.place(id) else {
            return Ok(false);
        };
        let (keyset, batch) = &mut self.gathered[place];
        let flow = match add(batch) {
            Ok(()) => {
                self.items += 1;
                if !batch.is_full() {
                    return Ok(true);
                }
                let flow = self.sink.items(keyset, batch);
                batch.clear();
                flow
            }
            Err(fault) => {
                let error = describe(keyset, fault);
                self.sink.bad_row(keyset, error)
            }
        };
        passed(flow).map(|()| true)
    }

    /// Passes on a batch that was gathered elsewhere.
    pub(super) fn batch(
        &mut self,
        keyset: &KeysetId,
        batch: &ItemBatch,
    ) -> Result<(), SourceError> {
        self.items += batch.len() as u64;
        passed(self.sink.items(keyset, batch))
    }

    /// Passes on the error of a row that was read elsewhere.
    pub(super) fn bad_row(
        &mut self,
        keyset: &KeysetId,
        error: SourceError,
    ) -> Result<(), SourceError> {
        passed(self.sink.bad_row(keyset, error))
    }

    /// Adds invalid ids that were found elsewhere.
    pub(super) fn add_unservable_ids(&mut self, ids: Vec<String>) {
        for id in ids {
            self.add_unservable(id.as_bytes());
        }
    }

    /// Passes on the remaining items.
    pub(super) fn finish(self) -> Result<Gathered, SourceError> {
        for (keyset, batch) in &self.gathered {
            if !batch.is_empty() {
                passed(self.sink.items(keyset, batch))?;
            }
        }
        Ok(Gathered {
            items: self.items,
            unservable: self.unservable,
        })
    }

    /// Index of the keyset's batch; `None` for an invalid id.
    fn place(&mut self, id: &[u8]) -> Option<usize> {
        if let Some((latest, place)) = &self.latest
            && latest == id
        {
            return *place;
        }
        let place = match self.places.get(id) {
            Some(&place) => place,
            None => self.new_place(id),
        };
        let (latest, of_latest) = self.latest.get_or_insert_default();
        latest.clear();
        latest.extend_from_slice(id);
        *of_latest = place;
        place
    }

    fn new_place(&mut self, id: &[u8]) -> Option<usize> {
        let text = core::str::from_utf8(id).ok();
        let Some(keyset) = text.and_then(|text| KeysetId::parse(text).ok()) else {
            self.add_unservable(id);
            // Cache invalid ids too, but only so many: someone may fill the table with them.
            if self.places.len() < MAX_UNSERVABLE * MAX_UNSERVABLE {
                self.places.insert(id.to_vec(), None);
            }
            return None;
        };
        let place = *self.known.entry(keyset.clone()).or_insert_with(|| {
            self.gathered.push((keyset, ItemBatch::new()));
            self.gathered.len() - 1
        });
        self.places.insert(id.to_vec(), Some(place));
        Some(place)
    }

    fn add_unservable(&mut self, id: &[u8]) {
        let text: String = String::from_utf8_lossy(id)
            .chars()
            .take(MAX_ID_CHARS)
            .collect();
        if self.unservable.len() < MAX_UNSERVABLE && !self.unservable.contains(&text) {
            self.unservable.push(text);
        }
    }
}
