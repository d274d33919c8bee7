//! A mint's database that may not be there yet.

use core::ops::ControlFlow;
use std::sync::OnceLock;

use nutfilter_mint::source::{ItemBatch, Keysets, MintSource, SourceError};
use nutfilter_mint::{KeysetId, Kind};

use crate::log;

/// What opens the database.
type Open = dyn Fn() -> Result<Box<dyn MintSource>, SourceError> + Send + Sync;

/// A source that is opened when it is first asked, and again until that goes well. As long as it does not,
/// every refresh fails with the reason, which is in the log and in `/health`, and is tried again by whoever
/// refreshes: there is no second schedule for it.
pub(super) struct WaitingSource {
    open: Box<Open>,
    opened: OnceLock<Box<dyn MintSource>>,
}

impl WaitingSource {
    pub(super) fn new(
        open: impl Fn() -> Result<Box<dyn MintSource>, SourceError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            open: Box::new(open),
            opened: OnceLock::new(),
        }
    }

    /// Opens it now, if it is not open.
    pub(super) fn opened(&self) -> Result<&dyn MintSource, SourceError> {
        if let Some(source) = self.opened.get() {
            return Ok(source.as_ref());
        }
        let source = (self.open)()?;
        tracing::info!(target: log::SERVICE, mint = source.mint(), "the mint's database is open");
        Ok(self.opened.get_or_init(|| source).as_ref())
    }
}

impl MintSource for WaitingSource {
    fn mint(&self) -> &str {
        self.opened
            .get()
            .map_or("not known yet", |source| source.mint())
    }

    fn keysets(&self) -> Result<Keysets, SourceError> {
        self.opened()?.keysets()
    }

    fn stream(
        &self,
        keyset: &KeysetId,
        kind: Kind,
        sink: &mut dyn FnMut(&ItemBatch) -> ControlFlow<()>,
    ) -> Result<u64, SourceError> {
        self.opened()?.stream(keyset, kind, sink)
    }
}
