//! Hashes one at a time, and sorts of 64-bit numbers.

use std::hash::Hasher;
use std::mem;

use nutfilter::Params;
use nutfilter_benchmarks::rows::{BIP158_KEY, expected_values, hostile_hashes};
use nutfilter_benchmarks::{Contender, Fixture, Group};
use nutfilter_reference as reference;
use rdst::RadixSort as _;
use siphasher::sip::SipHasher24;
use voracious_radix_sort::RadixSort as _;

/// The NUT-25 hash: the 32-bit hash of the item with seed 0, then with the first hash as the seed.
///
/// The fastest crates are equally fast: mur3, murmurhash3 and murmurs, and a plain loop over the words as well.
pub(super) fn mur3_crate(item: &[u8; 33]) -> u64 {
    let upper = mur3::murmurhash3_x86_32(item, 0);
    u64::from(upper) << 32 | u64::from(mur3::murmurhash3_x86_32(item, upper))
}

/// The first word of the 128-bit hash.
pub(crate) fn fastmurmur3(item: &[u8; 33]) -> u64 {
    fastmurmur3::murmur3_x64_128(item, 0) as u64
}

pub(super) fn siphasher(item: &[u8; 33]) -> u64 {
    let (k0, k1) = BIP158_KEY;
    let mut hasher = SipHasher24::new_with_keys(k0, k1);
    hasher.write(item);
    hasher.finish()
}

/// The reference's profile for a task.
pub(super) fn profile_of(task: &str) -> reference::Profile {
    let (k0, k1) = BIP158_KEY;
    match task {
        "nut25" => reference::Profile::Nut25,
        "nut23" => reference::Profile::Nut23,
        _ => reference::Profile::Bip158 { k0, k1 },
    }
}

/// Hashes and maps each item.
pub(super) fn hash<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    // Monomorphic calls, not through a pointer.
    match group.task.as_str() {
        "nut25" => row(group, fixture, "mur3", mur3_crate),
        "nut23" => row(group, fixture, "fastmurmur3", fastmurmur3),
        _ => row(group, fixture, "siphasher", siphasher),
    }
}

fn row<'a>(
    group: &mut Group<'a>,
    fixture: &'a Fixture,
    name: &'static str,
    hash: impl Fn(&[u8; 33]) -> u64 + Send + 'a,
) {
    let range = fixture.n() * Params::default().m();
    let expected = expected_values(fixture, profile_of(&group.task));
    let fill = move |values: &mut Vec<u64>| {
        for (value, item) in values.iter_mut().zip(&fixture.items) {
            *value = reference::map(hash(item), range);
        }
    };
    let right = |values: &Vec<u64>, (): &()| *values == expected;
    let places = vec![0; fixture.items.len()];
    group.add_with(Contender::peer(name), places, |_| (), fill, right);
}

/// The fastest crate for so many numbers: see the rows of `sort`, and docs/benchmarking.md about rdst.
pub(super) fn fastest_sort(values: &mut [u64]) {
    match values.len() {
        50_000..300_000 => turbosort::sort(values),
        _ => values.voracious_sort(),
    }
}

/// The standard library's sort, and radix sorts.
pub(super) fn sort<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    let ground = hostile_hashes(&group.task);
    let profile = reference::Profile::Nut25;
    let hash = |item: &[u8; 33]| ground(profile.hash(item));
    let hashes: Vec<u64> = fixture.items.iter().map(hash).collect();
    let mut expected = hashes.clone();
    expected.sort();
    let mut row = |name, sort: fn(&mut [u64])| {
        group.add_with(
            Contender::peer(name),
            (hashes.clone(), Vec::new()),
            |(hashes, copy)| copy.clone_from(hashes),
            move |(_, copy)| {
                let mut hashes = mem::take(copy);
                sort(&mut hashes);
                hashes
            },
            |_, sorted| *sorted == expected,
        );
    };
    row("std", <[u64]>::sort_unstable);
    row("rdst", |hashes| {
        let radix = hashes.radix_sort_builder();
        radix.with_single_threaded_tuner().sort();
    });
    row("voracious", |hashes| hashes.voracious_sort());
    row("turbosort", turbosort::sort);
}
