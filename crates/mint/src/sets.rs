//! The sorted, distinct hashes of each keyset, and what has become of them.

use core::ops::ControlFlow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use nutfilter::error::BuildError;
use nutfilter::{ItemHash as _, Nut25, SortedHashes};
use nutfilter_cashu::KeysetId;

use crate::clock::Moment;
use crate::source::{AsOf, ItemBatch, ItemSink, SourceError};

/// The notes of one keyset and kind. To add a hash that is there changes nothing, and none is ever taken away: a filter never
/// claims less than the one before it.
#[derive(Debug, Default)]
pub(crate) struct Set {
    pub(crate) hashes: SortedHashes,
    /// Whether the served filter has other hashes than these.
    pub(crate) changed: bool,
    /// Whether a row could not be read since the last whole reading, which found all rows readable. Then the set may lack
    /// an item, and the filter that is served stays.
    pub(crate) unreadable: bool,
    /// The number of hashes that the last whole reading found nowhere in the store.
    pub(crate) gone: u64,
    /// The date of the served filter.
    pub(crate) dated: Option<u64>,
    /// The reading whose beginning is that date; `None` if the date comes from a store or from another process.
    pub(crate) dated_by: Option<Moment>,
    /// The number of items in the served filter.
    pub(crate) served: u64,
}

/// What the last reading of a kind proves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) began: Moment,
    pub(crate) as_of: AsOf,
}

/// The sets of one kind.
#[derive(Debug, Default)]
pub(crate) struct Sets {
    pub(crate) by_keyset: BTreeMap<KeysetId, Set>,
    /// Of rows without a valid keyset; they are in every set.
    pub(crate) orphans: SortedHashes,
    /// The last reading that succeeded; `None` before the first.
    pub(crate) read: Option<Claim>,
    /// When the last such reading of everything began.
    pub(crate) read_whole: Option<Moment>,
    /// Unreadable rows since the last whole reading.
    pub(crate) unreadable: u64,
    /// Rows without a valid keyset since the last whole reading.
    pub(crate) without_keyset: u64,
    /// Invalid keyset ids that were logged last.
    pub(crate) unservable: Vec<String>,
}

/// The number of hashes of a keyset that are in no set of the store any more: before a whole reading, and after it.
pub(crate) type GoneItems = (KeysetId, [u64; 2]);

impl Sets {
    /// Adds what a reading found. Returns the number of items, and of a whole reading what is gone, where it is another number.
    pub(crate) fn take(
        &mut self,
        found: Found,
        is_whole: bool,
    ) -> Result<(u64, Vec<GoneItems>), BuildError> {
        let (mut items, mut all_gone) = (found.orphans(), vec![]);
        let mut new = BTreeMap::new();
        for (keyset, hashes) in found.hashes {
            items += hashes.len() as u64;
            new.insert(keyset, distinct(hashes));
        }
        let orphans = distinct(found.orphans);
        if is_whole {
            self.unreadable = 0;
            for (keyset, set) in &mut self.by_keyset {
                let here = new.get(keyset).map_or(&[][..], SortedHashes::as_slice);
                let missing = without(set.hashes.as_slice(), here);
                let mut elsewhere = vec![];
                // Usually nothing is missing, and there may be thousands of keysets.
                if !missing.is_empty() {
                    for other in new.values().chain([&orphans]) {
                        elsewhere.extend(common(&missing, other.as_slice()));
                    }
                }
                elsewhere.sort_unstable();
                elsewhere.dedup();
                let gone = (missing.len() - elsewhere.len()) as u64;
                let before = core::mem::replace(&mut set.gone, gone);
                if before != gone {
                    all_gone.push((keyset.clone(), [before, gone]));
                }
                set.unreadable = false;
            }
        }
        for (keyset, mut more) in new {
            let set = self.of(&keyset);
            let before = set.hashes.len();
            if is_whole || before == 0 {
                // The larger one takes the smaller one, and needs no further memory.
                core::mem::swap(&mut set.hashes, &mut more);
            }
            add(&mut set.hashes, &more)?;
            set.changed |= set.hashes.len() != before;
        }
        if !orphans.is_empty() {
            add(&mut self.orphans, &orphans)?;
            for set in self.by_keyset.values_mut() {
                set.changed |= add(&mut set.hashes, &orphans)?;
            }
        }
        for (keyset, error) in found.bad {
            if !core::mem::replace(&mut self.of(&keyset).unreadable, true) {
                tracing::error!(%keyset, %error, "not updating a filter with an unreadable row");
            }
        }
        self.unreadable += found.unreadable;
        Ok((items, all_gone))
    }

    /// The set of a keyset. It begins with the notes without a keyset.
    pub(crate) fn of(&mut self, keyset: &KeysetId) -> &mut Set {
        let entry = self.by_keyset.entry(keyset.clone());
        entry.or_insert_with(|| Set { hashes: self.orphans.clone(), ..Set::default() })
    }

    /// Whether a row has this keyset.
    pub(crate) fn has_rows(&self, keyset: &KeysetId) -> bool {
        let set = self.by_keyset.get(keyset);
        set.is_some_and(|set| set.unreadable || set.hashes.len() > self.orphans.len())
    }

    /// Adds hashes to the set of a keyset.
    pub(crate) fn add(&mut self, keyset: &KeysetId, hashes: Vec<u64>) -> Result<(), BuildError> {
        let set = self.of(keyset);
        set.changed |= add(&mut set.hashes, &distinct(hashes))?;
        Ok(())
    }

    /// The number of items.
    pub(crate) fn items(&self) -> u64 {
        self.by_keyset.values().map(|set| set.hashes.len() as u64).sum()
    }
}

fn distinct(mut hashes: Vec<u64>) -> SortedHashes {
    // They stay for an hour, and may have grown to twice their length.
    hashes.shrink_to_fit();
    let mut set = SortedHashes::from_hashes(hashes);
    set.dedup();
    set
}

/// Adds sorted and distinct hashes to a set. Returns whether any was new.
fn add(set: &mut SortedHashes, new: &SortedHashes) -> Result<bool, BuildError> {
    let more = without(new.as_slice(), set.as_slice());
    if more.is_empty() {
        return Ok(false);
    }
    set.merge(&SortedHashes::from_hashes(more))?;
    Ok(true)
}

/// The values that are in both ascending lists, one of which is often much shorter.
fn common(left: &[u64], right: &[u64]) -> Vec<u64> {
    let (few, many) = if left.len() < right.len() { (left, right) } else { (right, left) };
    without(few, &without(few, many))
}

/// The values of the left ascending list that are not in the right one.
fn without(left: &[u64], right: &[u64]) -> Vec<u64> {
    // A search costs about as much as a pass over so many values.
    const SEARCH: usize = 32;
    if left.len() < right.len() / SEARCH {
        let left = left.iter().copied();
        return left.filter(|value| right.binary_search(value).is_err()).collect();
    }
    let mut right = right.iter().peekable();
    let left = left.iter().copied();
    left.filter(|value| {
        while right.next_if(|other| *other < value).is_some() {}
        right.peek() != Some(&value)
    })
    .collect()
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
        Self { stop, hashes: BTreeMap::new(), orphans: vec![], bad: BTreeMap::new(), unreadable: 0 }
    }

    /// The number of items without a keyset.
    pub(crate) fn orphans(&self) -> u64 {
        self.orphans.len() as u64
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

    fn hashes(&mut self, keyset: &KeysetId, hashes: &[u64]) -> ControlFlow<()> {
        let known = self.hashes.entry(keyset.clone()).or_default();
        known.extend_from_slice(hashes);
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

    fn found(hashes: &[(u8, &[u64])]) -> Found<'static> {
        static NEVER: AtomicBool = AtomicBool::new(false);
        let mut found = Found::new(&NEVER);
        let hashes = hashes.iter().map(|(number, of)| (keyset(*number), of.to_vec()));
        found.hashes.extend(hashes);
        found
    }

    fn hashes(sets: &Sets, number: u8) -> &[u64] {
        sets.by_keyset[&keyset(number)].hashes.as_slice()
    }

    #[test]
    fn repeats_change_nothing_and_new_hashes_do() {
        let mut sets = Sets::default();
        sets.take(found(&[(1, &[5, 3, 5])]), true).unwrap();
        for (is_whole, more, changes) in
            [(false, [5, 3], false), (true, [5, 3], false), (false, [4, 5], true)]
        {
            sets.of(&keyset(1)).changed = false;
            sets.take(found(&[(1, &more)]), is_whole).unwrap();
            assert_eq!(sets.of(&keyset(1)).changed, changes);
        }
        assert_eq!(hashes(&sets, 1), [3, 4, 5]);
    }

    #[test]
    fn whole_reading_keeps_every_hash_and_counts_what_is_gone() {
        let mut sets = Sets::default();
        let first = found(&[(1, &[1, 2, 3]), (2, &[7]), (3, &[8])]);
        sets.take(first, true).unwrap();
        // 3 moved to another keyset, 8 lost its keyset.
        let mut second = found(&[(1, &[2, 9]), (4, &[3])]);
        second.orphans = vec![8];
        let (_, all_gone) = sets.take(second, true).unwrap();
        assert_eq!(all_gone, [(keyset(1), [0, 1]), (keyset(2), [0, 1])]);
        assert_eq!(hashes(&sets, 1), [1, 2, 3, 8, 9]);
        assert_eq!(hashes(&sets, 2), [7, 8]);
        let (_, again) = sets.take(found(&[(1, &[2, 9])]), true).unwrap();
        let gone = |counts: [[u64; 2]; 4]| [1, 2, 3, 4].map(keyset).into_iter().zip(counts);
        assert_eq!(again, Vec::from_iter(gone([[1, 3], [1, 2], [0, 1], [0, 2]])));
        let back = found(&[(1, &[1, 2, 3, 9]), (2, &[7, 8])]);
        let (_, back) = sets.take(back, true).unwrap();
        assert_eq!(back, Vec::from_iter(gone([[3, 0], [2, 0], [1, 0], [2, 0]])));
    }

    #[test]
    fn without_agrees_with_a_search() {
        let right: Vec<u64> = (0..200).map(|i| 3 * i).collect();
        for left in [vec![], vec![0, 1, 597], (0..700).collect(), vec![600], right.clone()] {
            let expected: Vec<u64> = left.iter().copied().filter(|v| !right.contains(v)).collect();
            assert_eq!(without(&left, &right), expected);
            assert_eq!(without(&left, &[]), left);
            let expected: Vec<u64> = left.iter().copied().filter(|v| right.contains(v)).collect();
            assert_eq!([common(&left, &right), common(&right, &left)], [&expected[..]; 2]);
        }
    }
}
