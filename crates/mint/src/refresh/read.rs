//! Updates the sets of a kind, from the new items only or from a full reading.

use std::collections::BTreeMap;
use std::time::Instant;

use super::RefreshError;
use super::collect::Collector;
use super::report::{FilterFailure, ReadingReport, RefreshProgress, RefreshReport};
use super::{Kind, Refresher, millis};
use crate::metrics::METRICS;
use crate::source::{SourceError, Watermark, retry_once};
use crate::state::{Changes, DataDirectory, KeysetHashes, KindSets, StateError};
use crate::{KeysetId, NoteKind};

impl Refresher {
    /// Reads the new items of a kind. Reads everything if the source cannot tell what is new or if the result is
    /// inconsistent.
    pub(super) fn read(
        &mut self,
        kind: NoteKind,
        refresh: &mut RefreshReport,
        progress: &mut dyn FnMut(RefreshProgress<'_>),
    ) -> Result<ReadingReport, RefreshError> {
        let mut reread = false;
        if let Some(since) = self.kinds[kind].state.watermark.clone() {
            match self.read_new_and_count(kind, &since, refresh, progress) {
                Err(RefreshError::Source(SourceError::RescanRequired(reason))) => {
                    METRICS
                        .full_rereads
                        .with_label_values(&[kind.as_str()])
                        .inc();
                    tracing::warn!(%kind, reason, "rereading the full database");
                    reread = true;
                    self.kinds[kind].state.watermark = None;
                }
                Err(RefreshError::State(error)) if error.is_damage() => {
                    METRICS.data_discarded.inc();
                    tracing::error!(%kind, %error, "discarding damaged state; rereading the full database");
                    self.kinds[kind].state.watermark = None;
                }
                result => return result,
            }
        }
        let read = retry_once(|| self.read_rows(kind, None, false, refresh, progress))?;
        // A whole reading needs no count.
        let (report, lost) = read.unwrap_or_else(|| unreachable!());
        report_lost(kind, &lost, reread);
        Ok(report)
    }

    /// Reads the new items. Counts all items if a count is due, or if only a count shows which items were repeated.
    fn read_new_and_count(
        &mut self,
        kind: NoteKind,
        since: &Watermark,
        refresh: &mut RefreshReport,
        progress: &mut dyn FnMut(RefreshProgress<'_>),
    ) -> Result<ReadingReport, RefreshError> {
        let uncounted = self.kinds[kind].state.uncounted;
        let mut count = uncounted.is_none_or(|readings| readings + 1 >= self.verify_every);
        loop {
            let read = retry_once(|| self.read_rows(kind, Some(since), count, refresh, progress))?;
            if let Some((report, _)) = read {
                self.kinds[kind].state.uncounted = match count {
                    true => Some(0),
                    false => uncounted.map(|readings| readings + 1),
                };
                return Ok(report);
            }
            count = true;
        }
    }

    /// Reads the rows since a watermark, or all of them. Returns `None` and keeps nothing if a count is needed to tell
    /// which items are new.
    fn read_rows(
        &mut self,
        kind: NoteKind,
        since: Option<&Watermark>,
        count: bool,
        refresh: &mut RefreshReport,
        progress: &mut dyn FnMut(RefreshProgress<'_>),
    ) -> Result<Option<(ReadingReport, Lost)>, RefreshError> {
        let (start, began, whole) = (Instant::now(), self.clock.moment(), since.is_none());
        if count {
            self.source.verify_next();
        }
        let mut collector = Collector::new(kind, &self.stop, progress);
        let result = self.source.read(kind, since, &mut collector);
        let as_of = self.clock.date(began);
        if collector.stopped {
            return Err(SourceError::Stopped.into());
        }
        let reading = result?;
        super::warn_of_unservable(&mut self.kinds[kind].unservable, &reading);
        let (came, hash) = (collector.came(), collector.hashing);
        let (bad, unreadable) = (collector.bad, collector.unreadable);
        let read = start.elapsed().saturating_sub(hash);
        let state = &self.kinds[kind].state;
        let mut new = collector.hashes;
        if whole {
            if let Some(said) = reading.total.filter(|&said| said != came && bad.is_empty()) {
                return Err(RefreshError::Miscounted { said, came });
            }
        } else {
            let known;
            (new, known) = new_items(state, new, came, reading.total, &bad)?;
            if known > 0 && reading.total.is_none() && !count {
                return Ok(None);
            }
        }
        for keyset in bad.keys() {
            // Keep the old set with its own time. A new one would lack a note.
            new.remove(keyset);
        }
        self.hold_back(kind, bad, unreadable, refresh);
        let Kind {
            state, held_back, ..
        } = &mut self.kinds[kind];
        let (mut lost, first) = (Lost::default(), state.as_of == 0);
        let directory = &mut self.directory;
        if whole {
            let mut sets = BTreeMap::new();
            add_all(directory, kind, &mut sets, new, as_of)?;
            for (keyset, old) in core::mem::take(&mut state.sets) {
                if held_back.contains(&keyset) {
                    sets.insert(keyset, old);
                    continue;
                }
                let new = sets.entry(keyset.clone()).or_default();
                lost.add(keyset, new.changes_since(&old));
                // If nothing is new, the set keeps its old `changed` flag.
                new.changed = old.changed || !new.equals(&old);
            }
            state.lost = held_back.iter().cloned().collect();
            state.lost.retain(|keyset| !sets.contains_key(keyset));
            state.sets = sets;
            state.uncounted = Some(0);
            tracing::debug!(%kind, items = came, ms = millis(start.elapsed()), "read all rows");
        } else {
            let added = add_all(directory, kind, &mut state.sets, new, as_of);
            // Otherwise the items that could not be added come again at the next reading.
            let is_unusable = matches!(added, Err(StateError::Build(_)));
            state.watermark.take_if(|_| is_unusable);
            added?;
        }
        (state.watermark, state.as_of) = (reading.watermark, as_of);
        for (keyset, set) in &mut state.sets {
            if !held_back.contains(keyset) {
                set.as_of = as_of;
            }
        }
        let report = ReadingReport {
            kind,
            whole,
            items: came,
            lost: (whole && !first).then_some(lost.changes.lost),
            read,
            hash,
            sort: start.elapsed().saturating_sub(read + hash),
        };
        Ok(Some((report, lost)))
    }

    /// Keeps the filters of keysets with unreadable rows as they are.
    fn hold_back(
        &mut self,
        kind: NoteKind,
        bad: BTreeMap<KeysetId, SourceError>,
        unreadable: u64,
        refresh: &mut RefreshReport,
    ) {
        let gauge = METRICS.unreadable_rows.with_label_values(&[kind.as_str()]);
        gauge.set(unreadable as f64);
        for (keyset, error) in bad {
            self.kinds[kind].held_back.insert(keyset.clone());
            tracing::error!(%keyset, %kind, %error, "not updating a filter with an unreadable row");
            refresh.failures.push(FilterFailure {
                keyset: Some(keyset),
                kind,
                error: error.into(),
            });
        }
    }
}

/// Adds hashes to their sets.
fn add_all(
    directory: &mut Option<DataDirectory>,
    kind: NoteKind,
    sets: &mut BTreeMap<KeysetId, KeysetHashes>,
    hashes: BTreeMap<KeysetId, Vec<u64>>,
    as_of: u64,
) -> Result<(), StateError> {
    for (keyset, hashes) in hashes {
        match directory {
            Some(directory) => directory.add(kind, &keyset, sets, hashes, as_of)?,
            None => sets.entry(keyset).or_default().add(hashes, as_of)?,
        }
    }
    Ok(())
}

/// The items that are new, per keyset. Also returns the number of other items, with known hashes.
fn new_items(
    state: &KindSets,
    hashes: BTreeMap<KeysetId, Vec<u64>>,
    came: u64,
    total: Option<u64>,
    bad: &BTreeMap<KeysetId, SourceError>,
) -> Result<(BTreeMap<KeysetId, Vec<u64>>, u64), RefreshError> {
    let incomplete = state.sets.iter().filter(|(_, set)| set.as_of < state.as_of);
    let mut incomplete = incomplete.map(|(keyset, _)| keyset).chain(&state.lost);
    if let Some(keyset) = incomplete.find(|keyset| !bad.contains_key(*keyset)) {
        let reason = format!("the unreadable row of keyset {keyset} is gone");
        return Err(SourceError::rescan(reason).into());
    }
    // The total includes the rows of keysets whose sets stay as they are, so it shows nothing.
    let (new, known) = match total.filter(|_| bad.is_empty()) {
        // Taken only if every item is new. None is then a repeat, even if its hash is already known.
        Some(total) if total == state.items() + came => (hashes, 0),
        total => without_repeats(state, hashes, total)?,
    };
    if known > 0 && !bad.is_empty() {
        let reason = format!("{known} items with known hashes next to unreadable rows");
        return Err(SourceError::rescan(reason).into());
    }
    Ok((new, known))
}

/// Drops repeated items where only the total can show them. Also returns the number of items with known hashes.
///
/// An item with an unknown hash is certainly new. Nothing can be missing after this, because the hash of a dropped
/// item is in the set. The number of times that a hash occurs must be right as well.
fn without_repeats(
    state: &KindSets,
    hashes: BTreeMap<KeysetId, Vec<u64>>,
    total: Option<u64>,
) -> Result<(BTreeMap<KeysetId, Vec<u64>>, u64), RefreshError> {
    let (mut items, mut known) = (state.items(), 0);
    let mut new = BTreeMap::new();
    for (keyset, hashes) in hashes {
        let hashes = match state.sets.get(&keyset) {
            Some(set) => {
                let [unknown, others] = set.split_known(hashes);
                known += others.len() as u64;
                unknown
            }
            None => hashes,
        };
        items += hashes.len() as u64;
        new.insert(keyset, hashes);
    }
    let reason = match total {
        Some(total) if total > items && total - items < known => format!(
            "{} of {known} items with known hashes are new; cannot tell which",
            total - items
        ),
        Some(total) if total != items => {
            format!("the database has {total} items, expected {items}")
        }
        _ => return Ok((new, known)),
    };
    Err(SourceError::rescan(reason).into())
}

/// Items of the earlier sets that a full reading no longer found.
#[derive(Default)]
struct Lost {
    changes: Changes,
    /// Number of lost items per keyset, for keysets that lost any.
    by_keyset: BTreeMap<KeysetId, u64>,
}

impl Lost {
    fn add(&mut self, keyset: KeysetId, changes: Changes) {
        self.changes += changes;
        if changes.lost > 0 {
            self.by_keyset.insert(keyset, changes.lost);
        }
    }
}

/// Logs the cause of a full reading. Lost items mean a restored backup or deleted rows. Without lost items, rows
/// were only renumbered or rewritten, two hashes collided, or a server was restarted.
fn report_lost(kind: NoteKind, lost: &Lost, reread: bool) {
    let Changes { lost: count, added } = lost.changes;
    METRICS
        .items_lost
        .with_label_values(&[kind.as_str()])
        .inc_by(count);
    if count > 0 {
        let keysets = &lost.by_keyset;
        tracing::warn!(
            %kind,
            lost = count,
            added,
            ?keysets,
            "items are no longer in the database: a backup was restored or rows were deleted"
        );
    } else if reread {
        tracing::info!(%kind, lost = 0, added, "0 items lost: rows were renumbered or rewritten, and none is gone");
    }
}
