//! Turns sets into what is served: bodies for changed sets, and a snapshot of everything.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use nutfilter::Params;

use super::RefreshError;
use super::report::{FilterReport, RefreshReport, StageTimes};
use super::{Kind, Refresher, millis, round_down};
use crate::body::BodyPlace;
use crate::finished_filter::FinishedFilter;
use crate::metrics::METRICS;
use crate::snapshot::{KeysetEntry, Snapshot};
use crate::source::KeysetInfo;
use crate::state::{KeysetHashes, KindSets, StateError};
use crate::{KeysetId, NoteKind};

impl Refresher {
    /// Serves the contents of the data directory with their own timestamps, without reading the mint's database.
    /// Call it before the first refresh; later or repeated calls do nothing. Returns whether anything is served.
    ///
    /// # Cost
    ///
    /// One pass over the sets.
    pub fn restore(&mut self) -> bool {
        let Some(directory) = &mut self.directory else {
            return false;
        };
        if self.kinds.states().any(|state| state.as_of != 0) {
            return self.service.snapshot().is_some();
        }
        for kind in NoteKind::ALL {
            let (state, listed) = directory.restore(kind);
            self.kinds[kind].state = state;
            if self.listed.is_empty() {
                self.listed = listed;
            }
        }
        directory.remove_others(self.kinds.states());
        let dates = self.kinds.states().flat_map(KindSets::dates);
        self.latest_date = dates.max().unwrap_or(0);
        if self.latest_date == 0 {
            return false;
        }
        let now = self.clock.wall().as_secs();
        if self.latest_date > now {
            tracing::warn!(
                seconds = self.latest_date - now,
                "data directory is dated in the future; serving nothing until the database is read"
            );
            return false;
        }
        let mut entries = self.entries(self.listed.clone());
        for entry in entries.values_mut() {
            for kind in NoteKind::ALL {
                let filter = self.restored(&entry.info.id, kind);
                entry.set(kind, filter.map(Arc::new));
            }
        }
        let refreshed_at = self.kinds.states().map(|state| state.recorded).max();
        let refreshed_at = refreshed_at.unwrap_or(0);
        let entries = entries.into_values().collect();
        self.service.replace(Snapshot::new(entries, refreshed_at));
        self.show(refreshed_at);
        tracing::info!(
            as_of = round_down(refreshed_at, self.grid),
            spent = self.kinds[NoteKind::Spent].state.items(),
            issued = self.kinds[NoteKind::Issued].state.items(),
            "serving saved filters"
        );
        true
    }

    /// Builds the filter of a restored set. If that fails, the set is kept for the next refresh.
    fn restored(&mut self, keyset: &KeysetId, kind: NoteKind) -> Option<FinishedFilter> {
        let state = &mut self.kinds[kind].state;
        if state.recorded == 0 || state.lost.contains(keyset) {
            return None;
        }
        // A listed keyset without a set had no notes at that time.
        let entry = state.sets.entry(keyset.clone());
        let set = entry.or_insert_with(|| KeysetHashes::empty(state.recorded));
        let mut times = StageTimes::default();
        let timestamp = round_down(set.as_of, self.grid);
        match bodies(set, timestamp, &self.place, &mut times) {
            Ok(filter) => {
                set.changed = false;
                Some(filter)
            }
            Err(error) => {
                tracing::error!(%keyset, %kind, %error, "could not serve a saved set yet");
                None
            }
        }
    }

    /// Every keyset that is listed or has notes, without filters.
    fn entries(&self, listed: Vec<KeysetInfo>) -> BTreeMap<KeysetId, KeysetEntry> {
        let with_notes = self.kinds.states().flat_map(|state| {
            let sets = state.sets.iter().filter(|(_, set)| set.len() > 0);
            let keysets = sets.map(|(keyset, _)| keyset).chain(&state.lost);
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

    /// Builds and serves the filters that need it. Each body is served at once, so that the old one is freed. The new
    /// list of keysets is served last.
    pub(super) fn build(&mut self, as_of: u64, report: &mut RefreshReport) {
        let mut entries = self.entries(self.listed.clone());
        for entry in entries.values_mut() {
            for kind in NoteKind::ALL {
                let keyset = entry.info.id.clone();
                let old = self
                    .service
                    .snapshot()
                    .and_then(|snapshot| snapshot.keyset(&keyset)?.filter(kind).cloned());
                let Kind {
                    failed, held_back, ..
                } = &self.kinds[kind];
                let before = old.as_ref().map(Arc::as_ptr);
                let filter = match *failed || held_back.contains(&keyset) {
                    true => old,
                    false => self.renewed(&keyset, kind, old, report),
                };
                if let Some(filter) = &filter
                    && before != Some(Arc::as_ptr(filter))
                    && let Some(served) = self.service.snapshot()
                    && let Some(next) = served.with_filter(&keyset, kind, Arc::clone(filter))
                {
                    self.service.replace(next);
                }
                entry.set(kind, filter);
            }
        }
        if let Some(before) = self.service.snapshot() {
            warn_of_vanished(&before, &entries);
        }
        for kind in &mut self.kinds.0 {
            // The sets of keysets that are no longer served are empty.
            let sets = &mut kind.state.sets;
            sets.retain(|keyset, _| entries.contains_key(keyset));
        }
        let entries = entries.into_values().collect();
        let snapshot = Snapshot::new(entries, as_of);
        self.latest_date = self.latest_date.max(snapshot.latest_timestamp());
        self.service.replace(snapshot);
    }

    /// Returns the filter of a set: the existing one if it is still valid, or a new one.
    fn renewed(
        &mut self,
        keyset: &KeysetId,
        kind: NoteKind,
        old: Option<Arc<FinishedFilter>>,
        report: &mut RefreshReport,
    ) -> Option<Arc<FinishedFilter>> {
        let period = self.restamp_period();
        let state = &mut self.kinds[kind].state;
        let (as_of, recorded) = (state.as_of, state.recorded);
        // A keyset without a set had no notes in this reading.
        let entry = state.sets.entry(keyset.clone());
        let set = entry.or_insert_with(|| KeysetHashes::empty(as_of));
        let complete = set.as_of.min(recorded);
        let current = old
            .as_ref()
            .filter(|old| !set.changed && u64::from(old.n()) == set.len());
        let timestamp = round_down(complete, if current.is_some() { period } else { self.grid });
        let mut times = StageTimes::default();
        let start = Instant::now();
        let made = match current {
            Some(old) if old.timestamp() >= timestamp => return Some(Arc::clone(old)),
            Some(old) => {
                let restamped = old.restamped(timestamp, &self.place);
                restamped.map_err(RefreshError::Body)
            }
            None => bodies(set, timestamp, &self.place, &mut times).map_err(RefreshError::State),
        };
        match made {
            Ok(filter) => {
                set.changed = false;
                times.body = start.elapsed().saturating_sub(times.encode);
                let built = FilterReport {
                    keyset: keyset.clone(),
                    kind,
                    n: filter.n(),
                    filter_bytes: filter.filter_bytes(),
                    body_bytes: filter.json().bytes().len(),
                    timestamp,
                    times,
                };
                log_filter(&built, old.as_deref());
                report.filters.push(built);
                Some(Arc::new(filter))
            }
            Err(error) => {
                report.fail(Some(keyset.clone()), kind, error);
                old
            }
        }
    }
}

/// Builds the bodies of a set.
fn bodies(
    set: &KeysetHashes,
    timestamp: u64,
    place: &BodyPlace,
    times: &mut StageTimes,
) -> Result<FinishedFilter, StateError> {
    let start = Instant::now();
    let params = Params::CASHU;
    let (raw, n) = set.encode(params, place)?;
    times.encode = start.elapsed();
    FinishedFilter::new(raw, n, params, timestamp, place).map_err(StateError::Body)
}

fn log_filter(built: &FilterReport, old: Option<&FinishedFilter>) {
    let (keyset, kind, n) = (&built.keyset, built.kind, built.n);
    tracing::debug!(
        %keyset,
        %kind,
        n,
        filter_bytes = built.filter_bytes,
        timestamp = built.timestamp,
        encode_ms = millis(built.times.encode),
        body_ms = millis(built.times.body),
        "built"
    );
    if let Some(old) = old.filter(|old| old.n() > n) {
        // Legitimate after a keyset's final expiry; otherwise a sign of a restored backup.
        METRICS.shrunk.with_label_values(&[kind.as_str()]).inc();
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
