//! Hashing items and mapping the hashes to the range, per profile.

use std::num::NonZeroUsize;

use nutfilter::internals::{SimdLevel, map_all_at};
use nutfilter::{ItemHash, Nut23, Nut25, Params, SipHash};
use nutfilter_reference as reference;

use super::LARGEST_FOR_SLOW;
use crate::fixture::Fixture;
use crate::{Group, Who};

/// Length of an item.
pub const POINT: NonZeroUsize = NonZeroUsize::new(33).expect("not zero");

/// The SipHash key.
pub const BIP158_KEY: (u64, u64) = (1, 2);

pub(super) fn nut25<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    rows(group, fixture, Nut25, reference::Profile::Nut25);
}

pub(super) fn nut23<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    rows(group, fixture, Nut23, reference::Profile::Nut23);
}

pub(super) fn bip158<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    let (k0, k1) = BIP158_KEY;
    let profile = reference::Profile::Bip158 { k0, k1 };
    rows(group, fixture, SipHash::new(k0, k1), profile);
}

/// The values of the fixture's items, unsorted, from the reference.
#[must_use]
pub fn expected_values(fixture: &Fixture, profile: reference::Profile) -> Vec<u64> {
    let range = fixture.n() * Params::default().m();
    let value = |item: &[u8; 33]| reference::map(profile.hash(item), range);
    fixture.items.iter().map(value).collect()
}

/// Every row writes into its own preallocated vector.
fn rows<'a, H: ItemHash + 'a>(
    group: &mut Group<'a>,
    fixture: &'a Fixture,
    hasher: H,
    profile: reference::Profile,
) {
    let range = fixture.n() * Params::default().m();
    let expected = expected_values(fixture, profile);
    let places = || vec![0; fixture.items.len()];
    let right = |values: &Vec<u64>, (): &()| *values == expected;
    if fixture.n() <= LARGEST_FOR_SLOW {
        let hash = move |values: &mut Vec<u64>| {
            for (value, item) in values.iter_mut().zip(&fixture.items) {
                *value = reference::map(profile.hash(item), range);
            }
        };
        group.add_with(Who::Reference, places(), |_| (), hash, right);
    }
    for level in SimdLevel::available() {
        let hasher = hasher.clone();
        let hash = move |values: &mut Vec<u64>| {
            hasher.hash_records_at(level, fixture.records(), POINT, values);
            map_all_at(level, values, range);
        };
        group.add_with(Who::Ours(level), places(), |_| (), hash, right);
    }
}
