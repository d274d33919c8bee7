//! Groups rows of many keysets by keyset and passes them to a sink in batches.

use core::ops::ControlFlow;
use std::collections::{BTreeMap, HashMap};

use nutfilter_cashu::{KeysetId, NoteKind};

use super::schema::NoteTable;
use super::{AsOf, ItemBatch, ItemSink, Reading, Result, RowFault, SourceError};

/// Number of invalid ids that are remembered, for the log.
const MAX_UNSERVABLE: usize = 64;

/// Number of characters of an invalid id that are remembered.
const MAX_ID_CHARS: usize = 128;

/// Collects rows in table order, in which the keysets are mixed.
///
/// # Cost
///
/// One batch of at most [`ItemBatch::FULL`] items per keyset: 170 KiB with compressed points. A row costs one
/// comparison of ids if it has the same keyset as the previous row, and one hash table lookup otherwise.
pub(super) struct ByKeyset<'s> {
    sink: &'s mut dyn ItemSink,
    /// Index in `gathered` of each id as written.
    places: HashMap<Vec<u8>, usize>,
    /// Several spellings of one id share an index.
    known: BTreeMap<KeysetId, usize>,
    /// The first is for rows without a valid keyset id.
    gathered: Vec<(Option<KeysetId>, ItemBatch)>,
    /// The id of the previous row and its index.
    latest: Option<(Vec<u8>, usize)>,
    unservable: Vec<String>,
    notes: &'static NoteTable,
    kind: NoteKind,
}

fn passed(flow: ControlFlow<()>) -> Result<()> {
    match flow {
        ControlFlow::Break(()) => Err(SourceError::Stopped),
        ControlFlow::Continue(()) => Ok(()),
    }
}

impl<'s> ByKeyset<'s> {
    pub(super) fn new(
        sink: &'s mut dyn ItemSink,
        notes: &'static NoteTable,
        kind: NoteKind,
    ) -> Self {
        Self {
            sink,
            notes,
            kind,
            places: HashMap::new(),
            known: BTreeMap::new(),
            gathered: vec![(None, ItemBatch::new())],
            latest: None,
            unservable: vec![],
        }
    }

    /// Takes a row of the keyset with this id, as written, and with this item as stored, or what is wrong with it. `number`
    /// tells which row it is, for an error.
    pub(super) fn row(
        &mut self,
        number: impl FnOnce() -> i64,
        id: &[u8],
        item: Result<&[u8], RowFault>,
    ) -> Result<()> {
        let place = self.place(id);
        let (keyset, batch) = &mut self.gathered[place];
        match item.and_then(|item| self.notes.push(batch, item)) {
            Ok(()) if !batch.is_full() => Ok(()),
            Ok(()) => {
                let flow = self.sink.items(keyset.as_ref(), batch);
                batch.clear();
                passed(flow)
            }
            Err(fault) => {
                let (kind, column, table) = (self.kind, self.notes.item, self.notes.table.name);
                let row = number();
                let of = keyset.as_ref().map_or("unknown", |keyset| keyset.as_str());
                let row =
                    format!("keyset {of}, {kind}: column `{column}` of table `{table}`, row {row}");
                passed(self.sink.bad_row(keyset.as_ref(), SourceError::BadRow(row, fault)))
            }
        }
    }

    /// Passes on the remaining items.
    pub(super) fn finish(self, whole: Option<&'static str>, as_of: AsOf) -> Result<Reading> {
        for (keyset, batch) in &self.gathered {
            if !batch.is_empty() {
                passed(self.sink.items(keyset.as_ref(), batch))?;
            }
        }
        let unservable = self.unservable;
        Ok(Reading { whole, as_of, unservable })
    }

    /// Index of the keyset's batch.
    fn place(&mut self, id: &[u8]) -> usize {
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

    fn new_place(&mut self, id: &[u8]) -> usize {
        let text = core::str::from_utf8(id).ok();
        let Some(keyset) = text.and_then(|text| KeysetId::parse(text).ok()) else {
            self.add_unservable(id);
            // Cache invalid ids too, but only so many: someone may fill the table with them.
            if self.places.len() < MAX_UNSERVABLE * MAX_UNSERVABLE {
                self.places.insert(id.to_vec(), 0);
            }
            return 0;
        };
        let place = *self.known.entry(keyset.clone()).or_insert_with(|| {
            self.gathered.push((Some(keyset), ItemBatch::new()));
            self.gathered.len() - 1
        });
        self.places.insert(id.to_vec(), place);
        place
    }

    fn add_unservable(&mut self, id: &[u8]) {
        let mut text: String = String::from_utf8_lossy(id).chars().take(MAX_ID_CHARS).collect();
        if text.is_empty() {
            text += "empty";
        }
        if self.unservable.len() < MAX_UNSERVABLE && !self.unservable.contains(&text) {
            self.unservable.push(text);
        }
    }
}
