//! One refresh: read, add, encode what changed, make objects, and put them in the table.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nutfilter::Params;
use nutfilter::error::BuildError;
use nutfilter_cashu::{FilterResponse, KeysetId, NoteKind};
use nutfilter_objects::{Made, OpenError, Refused, Table};

use crate::clock::{Clock, Moment};
use crate::published::{Comparison, Published, text_of};
use crate::sets::{Claim, Found, GoneItems, Set, Sets};
use crate::source::{AsOf, KeysetInfo, Keysets, MintSource, SourceError, retry_changed};
use crate::status::{FilterState, FilterStatus, Loss, Monitor, lock, parse_path, path_of};

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
    /// Losses that the operator accepts: these keysets are not held for so many values of filters of this date.
    pub accepted: Vec<Loss>,
}

impl Default for RefreshOptions {
    fn default() -> Self {
        Self {
            params: Params::default(),
            reread: Duration::from_secs(3_600),
            restamp: Duration::from_secs(600),
            grid: Duration::from_secs(1),
            lists_keysets: true,
            accepted: vec![],
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
    #[error("unreadable row; keeping the previous filter")]
    Held,
    /// None of the published keysets is in the store: it is another mint's, or a new one.
    #[error(
        "none of the {keysets} published keysets is in this database, such as {}; if it is the right one, use another output \
         directory, or accept each loss: --accept-loss {accept}",
        keyset
    )]
    OtherMint {
        /// The number of published keysets.
        keysets: usize,
        /// One of them.
        keyset: KeysetId,
        /// What would have to be accepted.
        accept: String,
    },
}

/// What a refresh did.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct RefreshReport {
    /// Whether everything was read, by kind; `None` if the kind could not be read.
    pub whole: [Option<bool>; 2],
    /// Why everything was read, by kind, in the words of the source.
    pub reasons: [Option<&'static str>; 2],
    /// The number of items that were read, by kind.
    pub items: [u64; 2],
    /// Items that whole readings no longer found, and that they found before. The filters keep them.
    pub lost: u64,
    /// The number of filters that were encoded.
    pub encoded: usize,
    /// Keysets of which whole readings found more or fewer items gone than before, by kind: before, and now.
    gone: [Vec<GoneItems>; 2],
    /// What failed, with the object's path, or the kind.
    pub failures: Vec<(String, RefreshError)>,
}

/// Builds all filters of a mint, and keeps their objects in a table.
///
/// All methods block: run it on its own thread, or use [`Filters`](crate::Filters), which have one.
///
/// # Cost
///
/// 8 bytes of memory per item; while everything is read, another 8 to 16 per item of the kind. For each refresh what the
/// source takes; for each filter that changed one linear pass.
#[derive(Debug)]
pub struct Refresher {
    source: Box<dyn MintSource>,
    monitor: Arc<Monitor>,
    clock: Clock,
    sets: [Sets; 2],
    listed: Vec<KeysetInfo>,
    /// When keysets end, as far as it was known before they left the store.
    expiries: BTreeMap<KeysetId, u64>,
    /// What an earlier process published and was not found to be in the sets yet.
    published: Vec<Published>,
    is_compared: bool,
    /// Keysets whose filters stay, because the store lacks what was published, and whether that is by their end.
    held: BTreeMap<KeysetId, (Loss, bool)>,
    /// Keysets whose loss the operator accepted: their dates may go back once.
    accepted: BTreeSet<KeysetId>,
    options: RefreshOptions,
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
        let listed = || keysets_in(monitor.table());
        let with_filters = listed().filter(|_| options.lists_keysets).map(|(keyset, _)| keyset);
        let published = Published::all(monitor.table(), with_filters);
        let expiries = listed()
            .filter_map(|(keyset, value)| Some((keyset, value.get("final_expiry")?.as_u64()?)));
        Self {
            source: Box::new(source),
            expiries: expiries.collect(),
            monitor,
            clock,
            sets: Default::default(),
            listed: vec![],
            published,
            is_compared: false,
            held: BTreeMap::new(),
            accepted: BTreeSet::new(),
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
    /// If neither kind could be read, if the keysets could not be listed, if the output directory cannot be made again, if
    /// the store is another mint's than what was published, or if the refresh was stopped. What is served stays.
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
        let accepted = core::mem::take(&mut *lock(&self.monitor.accepted));
        self.options.accepted.extend(accepted);
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
        let is_complete = errors.is_empty();
        for (kind, error) in errors {
            report.fail(kind.to_string(), error);
        }
        let Keysets { keysets, unservable } = self.source.keysets()?;
        if keysets != self.listed && !unservable.is_empty() {
            tracing::warn!(ids = unservable.join(" "), "skipping invalid keyset ids");
        }
        let ends = keysets.iter().filter_map(|one| Some((one.id.clone(), one.final_expiry?)));
        self.expiries.extend(ends);
        self.listed = keysets;
        self.tell_gone(&mut report);
        // A wallet that has both filters of a keyset takes them for one state of the mint.
        if is_complete {
            self.compare(&report)?;
            self.encode(&mut report)?;
        }
        Ok(report)
    }

    fn read(
        &mut self,
        kind: NoteKind,
        whole: bool,
        report: &mut RefreshReport,
    ) -> Result<(), RefreshError> {
        let sets = &mut self.sets[kind as usize];
        let is_due =
            sets.read_whole.is_none_or(|last| self.clock.since(last) >= self.options.reread);
        let (began, reading, found) = retry_changed(|| {
            let began = self.clock.now();
            let mut found = Found::new(&self.monitor.stop);
            let reading = self.source.read(kind, whole || is_due, &mut found)?;
            // A source may end where it is stopped, and call that a reading.
            match self.monitor.stop.load(Ordering::Relaxed) {
                true => Err(SourceError::Stopped),
                false => Ok((began, reading, found)),
            }
        })?;
        let orphans = found.orphans();
        let (items, gone) = sets.take(found, reading.whole.is_some()).inspect_err(|_| {
            // The sets are incomplete: the next reading has to replace them.
            sets.read_whole = None;
        })?;
        let as_of = reading.as_of;
        sets.read = Some(Claim { began, as_of });
        if reading.whole.is_some() {
            (sets.read_whole, sets.without_keyset) = (Some(began), 0);
        }
        sets.without_keyset += orphans;
        if sets.unservable != reading.unservable {
            tracing::warn!(
                %kind,
                rows = sets.without_keyset,
                ids = reading.unservable.join(" "),
                "counting rows with invalid keyset ids in every filter"
            );
            sets.unservable = reading.unservable;
        }
        report.whole[kind as usize] = Some(reading.whole.is_some());
        report.reasons[kind as usize] = reading.whole;
        report.items[kind as usize] = items;
        report.gone[kind as usize] = gone;
        Ok(())
    }

    /// Whether a keyset has ended, as far as it was known before it left the store.
    fn has_ended(&self, keyset: &KeysetId) -> bool {
        let end = self.expiries.get(keyset);
        end.is_some_and(|&end| end < self.clock.now().date())
    }

    /// Tells what whole readings no longer found, and found again.
    fn tell_gone(&self, report: &mut RefreshReport) {
        for kind in NoteKind::ALL {
            for (keyset, [before, now]) in core::mem::take(&mut report.gone[kind as usize]) {
                if self.has_ended(&keyset) {
                    tracing::info!(%keyset, %kind, items = now, "keyset retired; its filters stay");
                } else if now > before {
                    report.lost += now - before;
                    tracing::error!(
                        %keyset, %kind, items = now,
                        "items are no longer in the database; filters keep them, and may call restored notes spent; \
                         restart, then accept the loss"
                    );
                } else {
                    tracing::info!(%keyset, %kind, gone = now, "items are in the database again");
                }
            }
        }
    }

    /// Compares what was published before this process began with the sets, once both kinds were read whole.
    fn compare(&mut self, report: &RefreshReport) -> Result<(), RefreshError> {
        let is_due = !self.is_compared || report.whole.contains(&Some(true));
        let is_whole = self.sets.iter().all(|sets| sets.read_whole.is_some());
        if !is_due || !is_whole || self.published.is_empty() {
            return Ok(());
        }
        let mut compared: BTreeMap<KeysetId, Vec<(NoteKind, Option<Comparison>)>> = BTreeMap::new();
        for published in &self.published {
            let comparison = published.compare(&self.sets[published.kind as usize]);
            let of_keyset = compared.entry(published.keyset.clone()).or_default();
            of_keyset.push((published.kind, comparison));
        }
        let losses: BTreeMap<&KeysetId, Loss> =
            compared.iter().map(|(keyset, found)| (keyset, loss_of(keyset, found))).collect();
        if !self.is_compared {
            self.refuse_other_mint(&losses)?;
        }
        let (mut held, mut not_compared) = (BTreeMap::new(), vec![]);
        for (keyset, found) in &compared {
            let (loss, has_ended) = (&losses[keyset], self.has_ended(keyset));
            let before = self.held.get(keyset);
            if found.iter().any(|(_, comparison)| comparison.is_none()) {
                // A hold does not end because somebody took the file away.
                if let Some(before) = before {
                    held.insert(keyset.clone(), before.clone());
                    continue;
                }
            }
            // Both were published together.
            let is_read = |kind| found.iter().any(|(of, one)| *of == kind && one.is_some());
            let unread = NoteKind::ALL.into_iter().filter(|&kind| !is_read(kind));
            if !self.is_compared {
                not_compared.extend(unread.map(|kind| path_of(kind, keyset)));
            }
            if loss.values == 0 {
                if before.is_some() {
                    tracing::info!(%keyset, "everything published is in the database again; no longer holding the keyset");
                }
            } else if has_ended {
                if before.is_none() {
                    tracing::info!(%loss, "keyset retired; its filters stay");
                }
                held.insert(keyset.clone(), (loss.clone(), true));
            } else if self.accepts(loss) {
                tracing::warn!(%loss, "loss accepted; replacing filters with smaller ones");
                self.accepted.insert(keyset.clone());
            } else {
                if before.is_none_or(|(before, _)| before != loss) {
                    let too_small_to_tell = found.iter().any(|(_, comparison)| {
                        comparison.as_ref().is_some_and(|one| one.gone > 0 && one.too_small_to_tell)
                    });
                    tracing::error!(
                        %keyset, too_small_to_tell,
                        "keyset held: the database lacks items that were published; its filters stay as they are until the \
                         items are back, or the loss is accepted: --accept-loss {loss}"
                    );
                }
                held.insert(keyset.clone(), (loss.clone(), false));
            }
        }
        if !not_compared.is_empty() {
            tracing::error!(
                filters = not_compared.join(" "),
                "could not compare published filters with the database: they are gone or cannot be read"
            );
        }
        for (keyset, found) in compared {
            for (kind, comparison) in found {
                let Some(comparison) = comparison else {
                    continue;
                };
                let sets = &mut self.sets[kind as usize];
                sets.of(&keyset).served = comparison.items;
                if !held.contains_key(&keyset) {
                    sets.add(&keyset, comparison.elsewhere)?;
                }
            }
        }
        self.published.retain(|published| held.contains_key(&published.keyset));
        self.held = held;
        self.is_compared = true;
        let held = self.held.values().filter(|(_, has_ended)| !has_ended);
        let held: Vec<Loss> = held.map(|(loss, _)| loss.clone()).collect();
        self.monitor.update(|status| {
            status.held = held;
            status.not_compared.extend(not_compared);
        });
        Ok(())
    }

    /// Refuses a store in which no published keyset is, but for those that have ended, unless each of these losses is accepted.
    fn refuse_other_mint(&self, losses: &BTreeMap<&KeysetId, Loss>) -> Result<(), RefreshError> {
        let is_there = |keyset: &KeysetId| {
            self.listed.iter().any(|info| info.id == *keyset)
                || self.sets.iter().any(|sets| sets.has_rows(keyset))
        };
        let live = losses.iter().filter(|(keyset, _)| !self.has_ended(keyset));
        let live: Vec<_> = live.collect();
        let unknown = live.iter().all(|(keyset, _)| !is_there(keyset));
        match live.first() {
            Some((keyset, _)) if unknown && !live.iter().all(|(_, loss)| self.accepts(loss)) => {
                let accept: Vec<String> = live.iter().map(|(_, loss)| loss.to_string()).collect();
                let held = live.iter().map(|(_, loss)| (*loss).clone()).collect();
                self.monitor.update(|status| status.held = held);
                Err(RefreshError::OtherMint {
                    keysets: live.len(),
                    keyset: (**keyset).clone(),
                    accept: accept.join(","),
                })
            }
            _ => Ok(()),
        }
    }

    /// Whether the operator accepts a loss: at most so many values, of filters of just this date.
    fn accepts(&self, loss: &Loss) -> bool {
        self.options.accepted.iter().any(|accepted| {
            accepted.keyset == loss.keyset
                && accepted.date == loss.date
                && accepted.values >= loss.values
        })
    }

    /// Encodes the filters that changed, are due for a new date, or are not where they were put. Both of a keyset take their
    /// places together.
    fn encode(&mut self, report: &mut RefreshReport) -> Result<(), RefreshError> {
        let listed: BTreeMap<KeysetId, bool> =
            self.listed.iter().map(|info| (info.id.clone(), info.active)).collect();
        // Both kinds of a keyset are served while it is listed, or has notes of either kind.
        let found = self.sets.iter().flat_map(|sets| {
            let found = sets.by_keyset.iter();
            found.filter(|(_, set)| set.unreadable || set.hashes.len() > sets.orphans.len())
        });
        let found = found.map(|(keyset, _)| keyset);
        let keysets: BTreeSet<KeysetId> =
            found.chain(listed.keys()).chain(self.held.keys()).cloned().collect();
        let mut filters = vec![];
        for keyset in &keysets {
            let states = self.encode_keyset(keyset, report)?;
            for (kind, state) in NoteKind::ALL.into_iter().zip(states) {
                filters.push(FilterStatus {
                    path: path_of(kind, keyset),
                    keyset: Some(keyset.clone()),
                    kind,
                    active: listed.get(keyset).copied().unwrap_or(false),
                    items: self.sets[kind as usize].of(keyset).served,
                    state,
                });
            }
        }
        let table = Arc::clone(self.table());
        self.list_keysets(&table, &keysets, report);
        // What claims more than the operator accepted would be compared again at the next start.
        self.accepted.retain(|keyset| {
            let is_served = keysets.contains(keyset);
            for kind in NoteKind::ALL.into_iter().filter(|_| !is_served) {
                table.remove(&path_of(kind, keyset));
            }
            is_served
        });
        let served: BTreeSet<&str> = filters.iter().map(|filter| &*filter.path).collect();
        table.retain(|path| parse_path(path).is_none() || served.contains(path));
        let undated = |filters: &[FilterStatus]| {
            let undated = filters.iter().filter(|filter| filter.state == FilterState::Undated);
            undated.count()
        };
        self.monitor.update(|status| {
            let now = undated(&filters);
            if now > undated(&status.filters) {
                tracing::warn!(
                    filters = now,
                    "not publishing filters: cannot tell how old the database is"
                );
            }
            status.filters = filters;
        });
        Ok(())
    }

    /// Encodes the filters of a keyset that are due, and tells the state of each.
    fn encode_keyset(
        &mut self,
        keyset: &KeysetId,
        report: &mut RefreshReport,
    ) -> Result<[FilterState; 2], RefreshError> {
        let mut is_ended = false;
        for kind in NoteKind::ALL {
            let set = self.sets[kind as usize].of(keyset);
            if set.unreadable {
                report.fail(path_of(kind, keyset), RefreshError::Held);
            }
            is_ended |= set.gone > 0;
        }
        let is_unreadable =
            |sets: &Sets| sets.by_keyset.get(keyset).is_some_and(|set| set.unreadable);
        if let Some((_, has_ended)) = self.held.get(keyset) {
            return Ok(match has_ended {
                true => [FilterState::Retired; 2],
                false => [FilterState::Held; 2],
            });
        } else if self.sets.iter().any(is_unreadable) {
            return Ok([FilterState::Unreadable; 2]);
        } else if is_ended && self.has_ended(keyset) {
            return Ok([FilterState::Retired; 2]);
        }
        let table = Arc::clone(self.table());
        let (mut states, mut made) = ([FilterState::Current; 2], vec![]);
        for kind in NoteKind::ALL {
            let path = path_of(kind, keyset);
            let is_accepted = self.accepted.contains(keyset);
            let sets = &mut self.sets[kind as usize];
            let (Some(claim), set) = (sets.read, sets.by_keyset.entry(keyset.clone()).or_default())
            else {
                continue;
            };
            let now = self.clock.now().date();
            let before =
                || Some(table.get(&path)?.date()).filter(|&date| !is_accepted && date <= now);
            let before = set.dated.or_else(before);
            let dated = self.options.date(&self.clock, claim, keyset, set, before);
            states[kind as usize] = match (claim.as_of, dated) {
                (_, None) => FilterState::Undated,
                (AsOf::LastChange(_) | AsOf::Unknown, _) => FilterState::Idle,
                _ => FilterState::Current,
            };
            let Some((date, by)) = dated else { continue };
            if set.changed || set.dated != Some(date) || !table.is_intact(&path) {
                let object = encode(set, &table, &path, self.options.params, date);
                made.push((kind, path, date, by, object));
            }
        }
        if made.iter().any(|(.., object)| object.is_err()) {
            for (_, path, .., object) in made {
                object.map_or_else(|error| report.fail(path, error), drop);
            }
            return Ok(states);
        }
        // Issued first: a reader of both files may then find messages of notes that are not spent yet, and never a note that is
        // spent and was not issued.
        made.reverse();
        let (mut placed, mut objects) = (vec![], vec![]);
        for (kind, _, date, by, object) in made {
            objects.extend(object);
            placed.push((kind, date, by));
        }
        if let Err((path, error)) = table.place(objects) {
            report.fail(path.clone(), RefreshError::Write(path, error));
            return Ok(states);
        }
        for (kind, date, by) in placed {
            let set = self.sets[kind as usize].of(keyset);
            (set.changed, set.dated, set.dated_by) = (false, Some(date), by);
            set.served = set.hashes.len() as u64;
            report.encoded += 1;
        }
        Ok(states)
    }

    /// Makes the list of keysets (NUT-02), after the filters.
    fn list_keysets(&self, table: &Table, served: &BTreeSet<KeysetId>, report: &mut RefreshReport) {
        // It tells the next process what was published, so it names no keyset while nothing is.
        let has_filters = table.objects().iter().any(|one| parse_path(one.path()).is_some());
        if !self.options.lists_keysets || !has_filters && !self.listed.is_empty() {
            return;
        }
        let keysets = self.listed.iter().map(|keyset| {
            let mut entry = serde_json::json!({
                "id": keyset.id.as_str(),
                "unit": keyset.unit.as_deref().unwrap_or("unknown"),
                "active": keyset.active,
                "input_fee_ppk": keyset.input_fee_ppk,
            });
            if let Some(end) = keyset.final_expiry {
                entry["final_expiry"] = end.into();
            }
            entry
        });
        let mut keysets: Vec<_> = keysets.collect();
        // Those that have left the store are served with what they were; the next process has to know their ends, too.
        let listed: BTreeSet<&KeysetId> = self.listed.iter().map(|info| &info.id).collect();
        for (keyset, mut entry) in keysets_in(table) {
            if !listed.contains(&keyset) && served.contains(&keyset) {
                entry["active"] = false.into();
                keysets.push(entry);
            }
        }
        let text = serde_json::json!({ "keysets": keysets }).to_string();
        let tag = nutfilter_objects::tag_of(text.as_bytes());
        if table.is_intact(KEYSETS) && table.get(KEYSETS).is_some_and(|object| object.tag() == tag)
        {
            return;
        }
        if let Err(error) =
            table.put(KEYSETS, JSON, self.clock.now().date(), |out| out.write_all(text.as_bytes()))
        {
            report.fail(KEYSETS.to_owned(), RefreshError::Write(KEYSETS.to_owned(), error));
        }
    }

    /// Withdraws filters whose date may be later than they are true, because the clock was ahead when they were read.
    /// Returns whether there were any.
    pub(crate) fn withdraw(&mut self) -> bool {
        let mut withdrawn = 0;
        for kind in NoteKind::ALL {
            for (keyset, set) in &mut self.sets[kind as usize].by_keyset {
                let set_back = |read| self.clock.was_set_back_since(read);
                if set.dated_by.is_some_and(set_back) {
                    (set.dated, set.dated_by) = (None, None);
                    self.monitor.table().remove(&path_of(kind, keyset));
                    withdrawn += 1;
                }
            }
        }
        // Those of an earlier process, too.
        let now = self.clock.now().date();
        for object in self.table().objects() {
            // Those that are not compared yet are not given out either, but say what was published.
            let is_compared =
                || self.published.iter().all(|one| path_of(one.kind, &one.keyset) != object.path());
            if object.date() > now && parse_path(object.path()).is_some() && is_compared() {
                self.table().remove(object.path());
                withdrawn += 1;
            }
        }
        if withdrawn > 0 {
            tracing::warn!(
                filters = withdrawn,
                "clock was set back; withdrawing and rebuilding filters with a timestamp that may be too late"
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
                Ok(report) => {
                    report.failures.first().map(|(what, error)| format!("{what}: {error}"))
                }
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
            status.failure.clone_from(&failure);
            status.other_mint = matches!(result, Err(RefreshError::OtherMint { .. }));
            status.mint = self.source.mint().to_owned();
            status.alone = self.source.is_alone();
            status.open_commits = self.source.open_commits();
            status.unreadable = [sets[0].unreadable, sets[1].unreadable];
            status.without_keyset = [sets[0].without_keyset, sets[1].without_keyset];
            let gone = sets.iter().flat_map(|sets| sets.by_keyset.values());
            status.items_gone = gone.map(|set| set.gone).sum();
            if let Ok(report) = result {
                status.items_lost += report.lost;
                if let [Some(_), Some(_)] = report.whole {
                    status.refreshed = began.date();
                }
                for kind in NoteKind::ALL {
                    let (at, reason) = (kind as usize, report.reasons[kind as usize]);
                    status.read[at][usize::from(reason.is_none())] += report.items[at];
                    if let Some(reason) = reason {
                        *status.whole_readings.entry((kind, reason)).or_default() += 1;
                    }
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

/// Encodes a set into an object.
fn encode(
    set: &Set,
    table: &Table,
    path: &str,
    params: Params,
    date: u64,
) -> Result<Made, RefreshError> {
    let filter = set.hashes.encode(params)?;
    let write =
        |out: &mut dyn Write| FilterResponse::write(out, filter.n(), params, filter.bytes(), date);
    table.make(path, JSON, date, write).map_err(|error| RefreshError::Write(path.to_owned(), error))
}

/// What the store lacks of the filters of a keyset.
fn loss_of(keyset: &KeysetId, found: &[(NoteKind, Option<Comparison>)]) -> Loss {
    let found = || found.iter().filter_map(|(_, comparison)| comparison.as_ref());
    Loss {
        keyset: keyset.clone(),
        values: found().map(|comparison| comparison.gone).sum(),
        date: found().map(|comparison| comparison.date).max().unwrap_or(0),
    }
}

/// The entries of the published list of keysets, by their ids.
fn keysets_in(table: &Table) -> impl Iterator<Item = (KeysetId, serde_json::Value)> {
    let served = table.get(KEYSETS).and_then(|object| text_of(&object));
    // One that may not be served, as a form of it is damaged, was published all the same.
    let refused = table.refused().iter().filter(|file| file.object == KEYSETS);
    let list = served.into_iter().chain(refused.flat_map(Refused::read)).find_map(|text| {
        let mut list: serde_json::Value = serde_json::from_slice(&text).ok()?;
        Some(list.get_mut("keysets")?.as_array_mut()?.split_off(0))
    });
    let entries = list.unwrap_or_default().into_iter();
    entries.filter_map(|entry| Some((KeysetId::parse(entry.get("id")?.as_str()?).ok()?, entry)))
}

/// Where the list of keysets is.
const KEYSETS: &str = "v1/keysets";

impl RefreshOptions {
    /// The date of a set that is published with the date `before`, and the reading that it is the beginning of; `None` if
    /// nothing proves a date. No date goes back: nothing is taken away from a set, so an older claim stays true.
    /// Services that read an unchanged set at different times give it the same new date. A date whose loss is accepted is not
    /// given again, but an earlier one: it names one filter, and the next loss is another one's.
    fn date(
        &self,
        clock: &Clock,
        claim: Claim,
        keyset: &KeysetId,
        set: &Set,
        before: Option<u64>,
    ) -> Option<(u64, Option<Moment>)> {
        let read = clock.corrected(claim.began);
        let is_new = set.changed || set.dated.is_none();
        let grid = if is_new { self.grid() } else { self.period() };
        let on_grid = |date: u64| date - date % grid;
        let (date, by) = match claim.as_of {
            AsOf::Beginning => (Some(on_grid(read.date())), Some(read)),
            AsOf::Before(age) => {
                (Some(on_grid(read.wall().saturating_sub(age).as_secs())), Some(read))
            }
            AsOf::StoreClock(theirs) => (Some(on_grid(read.date().min(theirs))), Some(read)),
            AsOf::LastChange(last) if is_new => (Some(last.min(read.date())), None),
            AsOf::LastChange(last) => (Some(on_grid(last.min(read.date()))), None),
            AsOf::Unknown => (None, None),
        };
        let is_used = |date: &u64| {
            self.accepted.iter().any(|loss| loss.keyset == *keyset && loss.date == *date)
        };
        let date = date.and_then(|date| (0..=date).rev().find(|date| !is_used(date)));
        match (before, date) {
            (Some(before), date) if date.is_none_or(|date| date <= before) => {
                Some((before, set.dated_by))
            }
            (_, date) => date.map(|date| (date, by)),
        }
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
