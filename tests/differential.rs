//! Every path against the reference, and against implementations that somebody else wrote.

use nutfilter::internals::SimdLevel;
use nutfilter::{Filter, Params, SortedHashes};
use nutfilter_harness::{
    bip158, decode, encode, hashing, matching, params_from, recipe, resident, response,
};
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};

#[test]
fn all_uses_of_a_hash_agree() {
    let bytes = random_bytes(1, 600);
    // Each hash, of a number of items that is known or not.
    for profile in (0..4).chain(16..20) {
        for offset in 0..16 {
            for width in 0..=u8::MAX {
                let run = hashing::Run { width, count: 2 };
                let case = hashing::Case {
                    profile,
                    level: width.wrapping_add(offset),
                    offset,
                    // Fewer places than items, as many, and more.
                    places: (profile ^ offset) as i8 % 3 - 1,
                    range: 784_931_000,
                    key: [profile.into(), width.into()],
                    runs: [run; 3],
                    bytes: &bytes,
                };
                case.check();
            }
        }
    }
}

#[test]
fn decoding_agrees_with_the_reference_on_any_bytes() {
    let mut rng = SmallRng::seed_from_u64(3);
    for _ in 0..8_000 {
        let len = rng.random_range(0..80);
        let mut bytes = random_bytes(rng.next_u64(), len);
        // Random bytes hold short runs; long ones and zeros are where decoders differ.
        for _ in 0..rng.random_range(0..4) {
            let (a, b) = (rng.random_range(0..=len), rng.random_range(0..=len));
            bytes[a.min(b)..a.max(b)].fill(if rng.random() { 0xff } else { 0 });
        }
        let (how, n, p) = (rng.random(), rng.random_range(0..64), rng.random_range(0..34));
        decode::Case { how, n, p, m: 1 << rng.random_range(0..33_u32), bytes: &bytes }.check();
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

/// How to check a case: one in twenty may be large, which takes long.
fn how(rng: &mut SmallRng, round: u64) -> u8 {
    if round.is_multiple_of(20) { rng.random() } else { rng.random::<u8>() & !8 }
}

#[test]
fn encoding_agrees_with_the_reference_on_any_hashes() {
    let mut rng = SmallRng::seed_from_u64(5);
    for round in 0..6_000 {
        let len = rng.random_range(0..300);
        let mut bytes = random_bytes(rng.next_u64(), len);
        if round % 4 == 1 {
            // Ground hashes: all the same, or nearly.
            let byte = rng.random();
            bytes[len.min(10)..].fill(byte);
        }
        let case = encode::Case {
            how: how(&mut rng, round),
            p: rng.random(),
            m: rng.next_u32() >> rng.random_range(0..32),
            cut: rng.random(),
            apart: rng.random(),
            then: rng.random(),
            bytes: &bytes,
        };
        case.check();
    }
}

#[test]
fn every_query_agrees_with_the_reference() {
    let mut rng = SmallRng::seed_from_u64(6);
    for round in 0..1_500 {
        let len = rng.random_range(0..1_000);
        let case = matching::Case {
            how: how(&mut rng, round),
            p: rng.random(),
            m: rng.next_u32() >> rng.random_range(0..32),
            step: rng.random(),
            width: [0, 1, 2, 8, 32, 33, 34, 48][rng.random_range(0..8)],
            members: rng.random(),
            ask: rng.random(),
            bytes: &random_bytes(rng.next_u64(), len),
        };
        case.check();
    }
}

#[test]
fn resident_filter_agrees_with_scan() {
    let mut rng = SmallRng::seed_from_u64(12);
    for round in 0..2_000 {
        let len = rng.random_range(0..400);
        let (how, m) = (how(&mut rng, round), rng.random());
        let cut = rng.random_range(0..4_u8).saturating_sub(2);
        let (changes, bytes) = (rng.random_range(0..3), &random_bytes(rng.next_u64(), len));
        resident::Case { how, m, cut, changes, bytes }.check();
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

#[test]
fn block_filters_agree_with_the_bitcoin_crate() {
    let mut rng = SmallRng::seed_from_u64(10);
    for round in 0..2_000 {
        let len = rng.random_range(0..400);
        let case = bip158::Case {
            form: rng.random(),
            p: rng.random(),
            m: rng.random(),
            key: rng.random(),
            // Hundreds of scripts in one case of 16.
            count: rng.random_range(if round % 16 == 0 { 0xfc00 } else { 0 }..=u16::MAX),
            changes: match round % 2 {
                0 => [(0, 0); 2],
                _ => rng.random(),
            },
            cut: rng.random_range(0..12),
            bytes: &random_bytes(rng.next_u64(), len),
        };
        case.check();
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
