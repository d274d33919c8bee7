//! Detects a filter that was made with a hash other than the one used for the look-up.
//!
//! A response does not name its hash. With the wrong hash, spent notes look absent, and nothing else looks wrong.
//! The matches themselves reveal it:
//!
//! - A filter has no false negatives under its own hash. An item that does not match by that hash is therefore not
//!   in the set, and by any other hash it matches only by chance, once in `M` look-ups.
//! - With the right hash, the number of items that match *only* by another hash is thus at most binomial, with `x`
//!   look-ups and rate `1/M`.
//! - This also holds for small filters, where `nut25` and `nut25-empty-tail` match almost the same items: below
//!   5,473 items the second half of the hash hardly matters. Items that match by both hashes are not counted.

use std::collections::HashSet;
use std::fmt;

use nutfilter::{Filter, ItemHash, Nut23, Nut25, map_to_range};
use nutfilter_cashu::Nut25EmptyTail;

use crate::match_limit::{FALSE_ALARM, ln_tail};

/// A finding with a lower probability than this is worth a warning.
const WARNING: f64 = 1e-4;

/// An item that tells hashes apart: each dialect gives it another value.
const PROBE: &[u8] = b"which hash is this?";

/// A hash that filters of Cashu mints have been made with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Dialect {
    /// The hash of NUT-25 ([`Nut25`]).
    Nut25,
    /// The hash of the NUT-23 text ([`Nut23`]).
    Nut23,
    /// NUT-25 with the second half of the hash taken over the empty string: a bug of an unmerged branch of CDK.
    /// Every other wallet gets false negatives from such a filter.
    Nut25EmptyTail,
}

/// Evidence that the filter was made with another hash.
#[derive(Clone, PartialEq, Debug)]
pub struct OtherDialect {
    /// The hash with more matches.
    pub dialect: Dialect,
    /// The hash of the look-up; `None` when it is not a known one.
    pub asked: Option<Dialect>,
    /// Number of distinct items that match by `dialect` but not by the hash of the look-up.
    pub only_by_dialect: u64,
    /// Number of distinct items that match by the hash of the look-up but not by `dialect`.
    pub only_by_asked: u64,
    /// Items that were looked up.
    pub lookups: u64,
    /// Upper bound (Chernoff) on the probability of that many chance matches; 0 when it is below 1e-308.
    pub chance: f64,
}

impl OtherDialect {
    /// Whether the answers must not be used: the probability is at most 1e-9, and more items match only by the other
    /// hash than only by the hash of the look-up.
    ///
    /// The second condition protects against senders who grind notes until they match by another hash, to make a
    /// wallet reject a good filter.
    #[must_use]
    pub fn is_certain(&self) -> bool {
        self.chance <= FALSE_ALARM && self.only_by_dialect > self.only_by_asked
    }
}

impl Dialect {
    const ALL: [Dialect; 3] = [Dialect::Nut25, Dialect::Nut23, Dialect::Nut25EmptyTail];

    /// The profile's name on the command line and in the output of `nutfilter inspect`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Dialect::Nut25 => "nut25",
            Dialect::Nut23 => "nut23",
            Dialect::Nut25EmptyTail => "nut25-empty-tail",
        }
    }

    fn of<H: ItemHash>(hasher: &H) -> Option<Self> {
        let hash = hasher.hash(PROBE);
        Self::ALL.into_iter().find(|dialect| dialect.hash(PROBE) == hash)
    }

    fn hash(self, item: &[u8]) -> u64 {
        let mut hash = [0];
        self.hash_items(&[item], &mut hash);
        hash[0]
    }

    fn hash_items(self, items: &[&[u8]], out: &mut [u64]) {
        match self {
            Dialect::Nut25 => Nut25.hash_items(items, out),
            Dialect::Nut23 => Nut23.hash_items(items, out),
            Dialect::Nut25EmptyTail => Nut25EmptyTail.hash_items(items, out),
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for OtherDialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asked = self.asked.map_or("the hash asked for", Dialect::as_str);
        let made = if self.is_certain() { "was made with" } else { "may have been made with" };
        write!(
            f,
            "filter {made} {}, not {asked}: {} of {} items match only by {}, {} only by {asked}; \
             probability of a coincidence below {:.1e}",
            self.dialect,
            self.only_by_dialect,
            self.lookups,
            self.dialect,
            self.only_by_asked,
            self.chance.max(1e-300),
        )
    }
}

/// Looks up the items by the other known hashes and returns the least likely finding, if its probability is at
/// most 1e-4. `matched` is the result of the look-up by the filter's own hasher.
///
/// # Cost
///
/// One more pass over the filter, for the items that did not match, by two or three hashes. One further pass only
/// after a finding.
///
/// # Examples
///
/// ```
/// use nutfilter::{Nut23, Nut25, Params, SortedHashes};
/// use nutfilter_wallet::{Dialect, other_dialect};
///
/// let items: Vec<[u8; 2]> = (0..1000_u16).map(u16::to_be_bytes).collect();
/// let filter = SortedHashes::builder(Nut23).hash_items(&items).encode(Params::CASHU)?;
/// let filter = filter.with_hasher(Nut25);
/// let found = other_dialect(&filter, &items, &filter.matches(&items));
/// assert!(found.is_some_and(|found| found.dialect == Dialect::Nut23 && found.is_certain()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn other_dialect<H: ItemHash, I: AsRef<[u8]>>(
    filter: &Filter<impl AsRef<[u8]>, H>,
    items: &[I],
    matched: &[bool],
) -> Option<OtherDialect> {
    let asked = Dialect::of(filter.hasher());
    let with = |wanted: bool| -> Vec<&[u8]> {
        let pairs = items.iter().zip(matched);
        pairs.filter(|&(_, &matched)| matched == wanted).map(|(item, _)| item.as_ref()).collect()
    };
    let unmatched = with(false);
    if unmatched.is_empty() || filter.n() == 0 {
        return None;
    }
    let others: Vec<Dialect> =
        Dialect::ALL.into_iter().filter(|&dialect| Some(dialect) != asked).collect();
    let found = look_up(filter, &others, &unmatched);
    let mean = unmatched.len() as f64 / filter.params().m() as f64;
    let finding = |(&dialect, found): (&Dialect, &[bool])| {
        let only_by_dialect = different(&unmatched, found, true);
        let chance = ln_tail(mean, only_by_dialect as f64).exp();
        (only_by_dialect > 0 && chance <= WARNING).then_some((dialect, only_by_dialect, chance))
    };
    let (dialect, only_by_dialect, chance) = others
        .iter()
        .zip(found.chunks(unmatched.len()))
        .filter_map(finding)
        .max_by_key(|&(_, only_by_dialect, _)| only_by_dialect)?;
    let matches = with(true);
    let found = look_up(filter, &[dialect], &matches);
    Some(OtherDialect {
        dialect,
        asked,
        only_by_dialect,
        only_by_asked: different(&matches, &found, false),
        lookups: items.len() as u64,
        chance,
    })
}

/// Whether each item matches by each hash, hash by hash, in one pass over the filter.
fn look_up<H>(
    filter: &Filter<impl AsRef<[u8]>, H>,
    dialects: &[Dialect],
    items: &[&[u8]],
) -> Vec<bool> {
    if items.is_empty() {
        return Vec::new();
    }
    let mut values = vec![0; dialects.len() * items.len()];
    for (dialect, hashes) in dialects.iter().zip(values.chunks_mut(items.len())) {
        dialect.hash_items(items, hashes);
    }
    for value in &mut values {
        *value = map_to_range(*value, filter.range());
    }
    filter.matches_values(&values)
}

/// The number of distinct items whose result is `wanted`.
fn different(items: &[&[u8]], results: &[bool], wanted: bool) -> u64 {
    let pairs = items.iter().zip(results);
    let different: HashSet<_> =
        pairs.filter(|&(_, &result)| result == wanted).map(|(item, _)| item).collect();
    different.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use nutfilter::{Params, SortedHashes};

    fn items(numbers: std::ops::Range<u32>) -> Vec<[u8; 4]> {
        numbers.map(u32::to_be_bytes).collect()
    }

    fn made<H: ItemHash + Default>(n: u32, params: Params) -> Filter<Vec<u8>, H> {
        let hashes = SortedHashes::builder(H::default()).hash_items(items(0..n));
        hashes.encode(params).expect("a filter")
    }

    fn test<H: ItemHash>(
        filter: &Filter<impl AsRef<[u8]>, H>,
        items: &[[u8; 4]],
    ) -> Option<OtherDialect> {
        other_dialect(filter, items, &filter.matches(items))
    }

    #[test]
    fn dialects_are_told_apart_pairwise() {
        let asked = items(0..500);
        let nut25 = made::<Nut25>(50_000, Params::CASHU);
        let nut23 = made::<Nut23>(50_000, Params::CASHU);
        let empty_tail = made::<Nut25EmptyTail>(50_000, Params::CASHU);
        for (found, dialect) in [
            (test(&nut25.with_hasher(Nut23), &asked), Dialect::Nut25),
            (test(&nut23.with_hasher(Nut25), &asked), Dialect::Nut23),
            (test(&empty_tail.with_hasher(Nut25), &asked), Dialect::Nut25EmptyTail),
            (
                test(&empty_tail.with_hasher(nutfilter::SipHash::new(1, 2)), &asked),
                Dialect::Nut25EmptyTail,
            ),
        ] {
            let found = found.expect("another dialect");
            assert!(found.is_certain(), "{found:?}");
            assert_eq!(found.dialect, dialect);
            assert!(found.only_by_dialect >= 400, "{found:?}");
            assert_eq!(found.only_by_asked, 0, "{found:?}");
        }
        for found in [test(&nut25, &asked), test(&nut23, &asked), test(&empty_tail, &asked)] {
            assert_eq!(found, None);
        }
    }

    #[test]
    fn false_positive_rate_of_1_in_64_raises_no_alarm() {
        // Each other dialect matches about 1,500 of the 100,000 absent items.
        let filter = made::<Nut25>(10_000, Params::new(6, 64).expect("good parameters"));
        assert_eq!(test(&filter, &items(0..110_000)), None);
    }

    #[test]
    fn repeated_chance_match_raises_no_alarm() {
        let filter = made::<Nut23>(1, Params::CASHU);
        let repeated = [0_u32.to_be_bytes(); 1000];
        let found = other_dialect(&filter.with_hasher(Nut25), &repeated, &[false; 1000]);
        assert_eq!(found, None);
    }

    #[test]
    fn one_match_in_few_items_warns_and_more_are_certain() {
        let filter = made::<Nut23>(10, Params::CASHU);
        let filter = filter.with_hasher(Nut25);
        // For two items, two matches are enough: the probability is below 1e-11.
        for (asked, certain) in [(0..1, false), (9..30, false), (0..2, true), (6..1_000, true)] {
            let found = test(&filter, &items(asked.clone())).expect("a finding");
            assert_eq!(found.is_certain(), certain, "{asked:?}: {found:?}");
        }
        // One match in 1,000 look-ups occurs by chance in one of about 800 such checks.
        assert_eq!(test(&filter, &items(9..1_009)), None);
    }

    #[test]
    fn more_matches_by_the_look_up_hash_only_warn() {
        let value = |hash| map_to_range(hash, Params::CASHU.m() * 110);
        let by_asked = items(0..100).into_iter().map(|item| Nut25.hash(&item));
        let by_other = items(100..110).into_iter().map(|item| Nut23.hash(&item));
        let mut values: Vec<_> = by_asked.chain(by_other).map(value).collect();
        values.sort_unstable();
        let filter = Filter::from_values(&values, Params::CASHU).expect("a filter");
        let found = test(&filter.with_hasher(Nut25), &items(0..200)).expect("a finding");
        assert!(found.chance < 1e-9 && !found.is_certain(), "{found:?}");
        assert_eq!((found.only_by_dialect, found.only_by_asked), (10, 100));
        assert!(found.to_string().contains("may have been made with nut23"));
    }
}
