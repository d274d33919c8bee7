//! The sorted, distinct hashes of each keyset, and what has become of them.

use core::ops::ControlFlow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use nutfilter::error::BuildError;
use nutfilter::{ItemHash as _, Nut25, SortedHashes};

use crate::KeysetId;
use crate::clock::Moment;
use crate::source::{ItemBatch, ItemSink, SourceError};

/// The notes of one keyset and kind. To add a hash that is there changes nothing.
#[derive(Debug, Default)]
pub(crate) struct Set {
    pub(crate) hashes: SortedHashes,
    /// Whether the served filter has other hashes than these.
    pub(crate) changed: bool,
    /// Whether a row could not be read since the last whole reading, which found all rows readable. Then the set may lack
    /// an item, and the filter that is served stays.
    pub(crate) held: bool,
    /// The reading that dates the served filter, and its date.
    pub(crate) dated: Option<(Moment, u64)>,
}

/// The sets of one kind.
#[derive(Debug, Default)]
pub(crate) struct Sets {
    pub(crate) by_keyset: BTreeMap<KeysetId, Set>,
    /// When the last reading began that succeeded; `None` before the first.
    pub(crate) read: Option<Moment>,
    /// When the last such reading of everything began.
    pub(crate) read_whole: Option<Moment>,
    /// Unreadable rows since the last whole reading.
    pub(crate) unreadable: u64,
    /// Invalid keyset ids that were logged last.
    pub(crate) unservable: Vec<String>,
}

/// What a reading has added, and what a whole reading no longer found.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) items: u64,
    /// Hashes that are no longer there, by keyset.
    pub(crate) lost: BTreeMap<KeysetId, u64>,
}

impl Sets {
    /// Adds what a reading found; a whole reading replaces everything.
    pub(crate) fn take(&mut self, found: Found, is_whole: bool) -> Result<Taken, BuildError> {
        let mut taken = Taken {
            items: found
                .hashes
                .values()
                .map(|hashes| hashes.len() as u64)
                .sum(),
            lost: BTreeMap::new(),
        };
        let mut before = match is_whole {
            true => {
                self.unreadable = 0;
                core::mem::take(&mut self.by_keyset)
            }
            false => BTreeMap::new(),
        };
        for (keyset, mut hashes) in found.hashes {
            // They stay for an hour, and may have grown to twice their length.
            hashes.shrink_to_fit();
            let mut new = SortedHashes::from_hashes(hashes);
            new.dedup();
            let set = self.by_keyset.entry(keyset.clone()).or_default();
            if !is_whole {
                set.add(new)?;
                continue;
            }
            let old = before.remove(&keyset).unwrap_or_default();
            let lost = old.hashes.as_slice().len() - common(old.hashes.as_slice(), new.as_slice());
            if lost > 0 {
                taken.lost.insert(keyset, lost as u64);
            }
            set.changed = old.changed || old.hashes.as_slice() != new.as_slice();
            (set.hashes, set.dated) = (new, old.dated);
        }
        for (keyset, old) in before {
            if !old.hashes.is_empty() {
                taken.lost.insert(keyset.clone(), old.hashes.len() as u64);
            }
            let changed = old.changed || !old.hashes.is_empty();
            let dated = old.dated;
            self.by_keyset.insert(
                keyset,
                Set {
                    changed,
                    dated,
                    ..Set::default()
                },
            );
        }
        for (keyset, error) in found.bad {
            let set = self.by_keyset.entry(keyset.clone()).or_default();
            if !core::mem::replace(&mut set.held, true) {
                tracing::error!(%keyset, %error, "not updating a filter with an unreadable row");
            }
        }
        self.unreadable += found.unreadable;
        Ok(taken)
    }

    /// The number of items.
    pub(crate) fn items(&self) -> u64 {
        self.by_keyset
            .values()
            .map(|set| set.hashes.len() as u64)
            .sum()
    }
}

impl Set {
    /// Adds sorted and distinct hashes.
    fn add(&mut self, new: SortedHashes) -> Result<(), BuildError> {
        let known = self.hashes.as_slice();
        let mut more = new.into_hashes();
        more.retain(|hash| known.binary_search(hash).is_err());
        if !more.is_empty() {
            self.hashes.merge(&SortedHashes::from_hashes(more))?;
            self.changed = true;
        }
        Ok(())
    }
}

/// The number of values that are in both ascending lists.
fn common(left: &[u64], right: &[u64]) -> usize {
    let mut right = right.iter().peekable();
    let is_there = |value: &&u64| {
        while right.next_if(|other| other < value).is_some() {}
        right.peek() == Some(value)
    };
    left.iter().filter(is_there).count()
}

/// The items of one reading, hashed as they come.
pub(crate) struct Found<'s> {
    stop: &'s AtomicBool,
    hashes: BTreeMap<KeysetId, Vec<u64>>,
    /// Of rows without a keyset.
    orphans: Vec<u64>,
    /// Keysets with an unreadable row, and the first error of each.
    bad: BTreeMap<KeysetId, SourceError>,
    unreadable: u64,
}

impl<'s> Found<'s> {
    /// A reading that ends early once `stop` is true.
    pub(crate) fn new(stop: &'s AtomicBool) -> Self {
        Self {
            stop,
            hashes: BTreeMap::new(),
            orphans: vec![],
            bad: BTreeMap::new(),
            unreadable: 0,
        }
    }

    fn flow(&self) -> ControlFlow<()> {
        match self.stop.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

impl ItemSink for Found<'_> {
    fn items(&mut self, keyset: Option<&KeysetId>, items: &ItemBatch) -> ControlFlow<()> {
        let hashes = match keyset {
            None => &mut self.orphans,
            Some(keyset) => self.hashes.entry(keyset.clone()).or_default(),
        };
        match items.records() {
            Some((records, length)) => {
                let known = hashes.len();
                hashes.resize(known + items.len(), 0);
                Nut25.hash_records(records, length, &mut hashes[known..]);
            }
            None => hashes.extend(items.items().map(|item| Nut25.hash(item))),
        }
        self.flow()
    }

    fn bad_row(&mut self, keyset: Option<&KeysetId>, error: SourceError) -> ControlFlow<()> {
        match keyset {
            Some(keyset) => {
                self.bad.entry(keyset.clone()).or_insert(error);
            }
            None => tracing::error!(%error, "skipping a row without a readable keyset and item"),
        }
        self.unreadable += 1;
        self.flow()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyset(number: u8) -> KeysetId {
        KeysetId::parse(&format!("00{number:014x}")).unwrap()
    }

    fn found(hashes: &[(u8, &[u64])], bad: &[u8]) -> Found<'static> {
        static NEVER: AtomicBool = AtomicBool::new(false);
        let mut found = Found::new(&NEVER);
        for &(number, hashes) in hashes {
            found.hashes.insert(keyset(number), hashes.to_vec());
        }
        for &number in bad {
            let _ = found.bad_row(Some(&keyset(number)), SourceError::Stopped);
        }
        found
    }

    fn held(sets: &Sets) -> Vec<bool> {
        sets.by_keyset.values().map(|set| set.held).collect()
    }

    #[test]
    fn repeats_change_nothing_and_new_hashes_do() {
        let mut sets = Sets::default();
        sets.take(found(&[(1, &[5, 3, 5])], &[]), true).unwrap();
        let set = sets.by_keyset.get_mut(&keyset(1)).unwrap();
        assert_eq!(set.hashes.as_slice(), [3, 5]);
        set.changed = false;
        sets.take(found(&[(1, &[5, 3])], &[]), false).unwrap();
        assert!(!sets.by_keyset[&keyset(1)].changed);
        sets.take(found(&[(1, &[4, 5, 4])], &[]), false).unwrap();
        assert!(sets.by_keyset[&keyset(1)].changed);
        assert_eq!(sets.by_keyset[&keyset(1)].hashes.as_slice(), [3, 4, 5]);
    }

    #[test]
    fn whole_reading_replaces_the_sets_and_counts_what_is_lost() {
        let mut sets = Sets::default();
        sets.take(found(&[(1, &[1, 2, 3]), (2, &[7])], &[]), true)
            .unwrap();
        let taken = sets.take(found(&[(1, &[2, 9])], &[]), true).unwrap();
        assert_eq!(taken.lost, [(keyset(1), 2), (keyset(2), 1)].into());
        assert_eq!(sets.by_keyset[&keyset(1)].hashes.as_slice(), [2, 9]);
        assert!(sets.by_keyset[&keyset(2)].hashes.is_empty());
        assert!(sets.by_keyset[&keyset(2)].changed);
    }

    #[test]
    fn held_keyset_stays_held_until_a_whole_reading_without_a_fault() {
        let mut sets = Sets::default();
        sets.take(found(&[(1, &[1])], &[2]), true).unwrap();
        assert_eq!(held(&sets), [false, true]);
        sets.take(found(&[(2, &[1])], &[]), false).unwrap();
        assert_eq!((held(&sets), sets.unreadable), (vec![false, true], 1));
        sets.take(found(&[(1, &[1])], &[1]), true).unwrap();
        assert_eq!(held(&sets), [true, false]);
        sets.take(found(&[(1, &[1])], &[]), true).unwrap();
        assert_eq!((held(&sets), sets.unreadable), (vec![false, false], 0));
    }
}
