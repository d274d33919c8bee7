//! Memory: encoding takes the filter and at most a fourth more, merging in place little in addition, sorting what its
//! documentation says, and scanning nothing after the first filter.

use nutfilter::bip158::{self, Scratch, Watchlist};
use nutfilter::internals::SimdLevel;
use nutfilter::{Nut25, Params, SipHash, SortedHashes, map_to_range};

use crate::allocations::{FIXED, peak_of};

#[test]
fn a_second_filter_is_scanned_without_allocation() {
    let key = SipHash::new(1, 2);
    let filter = |from: u32, n: u32| {
        let items = (from..from + n).map(u32::to_be_bytes);
        bip158::serialize(&bip158::build(key, items).unwrap())
    };
    let (large, small) = (filter(0, 6_500), filter(7_000, 6_000));
    // Few scripts use a seek table, and many a bitmap.
    for scripts in [20, 5_000_u32] {
        let absent = (1 << 31..(1 << 31) + scripts).map(u32::to_be_bytes);
        let absent = absent.filter(|item| {
            let once = Watchlist::from_iter([item]);
            !once.match_any(&mut Scratch::new(), key, &small).unwrap()
        });
        let list: Watchlist = absent.collect();
        for level in SimdLevel::available() {
            let mut scratch = Scratch::new().with_level(level);
            let mut ask = |filter: &[u8]| list.match_any(&mut scratch, key, filter).unwrap();
            let ((), peak) = peak_of(|| assert!(!ask(&large)));
            assert!(
                (1..=8 * large.len()).contains(&peak),
                "{scripts} scripts, {level}: {peak} bytes for a filter of {}",
                large.len()
            );
            let ((), peak) = peak_of(|| assert!(!ask(&small)));
            assert_eq!(peak, 0, "{scripts} scripts, {level}");
        }
    }
}

#[test]
fn sorting_takes_the_documented_bytes_per_item() {
    // The vector that collects them has just doubled.
    let n = (1 << 16) + 1;
    let items = || (0..n as u64).map(u64::to_le_bytes);
    let hashes = SortedHashes::from_items(items()).into_hashes();
    let scattered: Vec<u64> = (0..n).map(|i| hashes[i * 7919 % n]).collect();
    let (known, peak) = peak_of(|| SortedHashes::from_items(items()));
    assert!(peak <= 10 * n + FIXED, "known count: {peak} bytes");
    let (unknown, peak) = peak_of(|| SortedHashes::from_items(items().filter(|_| true)));
    assert!(peak <= 26 * n + FIXED, "unknown count: {peak} bytes");
    assert!(peak > 20 * n, "unknown count: {peak} bytes");
    // The given vector is not counted.
    let (sorted, peak) = peak_of(|| SortedHashes::from_hashes(scattered));
    assert!(peak <= 10 * n + FIXED, "hashes: {peak} bytes");
    assert!(known == unknown && known == sorted);
}

#[test]
fn building_takes_the_filter_and_a_fourth_more() {
    // Not so many that the feature `parallel` makes use of threads.
    let (n, new) = (100_000, 1_000);
    let hashes = |from: u64, n: u64| {
        SortedHashes::from_items((from..from + n).map(u64::to_le_bytes)).into_hashes()
    };
    let (kept, more) = (hashes(0, n), hashes(n, new));
    let shapes: [fn(u64) -> u64; 3] = [|hash| hash, |hash| hash >> 30, |_| u64::MAX];
    for (p, m) in [(19, 784_931), (0, 1), (1, 1), (1, 5), (2, 300), (32, 7)] {
        let params = Params::new(p, m).unwrap();
        for shape in shapes {
            let set = SortedHashes::from_hashes(kept.iter().map(|&h| shape(h)).collect());
            let values = set.as_slice().iter();
            let largest = values.map(|&h| map_to_range(h, params.range(n as u32))).max();
            // A filter of which nobody knows the size before it is made: the test looks first.
            let filter = set.encode(params).unwrap();
            let fourth = params.min_bytes(n as u32) as usize / 4;
            for level in SimdLevel::available() {
                let set = set.clone().with_level(level);
                let ((), peak) = peak_of(|| drop(set.encode(params)));
                let most = filter.bytes().len() + fourth + 64;
                assert!(
                    peak <= most,
                    "{level}, {params:?}, values to {largest:?}: {peak} bytes, not {most}"
                );
            }
        }
    }

    let mut room = Vec::with_capacity((n + new) as usize);
    room.extend_from_slice(&kept);
    let mut set = SortedHashes::builder(Nut25).sorted(room).unwrap();
    let more = SortedHashes::builder(Nut25).sorted(more).unwrap();
    let (filter_bytes, peak) = peak_of(|| {
        let filter = set.merge_and_encode(&more, Params::CASHU).unwrap();
        filter.bytes().len()
    });
    let most = filter_bytes + filter_bytes / 40 + 16 * new as usize + FIXED;
    assert!(peak <= most, "merging: {peak} bytes, not {most}");
    assert!(peak >= filter_bytes, "a counter that counts nothing");
}
