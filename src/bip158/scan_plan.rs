//! [`ScanPlan`]: which scripts remain to be tested at which heights, and which blocks the wallet takes.

// A step has one range or several.
#![allow(clippy::single_range_in_vec_init)]

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::mem;
use core::ops::Range;

use super::Watchlist;
use super::saved::{SavedError, SavedReader, SavedWriter};
#[cfg(feature = "verify")]
use super::{HeaderChain, ScanError, ScanFault, Scratch};
#[cfg(feature = "verify")]
use crate::hash::SipHash;

/// The next thing to do for a [`ScanPlan`].
#[derive(Clone, Debug)]
pub enum ScanStep<'p> {
    /// Test the filters at these heights, or the first of them, with [`ScanPlan::scan`]; or by other means, then call
    /// [`ScanPlan::advance`].
    Test {
        /// The heights, at least one, in ascending order: one range, or several of filters that were wrong or missing.
        heights: Vec<Range<u32>>,
        /// The scripts to look for, at least one.
        scripts: &'p Watchlist,
    },
    /// Give the block at this height to the wallet, then call [`ScanPlan::applied`].
    Apply(u32),
}

/// A block that may pay or spend scripts of a [`ScanPlan`].
#[cfg(feature = "verify")]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlanMatch<B> {
    /// Its height.
    pub height: u32,
    /// The block, as it was given.
    pub block: B,
    /// The scripts that its filter matches. The wallet reveals the addresses after them.
    pub scripts: Vec<Vec<u8>>,
}

/// A block that matches, or one whose filter cannot be used.
#[cfg(feature = "verify")]
pub type PlanScanned<B> = Result<PlanMatch<B>, ScanError<(u32, B)>>;

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
/// Scripts may be inserted at any time, before or after the filters of the open step are recorded. A filter that is wrong or
/// missing holds up nothing but the blocks: the others count, and its height is asked for again after them.
///
/// ```
/// # #[cfg(feature = "verify")] {
/// use nutfilter::SipHash;
/// use nutfilter::bip158::{self, HeaderChain, ScanPlan, ScanStep, Scratch};
///
/// // Address 7 is paid at height 7. Its payment reveals address 3, which was paid at 3 and spent at 12.
/// let touched = |height: u32| if height == 12 { 3 } else { height as u8 };
/// let block = |height: u32| [height as u8; 32];
/// let filter = |height: u32| {
///     bip158::serialize(&bip158::build(SipHash::from(block(height)), [[touched(height)]]).unwrap())
/// };
/// let mut chain = HeaderChain::new(0, [0; 32]);
/// chain.extend_from([0; 32], (0..20).map(|height| bip158::filter_hash(&filter(height)))).unwrap();
///
/// let (mut plan, mut scratch) = (ScanPlan::new(0), Scratch::new());
/// plan.insert([7]);
/// let mut applied = Vec::new();
/// while let Some(step) = plan.next(20) {
///     match step {
///         ScanStep::Test { heights, .. } => {
///             // What peers answered, at most a hundred or so; some may be missing or wrong.
///             let heights = heights.into_iter().flatten().take(100);
///             let batch: Vec<_> = heights.map(|height| (height, block(height), filter(height))).collect();
///             for found in plan.scan(&mut scratch, &chain, &batch) {
///                 let found = found.expect("honest peers");
///                 if found.scripts == [[7]] {
///                     plan.insert([3]); // the address after it
///                 }
///             }
///         }
///         ScanStep::Apply(height) => {
///             applied.push(height); // the wallet looks at inputs and outputs
///             plan.applied(height);
///         }
///     }
/// }
/// assert_eq!(applied, [3, 7, 12]);
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ScanPlan {
    /// The lowest height from which a script was inserted, for instance the wallet's birthday.
    start: u32,
    /// All scripts. They have been tested below `next`, but for what `missing` and `owed` have.
    scripts: Watchlist,
    /// From which height on each is to be tested.
    firsts: BTreeMap<Box<[u8]>, u32>,
    next: u32,
    /// The heights below `next` whose filters were wrong or missing when they were asked for.
    missing: Heights,
    /// Those of `missing` below are asked for again after the others.
    again: u32,
    /// What remains to be tested below `next`. The heights of one script do not overlap.
    owed: Vec<Owed>,
    /// Where the pass over these is, and the scripts that remain there, unless that has changed.
    cursor: u32,
    back: Option<Watchlist>,
    /// The part that was returned last, unless it was recorded or a reorganisation has replaced some of its filters.
    part: Option<Part>,
    /// The heights of the blocks that matched and that the wallet has not taken.
    matched: BTreeSet<u32>,
}

/// A script that remains to be tested at some heights.
#[derive(Clone, Debug)]
struct Owed {
    heights: Range<u32>,
    script: Box<[u8]>,
}

#[derive(Clone, Debug)]
struct Part {
    pass: PlanPass,
    heights: Vec<Range<u32>>,
    /// Scripts that were inserted since the part was returned, with the heights at which nobody tested them before.
    inserted: Vec<Owed>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum PlanPass {
    /// From `next` on, with all scripts.
    Forward,
    /// From `cursor` on, with the scripts that remain there.
    Back,
    /// At missing heights, with all scripts.
    Again,
}

/// Ranges of heights, by their starts.
#[derive(Clone, Debug, Default)]
struct Heights(BTreeMap<u32, u32>);

impl Heights {
    #[cfg(any(test, feature = "verify"))]
    fn add(&mut self, mut heights: Range<u32>) {
        while let Some((start, end)) =
            self.last_before(heights.end.saturating_add(1), heights.start)
        {
            self.0.remove(&start);
            heights = heights.start.min(start)..heights.end.max(end);
        }
        self.0.insert(heights.start, heights.end);
    }

    fn remove(&mut self, heights: Range<u32>) {
        while let Some((start, end)) =
            self.last_before(heights.end, heights.start.saturating_add(1))
        {
            self.0.remove(&start);
            if heights.end < end {
                self.0.insert(heights.end, end);
            }
            if start < heights.start {
                self.0.insert(start, heights.start);
            }
        }
    }

    /// The last range that starts before `before`, unless it ends before `end`.
    fn last_before(&self, before: u32, end: u32) -> Option<(u32, u32)> {
        let (&start, &last) = self.0.range(..before).next_back()?;
        (last >= end).then_some((start, last))
    }

    /// The ranges from height `from` on, some at least.
    fn from(&self, from: u32) -> Vec<Range<u32>> {
        let first = self.last_before(from, from.saturating_add(1));
        let first = first.map(|(_, end)| from..end);
        let rest = self.0.range(from..).map(|(&start, &end)| start..end);
        first.into_iter().chain(rest).take(MOST_RANGES).collect()
    }
}

/// At most so many ranges in a step.
const MOST_RANGES: usize = 1 << 10;

/// Names the bytes of a plan, and their version.
const NAME: &[u8; 8] = b"nfplan\0\x02";

impl ScanPlan {
    /// A plan without scripts, for filters from height `start` on.
    #[must_use]
    pub fn new(start: u32) -> Self {
        Self {
            start,
            scripts: Watchlist::new(),
            firsts: BTreeMap::new(),
            next: start,
            missing: Heights::default(),
            again: 0,
            owed: Vec::new(),
            cursor: start,
            back: None,
            part: None,
            matched: BTreeSet::new(),
        }
    }

    /// Adds a script, to be tested from the plan's first height on. Returns false if it was in the plan already.
    pub fn insert(&mut self, script: impl AsRef<[u8]>) -> bool {
        self.insert_from(script, self.start)
    }

    /// Adds a script that was not used below height `from`: the birthday of a wallet that is imported, or `u32::MAX` for a new
    /// one. It may lie before the plan's first height, and before the height that was given for the script earlier. Returns false
    /// if the script was in the plan already from this height on.
    pub fn insert_from(&mut self, script: impl AsRef<[u8]>, from: u32) -> bool {
        let script = script.as_ref();
        let before = self.firsts.get(script).copied();
        if before.is_some_and(|before| before <= from) {
            return false;
        }
        self.firsts.insert(script.into(), from);
        self.scripts.insert(script);
        self.start = self.start.min(from);
        let owed = Owed { heights: from..before.unwrap_or(u32::MAX), script: script.into() };
        match &mut self.part {
            Some(part) => part.inserted.push(owed),
            None => self.owe([owed]),
        }
        true
    }

    /// Scripts remain to be tested at those of their heights that are below `next`.
    fn owe(&mut self, scripts: impl IntoIterator<Item = Owed>) {
        for mut owed in scripts {
            owed.heights.end = owed.heights.end.min(self.next);
            if !owed.heights.is_empty() {
                self.owed.push(owed);
                self.back = None;
            }
        }
    }

    /// What to do next; `end` is the height after the last filter that the client has.
    ///
    /// None means that every script has been tested in every filter, and the wallet has taken every block that matched.
    pub fn next(&mut self, end: u32) -> Option<ScanStep<'_>> {
        let forward = self.next < end && !self.scripts.is_empty();
        // A client may still record a forward part that was returned before, and that it tested without these.
        let mut inserted = self.part.take().map_or(Vec::new(), |part| part.inserted);
        if !forward {
            self.owe(mem::take(&mut inserted));
        }
        let (pass, heights) = if forward {
            (PlanPass::Forward, Vec::from([self.next..end]))
        } else if let Some(heights) = self.move_cursor() {
            (PlanPass::Back, Vec::from([heights]))
        } else {
            let mut heights = self.missing.from(self.again);
            if heights.is_empty() {
                self.again = 0;
                heights = self.missing.from(0);
            }
            if heights.is_empty() {
                return self.matched.first().map(|&height| ScanStep::Apply(height));
            }
            (PlanPass::Again, heights)
        };
        self.part = Some(Part { pass, heights: heights.clone(), inserted });
        let scripts = match pass {
            PlanPass::Back => self.scripts_back(),
            PlanPass::Forward | PlanPass::Again => &self.scripts,
        };
        Some(ScanStep::Test { heights, scripts })
    }

    /// Moves the cursor up, or back to the lowest height, to where scripts remain. Returns the heights at which these remain.
    fn move_cursor(&mut self) -> Option<Range<u32>> {
        let starts = || self.owed.iter().map(|owed| owed.heights.start);
        let ahead = starts().filter(|&start| start >= self.cursor).min();
        let start = ahead.or_else(|| starts().min())?;
        let ends = self.owed.iter().map(|owed| match owed.heights.start {
            other if other == start => owed.heights.end,
            other => other,
        });
        let end = ends.filter(|&end| end > start).min()?;
        if self.cursor != start {
            self.cursor = start;
            self.back = None;
        }
        Some(start..end)
    }

    /// The scripts that remain at the cursor.
    fn scripts_back(&mut self) -> &Watchlist {
        let here = self.owed.iter().filter(|owed| owed.heights.start == self.cursor);
        self.back.get_or_insert_with(|| here.map(|owed| &owed.script).collect())
    }

    /// Records that the filters below `height` of the part that [`ScanPlan::next`] returned last have been tested, and
    /// that those at the heights `matches` match.
    ///
    /// After [`ScanPlan::rewind`] this does nothing until `next` has returned a new part.
    pub fn advance(&mut self, height: u32, matches: impl IntoIterator<Item = u32>) {
        let Some(part) = self.part.take() else {
            return;
        };
        self.matched.extend(matches);
        if part.pass == PlanPass::Again {
            for heights in &part.heights {
                if heights.start < height {
                    self.missing.remove(heights.start..heights.end.min(height));
                }
            }
        }
        self.record(part, height);
    }

    /// Goes on with the passes at `height`, or at the end of the part.
    fn record(&mut self, part: Part, height: u32) {
        let end = part.heights.last().map_or(0, |heights| heights.end);
        let end = end.min(height);
        match part.pass {
            PlanPass::Forward => self.next = self.next.max(end),
            PlanPass::Back => {
                // Each that begins at the cursor was tested: what was inserted since is owed below.
                let before = self.cursor;
                self.cursor = before.max(end);
                for owed in &mut self.owed {
                    if owed.heights.start == before {
                        owed.heights.start = self.cursor;
                    }
                }
                if part.heights[0].end == self.cursor {
                    self.owed.retain(|owed| !owed.heights.is_empty());
                    self.back = None;
                }
            }
            PlanPass::Again => self.again = end,
        }
        self.owe(part.inserted);
    }

    /// Verifies and tests filters of the part that [`ScanPlan::next`] returned last, and records what was tested: a height, the
    /// block's hash in internal order, and the serialised filter, in any order. Returns the blocks that match and what is wrong,
    /// in the order given.
    ///
    /// A height that is missing, or whose filter is wrong, is asked for again. A filter that the header commits to and that is
    /// invalid cannot be had otherwise: the wallet takes the block as if it matched.
    ///
    /// # Cost
    ///
    /// As [`Watchlist::scan_verified`].
    #[cfg(feature = "verify")]
    pub fn scan<B, F>(
        &mut self,
        scratch: &mut Scratch,
        chain: &HeaderChain,
        filters: &[(u32, B, F)],
    ) -> Vec<PlanScanned<B>>
    where
        B: Copy + Into<SipHash>,
        F: AsRef<[u8]>,
    {
        let Some(mut part) = self.part.take() else {
            return Vec::new();
        };
        if part.pass == PlanPass::Forward {
            // They are tested with the others.
            self.owe(mem::take(&mut part.inserted));
        }
        let is_asked = |height: u32| {
            let at = part.heights.partition_point(|heights| heights.end <= height);
            let heights = part.heights.get(at);
            heights.is_some_and(|heights| heights.contains(&height))
        };
        let given = filters.iter().filter(|(height, ..)| is_asked(*height));
        let given: Vec<_> =
            given.map(|(height, block, filter)| (*height, *block, filter.as_ref())).collect();
        let scripts = match (part.pass, &self.back) {
            (PlanPass::Back, Some(back)) => back,
            _ => &self.scripts,
        };
        // How many filters of each height may be used: another peer's may be right where one is wrong.
        let mut good: BTreeMap<u32, usize> = BTreeMap::new();
        for (height, ..) in &given {
            *good.entry(*height).or_default() += 1;
        }
        let (mut found, mut end) = (Vec::new(), 0);
        for one in scripts.scan_verified(scratch, chain, &given) {
            found.push(match one {
                Ok(one) => {
                    let (height, block) = one.block;
                    self.matched.insert(height);
                    let scripts = one.scripts.into_iter().map(<[u8]>::to_vec).collect();
                    Ok(PlanMatch { height, block, scripts })
                }
                Err(error) => {
                    let height = error.block.0;
                    if let ScanFault::Invalid(_) = error.fault {
                        self.matched.insert(height);
                    } else {
                        good.entry(height).and_modify(|count| *count -= 1);
                    }
                    if let ScanFault::WrongFilter { .. } = error.fault {
                        end = end.max(height + 1);
                    }
                    Err(error)
                }
            });
        }
        good.retain(|_, count| *count > 0);
        let last = good.last_key_value().map_or(0, |(&height, _)| height + 1);
        let end = end.max(last);
        if part.pass == PlanPass::Again {
            for height in good.into_keys() {
                self.missing.remove(height..height + 1);
            }
        } else {
            let mut at = part.heights[0].start;
            for height in good.into_keys().chain([end]) {
                if at < height {
                    self.missing.add(at..height);
                }
                at = height.saturating_add(1);
            }
        }
        self.record(part, end);
        found
    }

    /// Records that the wallet has taken the block at `height`.
    pub fn applied(&mut self, height: u32) {
        self.matched.remove(&height);
    }

    /// Forgets the filters from `height` on: a reorganisation replaced their blocks. The wallet forgets them too.
    pub fn rewind(&mut self, height: u32) {
        self.matched.split_off(&height);
        self.next = self.next.min(height.max(self.start));
        let next = self.next;
        self.missing.remove(next..u32::MAX);
        for owed in &mut self.owed {
            owed.heights.end = next.min(owed.heights.end);
        }
        self.owed.retain(|owed| !owed.heights.is_empty());
        self.back = None;
        let part = self.part.take();
        self.owe(part.map_or(Vec::new(), |part| part.inserted));
    }

    /// The plan as bytes, with a checksum. Keep them after each step: what was recorded since is tested again.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = SavedWriter::new(NAME);
        out.number(self.start);
        out.number(self.next);
        out.number(self.firsts.len());
        for (script, &first) in &self.firsts {
            out.number(first);
            out.string(script);
        }
        let inserted = self.part.iter().flat_map(|part| &part.inserted);
        let inserted = inserted.map(|owed| {
            let Range { start, end } = owed.heights;
            (start..end.min(self.next), &owed.script)
        });
        let owed = self.owed.iter();
        let owed = owed.map(|owed| (owed.heights.clone(), &owed.script));
        let owed: Vec<_> =
            owed.chain(inserted.filter(|(heights, _)| !heights.is_empty())).collect();
        out.number(owed.len());
        for (heights, script) in owed {
            out.number(heights.start);
            out.number(heights.end);
            out.string(script);
        }
        out.number(self.missing.0.len());
        for (&start, &end) in &self.missing.0 {
            out.number(start);
            out.number(end);
        }
        out.number(self.matched.len());
        self.matched.iter().for_each(|&height| out.number(height));
        out.finish()
    }

    /// Reads what [`ScanPlan::to_bytes`] made.
    ///
    /// # Errors
    ///
    /// [`SavedError`]: then begin a new plan.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SavedError> {
        let mut from = SavedReader::new(bytes);
        from.begin(NAME)?;
        let mut plan = Self::new(from.number()?);
        plan.next = from.number()?;
        for _ in 0..from.number()? {
            let (first, script) = (from.number()?, from.string()?);
            plan.scripts.insert(script);
            plan.firsts.insert(script.into(), first);
        }
        for _ in 0..from.number()? {
            let heights = from.number()?..from.number()?;
            let script = from.string()?.into();
            plan.owed.push(Owed { heights, script });
        }
        for _ in 0..from.number()? {
            plan.missing.0.insert(from.number()?, from.number()?);
        }
        for _ in 0..from.number()? {
            plan.matched.insert(from.number()?);
        }
        from.finish()?;
        let is_owed = |owed: &Owed| {
            let Range { start, end } = owed.heights;
            start < end && end <= plan.next && plan.scripts.contains(&owed.script)
        };
        let missing = plan.missing.0.iter();
        let mut is_missing = missing.map(|(&start, &end)| start < end && end <= plan.next);
        let is_good =
            from.is_empty() && plan.owed.iter().all(is_owed) && is_missing.all(|is_good| is_good);
        is_good.then_some(plan).ok_or(SavedError::Damaged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Noise;
    use alloc::vec;

    #[derive(Clone)]
    struct Coin {
        address: u32,
        paid: u32,
        spent: Option<u32>,
    }

    /// What is true, and what a wallet knows.
    struct Coins {
        all: Vec<Coin>,
        /// The numbers of the coins that were seen, and whether they are spent.
        seen: BTreeMap<usize, bool>,
    }

    impl Coins {
        fn new(all: Vec<Coin>) -> Self {
            let seen = BTreeMap::new();
            Self { all, seen }
        }

        /// The wallet takes a block.
        fn apply(&mut self, height: u32, revealed: u32) {
            for (number, coin) in self.all.iter().enumerate() {
                if coin.paid == height && coin.address < revealed {
                    self.seen.entry(number).or_default();
                }
                if coin.spent == Some(height) {
                    self.seen.entry(number).and_modify(|spent| *spent = true);
                }
            }
        }

        /// In another branch, the payments from `height` on come a block later.
        fn postpone(&mut self, height: u32) {
            for (number, coin) in self.all.iter_mut().enumerate() {
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

        /// All coins below `end` are known.
        fn check(&self, revealed: u32, end: u32) {
            for (number, coin) in self.all.iter().enumerate() {
                let is_mine = coin.address < revealed && coin.paid < end;
                let is_spent = coin.spent.is_some_and(|spent| spent < end);
                let expected = is_mine.then_some(is_spent);
                assert_eq!(self.seen.get(&number).copied(), expected, "coin {number}");
            }
        }
    }

    fn asked(plan: &mut ScanPlan, end: u32) -> Vec<Range<u32>> {
        match plan.next(end) {
            Some(ScanStep::Test { heights, .. }) => heights,
            step => panic!("{step:?}"),
        }
    }

    #[test]
    fn heights_beyond_a_part_are_not_tested() {
        let mut plan = ScanPlan::new(0);
        plan.insert(b"mine");
        assert_eq!(asked(&mut plan, 100), [0..100]);
        plan.advance(1_000, []);
        assert_eq!(asked(&mut plan, 200), [100..200]);
        // Also of what is tested later for a script that was inserted meanwhile.
        plan.advance(200, []);
        plan.insert(b"other");
        assert_eq!(asked(&mut plan, 200), [0..200]);
        plan.advance(50, []);
        plan.insert(b"third");
        assert!(asked(&mut plan, 200)[0].start <= 50);
        plan.advance(u32::MAX, []);
        while let Some(ScanStep::Test { heights, .. }) = plan.next(200) {
            assert!(heights[0].end <= 200, "{heights:?}");
            plan.advance(heights[0].end, []);
        }
        assert_eq!(asked(&mut plan, 201), [200..201]);
    }

    #[test]
    fn earlier_birthday_is_tested_from_there_on() {
        let mut plan = ScanPlan::new(100);
        assert!(plan.insert_from(b"mine", u32::MAX) && !plan.insert_from(b"mine", u32::MAX));
        assert_eq!(asked(&mut plan, 300), [100..300]);
        plan.advance(150, []);
        assert!(plan.insert_from(b"mine", 40) && !plan.insert(b"mine"));
        assert_eq!(asked(&mut plan, 150), [40..150]);
        // Before, between and after two steps.
        assert!(plan.insert_from(b"mine", 30));
        plan.advance(150, []);
        let mut plan = ScanPlan::from_bytes(&plan.to_bytes()).unwrap();
        assert!(plan.insert_from(b"mine", 20));
        let mut parts = Vec::new();
        while let Some(ScanStep::Test { heights, .. }) = plan.next(150) {
            parts.extend(heights);
            plan.advance(150, []);
        }
        parts.sort_by_key(|heights| heights.start);
        assert_eq!(parts, [20..30, 30..40]);
    }

    #[test]
    fn step_asked_for_twice_misses_no_script_between() {
        let mut plan = ScanPlan::new(0);
        plan.insert(b"mine");
        let heights = asked(&mut plan, 100);
        plan.insert(b"other");
        assert_eq!(asked(&mut plan, 100), heights);
        // A plan that is read back has no open step.
        plan.advance(50, []);
        assert_eq!(asked(&mut plan, 100), [50..100]);
        plan.insert(b"third");
        let read = ScanPlan::from_bytes(&plan.to_bytes()).unwrap();
        // The filters were tested with the scripts of the first step.
        plan.advance(100, []);
        for (mut plan, end) in [(read, 50), (plan, 100)] {
            assert_eq!(asked(&mut plan, end), [0..50]);
            let scripts = plan.scripts_back();
            assert!(scripts.contains(b"other") && scripts.contains(b"third"));
        }
    }

    #[test]
    fn missing_heights_are_recorded_below_a_height() {
        let mut plan = ScanPlan::new(0);
        plan.insert(b"mine");
        plan.next = 30;
        for heights in [3..6, 10..20, 25..26] {
            plan.missing.add(heights);
        }
        assert_eq!(asked(&mut plan, 30), [3..6, 10..20, 25..26]);
        plan.advance(15, [4]);
        assert_eq!(asked(&mut plan, 30), [15..20, 25..26]);
        let mut plan = ScanPlan::from_bytes(&plan.to_bytes()).unwrap();
        assert_eq!(asked(&mut plan, 30), [15..20, 25..26]);
        plan.advance(30, []);
        assert!(matches!(plan.next(30), Some(ScanStep::Apply(4))));
    }

    #[test]
    fn heights_that_cannot_be_owed_are_refused() {
        let mut plan = ScanPlan::new(0);
        plan.insert(b"mine");
        plan.next = 30;
        let owe = |plan: &mut ScanPlan, end, script: &[u8]| {
            let (heights, script) = (0..end, script.into());
            plan.owed.push(Owed { heights, script });
        };
        type Change<'a> = &'a dyn Fn(&mut ScanPlan);
        let changes: [(Change<'_>, bool); 5] = [
            (&|plan| owe(plan, 30, b"mine"), true),
            (&|plan| owe(plan, 31, b"mine"), false),
            (&|plan| owe(plan, 30, b"other"), false),
            (&|plan| plan.missing.add(29..30), true),
            (&|plan| plan.missing.add(29..31), false),
        ];
        for (number, (change, is_good)) in changes.into_iter().enumerate() {
            let mut plan = plan.clone();
            change(&mut plan);
            assert_eq!(ScanPlan::from_bytes(&plan.to_bytes()).is_ok(), is_good, "{number}");
        }
    }

    #[cfg(feature = "verify")]
    mod verified {
        use super::*;
        use crate::bip158::{build, filter_hash, serialize};

        /// A client that keeps its state as bytes, and looks for four addresses more than the last one that was paid. Of its peers
        /// some answer nothing or something wrong.
        struct Client {
            plan: ScanPlan,
            chain: HeaderChain,
            saved: [Vec<u8>; 2],
            random: Noise,
            coins: Coins,
            /// Which branch each height is of.
            blocks: Vec<u64>,
            revealed: u32,
            birthdays: u32,
            /// The height after the last filter.
            end: u32,
            /// How often each address was tested at each height, if the client tests by itself, and all peers are honest.
            tested: Option<Vec<[u32; HEIGHTS as usize]>>,
        }

        const HEIGHTS: u32 = 60;

        impl Client {
            fn new(seed: u64) -> Self {
                let mut random = Noise::of(seed);
                let coins = (0..12).map(|_| {
                    let paid = random.below(u64::from(HEIGHTS)) as u32;
                    let spent = paid + random.below(30) as u32;
                    let spent = (random.below(3) > 0).then_some(spent);
                    let address = random.below(20) as u32;
                    Coin { address, paid, spent }
                });
                let coins = coins.collect();
                Self::of(random, coins)
            }

            fn of(random: Noise, coins: Vec<Coin>) -> Self {
                let coins = Coins::new(coins);
                let mut client = Self {
                    plan: ScanPlan::new(20),
                    chain: HeaderChain::new(0, [0; 32]),
                    saved: [vec![], vec![]],
                    random,
                    coins,
                    blocks: vec![0; HEIGHTS as usize],
                    revealed: 0,
                    birthdays: 0,
                    end: HEIGHTS,
                    tested: None,
                };
                client.saved[1] = client.chain.to_bytes(0);
                client.extend();
                client.reveal(4);
                client.save();
                client
            }

            fn hash(&self, height: u32) -> [u8; 32] {
                let mut hash = [self.blocks[height as usize] as u8; 32];
                hash[..4].copy_from_slice(&height.to_le_bytes());
                hash
            }

            fn filter(&self, height: u32) -> Vec<u8> {
                let touches = |coin: &&Coin| coin.paid == height || coin.spent == Some(height);
                let mine = self.coins.all.iter().filter(touches);
                let mine = mine.map(|coin| coin.address.to_le_bytes());
                let others = [(1000 + height).to_le_bytes()];
                serialize(&build(SipHash::from(self.hash(height)), mine.chain(others)).unwrap())
            }

            /// Follows the chain of headers to its end, and appends the new ones to those that are kept.
            fn extend(&mut self) {
                let next = self.chain.len() as u32;
                let hashes = (next..HEIGHTS).map(|height| filter_hash(&self.filter(height)));
                let hashes: Vec<_> = hashes.collect();
                self.chain.extend_from(self.chain.tip(), hashes).unwrap();
                let new = self.chain.to_bytes(next);
                self.saved[1].extend(new);
            }

            fn save(&mut self) {
                self.saved[0] = self.plan.to_bytes();
            }

            /// The process was killed and starts again. The wallet itself lost nothing.
            fn restart(&mut self) {
                self.plan = ScanPlan::from_bytes(&self.saved[0]).unwrap();
                let chain = HeaderChain::from_bytes(&self.saved[1]).unwrap();
                assert_eq!(chain, self.chain);
                // What was revealed and not kept.
                (0..self.revealed).for_each(|address| self.insert(address));
            }

            fn insert(&mut self, address: u32) {
                // Some are of a wallet that is imported later, with an earlier birthday.
                let coins = self.coins.all.iter().filter(|coin| coin.address == address);
                let birthday = coins.map(|coin| coin.paid).min().unwrap_or(u32::MAX);
                let is_new = self.plan.insert_from(address.to_le_bytes(), birthday);
                self.birthdays += u32::from(is_new && birthday < 20);
            }

            fn reveal(&mut self, count: u32) {
                (self.revealed..count).for_each(|address| self.insert(address));
                self.revealed = self.revealed.max(count);
            }

            fn step(&mut self) -> bool {
                let mut scratch = Scratch::new();
                match self.plan.next(self.end) {
                    None => return false,
                    Some(ScanStep::Apply(height)) => {
                        self.coins.apply(height, self.revealed);
                        self.plan.applied(height);
                    }
                    Some(ScanStep::Test { heights, scripts }) => {
                        let most = 1 + self.random.below(30) as usize;
                        if let Some(tested) = &mut self.tested {
                            let part: Vec<u32> = heights.into_iter().flatten().take(most).collect();
                            let mut found = Vec::new();
                            for (script, &height) in scripts
                                .iter()
                                .flat_map(|script| part.iter().map(move |height| (script, height)))
                            {
                                let address = u32::from_le_bytes(script.try_into().unwrap());
                                tested[address as usize][height as usize] += 1;
                                let mut coins =
                                    self.coins.all.iter().filter(|coin| coin.address == address);
                                if coins
                                    .any(|coin| coin.paid == height || coin.spent == Some(height))
                                {
                                    found.push((address, height));
                                }
                            }
                            let matches = found.iter().map(|(_, height)| *height);
                            let end = part[part.len() - 1] + 1;
                            // Before or after what it reveals is inserted.
                            let first = self.random.below(2) == 0;
                            if first {
                                self.plan.advance(end, matches.clone());
                            }
                            for (address, _) in &found {
                                self.reveal(address + 5);
                            }
                            if !first {
                                self.plan.advance(end, matches);
                            }
                            self.save();
                            return true;
                        }
                        let mut batch = vec![];
                        for height in heights.into_iter().flatten().take(most) {
                            let mut filter = self.filter(height);
                            match self.random.below(12) {
                                0 => continue,
                                1 => filter.push(0),
                                _ => {}
                            }
                            batch.push((height, self.hash(height), filter));
                        }
                        if self.random.below(2) == 0 {
                            batch.reverse();
                        }
                        let early = self.random.below(4) == 0;
                        if early {
                            self.reveal(self.revealed + 1);
                        }
                        for found in self.plan.scan(&mut scratch, &self.chain, &batch) {
                            let Ok(found) = found else { continue };
                            for script in found.scripts {
                                let address = u32::from_le_bytes(script.try_into().unwrap());
                                self.reveal(address + 5);
                            }
                        }
                    }
                }
                self.save();
                true
            }

            /// Another branch, in which the coins come a block later.
            fn reorganise(&mut self, height: u32) {
                self.chain.rewind(height).unwrap();
                self.plan.rewind(height);
                self.save();
                for block in &mut self.blocks[height as usize..] {
                    *block += 1;
                }
                self.coins.postpone(height);
                self.extend();
                for heights in self.tested.iter_mut().flatten() {
                    heights[height as usize..].fill(0);
                }
            }
        }

        #[test]
        fn late_reveal_gives_funding_before_spending() {
            // The payment to 2 reveals 6, which was paid before and spent afterwards.
            let coin = |address, paid, spent| Coin { address, paid, spent };
            let coins = vec![coin(2, 45, None), coin(6, 30, Some(50))];
            let mut client = Client::of(Noise::of(1), coins);
            while client.step() {}
            client.coins.check(client.revealed, HEIGHTS);
        }

        /// Parts of steps, new blocks and reorganisations, also between `next` and `advance`.
        #[test]
        fn scripts_are_tested_once_and_coins_are_known() {
            for seed in 0..400 {
                std::println!("seed {seed}");
                let mut client = Client::new(seed);
                client.tested = Some(vec![[0; HEIGHTS as usize]; 100]);
                client.end = 25;
                for _ in 0..60 {
                    match client.random.below(12) {
                        0 => {
                            let _part = client.plan.next(client.end);
                            let height = client.random.below(u64::from(client.end)) as u32;
                            client.reorganise(height);
                            client.plan.advance(client.end, [client.end - 1]);
                        }
                        1 => {
                            client.end = (client.end + client.random.below(20) as u32).min(HEIGHTS)
                        }
                        2 => client.reveal(client.revealed + 1),
                        _ => _ = client.step(),
                    }
                }
                client.end = HEIGHTS;
                while client.step() {}
                client.coins.check(client.revealed, HEIGHTS);
                let mut tested = client.tested.iter().flatten();
                assert!(tested.all(|heights| heights.iter().all(|&count| count <= 1)));
            }
        }

        /// Peers that fail, kills between any two calls, reorganisations, birthdays: all coins are known.
        #[test]
        fn kept_plans_miss_no_coin() {
            let (mut birthdays, mut gaps) = (0, 0);
            for seed in 0..1000 {
                std::println!("seed {seed}");
                let mut client = Client::new(seed);
                for _ in 0..40 {
                    match client.random.below(8) {
                        0 => client.restart(),
                        1 => {
                            let height = client.random.below(u64::from(HEIGHTS)) as u32;
                            client.reorganise(height);
                        }
                        2 => _ = client.plan.next(HEIGHTS),
                        _ => _ = client.step(),
                    }
                    gaps += client.plan.missing.0.len();
                }
                while client.step() {}
                client.coins.check(client.revealed, HEIGHTS);
                birthdays += client.birthdays;
            }
            assert!(birthdays > 1000 && gaps > 1000, "{birthdays}, {gaps}");
        }

        #[test]
        fn each_flipped_bit_and_each_cut_is_refused() {
            let mut client = Client::new(3);
            client.step();
            let _ = client.plan.next(HEIGHTS);
            client.reveal(9);
            client.save();
            let [plan, chain] = &client.saved;
            for (bytes, reads) in [(plan, 0), (chain, 1)] {
                let read = |bytes: &[u8]| match reads {
                    0 => ScanPlan::from_bytes(bytes).map(|plan| plan.to_bytes()),
                    _ => HeaderChain::from_bytes(bytes).map(|chain| chain.to_bytes(0)),
                };
                assert!(read(bytes).is_ok());
                for bit in 0..bytes.len() * 8 {
                    let mut bytes = bytes.clone();
                    bytes[bit / 8] ^= 1 << (bit % 8);
                    assert!(read(&bytes).is_err(), "bit {bit}");
                }
                for len in 0..bytes.len() {
                    // The first part of the chain is empty, and the second one may be cut off.
                    match read(&bytes[..len]) {
                        Ok(_) => assert!(reads == 1 && len == client.chain.to_bytes(HEIGHTS).len()),
                        Err(SavedError::Torn { whole }) => {
                            assert!(whole == 0 || read(&bytes[..whole]).is_ok())
                        }
                        Err(error) => panic!("{len} bytes: {error}"),
                    }
                }
                let longer = [bytes.as_slice(), &[0]].concat();
                assert!(read(&longer).is_err());
            }
        }

        /// Filters that no peer has keep a client with small batches from nothing else.
        #[test]
        fn filters_that_stay_wrong_hold_up_no_other() {
            let mut client = Client::new(5);
            client.plan = ScanPlan::new(0);
            client.plan.insert(b"mine");
            let mut scratch = Scratch::new();
            let mut tested = BTreeSet::new();
            for step in 0..80 {
                let (end, twelve) = (HEIGHTS - 10, step % 3 == 0);
                for heights in asked(&mut client.plan, end) {
                    assert!(
                        heights.end <= end
                            && heights.clone().all(|height| !tested.contains(&height))
                    );
                }
                let part = client.plan.part.clone().unwrap().heights;
                let batch = part.into_iter().flatten().take(4);
                let wrong = |height: u32| height % 12 < 8 && (twelve || height > 24);
                let batch: Vec<_> = batch
                    .map(|height| {
                        let bytes = if wrong(height) { vec![9] } else { client.filter(height) };
                        (height, client.hash(height), bytes)
                    })
                    .collect();
                client.plan.scan(&mut scratch, &client.chain, &batch);
                tested.extend(batch.iter().map(|one| one.0).filter(|&height| !wrong(height)));
            }
            let expected = (0..HEIGHTS - 10).filter(|&height| height % 12 >= 8 || height <= 24);
            assert!(tested.into_iter().eq(expected));
            // What is behind the chain is not asked again before its turn, nor skipped.
            client.chain.rewind(HEIGHTS - 5).unwrap();
            let batch: Vec<_> = (HEIGHTS - 10..HEIGHTS)
                .map(|height| (height, client.hash(height), client.filter(height)))
                .collect();
            assert_eq!(asked(&mut client.plan, HEIGHTS), [HEIGHTS - 10..HEIGHTS]);
            let found = client.plan.scan(&mut scratch, &client.chain, &batch);
            assert_eq!((found.len(), client.plan.next), (5, HEIGHTS - 5));
        }
    }

    #[test]
    fn ranges_of_heights_are_added_and_removed() {
        let mut random = Noise::of(3);
        let (mut heights, mut expected) = (Heights::default(), [false; 40]);
        for _ in 0..2000 {
            let start = random.below(39) as u32;
            let range = start..start + 1 + random.below(6).min(u64::from(39 - start)) as u32;
            let add = random.below(2) == 0;
            expected[range.start as usize..range.end as usize].fill(add);
            match add {
                true => heights.add(range),
                false => heights.remove(range),
            }
            let from = random.below(41) as u32;
            let ranges = heights.from(from);
            assert!(ranges.iter().all(|range| !range.is_empty()));
            let wanted = (from..40).filter(|&height| expected[height as usize]);
            assert!(ranges.into_iter().flatten().eq(wanted));
        }
    }
}
