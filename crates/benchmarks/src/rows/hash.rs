//! Hashing items and mapping the hashes to the range, per profile.

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::sync::Arc;

use nutfilter::internals::{SimdLevel, map_all_at};
use nutfilter::{ItemHash, Params, SipHash};
use nutfilter_reference::{self as reference, Profile};

use super::LARGEST_FOR_SLOW;
use crate::fixture::Fixture;
use crate::{Contender, Group};

/// Length of an item.
pub const POINT: NonZeroUsize = NonZeroUsize::new(33).expect("not zero");

/// The SipHash key.
pub const BIP158_KEY: (u64, u64) = (1, 2);

/// The hash with this key, and the reference's.
pub(super) const KEYED: SipHash = SipHash::new(BIP158_KEY.0, BIP158_KEY.1);
pub(super) const KEYED_PROFILE: Profile = Profile::Bip158 { k0: BIP158_KEY.0, k1: BIP158_KEY.1 };

/// Length of a point of BLS12-381.
pub(super) const LONG: NonZeroUsize = NonZeroUsize::new(48).expect("not zero");

/// The part of a task's name that stands for [`LONG`] items.
pub(super) const LONG_TASK: &str = "-48";

/// The fixture's items, or [`LONG`] ones made of them, one after another.
fn records<'a>(group: &Group<'a>, fixture: &'a Fixture) -> (Cow<'a, [u8]>, NonZeroUsize) {
    if !group.path().contains(LONG_TASK) {
        return (fixture.records().into(), POINT);
    }
    let mut records = Vec::with_capacity(fixture.items.len() * LONG.get());
    for item in &fixture.items {
        records.extend(item);
        records.extend(&item[POINT.get() * 2 - LONG.get()..]);
    }
    (records.into(), LONG)
}

/// The values of the fixture's items, unsorted, from the reference.
pub fn expected_values(fixture: &Fixture, profile: Profile) -> Vec<u64> {
    let range = fixture.n() * Params::default().m();
    let value = |item: &[u8; 33]| reference::map(profile.hash(item), range);
    fixture.items.iter().map(value).collect()
}

/// Every row writes into its own preallocated vector.
pub(super) fn rows<'a, H: ItemHash + 'a>(
    group: &mut Group<'a>,
    fixture: &'a Fixture,
    hasher: H,
    profile: Profile,
) {
    let range = fixture.n() * Params::default().m();
    let (records, bytes) = records(group, fixture);
    let records: Arc<Cow<'a, [u8]>> = Arc::new(records);
    let value = move |item: &[u8]| reference::map(profile.hash(item), range);
    let expected: Vec<u64> = records.chunks_exact(bytes.get()).map(value).collect();
    let places = || vec![0; fixture.items.len()];
    let right = |values: &Vec<u64>, (): &()| *values == expected;
    if fixture.n() <= LARGEST_FOR_SLOW {
        let records = Arc::clone(&records);
        let hash = move |values: &mut Vec<u64>| {
            for (out, item) in values.iter_mut().zip(records.chunks_exact(bytes.get())) {
                *out = value(item);
            }
        };
        group.add_with(Contender::Reference, places(), |_| (), hash, right);
    }
    for level in SimdLevel::available() {
        let (hasher, records) = (hasher.clone(), Arc::clone(&records));
        let hash = move |values: &mut Vec<u64>| {
            hasher.hash_records_at(level, &records, bytes, values);
            map_all_at(level, values, range);
        };
        group.add_with(Contender::Ours(level), places(), |_| (), hash, right);
    }
}
