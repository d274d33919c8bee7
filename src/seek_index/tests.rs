//! Tests of the index: its cost on any set, the bytes that it accepts, and that forged indexes are harmless.

use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::arch::SimdLevel;
use crate::hash::RawValues;
use crate::matching::{LINE, Line, Point, Strategy};
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

/// Sets with crowded values, with their names.
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
fn look_up_decodes_at_most_one_step_of_items_in_any_set() {
    for (p, m) in SHAPES {
        let params = Params::new(p, m).unwrap();
        for (name, filter) in hostile_sets(2_000, params) {
            for step in [1, 16, 64, 400, 2_000] {
                let table = table_of(&filter, IndexInterval::Items(step));
                let most = u64::from(table.layout.step);
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
fn entry_takes_6_bytes_if_uniform_and_at_most_69_if_hostile() {
    for (p, m) in SHAPES {
        let params = Params::new(p, m).unwrap();
        for (name, filter) in hostile_sets(2_000, params) {
            for step in [1, 16, 64, 400, 2_000].map(IndexInterval::Items) {
                let table = table_of(&filter, step);
                let (size, points) = (table.size(), table.points);
                let context = (name, params, step, size, points);
                // 24 of them for a gap.
                assert!(size <= (69 + 24) * points + 64, "{context:?}");
                assert!(size <= 48 * (filter.bytes().len() + 1) + 69, "{context:?}");
            }
        }
        let values: Vec<u64> = (0..100_000).map(|i| i * m + spread(i) % m).collect();
        let filter = Filter::from_values(&values, params).unwrap();
        for step in [8, 16, 64] {
            let table = table_of(&filter, IndexInterval::Items(step));
            let (size, points) = (table.size(), table.points);
            // Eleven points in a line, or eight with a large M.
            let most = if p < 20 { 6.4 } else { 8.8 };
            assert!(
                size as f64 <= most * points as f64,
                "{params:?}, {step}: {size}, {points}"
            );
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
        assert_eq!(SeekIndex::build(&filter, step).len(), entries, "{step:?}");
    }
    // Eight items per byte.
    let tiny = Filter::from_values(&vec![0; long], Params::new(0, 1).unwrap()).unwrap();
    assert_eq!(tiny.bytes().len(), long / 8);
    assert_eq!(
        SeekIndex::build(&tiny, IndexInterval::Items(1)).len(),
        long / 16
    );
}

#[test]
fn index_takes_the_documented_bits_per_item() {
    let values: Vec<u64> = (0..100_000)
        .map(|i| i * 784_931 + spread(i) % 784_931)
        .collect();
    let filter = Filter::from_values(&values, Params::default()).unwrap();
    for (step, bits) in [(8, 6.3), (16, 3.2), (64, 0.8)] {
        let index = SeekIndex::build(&filter, IndexInterval::Items(step));
        let taken = index.bits_per_item();
        assert!((taken - bits).abs() < 0.06, "{step}: {taken} bits an item");
        // The directory is not stored.
        let stored = index.to_bytes().len() as f64 * 8.0 / 100_000.0;
        assert!(stored < taken && stored > taken * 0.9, "{step}: {stored}");
    }
    let default = SeekIndex::build(&filter, IndexInterval::default());
    assert_eq!(default, SeekIndex::build(&filter, IndexInterval::Items(16)));
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
fn forged_lines_never_read_outside_the_filter() {
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
        for position in (0..=bits).chain([(1 << 48) - 1]) {
            for base in [0, 1, filter.range() - 1, u64::MAX] {
                let mut forged = made.clone();
                table_mut(&mut forged).lines[0] = Line::new(Point { position, base });
                ask(&forged);
                let read = SeekIndex::from_bytes(&forged.to_bytes());
                assert_eq!(read.is_err(), (position, base) != (0, 0));
            }
        }
        for i in 0..1_000 {
            let mut forged = made.clone();
            let line = &mut table_mut(&mut forged).lines[0].0;
            // Some of the bytes of the first point, or of the entries.
            let from = [0, 14][i as usize % 2];
            for at in (from..LINE).step_by(1 + i as usize % 7) {
                line[at] ^= (spread(i * 64 + at as u64) >> (i % 50)) as u8;
            }
            ask(&forged);
            if let Ok(read) = SeekIndex::from_bytes(&forged.to_bytes()) {
                // Points between their neighbours cannot be told from true ones.
                ask(&read);
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
                let Point { base, .. } = made.table.locate(target);
                let last = table_mut(&mut forged).lines.last_mut().unwrap();
                *last = Line::new(Point { position, base });
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
fn lines_outside_backwards_or_in_another_form_are_rejected() {
    let values = [vec![40_000; 900], (0..900).map(|i| i * 40).collect()].concat();
    let mut values: Vec<u64> = values;
    values.sort_unstable();
    let filter = Filter::from_values(&values, Params::new(4, 40).unwrap()).unwrap();
    let made = SeekIndex::build(&filter, IndexInterval::Items(32));
    let lines = made.table.lines.len();
    assert!(lines > 3);
    assert_eq!(SeekIndex::from_bytes(&made.to_bytes()).as_ref(), Ok(&made));
    let refused = |what: &str, line: usize, change: &dyn Fn(&mut Vec<Line>)| {
        let mut forged = made.clone();
        change(&mut table_mut(&mut forged).lines);
        assert_ne!(forged, made, "{what}");
        let fault = SeekIndexFault::Line { line: line as u64 };
        let read = SeekIndex::from_bytes(&forged.to_bytes());
        assert_eq!(read, Err(SeekIndexError(fault)), "{what}");
    };
    let layout = made.table.layout;
    let points: Vec<Vec<Point>> = made
        .table
        .lines
        .iter()
        .map(|l| l.points(layout).collect())
        .collect();
    let bits = filter.bytes().len() as u64 * 8;
    let range = filter.range();
    let last = lines - 1;
    let Point { position, base } = points[last][0];
    refused("a position outside", last, &|l| {
        l[last] = Line::new(Point {
            position: bits + 1,
            base,
        })
    });
    refused("a base outside", last, &|l| {
        l[last] = Line::new(Point {
            position,
            base: range,
        })
    });
    refused("lines in another order", 2, &|l| l.swap(1, 2));
    refused("a line twice", 2, &|l| l[2] = l[1]);
    refused("another first line", 0, &|l| l[0] = l[1]);
    refused("a line that is not full", 2, &|l| {
        l[1] = Line::new(points[1][0]);
        l[2] = Line::new(points[1][1]);
    });
    refused("an entry that goes back", 1, &|l| {
        // The top words of the last two entries.
        let (a, b) = l[1].0.split_at_mut(LINE - 4);
        a[LINE - 8..].swap_with_slice(b);
    });
    refused("an unused entry that is not all ones", last, &|l| {
        let full = points[0].len();
        assert!(points[last].len() < full - 1);
        l[last].0[LINE - 1] = 0x7f;
    });
}

#[test]
fn lines_without_items_and_items_without_lines_are_rejected() {
    let (none, some) = (filter(0), filter(20));
    let build = |filter| SeekIndex::build(filter, IndexInterval::Items(8));
    let (none, some) = (build(&none), build(&some));
    for (filter, table) in [(&none, &some), (&some, &none)] {
        let forged = SeekIndex {
            filter: filter.filter,
            table: table.table.clone(),
        };
        let read = SeekIndex::from_bytes(&forged.to_bytes());
        assert_eq!(read, Err(SeekIndexError(SeekIndexFault::OtherFilter)));
    }
}

#[test]
fn intervals_that_no_build_makes_are_rejected() {
    let made = SeekIndex::build(&filter(1000), IndexInterval::Items(16));
    assert!(SeekIndex::from_bytes(&made.to_bytes()).is_ok());
    for step in [0, 1, 7, 15, 17, 1008, u32::MAX] {
        let mut forged = made.clone();
        let lines = made.table.lines.clone();
        *table_mut(&mut forged) = Table::empty(made.filter.params, step);
        table_mut(&mut forged).lines = lines;
        let read = SeekIndex::from_bytes(&forged.to_bytes());
        assert_eq!(
            read,
            Err(SeekIndexError(SeekIndexFault::OtherFilter)),
            "{step}"
        );
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
fn older_versions_are_rejected_with_their_number() {
    // The shortest version-1 index: a header of 48 bytes, no entry, a checksum.
    for (len, version) in [(56, 1), (64, 1), (1000, 3)] {
        let mut bytes = vec![0; len];
        bytes[..8].copy_from_slice(b"nutfseek");
        bytes[8] = version;
        let fault = SeekIndexFault::Version {
            version: u32::from(version),
        };
        let read = SeekIndex::from_bytes(&bytes);
        assert_eq!(read, Err(SeekIndexError(fault)), "{len} bytes");
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
