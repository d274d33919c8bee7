//! Reads the items of a keyset from a mint's database.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use nutfilter_cashu::{KeysetId, NoteKind};
use nutfilter_mint::source::{
    self, DatabaseLocation, ItemBatch, MintSource, MintType, SourceError,
};

use crate::error::CliError;
use crate::globals::Globals;
use crate::items::ItemSink;
use crate::log;
use crate::progress::Progress;

pub(super) fn open(
    database: &str,
    mint_type: Option<MintType>,
    keyset: &str,
    globals: &Globals,
) -> Result<(Box<dyn MintSource>, KeysetId), CliError> {
    let keyset = keyset
        .parse()
        .map_err(|error| CliError::at("--keyset", error))?;
    log::start_command(globals);
    let location = DatabaseLocation::parse(database)?;
    let source = source::open(&location, mint_type)?;
    Ok((source, keyset))
}

/// Reads all items of a kind of a keyset into `sink`.
pub(super) fn read(
    mut source: Box<dyn MintSource>,
    keyset: &KeysetId,
    kind: NoteKind,
    globals: &Globals,
    sink: &mut dyn ItemSink,
) -> Result<(), CliError> {
    source::retry_changed(|| {
        let progress = Progress::items(globals, format!("reading {}", source.mint()), None);
        sink.restart();
        let mut of_keyset = OfKeyset {
            keyset,
            sink,
            progress,
            found: vec![],
            failed: None,
        };
        let read = source.read(kind, true, &mut of_keyset);
        match (of_keyset.failed, read) {
            // The sink's error is the reason why the read stopped.
            (Some(NotTaken::Sink(error)), _) => Ok(Err(error)),
            (Some(NotTaken::Row(error)), _) => Err(error),
            (None, Err(error)) => Err(error),
            (None, Ok(_)) => Ok(check_known(&mut source, keyset, of_keyset.found)),
        }
    })?
}

/// Filters the items of one keyset.
struct OfKeyset<'a> {
    keyset: &'a KeysetId,
    sink: &'a mut dyn ItemSink,
    progress: Progress,
    /// The keysets that have items.
    found: Vec<KeysetId>,
    failed: Option<NotTaken>,
}

enum NotTaken {
    Row(SourceError),
    Sink(CliError),
}

impl source::ItemSink for OfKeyset<'_> {
    fn items(&mut self, keyset: &KeysetId, items: &ItemBatch) -> ControlFlow<()> {
        if !self.found.contains(keyset) {
            self.found.push(keyset.clone());
        }
        if keyset != self.keyset {
            return ControlFlow::Continue(());
        }
        self.progress.advance(items.len() as u64);
        let taken = match items.records() {
            Some((records, width)) => self.sink.push_records(records, width),
            None => items.items().try_for_each(|item| self.sink.push(item)),
        };
        match taken {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.failed = Some(NotTaken::Sink(error));
                ControlFlow::Break(())
            }
        }
    }

    fn bad_row(&mut self, keyset: &KeysetId, error: SourceError) -> ControlFlow<()> {
        if keyset != self.keyset {
            return ControlFlow::Continue(());
        }
        self.failed = Some(NotTaken::Row(error));
        ControlFlow::Break(())
    }
}

/// A keyset without notes has an empty filter. A keyset that the mint does not have is an error.
fn check_known(
    source: &mut dyn MintSource,
    asked: &KeysetId,
    found: Vec<KeysetId>,
) -> Result<(), CliError> {
    let listed = source.keysets()?;
    if !listed.unservable.is_empty() {
        tracing::warn!(ids = ?listed.unservable, "skipping invalid keyset ids");
    }
    let listed = listed.keysets.into_iter().map(|keyset| keyset.id);
    let known: BTreeSet<KeysetId> = listed.chain(found).collect();
    if known.contains(asked) {
        return Ok(());
    }
    let known: Vec<&str> = known.iter().map(KeysetId::as_str).collect();
    Err(CliError::failed(format_args!(
        "the database has no keyset {asked}; it has {}",
        if known.is_empty() {
            "no keysets".to_owned()
        } else {
            known.join(", ")
        }
    )))
}
