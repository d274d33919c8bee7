//! [`ScanPlan`]: which scripts remain to be tested at which heights.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::mem;
use core::ops::Range;

use super::Watchlist;

/// Which scripts of a wallet remain to be tested at which heights, so that no script is tested twice in a filter.
///
/// A match reveals addresses (the gap limit), and these must be tested in the filters already scanned too. The plan
/// first goes forward with all scripts. Then it goes back once, with only the scripts that were revealed on the way,
/// each up to the height where it was revealed.
///
/// ```
/// use nutfilter::SipHash;
/// use nutfilter::bip158::{self, ScanPlan};
///
/// let filter = |height: u32| {
///     let made = bip158::build(SipHash::new(height.into(), 0), [[height as u8]]).unwrap();
///     (SipHash::new(height.into(), 0), bip158::serialize(&made))
/// };
///
/// let mut plan = ScanPlan::new(0);
/// plan.insert([7]);
/// let mut parts = Vec::new();
/// while let Some((heights, scripts)) = plan.next(20) {
///     let end = heights.end.min(heights.start + 5); // as many at a time as you like
///     let filters = (heights.start..end).map(filter);
///     let matches = scripts.scan(filters).collect::<Result<Vec<_>, _>>()?.len();
///     plan.advance(end);
///     if matches > 0 {
///         plan.insert([3]); // revealed by the block
///     }
///     parts.push((end, matches));
/// }
/// // Forward with both scripts, then back with the revealed one, up to where it was revealed.
/// assert_eq!(parts, [(5, 0), (10, 1), (15, 0), (20, 0), (5, 1), (10, 0)]);
/// # Ok::<(), nutfilter::bip158::ScanError<SipHash>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ScanPlan {
    /// The height of the first filter, for instance the wallet's birthday.
    start: u32,
    /// All scripts. They have been tested, or are in `back` or `waiting` for it, below `next`.
    scripts: Watchlist,
    next: u32,
    /// The scripts that have been tested below `cursor`, but not up to the heights in `ends`.
    back: Watchlist,
    cursor: u32,
    ends: BTreeMap<u32, Vec<Box<[u8]>>>,
    /// Whether the part that was returned last goes forward.
    forward: bool,
    /// Scripts to go back with from the start, each up to a height.
    waiting: Vec<(u32, Box<[u8]>)>,
}

impl ScanPlan {
    /// A plan without scripts, for filters from height `start` on.
    #[must_use]
    pub fn new(start: u32) -> Self {
        Self {
            start,
            scripts: Watchlist::new(),
            next: start,
            back: Watchlist::new(),
            cursor: start,
            ends: BTreeMap::new(),
            forward: true,
            waiting: Vec::new(),
        }
    }

    /// Adds a script, to be tested at all heights. Returns false if it was in the plan already.
    pub fn insert(&mut self, script: impl AsRef<[u8]>) -> bool {
        let script = script.as_ref();
        let new = self.scripts.insert(script);
        if new && self.next > self.start {
            self.waiting.push((self.next, script.into()));
        }
        new
    }

    /// The heights to scan next, and the scripts to look for in all of them; `end` is the height after the last filter.
    /// None means that every script has been tested in every filter.
    ///
    /// Scan these filters in order, or the first of them, then call [`ScanPlan::advance`] and insert what was revealed.
    pub fn next(&mut self, end: u32) -> Option<(Range<u32>, &Watchlist)> {
        self.forward = self.next < end && !self.scripts.is_empty();
        if self.forward {
            return Some((self.next..end, &self.scripts));
        }
        if self.ends.is_empty() {
            self.cursor = self.start;
            for (end, script) in mem::take(&mut self.waiting) {
                self.back.insert(&script);
                self.ends.entry(end).or_default().push(script);
            }
        }
        let (&nearest, _) = self.ends.first_key_value()?;
        Some((self.cursor..nearest, &self.back))
    }

    /// Records that all filters below `height` of the part that [`ScanPlan::next`] returned last have been scanned.
    /// Insert the scripts that they revealed afterwards.
    pub fn advance(&mut self, height: u32) {
        if self.forward {
            self.next = self.next.max(height);
            return;
        }
        self.cursor = self.cursor.max(height);
        self.drop_finished();
    }

    /// Forgets the filters from `height` on: a reorganisation replaced their blocks.
    pub fn rewind(&mut self, height: u32) {
        self.next = self.next.min(height.max(self.start));
        let next = self.next;
        self.waiting
            .iter_mut()
            .for_each(|(end, _)| *end = next.min(*end));
        self.waiting.retain(|(end, _)| *end > self.start);
        for scripts in self.ends.split_off(&next).into_values() {
            self.ends.entry(next).or_default().extend(scripts);
        }
        self.drop_finished();
    }

    /// Removes the scripts from `back` that have been tested up to their end.
    fn drop_finished(&mut self) {
        while let Some(first) = self.ends.first_entry() {
            if *first.key() > self.cursor {
                return;
            }
            for script in first.remove() {
                self.back.remove(script);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::splitmix::Random;
    use alloc::vec;

    /// Random inserts, steps and reorganisations. Counts the tests of each script at each height.
    #[test]
    fn every_script_is_tested_once_at_every_height() {
        const FIRST: u32 = 10;
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let mut plan = ScanPlan::new(FIRST);
            let mut tested: Vec<Vec<u32>> = Vec::new();
            let mut end = FIRST + random.below(40) as u32;
            for step in 0..200 {
                // At the end nothing new happens, so that the plan finishes.
                let kind = if step < 100 { random.below(8) } else { 7 };
                match kind {
                    0 => {
                        let script = (tested.len() as u32).to_le_bytes();
                        assert!(plan.insert(script) && !plan.insert(script));
                        tested.push(vec![0; 200]);
                    }
                    1 => {
                        let height = FIRST - 2 + random.below(40) as u32;
                        plan.rewind(height);
                        end = end.max(height);
                        for heights in &mut tested {
                            heights[height as usize..].fill(0);
                        }
                    }
                    2 => end = (end + random.below(5) as u32).min(100),
                    _ => {
                        let Some((heights, list)) = plan.next(end) else {
                            continue;
                        };
                        assert!(!heights.is_empty() && !list.is_empty());
                        let most = u64::from(heights.end - heights.start);
                        let stop = heights.start + 1 + random.below(most) as u32;
                        for script in list.iter() {
                            let script = u32::from_le_bytes(script.try_into().unwrap());
                            for height in heights.start..stop {
                                let count = &mut tested[script as usize][height as usize];
                                *count += 1;
                                assert_eq!(*count, 1, "seed {seed}: script {script}, {height}");
                            }
                        }
                        plan.advance(stop);
                    }
                }
            }
            while let Some((heights, list)) = plan.next(end) {
                for script in list.iter() {
                    let script = u32::from_le_bytes(script.try_into().unwrap());
                    tested[script as usize][heights.start as usize..heights.end as usize]
                        .iter_mut()
                        .for_each(|count| *count += 1);
                }
                let stop = heights.end;
                plan.advance(stop);
            }
            for (script, heights) in tested.iter().enumerate() {
                let heights = &heights[FIRST as usize..end as usize];
                assert!(
                    heights.iter().all(|&count| count == 1),
                    "seed {seed}: {script}, {heights:?}"
                );
            }
        }
    }
}
