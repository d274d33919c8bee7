use super::*;
use crate::tests::Noise;

fn uniform(n: usize, seed: u64) -> Vec<u64> {
    Noise::of(seed).take(n).collect()
}

/// Sorts at every level, checks the result and the work, and returns the work.
fn checked(what: &str, hashes: &[u64]) -> Work {
    let mut expected = hashes.to_vec();
    expected.sort_unstable();
    let mut works = Vec::new();
    for level in SimdLevel::available() {
        let (sorted, work) = sort_counting(level, hashes.to_vec());
        assert!(sorted == expected, "{what}, {level}");
        assert!(work.dealt <= MOST_DEALS * hashes.len(), "{what}, {level}: {work:?}");
        assert!(work.general <= hashes.len(), "{what}, {level}: {work:?}");
        works.push(work);
    }
    // All levels do the same work, if the set is large enough for them.
    if hashes.len() >= few(SimdLevel::SCALAR) {
        works.dedup();
    }
    assert!(works.len() == 1 || hashes.len() < few(SimdLevel::SCALAR), "{what}: {works:?}");
    works[works.len() - 1]
}

#[test]
fn uniform_hashes_never_need_the_general_sort() {
    let edges = [1024, 8192, LEAF_ITEMS, 2 * LEAF_ITEMS, 64 * LEAF_ITEMS];
    let near = |n: usize| [n - 1, n, n + 1];
    for n in (0..66).chain(edges.into_iter().flat_map(near)).chain([300_000]) {
        let work = checked(&alloc::format!("{n} hashes"), &uniform(n, 1));
        if n >= few(SimdLevel::detect()) {
            assert_eq!(work.general, 0, "{n} hashes");
        }
    }
}

#[test]
fn plans_end_in_leaves_with_a_limited_number_of_parts() {
    for n in (0..43).map(|bit| 1_usize << bit).chain([1_000_000, 10_000_000, 100_000_000]) {
        for n in [n - 1, n, n + 1] {
            let parts = Plan::new(n).parts;
            let leaves = parts.iter().product::<u64>();
            assert!(leaves * LEAF_ITEMS as u64 >= n as u64, "{n}: {parts:?}");
            assert!(leaves <= 2 * (n as u64 / LEAF_ITEMS as u64 + 1), "{n}: {parts:?}");
            assert!(parts[0] <= WAYS, "{n}: {parts:?}");
            if n <= 1 << 31 {
                assert!(parts[1] <= CACHED_WAYS && parts[2] <= 2 * CACHED_WAYS, "{n}: {parts:?}");
            }
        }
    }
}

#[test]
fn hostile_hashes_cost_a_bounded_number_of_moves() {
    const N: usize = 1_000_000;
    let random = uniform(N, 3);
    let map = |f: &dyn Fn(usize, u64) -> u64| -> Vec<u64> {
        random.iter().enumerate().map(|(i, &hash)| f(i, hash)).collect()
    };
    let leaves: u64 = Plan::new(N).parts.iter().product();
    // The first hash of a leaf, plus an offset.
    let in_leaf = |leaf: u64, beyond: u64| {
        ((u128::from(leaf) << 64).div_ceil(u128::from(leaves)) as u64) + beyond
    };
    let some = |is: bool, value: u64, other: u64| if is { value } else { other };
    let check = |what: &str, least: usize, hash: &dyn Fn(usize, u64) -> u64| {
        let work = checked(what, &map(hash));
        assert!(work.general >= least, "{what}: {work:?}");
        assert!(least > 0 || work.general == 0, "{what}: {work:?}");
    };
    // Equal hashes are already sorted, so change one.
    check("equal", N, &|i, _| u64::from(i != N / 2) * (u64::MAX / 3));
    check("all in one bucket", 0, &|_, hash| hash >> 20);
    check("all in one leaf", 0, &|_, hash| in_leaf(77, hash >> 20));
    check("a part of a range", 0, &|_, hash| (hash >> 7) * 43 + 5);
    check("few in the range", 0, &|_, hash| (1 << 63) + (hash >> 44));
    check("all in one bucket but one", N, &|i, hash| some(i == 9, u64::MAX, hash >> 20));
    check("all in one cell of their leaf", N, &|_, hash| in_leaf(hash % leaves, hash >> 30));
    check("half equal", N, &|i, hash| some(i % 2 == 0, 1 << 63, hash));
    check("two clusters", N, &|i, hash| ((i as u64 % 2) << 63) + (hash >> 30));
    check("one hash in ten equal", N / 20, &|i, hash| some(i % 10 == 0, 1 << 40, hash));
    check("one leaf too full", 3000, &|i, hash| some(i < 3000, in_leaf(5, hash >> 12), hash));
    check("few different ones", N / 2, &|_, hash| hash & (7 << 61));
    let mut ordered = random;
    ordered.sort_unstable();
    assert_eq!(checked("sorted", &ordered), Work::default());
    ordered.reverse();
    assert_eq!(checked("reversed", &ordered), Work::default());
    // Ascending until the last hash: the buckets fill one after another.
    ordered[N - 1] = u64::MAX;
    assert_eq!(checked("reversed but for one", &ordered).general, 0);
}

#[test]
fn buckets_accept_more_and_fewer_hashes_than_expected() {
    let hashes = uniform(40_000, 5);
    let mut expected = hashes.clone();
    expected.sort_unstable();
    for level in SimdLevel::available() {
        for (n, fits) in [(9000, false), (20_000, false), (38_000, true), (400_000, true)] {
            let make = || Buckets::new(level, Plan::new(n), n).unwrap();
            let mut buckets = make();
            let went_well = hashes.chunks(777).all(|block| buckets.scatter(block));
            assert_eq!(went_well, fits, "made for {n}");
            let mut buckets = make();
            for block in hashes.chunks(777) {
                let _ = buckets.scatter(block);
            }
            assert_eq!(buckets.len(), hashes.len(), "made for {n}");
            assert!(buckets.into_sorted().0 == expected, "made for {n}, {level}");
            let mut buckets = make();
            let _ = buckets.scatter(&hashes);
            let mut unsorted = buckets.into_unsorted();
            unsorted.sort_unstable();
            assert!(unsorted == expected, "made for {n}, {level}");
        }
    }
    for level in SimdLevel::available() {
        let beyond_memory = 1 << 58;
        for n in [few(level) - 1, beyond_memory] {
            assert!(Buckets::new(level, Plan::new(20_000), n).is_none(), "{n}, {level}");
        }
    }
}
