//! Tests of the index: its cost on any set, the bytes that it accepts, and that forged indexes are harmless.

use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::arch::SimdLevel;
use crate::hash::RawValues;
use crate::matching::{Point, Shape, Strategy};
use crate::sorted_hashes::SortedHashes;
use crate::splitmix::spread;

fn table_mut(index: &mut SeekIndex) -> &mut Table {
    Arc::make_mut(&mut index.table)
}

fn filter(n: u64) -> Filter<Vec<u8>, RawValues> {
    let hashes = (0..n)
        .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .collect();
    let params = Params::new(4, 20).unwrap();
    let set = SortedHashes::from_hashes(hashes);
    set.encode(params)
        .unwrap()
        .with_hasher(RawValues)
        .into_owned()
}

/// Sets crafted against an index of parts of equal range, with their names.
fn hostile_sets(n: u64, params: Params) -> Vec<(&'static str, Filter<Vec<u8>, RawValues>)> {
    let range = params.range(n as u32);
    let m = params.m();
    let sets: [(&str, Vec<u64>); 9] = [
        ("uniform", (0..n).map(|i| spread(i) % range).collect()),
        ("all zero", vec![0; n as usize]),
        ("all the largest", vec![range - 1; n as usize]),
        ("all equal in the middle", vec![range / 2; n as usize]),
        (
            "one apart",
            (0..n).map(|i| (range / 3 + i).min(range - 1)).collect(),
        ),
        (
            "three heaps",
            (0..n).map(|i| range / 4 * (i % 3 + 1)).collect(),
        ),
        (
            "a heap among uniform ones",
            (0..n)
                .map(|i| {
                    if i % 2 == 0 {
                        spread(i) % range
                    } else {
                        range / 7
                    }
                })
                .collect(),
        ),
        (
            "heaps with wide gaps",
            (0..n).map(|i| i / 700 * 700 * m).collect(),
        ),
        (
            "the first and the last value",
            (0..n)
                .map(|i| if i < n / 2 { 0 } else { range - 1 })
                .collect(),
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
fn items_to(filter: &Filter<impl AsRef<[u8]>, RawValues>, table: &Table, value: u64) -> u64 {
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

const SHAPES: [(u32, u64); 5] = [
    (19, 784_931),
    (4, 20),
    (0, 1),
    (0, 40),
    (32, u32::MAX as u64),
];

#[test]
fn look_up_decodes_a_bounded_number_of_items_in_any_set() {
    for (p, m) in SHAPES {
        let params = Params::new(p, m).unwrap();
        for (name, filter) in hostile_sets(2_000, params) {
            for step in [1, 7, 64, 400, 2_000] {
                let table = table_of(&filter, IndexInterval::Items(step));
                let shape = Shape {
                    n: filter.n(),
                    params,
                    entries: table.entries.len() as u32,
                };
                let most = shape.most_items();
                let step = u64::from(filter.n().div_ceil(shape.entries));
                assert_eq!(most, 2 * step + 64);
                let near = filter
                    .values()
                    .step_by(61)
                    .flat_map(|v| [v.saturating_sub(1), v, v + 1]);
                let far = (0..50).map(|i| filter.range() / 50 * i);
                for value in near.chain(far).filter(|&value| value < filter.range()) {
                    let items = items_to(&filter, &table, value);
                    assert!(
                        items <= most,
                        "{name}, {params:?}, {step}: {items} items to {value}"
                    );
                }
            }
        }
    }
}

#[test]
fn look_up_among_a_million_equal_hashes_decodes_few_items() {
    let params = Params::default();
    let values = vec![123_456_789; 1_000_000];
    let filter = Filter::from_values(&values, params).unwrap();
    let table = table_of(&filter, IndexInterval::Items(64));
    for value in [0, 123_456_788, 123_456_789, 123_456_790, filter.range() - 1] {
        let items = items_to(&filter, &table, value);
        assert!(items <= 192, "{items} items to {value}");
    }
    // Without the index, a look-up would decode all of them.
    let start = Table::empty(Shape {
        n: 0,
        params,
        entries: 0,
    });
    assert_eq!(items_to(&filter, &start, 123_456_790), 1_000_000);
}

#[test]
fn entry_takes_8_bytes_if_uniform_and_at_most_64_if_hostile() {
    for (p, m) in SHAPES {
        let params = Params::new(p, m).unwrap();
        for (name, filter) in hostile_sets(2_000, params) {
            for step in [1, 7, 64, 400, 2_000].map(IndexInterval::Items) {
                let table = table_of(&filter, step);
                let (size, entries) = (table.size(), table.entries.len());
                let context = (name, params, step, size, entries);
                assert!(size <= 64 * entries + 64, "{context:?}");
                assert!(size <= 32 * (filter.bytes().len() + 1) + 64, "{context:?}");
                let roomy = entries >= 64 && matches!(step, IndexInterval::Items(64..));
                if name == "uniform" && m > 1 && roomy {
                    assert!(size <= 9 * entries + 16, "{context:?}");
                }
            }
        }
    }
}

#[test]
fn number_of_entries_is_as_requested() {
    let filter = filter(1000);
    let most = filter.bytes().len().div_ceil(2);
    assert!(
        most < 1000,
        "half as many bytes as items, or the test shows less than it should"
    );
    for (step, entries) in [
        (IndexInterval::Items(0), most),
        (IndexInterval::Items(1), most),
        (IndexInterval::Items(128), 8),
        (IndexInterval::Items(u32::MAX), 1),
        (IndexInterval::Entries(0), 1),
        (IndexInterval::Entries(32), 32),
        (IndexInterval::Entries(u32::MAX), most),
    ] {
        assert_eq!(SeekIndex::build(&filter, step).len(), entries, "{step:?}");
    }
}

#[test]
fn step_of_64_items_takes_one_bit_per_item() {
    let index = SeekIndex::build(&filter(100_000), IndexInterval::Items(64));
    let bits = index.bits_per_item();
    assert!((1.0..1.05).contains(&bits), "{bits} bits an item");
    assert_eq!(
        index.to_bytes().len() * 8,
        (bits * 100_000.0).round() as usize
    );
}

#[test]
fn index_equals_scan_for_every_value_at_every_level() {
    for n in [0, 1, 2, 7, 200] {
        let filter = filter(n);
        let values: Vec<u64> = (0..filter.range() + 2).chain([u64::MAX]).collect();
        let expected = filter.matches_values(&values);
        for step in (1..=n as u32 + 1)
            .map(IndexInterval::Items)
            .chain([IndexInterval::Entries(3)])
        {
            let index = SeekIndex::build(&filter, step);
            for level in SimdLevel::available() {
                let filter = filter.clone().with_level(level);
                let indexed = filter.with_index(&index).unwrap();
                assert_eq!(
                    indexed.matches_values(&values),
                    expected,
                    "{n} items, {step:?}, {level}"
                );
                for (&value, &found) in values.iter().zip(&expected) {
                    assert_eq!(
                        indexed.contains_value(value),
                        found,
                        "{value}, {step:?}, {level}"
                    );
                }
            }
        }
    }
}

#[test]
fn hostile_sets_answer_equally_with_and_without_an_index() {
    for (p, m) in SHAPES {
        let params = Params::new(p, m).unwrap();
        for (name, filter) in hostile_sets(600, params) {
            let mut targets: Vec<u64> = filter
                .values()
                .flat_map(|v| [v.saturating_sub(1), v, v + 1])
                .chain((0..500).map(|i| spread(i) % filter.range()))
                .chain([0, filter.range(), u64::MAX])
                .collect();
            targets.sort_by_key(|&value| spread(value));
            // With the simplest method.
            let values: Vec<u64> = filter.values().collect();
            let expected: Vec<bool> = targets
                .iter()
                .map(|target| values.binary_search(target).is_ok())
                .collect();
            for level in SimdLevel::available() {
                let filter = filter.clone().with_level(level);
                let (bytes, n) = (filter.bytes(), u64::from(filter.n()));
                let admitted = Filter::check_length_with(RawValues, bytes, n, params).unwrap();
                let admitted = admitted.with_level(level);
                for strategy in [Strategy::Cheapest, Strategy::Lookup, Strategy::Merge] {
                    let context = (name, params, strategy, level);
                    let answers = filter.matches_values_by(strategy, &targets);
                    assert_eq!(answers, expected, "{context:?}");
                    let answers = admitted.matches_values_by(strategy, &targets);
                    assert_eq!(answers.as_ref(), Ok(&expected), "{context:?}");
                }
                for step in [1, 64, 1_000].map(IndexInterval::Items) {
                    let indexed = filter.clone().into_indexed(step);
                    let context = (name, params, step, level);
                    for strategy in [Strategy::Cheapest, Strategy::Lookup, Strategy::Merge] {
                        let answers = indexed.matches_values_by(strategy, &targets);
                        assert_eq!(answers, expected, "{strategy:?}, {context:?}");
                    }
                    for (&target, &found) in targets.iter().zip(&expected).step_by(31) {
                        let answer = indexed.contains_value(target);
                        assert_eq!(answer, found, "{target}, {context:?}");
                    }
                    // Counts for single look-ups, and counts that fill some lanes.
                    for count in [0, 1, 4, 5, 9, 33] {
                        let answers =
                            indexed.matches_values_by(Strategy::Lookup, &targets[..count]);
                        assert_eq!(answers, expected[..count], "{count}, {context:?}");
                    }
                }
            }
        }
    }
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
            let expected: Vec<bool> = targets
                .iter()
                .map(|target| values.binary_search(target).is_ok())
                .collect();
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
fn fault_anywhere_is_an_error_in_every_strategy() {
    let params = Params::default();
    let values: Vec<u64> = (0..40_000).map(|i| i * 784_000).collect();
    let good = Filter::from_values(&values, params).unwrap();
    let n = values.len() as u64;
    let targets: Vec<u64> = (0..500).map(|i| i * 999_983).collect();
    let admit = |bytes: Vec<u8>| Filter::check_length_with(RawValues, bytes, n, params).unwrap();
    for level in SimdLevel::available() {
        for at in [
            0,
            1,
            good.bytes().len() / 2,
            good.bytes().len() - 9,
            good.bytes().len() - 1,
        ] {
            let mut bytes = good.bytes().to_vec();
            bytes[at..].fill(0xff);
            let admitted = admit(bytes).with_level(level);
            let fault = admitted.clone().validate().unwrap_err();
            for strategy in [Strategy::Cheapest, Strategy::Lookup, Strategy::Merge] {
                for targets in [&targets[..], &targets[..1], &[]] {
                    let answers = admitted.matches_values_by(strategy, targets);
                    assert_eq!(answers, Err(fault), "{strategy:?}, {level}, from byte {at}");
                }
            }
        }
    }
}

#[test]
fn forged_entries_never_read_outside_the_filter() {
    let filter = filter(200);
    let bits = filter.bytes().len() as u64 * 8;
    let made = SeekIndex::build(&filter, IndexInterval::Entries(4));
    let values: Vec<u64> = (0..filter.range()).step_by(37).collect();
    for level in SimdLevel::available() {
        let filter = filter.clone().with_level(level);
        let ask = |forged: &SeekIndex| {
            // In memory, only the look-up protects against it; any answer is accepted.
            let indexed = filter.with_index(forged).unwrap();
            assert_eq!(indexed.matches_values(&values).len(), values.len());
            for &value in &values {
                let _ = indexed.contains_value(value);
            }
        };
        for position in (0..=bits).chain([u64::MAX - 200, u64::MAX - 8, u64::MAX]) {
            for base in [0, 1, filter.range() - 1, u64::MAX] {
                let mut forged = made.clone();
                table_mut(&mut forged).anchors[0] = Point { position, base };
                ask(&forged);
                assert!(
                    SeekIndex::from_bytes(&forged.to_bytes()).is_err()
                        || (position, base) == (0, 0),
                    "position {position}, base {base}"
                );
            }
        }
        for i in 0..1_000 {
            let mut forged = made.clone();
            // Any 64 bits, including lists, inside and outside of the existing lists.
            let entry = spread(i) >> (i % 64) | (i % 3) << 62;
            table_mut(&mut forged).entries[i as usize % 4] = entry;
            table_mut(&mut forged).points = (0..i % 5)
                .map(|j| Point {
                    position: spread(i + j),
                    base: spread(j),
                })
                .collect();
            ask(&forged);
            if forged != made {
                let read = SeekIndex::from_bytes(&forged.to_bytes());
                // A forged entry that only leads to places of valid entries is accepted: it cannot be detected.
                assert!(
                    read.is_err() || forged.table.points.is_empty(),
                    "{forged:?}"
                );
            }
        }
    }
}

#[test]
fn undecodable_forged_point_falls_back_to_the_filter() {
    let mut astray = 0;
    // With any number of bits in the last byte.
    for n in 2_000..2_016 {
        let filter = filter(n);
        let bits = filter.bytes().len() as u64 * 8;
        let made = SeekIndex::build(&filter, IndexInterval::Entries(64));
        let last = filter.values().last().unwrap();
        for (level, target) in
            SimdLevel::available().flat_map(|level| [(level, last), (level, last - 1)])
        {
            let filter = filter.clone().with_level(level);
            for position in bits - 14..bits {
                let mut forged = made.clone();
                let moved = position.wrapping_sub(made.table.locate(target).position);
                let anchor = table_mut(&mut forged).anchors.last_mut().unwrap();
                anchor.position = anchor.position.wrapping_add(moved);
                let point = forged.table.locate(target);
                if filter.stream().find(point, target).is_ok() {
                    continue;
                }
                astray += 1;
                let indexed = filter.with_index(&forged).unwrap();
                let expected = filter.contains_value(target);
                assert_eq!(indexed.contains_value(target), expected);
                assert_eq!(indexed.planned(1), Strategy::Lookup);
                assert_eq!(indexed.match_any_values(&[target]), expected);
                for count in [1, 5, 300] {
                    let targets = vec![target; count];
                    let found = indexed.matches_values_by(Strategy::Lookup, &targets);
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
    assert!(
        astray > 50 * levels,
        "only {astray} points led astray at {levels} levels"
    );
}

#[test]
fn points_outside_or_backwards_are_rejected() {
    let values = [vec![40_000; 900], (0..900).map(|i| i * 40).collect()].concat();
    let mut values: Vec<u64> = values;
    values.sort_unstable();
    let filter = Filter::from_values(&values, Params::new(4, 40).unwrap()).unwrap();
    let made = SeekIndex::build(&filter, IndexInterval::Items(32));
    assert!(made.table.points.len() > 3, "no lists to test with");
    assert_eq!(SeekIndex::from_bytes(&made.to_bytes()).as_ref(), Ok(&made));
    let refused = |what: &str, change: &dyn Fn(&mut Table)| {
        let mut forged = made.clone();
        change(table_mut(&mut forged));
        assert_ne!(forged, made, "{what}");
        assert!(SeekIndex::from_bytes(&forged.to_bytes()).is_err(), "{what}");
    };
    let len = filter.bytes().len() as u64;
    let range = filter.range();
    refused("a list's point outside", &|t| {
        t.points.last_mut().unwrap().position = len * 8 + 1
    });
    refused("a list's base outside", &|t| {
        t.points.last_mut().unwrap().base = range
    });
    refused("a list that goes backwards", &|t| t.points.reverse());
    // One fault at a time, so that no other check detects it first.
    let list = made.table.points.iter().rposition(|p| p.base == 40_000);
    let list = list.unwrap();
    refused("a base in a list that goes back", &|t| {
        t.points[list].base = t.points[list - 1].base - 1
    });
    refused("a position in a list that goes back", &|t| {
        t.points[list].position = t.points[list - 1].position - 1
    });
    let last = made.table.entries.len() - 1;
    let set_last = |t: &mut Table, position: u64, base: u64| {
        let anchor = t.anchor_of(last).unwrap();
        assert_eq!(t.entries[last] >> 63, 0, "the last entry is one point");
        let position = position - anchor.position;
        t.entries[last] = position << t.layout.base_bits | (base - anchor.base);
    };
    let end = made.table.locate(range - 1);
    refused("a last position outside", &|t| {
        set_last(t, len * 8 + 1, end.base)
    });
    refused("a last base outside", &|t| set_last(t, end.position, range));
    refused("a list too long", &|t| {
        t.points.push(*t.points.last().unwrap())
    });
    refused("a list too short", &|t| {
        t.points.pop();
    });
    refused("an anchor that is not its entry", &|t| {
        t.anchors[0].position += 1
    });
    let at = made
        .table
        .entries
        .iter()
        .position(|e| e >> 63 == 1)
        .unwrap();
    refused("a list not counted", &|t| t.entries[at] -= 1);
    refused("a list that begins elsewhere", &|t| {
        t.entries[at] += 1 << 31
    });
    refused("an entry before the one before it", &|t| {
        t.entries.swap(2, 3)
    });
    refused("an entry outside", &|t| t.entries[2] = u64::MAX >> 1);
    refused("a list without a need", &|t| {
        let first = t.points.len();
        let at = t.entries.len() - 1;
        let point = t.locate(range - 1);
        t.points.push(point);
        t.entries[at] = 1 << 63 | (first as u64) << 31 | 1;
    });
}

#[test]
fn entry_beyond_2_to_the_64_bits_is_rejected() {
    let mut forged = SeekIndex::build(&filter(20_000), IndexInterval::Items(64));
    assert!(forged.table.anchors.len() > 1, "one anchor for all entries");
    // The filter is so long that its last bits are there.
    forged.filter.len = u64::MAX;
    table_mut(&mut forged).anchors[1].position = u64::MAX;
    // The first entry of an anchor is the anchor itself.
    let entry = forged.table.entries_per_anchor() + 1;
    let fault = SeekIndexFault::Entry { entry };
    assert_eq!(
        SeekIndex::from_bytes(&forged.to_bytes()),
        Err(SeekIndexError(fault))
    );
}

#[test]
fn too_many_entries_for_the_filter_are_rejected() {
    let wide = Params::new(19, 784_931).unwrap();
    let wide = Filter::from_values(&[5; 20], wide).unwrap();
    // The bytes are the limit if codes are short, otherwise the items.
    for (filter, most) in [
        (filter(20), 8),
        (wide.with_hasher(RawValues).into_owned(), 20),
    ] {
        let made = SeekIndex::build(&filter, IndexInterval::Entries(20));
        assert_eq!(made.table.entries.len(), most as usize);
        for (entries, allowed) in [(0, false), (1, true), (most, true), (most + 1, false)] {
            // All entries are the start of the filter; everything else is valid.
            let shape = Shape {
                n: filter.n(),
                params: filter.params(),
                entries,
            };
            let mut table = Table::empty(shape);
            let anchors = u64::from(entries).div_ceil(table.entries_per_anchor());
            table.anchors = vec![Point::default(); anchors as usize];
            table.entries = vec![0; entries as usize];
            let forged = SeekIndex {
                filter: made.filter,
                table: Arc::new(table),
            };
            let expected = if allowed {
                Ok(forged.clone())
            } else {
                Err(SeekIndexError(SeekIndexFault::OtherFilter))
            };
            let found = SeekIndex::from_bytes(&forged.to_bytes());
            assert_eq!(found, expected, "{entries} entries");
        }
    }
}

#[test]
fn too_short_bytes_report_the_minimum_length() {
    let bytes = SeekIndex::build(&filter(0), IndexInterval::Entries(1)).to_bytes();
    for len in [0, 8, bytes.len() - 1] {
        let (len, needed) = (len as u64, bytes.len() as u64);
        let fault = SeekIndexFault::TooShort { len, needed };
        let found = SeekIndex::from_bytes(&bytes[..len as usize]);
        assert_eq!(found, Err(SeekIndexError(fault)));
    }
}

#[test]
fn index_of_another_filter_is_rejected() {
    let index = SeekIndex::build(&filter(100), IndexInterval::Entries(4));
    for other in [99, 101] {
        let error = filter(other).with_index(&index).unwrap_err();
        assert_eq!(error.0, SeekIndexFault::OtherFilter);
    }
    // The same numbers, but another set.
    let values: Vec<u64> = filter(100).values().map(|value| value / 2).collect();
    let other = Filter::from_values(&values, filter(100).params()).unwrap();
    assert!(other.with_index(&index).is_err());
    assert!(filter(100).with_index(&index).is_ok());
}

#[test]
fn bytes_damaged_anywhere_are_rejected() {
    let index = SeekIndex::build(&filter(100), IndexInterval::Entries(4));
    let bytes = index.to_bytes();
    assert_eq!(SeekIndex::from_bytes(&bytes), Ok(index));
    for len in 0..bytes.len() {
        assert!(
            SeekIndex::from_bytes(&bytes[..len]).is_err(),
            "cut to {len} bytes"
        );
    }
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(SeekIndex::from_bytes(&damaged).is_err(), "bit {bit}");
    }
}

#[test]
fn version_1_is_rejected_with_its_number() {
    // The shortest version-1 index: a header of 48 bytes, no entry, a checksum.
    for len in [56, 64, 1000] {
        let mut bytes = vec![0; len];
        bytes[..8].copy_from_slice(b"nutfseek");
        bytes[8] = 1;
        let error = SeekIndex::from_bytes(&bytes).unwrap_err();
        assert_eq!(
            error.0,
            SeekIndexFault::Version { version: 1 },
            "{len} bytes"
        );
    }
}

#[test]
fn gaps_read_back_equal_and_damaged_ones_are_rejected() {
    // Two gaps among short codes, so that each is longer than 192 average items.
    let params = Params::new(4, 40).unwrap();
    let n = 20_000_u64;
    let values: Vec<u64> = (0..n).map(|i| i * 8 + i / 7_000 * 300_000).collect();
    let filter = Filter::from_values(&values, params).unwrap();
    let made = SeekIndex::build(&filter, IndexInterval::Items(64));
    let gaps = made.table.gaps.clone();
    assert_eq!(gaps.len(), 2, "{gaps:?}");
    for (gap, last) in gaps.iter().zip([6_999, 13_999]) {
        assert_eq!(gap.from, values[last]);
        assert_eq!(gap.value, values[last + 1]);
    }
    assert_eq!(SeekIndex::from_bytes(&made.to_bytes()).as_ref(), Ok(&made));
    let refused = |what: &str, gap: u64, change: &dyn Fn(&mut Table)| {
        let mut forged = made.clone();
        change(table_mut(&mut forged));
        let fault = SeekIndexFault::Gap { gap };
        assert_eq!(
            SeekIndex::from_bytes(&forged.to_bytes()),
            Err(SeekIndexError(fault)),
            "{what}"
        );
    };
    let len = filter.bytes().len() as u64;
    let range = filter.range();
    refused("out of order", 1, &|t| t.gaps.swap(0, 1));
    refused("short", 0, &|t| t.gaps[0].from = t.gaps[0].value - 100);
    refused("backwards", 0, &|t| t.gaps[0].from = t.gaps[0].value + 1);
    refused("a value outside", 1, &|t| t.gaps[1].value = range);
    refused("a position outside", 1, &|t| {
        t.gaps[1].position = len * 8 + 1
    });
    refused("a position too early", 0, &|t| t.gaps[0].position = 1_000);
}
