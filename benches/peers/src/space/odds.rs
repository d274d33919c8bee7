//! Expected false-positive rates, and how far a measurement may deviate by chance.

/// The false-positive rate of a structure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Odds {
    /// The mean over all structures of its kind.
    pub(crate) rate: f64,
    /// Standard deviation between structures of this kind: by chance their items mark more or fewer cells.
    pub(crate) deviation: f64,
}

impl Odds {
    /// A rate that is the same for every structure of its kind.
    pub(crate) const fn fixed(rate: f64) -> Self {
        let deviation = 0.0;
        Self { rate, deviation }
    }

    /// Each of `n` items marks `k` of `cells`; a non-member matches if its `k` cells are all marked. This is a Bloom
    /// filter, and with k = 1 a set of mapped values.
    ///
    /// The share of cells that stay empty is `(1 - 1/cells)^(nk)`, and its variance `e^(-2l) (e^l - 1 - l) / cells` with
    /// `l = nk/cells` (W. Feller, An Introduction to Probability Theory and Its Applications I, on occupancy).
    pub(crate) fn of_cells(n: u64, k: u32, cells: u64) -> Self {
        let (marks, cells) = (n as f64 * f64::from(k), cells as f64);
        let marked = -f64::exp_m1(marks * f64::ln_1p(-1.0 / cells));
        let load = marks / cells;
        let variance = (f64::exp_m1(load) - load).max(0.0) * f64::exp(-2.0 * load) / cells;
        let k = f64::from(k);
        Self {
            rate: marked.powf(k),
            deviation: k * marked.powf(k - 1.0) * variance.sqrt(),
        }
    }

    /// Whether this number of false positives among `asked` look-ups is within six standard deviations. Three more are
    /// allowed, for rates at which hardly one is expected.
    pub(crate) fn allow(self, asked: u64, found: u64) -> bool {
        let asked = asked as f64;
        let (mean, luck) = (asked * self.rate, asked * self.deviation);
        let deviation = (mean * (1.0 - self.rate) + luck * luck).sqrt();
        let off = found as f64 - mean;
        -6.0 * deviation <= off && off <= 6.0 * deviation + 3.0
    }
}

/// The smallest Bloom filter of this rate: bits per item, and k.
pub(crate) fn smallest_bloom(rate: f64) -> (f64, u32) {
    let of = |k: u32| {
        let k = f64::from(k);
        -k / f64::ln_1p(-rate.powf(1.0 / k))
    };
    let sizes = (1..=64).map(|k| (of(k), k));
    sizes
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .expect("there are some")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of cells that `n` random marks cover.
    fn marked(n: u64, cells: u64, state: &mut u64) -> f64 {
        let mut seen = 0_u64;
        for _ in 0..n {
            *state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            seen |= 1 << ((*state >> 33) % cells);
        }
        f64::from(seen.count_ones()) / cells as f64
    }

    #[test]
    fn the_mean_and_the_deviation_are_those_of_many_trials() {
        let (n, cells, trials) = (30, 50, 20_000);
        let mut state = 7;
        let shares: Vec<f64> = (0..trials).map(|_| marked(n, cells, &mut state)).collect();
        let mean = shares.iter().sum::<f64>() / f64::from(trials);
        let squares = shares.iter().map(|share| (share - mean).powi(2));
        let deviation = (squares.sum::<f64>() / f64::from(trials)).sqrt();
        let odds = Odds::of_cells(n, 1, cells);
        assert!((odds.rate - mean).abs() < 0.002, "{odds:?} {mean}");
        // The formula is for many cells.
        assert!(
            (odds.deviation / deviation - 1.0).abs() < 0.05,
            "{odds:?} {deviation}"
        );
    }

    #[test]
    fn sets_of_mapped_values_are_wrong_a_little_less_often_than_one_in_m() {
        for (m, expected) in [
            (1, 0.632_120_56),
            (4, 0.221_199_22),
            (784_931, 1.273_996_520e-6),
        ] {
            let rate = Odds::of_cells(1_000_000, 1, 1_000_000 * m).rate;
            assert!((rate / expected - 1.0).abs() < 1e-5, "{m}: {rate}");
        }
    }

    #[test]
    fn what_is_beyond_six_deviations_is_refused_on_either_side() {
        let odds = Odds::fixed(0.1);
        // The standard deviation of 10,000 look-ups is 30.
        for (found, allowed) in [
            (819, false),
            (821, true),
            (1_000, true),
            (1_182, true),
            (1_184, false),
        ] {
            assert_eq!(odds.allow(10_000, found), allowed, "{found}");
        }
        let lucky = Odds {
            rate: 0.1,
            deviation: 0.01,
        };
        assert!(lucky.allow(10_000, 700) && !lucky.allow(10_000, 350));
        assert!(Odds::fixed(1e-10).allow(1_000_000, 3) && !Odds::fixed(1e-10).allow(1_000_000, 4));
    }

    #[test]
    fn the_smallest_bloom_filter_of_one_in_a_thousand_takes_ten_probes() {
        let (bits, k) = smallest_bloom(0.001);
        assert_eq!(k, 10);
        assert!((bits - 14.378).abs() < 0.001, "{bits}");

        assert_eq!(smallest_bloom(0.5).1, 1);
    }
}
