//! From the bytes: validating, values, and the index.

use std::sync::Arc;

use nutfilter::{Filter, Level, Nut25, Params, SeekIndex, Step};
use nutfilter_reference as reference;

use super::{LARGEST_FOR_SLOW, limit};
use crate::fixture::Fixture;
use crate::{Group, Who};

/// What a task of the stage `decode` reads.
#[derive(Clone)]
pub struct Stream {
    /// What it was made with.
    pub params: Params,
    /// The values, never decreasing.
    pub values: Vec<u64>,
    /// Their code, by the reference.
    pub bytes: Arc<[u8]>,
}

/// The stream of the task with this name: as many items as the fixture has, by the name `p6` or `p10` with
/// codes that short, by the name `hostile-equal-deltas` such that every place looks like every other, so
/// that a reader that starts in the middle never learns where it is; else the fixture's own.
#[must_use]
pub fn stream(fixture: &Fixture, task: &str) -> Stream {
    let (p, m) = match task {
        "p6" => (6, 96),
        "p10" => (10, 1533),
        _ => (Params::default().p(), Params::default().m()),
    };
    let params = Params::new(p, m).expect("within the limits");
    let (n, range) = (fixture.n(), fixture.n() * m);
    let values: Vec<u64> = match task {
        // It covers the whole range, as an honest one does.
        "hostile-equal-deltas" => (0..n).map(|i| i * m).collect(),
        _ => {
            let map = |&hash| reference::map(hash, range);
            fixture.hashes.iter().map(map).collect()
        }
    };
    let bytes = reference::encode_values(&values, p).into();
    Stream {
        params,
        values,
        bytes,
    }
}

/// Every code read and checked, nothing kept: what a wallet does with a filter that has just arrived.
pub(super) fn validate<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    let n = fixture.n();
    let Stream {
        params,
        values,
        bytes,
    } = stream(fixture, &group.task);
    if n <= LARGEST_FOR_SLOW {
        let bytes = bytes.clone();
        let decode = move || reference::decode(&bytes, n, params.p(), params.m());
        group.add(Who::Naive, decode, |read| read.as_ref() == Ok(&values));
    }
    let parse = move |bytes: &[u8], n, level| {
        let admitted = Filter::<Nut25>::admit(bytes, n, params)?;
        admitted.with_level(level).validate().map(|read| read.n())
    };
    for level in Level::available() {
        let received = bytes.clone();
        // One item less, and the bits go on after the last one: only reading them all can tell.
        let right =
            |read: &Result<u32, _>| *read == Ok(n as u32) && parse(&bytes, n - 1, level).is_err();
        group.add(Who::Ours(level), move || parse(&received, n, level), right);
    }
    let bits = bytes.len() as f64 * 8.0 / n as f64;
    for row in &mut group.rows {
        row.structure(bits, params.false_positive_rate());
    }
    limit::read(group, bytes);
}

fn naive<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    let (p, m) = (Params::default().p(), Params::default().m());
    let decode = move || reference::decode(&fixture.bytes, fixture.n(), p, m);
    if fixture.n() <= LARGEST_FOR_SLOW {
        let right = |read: &Result<Vec<u64>, _>| read.as_ref() == Ok(&fixture.values);
        group.add(Who::Naive, decode, right);
    }
}

/// Every value looked at once, in order.
pub(super) fn sum<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    let sum = fixture.sum();
    naive(group, fixture);
    for (level, filter) in &fixture.filters {
        let sum_up = || filter.values().fold(0, u64::wrapping_add);
        group.add(Who::Ours(*level), sum_up, |&answer| {
            answer == sum && filter.values().eq(fixture.values.iter().copied())
        });
    }
}

/// The same by steps: each value waits for the one before it, and no lane helps.
pub(super) fn serial<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    let sum = fixture.sum();
    naive(group, fixture);
    for (level, filter) in &fixture.filters {
        let sum_up = || {
            let mut sum = 0_u64;
            // Not `fold`, which takes all that is left at once.
            for value in filter.values() {
                sum = sum.wrapping_add(value);
            }
            sum
        };
        group.add(Who::Ours(*level), sum_up, |&answer| answer == sum);
    }
}

/// Every value into a vector that is there already.
pub(super) fn to_vec<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    naive(group, fixture);
    for (level, filter) in &fixture.filters {
        let collect = |values: &mut Vec<u64>| {
            values.clear();
            filter.append_values(values);
        };
        let right = |values: &Vec<u64>, (): &()| *values == fixture.values;
        group.add_with(Who::Ours(*level), Vec::new(), |_| (), collect, right);
    }
}

/// An index of 64 items an entry, 1 bit an item: one pass over the codes.
pub(super) fn index<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    for (level, filter) in &fixture.filters {
        let build = || SeekIndex::build(filter, Step::Items(64));
        // Every member is found through it; `lookup` holds the strangers' answers. (Levels may note
        // different places, so the indexes themselves are not compared.)
        group.add(Who::Ours(*level), build, |index| {
            let indexed = filter.with_index(index);
            indexed.is_ok_and(|indexed| {
                let mut members = fixture.values.iter();
                members.all(|&value| indexed.contains_value(value))
            })
        });
    }
}
