//! A mint made of two functions, a clock that is set, and waiting for an event.

use core::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use nutfilter_mint::source::{
    ItemBatch, ItemSink, KeysetInfo, Keysets, MintSource, Reading, SourceError, Watermark,
};
use nutfilter_mint::{DataDirectory, NoteKind, RefresherOptions};

use super::{V1, keyset};

/// Longer than any machine needs for the awaited events.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until a condition holds.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A clock that shows the time it was set to, in Unix seconds.
#[derive(Clone, Default)]
pub(crate) struct Clock(Arc<AtomicU64>);

impl Clock {
    pub(crate) fn set(&self, seconds: u64) {
        self.0.store(seconds, Ordering::Relaxed);
    }

    /// The defaults with this clock.
    pub(crate) fn options(&self) -> RefresherOptions {
        let seconds = Arc::clone(&self.0);
        let read = move || UNIX_EPOCH + Duration::from_secs(seconds.load(Ordering::Relaxed));
        RefresherOptions {
            clock: Some(Box::new(read)),
            ..RefresherOptions::default()
        }
    }
}

/// The defaults with a data directory.
pub(crate) fn on_disk(directory: &Path) -> RefresherOptions {
    RefresherOptions {
        data_directory: Some(DataDirectory::open(directory).unwrap()),
        ..RefresherOptions::default()
    }
}

/// A mint that lists its keysets with the first function, and is read with the second one.
pub(crate) struct FakeMint<L, R>(pub(crate) L, pub(crate) R);

impl<L, R> MintSource for FakeMint<L, R>
where
    L: FnMut() -> Result<Keysets, SourceError> + Send,
    R: FnMut(&mut dyn ItemSink) -> Result<Reading, SourceError> + Send,
{
    fn mint(&self) -> &str {
        "fake"
    }

    fn keysets(&mut self) -> Result<Keysets, SourceError> {
        (self.0)()
    }

    fn read(
        &mut self,
        _: NoteKind,
        _: Option<&Watermark>,
        sink: &mut dyn ItemSink,
    ) -> Result<Reading, SourceError> {
        (self.1)(sink)
    }
}

/// The listing of a mint with the single keyset [`V1`].
pub(crate) fn one_keyset() -> Result<Keysets, SourceError> {
    Ok(Keysets::of([KeysetInfo::new(keyset(V1))]))
}

/// Passes one item of [`V1`] to a sink.
pub(crate) fn pass_item(sink: &mut dyn ItemSink) -> ControlFlow<()> {
    let mut batch = ItemBatch::new();
    batch.push(b"an item");
    sink.items(&keyset(V1), &batch)
}
