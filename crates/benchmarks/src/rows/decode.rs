//! Reading a filter: validation, values, and the index.

use std::sync::Arc;

use nutfilter::internals::SimdLevel;
use nutfilter::{Filter, IndexInterval, Nut25, Params, ResidentFilter};
use nutfilter_reference as reference;

use super::LARGEST_FOR_SLOW;
use crate::fixture::Fixture;
use crate::{Contender, Group};

/// The input of a task of the stage `decode`.
#[derive(Clone)]
pub struct Stream {
    /// Its parameters.
    pub params: Params,
    /// The values, ascending.
    pub values: Vec<u64>,
    /// Their encoding, by the reference.
    pub bytes: Arc<[u8]>,
}

/// The input of the named task. `p6` and `p10` have shorter codes. `hostile-equal-deltas` looks the same everywhere,
/// so a reader that starts in the middle cannot synchronize. All others use the fixture's filter.
pub fn stream(fixture: &Fixture, task: &str) -> Stream {
    let (p, m) = match task {
        "p6" => (6, 96),
        "p10" => (10, 1533),
        _ => (Params::default().p(), Params::default().m()),
    };
    let params = Params::new(p, m).expect("within the limits");
    let (n, range) = (fixture.n(), fixture.n() * m);
    let values: Vec<u64> = match task {
        // It covers the whole range, as an honest filter does.
        "hostile-equal-deltas" => (0..n).map(|i| i * m).collect(),
        _ => {
            let map = |&hash| reference::map(hash, range);
            fixture.hashes.iter().map(map).collect()
        }
    };
    let bytes = reference::encode_values(&values, p).into();
    Stream { params, values, bytes }
}

/// Reads and checks every code, keeps nothing: what a wallet does with a filter that it has just received.
pub(super) fn validate<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    let n = fixture.n();
    let Stream { params, values, bytes } = stream(fixture, &group.task);
    if n <= LARGEST_FOR_SLOW {
        let bytes = bytes.clone();
        let decode = move || reference::decode(&bytes, n, params.p(), params.m());
        group.add(Contender::Reference, decode, |read| read.as_ref() == Ok(&values));
    }
    let parse = move |bytes: &[u8], n, level| {
        let admitted = Filter::check_length(bytes, n, params)?;
        let filter = admitted.with_level(level).validate();
        filter.map(|filter| filter.n())
    };
    for level in SimdLevel::available() {
        let received = bytes.clone();
        // With one item less there are bits after the last item: only a reader of all bits notices.
        let right =
            |read: &Result<u32, _>| *read == Ok(n as u32) && parse(&bytes, n - 1, level).is_err();
        group.add(Contender::Ours(level), move || parse(&received, n, level), right);
    }
    let bits = bytes.len() as f64 * 8.0 / n as f64;
    for row in &mut group.rows {
        row.structure(bits, params.false_positive_rate());
    }
}

fn reference_row<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    let (p, m) = (Params::default().p(), Params::default().m());
    let decode = move || reference::decode(&fixture.bytes, fixture.n(), p, m);
    if fixture.n() <= LARGEST_FOR_SLOW {
        let right = |read: &Result<Vec<u64>, _>| read.as_ref() == Ok(&fixture.values);
        group.add(Contender::Reference, decode, right);
    }
}

/// Folds over all values in order.
pub(super) fn fold<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    let sum = fixture.sum();
    reference_row(group, fixture);
    for (level, filter) in &fixture.filters {
        let sum_up = || filter.values().fold(0, u64::wrapping_add);
        group.add(Contender::Ours(*level), sum_up, |&answer| {
            answer == sum && filter.values().eq(fixture.values.iter().copied())
        });
    }
}

/// The same through `Iterator::next`: each value waits for the one before it.
pub(super) fn serial<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    let sum = fixture.sum();
    reference_row(group, fixture);
    for (level, filter) in &fixture.filters {
        let sum_up = || {
            let mut sum = 0_u64;
            // Not `fold`, which decodes the rest in lanes.
            for value in filter.values() {
                sum = sum.wrapping_add(value);
            }
            sum
        };
        group.add(Contender::Ours(*level), sum_up, |&answer| answer == sum);
    }
}

/// Writes all values into a preallocated vector.
pub(super) fn to_vec<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    reference_row(group, fixture);
    for (level, filter) in &fixture.filters {
        let collect = |values: &mut Vec<u64>| {
            values.clear();
            filter.append_values(values);
        };
        let right = |values: &Vec<u64>, (): &()| *values == fixture.values;
        group.add_with(Contender::Ours(*level), Vec::new(), |_| (), collect, right);
    }
}

/// Builds an index with the default interval of 16 items in one pass.
pub(super) fn index<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    for (level, filter) in &fixture.filters {
        let build = || filter.with_hasher(Nut25).into_indexed(IndexInterval::Items(16));
        // Every member must be found; `lookup` checks non-members. Levels may choose different entries, so the
        // indexes themselves are not compared.
        group.add(Contender::Ours(*level), build, |indexed| {
            let mut members = fixture.values.iter();
            members.all(|&value| indexed.contains_value(value))
        });
    }
}

/// Makes the resident form.
pub(super) fn resident<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    for (level, filter) in &fixture.filters {
        let make = || filter.to_resident();
        group.add(Contender::Ours(*level), make, |resident| {
            let matches = |resident: &ResidentFilter| resident.matches_values(&fixture.values);
            resident.as_ref().is_ok_and(|resident| !matches(resident).contains(&false))
        });
    }
}
