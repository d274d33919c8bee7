//! From the mint's records to finished bodies: read what is new, hash, merge, encode, publish.

mod gather;
mod read;
mod serve;
#[cfg(test)]
mod tests;

use core::fmt;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::body::BodyPlace;
use crate::error::PublishError;
use crate::kept::{DataDirectory, Keep, KeptError, KindSets};
use crate::report::{FilterFailure, RefreshProgress, RefreshReport};
use crate::service::FilterService;
use crate::source::{KeysetInfo, Keysets, MintSource, Reading, SourceError, twice_if_passing};
use crate::{KeysetId, Kind};

/// How old a filter grows that nothing is added to, unless told otherwise. Until then its body and tag stay the
/// same, and who has it need not fetch it again.
const RESTAMP_AFTER: Duration = Duration::from_secs(600);

/// Clocks are set back by less every day.
const CLOCK_BEHIND: Duration = Duration::from_secs(60);

/// Builds every filter of a mint and publishes them to a [`FilterService`].
///
/// It is not shared and takes `&mut self` to refresh, so that there is never more than one refresh of a
/// service at a time. Everything in it blocks: give it a thread of its own, or a [`Refresher`].
///
/// [`Refresher`]: crate::Refresher
pub struct Publisher {
    source: Box<dyn MintSource>,
    service: FilterService,
    clock: Box<dyn Fn() -> SystemTime + Send>,
    stop: Arc<AtomicBool>,
    place: BodyPlace,
    restamp_after: u64,
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
            clock: Box::new(SystemTime::now),
            stop: Arc::default(),
            place: BodyPlace::Memory,
            restamp_after: RESTAMP_AFTER.as_secs(),
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
        self.clock = Box::new(clock);
        self
    }

    /// Keeps the sets, and the bodies that are served, in a directory instead of in memory.
    #[must_use]
    pub fn with_data_directory(mut self, directory: DataDirectory) -> Self {
        self.place = BodyPlace::Directory(directory.path().to_owned());
        self.keep = Keep::Directory(directory);
        self
    }

    /// Gives a filter that nothing is added to a new timestamp once the old one is of this age; 10 minutes
    /// unless told otherwise.
    #[must_use]
    pub fn restamp_after(mut self, age: Duration) -> Self {
        self.restamp_after = age.as_secs();
        self
    }

    /// The service that it publishes to.
    #[must_use]
    pub fn service(&self) -> &FilterService {
        &self.service
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
        // Before the first row is read, so that the claim "as of" can only be modest. A clock that was set back
        // sets no filter back.
        let floor = self.kept.iter().map(KindSets::floor).max();
        let as_of = self.now().max(floor.unwrap_or(0));
        self.tell_of_clock(as_of.saturating_sub(self.now()));
        self.held_back = Default::default();
        let mut report = RefreshReport::default();
        let mut failed = [false; 2];
        for kind in Kind::ALL {
            let as_of = self.now().max(as_of);
            match self.read(kind, as_of, &mut report.failures, progress) {
                Ok(reading) => report.readings.push(reading),
                Err(PublishError::Source(SourceError::Stopped)) => {
                    return Err(SourceError::Stopped.into());
                }
                Err(error) => {
                    failed[index(kind)] = true;
                    report.fail(None, kind, error);
                }
            }
        }
        if report.readings.is_empty()
            && let Some(failure) = report.failures.pop()
        {
            return Err(failure.error);
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
        self.publish(as_of, failed, &mut report);
        report.total = start.elapsed();
        self.tell(as_of, &report);
        Ok(report)
    }

    /// Records a kind if something has changed, or what was recorded is old enough for filters to be dated anew.
    fn record_if_due(&mut self, kind: Kind) -> Result<(), KeptError> {
        let kept = &mut self.kept[index(kind)];
        let old = kept.recorded.saturating_add(self.restamp_after) <= kept.as_of;
        if old || kept.recorded == 0 || kept.sets.values().any(|set| set.changed) {
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
        tracing::info!(
            as_of,
            spent = items(Kind::Spent),
            issued = items(Kind::Issued),
            read = report
                .readings
                .iter()
                .map(|reading| reading.items)
                .sum::<u64>(),
            filters = report.filters.len(),
            failures = report.failures.len(),
            total_ms = millis(report.total),
            "refreshed"
        );
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
    }

    /// Filters that are dated ahead of the clock are refused by wallets, and nothing else would say why.
    fn tell_of_clock(&self, behind: u64) {
        metrics::gauge!("nutfilter_clock_behind_seconds").set(behind as f64);
        if behind > CLOCK_BEHIND.as_secs() {
            tracing::warn!(
                seconds = behind,
                "the clock is behind the filters' time, which stands still until then"
            );
        }
    }

    fn now(&self) -> u64 {
        // Before 1970 the clock is not set at all.
        (self.clock)()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |time| time.as_secs())
    }
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
