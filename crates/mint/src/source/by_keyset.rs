//! Rows of many keysets on their way to a sink: gathered by keyset, handed on in batches.

use std::collections::{BTreeMap, HashMap};

use super::{ItemBatch, ItemSink, RowFault, SourceError};
use crate::KeysetId;

/// How many ids that are none are remembered: enough to wonder about.
pub(in crate::source) const MAX_UNSERVABLE: usize = 64;

/// How much of an id that is none is remembered.
pub(in crate::source) const MAX_ID_CHARS: usize = 128;

/// Gathers rows as a table gives them, in which the keysets are mixed.
///
/// # Cost
///
/// A batch of at most [`ItemBatch::FULL`] items for each keyset: 170 KiB, of compressed points. A row costs one
/// comparison of ids, where it is of the same keyset as the row before, and one look-up in a hash table otherwise.
pub(super) struct ByKeyset<'s> {
    sink: &'s mut dyn ItemSink,
    /// The place in `gathered` of each id as it was written; `None` for what is no id.
    places: HashMap<Vec<u8>, Option<usize>>,
    /// Those of ids that are spelled in several ways are one.
    known: BTreeMap<KeysetId, usize>,
    gathered: Vec<(KeysetId, ItemBatch)>,
    /// The id of the row before, and its place.
    latest: Option<(Vec<u8>, Option<usize>)>,
    unservable: Vec<String>,
    items: u64,
}

/// What came of all rows.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// How many items were handed on.
    pub(super) items: u64,
    /// Ids that are none.
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

    /// Takes one row of the keyset whose id is written so: `add` puts its item into a batch, or says what is
    /// wrong with it, of which `describe` makes the error to report. Says whether the keyset can be served.
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
        match flow.is_break() {
            true => Err(SourceError::Stopped),
            false => Ok(true),
        }
    }

    /// Hands on what is left.
    pub(super) fn finish(self) -> Result<Gathered, SourceError> {
        for (keyset, batch) in &self.gathered {
            if !batch.is_empty() && self.sink.items(keyset, batch).is_break() {
                return Err(SourceError::Stopped);
            }
        }
        Ok(Gathered {
            items: self.items,
            unservable: self.unservable,
        })
    }

    /// Where the items of the keyset are gathered; `None` if what should be an id is none.
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
            // Remembered too, unless somebody fills the table with inventions.
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
