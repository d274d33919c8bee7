//! What structures take and how often they are wrong, measured: nothing here is a time.

mod odds;
mod structures;

use nutfilter::Params;
use nutfilter_benchmarks::fixture::SEED;
use nutfilter_benchmarks::record::Space;
use nutfilter_harness::vectors::generate_items;

use crate::peers::fastmurmur3;

pub(crate) use odds::{Odds, smallest_bloom};
pub(crate) use structures::Structure;
use structures::{binary_fuses, bloom, elias_fano, gcs};

/// Remainder bits of the filters, each with the M that suits it best.
const P: std::ops::RangeInclusive<u32> = 3..=24;

/// 2^P by the M that is best for it, as BIP158 has it (docs/decisions/0001).
const BEST_M: f64 = 1.497_137;

/// About where a Bloom filter of the same rate becomes the smaller one: a filter of each M, and a Bloom filter of its
/// rate.
const CROSSING: [u64; 5] = [2, 4, 8, 10, 16];

/// Of an Elias-Fano list.
const LISTED_P: [u32; 7] = [3, 4, 8, 12, 16, 20, 24];

/// Inverse rates of Bloom filters, each with its best k.
const BLOOM: [u32; 6] = [10, 100, 1_000, 10_000, 100_000, 1_000_000];

/// Bloom filters of ten bits an item; the best k is 7.
const TEN_BITS: [u32; 4] = [1, 3, 7, 14];

/// Strangers are asked until so many false positives are to be expected, or there are no more of them.
const ENOUGH: f64 = 20_000.0;

/// Strangers that are made at a time.
const BATCH: u64 = 100_000;

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Items in the sets.
    pub(crate) n: u64,
    /// Strangers at most.
    pub(crate) strangers: u64,
}

/// The hashes of a set's items, and of items that are not in it.
struct Hashes {
    members: Vec<u64>,
    strangers: Vec<u64>,
}

impl Hashes {
    fn new(extent: Extent) -> Self {
        let hashes = |count, seed| {
            let items = generate_items(count, seed);
            items.iter().map(fastmurmur3).collect::<Vec<u64>>()
        };
        // No two batches, nor the set, have a seed in common.
        let batches = (0..extent.strangers.div_ceil(BATCH)).map(|batch| SEED + 1_000 + batch);
        Self {
            members: hashes(extent.n, SEED),
            strangers: batches.flat_map(|seed| hashes(BATCH, seed)).collect(),
        }
    }

    /// Asks for every member, which must all be there, and for enough strangers; how many of these the structure takes
    /// for members must be what its odds say.
    fn ask(&self, structure: &Structure) -> Space {
        let Structure {
            kind,
            parameters,
            odds,
            ..
        } = structure;
        let n = self.members.len() as u64;
        let members = (structure.found)(&self.members);
        assert_eq!(members, n, "{kind}, {parameters}: members are missing");
        let wanted = (ENOUGH / odds.rate).min(self.strangers.len() as f64) as usize;
        let batches = self.strangers[..wanted].chunks(1_000_000);
        let found = batches.map(|batch| (structure.found)(batch)).sum();
        let asked = wanted as u64;
        assert!(
            odds.allow(asked, found),
            "{kind}, {parameters}: {found} false positives among {asked}, by {odds:?}"
        );
        Space {
            structure: (*kind).to_owned(),
            parameters: parameters.clone(),
            role: None,
            n,
            bits_per_item: structure.bits as f64 / n as f64,
            designed_rate: odds.rate,
            asked,
            false_positives: found,
        }
    }
}

/// M of the filters with so many remainder bits.
fn best_m(p: u32) -> u64 {
    (BEST_M * f64::from(1 << p)).round() as u64
}

/// Builds every structure over the same set, and says what came of it as it goes.
pub(crate) fn measure(extent: Extent) -> Vec<Space> {
    let hashes = Hashes::new(extent);
    let members = hashes.members.as_slice();
    let params = |p, m| Params::new(p, m).expect("within the limits");
    let mut measured = Vec::new();
    let mut ask = |structure: Structure| {
        let space = hashes.ask(&structure);
        say(&space);
        measured.push(space);
    };
    for m in CROSSING {
        let filter = gcs(members, Params::with_best_p(m).expect("within the limits"));
        let rate = filter.odds.rate;
        ask(filter);
        let (bits, k) = smallest_bloom(rate);
        ask(bloom(members, bits * members.len() as f64, k));
    }
    for p in P {
        ask(gcs(members, params(p, best_m(p))));
    }
    for p in LISTED_P {
        ask(elias_fano(members, params(p, best_m(p))));
    }
    for inverse in BLOOM {
        let (bits, k) = smallest_bloom(1.0 / f64::from(inverse));
        ask(bloom(members, bits * members.len() as f64, k));
    }
    for k in TEN_BITS {
        ask(bloom(members, 10.0 * members.len() as f64, k));
    }
    binary_fuses(members).into_iter().for_each(&mut ask);
    measured
}

/// On stderr, as rows are.
pub(crate) fn say(space: &Space) {
    eprintln!(
        "{:>9.4} bits/item {:>9} of {:>9} (designed {:.3e}) {} {} {}",
        space.bits_per_item,
        space.false_positives,
        space.asked,
        space.designed_rate,
        space.structure,
        space.parameters,
        space.role.as_deref().unwrap_or_default(),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes() -> Hashes {
        let (n, strangers) = (5_000, 100_000);
        Hashes::new(Extent { n, strangers })
    }

    #[test]
    fn every_structure_is_as_often_wrong_as_it_ought_to_be() {
        let (n, strangers) = (5_000, 100_000);
        let measured = measure(Extent { n, strangers });
        let kinds: std::collections::BTreeSet<&str> = measured
            .iter()
            .map(|space| space.structure.as_str())
            .collect();
        assert_eq!(kinds.len(), 6, "{kinds:?}");
        assert!(
            measured
                .iter()
                .all(|space| 0 < space.asked && space.asked <= strangers)
        );
        // A filter of a structure is larger the less often it is wrong.
        let filters = measured
            .iter()
            .filter(|space| space.structure == "gcs")
            .skip(CROSSING.len());
        let sizes: Vec<f64> = filters.map(|space| space.bits_per_item).collect();
        assert!(sizes.len() == 22 && sizes.is_sorted(), "{sizes:?}");
    }

    #[test]
    fn bloom_takes_less_than_a_filter_of_the_same_rate_above_one_in_ten_and_more_below() {
        let measured = measure(Extent {
            n: 20_000,
            strangers: 100_000,
        });
        let bits: Vec<f64> = measured.iter().map(|space| space.bits_per_item).collect();
        for (i, m) in CROSSING.into_iter().enumerate() {
            assert_eq!(bits[2 * i + 1] < bits[2 * i], m < 10, "M = {m}");
        }
    }

    #[test]
    #[should_panic(expected = "members are missing")]
    fn a_structure_without_some_of_its_members_stops_the_run() {
        let hashes = hashes();
        let mut filter = gcs(&hashes.members, Params::CASHU);
        filter.found = Box::new(|hashes| hashes.len() as u64 - 1);
        hashes.ask(&filter);
    }

    #[test]
    #[should_panic(expected = "false positives among")]
    fn a_structure_that_is_wrong_more_often_stops_the_run() {
        let hashes = hashes();
        let mut filter = bloom(&hashes.members, 50_000.0, 7);
        filter.odds = Odds::fixed(filter.odds.rate / 1.5);
        hashes.ask(&filter);
    }
}
