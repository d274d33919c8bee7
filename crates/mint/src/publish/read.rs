//! Bringing the sets of a kind up to date: by what is new, or whole.

use std::time::Instant;

use super::gather::{Beyond, Failed, Gather};
use super::{Publisher, millis};
use crate::Kind;
use crate::error::PublishError;
use crate::kept::Keep;
use crate::report::{FilterFailure, ReadingReport, RefreshProgress};
use crate::source::{Reading, SourceError, Watermark, twice_if_passing};

impl Publisher {
    /// Reads what is new of a kind, or everything if the source cannot tell or something does not add up.
    pub(super) fn read(
        &mut self,
        kind: Kind,
        failures: &mut Vec<FilterFailure>,
        progress: &mut dyn FnMut(RefreshProgress<'_>),
    ) -> Result<ReadingReport, PublishError> {
        if let Some(since) = self.kept_mut(kind).watermark.clone() {
            match twice_if_passing(|| self.read_new(kind, &since, progress)) {
                Err(PublishError::Source(SourceError::StartOver { reason })) => {
                    metrics::counter!("nutfilter_full_rereads_total", "kind" => kind.as_str())
                        .increment(1);
                    tracing::warn!(%kind, reason, "everything of this kind is read again");
                    self.kept_mut(kind).watermark = None;
                }
                Err(PublishError::Kept(error)) if error.is_damage() => {
                    metrics::counter!("nutfilter_data_discarded_total").increment(1);
                    tracing::error!(%kind, %error, "what was kept is damaged; everything of this kind is read again");
                    self.kept_mut(kind).watermark = None;
                }
                result => return result,
            }
        }
        twice_if_passing(|| self.read_whole(kind, failures, progress))
    }

    fn read_new(
        &mut self,
        kind: Kind,
        since: &Watermark,
        progress: &mut dyn FnMut(RefreshProgress<'_>),
    ) -> Result<ReadingReport, PublishError> {
        let start = Instant::now();
        let began = self.clock.moment();
        let beyond = match self.keep.gather_limit() {
            Some(limit) => Beyond::TooMany { limit },
            None => Beyond::Never,
        };
        let mut gather = Gather::new(kind, &self.stop, progress, beyond);
        let result = self.source.read(kind, Some(since), &mut gather);
        let as_of = self.clock.date(began);
        let reading = checked(result, &mut gather)?;
        if let Some((keyset, error)) = gather.bad.pop_first() {
            // What could be read of the others is not lost: they are read whole as well.
            let reason = format!("a row of keyset {keyset} cannot be read: {error}");
            return Err(SourceError::StartOver { reason }.into());
        }
        super::warn_of_unservable(&mut self.unservable_notes[super::index(kind)], &reading);
        let (came, hash) = (gather.came(), gather.hashing);
        let read = start.elapsed().saturating_sub(hash);

        let kept = &self.kept[super::index(kind)];
        let mut new = vec![];
        for (keyset, hashes) in gather.hashes {
            let hashes = match kept.sets.get(&keyset) {
                Some(set) => set.without_known(hashes)?,
                None => hashes,
            };
            new.push((keyset, hashes));
        }
        let added: u64 = new.iter().map(|(_, hashes)| hashes.len() as u64).sum();
        let items = kept.items() + added;
        if let Some(total) = reading.total
            && total != items
        {
            let reason = format!("there are {total} items, and not the {items} that were read");
            return Err(SourceError::StartOver { reason }.into());
        }
        let kept = &mut self.kept[super::index(kind)];
        for (keyset, hashes) in new {
            let result = self.keep.add(kind, &keyset, &mut kept.sets, hashes, as_of);
            // A set in memory is gone then, and on a disk the items come again.
            if result.is_err() && matches!(self.keep, Keep::Memory) {
                kept.watermark = None;
            }
            result?;
        }
        kept.watermark = reading.watermark;
        kept.as_of = as_of;
        kept.sets.values_mut().for_each(|set| set.as_of = as_of);
        Ok(ReadingReport {
            kind,
            whole: false,
            items: came,
            read,
            hash,
            sort: start.elapsed().saturating_sub(read + hash),
        })
    }

    fn read_whole(
        &mut self,
        kind: Kind,
        failures: &mut Vec<FilterFailure>,
        progress: &mut dyn FnMut(RefreshProgress<'_>),
    ) -> Result<ReadingReport, PublishError> {
        let start = Instant::now();
        let began = self.clock.moment();
        let beyond = match self.keep.gather_limit() {
            Some(limit) => Beyond::Disk {
                keep: &mut self.keep,
                sets: Default::default(),
                limit,
                as_of: self.clock.date(began),
            },
            None => Beyond::Never,
        };
        let mut gather = Gather::new(kind, &self.stop, progress, beyond);
        let result = self.source.read(kind, None, &mut gather);
        let as_of = self.clock.date(began);
        let reading = checked(result, &mut gather)?;
        let bad = core::mem::take(&mut gather.bad);
        let (came, hash) = (gather.came(), gather.hashing);
        let read = start.elapsed().saturating_sub(hash);
        if let Some(said) = reading.total
            && said != came
            && bad.is_empty()
        {
            return Err(PublishError::Miscounted { said, came });
        }
        super::warn_of_unservable(&mut self.unservable_notes[super::index(kind)], &reading);

        let mut sets = gather.into_sets()?;
        let kept = &mut self.kept[super::index(kind)];
        kept.watermark = reading.watermark.filter(|_| bad.is_empty());
        for (keyset, error) in bad {
            // As it was, with its own time, rather than with a note missing.
            sets.remove(&keyset);
            self.held_back[super::index(kind)].insert(keyset.clone());
            tracing::error!(%keyset, %kind, %error, "filter held back");
            failures.push(FilterFailure {
                keyset: Some(keyset),
                kind,
                error: error.into(),
            });
        }
        let held_back = &self.held_back[super::index(kind)];
        for (keyset, old) in core::mem::take(&mut kept.sets) {
            if held_back.contains(&keyset) {
                sets.insert(keyset, old);
                continue;
            }
            let new = sets.entry(keyset).or_default();
            // As changed as it was, if nothing is new.
            new.changed = old.changed || !new.is_known_to_equal(&old);
        }
        for (keyset, set) in &mut sets {
            if !held_back.contains(keyset) {
                set.as_of = as_of;
            }
        }
        kept.lost = held_back.iter().cloned().collect();
        kept.lost.retain(|keyset| !sets.contains_key(keyset));
        kept.sets = sets;
        kept.as_of = as_of;
        tracing::debug!(%kind, items = came, ms = millis(start.elapsed()), "read whole");
        Ok(ReadingReport {
            kind,
            whole: true,
            items: came,
            read,
            hash,
            sort: start.elapsed().saturating_sub(read + hash),
        })
    }
}

/// The result of a reading, or why it was broken off from this side.
fn checked(
    result: Result<Reading, SourceError>,
    gather: &mut Gather<'_>,
) -> Result<Reading, PublishError> {
    match gather.failed.take() {
        None => Ok(result?),
        Some(Failed::Stopped) => Err(SourceError::Stopped.into()),
        Some(Failed::Kept(error)) => Err(error.into()),
        Some(Failed::TooMany { limit }) => {
            let reason = format!("more than {limit} items are new");
            Err(SourceError::StartOver { reason }.into())
        }
    }
}
