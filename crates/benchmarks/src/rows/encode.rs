//! From sorted hashes to bytes.

use nutfilter::internals::SimdLevel;
use nutfilter::{Nut25, Params, SortedHashes};
use nutfilter_reference as reference;

use super::LARGEST_FOR_SLOW;
use crate::fixture::Fixture;
use crate::{Contender, Group};

/// Maps, takes differences and encodes.
pub(super) fn plain<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    let params = Params::default();
    if fixture.n() <= LARGEST_FOR_SLOW {
        let range = fixture.n() * params.m();
        let map = move |&hash| reference::map(hash, range);
        let encode = move || {
            let values: Vec<u64> = fixture.hashes.iter().map(map).collect();
            reference::encode_values(&values, params.p())
        };
        group.add(Contender::Reference, encode, |bytes| *bytes == fixture.bytes);
    }
    for level in SimdLevel::available() {
        let set = SortedHashes::builder(Nut25).sorted(fixture.hashes.clone());
        let set = set.expect("sorted").with_level(level);
        let encode = move || set.encode(params);
        group.add(Contender::Ours(level), encode, |filter| {
            filter.as_ref().is_ok_and(|filter| filter.bytes() == fixture.bytes)
        });
    }
}
