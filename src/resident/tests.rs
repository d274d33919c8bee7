//! Tests of the resident filter: exact answers on any set at every level, and what its bytes may be.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::error::ResidentErrorKind;
use crate::hash::{RawValues, fingerprint};
use crate::params::Params;
use crate::sorted_hashes::SortedHashes;

type Raw = Filter<Vec<u8>, RawValues>;

fn filter_of(mut values: Vec<u64>, m: u64) -> Raw {
    values.sort_unstable();
    Filter::from_values(&values, Params::with_best_p(m).unwrap()).unwrap()
}

/// Checks all answers about values of the set, their neighbours, and the ends of the range.
fn check(filter: &Raw, what: &str) {
    let values: Vec<u64> = filter.values().collect();
    let around = values.iter().flat_map(|&v| [v.saturating_sub(1), v, v + 1]);
    let ends = [0, 1, filter.range(), filter.range() + 1, u64::MAX];
    let targets: Vec<u64> = around.chain(ends).collect();
    let is_member = |target: &u64| values.binary_search(target).is_ok();
    let expected: Vec<bool> = targets.iter().map(is_member).collect();
    let mut bytes = None;
    for level in SimdLevel::available() {
        let resident = filter.clone().with_level(level).to_resident().unwrap();
        // Two lines for the look-ups of each, one of them read from any address.
        let stored = [&[0], resident.bytes()].concat();
        let read = ResidentFilter::from_bytes_with(RawValues, &stored[1..]).unwrap();
        let read = read.with_level(level);
        assert_eq!(read.matches_values(&targets), expected, "{what}, {level}");
        assert_eq!(resident.matches_values(&targets), expected, "{what}, {level}");
        for (&target, &expected) in targets.iter().zip(&expected) {
            let found = resident.contains_value(target);
            assert_eq!(found, expected, "{target} of {what}, {level}");
        }
        let absent = targets.iter().zip(&expected).filter(|(_, found)| !**found);
        let absent: Vec<u64> = absent.map(|(&target, _)| target).collect();
        assert!(!resident.match_any_values(&absent), "{what}, {level}");
        let with_last = [&absent[..], &values[values.len().saturating_sub(1)..]].concat();
        let any = resident.match_any_values(&with_last);
        assert_eq!(any, !values.is_empty(), "{what}, {level}");
        let owned = read.into_owned();
        assert_eq!(owned.bytes(), resident.bytes(), "{what}, {level}");
        let first = bytes.get_or_insert_with(|| stored.clone());
        assert!(*first == stored, "other bytes: {what}, {level}");
    }
}

/// The smallest values of the set in each line have these numbers of distinct values.
fn values_in_lines(shape: &Shape, counts: &[u64]) -> Vec<u64> {
    let lines = counts.iter().enumerate().flat_map(|(line, &count)| {
        let start = (u128::from(line as u64) << 64).div_ceil(u128::from(shape.scale)) as u64;
        (0..count).map(move |i| start + i)
    });
    lines.collect()
}

#[test]
fn answers_are_exact_where_lines_overflow() {
    let m = 784_931;
    for counts in [
        [20, 1, 0, 0],
        [21, 0, 0, 1],
        [22, 0, 1, 0],
        [41, 0, 0, 0],
        [41, 21, 0, 0],
        [41, 1, 21, 0],
        [41, 2, 20, 0],
        [42, 0, 0, 0],
        [42, 22, 1, 0],
        [61, 61, 61, 61],
        [41, 41, 41, 41],
        [100, 0, 0, 0],
        [0, 300, 3, 100],
        [0, 0, 41, 41],
        [0, 0, 0, 100],
        [1, 22, 21, 41],
    ] {
        // So many that there are four lines; the rest are copies of the largest value.
        let n = 60.max(counts.iter().sum::<u64>() as u32);
        let shape = Shape::new(n, m).unwrap();
        let mut values = values_in_lines(&shape, &counts);
        let largest = *values.last().unwrap();
        values.resize(n as usize, largest);
        let filter = filter_of(values, m);
        check(&filter, &format!("{counts:?}"));
        // What does not fit in a line and the next one.
        let mut earlier = 0;
        let over = counts.iter().map(|&count| {
            let total: u64 = earlier + count;
            earlier = total.saturating_sub(21).min(20);
            total.saturating_sub(41)
        });
        let over: u64 = over.sum();
        assert_eq!(filter.to_resident().unwrap().exceptions as u64, over, "{counts:?}");
    }
}

#[test]
fn crowded_values_are_refused_beyond_a_share() {
    for (n, most) in [(3_000, FEW), (100_000, 12_500)] {
        let shape = Shape::new(n, 784_931).unwrap();
        for over in [most, most + 1] {
            // One line is full; the rest of the items have one value in the last line.
            let mut values = values_in_lines(&shape, &[41 + over]);
            values.resize(n as usize, shape.range - 1);
            let made = filter_of(values, 784_931).to_resident();
            match over > most {
                false => assert_eq!(made.unwrap().exceptions as u64, most),
                true => {
                    let fault = ResidentFault::Crowded { n, exceptions: over };
                    assert_eq!(made.err(), Some(ResidentError(fault)));
                }
            }
        }
    }
    let few = Filter::from_values(&[1], Params::new(20, MOST_M + 1).unwrap()).unwrap();
    let error = few.to_resident().unwrap_err();
    assert_eq!(error.kind(), ResidentErrorKind::Unsuitable);
    assert!(format!("{error}").contains("1048577") && format!("{error}").contains("1048576"));
}

#[test]
fn items_match_as_in_the_filter() {
    let items: Vec<[u8; 33]> =
        (0..3000_u16).map(|i| core::array::from_fn(|at| (i >> (at % 2 * 8)) as u8)).collect();
    let (members, absent) = items.split_at(1500);
    let filter = SortedHashes::from_items(members).encode(Params::CASHU).unwrap();
    for level in SimdLevel::available() {
        let resident = filter.to_resident().unwrap().with_level(level);
        assert_eq!(resident.matches(&items), filter.matches(&items), "{level}");
        assert!(items.iter().all(|item| resident.contains(item) == filter.contains(item)));
        assert!(resident.match_any(&items) && !resident.match_any(absent), "{level}");
        assert!(resident.match_any(&items[1499..]), "{level}");
        // Of other lengths, so through the other code of the hash.
        let short: Vec<&[u8]> = items.iter().map(|item| &item[..7]).collect();
        assert_eq!(resident.matches(&short), filter.matches(&short), "{level}");
        assert!(short.iter().all(|item| resident.contains(item) == filter.contains(item)));
    }
}

fn read(bytes: &[u8]) -> Result<ResidentFilter<&[u8], RawValues>, ResidentError> {
    ResidentFilter::from_bytes_with(RawValues, bytes)
}

fn seal(bytes: &mut [u8]) {
    let body = bytes.len() - 8;
    let checksum = fingerprint(&bytes[..body]).to_le_bytes();
    bytes[body..].copy_from_slice(&checksum);
}

/// A filter with a full line, exceptions, an empty line and usual ones.
fn some_bytes() -> Vec<u8> {
    let shape = Shape::new(120, 784_931).unwrap();
    let mut values = values_in_lines(&shape, &[50, 0, 22, 1]);
    values.resize_with(120, || shape.range - 1);
    let resident = filter_of(values, 784_931).to_resident().unwrap();
    assert_eq!(resident.exceptions, 9);
    resident.bytes().to_vec()
}

#[test]
fn damaged_bytes_are_refused() {
    let whole = some_bytes();
    assert!(read(&whole).is_ok());
    for len in 0..whole.len() {
        assert!(read(&whole[..len]).is_err(), "{len} bytes");
    }
    assert!(read(&[&whole[..], &[0; 64]].concat()).is_err());
    for bit in 0..8 * whole.len() {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(read(&bytes).is_err(), "bit {bit}");
    }
    let class = |at: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        read(&bytes).unwrap_err().kind()
    };
    assert_eq!(class(0, 0), ResidentErrorKind::NotResident);
    assert_eq!(class(8, 2), ResidentErrorKind::Version);
    assert_eq!(class(100, 77), ResidentErrorKind::Damaged);
    assert_eq!(read(b"nutflook").unwrap_err().kind(), ResidentErrorKind::Damaged);
}

#[test]
fn forged_bytes_hold_one_form_of_a_set_or_are_refused() {
    let whole = some_bytes();
    let (mut accepted, mut refused) = (0, 0);
    for bit in 0..8 * (whole.len() - 8) {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        seal(&mut bytes);
        let Ok(resident) = read(&bytes) else {
            refused += 1;
            continue;
        };
        accepted += 1;
        // The values that have a key; a tag that no value has does no harm.
        let Shape { range, scale, lines, .. } = resident.shape;
        let keys = bytes[64..].as_chunks::<64>().0[..=lines as usize].iter().enumerate();
        let values: Vec<u64> = keys
            .flat_map(|(line, bytes)| {
                let first_own = usize::from(bytes[COUNTS] & FIRST_OWN);
                let of = move |(slot, tag)| {
                    let line = line - usize::from(slot < first_own && line > 0);
                    (line as u64) << TAG | u64::from(tag)
                };
                bytes::tags(bytes).into_iter().enumerate().map(of)
            })
            .map(|key| (u128::from(key) << (64 - TAG)).div_ceil(u128::from(scale)) as u64)
            .filter(|&value| value < range)
            .collect();
        for level in SimdLevel::available() {
            let resident = read(&bytes).unwrap().with_level(level);
            let answers = resident.matches_values(&values);
            let single = values.iter().map(|&value| resident.contains_value(value));
            assert!(single.eq(answers), "bit {bit}, {level}");
        }
    }
    assert!(accepted > 50 && refused > 5000, "{accepted} accepted, {refused} refused");
}

#[test]
fn forged_counts_and_padding_are_refused() {
    let whole = some_bytes();
    let forged = |at: usize, new: &[u8]| {
        let mut bytes = whole.clone();
        bytes[at..at + new.len()].copy_from_slice(new);
        seal(&mut bytes);
        read(&bytes).err()
    };
    for n in [0, 1, 100, 119, 2000, u32::MAX] {
        assert!(forged(12, &n.to_le_bytes()).is_some(), "N = {n}");
    }
    // With as many lines and enough items, but another range: other values, in the same form.
    assert_eq!(forged(12, &121_u32.to_le_bytes()), None);
    for m in [0, MOST_M as u32 + 1, u32::MAX] {
        assert!(forged(16, &m.to_le_bytes()).is_some(), "M = {m}");
    }
    for count in [0, 8, 10, 14, 1 << 40, u64::MAX] {
        assert!(forged(24, &count.to_le_bytes()).is_some(), "{count} exceptions");
    }
    for at in (20..24).chain(32..64).chain(whole.len() - 56..whole.len() - 8) {
        assert!(forged(at, &[1]).is_some(), "byte {at}");
    }
    // Fewer items than tags.
    let filter = filter_of(vec![1, 5, 9], 784_931);
    let mut bytes = filter.to_resident().unwrap().bytes().to_vec();
    bytes[12] = 2;
    seal(&mut bytes);
    let (n, items) = (2, 3);
    assert_eq!(read(&bytes).err(), Some(ResidentError(ResidentFault::TooManyItems { n, items })));
}
