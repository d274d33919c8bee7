//! One refresh: read, add, encode what changed, make objects, and put them in the table.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nutfilter::Params;
use nutfilter::error::BuildError;
use nutfilter_cashu::FilterResponse;
use nutfilter_objects::{OpenError, Table};

use crate::clock::{Clock, Moment};
use crate::sets::{Found, Set, Sets};
use crate::source::{KeysetInfo, Keysets, MintSource, SourceError, retry_changed};
use crate::status::{FilterStatus, Monitor, prefix};
use crate::{KeysetId, NoteKind};

/// How a [`Refresher`] works.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RefreshOptions {
    /// P and M of the filters; the default is that of the drafts.
    pub params: Params,
    /// Everything is read again after this time; the default is an hour.
    pub reread: Duration,
    /// An unchanged filter gets a new date at multiples of this; the default is 10 minutes.
    pub restamp: Duration,
    /// Dates are multiples of this, in whole seconds; the default is 1 s. Services that read equal data with the same grid
    /// make equal objects.
    pub grid: Duration,
    /// Whether the list of keysets is an object, too; by default it is.
    pub lists_keysets: bool,
}

impl Default for RefreshOptions {
    fn default() -> Self {
        Self {
            params: Params::default(),
            reread: Duration::from_secs(3_600),
            restamp: Duration::from_secs(600),
            grid: Duration::from_secs(1),
            lists_keysets: true,
        }
    }
}

/// Why a refresh, or a filter of it, failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RefreshError {
    /// The mint's store could not be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A filter could not be encoded.
    #[error("could not encode the filter: {0}")]
    Encode(#[from] BuildError),
    /// An object could not be written.
    #[error("could not write {0}: {1}")]
    Write(String, #[source] io::Error),
    /// The output directory is gone and cannot be made again.
    #[error(transparent)]
    Output(#[from] OpenError),
    /// A row of the keyset could not be read.
    #[error("a row cannot be read; the filter stays as it was")]
    Held,
}

/// What a refresh did.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct RefreshReport {
    /// Whether everything was read, by kind; `None` if the kind could not be read.
    pub whole: [Option<bool>; 2],
    /// The number of items that were read, by kind.
    pub items: [u64; 2],
    /// Items that are no longer there, of whole readings.
    pub lost: u64,
    /// The number of filters that were encoded.
    pub encoded: usize,
    /// What failed, with the object's path, or the kind.
    pub failures: Vec<(String, RefreshError)>,
}

/// Builds all filters of a mint, and keeps their objects in a table.
///
/// All methods block: run it on its own thread, or use a [`RefreshThread`](crate::RefreshThread).
///
/// # Cost
///
/// 8 bytes of memory per item; while everything is read, another 8 to 16 per item of the kind. For each refresh what the
/// source takes; for each filter that changed one linear pass.
#[derive(Debug)]
pub struct Refresher {
    source: Source,
    monitor: Arc<Monitor>,
    clock: Clock,
    sets: [Sets; 2],
    listed: Vec<KeysetInfo>,
    options: RefreshOptions,
}

struct Source(Box<dyn MintSource>);

impl core::fmt::Debug for Source {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.0.mint())
    }
}

impl Refresher {
    /// Creates a refresher from `source` to the table of `monitor`. A table has one refresher.
    pub fn new(
        source: impl MintSource + 'static,
        monitor: Arc<Monitor>,
        options: RefreshOptions,
    ) -> Self {
        Self::with_clock(source, monitor, options, Clock::system())
    }

    pub(crate) fn with_clock(
        source: impl MintSource + 'static,
        monitor: Arc<Monitor>,
        options: RefreshOptions,
        clock: Clock,
    ) -> Self {
        Self {
            source: Source(Box::new(source)),
            monitor,
            clock,
            sets: Default::default(),
            listed: vec![],
            options,
        }
    }

    /// The monitor, which has the table.
    #[must_use]
    pub fn monitor(&self) -> &Arc<Monitor> {
        &self.monitor
    }

    /// Reads what is new, or everything: if `whole`, if the last time is long ago, or in doubt. Makes the objects that
    /// changed. A failure of one filter is reported and logged, and does not hold back the others.
    ///
    /// # Errors
    ///
    /// If neither kind could be read, if the keysets could not be listed, if the output directory cannot be made again, or if
    /// the refresh was stopped. What is served stays.
    pub fn refresh(&mut self, whole: bool) -> Result<RefreshReport, RefreshError> {
        let start = Instant::now();
        let began = self.clock.now();
        let result = self.renew(whole);
        if let Err(RefreshError::Source(SourceError::Stopped)) = result {
            return result;
        }
        self.tell(began, start.elapsed(), &result);
        result
    }

    fn renew(&mut self, whole: bool) -> Result<RefreshReport, RefreshError> {
        self.table().restore()?;
        self.withdraw();
        let mut report = RefreshReport::default();
        let mut errors = vec![];
        for kind in NoteKind::ALL {
            match self.read(kind, whole, &mut report) {
                Err(RefreshError::Source(SourceError::Stopped)) => {
                    return Err(SourceError::Stopped.into());
                }
                Err(error) => errors.push((kind, error)),
                Ok(()) => {}
            }
        }
        if let [None, None] = report.whole
            && let Some((_, error)) = errors.pop()
        {
            return Err(error);
        }
        for (kind, error) in errors {
            report.fail(kind.to_string(), error);
        }
        let Keysets {
            keysets,
            unservable,
        } = self.source.0.keysets()?;
        if keysets != self.listed && !unservable.is_empty() {
            tracing::warn!(ids = unservable.join(" "), "skipping invalid keyset ids");
        }
        self.listed = keysets;
        self.encode(&mut report);
        Ok(report)
    }

    fn read(
        &mut self,
        kind: NoteKind,
        whole: bool,
        report: &mut RefreshReport,
    ) -> Result<(), RefreshError> {
        let sets = &mut self.sets[kind as usize];
        let is_due = sets
            .read_whole
            .is_none_or(|last| self.clock.since(last) >= self.options.reread);
        let (began, reading, found) = retry_changed(|| {
            let began = self.clock.now();
            let mut found = Found::new(&self.monitor.stop);
            let reading = self.source.0.read(kind, whole || is_due, &mut found)?;
            Ok((began, reading, found))
        })?;
        let taken = sets.take(found, reading.whole.is_some()).inspect_err(|_| {
            // The sets are incomplete: the next reading has to replace them.
            sets.read_whole = None;
        })?;
        sets.read = Some(began);
        if reading.whole.is_some() {
            sets.read_whole = Some(began);
        }
        if sets.unservable != reading.unservable {
            tracing::warn!(
                ids = reading.unservable.join(" "),
                "skipping rows with invalid keyset ids"
            );
            sets.unservable = reading.unservable;
        }
        for (keyset, lost) in &taken.lost {
            tracing::warn!(%keyset, %kind, lost, "items are no longer in the database");
        }
        report.whole[kind as usize] = Some(reading.whole.is_some());
        report.items[kind as usize] = taken.items;
        report.lost += taken.lost.values().sum::<u64>();
        Ok(())
    }

    /// Encodes the filters that changed, are due for a new date, or are not where they were put.
    fn encode(&mut self, report: &mut RefreshReport) {
        let listed: BTreeMap<&KeysetId, &KeysetInfo> =
            self.listed.iter().map(|info| (&info.id, info)).collect();
        // Both kinds of a keyset are served while it is listed, or has notes of either kind.
        let found = self.sets.iter().flat_map(|sets| &sets.by_keyset);
        let found = found.filter(|(_, set)| set.held || !set.hashes.is_empty());
        let found = found.map(|(keyset, _)| keyset);
        let keysets: BTreeSet<KeysetId> = found.chain(listed.keys().copied()).cloned().collect();
        let table = Arc::clone(self.table());
        let mut filters = vec![];
        for kind in NoteKind::ALL {
            let sets = &mut self.sets[kind as usize];
            for keyset in &keysets {
                let path = prefix(kind) + &keyset.canonical();
                let set = match sets.by_keyset.get_mut(keyset) {
                    Some(set) => set,
                    None => sets.by_keyset.entry(keyset.clone()).or_default(),
                };
                if let Some(read) = sets.read {
                    let read = self.clock.corrected(read);
                    let date = self.options.date(read, set);
                    let result = match set.held {
                        true => Err(RefreshError::Held),
                        false if self.options.is_due(set, date, &table, &path) => {
                            encode(set, &table, &path, self.options.params, date).inspect(|()| {
                                (set.changed, set.dated) = (false, Some((read, date)));
                                report.encoded += 1;
                            })
                        }
                        false => Ok(()),
                    };
                    if let Err(error) = result {
                        report.fail(path.clone(), error);
                    }
                }
                filters.push(FilterStatus {
                    path,
                    keyset: Some(keyset.clone()),
                    kind,
                    active: listed.get(keyset).is_some_and(|info| info.active),
                    items: set.hashes.len() as u64,
                    held: set.held,
                });
            }
        }
        self.list_keysets(&table, report);
        let served: BTreeSet<&str> = filters.iter().map(|filter| &*filter.path).collect();
        // What was published before says nothing of a kind that was never read.
        let unread = NoteKind::ALL.map(|kind| match self.sets[kind as usize].read {
            None => Some(prefix(kind)),
            Some(_) => None,
        });
        table.retain(|path| {
            let is_unread = unread
                .iter()
                .flatten()
                .any(|prefix| path.starts_with(prefix));
            !path.starts_with("v1/filter/") || served.contains(path) || is_unread
        });
        self.monitor.update(|status| status.filters = filters);
    }

    /// Makes the list of keysets (NUT-02), after the filters.
    fn list_keysets(&self, table: &Table, report: &mut RefreshReport) {
        const PATH: &str = "v1/keysets";
        if !self.options.lists_keysets {
            return;
        }
        let keysets = self.listed.iter().map(|keyset| {
            serde_json::json!({
                "id": keyset.id.as_str(),
                "unit": keyset.unit.as_deref().unwrap_or("unknown"),
                "active": keyset.active,
                "input_fee_ppk": keyset.input_fee_ppk,
            })
        });
        let text = serde_json::json!({ "keysets": keysets.collect::<Vec<_>>() }).to_string();
        let tag = nutfilter_objects::tag_of(text.as_bytes());
        if table.is_intact(PATH) && table.get(PATH).is_some_and(|object| object.tag() == tag) {
            return;
        }
        if let Err(error) = table.put(PATH, JSON, self.clock.now().date(), |out| {
            out.write_all(text.as_bytes())
        }) {
            report.fail(PATH.to_owned(), RefreshError::Write(PATH.to_owned(), error));
        }
    }

    /// Withdraws filters whose date may be later than they are true, because the clock was ahead when they were read.
    /// Returns whether there were any.
    pub(crate) fn withdraw(&mut self) -> bool {
        let mut withdrawn = 0;
        for kind in NoteKind::ALL {
            for (keyset, set) in &mut self.sets[kind as usize].by_keyset {
                if set
                    .dated
                    .is_some_and(|(read, _)| self.clock.was_set_back_since(read))
                {
                    set.dated = None;
                    self.monitor
                        .table()
                        .remove(&(prefix(kind) + &keyset.canonical()));
                    withdrawn += 1;
                }
            }
        }
        // Those of an earlier process, too.
        let now = self.clock.now().date();
        for object in self.table().objects() {
            if object.date() > now && object.path().starts_with("v1/filter/") {
                self.table().remove(object.path());
                withdrawn += 1;
            }
        }
        if withdrawn > 0 {
            tracing::warn!(
                filters = withdrawn,
                "clock was set back; withdrawing filters that may be dated later than they are true, and making them again"
            );
            self.monitor.update(|status| status.withdrawn += withdrawn);
        }
        withdrawn > 0
    }

    /// After a panic of the source the sets may lack items.
    pub(crate) fn distrust(&mut self) {
        for sets in &mut self.sets {
            sets.read_whole = None;
        }
        self.monitor.update(|status| {
            status.failure = Some("the refresh panicked".to_owned());
            status.refreshes[2] += 1;
        });
    }

    fn table(&self) -> &Arc<Table> {
        self.monitor.table()
    }

    /// The time of day, for the schedule.
    pub(crate) fn now(&self) -> Duration {
        self.clock.now().wall()
    }

    pub(crate) fn set_grid(&mut self, grid: Duration) {
        self.options.grid = grid;
    }

    fn tell(&self, began: Moment, took: Duration, result: &Result<RefreshReport, RefreshError>) {
        let (sets, failure) = (
            &self.sets,
            match result {
                Ok(report) => report
                    .failures
                    .first()
                    .map(|(what, error)| format!("{what}: {error}")),
                Err(error) => Some(error.to_string()),
            },
        );
        self.monitor.update(|status| {
            let outcome = match result {
                Ok(_) if failure.is_none() => 0,
                Ok(_) => 1,
                Err(_) => 2,
            };
            status.refreshes[outcome] += 1;
            status.seconds += took.as_secs_f64();
            if outcome == 0 {
                status.refreshed = began.date();
            }
            status.failure.clone_from(&failure);
            status.mint = self.source.0.mint().to_owned();
            status.unreadable = [sets[0].unreadable, sets[1].unreadable];
            if let Ok(report) = result {
                status.items_lost += report.lost;
                for kind in 0..2 {
                    status.read[kind][usize::from(report.whole[kind] != Some(true))] +=
                        report.items[kind];
                    status.whole_readings[kind] += u64::from(report.whole[kind] == Some(true));
                }
            }
        });
        match result {
            Err(error) => match self.table().objects().is_empty() {
                true => tracing::error!(%error, "refresh failed; nothing to serve yet"),
                false => {
                    tracing::error!(%error, "refresh failed; still serving the previous filters")
                }
            },
            Ok(report) => {
                let read: u64 = report.items.iter().sum();
                macro_rules! refreshed {
                    ($level:expr) => {
                        tracing::event!(
                            $level,
                            as_of = began.date(),
                            spent = sets[0].items(),
                            issued = sets[1].items(),
                            read,
                            whole = report.whole.contains(&Some(true)),
                            filters = report.encoded,
                            failures = report.failures.len(),
                            total_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
                            "refreshed"
                        )
                    };
                }
                // A refresh without new items happens every few seconds.
                match report.encoded > 0 || !report.failures.is_empty() {
                    true => refreshed!(tracing::Level::INFO),
                    false => refreshed!(tracing::Level::DEBUG),
                }
            }
        }
    }
}

const JSON: &str = "application/json";

/// Encodes a set into its object.
fn encode(
    set: &Set,
    table: &Table,
    path: &str,
    params: Params,
    date: u64,
) -> Result<(), RefreshError> {
    let filter = set.hashes.encode(params)?;
    let write =
        |out: &mut dyn Write| FilterResponse::write(out, filter.n(), params, filter.bytes(), date);
    table
        .put(path, JSON, date, write)
        .map_err(|error| RefreshError::Write(path.to_owned(), error))
}

impl RefreshOptions {
    /// The date of a set that was read at a moment. Services that read an unchanged set at different times give it the same
    /// new date.
    fn date(&self, read: Moment, set: &Set) -> u64 {
        let date = read.date();
        match set.dated {
            Some((_, before)) if !set.changed => before.max(date - date % self.period()),
            _ => date - date % self.grid(),
        }
    }

    /// Whether a filter has to be made.
    fn is_due(&self, set: &Set, date: u64, table: &Table, path: &str) -> bool {
        set.changed || set.dated.is_none_or(|(_, before)| before != date) || !table.is_intact(path)
    }

    fn grid(&self) -> u64 {
        self.grid.as_secs().max(1)
    }

    /// Seconds between the dates of an unchanged filter. A multiple of the grid, so no filter is dated before the one that
    /// it replaces.
    fn period(&self) -> u64 {
        self.restamp.as_secs().div_ceil(self.grid()).max(1) * self.grid()
    }
}

impl RefreshReport {
    /// Whether everything succeeded.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.failures.is_empty()
    }

    fn fail(&mut self, what: String, error: RefreshError) {
        // Rows that cannot be read are told when they come.
        if !matches!(error, RefreshError::Held) {
            tracing::error!(what, %error, "filter update failed; serving the previous one, if any");
        }
        self.failures.push((what, error));
    }
}
