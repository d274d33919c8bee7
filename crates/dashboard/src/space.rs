//! What structures take in theory: bits an item at a false-positive rate of 1 in M.

use nutfilter::Params;

/// Nothing that answers as it should takes less: log2 M.
#[must_use]
pub fn entropy(one_in: f64) -> f64 {
    one_in.log2()
}

/// A Bloom filter with the best number of hashes, were it whole: log2 M / ln 2.
#[must_use]
pub fn bloom(one_in: f64) -> f64 {
    one_in.log2() / std::f64::consts::LN_2
}

/// A Golomb-coded set with the best P, exactly as the library reckons it. `None` for an M that the format has not.
#[must_use]
pub fn golomb(one_in: u32) -> Option<f64> {
    Some(Params::with_best_p(u64::from(one_in)).ok()?.bits_per_item())
}

/// Elias-Fano over the same mapped values: l = floor(log2 M) low bits, one bit a value and one for each step of the
/// high parts. Without what makes it quick to ask.
#[must_use]
pub fn elias_fano(one_in: u32) -> f64 {
    let low_bits = one_in.max(1).ilog2();
    f64::from(low_bits) + 1.0 + f64::from(one_in) / 2_f64.powi(low_bits as i32)
}

/// The largest M up to which a Bloom filter takes less than a Golomb-coded set, and where between it and the next
/// M their lines cross.
#[must_use]
pub fn crossing() -> Option<(u32, f64)> {
    let gain = |one_in: u32| Some(golomb(one_in)? - bloom(f64::from(one_in)));
    let mut last = None;
    for one_in in 2_u32.. {
        let now = gain(one_in)?;
        if now <= 0.0 {
            let before = gain(last?)?;
            let share = before / (before - now);
            let from = f64::from(last?);
            return Some((last?, from + share));
        }
        last = Some(one_in);
    }
    None
}

/// Values of M to draw a curve by: every one at first, then some to each doubling, as far as `last`.
#[must_use]
pub fn samples(last: u32) -> Vec<u32> {
    let mut samples: Vec<u32> = (2..=16.min(last)).collect();
    let mut next = 16.0_f64;
    loop {
        next *= 2_f64.powf(0.125);
        if next >= f64::from(last) {
            break;
        }
        samples.push(next as u32);
    }
    if samples.last().is_none_or(|sample| *sample < last) {
        samples.push(last);
    }
    samples.dedup();
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_meet_the_published_figures() {
        assert!((golomb(784_931).unwrap() - 21.05).abs() < 0.01);
        assert!((entropy(784_931.0) - 19.58).abs() < 0.01);
        assert!((bloom(10.0) - 4.79).abs() < 0.01);
        assert!((golomb(10).unwrap() - 4.86).abs() < 0.01);
        assert_eq!(elias_fano(8), 5.0);
        assert_eq!(golomb(0), None);
    }

    #[test]
    fn no_structure_takes_less_than_the_bound() {
        for one_in in samples(u32::MAX) {
            let bound = entropy(f64::from(one_in));
            for bits in [
                golomb(one_in).unwrap(),
                bloom(f64::from(one_in)),
                elias_fano(one_in),
            ] {
                assert!(bits > bound, "{one_in}: {bits} < {bound}");
            }
        }
    }

    #[test]
    fn below_the_crossing_bloom_takes_less_and_above_it_the_golomb_coded_set() {
        let (last, crossing) = crossing().unwrap();
        assert!((8..16).contains(&last), "{last}");
        assert!(
            f64::from(last) <= crossing && crossing < f64::from(last + 1),
            "{crossing}"
        );
        for one_in in 2..=1000 {
            let golomb_is_smaller = golomb(one_in).unwrap() <= bloom(f64::from(one_in));
            assert_eq!(golomb_is_smaller, one_in > last, "{one_in}");
        }
    }

    #[test]
    fn samples_rise_to_the_last() {
        let samples = samples(1 << 20);
        assert!(samples.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!((samples[0], *samples.last().unwrap()), (2, 1 << 20));
    }
}
