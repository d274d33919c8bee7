//! Any set and any targets: every way to look up targets gives the reference's answers.

use std::borrow::Cow;

use arbitrary::Arbitrary;
use nutfilter::internals::{SimdLevel, Strategy};
use nutfilter::{AnyHash, Filter, IndexInterval, RawValues, SipHash, SortedHashes};
use nutfilter_reference::{Noise, Profile};

use crate::cost::{Budget, within};
use crate::recipe::{self, SMALL};
use crate::{STRATEGIES, levels, params_from};

/// A set, targets, and how to hash, encode and index.
///
/// A fuzzer's input is 10 bytes, followed by the items.
#[derive(Arbitrary, Clone, Debug)]
pub struct Case<'a> {
    /// Selects the checks: see [`Case::check`].
    pub how: u8,
    /// P, brought into range by [`params_from`].
    pub p: u8,
    /// M, also brought into range, and small enough that codes are short.
    pub m: u32,
    /// The number of items per entry of the index, or the number of entries.
    pub step: u8,
    /// The length of an item in bytes (modulo 50); 0: the first byte of each item is its length.
    pub width: u8,
    /// The fraction of the items that are in the set, in 255ths. The others are non-members.
    pub members: u8,
    /// The strategy for values: see [`Case::check`].
    pub ask: u8,
    /// The items.
    pub bytes: &'a [u8],
}

/// Bytes before the items in an input.
const HEADER: usize = 10;

/// The targets and the expected answers.
struct Questions<'t> {
    items: &'t [&'t [u8]],
    answers: Vec<bool>,
    values: Vec<u64>,
    /// The expected answers for the values.
    found: Vec<bool>,
}

/// Asks a filter, with its index or without: both have methods of the same names. Each batch must stay within the limit for its
/// size.
macro_rules! ask {
    ($questions:ident, $context:ident, $strategies:ident, $filter:expr, $budget:expr) => {{
        let (filter, budget) = ($filter, $budget);
        let Questions { items, answers, values, found: expected } = $questions;
        assert_eq!(filter.matches(items), *answers, "{:?}", $context);
        let first = answers.iter().position(|&found| found);
        assert_eq!(filter.match_any(items), first.is_some(), "{:?}", $context);
        let before = &items[..first.unwrap_or(items.len())];
        assert!(!filter.match_any(before), "{:?}", $context);
        // Each of these look-ups may read the whole filter.
        let apart = items.len() / 8 + 1;
        for (item, &answer) in items.iter().zip(answers).step_by(apart) {
            assert_eq!(filter.contains(item), answer, "{item:?}, {:?}", $context);
        }
        for &strategy in $strategies {
            let by = |values: &[u64]| filter.matches_values_by(strategy, values);
            let allowed = budget.allowed(values.len());
            let found = within(allowed, &(strategy, $context), || by(values));
            assert_eq!(found, *expected, "{strategy:?}, {:?}", $context);
            assert_eq!(by(&values[..1]), expected[..1], "{strategy:?}, {:?}", $context);
        }
        assert!(STRATEGIES[1..].contains(&filter.planned(values.len())), "{:?}", $context);
    }};
}

impl Case<'_> {
    /// Builds a filter, looks up targets in every way, and compares the answers.
    ///
    /// | bits of `how` | |
    /// |---|---|
    /// | 0, 1 | the profile |
    /// | 2 | whether the step counts items or entries |
    /// | 3 | in an input that is not [`SMALL`]: whether the bytes begin with a recipe |
    /// | 4, 5 | the level; 3: all levels, in an input that is not [`SMALL`] |
    /// | 6, 7 | the subject: the filter, the unvalidated filter, a borrowed index, an owned index |
    ///
    /// `ask` modulo 8 selects the strategy for values (modulo 4); 7: all of them, in an input that is not [`SMALL`].
    pub fn check(&self) {
        let (k0, k1) = (u64::from(self.m), u64::from(self.p));
        match self.how & 3 {
            0 | 3 => self.check_with(AnyHash::Nut25, Profile::Nut25),
            1 => self.check_with(AnyHash::Nut23, Profile::Nut23),
            _ => self.check_with(AnyHash::Sip(SipHash::new(k0, k1)), Profile::Bip158 { k0, k1 }),
        }
    }

    fn is_large(&self) -> bool {
        self.bytes.len() + HEADER > SMALL
    }

    /// All items one after another, and the width of each if they have one.
    fn records(&self) -> (Cow<'_, [u8]>, usize) {
        let width = usize::from(self.width % 50);
        let long = self.how & 8 != 0 && self.is_large();
        let Some((size, rest)) = self.bytes.split_first_chunk::<8>().filter(|_| long) else {
            return (Cow::Borrowed(self.bytes), width);
        };
        let width = if width == 0 { 33 } else { width };
        let mut records = rest[..rest.len() - rest.len() % width].to_vec();
        for hash in recipe::hashes(3, size, true, MOST_ITEMS) {
            // As wide as requested, and equal for equal hashes.
            let words = Noise(hash).take(width.div_ceil(8)).flat_map(u64::to_le_bytes);
            records.extend(words.take(width));
        }
        (Cow::Owned(records), width)
    }

    // With the hash as a value, generic code is compiled once instead of three times: a fuzzer's work per input grows with the
    // amount of code.
    fn check_with(&self, hasher: AnyHash, profile: Profile) {
        // With M up to 2^(P + 5), a code is on average some tens of bits longer than P.
        let most = 1_u64 << (u32::from(self.p % 33) + 5).min(32);
        let params = params_from(self.p, (u64::from(self.m) % most) as u32);
        let (records, width) = self.records();
        let items = cut(&records, width);
        let members = (items.len() * usize::from(self.members)).div_ceil(255);
        let (set, non_members) = items.split_at(members);
        let targets: Vec<&[u8]> = non_members.iter().chain(set).copied().collect();

        let coded = nutfilter_reference::mapped_values(profile, set, params.m());
        let bytes = nutfilter_reference::encode_values(&coded, params.p());
        let range = params.range(set.len() as u32);
        let mut values: Vec<u64> = targets
            .iter()
            .map(|target| nutfilter_reference::map(profile.hash(target), range))
            .collect();
        let is_in = |values: &[u64]| -> Vec<bool> {
            let found = |value| coded.binary_search(value).is_ok();
            values.iter().map(found).collect()
        };
        let answers = is_in(&values);
        values.extend(coded.iter().take(64).map(|value| value + 1));
        values.extend([0, range, u64::MAX]);
        let questions = Questions { items: &targets, answers, found: is_in(&values), values };
        let strategies = match usize::from(self.ask % 8) {
            7 if self.is_large() => &STRATEGIES[..],
            way => &STRATEGIES[way % 4..][..1],
        };
        for level in levels(self.how >> 4 & 3, self.is_large()) {
            let filter = SortedHashes::builder(hasher)
                .with_level(level)
                .hash_items(set)
                .encode(params)
                .expect("a small set");
            assert!(filter.bytes() == bytes, "{level}: {self:?}");
            self.ask(level, filter, strategies, &questions);
        }
    }

    fn ask(
        &self,
        level: SimdLevel,
        filter: Filter<Vec<u8>, AnyHash>,
        strategies: &[Strategy],
        questions: &Questions<'_>,
    ) {
        let context = &(level, self);
        let step = match self.how & 4 {
            0 => IndexInterval::Items(u32::from(self.step)),
            _ => IndexInterval::Entries(u32::from(self.step)),
        };
        match self.how >> 6 {
            0 => ask!(questions, context, strategies, &filter, Budget::of(&filter)),
            1 => {
                let hasher = *filter.hasher();
                let n = u64::from(filter.n());
                let admitted =
                    Filter::check_length_with(hasher, filter.bytes(), n, filter.params())
                        .expect("a filter that was just made")
                        .with_level(level);
                let answers = admitted.matches(questions.items);
                assert_eq!(answers.as_ref(), Ok(&questions.answers), "{context:?}");
                for &strategy in strategies {
                    for asked in [1, questions.values.len()] {
                        let found =
                            admitted.matches_values_by(strategy, &questions.values[..asked]);
                        assert_eq!(
                            found.as_deref(),
                            Ok(&questions.found[..asked]),
                            "{strategy:?}, {context:?}"
                        );
                    }
                }
                let other = filter.with_hasher(RawValues);
                let found = other.matches_values(&questions.values);
                assert_eq!(found, questions.found, "{context:?}");
            }
            2 => {
                let borrowed = filter.with_hasher(*filter.hasher());
                let indexed = borrowed.into_indexed(step);
                ask!(questions, context, strategies, &indexed, Budget::of_indexed(&indexed));
            }
            _ => {
                let budget = Budget::of(&filter);
                let indexed = within(budget.allowed(0), context, || filter.into_indexed(step));
                ask!(questions, context, strategies, &indexed, Budget::of_indexed(&indexed));
            }
        }
    }
}

/// The maximum number of members and non-members together. No other code path begins above it, and hashing takes
/// time.
const MOST_ITEMS: usize = 9_000;

/// Splits `records` into items; the rest is one more item.
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
