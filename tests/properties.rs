//! What holds for every set, by random example.

use nutfilter::{Filter, IndexInterval, ItemHash, Nut25, Params, SortedHashes, map_to_range};
use proptest::collection::vec;
use proptest::prelude::*;

/// Parameters whose codes are not unreasonably long: M up to 2^(P + 6).
fn params() -> impl Strategy<Value = Params> {
    (0..=32_u32).prop_flat_map(|p| {
        let most = (1_u64 << (p + 6)).min(u64::from(u32::MAX));
        (Just(p), 1..=most).prop_map(|(p, m)| Params::new(p, m).expect("within the limits"))
    })
}

fn items() -> impl Strategy<Value = Vec<Vec<u8>>> {
    vec(vec(any::<u8>(), 0..70), 0..300)
}

/// Uniform hashes, and ones that somebody ground.
fn hashes() -> impl Strategy<Value = Vec<u64>> {
    prop_oneof![
        vec(any::<u64>(), 0..500),
        vec(0..1000_u64, 0..500),
        (any::<u64>(), 0..500_usize).prop_map(|(hash, n)| vec![hash; n]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn decoding_returns_the_encoded_values(hashes in hashes(), params in params()) {
        let filter = SortedHashes::from_hashes(hashes.clone()).encode(params).unwrap();
        let read = Filter::parse(filter.bytes(), hashes.len() as u64, params);
        prop_assert!(read.is_ok_and(|read| read == filter));

        let range = params.range(filter.n());
        let mut values: Vec<u64> = hashes.iter().map(|&hash| map_to_range(hash, range)).collect();
        values.sort_unstable();
        prop_assert!(filter.values().eq(values));
    }

    #[test]
    fn members_always_match(items in items(), params in params(), step in 0..400_u32) {
        let filter = SortedHashes::from_items(&items).encode(params).unwrap();
        prop_assert!(filter.matches(&items).into_iter().all(|found| found));
        let indexed = filter.clone().into_indexed(IndexInterval::Items(step));
        prop_assert!(items.iter().all(|item| indexed.contains(item) && filter.contains(item)));
        prop_assert_eq!(filter.match_any(&items), !items.is_empty());
        let resident = filter.to_resident();
        prop_assert_eq!(resident.is_ok(), params.m() <= 1 << 20);
        if let Ok(resident) = resident {
            prop_assert!(items.iter().all(|item| resident.contains(item)));
            let others = [&b"other"[..], b"and others"];
            prop_assert_eq!(resident.matches(&others), filter.matches(&others));
        }
    }
}

#[test]
fn non_members_match_at_the_promised_rate() {
    // With M = 64 and 2^20 non-members 16,384 false positives are expected; 5 sigma are 635.
    for (p, m) in [(6, 64), (5, 47), (8, 300)] {
        let params = Params::new(p, m).unwrap();
        let member = |i: u64| (2 * i).to_le_bytes();
        let non_member = |i: u64| (2 * i + 1).to_le_bytes();
        let filter = SortedHashes::from_items((0..100_000).map(member))
            .encode(params)
            .unwrap();
        let tries = 1 << 20;
        let targets: Vec<_> = (0..tries).map(non_member).collect();
        let found = filter
            .matches(&targets)
            .into_iter()
            .filter(|&found| found)
            .count() as f64;
        // The set covers a little less than one in M: some of its values are equal.
        let mut values: Vec<u64> = filter.values().collect();
        values.dedup();
        let rate = values.len() as f64 / filter.range() as f64;
        assert!(rate <= params.false_positive_rate());
        let (mean, sigma) = (
            tries as f64 * rate,
            (tries as f64 * rate * (1.0 - rate)).sqrt(),
        );
        assert!(
            (found - mean).abs() < 5.0 * sigma,
            "M = {m}: {found} of {mean} +- {sigma}"
        );
    }
}

#[test]
fn filter_sizes_match_the_estimate() {
    for (p, m) in [(19, 784_931), (10, 1024), (6, 64), (0, 1), (3, 100)] {
        let params = Params::new(p, m).unwrap();
        let n = 200_000_u32;
        let set = SortedHashes::from_hashes((0..n).map(|i| Nut25.hash(&i.to_le_bytes())).collect());
        let bits = set.encode(params).unwrap().bytes().len() as f64 * 8.0;
        let mean = f64::from(n) * params.bits_per_item();
        // A quotient's spread is about its mean + 1/2; five of those over the root of n.
        let spread = params.bits_per_item() - f64::from(p) - 0.5;
        let sigma = spread * f64::from(n).sqrt();
        assert!(
            (bits - mean).abs() < 5.0 * sigma + 8.0,
            "({p}, {m}): {bits}, {mean} +- {sigma}"
        );
    }
}
