//! Any set against any targets: every way to ask gives the reference's answers.

use std::borrow::Cow;
use std::fmt::Debug;

use arbitrary::Arbitrary;
use nutfilter::{
    Filter, ItemHash, Level, Nut23, Nut25, Params, SeekIndex, SipHash, SortedHashes, Step,
    map_to_range,
};
use nutfilter_reference::Profile;

use crate::recipe::{self, SMALL};
use crate::{STRATEGIES, levels, params_from};

/// A set, targets, and how to hash, code and index.
///
/// As input of a fuzzer these are 9 bytes, and the items behind them.
#[derive(Arbitrary, Clone, Debug)]
pub struct Case<'a> {
    /// What is made of the rest: see [`Case::check`].
    pub how: u8,
    /// P, brought into range by [`params_from`].
    pub p: u8,
    /// M, brought into range likewise and kept small enough to code in little space.
    pub m: u32,
    /// How many items an entry of the index stands for, or how many entries there are.
    pub step: u8,
    /// How many bytes an item has (modulo 50); 0: the first byte of each says.
    pub width: u8,
    /// How many of the items are in the set, in 255ths. The others are strangers.
    pub members: u8,
    /// The items.
    pub bytes: &'a [u8],
}

/// What lies before the items in an input.
const HEADER: usize = 9;

/// What is asked, and what the answers are.
struct Questions<'t> {
    items: &'t [&'t [u8]],
    answers: Vec<bool>,
    values: Vec<u64>,
    /// For the values.
    found: Vec<bool>,
}

impl Case<'_> {
    /// Builds, asks, compares.
    ///
    /// | bits of `how` | |
    /// |---|---|
    /// | 0, 1 | the profile |
    /// | 2 | whether the step counts items or entries |
    /// | 3 | with more than a [`SMALL`] input: whether the bytes begin with a recipe |
    /// | 4, 5 | the level; 3: all |
    /// | 6, 7 | what is asked: the filter, the admitted filter, a borrowed index, an index that owns |
    ///
    /// # Panics
    ///
    /// Where an answer differs.
    pub fn check(&self) {
        let (k0, k1) = (u64::from(self.m), u64::from(self.p));
        match self.how & 3 {
            0 | 3 => self.check_with(Nut25, Profile::Nut25),
            1 => self.check_with(Nut23, Profile::Nut23),
            _ => self.check_with(SipHash::new(k0, k1), Profile::Bip158 { k0, k1 }),
        }
    }

    /// All items one after another, and the width of each where they have one.
    fn records(&self) -> (Cow<'_, [u8]>, usize) {
        let width = usize::from(self.width % 50);
        let long = self.how & 8 != 0 && self.bytes.len() + HEADER > SMALL;
        let Some((size, rest)) = self.bytes.split_first_chunk::<8>().filter(|_| long) else {
            return (Cow::Borrowed(self.bytes), width);
        };
        let width = if width == 0 { 33 } else { width };
        let mut records = rest[..rest.len() - rest.len() % width].to_vec();
        for hash in recipe::hashes(3, size, true, MOST_ITEMS) {
            // As wide as asked for, and equal where hashes are equal.
            let words = recipe::Noise(hash)
                .take(width.div_ceil(8))
                .flat_map(u64::to_le_bytes);
            records.extend(words.take(width));
        }
        (Cow::Owned(records), width)
    }

    fn check_with<H: ItemHash>(&self, hasher: H, profile: Profile) {
        // With M up to 2^(P + 5) a code is some tens of bits longer than P on average.
        let most = 1_u64 << (u32::from(self.p % 33) + 5).min(32);
        let params = params_from(self.p, (u64::from(self.m) % most) as u32);
        let (records, width) = self.records();
        let items = cut(&records, width);
        let members = (items.len() * usize::from(self.members)).div_ceil(255);
        let (set, strangers) = items.split_at(members);
        let targets: Vec<&[u8]> = strangers.iter().chain(set).copied().collect();

        let (n, p, m) = (set.len() as u64, params.p(), params.m());
        let bytes = nutfilter_reference::build(profile, set, p, m);
        let coded = nutfilter_reference::decode(&bytes, n, p, m).expect("it reads what it wrote");
        let range = params.range(set.len() as u32);
        let mut values: Vec<u64> = targets
            .iter()
            .map(|target| map_to_range(profile.hash(target), range))
            .collect();
        let is_in = |values: &[u64]| -> Vec<bool> {
            let found = |value| coded.binary_search(value).is_ok();
            values.iter().map(found).collect()
        };
        let answers = is_in(&values);
        values.extend(coded.iter().take(64).map(|value| value + 1));
        values.extend([0, range, u64::MAX]);
        let questions = Questions {
            items: &targets,
            answers,
            found: is_in(&values),
            values,
        };
        for level in levels(self.how >> 4 & 3) {
            let filter = SortedHashes::from_items_at(level, hasher.clone(), set)
                .encode(params)
                .expect("a small set");
            assert!(filter.bytes() == bytes, "{level}: {self:?}");
            self.ask(level, filter, params, &questions);
        }
    }

    fn ask<H: ItemHash>(
        &self,
        level: Level,
        filter: Filter<'static, H>,
        params: Params,
        questions: &Questions<'_>,
    ) {
        let context = &(level, self);
        let step = match self.how & 4 {
            0 => Step::Items(u32::from(self.step)),
            _ => Step::Entries(u32::from(self.step)),
        };
        match self.how >> 6 {
            0 => {
                questions.of_items(context, |items| filter.matches(items));
                questions.of_any(context, |items| filter.match_any(items));
                questions.of_each(context, |item| filter.contains(item));
                for strategy in STRATEGIES {
                    questions.of_values(context, |v| filter.matches_values_by(strategy, v));
                }
                let planned = filter.planned(questions.values.len());
                assert!(STRATEGIES[1..].contains(&planned), "{context:?}");
            }
            1 => {
                let hasher = filter.hasher().clone();
                let n = u64::from(filter.n());
                let admitted = Filter::admit_with(hasher, filter.bytes(), n, params)
                    .expect("a filter that was just made")
                    .with_level(level);
                let right = "a right filter";
                questions.of_items(context, |items| admitted.matches(items).expect(right));
                for strategy in STRATEGIES {
                    let ask = |v: &[u64]| admitted.matches_values_by(strategy, v).expect(right);
                    questions.of_values(context, ask);
                }
                // Asked with another hasher, and back.
                let other = filter.with_hasher(nutfilter::Unhashed);
                questions.of_values(context, |values| other.matches_values(values));
            }
            2 => {
                let index = SeekIndex::build(&filter, step);
                let indexed = filter.with_index(&index).expect("built for this filter");
                self.ask_indexed(context, &indexed, questions);
            }
            _ => self.ask_indexed(context, &filter.into_indexed(step), questions),
        }
    }

    fn ask_indexed<H: ItemHash>(
        &self,
        context: &impl Debug,
        indexed: &nutfilter::IndexedFilter<'_, H>,
        questions: &Questions<'_>,
    ) {
        questions.of_items(context, |items| indexed.matches(items));
        questions.of_any(context, |items| indexed.match_any(items));
        questions.of_each(context, |item| indexed.contains(item));
        for strategy in STRATEGIES {
            questions.of_values(context, |v| indexed.matches_values_by(strategy, v));
        }
        let planned = indexed.planned(questions.values.len());
        assert!(STRATEGIES[1..].contains(&planned), "{context:?}");
    }
}

impl Questions<'_> {
    fn of_items(&self, context: &impl Debug, ask: impl Fn(&[&[u8]]) -> Vec<bool>) {
        assert_eq!(ask(self.items), self.answers, "{context:?}");
    }

    fn of_values(&self, context: &impl Debug, ask: impl Fn(&[u64]) -> Vec<bool>) {
        assert_eq!(ask(&self.values), self.found, "{context:?}");
        // Few are looked for one after another.
        assert_eq!(ask(&self.values[..1]), self.found[..1], "{context:?}");
    }

    /// All, and those up to the first that is found and without it.
    fn of_any(&self, context: &impl Debug, ask: impl Fn(&[&[u8]]) -> bool) {
        let first = self.answers.iter().position(|&found| found);
        assert_eq!(ask(self.items), first.is_some(), "{context:?}");
        let before = &self.items[..first.unwrap_or(self.items.len())];
        assert!(!ask(before), "{context:?}");
    }

    /// Some, one by one: each may be a pass over the filter.
    fn of_each(&self, context: &impl Debug, ask: impl Fn(&[u8]) -> bool) {
        let apart = self.items.len() / 8 + 1;
        for (item, &answer) in self.items.iter().zip(&self.answers).step_by(apart) {
            assert_eq!(ask(item), answer, "{item:?}, {context:?}");
        }
    }
}

/// The largest set and its strangers together. Beyond it nothing else begins, and hashing takes its time.
const MOST_ITEMS: usize = 9_000;

/// The items that `records` are cut into; what is left is one item more.
fn cut(records: &[u8], width: usize) -> Vec<&[u8]> {
    if width > 0 {
        return records.chunks(width).collect();
    }
    let mut items = Vec::new();
    let mut rest = records;
    while let Some((&len, after)) = rest.split_first() {
        let (item, after) = after.split_at(after.len().min(usize::from(len % 64)));
        items.push(item);
        rest = after;
    }
    items
}
