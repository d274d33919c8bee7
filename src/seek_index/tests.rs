//! Tests of the index: its cost on any set, and that one that is wrong (the filter's storage changed) is harmless.

use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::arch::SimdLevel;
use crate::hash::RawValues;
use crate::matching::{Point, Strategy, most_items};
use crate::params::Params;
use crate::sorted_hashes::SortedHashes;
use crate::tests::spread;

type Indexed = IndexedFilter<Vec<u8>, RawValues>;

fn table_of(filter: &Filter<Vec<u8>, RawValues>, interval: IndexInterval) -> PointTable {
    filter.clone().into_indexed(interval).table
}

fn filter(n: u64) -> Filter<Vec<u8>, RawValues> {
    let hashes = (0..n).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let params = Params::new(4, 20).unwrap();
    let set = SortedHashes::from_hashes(hashes);
    set.encode(params).unwrap().with_hasher(RawValues).into_owned()
}

/// Sets with crowded values, with their names.
fn hostile_sets(n: u64, params: Params) -> Vec<(&'static str, Filter<Vec<u8>, RawValues>)> {
    let range = params.range(n as u32);
    let m = params.m();
    let sets: [(&str, Vec<u64>); 9] = [
        ("uniform", (0..n).map(|i| spread(i) % range).collect()),
        ("all zero", vec![0; n as usize]),
        ("all the largest", vec![range - 1; n as usize]),
        ("all equal in the middle", vec![range / 2; n as usize]),
        ("one apart", (0..n).map(|i| (range / 3 + i).min(range - 1)).collect()),
        ("three heaps", (0..n).map(|i| range / 4 * (i % 3 + 1)).collect()),
        (
            "a heap among uniform ones",
            (0..n).map(|i| if i % 2 == 0 { spread(i) % range } else { range / 7 }).collect(),
        ),
        ("heaps with wide gaps", (0..n).map(|i| i / 700 * 700 * m).collect()),
        (
            "the first and the last value",
            (0..n).map(|i| if i < n / 2 { 0 } else { range - 1 }).collect(),
        ),
    ];
    sets.into_iter()
        .map(|(name, mut values)| {
            values.sort_unstable();
            (name, Filter::from_values(&values, params).unwrap())
        })
        .collect()
}

/// The number of items decoded from the index's point until `value` is found or passed.
fn items_to(filter: &Filter<Vec<u8>, RawValues>, table: &PointTable, value: u64) -> u64 {
    let point = table.locate(value);
    if point.answer().is_some() {
        return 0;
    }
    let Point { position, base } = point;
    let numbers = (filter.n(), filter.params());
    // The number of the item there is unknown; decoding stops at the end of the items.
    let place = (position, base, 0);
    let mut scanner =
        crate::decode::Scanner::at_item(filter.level(), filter.bytes(), numbers, place);
    let end = filter.stream().end;
    let mut items = 0;
    while scanner.position() < end
        && let Some(found) = scanner.next_value().unwrap()
    {
        items += 1;
        if found >= value {
            break;
        }
    }
    items
}

const SHAPES: [(u32, u64); 5] = [(19, 784_931), (4, 20), (0, 1), (0, 40), (32, u32::MAX as u64)];

#[test]
fn look_up_decodes_a_bounded_number_of_items_in_any_set() {
    for (p, m) in SHAPES {
        let params = Params::new(p, m).unwrap();
        for (name, filter) in hostile_sets(2_000, params) {
            for step in [1, 16, 64, 400, 2_000] {
                let table = table_of(&filter, IndexInterval::Items(step));
                let most = most_items(table.interval) + u64::from(table.interval);
                let near =
                    filter.values().step_by(61).flat_map(|v| [v.saturating_sub(1), v, v + 1]);
                let far = (0..50).map(|i| filter.range() / 50 * i);
                for value in near.chain(far).filter(|&value| value < filter.range()) {
                    let items = items_to(&filter, &table, value);
                    assert!(items <= most, "{name}, {params:?}, {step}: {items} items to {value}");
                }
            }
        }
    }
}

#[test]
fn estimates_are_near_uniform_values_and_finite_elsewhere() {
    for (name, filter) in hostile_sets(100_000, Params::default()) {
        let table = table_of(&filter, IndexInterval::Items(16));
        let values = (0..1_000).map(|i| filter.range() / 1_000 * i);
        let near = values.filter(|&value| {
            let distance = table.estimate(value).abs_diff(table.locate(value).position);
            distance < 64 * 8
        });
        let near = near.count();
        assert!(name != "uniform" || near > 900, "{near} of 1,000");
    }
}

#[test]
fn entry_takes_17_bytes_if_hostile_and_40_more_for_a_gap() {
    for (p, m) in SHAPES {
        let params = Params::new(p, m).unwrap();
        for (name, filter) in hostile_sets(2_000, params) {
            for step in [1, 16, 64, 400, 2_000].map(IndexInterval::Items) {
                let table = table_of(&filter, step);
                let (size, entries) = (table.size(), table.entries());
                let context = (name, params, step, size, entries);
                assert!(size <= (17 + 40) * entries + 8, "{context:?}");
                assert!(size <= 48 * (filter.bytes().len() + 1) + 69, "{context:?}");
            }
        }
    }
}

#[test]
fn number_of_entries_is_as_requested() {
    let long = 480;
    for (filter, step, entries) in [
        // Codes of 5 bits: no entry stands for less than two bytes.
        (filter(1000), IndexInterval::Items(0), 125),
        (filter(1000), IndexInterval::Items(7), 125),
        (filter(1000), IndexInterval::Items(8), 125),
        (filter(1000), IndexInterval::Items(23), 63),
        (filter(1000), IndexInterval::Items(128), 8),
        (filter(1000), IndexInterval::Items(u32::MAX), 1),
        (filter(1000), IndexInterval::Entries(0), 1),
        (filter(1000), IndexInterval::Entries(1), 1),
        (filter(1000), IndexInterval::Entries(10), 11),
        (filter(1000), IndexInterval::Entries(u32::MAX), 125),
        (filter(0), IndexInterval::Items(8), 0),
    ] {
        assert_eq!(filter.into_indexed(step).entries(), entries, "{step:?}");
    }
    // Eight items per byte.
    let tiny = Filter::from_values(&vec![0; long], Params::new(0, 1).unwrap()).unwrap();
    assert_eq!(tiny.bytes().len(), long / 8);
    let indexed = tiny.into_indexed(IndexInterval::Items(1));
    assert_eq!(indexed.entries(), long / 16);
}

#[test]
fn index_takes_the_documented_bits_per_item() {
    let values: Vec<u64> = (0..100_000).map(|i| i * 784_931 + spread(i) % 784_931).collect();
    let filter = Filter::from_values(&values, Params::default()).unwrap();
    for (step, bits) in [(8, 9.0), (16, 4.5), (64, 1.1), (1_000, 0.07)] {
        let indexed = filter.clone().into_indexed(IndexInterval::Items(step));
        let taken = indexed.index_bits_per_item();
        assert!((taken - bits).abs() < 0.06, "{step}: {taken} bits an item");
    }
    let default = table_of(&filter, IndexInterval::default());
    assert!(default == table_of(&filter, IndexInterval::Items(8)));
}

#[test]
fn pairs_one_bit_longer_than_a_window_are_found() {
    for p in [3_u64, 9, 14, 19] {
        for bits in [56_u64, 57, 58, 59] {
            // Every fourth pair has this length, with remainders that end in a zero; the others have any
            // length.
            let run = bits - 2 * (p + 1);
            let mut value = 0;
            let values: Vec<u64> = (0..4_000)
                .map(|item| {
                    let remainder = spread(item) & ((1 << p) - 2);
                    value += match item % 8 {
                        0 => (run / 2) << p | remainder,
                        1 => (run - run / 2) << p | remainder,
                        _ => spread(item) % (3 << p >> 1),
                    };
                    value
                })
                .collect();
            let m = value / 4_000 + 1;
            let params = Params::new(p as u32, m).unwrap();
            let filter = Filter::from_values(&values, params).unwrap();
            let targets: Vec<u64> = values.iter().flat_map(|&v| [v, v + 1]).collect();
            let expected: Vec<bool> =
                targets.iter().map(|target| values.binary_search(target).is_ok()).collect();
            for level in SimdLevel::available() {
                let filter = filter.clone().with_level(level);
                let indexed = filter.clone().into_indexed(IndexInterval::Items(64));
                for strategy in [Strategy::Lookup, Strategy::Merge] {
                    let context = (p, bits, strategy, level);
                    assert!(
                        filter.matches_values_by(strategy, &targets) == expected,
                        "{context:?}"
                    );
                    let answers = indexed.matches_values_by(strategy, &targets);
                    assert!(answers == expected, "with an index, {context:?}");
                }
                for (&target, &found) in targets.iter().zip(&expected).step_by(7) {
                    assert_eq!(indexed.contains_value(target), found, "{target}, {level}");
                }
            }
        }
    }
}

#[test]
fn wrong_points_never_read_outside_the_filter() {
    let filter = filter(200);
    let bits = filter.bytes().len() as u64 * 8;
    let values: Vec<u64> = (0..filter.range()).step_by(37).collect();
    for level in SimdLevel::available() {
        let filter = filter.clone().with_level(level);
        let made = filter.into_indexed(IndexInterval::Entries(4));
        // Only the look-up protects against it; any answer is accepted.
        let ask = |wrong: &Indexed| {
            assert_eq!(wrong.matches_values(&values).len(), values.len());
            for &value in &values {
                let _ = wrong.contains_value(value);
            }
        };
        for position in (0..=bits).chain([(1 << 48) - 1, u64::MAX / 2 - 1]) {
            for base in [0, 1, made.filter.range() - 1, u64::MAX] {
                let mut wrong = made.clone();
                wrong.table.set_all(Point { position, base });
                ask(&wrong);
            }
        }
    }
}

#[test]
fn undecodable_point_falls_back_to_the_filter() {
    let mut astray = 0;
    // With any number of bits in the last byte.
    for n in 2_000..2_016 {
        let filter = filter(n);
        let bits = filter.bytes().len() as u64 * 8;
        let last = filter.values().last().unwrap();
        for (level, target) in
            SimdLevel::available().flat_map(|level| [(level, last), (level, last - 1)])
        {
            let filter = filter.clone().with_level(level);
            let made = filter.clone().into_indexed(IndexInterval::Entries(64));
            for position in bits - 14..bits {
                let mut wrong = made.clone();
                let Point { base, .. } = made.table.locate(target);
                wrong.table.set_all(Point { position, base });
                let point = wrong.table.locate(target);
                if filter.stream().find(point, target).is_ok() {
                    continue;
                }
                astray += 1;
                let expected = filter.contains_value(target);
                assert_eq!(wrong.contains_value(target), expected);
                assert_eq!(wrong.planned(1), Strategy::Lookup);
                assert_eq!(wrong.match_any_values(&[target]), expected);
                for count in [1, 5, 300] {
                    let targets = vec![target; count];
                    let found = wrong.matches_values_by(Strategy::Lookup, &targets);
                    assert_eq!(
                        found,
                        vec![expected; count],
                        "{level}, {count} targets, from bit {position}"
                    );
                }
            }
        }
    }
    let levels = SimdLevel::available().count();
    assert!(astray > 50 * levels, "only {astray} points led astray at {levels} levels");
}

#[test]
fn codes_longer_than_a_span_are_kept_with_their_values() {
    // Two gaps among short codes, so that each is longer than 192 average items.
    let params = Params::new(4, 40).unwrap();
    let n = 20_000_u64;
    let values: Vec<u64> = (0..n).map(|i| i * 8 + i / 7_000 * 300_000).collect();
    let filter = Filter::from_values(&values, params).unwrap();
    let crowded = table_of(&filter, IndexInterval::Items(64)).crowded;
    let gaps = crowded.unwrap().gaps;
    assert_eq!(gaps.len(), 2, "{gaps:?}");
    for (gap, last) in gaps.iter().zip([6_999, 13_999]) {
        assert_eq!(gap.from, values[last]);
        assert_eq!(gap.value, values[last + 1]);
    }
}
