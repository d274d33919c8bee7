//! Hashes one at a time, and sorts of 64-bit numbers.

use std::hash::Hasher;
use std::mem;

use nutfilter::Params;
use nutfilter_benchmarks::rows::{BIP158_KEY, expected_values, hostile_hashes};
use nutfilter_benchmarks::{Fixture, Group, Who};
use nutfilter_reference as reference;
use rdst::RadixSort;
use siphasher::sip::SipHasher24;

/// What Rust programs use for NUT-25 today.
pub(super) fn murmur3_crate(item: &[u8; 33]) -> u64 {
    let seeded = |seed| murmur3::murmur3_32(&mut item.as_slice(), seed);
    let upper = seeded(0).expect("in memory");
    let lower = seeded(upper).expect("in memory");
    u64::from(upper) << 32 | u64::from(lower)
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

/// The profile with this name, as the reference knows it.
pub(super) fn profile_of(task: &str) -> reference::Profile {
    let (k0, k1) = BIP158_KEY;
    match task {
        "nut25" => reference::Profile::Nut25,
        "nut23" => reference::Profile::Nut23,
        _ => reference::Profile::Bip158 { k0, k1 },
    }
}

/// Hash and map of each item.
pub(super) fn hash<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    // A name for each, so that the call is not through a pointer.
    match group.task.as_str() {
        "nut25" => row(group, fixture, "murmur3-crate", murmur3_crate),
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
    group.add_with(Who::peer(name), places, |_| (), fill, right);
}

/// The standard library's, and a radix sort.
pub(super) fn sort<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    let ground = hostile_hashes(&group.task);
    let profile = reference::Profile::Nut25;
    let hash = |item: &[u8; 33]| ground(profile.hash(item));
    let hashes: Vec<u64> = fixture.items.iter().map(hash).collect();
    let mut expected = hashes.clone();
    expected.sort();
    let mut row = |name, sort: fn(&mut [u64])| {
        group.add_with(
            Who::peer(name),
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
}
