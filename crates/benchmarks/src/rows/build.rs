//! Building: the sort, items to filter, and adding items to an existing set.

use std::mem;

use nutfilter::internals::SimdLevel;
use nutfilter::{Filter, ItemHash, Nut25, Params, SortedHashes, SortedHashesBuilder};
use nutfilter_reference::{self as reference, generate_items};

use super::{LARGEST_FOR_SLOW, POINT};
use crate::fixture::{Fixture, SEED};
use crate::{Contender, Group};

/// Items that an increment adds.
pub const NEW: u64 = 10_000;

/// Turns a uniform hash into one of the named distribution: `uniform` leaves it alone, `hostile-equal` makes all
/// equal, `hostile-one-bucket` moves all into one 2^32nd of the range, as a client that grinds hashes would.
pub fn hostile_hashes(name: &str) -> fn(u64) -> u64 {
    match name {
        "hostile-equal" => |_| 0x0123_4567_89ab_cdef,
        "hostile-one-bucket" => |hash| 0x89ab_cdef << 32 | hash >> 32,
        _ => |hash| hash,
    }
}

/// The hashes of the items that an increment adds, unsorted.
pub fn new_hashes() -> Vec<u64> {
    let profile = reference::Profile::Nut25;
    let items = generate_items(NEW, SEED + 1);
    items.iter().map(|item| profile.hash(item)).collect()
}

fn builder<H: ItemHash>(level: SimdLevel, hasher: H) -> SortedHashesBuilder<H> {
    SortedHashes::builder(hasher).with_level(level)
}

/// Sorts hashes into a set.
pub(super) fn sort<'a>(group: &mut Group<'a>, fixture: &'a Fixture, ground: fn(u64) -> u64) {
    let profile = reference::Profile::Nut25;
    let hash = |item: &[u8; 33]| ground(profile.hash(item));
    let hashes: Vec<u64> = fixture.items.iter().map(hash).collect();
    let mut sorted = hashes.clone();
    sorted.sort();
    for level in SimdLevel::available() {
        group.add_with(
            Contender::Ours(level),
            (hashes.clone(), Vec::new()),
            |(hashes, copy)| copy.clone_from(hashes),
            move |(_, copy)| builder(level, Nut25).sort(mem::take(copy)),
            |_, set| set.as_slice() == sorted,
        );
    }
}

/// From items that lie one after another, without slices of each.
pub(super) fn nut25_records<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    let profile = reference::Profile::Nut25;
    whole(group, fixture, Nut25, profile, |builder, fixture| {
        let set = builder.hash_records(fixture.records(), POINT.get());
        set.expect("whole records")
    });
}

/// As the README's example.
pub(super) fn from_items<H: ItemHash>(
    builder: SortedHashesBuilder<H>,
    fixture: &Fixture,
) -> SortedHashes<H> {
    builder.hash_items(&fixture.items)
}

/// Items in memory to the bytes of their filter.
pub(super) fn whole<'a, H: ItemHash + 'a>(
    group: &mut Group<'a>,
    fixture: &'a Fixture,
    hasher: H,
    profile: reference::Profile,
    collect: fn(SortedHashesBuilder<H>, &Fixture) -> SortedHashes<H>,
) {
    let params = Params::default();
    let build = move || reference::build(profile, &fixture.items, params.p(), params.m());
    let expected = build();
    if fixture.n() <= LARGEST_FOR_SLOW {
        group.add(Contender::Reference, build, |bytes| *bytes == expected);
    }
    for level in SimdLevel::available() {
        let hasher = hasher.clone();
        let build = move || collect(builder(level, hasher.clone()), fixture).encode(params);
        let right = |built: &Result<Filter<Vec<u8>, H>, _>| {
            let built = built.as_ref();
            built.is_ok_and(|filter| filter.bytes() == expected)
        };
        group.add(Contender::Ours(level), build, right);
    }
    let bits = expected.len() as f64 * 8.0 / fixture.n() as f64;
    for row in &mut group.rows {
        row.structure(bits, params.false_positive_rate());
    }
}

/// Sorts 10,000 new hashes, merges them into an existing set with spare capacity, and encodes the result.
pub(super) fn increment<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    let params = Params::default();
    let new = new_hashes();
    let mut all = [fixture.hashes.as_slice(), &new].concat();
    all.sort();
    let range = all.len() as u64 * params.m();
    let map = |&hash| reference::map(hash, range);
    let values: Vec<u64> = all.iter().map(map).collect();
    let expected = reference::encode_values(&values, params.p());
    for level in SimdLevel::available() {
        group.add_with(
            Contender::Ours(level),
            (new.clone(), None),
            move |(new, prepared)| *prepared = Some((set_with_room(fixture, level), new.clone())),
            move |(_, prepared)| {
                let (mut set, new) = prepared.take()?;
                let new = builder(level, Nut25).sort(new);
                let filter = set.merge_and_encode(&new, params).ok()?;
                Some((set, filter))
            },
            |_, made| {
                let made = made.as_ref();
                made.is_some_and(|(set, filter)| {
                    set.as_slice() == all && filter.bytes() == expected
                })
            },
        );
    }
}

/// The fixture's set with an eighth of spare capacity, as after most increments.
fn set_with_room(fixture: &Fixture, level: SimdLevel) -> SortedHashes<Nut25> {
    let n = fixture.hashes.len();
    let mut hashes = Vec::with_capacity(n + n / 8 + NEW as usize);
    hashes.extend_from_slice(&fixture.hashes);
    let set = SortedHashes::builder(Nut25).sorted(hashes);
    set.expect("sorted").with_level(level)
}
