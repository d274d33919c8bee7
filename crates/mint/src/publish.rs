//! From the mint's records to finished bodies: read, hash, sort, encode, publish.

use core::fmt;
use core::ops::ControlFlow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use nutfilter::{FilterResponse, ItemHash, Level, Nut25, Params, SortedHashes};

use crate::error::PublishError;
use crate::report::{FilterFailure, FilterReport, RefreshProgress, RefreshReport, StageTimes};
use crate::service::FilterService;
use crate::snapshot::{KeysetEntry, PublishedFilter, Snapshot};
use crate::source::{
    ItemBatch, ItemSink, KeysetInfo, Keysets, MintSource, SourceError, twice_if_passing,
};
use crate::{KeysetId, Kind};

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
    /// What was last said to be no keyset ids, so as not to say it at every refresh.
    unservable: Vec<String>,
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
            unservable: vec![],
        }
    }

    /// Takes the time from elsewhere than the system.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Fn() -> SystemTime + Send + 'static) -> Self {
        self.clock = Box::new(clock);
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

    /// Reads everything, builds everything, and publishes it as one snapshot. What fails for one filter
    /// is in the report and in the log, and does not keep the others from being published.
    ///
    /// # Errors
    ///
    /// If the keysets could not be listed, or the refresh was stopped. The last snapshot is then served
    /// as it is.
    ///
    /// # Cost
    ///
    /// For each keyset and kind one pass over the database. At its peak, while hashes are sorted, 18 bytes for
    /// each item of the largest set (up to 26 the first time, when their number is not known before), beside the
    /// old and the new bodies.
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
        let result = self.rebuild(progress);
        match &result {
            Ok(report) => self.service.set_failing(!report.failures.is_empty()),
            Err(PublishError::Source(SourceError::Stopped)) => {}
            Err(error) => {
                self.service.set_failing(true);
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
        }
        result
    }

    fn rebuild(
        &mut self,
        progress: &mut dyn FnMut(RefreshProgress<'_>),
    ) -> Result<RefreshReport, PublishError> {
        let start = Instant::now();
        let refreshed_at = self.now();
        let before = self.service.snapshot();
        let mut listed = twice_if_passing(|| self.source.keysets())?;
        self.add_those_of_notes(&mut listed)?;
        let list = start.elapsed();
        if listed.unservable != self.unservable {
            listed.warn_of_unservable();
            self.unservable.clone_from(&listed.unservable);
        }

        let mut report = RefreshReport {
            list,
            total: Duration::ZERO,
            filters: vec![],
            failures: vec![],
        };
        let mut entries = Vec::with_capacity(listed.keysets.len());
        for info in listed.keysets {
            let old = before
                .as_ref()
                .and_then(|snapshot| snapshot.keyset(&info.id));
            entries.push(self.rebuild_keyset(info, old, progress, &mut report)?);
        }
        if let Some(before) = &before {
            warn_of_vanished(before, &entries);
        }
        // A clock that was set back must not make a snapshot look older than the one before it.
        let floor = before.map_or(0, |snapshot| snapshot.refreshed_at());
        let keysets = entries.len();
        self.service
            .publish(Snapshot::new(entries, refreshed_at.max(floor)));
        report.total = start.elapsed();
        tracing::info!(
            keysets,
            filters = report.filters.len(),
            failures = report.failures.len(),
            list_ms = millis(report.list),
            total_ms = millis(report.total),
            "published"
        );
        Ok(report)
    }

    /// Both filters of one keyset; in place of one that fails, the one there was.
    fn rebuild_keyset(
        &mut self,
        info: KeysetInfo,
        old: Option<&KeysetEntry>,
        progress: &mut dyn FnMut(RefreshProgress<'_>),
        report: &mut RefreshReport,
    ) -> Result<KeysetEntry, PublishError> {
        let mut entry = KeysetEntry {
            info,
            spent: None,
            issued: None,
        };
        for kind in Kind::ALL {
            let keyset = &entry.info.id;
            let old = old.and_then(|entry| entry.filter(kind));
            match twice_if_passing(|| self.build(keyset, kind, old, progress)) {
                Ok((filter, times)) => {
                    let built = FilterReport {
                        keyset: keyset.clone(),
                        kind,
                        n: filter.n,
                        filter_bytes: filter.filter_bytes,
                        body_bytes: filter.body.len(),
                        timestamp: filter.timestamp,
                        times,
                    };
                    log_filter(&built, old);
                    report.filters.push(built);
                    entry.set(kind, Some(Arc::new(filter)));
                }
                Err(PublishError::Source(SourceError::Stopped)) => {
                    return Err(SourceError::Stopped.into());
                }
                Err(error) => {
                    let consequence = match old {
                        Some(_) => "filter not rebuilt; the last one is served",
                        None => "filter not built; there is none to serve",
                    };
                    tracing::error!(%keyset, %kind, %error, "{consequence}");
                    report.failures.push(FilterFailure {
                        keyset: keyset.clone(),
                        kind,
                        error,
                    });
                    entry.set(kind, old.cloned());
                }
            }
        }
        Ok(entry)
    }

    fn build(
        &mut self,
        keyset: &KeysetId,
        kind: Kind,
        old: Option<&Arc<PublishedFilter>>,
        progress: &mut dyn FnMut(RefreshProgress<'_>),
    ) -> Result<(PublishedFilter, StageTimes), PublishError> {
        // Before the first row is read, so that the claim "as of" can only be modest.
        let timestamp = self.now().max(old.map_or(0, |filter| filter.timestamp));
        let mut times = StageTimes::default();
        let mut hashes: Vec<u64> = Vec::with_capacity(old.map_or(0, |filter| filter.n as usize));
        let level = Level::detect();

        let start = Instant::now();
        let mut sink = OfOneKeyset {
            keyset,
            bad: None,
            each: |batch: &ItemBatch| {
                let hashing = Instant::now();
                hash_batch(level, batch, &mut hashes);
                times.hash += hashing.elapsed();
                progress(RefreshProgress {
                    keyset,
                    kind,
                    items: hashes.len() as u64,
                });
                match self.stop.load(Ordering::Relaxed) {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            },
        };
        self.source.read(kind, None, &mut sink)?;
        if let Some(error) = sink.bad {
            return Err(error.into());
        }
        times.read = start.elapsed() - times.hash;
        let start = Instant::now();
        let sorted = SortedHashes::<Nut25>::from_hashes(hashes);
        times.sort = start.elapsed();

        let start = Instant::now();
        let filter = sorted.encode(Params::CASHU)?;
        times.encode = start.elapsed();

        let start = Instant::now();
        let body = Bytes::from(FilterResponse::new(&filter, timestamp).to_json());
        times.publish = start.elapsed();
        let (n, filter_bytes) = (filter.n(), filter.bytes().len());
        Ok((
            PublishedFilter {
                n,
                filter_bytes,
                timestamp,
                body,
            },
            times,
        ))
    }

    /// Adds the keysets that only the notes name.
    fn add_those_of_notes(&mut self, listed: &mut Keysets) -> Result<(), PublishError> {
        struct Names(BTreeSet<KeysetId>);
        impl ItemSink for Names {
            fn items(&mut self, keyset: &KeysetId, _items: &ItemBatch) -> ControlFlow<()> {
                if !self.0.contains(keyset) {
                    self.0.insert(keyset.clone());
                }
                ControlFlow::Continue(())
            }

            fn bad_row(&mut self, keyset: &KeysetId, _error: SourceError) -> ControlFlow<()> {
                self.0.insert(keyset.clone());
                ControlFlow::Continue(())
            }
        }
        let mut names = Names(BTreeSet::new());
        for kind in Kind::ALL {
            let reading = twice_if_passing(|| self.source.read(kind, None, &mut names))?;
            for id in reading.unservable {
                if !listed.unservable.contains(&id) {
                    listed.unservable.push(id);
                }
            }
        }
        for id in names.0 {
            if listed.keysets.iter().all(|info| info.id != id) {
                listed.keysets.push(KeysetInfo {
                    id,
                    unit: None,
                    active: false,
                    input_fee_ppk: 0,
                });
            }
        }
        Ok(())
    }

    fn now(&self) -> u64 {
        // Before 1970 the clock is not set at all.
        (self.clock)()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |time| time.as_secs())
    }
}

/// Takes the items of one keyset out of a reading.
struct OfOneKeyset<'a, F> {
    keyset: &'a KeysetId,
    bad: Option<SourceError>,
    each: F,
}

impl<F: FnMut(&ItemBatch) -> ControlFlow<()>> ItemSink for OfOneKeyset<'_, F> {
    fn items(&mut self, keyset: &KeysetId, items: &ItemBatch) -> ControlFlow<()> {
        match keyset == self.keyset {
            true => (self.each)(items),
            false => ControlFlow::Continue(()),
        }
    }

    fn bad_row(&mut self, keyset: &KeysetId, error: SourceError) -> ControlFlow<()> {
        if keyset == self.keyset {
            self.bad.get_or_insert(error);
        }
        ControlFlow::Continue(())
    }
}

fn hash_batch(level: Level, batch: &ItemBatch, hashes: &mut Vec<u64>) {
    let hashed = hashes.len();
    match batch.records() {
        Some((records, length)) => {
            hashes.resize(hashed + batch.len(), 0);
            Nut25.hash_records(level, records, length, &mut hashes[hashed..]);
        }
        None => hashes.extend(batch.items().map(|item| Nut25.hash(item))),
    }
}

fn log_filter(built: &FilterReport, old: Option<&Arc<PublishedFilter>>) {
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
        read_ms = millis(times.read),
        hash_ms = millis(times.hash),
        sort_ms = millis(times.sort),
        encode_ms = millis(times.encode),
        publish_ms = millis(times.publish),
        "built"
    );
    if let Some(old) = old.filter(|old| old.n > *n) {
        // Legitimate after a keyset's final expiry, and otherwise the mark of a restored backup.
        tracing::warn!(%keyset, %kind, n, before = old.n, "the mint has fewer notes than before");
    }
}

fn warn_of_vanished(before: &Snapshot, entries: &[KeysetEntry]) {
    for gone in before
        .keysets()
        .filter(|old| entries.iter().all(|new| new.info.id != old.info.id))
    {
        tracing::warn!(keyset = %gone.info.id, "the mint's database no longer has this keyset");
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
