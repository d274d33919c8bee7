//! From the mint's records to finished bodies: read what is new, hash, merge, encode, publish.

mod gather;
mod read;
#[cfg(test)]
mod tests;

use core::fmt;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nutfilter::Params;

use crate::body::BodyPlace;
use crate::error::PublishError;
use crate::kept::{DataDirectory, Keep, KeptError, KeptSet, KindSets};
use crate::published::PublishedFilter;
use crate::report::{FilterFailure, FilterReport, RefreshProgress, RefreshReport, StageTimes};
use crate::service::FilterService;
use crate::snapshot::{KeysetEntry, Snapshot};
use crate::source::{KeysetInfo, Keysets, MintSource, Reading, SourceError, twice_if_passing};
use crate::{KeysetId, Kind};

/// How old a filter grows that nothing is added to, unless told otherwise. Until then its body and tag stay the
/// same, and who has it need not fetch it again.
const RESTAMP_AFTER: Duration = Duration::from_secs(600);

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

    /// Publishes what the data directory holds, with the time it is of; without asking the mint. To be called
    /// before the first refresh; afterwards, and a second time, it does nothing. Says whether there is anything.
    ///
    /// # Cost
    ///
    /// One pass over the sets before they are served, and then one for the compressed bodies.
    pub fn restore(&mut self) -> bool {
        let Keep::Directory(directory) = &mut self.keep else {
            return false;
        };
        if self.kept.iter().any(|kept| kept.as_of != 0) {
            return self.kept.iter().any(|kept| kept.recorded != 0);
        }
        for kind in Kind::ALL {
            let (kept, listed) = directory.restore(kind);
            self.kept[index(kind)] = kept;
            if self.listed.is_empty() {
                self.listed = listed;
            }
        }
        directory.remove_others(self.kept.iter());
        if self.kept.iter().all(|kept| kept.recorded == 0) {
            return false;
        }
        let mut entries = self.entries(self.listed.clone());
        for entry in entries.values_mut() {
            for kind in Kind::ALL {
                let filter = self.restored(&entry.info.id, kind);
                entry.set(kind, filter.map(Arc::new));
            }
        }
        let refreshed_at = self.kept.iter().map(|kept| kept.recorded).max();
        let refreshed_at = refreshed_at.unwrap_or(0);
        let entries = entries.into_values().collect();
        self.service.publish(Snapshot::new(entries, refreshed_at));
        self.show(refreshed_at);
        tracing::info!(
            as_of = refreshed_at,
            spent = self.kept[index(Kind::Spent)].items(),
            issued = self.kept[index(Kind::Issued)].items(),
            "serving what was kept"
        );
        self.compress_published();
        true
    }

    /// The filter of a restored set, not compressed yet. A set that turns out to be damaged is thrown away; one that is
    /// not, and of which no filter can be made for another reason, is there for the next refresh.
    fn restored(&mut self, keyset: &KeysetId, kind: Kind) -> Option<PublishedFilter> {
        let kept = &mut self.kept[index(kind)];
        if kept.recorded == 0 || kept.lost.contains(keyset) {
            return None;
        }
        // What was listed and had no set, had no notes at that time.
        let entry = kept.sets.entry(keyset.clone());
        let set = entry.or_insert_with(|| KeptSet::empty(kept.recorded));
        let mut times = StageTimes::default();
        match bodies(set, set.as_of, &self.place, &mut times) {
            Ok(filter) => {
                set.changed = false;
                Some(filter)
            }
            Err(error) if !error.is_damage() => {
                tracing::error!(%keyset, %kind, %error, "a kept set cannot be served yet");
                None
            }
            Err(error) => {
                tracing::error!(%keyset, %kind, %error, "a kept set cannot be used; the database is read whole");
                metrics::counter!("nutfilter_data_discarded_total").increment(1);
                kept.lose(keyset);
                None
            }
        }
    }

    fn compress_published(&self) {
        let Some(snapshot) = self.service.snapshot() else {
            return;
        };
        for entry in snapshot.keysets() {
            for kind in Kind::ALL {
                let Some(filter) = entry.filter(kind) else {
                    continue;
                };
                match PublishedFilter::clone(filter).with_compressed(&self.place) {
                    Ok(filter) => self.swap(&entry.info.id, kind, &Arc::new(filter)),
                    Err(error) => {
                        tracing::warn!(%error, "no compressed body; the plain one is served");
                    }
                }
            }
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

    /// Every keyset that is listed or has notes, without filters.
    fn entries(&self, listed: Vec<KeysetInfo>) -> BTreeMap<KeysetId, KeysetEntry> {
        let with_notes = self.kept.iter().flat_map(|kept| {
            let sets = kept.sets.iter().filter(|(_, set)| set.len() > 0);
            let keysets = sets.map(|(keyset, _)| keyset).chain(&kept.lost);
            keysets.map(|keyset| KeysetInfo {
                id: keyset.clone(),
                unit: None,
                active: false,
                input_fee_ppk: 0,
            })
        });
        let mut entries = BTreeMap::new();
        for info in listed.into_iter().chain(with_notes) {
            entries.entry(info.id.clone()).or_insert(KeysetEntry {
                info,
                spent: None,
                issued: None,
            });
        }
        entries
    }

    /// Builds what has to be built, and serves it: each body at once, so that the one before it is freed, and in the
    /// end the new list of keysets.
    fn publish(&mut self, as_of: u64, failed: [bool; 2], report: &mut RefreshReport) {
        let mut entries = self.entries(self.listed.clone());
        for entry in entries.values_mut() {
            for kind in Kind::ALL {
                let keyset = entry.info.id.clone();
                let old = self
                    .service
                    .snapshot()
                    .and_then(|snapshot| snapshot.keyset(&keyset)?.filter(kind).cloned());
                let held_back = self.held_back[index(kind)].contains(&keyset);
                let before = old.as_ref().map(Arc::as_ptr);
                let filter = match failed[index(kind)] || held_back {
                    true => old,
                    false => self.renewed(&keyset, kind, old, report),
                };
                let is_old = filter.as_ref().map(Arc::as_ptr) == before;
                if let Some(filter) = &filter
                    && !is_old
                {
                    self.swap(&keyset, kind, filter);
                }
                entry.set(kind, filter);
            }
        }
        let before = self.service.snapshot();
        if let Some(before) = &before {
            warn_of_vanished(before, &entries);
        }
        self.forget_vanished(&entries);
        let floor = before.map_or(0, |snapshot| snapshot.refreshed_at());
        let entries = entries.into_values().collect();
        self.service
            .publish(Snapshot::new(entries, as_of.max(floor)));
    }

    /// The filter of a set: the one there is if it will do, or a new one.
    fn renewed(
        &mut self,
        keyset: &KeysetId,
        kind: Kind,
        old: Option<Arc<PublishedFilter>>,
        report: &mut RefreshReport,
    ) -> Option<Arc<PublishedFilter>> {
        let kept = &mut self.kept[index(kind)];
        let (as_of, recorded) = (kept.as_of, kept.recorded);
        // The reading had no notes of a keyset that has no set.
        let entry = kept.sets.entry(keyset.clone());
        let set = entry.or_insert_with(|| KeptSet::empty(as_of));
        let timestamp = set.as_of.min(recorded);
        let current = old
            .as_ref()
            .filter(|old| !set.changed && u64::from(old.n()) == set.len());
        let mut times = StageTimes::default();
        let start = Instant::now();
        let made = match current {
            Some(old) if old.timestamp().saturating_add(self.restamp_after) > timestamp => {
                return Some(Arc::clone(old));
            }
            Some(old) => {
                let restamped = old.restamped(timestamp, &self.place);
                restamped.map_err(PublishError::Body)
            }
            None => bodies(set, timestamp, &self.place, &mut times).map_err(PublishError::Kept),
        };
        let made = made.and_then(|filter| {
            let compressed = filter.with_compressed(&self.place);
            compressed.map_err(PublishError::Body)
        });
        match made {
            Ok(filter) => {
                set.changed = false;
                times.publish = start.elapsed().saturating_sub(times.encode);
                let built = FilterReport {
                    keyset: keyset.clone(),
                    kind,
                    n: filter.n(),
                    filter_bytes: filter.filter_bytes(),
                    body_bytes: filter.json().len(),
                    timestamp,
                    times,
                };
                log_filter(&built, old.as_deref());
                report.filters.push(built);
                Some(Arc::new(filter))
            }
            Err(error) => {
                // What cannot be read any more is read anew.
                if matches!(&error, PublishError::Kept(error) if error.is_damage()) {
                    kept.watermark = None;
                }
                report.fail(Some(keyset.clone()), kind, error);
                old
            }
        }
    }

    /// Serves a filter in the place of the one before it, if the keyset is being served.
    fn swap(&self, keyset: &KeysetId, kind: Kind, filter: &Arc<PublishedFilter>) {
        let next = self
            .service
            .snapshot()
            .and_then(|snapshot| snapshot.with_filter(keyset, kind, Arc::clone(filter)));
        if let Some(next) = next {
            self.service.publish(next);
        }
    }

    /// Empty sets of keysets that nobody lists any more.
    fn forget_vanished(&mut self, entries: &BTreeMap<KeysetId, KeysetEntry>) {
        for kept in &mut self.kept {
            kept.sets.retain(|keyset, _| entries.contains_key(keyset));
        }
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

/// The bodies of a set, but for the compressed ones.
fn bodies(
    set: &KeptSet,
    timestamp: u64,
    place: &BodyPlace,
    times: &mut StageTimes,
) -> Result<PublishedFilter, KeptError> {
    let start = Instant::now();
    let params = Params::CASHU;
    let mut writer = place.writer().map_err(KeptError::Body)?;
    let n = set.encode_to(params, &mut writer)?;
    let raw = writer.finish().map_err(KeptError::Body)?;
    times.encode = start.elapsed();
    PublishedFilter::new(raw, n, params, timestamp, place).map_err(KeptError::Body)
}

fn log_filter(built: &FilterReport, old: Option<&PublishedFilter>) {
    let FilterReport {
        keyset,
        kind,
        n,
        filter_bytes,
        timestamp,
        times,
        ..
    } = built;
    tracing::debug!(
        %keyset,
        %kind,
        n,
        filter_bytes,
        timestamp,
        encode_ms = millis(times.encode),
        publish_ms = millis(times.publish),
        "built"
    );
    if let Some(old) = old.filter(|old| old.n() > *n) {
        // Legitimate after a keyset's final expiry, and otherwise the mark of a restored backup.
        metrics::counter!("nutfilter_shrunk_total", "kind" => kind.as_str()).increment(1);
        tracing::warn!(%keyset, %kind, n, before = old.n(), "the mint has fewer notes than before");
    }
}

fn warn_of_vanished(before: &Snapshot, entries: &BTreeMap<KeysetId, KeysetEntry>) {
    for gone in before.keysets() {
        if !entries.contains_key(&gone.info.id) {
            tracing::warn!(keyset = %gone.info.id, "the mint's database no longer has this keyset");
        }
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
