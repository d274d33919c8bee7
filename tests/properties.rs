//! Rates and sizes are those that the formulas promise.

use nutfilter::{ItemHash, Nut25, Params, SortedHashes};

#[test]
fn non_members_match_at_the_promised_rate() {
    // With M = 64 and 2^20 non-members 16,384 false positives are expected; 5 sigma are 635.
    for (p, m) in [(6, 64), (5, 47), (8, 300)] {
        let params = Params::new(p, m).unwrap();
        let member = |i: u64| (2 * i).to_le_bytes();
        let non_member = |i: u64| (2 * i + 1).to_le_bytes();
        let filter = SortedHashes::from_items((0..100_000).map(member)).encode(params).unwrap();
        let tries = 1 << 20;
        let targets: Vec<_> = (0..tries).map(non_member).collect();
        let found = filter.matches(&targets).into_iter().filter(|&found| found).count() as f64;
        // The set covers a little less than one in M: some of its values are equal.
        let mut values: Vec<u64> = filter.values().collect();
        values.dedup();
        let rate = values.len() as f64 / filter.range() as f64;
        assert!(rate <= params.false_positive_rate());
        let (mean, sigma) = (tries as f64 * rate, (tries as f64 * rate * (1.0 - rate)).sqrt());
        assert!((found - mean).abs() < 5.0 * sigma, "M = {m}: {found} of {mean} +- {sigma}");
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
        assert!((bits - mean).abs() < 5.0 * sigma + 8.0, "({p}, {m}): {bits}, {mean} +- {sigma}");
    }
}
