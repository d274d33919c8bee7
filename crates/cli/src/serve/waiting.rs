//! A mint's database that may not be there yet.

use nutfilter_mint::NoteKind;
use nutfilter_mint::source::{ItemSink, Keysets, MintSource, Reading, SourceError, Watermark};

use crate::log;

/// What opens the database.
type Open = dyn Fn() -> Result<Box<dyn MintSource>, SourceError> + Send;

/// A source that is opened when it is first asked, and again until that goes well. As long as it does not,
/// every refresh fails with the reason, which is in the log and in `/health`, and is tried again by whoever
/// refreshes: there is no second schedule for it.
pub(super) struct WaitingSource {
    open: Box<Open>,
    opened: Option<Box<dyn MintSource>>,
}

impl WaitingSource {
    pub(super) fn new(
        open: impl Fn() -> Result<Box<dyn MintSource>, SourceError> + Send + 'static,
    ) -> Self {
        Self {
            open: Box::new(open),
            opened: None,
        }
    }

    /// Opens it now, if it is not open.
    pub(super) fn opened(&mut self) -> Result<&mut dyn MintSource, SourceError> {
        let source = match self.opened.take() {
            Some(source) => source,
            None => {
                let source = (self.open)()?;
                let mint = source.mint();
                tracing::info!(target: log::SERVICE, mint, "the mint's database is open");
                source
            }
        };
        Ok(self.opened.insert(source).as_mut())
    }
}

impl MintSource for WaitingSource {
    fn mint(&self) -> &str {
        self.opened
            .as_ref()
            .map_or("not known yet", |source| source.mint())
    }

    fn keysets(&mut self) -> Result<Keysets, SourceError> {
        self.opened()?.keysets()
    }

    fn read(
        &mut self,
        kind: NoteKind,
        since: Option<&Watermark>,
        sink: &mut dyn ItemSink,
    ) -> Result<Reading, SourceError> {
        self.opened()?.read(kind, since, sink)
    }

    fn verify_next(&mut self) {
        // Where it cannot be opened, the reading says so.
        if let Ok(source) = self.opened() {
            source.verify_next();
        }
    }
}
