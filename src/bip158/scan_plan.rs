//! [`ScanPlan`]: which scripts remain to be tested at which heights, and which blocks the wallet takes.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::mem;
use core::ops::Range;

use super::Watchlist;

/// The next thing to do for a [`ScanPlan`].
#[derive(Clone, Debug)]
pub enum ScanStep<'p> {
    /// Test the filters at these heights in order, or the first of them, then call [`ScanPlan::advance`].
    Test {
        /// The heights, at least one.
        heights: Range<u32>,
        /// The scripts to look for, at least one.
        scripts: &'p Watchlist,
    },
    /// Give the block at this height to the wallet, then call [`ScanPlan::applied`].
    Apply(u32),
}

/// Which scripts of a wallet remain to be tested at which heights, and the order in which the wallet takes the blocks.
///
/// A match reveals addresses (the gap limit), and these must be tested in the filters already scanned too. The plan
/// first goes forward with all scripts. Then it goes back once, with only the scripts that were revealed on the way,
/// each up to the height where it was revealed. So no script is tested twice in a filter.
///
/// Only when every script was tested at every height, the blocks that matched are given to the wallet, in ascending
/// order. A wallet that took them as they were found would meet a coin's spending before the coin. If a script is
/// inserted later, a block may be given again, so applying it twice must change nothing.
///
/// ```
/// use nutfilter::SipHash;
/// use nutfilter::bip158::{self, ScanPlan, ScanStep};
///
/// // Address 7 is paid at height 7. Its payment reveals address 3, which was paid at 3 and spent at 12.
/// let touched = |height: u32| if height == 12 { 3 } else { height as u8 };
/// let filter = |height: u32| {
///     let key = SipHash::new(height.into(), 0);
///     (key, bip158::serialize(&bip158::build(key, [[touched(height)]]).unwrap()))
/// };
///
/// let mut plan = ScanPlan::new(0);
/// plan.insert([7]);
/// let mut applied = Vec::new();
/// while let Some(step) = plan.next(20) {
///     match step {
///         ScanStep::Test { heights, scripts } => {
///             // Up to the first match, so that what it reveals is looked for from there on.
///             let (mut end, mut matching) = (heights.start, None);
///             for height in heights {
///                 end = height + 1;
///                 if scripts.scan([filter(height)]).next().transpose()?.is_some() {
///                     matching = Some(height);
///                     break;
///                 }
///             }
///             plan.advance(end, matching); // `scripts` borrows the plan up to here
///             if matching == Some(7) {
///                 plan.insert([3]); // an output of the block pays to address 7
///             }
///         }
///         ScanStep::Apply(height) => {
///             applied.push(height); // the wallet looks at inputs and outputs
///             plan.applied(height);
///         }
///     }
/// }
/// assert_eq!(applied, [3, 7, 12]);
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
    /// The part that was returned last, unless it was recorded or a reorganisation has replaced some of its filters.
    part: Option<Part>,
    /// Scripts to go back with from the start, each up to a height.
    waiting: Vec<(u32, Box<[u8]>)>,
    /// The heights of the blocks that matched and that the wallet has not taken.
    matched: BTreeSet<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    forward: bool,
    /// The height after its last filter.
    end: u32,
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
            part: None,
            waiting: Vec::new(),
            matched: BTreeSet::new(),
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

    /// What to do next; `end` is the height after the last filter that the client has.
    ///
    /// None means that every script has been tested in every filter, and the wallet has taken every block that matched.
    pub fn next(&mut self, end: u32) -> Option<ScanStep<'_>> {
        let forward = self.next < end && !self.scripts.is_empty();
        if !forward && self.ends.is_empty() {
            self.cursor = self.start;
            for (end, script) in mem::take(&mut self.waiting) {
                self.back.insert(&script);
                self.ends.entry(end).or_default().push(script);
            }
        }
        let nearest = self.ends.first_key_value().map(|(&end, _)| end);
        let (heights, scripts) = match nearest {
            _ if forward => (self.next..end, &self.scripts),
            Some(nearest) => (self.cursor..nearest, &self.back),
            None => return self.matched.first().map(|&height| ScanStep::Apply(height)),
        };
        let end = heights.end;
        self.part = Some(Part { forward, end });
        Some(ScanStep::Test { heights, scripts })
    }

    /// Records that the filters below `height` of the part that [`ScanPlan::next`] returned last have been tested, and
    /// that those at the heights `matches` match. Insert the scripts that they revealed afterwards.
    ///
    /// After [`ScanPlan::rewind`] this does nothing until `next` has returned a new part.
    pub fn advance(&mut self, height: u32, matches: impl IntoIterator<Item = u32>) {
        let Some(Part { forward, end }) = self.part.take() else {
            return;
        };
        self.matched.extend(matches);
        let height = height.min(end);
        if forward {
            self.next = self.next.max(height);
            return;
        }
        self.cursor = self.cursor.max(height);
        self.drop_finished();
    }

    /// Records that the wallet has taken the block at `height`.
    pub fn applied(&mut self, height: u32) {
        self.matched.remove(&height);
    }

    /// Forgets the filters from `height` on: a reorganisation replaced their blocks. The wallet forgets them too.
    pub fn rewind(&mut self, height: u32) {
        self.part = None;
        self.matched.split_off(&height);
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

    #[derive(Clone)]
    struct Coin {
        address: u32,
        paid: u32,
        spent: Option<u32>,
    }

    /// A wallet that looks for four addresses more than the last one that was paid.
    struct Wallet {
        plan: ScanPlan,
        random: Random,
        coins: Vec<Coin>,
        revealed: u32,
        /// How often each address was tested at each height.
        tested: Vec<[u32; 300]>,
        /// The numbers of the coins that were seen, and whether they are spent.
        seen: BTreeMap<usize, bool>,
    }

    const FIRST: u32 = 10;

    impl Wallet {
        fn new(seed: u64, coins: Vec<Coin>) -> Self {
            let mut wallet = Self {
                plan: ScanPlan::new(FIRST),
                random: Random::new(seed),
                coins,
                revealed: 0,
                tested: Vec::new(),
                seen: BTreeMap::new(),
            };
            wallet.reveal(5);
            wallet
        }

        fn reveal(&mut self, count: u32) {
            for address in self.revealed..count {
                let script = address.to_le_bytes();
                assert!(self.plan.insert(script) && !self.plan.insert(script));
                self.tested.push([0; 300]);
            }
            self.revealed = self.revealed.max(count);
        }

        /// Does what the plan says next, or a part of it. False if there is nothing to do.
        fn step(&mut self, end: u32) -> bool {
            let (mut stop, mut matching) = (0, None);
            match self.plan.next(end) {
                None => return false,
                Some(ScanStep::Apply(height)) => {
                    self.apply(height);
                    return true;
                }
                Some(ScanStep::Test { heights, scripts }) => {
                    let most = u64::from(heights.end - heights.start);
                    let part = heights.start..heights.start + 1 + self.random.below(most) as u32;
                    for height in part {
                        for script in scripts.iter() {
                            let script = u32::from_le_bytes(script.try_into().unwrap());
                            self.tested[script as usize][height as usize] += 1;
                        }
                        stop = height + 1;
                        let touched = |coin: &Coin| {
                            scripts.contains(coin.address.to_le_bytes())
                                && (coin.paid == height || coin.spent == Some(height))
                        };
                        if self.coins.iter().any(touched) {
                            matching = Some(height);
                            break;
                        }
                    }
                }
            }
            self.plan.advance(stop, matching);
            for coin in self.coins.clone() {
                if matching == Some(coin.paid) && coin.address < self.revealed {
                    self.reveal(coin.address + 5);
                }
            }
            true
        }

        fn apply(&mut self, height: u32) {
            let matches = |coin: &Coin| coin.paid == height || coin.spent == Some(height);
            assert!(self.coins.iter().any(matches), "no match at {height}");
            for (number, coin) in self.coins.iter().enumerate() {
                if coin.paid == height && coin.address < self.revealed {
                    self.seen.entry(number).or_default();
                }
                if coin.spent == Some(height) {
                    self.seen.entry(number).and_modify(|spent| *spent = true);
                }
            }
            self.plan.applied(height);
        }

        /// The coins' blocks from `height` on come one block later.
        fn reorganise(&mut self, height: u32) {
            self.plan.rewind(height);
            let height = height.max(FIRST);
            for heights in &mut self.tested {
                heights[height as usize..].fill(0);
            }
            for (number, coin) in self.coins.iter_mut().enumerate() {
                if coin.paid >= height {
                    self.seen.remove(&number);
                    coin.paid += 1;
                }
                if let Some(spent) = coin.spent.as_mut().filter(|spent| **spent >= height) {
                    self.seen.entry(number).and_modify(|spent| *spent = false);
                    *spent += 1;
                }
            }
        }

        /// Each script was tested once at each height, and the unspent coins are known.
        fn finish(&mut self, end: u32) {
            while self.step(end) {}
            for (script, heights) in self.tested.iter().enumerate() {
                let heights = &heights[FIRST as usize..end as usize];
                let once = heights.iter().all(|&count| count == 1);
                assert!(once, "script {script}: {heights:?}");
            }
            for (number, coin) in self.coins.iter().enumerate() {
                let is_mine = coin.address < self.revealed && coin.paid < end;
                let is_spent = coin.spent.is_some_and(|spent| spent < end);
                let expected = is_mine.then_some(is_spent);
                assert_eq!(self.seen.get(&number).copied(), expected, "coin {number}");
            }
        }
    }

    #[test]
    fn late_reveal_gives_funding_before_spending() {
        // The payment to 2 reveals 6, which was paid before and spent afterwards.
        let coin = |address, paid, spent| Coin {
            address,
            paid,
            spent,
        };
        Wallet::new(1, vec![coin(2, 120, None), coin(6, 50, Some(150))]).finish(200);
    }

    /// Random chains, parts of steps, new blocks and reorganisations, also between `next` and `advance`.
    #[test]
    fn scripts_are_tested_once_and_coins_are_known() {
        for seed in 0..500 {
            std::println!("seed {seed}");
            let mut random = Random::new(seed);
            let coins = (0..30).map(|_| {
                let paid = FIRST + random.below(80) as u32;
                let spent = paid + random.below(60) as u32;
                Coin {
                    address: random.below(40) as u32,
                    paid,
                    spent: (random.below(3) > 0).then_some(spent),
                }
            });
            let coins = coins.collect();
            let mut wallet = Wallet::new(seed, coins);
            let mut end = FIRST + 5;
            for _ in 0..150 {
                let height = FIRST - 2 + random.below(60) as u32;
                match random.below(12) {
                    0 => {
                        let _part = wallet.plan.next(end);
                        wallet.reorganise(height);
                        wallet.plan.advance(end, [end - 1]);
                        end = end.max(height);
                    }
                    1 => end = (end + random.below(20) as u32).min(200),
                    2 => wallet.reveal(wallet.revealed + 1),
                    _ => drop(wallet.step(end)),
                }
            }
            wallet.finish(end);
        }
    }
}
