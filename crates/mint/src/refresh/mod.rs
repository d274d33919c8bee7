//! Turns the mint's records into finished bodies: reads new items, hashes, merges and encodes them, and replaces what
//! the service shows.

mod build;
mod clock;
mod collect;
mod read;
mod report;
#[cfg(test)]
mod tests;
mod thread;

use core::fmt;
use core::ops::{Index, IndexMut};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime};

use self::clock::Clock;
pub use self::report::{
    FilterFailure, FilterReport, ReadingReport, RefreshError, RefreshProgress, RefreshReport,
    StageTimes,
};
pub use self::thread::RefreshThread;
use crate::body::BodyPlace;
use crate::metrics::METRICS;
use crate::service::FilterService;
use crate::source::{KeysetInfo, MintSource, Reading, SourceError, retry_once};
use crate::state::{DataDirectory, KindSets, StateError};
use crate::{KeysetId, NoteKind};

/// Default interval for new timestamps on unchanged filters; new timestamps fall on its multiples. In between, the
/// body and the tag stay the same, so a client that has the filter need not fetch it again.
const RESTAMP_AFTER: Duration = Duration::from_secs(600);

/// Default number of refreshes between two full counts: once an hour, at one refresh a minute. The count finds
/// nothing that could harm a wallet. It is the only part of a refresh whose cost grows with the database.
const VERIFY_EVERY: u32 = 60;

/// How a [`Refresher`] works. The defaults keep everything in memory.
pub struct RefresherOptions {
    /// Where the served bodies are kept instead of in memory, and the sets too, so that a restart continues from them.
    pub data_directory: Option<DataDirectory>,
    /// An unchanged filter gets a new timestamp at multiples of this; the default is 10 minutes.
    pub restamp_after: Duration,
    /// Timestamps are rounded down to multiples of this, in whole seconds; the default is 1 s. With the same grid,
    /// several services on one database give equal data equal timestamps, bodies and tags. A
    /// [`RefreshThread`](crate::RefreshThread) sets its own grid.
    pub timestamp_grid: Duration,
    /// The source counts all items at the first refresh and then once in so many. The default is 60, and 0 means 1.
    /// Between counts, deleted rows may go unnoticed. The filters then answer "maybe" for deleted notes, but never
    /// "absent" for a note that exists.
    pub verify_every: u32,
    /// Another clock than the system's.
    pub clock: Option<Box<dyn Fn() -> SystemTime + Send>>,
}

impl Default for RefresherOptions {
    fn default() -> Self {
        Self {
            data_directory: None,
            restamp_after: RESTAMP_AFTER,
            timestamp_grid: Duration::from_secs(1),
            verify_every: VERIFY_EVERY,
            clock: None,
        }
    }
}

/// Builds all filters of a mint and shows them in a [`FilterService`].
///
/// Refreshing takes `&mut self`, so a service never has more than one refresh at a time. All methods block: run the
/// refresher on its own thread, or use a [`RefreshThread`].
///
/// [`RefreshThread`]: crate::RefreshThread
pub struct Refresher {
    source: Box<dyn MintSource>,
    service: FilterService,
    clock: Clock,
    /// Once it is true, a running refresh ends with [`SourceError::Stopped`] and changes nothing that is served.
    stop: Arc<AtomicBool>,
    place: BodyPlace,
    restamp_after: u64,
    /// Timestamps are multiples of this, in seconds; at least 1.
    grid: u64,
    /// Latest timestamp of any filter so far, including filters from before a restart.
    latest_date: u64,
    verify_every: u32,
    /// `None` if the sets are in memory.
    directory: Option<DataDirectory>,
    kinds: Kinds,
    listed: Vec<KeysetInfo>,
    /// Invalid keyset ids that were logged last, so that they are not logged at every refresh.
    unservable: Vec<String>,
}

/// What the refresher has of one kind of note.
#[derive(Default)]
struct Kind {
    state: KindSets,
    /// Whether this refresh failed to read or to record it.
    failed: bool,
    /// Keysets whose filters must not be replaced after this refresh.
    held_back: BTreeSet<KeysetId>,
    /// Invalid keyset ids of notes that were logged last.
    unservable: Vec<String>,
}

/// Both kinds of note.
#[derive(Default)]
struct Kinds([Kind; 2]);

impl Kinds {
    fn states(&self) -> impl Iterator<Item = &KindSets> {
        self.0.iter().map(|kind| &kind.state)
    }
}

impl Index<NoteKind> for Kinds {
    type Output = Kind;

    fn index(&self, kind: NoteKind) -> &Kind {
        &self.0[kind as usize]
    }
}

impl IndexMut<NoteKind> for Kinds {
    fn index_mut(&mut self, kind: NoteKind) -> &mut Kind {
        &mut self.0[kind as usize]
    }
}

impl fmt::Debug for Refresher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refresher")
            .field("mint", &self.source.mint())
            .finish_non_exhaustive()
    }
}

impl Refresher {
    /// Creates a refresher from `source` to `service`, with the default options. A service has one refresher.
    pub fn new(source: impl MintSource + 'static, service: FilterService) -> Self {
        Self::with_options(source, service, RefresherOptions::default())
    }

    /// As [`Refresher::new`], with options.
    pub fn with_options(
        source: impl MintSource + 'static,
        service: FilterService,
        options: RefresherOptions,
    ) -> Self {
        let clock = options.clock.map_or_else(Clock::system, Clock::of);
        let directory = options.data_directory;
        let data = directory.as_ref().map(DataDirectory::path);
        let place = data.map_or(BodyPlace::Memory, |data| BodyPlace::Directory(data.into()));
        Self {
            source: Box::new(source),
            service,
            clock,
            stop: Arc::default(),
            place,
            restamp_after: options.restamp_after.as_secs(),
            grid: options.timestamp_grid.as_secs().max(1),
            latest_date: 0,
            verify_every: options.verify_every.max(1),
            directory,
            kinds: Kinds::default(),
            listed: vec![],
            unservable: vec![],
        }
    }

    /// The service that shows the objects.
    #[must_use]
    pub fn service(&self) -> &FilterService {
        &self.service
    }

    /// Whether a served filter has a timestamp in the future, because the clock was set back.
    fn is_dated_ahead(&self) -> bool {
        let now = self.clock.wall().as_secs();
        self.service
            .snapshot()
            .is_some_and(|snapshot| snapshot.latest_timestamp() > now)
    }

    /// Drops the watermarks, so that the next refresh reads everything.
    fn discard_and_rescan(&mut self) {
        for kind in &mut self.kinds.0 {
            kind.state.watermark = None;
        }
    }

    /// Reads new items, builds the changed filters, and serves them. A failure of one filter is reported and
    /// logged, and does not hold back the others.
    ///
    /// # Errors
    ///
    /// If neither kind could be read, if the keysets could not be listed, or if the refresh was stopped. The last
    /// snapshot then stays in use.
    ///
    /// # Cost
    ///
    /// For each kind, what the source takes to find new items. For each changed set, one linear pass to encode and
    /// several over the bodies. Memory holds 8 bytes per item plus the bodies. While a whole kind is read, the peak
    /// is another 18 bytes per item of that kind. With a data directory, the bodies are in files instead.
    pub fn refresh(&mut self) -> Result<RefreshReport, RefreshError> {
        self.refresh_with_progress(&mut |_| ())
    }

    /// Like [`Refresher::refresh`], but calls `progress` after every batch of items.
    ///
    /// # Errors
    ///
    /// Like [`Refresher::refresh`].
    pub fn refresh_with_progress(
        &mut self,
        progress: &mut dyn FnMut(RefreshProgress<'_>),
    ) -> Result<RefreshReport, RefreshError> {
        let start = Instant::now();
        let result = self.renew(start, progress);
        let word = match &result {
            Ok(report) if report.is_complete() => "ok",
            Ok(_) => "partial",
            Err(RefreshError::Source(SourceError::Stopped)) => return result,
            Err(_) => "failed",
        };
        let whole = |report: &RefreshReport| report.readings.iter().any(|reading| reading.whole);
        // A full reading leaves old sets behind; a failed one leaves new sets behind.
        if let Some(directory) = &self.directory
            && !result
                .as_ref()
                .is_ok_and(|report| word == "ok" && !whole(report))
        {
            directory.remove_others(self.kinds.states());
        }
        self.service.set_failing(word != "ok");
        METRICS.refreshes.with_label_values(&[word]).inc();
        METRICS
            .refresh_seconds
            .observe(start.elapsed().as_secs_f64());
        if let Err(error) = &result {
            match self.service.snapshot() {
                Some(_) => tracing::error!(
                    %error,
                    "refresh failed; still serving the previous filters"
                ),
                None => tracing::error!(
                    %error,
                    "first refresh failed; nothing to serve yet"
                ),
            }
        }
        result
    }

    fn renew(
        &mut self,
        start: Instant,
        progress: &mut dyn FnMut(RefreshProgress<'_>),
    ) -> Result<RefreshReport, RefreshError> {
        let began = self.clock.moment();
        self.remake_data_directory()?;
        self.withdraw_dated_ahead();
        for kind in &mut self.kinds.0 {
            (kind.failed, kind.held_back) = (false, BTreeSet::new());
        }
        let mut report = RefreshReport::default();
        let mut errors = vec![];
        for kind in NoteKind::ALL {
            match self.read(kind, &mut report, progress) {
                Ok(reading) => report.readings.push(reading),
                Err(RefreshError::Source(SourceError::Stopped)) => {
                    return Err(SourceError::Stopped.into());
                }
                Err(error) => errors.push((kind, error)),
            }
        }
        for (kind, error) in errors {
            // Neither kind could be read: one error is enough.
            if report.readings.is_empty() {
                return Err(error);
            }
            self.kinds[kind].failed = true;
            report.fail(None, kind, error);
        }
        let listing = Instant::now();
        let listed = retry_once(|| self.source.keysets())?;
        report.list = listing.elapsed();
        if listed.unservable != self.unservable {
            listed.warn_of_unservable();
            self.unservable = listed.unservable;
        }
        self.listed = listed.keysets;
        for kind in NoteKind::ALL {
            if !self.kinds[kind].failed
                && let Err(error) = self.record_if_due(kind)
            {
                self.kinds[kind].failed = true;
                report.fail(None, kind, error.into());
            }
        }
        let as_of = self.clock.date(began);
        self.build(as_of, &mut report);
        report.total = start.elapsed();
        self.tell(as_of, &report);
        Ok(report)
    }

    /// Creates the data directory again if it was removed. Its sets are gone too, so everything is read again.
    fn remake_data_directory(&mut self) -> Result<(), StateError> {
        let Some(directory) = &mut self.directory else {
            return Ok(());
        };
        if !directory.is_gone() {
            return Ok(());
        }
        tracing::error!(
            path = %directory.path().display(),
            "the data directory was removed; making it again and rereading the full database"
        );
        directory.remake()?;
        self.discard_and_rescan();
        Ok(())
    }

    /// Withdraws filters with a timestamp in the future. The clock was set back, so the true time of these filters
    /// is unknown. They may lack a note that was spent before their timestamp.
    fn withdraw_dated_ahead(&mut self) {
        let now = self.clock.wall().as_secs();
        let Some(snapshot) = self.service.snapshot() else {
            return;
        };
        let latest = snapshot.latest_timestamp();
        if latest > now {
            let seconds = latest - now;
            tracing::warn!(
                seconds,
                "clock was set back; withdrawing and rebuilding filters dated in the future"
            );
            self.service.replace(snapshot.until(now));
        }
    }

    /// Records a kind if it changed, if its filters are due for new timestamps, or if the clock was set back.
    fn record_if_due(&mut self, kind: NoteKind) -> Result<(), StateError> {
        let period = self.restamp_period();
        let state = &mut self.kinds[kind].state;
        let is_due = round_down(state.recorded, period) != round_down(state.as_of, period)
            || state.recorded > state.as_of
            || state.recorded == 0;
        if is_due || state.sets.values().any(|set| set.changed) {
            if let Some(directory) = &mut self.directory {
                directory.record(kind, state, &self.listed)?;
            }
            state.recorded = state.as_of;
        }
        Ok(())
    }

    fn tell(&self, as_of: u64, report: &RefreshReport) {
        let items = |kind| self.kinds[kind].state.items();
        self.show(as_of);
        // As in the filters that were built.
        let as_of = round_down(as_of, self.grid);
        for reading in &report.readings {
            let whole = if reading.whole { "whole" } else { "new" };
            let read = [reading.kind.as_str(), whole];
            METRICS
                .items_read
                .with_label_values(&read)
                .inc_by(reading.items);
            tracing::debug!(
                kind = %reading.kind,
                reading = whole,
                items = reading.items,
                read_ms = millis(reading.read),
                hash_ms = millis(reading.hash),
                merge_ms = millis(reading.sort),
                "read"
            );
        }
        let read: u64 = report.readings.iter().map(|reading| reading.items).sum();
        macro_rules! refreshed {
            ($level:expr) => {
                tracing::event!(
                    $level,
                    as_of,
                    spent = items(NoteKind::Spent),
                    issued = items(NoteKind::Issued),
                    read,
                    filters = report.filters.len(),
                    failures = report.failures.len(),
                    total_ms = millis(report.total),
                    "refreshed"
                )
            };
        }
        // A refresh without new items happens every few seconds.
        if read > 0 || !report.failures.is_empty() {
            refreshed!(tracing::Level::INFO);
        } else {
            refreshed!(tracing::Level::DEBUG);
        }
    }

    /// Updates the gauges with what is served.
    fn show(&self, refreshed_at: u64) {
        for kind in NoteKind::ALL {
            let state = &self.kinds[kind].state;
            let kind = [kind.as_str()];
            METRICS
                .items
                .with_label_values(&kind)
                .set(state.items() as f64);
            METRICS
                .as_of
                .with_label_values(&kind)
                .set(state.recorded as f64);
        }
        METRICS.last_refresh.set(refreshed_at as f64);
        let now = self.clock.wall().as_secs();
        let behind = self.latest_date.saturating_sub(now);
        METRICS.clock_behind.set(behind as f64);
    }

    /// New timestamps of unchanged filters fall on multiples of this period, in seconds. It is a multiple of the
    /// grid, so no filter is dated before the one that it replaces.
    fn restamp_period(&self) -> u64 {
        let steps = self.restamp_after.div_ceil(self.grid).max(1);
        steps.saturating_mul(self.grid)
    }
}

/// Rounds `time` down to a multiple of `period`, which must not be 0.
fn round_down(time: u64, period: u64) -> u64 {
    time - time % period
}

impl RefreshReport {
    fn fail(&mut self, keyset: Option<KeysetId>, kind: NoteKind, error: RefreshError) {
        let keyset_name = keyset.as_ref().map(KeysetId::as_str);
        tracing::error!(
            keyset = keyset_name,
            %kind,
            %error,
            "filter update failed; serving the previous one, if any"
        );
        self.failures.push(FilterFailure {
            keyset,
            kind,
            error,
        });
    }
}

/// Logs invalid keyset ids of notes, but only when the list has changed.
fn warn_of_unservable(told: &mut Vec<String>, reading: &Reading) {
    if *told != reading.unservable {
        if !reading.unservable.is_empty() {
            tracing::warn!(ids = ?reading.unservable, "skipping rows with invalid keyset ids");
        }
        told.clone_from(&reading.unservable);
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
