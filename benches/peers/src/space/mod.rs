//! Measures sizes and false-positive rates of structures. Nothing here is a time.

mod odds;
mod structures;

use nutfilter::Params;
use nutfilter_benchmarks::fixture::SEED;
use nutfilter_benchmarks::record::Space;
use nutfilter_harness::vectors::generate_items;

use crate::peers::fastmurmur3;

use odds::smallest_bloom;
use structures::{Structure, binary_fuses, bloom, elias_fano, gcs, vfilter};

/// P of the filters, each with its best M.
const P: std::ops::RangeInclusive<u32> = 3..=24;

/// The best M divided by 2^P, as in BIP158 (docs/decisions/0001).
const BEST_M: f64 = 1.497_137;

/// M around which a Bloom filter of the same rate becomes smaller: a filter of each M, and a Bloom filter of its rate.
const CROSSING: [u64; 5] = [2, 4, 8, 10, 16];

/// P of the Elias-Fano lists.
const LISTED_P: [u32; 7] = [3, 4, 8, 12, 16, 20, 24];

/// Inverse rates of the Bloom filters, each with its best k.
const BLOOM: [u32; 6] = [10, 100, 1_000, 10_000, 100_000, 1_000_000];

/// Bloom filters of ten bits an item; the best k is 7.
const TEN_BITS: [u32; 4] = [1, 3, 7, 14];

/// Look up as many non-members as give this many expected false positives.
const ENOUGH: f64 = 20_000.0;

/// Non-members per batch.
const BATCH: u64 = 100_000;

/// How much to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Items in the sets.
    pub(crate) n: u64,
    /// Most non-members.
    pub(crate) non_members: u64,
}

/// Hashes of members and of non-members.
struct Hashes {
    members: Vec<u64>,
    non_members: Vec<u64>,
}

impl Hashes {
    fn new(extent: Extent) -> Self {
        let hashes = |count, seed| {
            let items = generate_items(count, seed);
            items.iter().map(fastmurmur3).collect::<Vec<u64>>()
        };
        // A different seed per batch and for the set.
        let batches = (0..extent.non_members.div_ceil(BATCH)).map(|batch| SEED + 1_000 + batch);
        Self {
            members: hashes(extent.n, SEED),
            non_members: batches.flat_map(|seed| hashes(BATCH, seed)).collect(),
        }
    }

    /// Looks up every member, which must be present, and enough non-members. The number of false positives must agree
    /// with the structure's odds.
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
        let wanted = (ENOUGH / odds.rate).min(self.non_members.len() as f64) as usize;
        let batches = self.non_members[..wanted].chunks(1_000_000);
        let found = batches.map(|batch| (structure.found)(batch)).sum();
        let asked = wanted as u64;
        assert!(
            odds.allow(asked, found),
            "{kind}, {parameters}: {found} false positives among {asked}, by {odds:?}"
        );
        Space {
            structure: (*kind).to_owned(),
            parameters: parameters.clone(),
            n,
            bits_per_item: structure.bits as f64 / n as f64,
            designed_rate: odds.rate,
            asked,
            false_positives: found,
        }
    }
}

/// The best M for P.
fn best_m(p: u32) -> u64 {
    (BEST_M * f64::from(1 << p)).round() as u64
}

/// Builds and measures every structure over the same set, and prints the results.
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
    ask(vfilter(members));
    measured
}

/// Prints a result to standard error.
fn say(space: &Space) {
    eprintln!(
        "{:>9.4} bits/item {:>9} of {:>9} (designed {:.3e}) {} {}",
        space.bits_per_item,
        space.false_positives,
        space.asked,
        space.designed_rate,
        space.structure,
        space.parameters,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes() -> Hashes {
        let (n, non_members) = (5_000, 100_000);
        Hashes::new(Extent { n, non_members })
    }

    #[test]
    fn every_structure_has_its_expected_rate() {
        let (n, non_members) = (5_000, 100_000);
        let measured = measure(Extent { n, non_members });
        let kinds: std::collections::BTreeSet<&str> = measured
            .iter()
            .map(|space| space.structure.as_str())
            .collect();
        assert_eq!(kinds.len(), 7, "{kinds:?}");
        assert!(
            measured
                .iter()
                .all(|space| 0 < space.asked && space.asked <= non_members)
        );
        // Lower rates need more bits.
        let filters = measured
            .iter()
            .filter(|space| space.structure == "gcs")
            .skip(CROSSING.len());
        let sizes: Vec<f64> = filters.map(|space| space.bits_per_item).collect();
        assert!(sizes.len() == 22 && sizes.is_sorted(), "{sizes:?}");
    }

    #[test]
    fn bloom_is_smaller_only_at_rates_above_one_in_ten() {
        let measured = measure(Extent {
            n: 20_000,
            non_members: 100_000,
        });
        let bits: Vec<f64> = measured.iter().map(|space| space.bits_per_item).collect();
        for (i, m) in CROSSING.into_iter().enumerate() {
            assert_eq!(bits[2 * i + 1] < bits[2 * i], m < 10, "M = {m}");
        }
    }

    #[test]
    #[should_panic(expected = "members are missing")]
    fn a_structure_that_loses_members_panics() {
        let hashes = hashes();
        let mut filter = gcs(&hashes.members, Params::CASHU);
        filter.found = Box::new(|hashes| hashes.len() as u64 - 1);
        hashes.ask(&filter);
    }

    #[test]
    #[should_panic(expected = "false positives among")]
    fn a_structure_with_too_many_false_positives_panics() {
        let hashes = hashes();
        let mut filter = bloom(&hashes.members, 50_000.0, 7);
        filter.odds = odds::Odds::fixed(filter.odds.rate / 1.5);
        hashes.ask(&filter);
    }
}
