//! The limit on the number of matches.
//!
//! With a filter at `M`, one look-up in `M` matches by chance. A mint that wants to learn which `Y`s a wallet
//! holds could serve a filter that matches far more, and read them from the requests that follow. So a wallet that knows
//! roughly how many matches to expect limits their number.

/// Probability that an honest filter is rejected because of chance matches alone.
///
/// At one restore per second, this is one false alarm in thirty years.
pub(crate) const FALSE_ALARM: f64 = 1e-9;

/// Maximum number of matches to accept among `lookups` different items, of which the caller expects `expected` to
/// be in the set.
///
/// With `s = min(expected, lookups)` and `λ = (lookups - s) / m`, the mean number of chance matches among the
/// others:
///
/// ```text
/// limit = max( ceil(factor * (s + λ)),  s + k )
/// k     = the least integer with  e^-λ * (e*λ / (k+1))^(k+1) <= 1e-9
/// ```
///
/// The first term is the main rule: `factor` times what chance and the wallet's records explain. When the wallet
/// expects nothing, `factor * λ` is far below 1: 1,000 look-ups at `m` = 784,931 give `λ` = 0.0013. One chance
/// match must not stop a restore, so the second term raises the limit. The left side of its condition is
/// Chernoff's bound on `P[Binomial(lookups - s, 1/m) > k]`, so more than `k` chance matches are practically
/// impossible. For those 1,000 look-ups, `k` is 3.
///
/// # Examples
///
/// ```
/// # use nutfilter_wallet::match_limit;
/// assert_eq!(match_limit(1_000, 0, 784_931, 10), 3);
/// assert_eq!(match_limit(1_000, 40, 784_931, 10), 401);
/// ```
#[must_use]
pub fn match_limit(lookups: u64, expected: u64, m: u64, factor: u32) -> u64 {
    let expected = expected.min(lookups);
    let chance = (lookups - expected) as f64 / m.max(1) as f64;
    // The cast saturates. A limit above the number of look-ups also means "no limit".
    let by_factor = (f64::from(factor) * (expected as f64 + chance)).ceil() as u64;
    by_factor.max(expected.saturating_add(most_by_chance(chance)))
}

/// How many of so many look-ups match by chance at most, but for one restore in a million: the least `k` with
/// `P[Poisson(lookups / m) > k] <= 1e-6`.
pub(crate) fn chance_limit(lookups: u64, m: u64) -> u64 {
    const RARE: f64 = 1e-6;
    let mean = lookups as f64 / m.max(1) as f64;
    if mean > 100.0 {
        // Ten standard deviations. No usual filter has so large a rate.
        return (mean + 10.0 * mean.sqrt()) as u64;
    }
    let (mut k, mut term) = (0, (-mean).exp());
    let mut up_to_k = term;
    while 1.0 - up_to_k > RARE {
        k += 1;
        term *= mean / k as f64;
        up_to_k += term;
    }
    k
}

/// The `k` of [`match_limit`], by binary search: the bound decreases monotonically above the mean.
fn most_by_chance(mean: f64) -> u64 {
    if mean <= 0.0 {
        return 0;
    }
    let is_bad_luck = |k: u64| ln_tail(mean, k as f64 + 1.0) <= FALSE_ALARM.ln();
    // At e^2 * mean the exponent is at most -(next + mean); 21 exceeds -ln(1e-9).
    let (mut low, mut high) = (mean as u64, ((mean * 7.39).ceil() as u64).saturating_add(21));
    while low < high {
        let middle = low + (high - low) / 2;
        if is_bad_luck(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// The natural logarithm of Chernoff's bound on the probability of `at_least` or more chance matches, when `mean`
/// are expected.
pub(crate) fn ln_tail(mean: f64, at_least: f64) -> f64 {
    if at_least <= mean {
        return 0.0;
    }
    at_least * (1.0 + (mean / at_least).ln()) - mean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expected_matches_are_never_rejected() {
        for (lookups, expected) in [(0, 0), (10, 10), (10, 50), (u64::MAX, u64::MAX)] {
            assert!(match_limit(lookups, expected, 784_931, 1) >= expected.min(lookups));
        }
    }

    #[test]
    fn extreme_numbers_neither_panic_nor_take_long() {
        assert!(match_limit(u64::MAX, 0, 1, u32::MAX) > 0);
        assert!(match_limit(u64::from(u32::MAX), 0, 1, 1) >= u64::from(u32::MAX));
        assert_eq!(match_limit(0, 0, 0, 0), 0);
    }
}
