//! The rows of this library and of the reference, by stage.

mod block_scan;
mod build;
mod decode;
mod encode;
mod hash;
mod matching;

use matching::Indexed;
use nutfilter::{Nut23, Nut25, ResidentFilter};
use nutfilter_reference::Profile;

use crate::fixture::{Fixture, LARGEST_FOR_ALL, Size};
use crate::{Group, Selection};

pub use block_scan::{BLOCKS, Block, Scan, block_scripts, chain, heights, scan};
pub use build::{NEW, hostile_hashes, new_hashes};
pub use decode::{Stream, stream};
pub use hash::{BIP158_KEY, POINT, expected_values};
pub use matching::{Targets, WINDOW, next_window, targets};

/// The largest set for the reference and other slow code.
pub const LARGEST_FOR_SLOW: u64 = 1_000_000;

/// One group, without its data.
pub struct Task {
    stage: &'static str,
    task: &'static str,
    /// Units per call, and the unit of times. 0 stands for the number of items.
    unit: (u64, &'static str),
    fill: for<'a> fn(&mut Group<'a>, &'a Fixture),
}

const ITEMS: (u64, &str) = (0, "item");
const CALL: (u64, &str) = (1, "call");
const FILTERS: (u64, &str) = (BLOCKS as u64, "filter");
const HEIGHTS: (u64, &str) = ((block_scan::ROUNDS * BLOCKS) as u64, "filter");
const TARGETS: (u64, &str) = (WINDOW as u64, "target");

impl Task {
    /// The first three parts of the names of its rows.
    pub fn path(&self, size: &Size) -> String {
        format!("{}/{}/{}", self.stage, self.task, size.name)
    }

    /// Units per call, and the unit of times.
    pub fn units(&self, fixture: &Fixture) -> (u64, &'static str) {
        let (n, per) = self.unit;
        (if n == 0 { fixture.n() } else { n }, per)
    }

    /// Bytes per call: of the items, hashes or filters that it reads.
    pub fn bytes(&self, fixture: &Fixture) -> u64 {
        let filter = fixture.bytes.len() as u64;
        match self.stage {
            "hash" if self.task.ends_with(hash::LONG_TASK) => fixture.n() * hash::LONG.get() as u64,
            "hash" | "build" => fixture.records().len() as u64,
            "lookup" => WINDOW as u64 * POINT.get() as u64,
            "sort" | "encode" | "increment" => size_of_val(&fixture.hashes[..]) as u64,
            "decode" => stream(fixture, self.task).bytes.len() as u64,
            // About: filters of as many items differ by some bytes.
            "scan" => filter * self.unit.0,
            _ => filter,
        }
    }

    /// Its rows that are selected.
    pub fn group<'a>(&self, fixture: &'a Fixture, selection: &'a Selection) -> Group<'a> {
        let path = (self.stage, self.task, fixture.size.name.as_str());
        let mut group = Group::new(selection, path, self.units(fixture));
        (self.fill)(&mut group, fixture);
        group
    }
}

/// One line per task.
#[rustfmt::skip]
const TASKS: &[Task] = &[
    Task { stage: "decode", task: "plain", unit: ITEMS, fill: decode::validate },
    Task { stage: "decode", task: "fold", unit: ITEMS, fill: decode::fold },
    Task { stage: "decode", task: "serial", unit: ITEMS, fill: decode::serial },
    Task { stage: "decode", task: "to-vec", unit: ITEMS, fill: decode::to_vec },
    Task { stage: "decode", task: "p6", unit: ITEMS, fill: decode::validate },
    Task { stage: "decode", task: "p10", unit: ITEMS, fill: decode::validate },
    Task { stage: "decode", task: "hostile-equal-deltas", unit: ITEMS, fill: decode::validate },
    Task { stage: "index", task: "16", unit: ITEMS, fill: decode::index },
    Task { stage: "index", task: "resident", unit: ITEMS, fill: decode::resident },
    Task { stage: "hash", task: "nut25", unit: ITEMS, fill: |group, fixture| hash::rows(group, fixture, Nut25, Profile::Nut25) },
    Task { stage: "hash", task: "nut23", unit: ITEMS, fill: |group, fixture| hash::rows(group, fixture, Nut23, Profile::Nut23) },
    Task { stage: "hash", task: "bip158", unit: ITEMS, fill: |group, fixture| hash::rows(group, fixture, hash::KEYED, hash::KEYED_PROFILE) },
    Task { stage: "hash", task: "nut25-48", unit: ITEMS, fill: |group, fixture| hash::rows(group, fixture, Nut25, Profile::Nut25) },
    Task { stage: "hash", task: "nut23-48", unit: ITEMS, fill: |group, fixture| hash::rows(group, fixture, Nut23, Profile::Nut23) },
    Task { stage: "hash", task: "bip158-48", unit: ITEMS, fill: |group, fixture| hash::rows(group, fixture, hash::KEYED, hash::KEYED_PROFILE) },
    Task { stage: "sort", task: "uniform", unit: ITEMS, fill: |group, fixture| build::sort(group, fixture, hostile_hashes("uniform")) },
    Task { stage: "sort", task: "hostile-equal", unit: ITEMS, fill: |group, fixture| build::sort(group, fixture, hostile_hashes("hostile-equal")) },
    Task { stage: "sort", task: "hostile-one-bucket", unit: ITEMS, fill: |group, fixture| build::sort(group, fixture, hostile_hashes("hostile-one-bucket")) },
    Task { stage: "encode", task: "plain", unit: ITEMS, fill: encode::plain },
    Task { stage: "build", task: "nut25", unit: ITEMS, fill: |group, fixture| build::whole(group, fixture, Nut25, Profile::Nut25, build::from_items) },
    Task { stage: "build", task: "nut25-records", unit: ITEMS, fill: build::nut25_records },
    Task { stage: "build", task: "nut23", unit: ITEMS, fill: |group, fixture| build::whole(group, fixture, Nut23, Profile::Nut23, build::from_items) },
    Task { stage: "build", task: "bip158", unit: ITEMS, fill: |group, fixture| build::whole(group, fixture, hash::KEYED, hash::KEYED_PROFILE, build::from_items) },
    Task { stage: "increment", task: "10k-new", unit: ITEMS, fill: build::increment },
    Task { stage: "match", task: "1k-absent", unit: CALL, fill: matching::plain },
    Task { stage: "match", task: "10k-absent", unit: CALL, fill: matching::plain },
    Task { stage: "match", task: "100k-absent", unit: CALL, fill: matching::plain },
    Task { stage: "match", task: "1k-present", unit: CALL, fill: matching::plain },
    Task { stage: "match", task: "1k-absent-indexed", unit: CALL, fill: |group, fixture| matching::many::<Indexed<'_>>(group, fixture) },
    Task { stage: "match", task: "1k-present-indexed", unit: CALL, fill: |group, fixture| matching::many::<Indexed<'_>>(group, fixture) },
    Task { stage: "match", task: "1k-absent-resident", unit: CALL, fill: |group, fixture| matching::many::<ResidentFilter>(group, fixture) },
    Task { stage: "match", task: "1k-present-resident", unit: CALL, fill: |group, fixture| matching::many::<ResidentFilter>(group, fixture) },
    Task { stage: "lookup", task: "throughput", unit: TARGETS, fill: |group, fixture| matching::look_up::<Indexed<'_>>(group, fixture) },
    Task { stage: "lookup", task: "latency", unit: TARGETS, fill: |group, fixture| matching::look_up::<Indexed<'_>>(group, fixture) },
    Task { stage: "lookup", task: "batched", unit: TARGETS, fill: |group, fixture| matching::look_up::<Indexed<'_>>(group, fixture) },
    Task { stage: "lookup", task: "throughput-resident", unit: TARGETS, fill: |group, fixture| matching::look_up::<ResidentFilter>(group, fixture) },
    Task { stage: "lookup", task: "latency-resident", unit: TARGETS, fill: |group, fixture| matching::look_up::<ResidentFilter>(group, fixture) },
    Task { stage: "lookup", task: "batched-resident", unit: TARGETS, fill: |group, fixture| matching::look_up::<ResidentFilter>(group, fixture) },
    Task { stage: "scan", task: "1-script", unit: FILTERS, fill: block_scan::watchlist },
    Task { stage: "scan", task: "20-scripts", unit: FILTERS, fill: block_scan::watchlist },
    Task { stage: "scan", task: "1k-scripts", unit: FILTERS, fill: block_scan::watchlist },
    Task { stage: "scan", task: "20k-scripts", unit: FILTERS, fill: block_scan::watchlist },
    Task { stage: "scan", task: "20-verified", unit: HEIGHTS, fill: block_scan::verified },
    Task { stage: "scan", task: "20k-mixed", unit: FILTERS, fill: block_scan::watchlist },
];

/// The tasks for sets of this size. Above [`LARGEST_FOR_ALL`] items only `sort`
/// and `build`. `scan` only up to the size of a block.
pub fn tasks(size: &Size) -> impl Iterator<Item = &'static Task> {
    let large = size.n > LARGEST_FOR_ALL;
    let block = size.n <= block_scan::LARGEST_BLOCK;
    TASKS.iter().filter(move |task| match task.stage {
        "sort" | "build" => true,
        "scan" => block,
        _ => !large,
    })
}

/// Visits each selected group with its rows, one at a time to save memory.
pub fn each<'a>(fixture: &'a Fixture, selection: &'a Selection, visit: &mut dyn FnMut(Group<'a>)) {
    for task in tasks(&fixture.size) {
        if selection.group(&task.path(&fixture.size)) {
            visit(task.group(fixture, selection));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn rows_give_right_answers_and_have_unique_names() {
        let fixture = Fixture::new("3k".parse().unwrap());
        let selection = Selection::default();
        let mut names = BTreeSet::new();
        // Adding a row asserts its answer.
        each(&fixture, &selection, &mut |mut group| {
            assert!(!group.rows.is_empty(), "{}", group.path());
            for at in 0..group.rows.len() {
                let name = format!("{}/{}", group.path(), group.rows[at].who.name());
                assert_eq!(name.split('/').count(), 4, "{name}");
                assert!(names.insert(name.clone()), "{name} is there twice");
                group.rows[at].measure(&mut |call| call());
            }
        });
        assert!(names.contains("decode/plain/3k/portable"));
        assert!(names.contains("build/nut25/3k/reference"));
    }
}
