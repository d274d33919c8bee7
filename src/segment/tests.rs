//! Segments against a slow model: sorted sets of numbers, and the reference coder.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use super::universe::best_remainder_bits;
use super::*;
use crate::gcs;
use crate::splitmix::{Random, noise};

fn universe(width: u32) -> Universe {
    Universe::new(width).unwrap()
}

/// The sizes and widths of most tests: empty, single, dense, full, sparse, P on both sides of 32.
const SHAPES: [(usize, u32); 14] = [
    (0, 8),
    (0, 56),
    (1, 8),
    (1, 56),
    (256, 8),
    (5_000, 8),
    (2, 33),
    (100, 20),
    (3_000, 45),
    (3_000, 46),
    (3_000, 56),
    (20_000, 17),
    (20_000, 34),
    (100_000, 50),
];

/// The bytes of the segment of these hashes, by the reference.
fn reference_bytes(width: u32, hashes: &[u64]) -> Vec<u8> {
    let values: BTreeSet<u64> = hashes.iter().map(|hash| hash >> (64 - width)).collect();
    let (n, values) = (values.len() as u32, Vec::from_iter(values));
    let p = universe(width).remainder_bits(n);
    let code = nutfilter_reference::encode_values(&values, p);
    file(width as u8, p as u8, n, &code)
}

/// A file with these fields around a code.
fn file(width: u8, p: u8, n: u32, code: &[u8]) -> Vec<u8> {
    let mut file = gcs::head(gcs::KIND_SEGMENT).to_vec();
    file.extend([width, p]);
    file.extend(n.to_le_bytes());
    file.extend(code);
    gcs::seal(&mut file);
    file
}

fn levels() -> impl Iterator<Item = SimdLevel> {
    SimdLevel::available()
}

#[test]
fn p_is_the_best_p_of_params_at_whole_gaps() {
    let switches = (0..31).map(|p| (2.078_087 * (1_u64 << p) as f64) as u64);
    let near = switches.flat_map(|m| m.saturating_sub(4).max(1)..m + 5);
    for m in (1..5_000).chain(near).chain([784_931]) {
        let expected = Params::best_p(m).unwrap();
        for n in [1, 3, 1_000] {
            assert_eq!(
                best_remainder_bits(m * u64::from(n), n),
                expected,
                "{m}, {n}"
            );
        }
    }
    assert_eq!(
        universe(32).remainder_bits(1 << 12),
        Params::best_p(1 << 20).unwrap()
    );
}

#[test]
fn example_of_the_specification_has_its_bytes() {
    let hashes = [0xdce0, 0x1a2b, 0x1a2c].map(|prefix| prefix << 48);
    let segment = Segment::from_hashes(universe(16), hashes.to_vec()).unwrap();
    let hex: Vec<_> = segment
        .to_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let specification = include_str!("../../docs/format-segments.md");
    assert!(
        specification.contains(&format!("file: {}", hex.join(" "))),
        "{hex:?}"
    );
}

#[test]
fn p_never_exceeds_the_longest_readable_remainder() {
    for width in Universe::MIN_WIDTH..=Universe::MAX_WIDTH {
        assert_eq!(universe(width).remainder_bits(0), 0);
        assert_eq!(universe(width).remainder_bits(1), width - 1);
    }
    assert_eq!(universe(32).remainder_bits(u32::MAX), 0);
}

#[test]
fn width_outside_the_limits_is_refused() {
    for width in [0, 7, 57, 64, u32::MAX] {
        let error = Universe::new(width).unwrap_err().to_string();
        assert!(
            error.contains(&width.to_string()) && error.contains("8 to 56"),
            "{error}"
        );
    }
}

#[test]
fn bytes_equal_the_reference_at_every_level() {
    for (round, (n, width)) in SHAPES.into_iter().enumerate() {
        let hashes: Vec<u64> = noise(round as u64).take(n).collect();
        let expected = reference_bytes(width, &hashes);
        for level in levels() {
            let made = Segment::build(level, universe(width), hashes.clone()).unwrap();
            assert!(
                made.to_bytes() == expected,
                "{level}, {n} hashes, {width} bits"
            );
            assert_eq!(made.file_bytes(), expected.len());
            let read = Segment::parse(&expected).unwrap();
            assert!(
                read == made && read.to_bytes() == expected,
                "{n} hashes, {width} bits"
            );
        }
    }
}

#[test]
fn members_match_and_others_match_by_value() {
    for (round, (n, width)) in SHAPES.into_iter().enumerate() {
        let hashes: Vec<u64> = noise(round as u64).take(n).collect();
        let values: BTreeSet<u64> = hashes.iter().map(|hash| hash >> (64 - width)).collect();
        let others = noise(round as u64 + 100).take(300);
        // Neighbours of members, which differ only in the last bits of the value or below.
        let near = hashes
            .iter()
            .take(300)
            .flat_map(|hash| [1, 1 << (64 - width)].map(|step| hash.wrapping_add(step)));
        let targets: Vec<u64> = hashes
            .iter()
            .copied()
            .take(5_000)
            .chain(others)
            .chain(near)
            .collect();
        let expected: Vec<bool> = targets
            .iter()
            .map(|hash| values.contains(&(hash >> (64 - width))))
            .collect();
        for level in levels() {
            let what = || format!("{level}, {n} hashes, {width} bits");
            let segment = Segment::build(level, universe(width), hashes.clone()).unwrap();
            assert!(segment.values().eq(values.iter().copied()), "{}", what());
            assert!(segment.matches(&targets) == expected, "{}", what());
            for few in [1, 3, 40] {
                let few = few.min(targets.len());
                assert!(
                    segment.matches(&targets[..few]) == expected[..few],
                    "{}",
                    what()
                );
            }
            let indexed = segment.clone().into_indexed(IndexInterval::Items(64));
            assert!(indexed.matches(&targets) == expected, "{}", what());
            for (target, &expected) in targets.iter().zip(&expected).step_by(97) {
                assert_eq!(segment.contains(*target), expected, "{}", what());
                assert_eq!(indexed.contains(*target), expected, "{}", what());
            }
        }
    }
}

#[test]
fn merge_equals_the_segment_of_the_union() {
    for (round, (n, width)) in SHAPES.into_iter().enumerate() {
        let hashes: Vec<u64> = noise(round as u64).take(n).collect();
        let mut random = Random::new(round as u64);
        for parts in [1, 2, 3, 17] {
            // Every hash is in one part, and about a quarter of them in a second one.
            let mut shares = vec![Vec::new(); parts];
            for &hash in &hashes {
                shares[random.below(parts as u64) as usize].push(hash);
                if random.below(4) == 0 {
                    shares[random.below(parts as u64) as usize].push(hash);
                }
            }
            for level in levels() {
                let whole = Segment::build(level, universe(width), hashes.clone()).unwrap();
                let build = |share: &Vec<u64>| {
                    Segment::build(level, universe(width), share.clone()).unwrap()
                };
                let segments: Vec<_> = shares.iter().map(build).collect();
                let merged = Segment::merge(&segments).unwrap();
                let what = || format!("{level}, {n} hashes, {width} bits, {parts} parts");
                assert!(merged.to_bytes() == whole.to_bytes(), "{}", what());

                let mut reversed = segments.clone();
                reversed.reverse();
                assert!(Segment::merge(&reversed).unwrap() == whole, "{}", what());
                let (left, right) = segments.split_at(parts.div_ceil(2));
                let left = Segment::merge(left).unwrap();
                let nested = match right {
                    [] => left,
                    _ => Segment::merge(&[left, Segment::merge(right).unwrap()]).unwrap(),
                };
                assert!(nested == whole, "{}", what());
                let twice = [merged.clone(), merged];
                assert!(Segment::merge(&twice).unwrap() == whole, "{}", what());
            }
        }
    }
}

#[test]
fn fold_equals_the_segment_built_at_the_smaller_width() {
    for (round, (n, width)) in SHAPES.into_iter().enumerate() {
        let hashes: Vec<u64> = noise(round as u64).take(n).collect();
        for level in levels() {
            let segment = Segment::build(level, universe(width), hashes.clone()).unwrap();
            for smaller in [8, 9, 16, 31, 44, 55].into_iter().filter(|&w| w <= width) {
                let folded = segment.fold(universe(smaller)).unwrap();
                let built = Segment::build(level, universe(smaller), hashes.clone()).unwrap();
                assert!(
                    folded.to_bytes() == built.to_bytes(),
                    "{level}, {n} hashes, {width} to {smaller} bits"
                );
            }
            assert!(segment.fold(universe(width)).unwrap() == segment);
        }
    }
}

#[test]
fn difference_and_intersection_follow_the_sets() {
    for (n, width) in [(0, 8), (40, 8), (3_000, 14), (3_000, 40)] {
        let (a, b): (Vec<u64>, Vec<u64>) = (
            noise(1).take(n).collect(),
            noise(1).skip(n / 2).take(n).collect(),
        );
        let set = |hashes: &[u64]| -> BTreeSet<u64> {
            hashes.iter().map(|hash| hash >> (64 - width)).collect()
        };
        let build =
            |hashes: &[u64]| Segment::from_hashes(universe(width), hashes.to_vec()).unwrap();
        let (first, second) = (build(&a), build(&b));
        let new = first.difference(&second).unwrap();
        assert!(
            new.values().eq(set(&a).difference(&set(&b)).copied()),
            "{n}, {width}"
        );
        let common = first.intersection(&second).unwrap();
        assert!(
            common.values().eq(set(&a).intersection(&set(&b)).copied()),
            "{n}, {width}"
        );
    }
}

#[test]
fn operations_that_do_not_apply_are_refused_with_both_widths() {
    let (narrow, wide) = (universe(20), universe(30));
    let narrow = Segment::from_hashes(narrow, vec![1]).unwrap();
    let wide = Segment::from_hashes(wide, vec![1]).unwrap();
    let says = |error: SegmentError, words: &[&str]| {
        let text = error.to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
        assert!(!text.contains('\n') && !text.ends_with('.'), "{text}");
    };
    says(
        narrow.fold(wide.universe()).unwrap_err(),
        &["20", "30", "fold"],
    );
    says(narrow.difference(&wide).unwrap_err(), &["20", "30"]);
    says(Segment::merge(&[narrow, wide]).unwrap_err(), &["20", "30"]);
    says(
        Segment::merge::<Vec<u8>>(&[]).unwrap_err(),
        &["no segments"],
    );
}

#[test]
fn bytes_that_are_not_canonical_are_refused() {
    let p = |n| universe(8).remainder_bits(n) as u8;
    assert_eq!((p(0), p(1), p(2), p(256)), (0, 7, 6, 0));
    let says = |file: &[u8], words: &[&str]| {
        let error = Segment::parse(file).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
        assert!(!error.contains('\n') && !error.ends_with('.'), "{error}");
    };
    assert_eq!(
        Segment::parse(&file(8, 7, 1, &[0x55]))
            .unwrap()
            .values()
            .next(),
        Some(0x55)
    );
    says(&file(8, 6, 1, &[0x55]), &["P = 6", "P = 7"]);
    says(&file(7, 6, 1, &[0x55]), &["7", "8 to 56"]);
    says(&file(57, 55, 1, &[0x55]), &["57", "8 to 56"]);
    says(&file(8, 0, 257, &[0; 40]), &["257", "8 bits"]);
    says(&file(8, 0, 0, &[0]), &["0 items", "1"]);
    says(&file(8, 7, 1, &[0x55, 0]), &["bit 8", "bit 16"]);
    says(&file(8, 7, 1, &[]), &["has 0"]);
    // Two values, 0 and 63, then one padding bit too many.
    assert_eq!(
        Segment::parse(&file(8, 6, 2, &[0x00, 0xfc])).unwrap().n(),
        2
    );
    says(&file(8, 6, 2, &[0x00, 0xfd]), &["pad"]);
    says(&file(8, 6, 2, &[0x00, 0x00]), &["value 1", "repeats"]);
    says(&file(8, 6, 2, &[0x7c, 0x00]), &["value 1", "repeats"]);
    // Gaps of 255 and 1: the second value is 256.
    says(
        &file(8, 6, 2, &[0b1110_1111, 0b1100_0000, 0b1000_0000]),
        &["item 1", "256"],
    );
    for end in 0..20 {
        assert!(Segment::parse(&file(8, 7, 1, &[0x55])[..end]).is_err());
    }
    let mut short = gcs::head(gcs::KIND_SEGMENT).to_vec();
    short.extend([8, 7, 1, 0, 0]);
    gcs::seal(&mut short);
    says(&short, &["6 bytes", "5"]);
    let mut other = file(8, 7, 1, &[0x55]);
    other.truncate(other.len() - 4);
    other[9] = 1;
    gcs::seal(&mut other);
    says(&other, &["kind 1"]);
    let mut damaged = file(8, 7, 1, &[0x55]);
    damaged[16] ^= 1;
    says(&damaged, &["checksum"]);
    damaged[8] = 2;
    says(&damaged, &["version 2"]);
    says(b"text", &["not a .gcs file"]);
    says(b"\x89GCS\n\x1a\n\x01\x02\x08\x00", &["line endings"]);
}

#[test]
fn repeated_value_is_found_at_every_place_and_level() {
    let values: Vec<u64> = (0..40_000).map(|i| i * 1000 + 7).collect();
    let n = values.len() as u32;
    let params = universe(56).params(n);
    for at in [1, 2, 127, 128, 129, 4_095, 20_000, 39_999] {
        let mut values = values.clone();
        values[at] = values[at - 1];
        let hashes: Vec<u64> = values.iter().map(|value| value << 8).collect();
        let code = encode::encode_hashes(SimdLevel::SCALAR, &hashes, params)
            .unwrap()
            .bytes;
        for level in levels() {
            let unvalidated = Filter::check_length_with((), &code, n.into(), params).unwrap();
            let checked = unvalidated.with_level(level).validate_distinct().unwrap();
            assert_eq!(checked.err(), Some(at as u64), "{level}");
        }
    }
}

#[test]
fn accepted_bytes_encode_to_themselves() {
    // All codes of one to three bytes of small segments, valid or not.
    for n in 0..4_u32 {
        let p = universe(8).remainder_bits(n) as u8;
        let mut accepted = 0;
        for len in 0..3 {
            for code in 0..1_u32 << (8 * len) {
                let bytes = file(8, p, n, &code.to_be_bytes()[4 - len..]);
                if let Ok(segment) = Segment::parse(&bytes) {
                    accepted += 1;
                    assert_eq!(segment.to_bytes(), bytes);
                    let hashes = segment.values().map(|value| value << 56).collect();
                    let built = Segment::from_hashes(universe(8), hashes).unwrap();
                    assert_eq!(built.to_bytes(), bytes);
                }
            }
        }
        // The codes of two values that fit in two bytes: 14 bits and at most two for quotients.
        let pairs = (0..256).flat_map(|first| (first + 1..256).map(move |second| (first, second)));
        let short = pairs.filter(|(first, second)| (first >> 6) + ((second - first) >> 6) <= 2);
        let sets = [1, 256, short.count()];
        if let Some(&sets) = sets.get(n as usize) {
            assert_eq!(accepted, sets, "n = {n}");
        }
    }
}

#[test]
fn segment_encoded_in_pieces_has_the_same_bytes() {
    for (n, width) in SHAPES {
        let universe = universe(width);
        let mut hashes: Vec<u64> = noise(n as u64 + 5).take(n).collect();
        // Distinct hashes of one value, on both sides of a border between pieces.
        hashes.extend(hashes.clone().iter().map(|hash| hash ^ 1));
        hashes.sort_unstable();
        let expected = Segment::from_hashes(universe, hashes.clone()).unwrap();
        for length in [1, 7, 1_000, usize::MAX] {
            let mut bytes = Vec::new();
            let mut write = |piece: &[u8]| {
                bytes.extend_from_slice(piece);
                Ok::<(), BuildError>(())
            };
            let mut encoder = SegmentEncoder::new(universe, expected.n());
            for piece in hashes.chunks(length) {
                encoder.push_hashes(piece, &mut write).unwrap();
            }
            encoder.finish(&mut write).unwrap();
            assert_eq!(
                bytes,
                expected.to_bytes(),
                "{n} values, w = {width}, pieces of {length}"
            );
        }
        let encoder = SegmentEncoder::new(universe, expected.n() + 1);
        assert!(encoder.finish(|_| Ok::<(), BuildError>(())).is_err());
    }
}
