//! From the mint's records to finished bodies: read what is new, hash, merge, encode, publish.

pub(crate) mod clock;
mod gather;
mod read;
mod serve;
#[cfg(test)]
mod tests;

use core::fmt;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime};

use self::clock::Clock;
use crate::body::BodyPlace;
use crate::error::PublishError;
use crate::kept::{DataDirectory, Keep, KeptError, KindSets};
use crate::report::{FilterFailure, RefreshProgress, RefreshReport};
use crate::service::FilterService;
use crate::source::{KeysetInfo, Keysets, MintSource, Reading, SourceError, twice_if_passing};
use crate::{KeysetId, Kind};

/// At which multiples of this a filter that nothing is added to gets a new timestamp, unless told otherwise. Until
/// then its body and tag stay the same, and a client that has it need not fetch it again.
const RESTAMP_AFTER: Duration = Duration::from_secs(600);

/// At which refresh the source counts all items again, unless told otherwise: once an hour, at a refresh a minute. The
/// count shows nothing that a wallet could be harmed by, and is the only part of a refresh that grows with the
/// database.
const VERIFY_EVERY: u32 = 60;

/// Builds every filter of a mint and publishes them to a [`FilterService`].
///
/// It is not shared and takes `&mut self` to refresh, so that there is never more than one refresh of a
/// service at a time. Everything in it blocks: give it a thread of its own, or a [`Refresher`].
///
/// [`Refresher`]: crate::Refresher
pub struct Publisher {
    source: Box<dyn MintSource>,
    service: FilterService,
    clock: Clock,
    stop: Arc<AtomicBool>,
    place: BodyPlace,
    restamp_after: u64,
    /// Timestamps are multiples of this, in seconds; at least 1.
    grid: u64,
    /// The latest date that a filter ever had, also before a restart.
    latest_date: u64,
    verify_every: u32,
    keep: Keep,
    /// One for each of [`Kind::ALL`].
    kept: [KindSets; 2],
    listed: Vec<KeysetInfo>,
    /// Keysets whose filter of a kind is not to be published after this refresh.
    held_back: [BTreeSet<KeysetId>; 2],
    /// What was last said to be no keyset ids, so as not to say it at every refresh.
    unservable: Vec<String>,
    unservable_notes: [Vec<String>; 2],
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher")
            .field("mint", &self.source.mint())
            .finish_non_exhaustive()
    }
}

impl Publisher {
    /// A publisher from this source to this service. A service has one publisher.
    pub fn new(source: impl MintSource + 'static, service: FilterService) -> Self {
        Self {
            source: Box::new(source),
            service,
            clock: Clock::system(),
            stop: Arc::default(),
            place: BodyPlace::Memory,
            restamp_after: RESTAMP_AFTER.as_secs(),
            grid: 1,
            latest_date: 0,
            verify_every: VERIFY_EVERY,
            keep: Keep::Memory,
            kept: Default::default(),
            listed: vec![],
            held_back: Default::default(),
            unservable: vec![],
            unservable_notes: Default::default(),
        }
    }

    /// Takes the time from elsewhere than the system.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Fn() -> SystemTime + Send + 'static) -> Self {
        self.clock = Clock::of(clock);
        self
    }

    /// Rounds timestamps down to multiples of this many whole seconds, 1 unless told otherwise, so that several
    /// services on one database give equal data equal timestamps, bodies and tags. A [`Refresher`] sets its own.
    ///
    /// [`Refresher`]: crate::Refresher
    #[must_use]
    pub fn timestamp_grid(mut self, grid: Duration) -> Self {
        self.grid = grid.as_secs().max(1);
        self
    }

    /// Keeps the sets, and the bodies that are served, in a directory instead of in memory.
    #[must_use]
    pub fn with_data_directory(mut self, directory: DataDirectory) -> Self {
        self.place = BodyPlace::Directory(directory.path().to_owned());
        self.keep = Keep::Directory(directory);
        self
    }

    /// Gives a filter that nothing is added to a new timestamp at multiples of this time; 10 minutes unless told
    /// otherwise.
    #[must_use]
    pub fn restamp_after(mut self, age: Duration) -> Self {
        self.restamp_after = age.as_secs();
        self
    }

    /// Lets the source count all items at the first refresh and at every so many; 60 unless told otherwise, and 0 is
    /// taken for 1. Between these, deleted rows may go unnoticed. The filters then answer "maybe" for notes that
    /// are gone, and never "absent" for one that is there.
    #[must_use]
    pub fn verify_every(mut self, refreshes: u32) -> Self {
        self.verify_every = refreshes.max(1);
        self
    }

    /// The service that it publishes to.
    #[must_use]
    pub fn service(&self) -> &FilterService {
        &self.service
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Whether a filter is served whose timestamp the clock does not show yet: it was set back.
    pub(crate) fn is_dated_ahead(&self) -> bool {
        let now = self.clock.wall().as_secs();
        self.service
            .snapshot()
            .is_some_and(|snapshot| snapshot.latest_timestamp() > now)
    }

    /// Once true, a refresh under way ends with [`SourceError::Stopped`] and publishes nothing.
    pub(crate) fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    fn kept_mut(&mut self, kind: Kind) -> &mut KindSets {
        &mut self.kept[index(kind)]
    }

    /// Forgets how far the source was read, so that the next refresh reads everything.
    pub(crate) fn start_over(&mut self) {
        for kept in &mut self.kept {
            kept.watermark = None;
        }
    }

    /// Reads what is new, builds what has changed, and publishes it. What fails for one filter is in the
    /// report and in the log, and does not keep the others from being published.
    ///
    /// # Errors
    ///
    /// If neither kind could be read, the keysets could not be listed, or the refresh was stopped. The last
    /// snapshot is then served as it is.
    ///
    /// # Cost
    ///
    /// For each kind what the source takes to find what is new, and for each set that has changed one linear pass
    /// to encode and some over the bodies. In memory 8 bytes for each item are kept, beside the bodies; at its peak,
    /// while a whole kind is read, 18 more for each item of it. In a data directory the sets take
    /// some 64 MiB of memory, whatever their size.
    pub fn refresh(&mut self) -> Result<RefreshReport, PublishError> {
        self.refresh_with_progress(&mut |_| ())
    }

    /// [`Publisher::refresh`], with word of how far it has come after every batch of items.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn refresh_with_progress(
        &mut self,
        progress: &mut dyn FnMut(RefreshProgress<'_>),
    ) -> Result<RefreshReport, PublishError> {
        let start = Instant::now();
        let result = self.renew(start, progress);
        let word = match &result {
            Ok(report) if report.failures.is_empty() => "ok",
            Ok(_) => "partial",
            Err(PublishError::Source(SourceError::Stopped)) => return result,
            Err(_) => "failed",
        };
        let whole = |report: &RefreshReport| report.readings.iter().any(|reading| reading.whole);
        // A whole reading leaves old sets behind, and one that failed leaves new ones.
        if let Keep::Directory(directory) = &self.keep
            && !result
                .as_ref()
                .is_ok_and(|report| word == "ok" && !whole(report))
        {
            directory.remove_others(self.kept.iter());
        }
        self.service.set_failing(word != "ok");
        metrics::counter!("nutfilter_refreshes_total", "result" => word).increment(1);
        metrics::histogram!("nutfilter_refresh_seconds").record(start.elapsed().as_secs_f64());
        if let Err(error) = &result {
            match self.service.snapshot() {
                Some(_) => tracing::error!(
                    %error,
                    "refresh failed; what was published before goes on being served"
                ),
                None => tracing::error!(
                    %error,
                    "the first refresh failed; there is nothing to serve yet"
                ),
            }
        }
        result
    }

    fn renew(
        &mut self,
        start: Instant,
        progress: &mut dyn FnMut(RefreshProgress<'_>),
    ) -> Result<RefreshReport, PublishError> {
        let began = self.clock.moment();
        self.remake_data_directory()?;
        self.withdraw_dated_ahead();
        self.held_back = Default::default();
        let mut report = RefreshReport::default();
        let (mut failed, mut errors) = ([false; 2], vec![]);
        for kind in Kind::ALL {
            match self.read(kind, &mut report.failures, progress) {
                Ok(reading) => report.readings.push(reading),
                Err(PublishError::Source(SourceError::Stopped)) => {
                    return Err(SourceError::Stopped.into());
                }
                Err(error) => errors.push((kind, error)),
            }
        }
        for (kind, error) in errors {
            // Nothing could be read: one error says it.
            if report.readings.is_empty() {
                return Err(error);
            }
            failed[index(kind)] = true;
            report.fail(None, kind, error);
        }
        let listing = Instant::now();
        let listed = twice_if_passing(|| self.source.keysets())?;
        report.list = listing.elapsed();
        self.warn_of_unservable_keysets(&listed);
        self.listed = listed.keysets;
        for kind in Kind::ALL {
            if !failed[index(kind)]
                && let Err(error) = self.record_if_due(kind)
            {
                failed[index(kind)] = true;
                report.fail(None, kind, error.into());
            }
        }
        let as_of = self.clock.date(began);
        self.publish(as_of, failed, &mut report);
        report.total = start.elapsed();
        self.tell(as_of, &report);
        Ok(report)
    }

    /// Makes the data directory again if it was removed. Its sets went with it, and everything is read again.
    fn remake_data_directory(&mut self) -> Result<(), KeptError> {
        let Keep::Directory(directory) = &mut self.keep else {
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
        self.start_over();
        Ok(())
    }

    /// Withdraws filters whose timestamp the clock does not show yet. The clock was set back: nobody knows what time
    /// they are really of, and a note spent before that timestamp may be missing in them.
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
                "the clock was set back; filters dated after it are withdrawn and built again"
            );
            self.service.publish(snapshot.until(now));
        }
    }

    /// Records a kind if something has changed, if filters are to get a new timestamp, or if the clock was set back.
    fn record_if_due(&mut self, kind: Kind) -> Result<(), KeptError> {
        let period = self.restamp_period();
        let kept = &mut self.kept[index(kind)];
        let is_due = round_down(kept.recorded, period) != round_down(kept.as_of, period)
            || kept.recorded > kept.as_of
            || kept.recorded == 0;
        if is_due || kept.sets.values().any(|set| set.changed) {
            self.keep.record(kind, kept, &self.listed)?;
            kept.recorded = kept.as_of;
        }
        Ok(())
    }

    fn warn_of_unservable_keysets(&mut self, listed: &Keysets) {
        if listed.unservable != self.unservable {
            listed.warn_of_unservable();
            self.unservable.clone_from(&listed.unservable);
        }
    }

    fn tell(&self, as_of: u64, report: &RefreshReport) {
        let items = |kind| self.kept[index(kind)].items();
        self.show(as_of);
        for reading in &report.readings {
            let whole = if reading.whole { "whole" } else { "new" };
            metrics::counter!("nutfilter_items_read_total", "kind" => reading.kind.as_str(), "reading" => whole)
                .increment(reading.items);
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
                    spent = items(Kind::Spent),
                    issued = items(Kind::Issued),
                    read,
                    filters = report.filters.len(),
                    failures = report.failures.len(),
                    total_ms = millis(report.total),
                    "refreshed"
                )
            };
        }
        // A refresh that finds nothing new comes every few seconds.
        if read > 0 || !report.failures.is_empty() {
            refreshed!(tracing::Level::INFO);
        } else {
            refreshed!(tracing::Level::DEBUG);
        }
    }

    /// Puts into the gauges what is served.
    fn show(&self, refreshed_at: u64) {
        for kind in Kind::ALL {
            let kept = &self.kept[index(kind)];
            metrics::gauge!("nutfilter_items", "kind" => kind.as_str()).set(kept.items() as f64);
            metrics::gauge!("nutfilter_as_of_timestamp_seconds", "kind" => kind.as_str())
                .set(kept.recorded as f64);
        }
        metrics::gauge!("nutfilter_last_refresh_timestamp_seconds").set(refreshed_at as f64);
        let behind = self.latest_date.saturating_sub(self.clock.wall().as_secs());
        metrics::gauge!("nutfilter_clock_behind_seconds").set(behind as f64);
    }

    /// The period at whose multiples unchanged filters get a new timestamp: a multiple of the grid, so that no filter
    /// is dated before the one that it replaces.
    fn restamp_period(&self) -> u64 {
        let steps = self.restamp_after.div_ceil(self.grid).max(1);
        steps.saturating_mul(self.grid)
    }
}

/// The multiple of `period`, which is not 0, at or before `time`.
fn round_down(time: u64, period: u64) -> u64 {
    time - time % period
}

impl RefreshReport {
    fn fail(&mut self, keyset: Option<KeysetId>, kind: Kind, error: PublishError) {
        let keyset_name = keyset.as_ref().map(KeysetId::as_str);
        tracing::error!(keyset = keyset_name, %kind, %error, "filter not renewed; the last one is served, if there is one");
        self.failures.push(FilterFailure {
            keyset,
            kind,
            error,
        });
    }
}

/// The place of a kind in an array of both.
fn index(kind: Kind) -> usize {
    match kind {
        Kind::Spent => 0,
        Kind::Issued => 1,
    }
}

/// Says once which ids in the notes are none.
fn warn_of_unservable(told: &mut Vec<String>, reading: &Reading) {
    if *told != reading.unservable {
        if !reading.unservable.is_empty() {
            tracing::warn!(ids = ?reading.unservable, "notes of what are no keyset ids cannot be served");
        }
        told.clone_from(&reading.unservable);
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
