//! The mint's database, which may not be available yet.

use nutfilter_mint::NoteKind;
use nutfilter_mint::source::{self, ItemSink, Keysets, MintSource, Reading, SourceError};

use super::locks::is_locked;
use super::options::ServeOptions;
use crate::log;

/// A database that may not be available yet: it is opened at its first use. If that fails, the refresh fails with the reason,
/// and the next refresh tries again.
pub(super) struct Waiting {
    location: source::DatabaseLocation,
    mint_type: Option<source::MintType>,
    opened: Option<Box<dyn MintSource>>,
}

impl Waiting {
    pub(super) fn new(options: &ServeOptions) -> Self {
        Self { location: options.mint_database.clone(), mint_type: options.mint_type, opened: None }
    }

    fn opened(&mut self) -> Result<&mut dyn MintSource, SourceError> {
        let source = match self.opened.take() {
            Some(source) => source,
            None => {
                let source = source::open_alone(&self.location, self.mint_type, is_locked)?;
                tracing::info!(target: log::SERVICE, mint = source.mint(), "opened the mint's database");
                source
            }
        };
        Ok(self.opened.insert(source).as_mut())
    }
}

impl MintSource for Waiting {
    fn mint(&self) -> &str {
        self.opened.as_ref().map_or("unknown", |source| source.mint())
    }

    fn keysets(&mut self) -> Result<Keysets, SourceError> {
        self.opened()?.keysets()
    }

    fn read(
        &mut self,
        kind: NoteKind,
        whole: bool,
        sink: &mut dyn ItemSink,
    ) -> Result<Reading, SourceError> {
        self.opened()?.read(kind, whole, sink)
    }

    fn is_alone(&self) -> bool {
        self.opened.as_ref().is_some_and(|source| source.is_alone())
    }
}
