//! Every path against the reference, and against implementations that somebody else wrote.

use nutfilter::internals::SimdLevel;
use nutfilter::{Filter, Params, SortedHashes};
use nutfilter_harness::{TARGETS, decode, hashing, params_from, recipe, response};
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};

#[test]
fn all_uses_of_a_hash_agree() {
    let bytes = random_bytes(1, 600);
    // Products are computed in other ways from 2^40 and from 2^52 on.
    let ranges = [0, 40, 52].map(|bits| [(1 << bits) - 1, 1 << bits, (1 << bits) + 1]);
    let ranges = [ranges.as_flattened(), &[784_931_000, 1 << 32, u64::MAX]].concat();
    // Each hash, of a number of items that is known or not.
    for profile in (0..4).chain(16..20) {
        for offset in 0..16 {
            for width in 0..=u8::MAX {
                // More than the widest kernel hashes at once, or any smaller number, with others among them.
                let count = if width % 16 == offset { u8::MAX } else { offset };
                let run = hashing::Run { width, count };
                let other = hashing::Run { width: width ^ offset, count: 9 };
                let case = hashing::Case {
                    profile,
                    level: width.wrapping_add(offset),
                    offset,
                    // Fewer places than items, as many, and more.
                    places: (profile ^ offset) as i8 % 3 - 1,
                    range: ranges[usize::from(width ^ offset) % ranges.len()],
                    key: [profile.into(), width.into()],
                    runs: [run, other, run],
                    bytes: &bytes,
                };
                case.check();
            }
        }
    }
}

/// Also of long runs and of zeros, where decoders differ.
#[test]
fn every_fuzz_target_passes_on_random_inputs() {
    let mut rng = SmallRng::seed_from_u64(3);
    for target in TARGETS {
        for round in 0..2_000 {
            // Long inputs may describe large sets, which take long.
            let len = rng.random_range(0..if round % 4 == 0 { 1_000 } else { recipe::SMALL + 20 });
            let mut bytes = random_bytes(rng.next_u64(), len);
            for _ in 0..rng.random_range(0..4) {
                let (a, b) = (rng.random_range(0..=len), rng.random_range(0..=len));
                bytes[a.min(b)..a.max(b)].fill(if rng.random() { 0xff } else { 0 });
            }
            (target.replay)(&bytes);
        }
    }
}

#[test]
fn decoding_large_recipes_agrees_with_the_reference() {
    let mut rng = SmallRng::seed_from_u64(11);
    for round in 0..400 {
        let (how, n) = (rng.random::<u8>() | 1, rng.random());
        let p = if round % 2 == 0 { 19 } else { rng.random() };
        // Half of them are not damaged at all.
        let bytes = &match round % 4 {
            0 | 1 => vec![0; 48],
            2 => [vec![0; 44], random_bytes(round, recipe::EDIT)].concat(),
            _ => random_bytes(round, 64),
        };
        decode::Case { how, n, p, m: rng.random(), bytes }.check();
    }
}

#[test]
fn lane_end_at_largest_value_differs_from_one_more() {
    let fill = [0; 48];
    // 5,700, 8,000 and 65,500 items. The end is reached at any item.
    for class in [5, 6, 7_u64] {
        for end in [recipe::AT_LARGEST, recipe::AT_RANGE] {
            for (p, fraction) in (0..64).map(|i| ([19, 6, 2][i % 3], i as u64 * 1_023 + 500)) {
                let level = 3;
                let how = 1 | level << 1 | ((fraction % 4) as u8) << 6;
                let (n, m) = (class << 16 | fraction << 32, end | fraction << 16);
                decode::Case { how, n, p, m, bytes: &fill }.check();
            }
        }
    }
}

#[test]
fn decoding_agrees_with_the_reference_on_damaged_filters() {
    let mut rng = SmallRng::seed_from_u64(4);
    for round in 0..3_000 {
        let params = params_from(rng.random(), 1 << rng.random_range(0..26_u32));
        let params = Params::new(params.p(), params.m().min(64 << params.p())).unwrap();
        let n = rng.random_range(0..300_u64);
        let set = SortedHashes::from_hashes((0..n).map(|_| rng.next_u64()).collect());
        let mut bytes = set.encode(params).unwrap().into_bytes();
        let mut declared = n;
        match round % 5 {
            0 => {}
            1 => bytes.truncate(rng.random_range(0..=bytes.len())),
            2 => bytes.extend_from_slice(&[0; 3][..rng.random_range(1..=3)]),
            3 if !bytes.is_empty() => {
                let at = rng.random_range(0..bytes.len());
                bytes[at] ^= 1 << rng.random_range(0..8);
            }
            _ => declared = (declared + rng.random_range(0..3)).saturating_sub(1),
        }
        let (how, p, m) = (rng.random::<u8>() & !1, params.p() as u8, params.m());
        decode::Case { how, n: declared, p, m, bytes: &bytes }.check();
    }
}

#[test]
fn damaged_responses_do_not_panic() {
    const LETTERS: &[u8] = b"0123456789\"{}[],:.-eEnulAz+/=\\ \0\xff\n";
    let mut rng = SmallRng::seed_from_u64(9);
    let set = SortedHashes::from_items((0..50_u8).map(|i| [i; 33]));
    let filter = set.encode(Params::default()).unwrap();
    let json = nutfilter_cashu::FilterResponse::new(&filter, 1_767_225_600).to_json();
    response::Case(json.as_bytes()).check();
    for len in 0..json.len() {
        response::Case(&json.as_bytes()[..len]).check();
    }
    for _ in 0..20_000 {
        let mut changed = json.clone().into_bytes();
        for _ in 0..rng.random_range(1..4) {
            let at = rng.random_range(0..changed.len());
            changed[at] = LETTERS[rng.random_range(0..LETTERS.len())];
        }
        response::Case(&changed).check();
    }
}

/// An iterator decodes values one after another at first, and then ahead in lanes, which the second filter defeats.
#[test]
fn values_are_the_same_from_every_place_on() {
    let params = Params::default();
    let mut random = SmallRng::seed_from_u64(17);
    for n in [65_535_u32, 65_536, 120_000] {
        let mut uniform: Vec<u64> =
            (0..n).map(|_| random.random_range(0..params.range(n))).collect();
        uniform.sort_unstable();
        let equal_deltas = (0..u64::from(n)).map(|i| i * 524_288).collect();
        for (values, level) in [uniform, equal_deltas]
            .iter()
            .flat_map(|values| SimdLevel::available().map(move |level| (values, level)))
        {
            let filter = Filter::from_values(values, params).unwrap().with_level(level);
            let what = || format!("{n} items, {level}");
            assert!(filter.values().eq(values.iter().copied()), "{}", what());
            // 2,048 values come one after another, the others in blocks of about 16,384.
            let places = [1, 127, 2047, 2048, 2049, 4097, 10_000, 18_000, 20_000, 34_000, 60_000];
            for given in places.into_iter().chain([values.len()]) {
                let mut rest = filter.values();
                assert_eq!(rest.nth(given - 1), Some(values[given - 1]), "{}", what());
                assert_eq!(rest.len(), values.len() - given, "{}", what());
                let from_here = rest.clone().fold(Vec::new(), |mut all, value| {
                    all.push(value);
                    all
                });
                assert!(from_here == values[given..], "{}, from {given} on", what());
                assert!(rest.eq(values[given..].iter().copied()), "{}, from {given} on", what());
            }
        }
    }
}

fn random_bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    SmallRng::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}
