//! Tests of the whole library under conditions that `arch` makes: memory that ends at an inaccessible page, and
//! unusual floating-point environments.

// Of the conditions that `arch` makes on some targets only.
#![cfg_attr(
    any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))),
    allow(unused_imports)
)]

use alloc::vec::Vec;

use crate::arch::SimdLevel;
use crate::matching::Strategy;
use crate::{Filter, IndexInterval, Params, RawValues};

/// Pseudorandom numbers, the same in every run.
pub(crate) use nutfilter_reference::{Noise, sorted, spread};

#[cfg(all(
    feature = "std",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_os = "linux",
    not(miri)
))]
mod guarded {
    use super::*;
    use crate::arch::guard_page::Guarded;

    #[test]
    fn decoding_and_matching_read_nothing_past_the_end() {
        for (p, m) in [(0, 1), (3, 12), (6, 100), (19, 784_931), (32, u64::from(u32::MAX))] {
            let params = Params::new(p, m).unwrap();
            for n in [1, 2, 3, 5, 9, 40, 600, 20_000] {
                let mut values: Vec<u64> = (0..n).map(|i| spread(i) % (m * n)).collect();
                values.sort_unstable();
                let made = Filter::from_values(&values, params).unwrap();
                let bytes = Guarded::new(made.bytes());
                let targets: Vec<u64> =
                    values.iter().rev().take(300).flat_map(|&value| [value, value + 1]).collect();
                for level in SimdLevel::available() {
                    let admitted =
                        Filter::check_length_with(RawValues, &*bytes, n, params).unwrap();
                    let filter = admitted.with_level(level).validate().unwrap();
                    assert!(filter.values().eq(values.iter().copied()));
                    let indexed = filter.clone().into_indexed(IndexInterval::Items(16));
                    let expected: Vec<bool> =
                        targets.iter().map(|target| values.binary_search(target).is_ok()).collect();
                    for strategy in [Strategy::Lookup, Strategy::Merge] {
                        assert_eq!(filter.matches_values_by(strategy, &targets), expected);
                        assert_eq!(indexed.matches_values_by(strategy, &targets), expected);
                    }
                }
            }
        }
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod environments {
    use super::*;
    use crate::arch::float_environment::{environments, under};
    use crate::{Nut23, Nut25, SipHash, SortedHashes};

    /// A filter with 16 bytes of ones near its start, so that a kernel that moves backwards leaves it.
    fn filter_with_a_long_run() -> (Vec<u64>, Vec<u8>, Params) {
        let params = Params::new(3, 12).unwrap();
        let n = 20_000;
        let mut values: Vec<u64> = (0..n).map(|i| spread(i) % (12 * n - 3000)).collect();
        values.sort_unstable();
        for value in values.iter_mut().skip(100) {
            *value += 3000;
        }
        let filter = Filter::from_values(&values, params).unwrap();
        assert!(filter.bytes().windows(16).any(|bytes| bytes == [0xff; 16]));
        (values, filter.into_bytes(), params)
    }

    #[test]
    fn filters_are_parsed_and_asked_in_every_environment() {
        let (values, bytes, params) = filter_with_a_long_run();
        let n = values.len() as u64;
        let targets: Vec<u64> = values.iter().step_by(7).flat_map(|&v| [v, v + 1]).collect();
        let expected: Vec<bool> =
            targets.iter().map(|target| values.binary_search(target).is_ok()).collect();
        for level in SimdLevel::available() {
            for environment in environments() {
                let answers = under(environment, || {
                    let admitted =
                        Filter::check_length_with(RawValues, &*bytes, n, params).unwrap();
                    let filter = admitted.with_level(level).validate().unwrap();
                    let indexed = filter.clone().into_indexed(IndexInterval::Items(16));
                    let answers = [Strategy::Lookup, Strategy::Merge].map(|strategy| {
                        [
                            filter.matches_values_by(strategy, &targets),
                            indexed.matches_values_by(strategy, &targets),
                        ]
                    });
                    (answers, filter.values().collect::<Vec<_>>())
                });
                assert!(answers.0.iter().flatten().all(|found| *found == expected));
                assert!(answers.1 == values, "{level}, MXCSR {environment:#x}");
            }
        }
    }

    #[test]
    fn sets_are_hashed_sorted_and_encoded_in_every_environment() {
        let items: Vec<[u8; 33]> =
            (0..30_000_u64).map(|i| core::array::from_fn(|at| (spread(i) >> at) as u8)).collect();
        let params = Params::new(19, 784_931).unwrap();
        for level in SimdLevel::available() {
            let build = || {
                let nut25 = SortedHashes::builder(Nut25).with_level(level).hash_items(&items);
                let nut23 = SortedHashes::builder(Nut23).with_level(level).hash_items(&items);
                let keyed =
                    SortedHashes::builder(SipHash::new(1, 2)).with_level(level).hash_items(&items);
                [
                    nut25.encode(params).unwrap().into_bytes(),
                    nut23.encode(params).unwrap().into_bytes(),
                    keyed.encode(params).unwrap().into_bytes(),
                ]
            };
            let expected = build();
            for environment in environments() {
                let got = under(environment, build);
                assert!(got == expected, "{level}, MXCSR {environment:#x}");
            }
        }
    }
}
