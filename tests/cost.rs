//! Matching decodes a bounded number of bits, whatever set somebody made the filter of: `c * (B + k * x)` for k
//! look-ups in a filter of B bits, as `nutfilter_harness::cost` says.

use nutfilter::bip158::{self, Scratch, Watchlist};
use nutfilter::internals::{SimdLevel, Strategy, decoded_bits};
use nutfilter::{Filter, IndexInterval, ItemHash, Params, RawValues, SipHash, map_to_range};
use nutfilter_harness::STRATEGIES;
use nutfilter_harness::cost::{Budget, within};
use nutfilter_reference::Noise;

type Hostile = (&'static str, Vec<u64>);

/// Sets of `n` items in which some places cost more to read than others.
fn hostile_sets(n: u64, params: Params) -> Vec<Hostile> {
    let (p, range) = (params.p(), params.range(n as u32));
    let random = |range: u64| {
        let mut values: Vec<u64> = Noise(n).take(n as usize).map(|x| x % range.max(1)).collect();
        values.sort_unstable();
        values
    };
    let after = |values: Vec<u64>, from: u64, gap: u64| {
        let shift = values.partition_point(|&value| value < from);
        let moved = (0..).zip(values);
        moved.map(|(at, value)| if at < shift { value } else { value + gap }).collect()
    };
    // Codes of so many ones as long as the range allows, in heaps of 60; all others are short.
    let long_codes = |ones: u64| -> Vec<u64> {
        let count = ((range - n) >> p) / ones;
        let mut value = 0;
        (0..n)
            .map(|at| {
                let long = at % 240 < 60 && at / 240 * 60 + at % 240 < count;
                value += if long { ones << p } else { at % 2 };
                value
            })
            .collect()
    };
    vec![
        ("uniform", random(range)),
        ("one gap", after(random(range / 50), range / 100, range / 50 * 48)),
        ("a gap at the start", after(random(range / 50), 0, range / 50 * 48)),
        ("a gap before the last", [vec![1; n as usize - 1], vec![range - 1]].concat()),
        ("equal", vec![range / 2; n as usize]),
        ("equal to the largest", vec![range - 1; n as usize]),
        ("heaps", (0..n).map(|at| at / 500 * 500 * params.m()).collect()),
        ("codes of 100 ones", long_codes(100)),
        ("codes of 1,000 ones", long_codes(1_000)),
        ("codes of 4,000 ones", long_codes(4_000)),
        ("codes of 40,000 ones", long_codes(40_000)),
    ]
}

/// Values in and around the widest gaps, and others.
fn targets(values: &[u64], range: u64) -> Vec<u64> {
    let mut gaps: Vec<(u64, u64)> =
        [0].iter().chain(values).zip(values).map(|(&from, &to)| (to - from, from)).collect();
    gaps.sort_unstable_by(|a, b| b.cmp(a));
    let around = gaps.iter().take(150).flat_map(|&(width, from)| {
        let to = from + width;
        [from, from + 1, from + width / 2, to.saturating_sub(1), to, to + 1]
    });
    let others = Noise(7).take(300).map(|x| x % range);
    let some = values.iter().step_by(values.len() / 300 + 1).copied();
    around.chain(others).chain(some).chain([0, range - 1, range, u64::MAX]).collect()
}

const SHAPES: [(u32, u64); 7] = [
    (19, 784_931),
    (11, 784_931),
    (3, 12),
    (0, 1),
    (0, 40),
    (25, 50_000_000),
    (32, u32::MAX as u64),
];

/// With so many items a loop decodes ahead in lanes, which hostile sets defeat.
#[test]
#[cfg_attr(not(debug_assertions), ignore = "counts no bits")]
fn loops_over_values_decode_a_bounded_number_of_bits() {
    assert!(decoded_bits().is_some(), "nothing is counted in this build");
    let params = Params::default();
    for (name, values) in hostile_sets(80_000, params) {
        let made = Filter::from_values(&values, params).unwrap();
        let allowed = Budget::of(&made).allowed(0);
        for level in SimdLevel::available() {
            let filter = made.clone().with_level(level);
            let looped = within(allowed, &(name, level), || {
                let mut looped = Vec::new();
                for value in filter.values() {
                    looped.push(value);
                }
                looped
            });
            assert!(looped == values, "{name}, {level}");
        }
    }
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "counts no bits")]
fn lookups_decode_a_bounded_number_of_bits() {
    assert!(decoded_bits().is_some(), "nothing is counted in this build");
    for (p, m) in SHAPES {
        let params = Params::new(p, m).unwrap();
        for (name, values) in hostile_sets(20_000, params) {
            let made = Filter::from_values(&values, params).unwrap();
            let n = u64::from(made.n());
            let targets = targets(&values, made.range());
            let expected: Vec<bool> =
                targets.iter().map(|target| values.binary_search(target).is_ok()).collect();
            for level in SimdLevel::available() {
                let context = (name, params, level);
                let budget = Budget::of(&made);
                let admit = || {
                    let admitted = Filter::check_length_with(RawValues, made.bytes(), n, params);
                    admitted.unwrap().with_level(level)
                };
                let filter = within(budget.allowed(0), &context, || admit().validate().unwrap());
                for strategy in STRATEGIES {
                    let context = (context, strategy);
                    for targets in [&targets[..], &targets[..1], &targets[2..5]] {
                        let allowed = budget.allowed(targets.len());
                        let found = within(allowed, &context, || {
                            filter.matches_values_by(strategy, targets)
                        });
                        let again = within(allowed, &context, || {
                            admit().matches_values_by(strategy, targets)
                        });
                        assert_eq!(again, Ok(found), "{context:?}");
                    }
                    let found = filter.matches_values_by(strategy, &targets);
                    assert_eq!(found, expected, "{context:?}");
                }
                for step in [1, 16, 64, 1_000].map(IndexInterval::Items) {
                    let context = (context, step);
                    let indexed =
                        within(budget.allowed(0), &context, || filter.clone().into_indexed(step));
                    let budget = Budget::of_indexed(&indexed);
                    for strategy in [Strategy::Cheapest, Strategy::Lookup] {
                        let allowed = budget.allowed(targets.len());
                        let found = within(allowed, &(context, strategy), || {
                            indexed.matches_values_by(strategy, &targets)
                        });
                        assert_eq!(found, expected, "{context:?}");
                    }
                    // Counts for single look-ups, and counts that fill some lanes.
                    for count in [0, 1, 4, 24, 25, 33] {
                        let found = indexed.matches_values_by(Strategy::Lookup, &targets[..count]);
                        assert_eq!(found, expected[..count], "{count}, {context:?}");
                    }
                    for (&target, &found) in targets.iter().zip(&expected) {
                        let once = || indexed.contains_value(target);
                        let answer = within(budget.allowed_once(), &(context, target), once);
                        assert_eq!(answer, found, "{target}, {context:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn scanning_costs_a_bounded_number_of_bits_in_any_set() {
    let params = bip158::PARAMS;
    let key = SipHash::new(1, 2);
    for (name, values) in hostile_sets(20_000, params) {
        let made = Filter::from_values(&values, params).unwrap();
        let made = made.with_hasher(key);
        let bytes = bip158::serialize(&made);
        // Few scripts use a seek table, and many a bitmap.
        for scripts in [1, 20, 2_000_u32] {
            let scripts: Vec<[u8; 4]> = (0..scripts).map(u32::to_le_bytes).collect();
            let list = Watchlist::from_iter(&scripts);
            let expected: Vec<bool> = scripts
                .iter()
                .map(|script| {
                    let value = map_to_range(key.hash(script), made.range());
                    values.binary_search(&value).is_ok()
                })
                .collect();
            let expected = expected.iter().filter(|&&found| found).count();
            for level in SimdLevel::available() {
                let allowed = Budget::of(&made).allowed(scripts.len());
                let mut scratch = Scratch::new().with_level(level);
                let found = within(allowed, &(name, level, scripts.len()), || {
                    list.matches(&mut scratch, key, &bytes).unwrap().len()
                });
                assert_eq!(found, expected, "{name}, {level}");
            }
        }
    }
}

/// Filters whose error is far from their start.
fn invalid_filters() -> [(&'static str, Params, u64, Vec<u8>); 6] {
    let any_range = Params::new(0, u64::from(u32::MAX)).unwrap();
    let (cashu, len) = (Params::CASHU, 1 << 16);
    // One byte too many is noticed only after everything else.
    let with_a_byte = |values: Vec<u64>| {
        let mut bytes = Filter::from_values(&values, cashu).unwrap().into_bytes();
        bytes.push(1);
        bytes
    };
    let n = 20_000;
    let mut uniform: Vec<u64> = Noise(3).take(n as usize).collect();
    uniform.iter_mut().for_each(|x| *x %= n * cashu.m());
    uniform.sort_unstable();
    // A lane that starts in the middle cannot find the start of an item.
    let equal_deltas = (1..=n).map(|i| i * (cashu.m() - 1)).collect();
    let bits = len as u64 * 8;
    [
        ("one run of ones", any_range, 1, vec![0xff; len]),
        ("ones", cashu, bits * 100 / 2_050, vec![0xff; len]),
        ("zeros without remainders", any_range, bits - 9, vec![0; len]),
        ("zeros", cashu, bits / 20 - 1, vec![0; len]),
        ("a byte too many", cashu, n, with_a_byte(uniform)),
        ("equal deltas", cashu, n, with_a_byte(equal_deltas)),
    ]
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "counts no bits")]
fn rejecting_a_filter_decodes_a_bounded_number_of_bits() {
    for (name, params, n, bytes) in invalid_filters() {
        let range = params.range(n as u32);
        let targets: Vec<u64> = (0..100).map(|i| range / 100 * i).collect();
        let budget = Budget::new(n as u32, bytes.len(), 0);
        for level in SimdLevel::available() {
            let check = || {
                let checked = Filter::check_length_with(RawValues, &bytes[..], n, params);
                checked.unwrap().with_level(level)
            };
            let rejected = within(budget.allowed(0), &(name, level), || check().validate());
            assert!(rejected.is_err(), "{name}, {level}");
            for strategy in STRATEGIES {
                let (allowed, context) = (budget.allowed(targets.len()), (name, level, strategy));
                let rejected =
                    within(allowed, &context, || check().matches_values_by(strategy, &targets));
                assert!(rejected.is_err(), "{context:?}");
            }
        }
    }
}
