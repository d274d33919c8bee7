//! A mint's database that may not be available yet.

use nutfilter_mint::NoteKind;
use nutfilter_mint::source::{ItemSink, Keysets, MintSource, Reading, SourceError, Watermark};

use crate::log;

/// Opens the database.
type Open = dyn Fn() -> Result<Box<dyn MintSource>, SourceError> + Send;

/// A source that is opened at its first use. If that fails, the refresh fails with the reason, which is in the log
/// and in `/health`. The next refresh tries again, so there is no separate retry schedule.
pub(super) struct WaitingSource {
    open: Box<Open>,
    opened: Option<Box<dyn MintSource>>,
    /// Whether the log says that opening is tried again.
    told: bool,
}

impl WaitingSource {
    pub(super) fn new(
        open: impl Fn() -> Result<Box<dyn MintSource>, SourceError> + Send + 'static,
    ) -> Self {
        Self {
            open: Box::new(open),
            opened: None,
            told: false,
        }
    }

    /// Opens the source if it is not open yet.
    pub(super) fn opened(&mut self) -> Result<&mut dyn MintSource, SourceError> {
        let source = match self.opened.take() {
            Some(source) => source,
            None => {
                let source = (self.open)().inspect_err(|_| {
                    if !std::mem::replace(&mut self.told, true) {
                        tracing::warn!(
                            target: log::SERVICE,
                            "cannot open the mint's database; retrying at each refresh \
                             (--wait-for-database=off exits instead)"
                        );
                    }
                })?;
                let mint = source.mint();
                tracing::info!(target: log::SERVICE, mint, "opened the mint's database");
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
            .map_or("unknown", |source| source.mint())
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
        // If opening fails, the next read reports it.
        if let Ok(source) = self.opened() {
            source.verify_next();
        }
    }
}
