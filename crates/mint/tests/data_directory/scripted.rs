//! A mint controlled by the test: bad rows, errors in the middle, ids with several spellings.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, UNIX_EPOCH};

use nutfilter::{Params, SortedHashes};
use nutfilter_mint::source::{
    ItemBatch, ItemSink, KeysetInfo, Keysets, MintSource, Reading, RowFault, SourceError, Watermark,
};
use nutfilter_mint::{
    DataDirectory, FilterService, FinishedFilter, KeysetId, NoteKind, Refresher, RefresherOptions,
};

/// The contents and behaviour of the mint, the same for both kinds.
#[derive(Debug, Default)]
pub(crate) struct Script {
    pub(crate) now: u64,
    pub(crate) listed: Vec<&'static str>,
    /// Notes by number, in order of arrival.
    pub(crate) notes: Vec<(&'static str, u64)>,
    /// Keysets with an unreadable row.
    pub(crate) bad: Vec<&'static str>,
    /// Whether readings fail after all items were passed on.
    pub(crate) fails: bool,
    /// Whether readings panic.
    pub(crate) panics: bool,
    /// Number of earlier notes that are repeated.
    pub(crate) overlap: usize,
    /// Whether incremental readings find nothing.
    pub(crate) forgets: bool,
    /// Whether the keysets cannot be listed.
    pub(crate) lists_nothing: bool,
    /// Whether it cannot tell the number of notes.
    pub(crate) uncounted: bool,
    /// Whether earlier readings cannot be continued.
    pub(crate) starts_over: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Scripted(Arc<Mutex<Script>>);

pub(crate) fn note(number: u64) -> [u8; 33] {
    let mut note = [2; 33];
    note[1..9].copy_from_slice(&number.to_le_bytes());
    note
}

/// A data directory, and a mint with these notes in second 10.
pub(crate) fn scripted(notes: &[(&'static str, u64)]) -> (tempfile::TempDir, Scripted) {
    (tempfile::tempdir().unwrap(), Scripted::of(notes))
}

impl Scripted {
    pub(crate) fn of(notes: &[(&'static str, u64)]) -> Self {
        let script = Script {
            now: 10,
            notes: notes.to_vec(),
            ..Script::default()
        };
        Self(Arc::new(Mutex::new(script)))
    }

    pub(crate) fn script(&self) -> MutexGuard<'_, Script> {
        // A deliberate panic must not poison the lock.
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn refresher(&self, directory: &Path) -> Refresher {
        self.refresher_in(Some(crate::open(|| DataDirectory::open(directory))))
    }

    pub(crate) fn refresher_in_memory(&self) -> Refresher {
        self.refresher_in(None)
    }

    fn refresher_in(&self, data_directory: Option<DataDirectory>) -> Refresher {
        let clock = self.clone();
        let clock = move || UNIX_EPOCH + Duration::from_secs(clock.script().now);
        let options = RefresherOptions {
            data_directory,
            restamp_after: Duration::ZERO,
            clock: Some(Box::new(clock)),
            ..RefresherOptions::default()
        };
        Refresher::with_options(self.clone(), FilterService::default(), options)
    }
}

/// Whether a filter contains exactly these notes.
pub(crate) fn is_of(filter: &FinishedFilter, notes: impl IntoIterator<Item = u64>) -> bool {
    let items = notes.into_iter().map(note);
    let expected = SortedHashes::from_items(items);
    filter.raw()[..] == *expected.encode(Params::CASHU).unwrap().bytes()
}

/// The spent filter of a keyset.
pub(crate) fn spent(service: &FilterService, keyset: &str) -> Option<Arc<FinishedFilter>> {
    let keyset = KeysetId::parse(keyset).unwrap();
    let snapshot = service.snapshot()?;
    snapshot.keyset(&keyset)?.filter(NoteKind::Spent).cloned()
}

impl MintSource for Scripted {
    fn mint(&self) -> &str {
        "scripted"
    }

    fn keysets(&mut self) -> Result<Keysets, SourceError> {
        let script = self.script();
        if script.lists_nothing {
            return Err(SourceError::Other("asked to list nothing".into()));
        }
        let ids = script.listed.iter().map(|id| id.parse().unwrap());
        Ok(Keysets::of(ids.map(KeysetInfo::new)))
    }

    fn read(
        &mut self,
        kind: NoteKind,
        since: Option<&Watermark>,
        sink: &mut dyn ItemSink,
    ) -> Result<Reading, SourceError> {
        let script = self.script();
        if script.starts_over && since.is_some() {
            let reason = "it was asked to".to_owned();
            return Err(SourceError::RescanRequired(reason));
        }
        let first = since.map_or(0, |since| {
            usize::from_le_bytes(since.as_bytes().try_into().unwrap())
        });
        let first = match since {
            Some(_) if script.forgets => script.notes.len(),
            _ => first.saturating_sub(script.overlap),
        };
        for notes in script.notes[first..].chunk_by(|(a, _), (b, _)| a == b) {
            let mut batch = ItemBatch::new();
            notes
                .iter()
                .for_each(|(_, number)| batch.push(&note(*number)));
            if sink.items(&notes[0].0.parse().unwrap(), &batch).is_break() {
                return Err(SourceError::Stopped);
            }
        }
        for keyset in &script.bad {
            let keyset: KeysetId = keyset.parse().unwrap();
            let error = SourceError::BadRow {
                table: "notes",
                column: "item",
                keyset: keyset.clone(),
                kind,
                row: 1,
                fault: RowFault::Empty,
            };
            if sink.bad_row(&keyset, error).is_break() {
                return Err(SourceError::Stopped);
            }
        }
        assert!(!script.panics, "asked to panic");
        if script.fails {
            return Err(SourceError::Other("asked to fail".into()));
        }
        let read = script.notes.len();
        let watermark = Watermark::new(read.to_le_bytes().to_vec());
        let mut reading = Reading::until(watermark, read as u64);
        reading.total = reading.total.filter(|_| !script.uncounted);
        Ok(reading)
    }
}
