//! What stages, tasks, units and machines are called on the page.

use nutfilter_benchmarks::record::{Record, RowRecord};

use crate::chart::appearance::label;
use crate::number::{count, time};
use crate::records::items;

/// What a task does, as a title.
#[must_use]
pub fn task_title(stage: &str, task: &str) -> String {
    let known = match (stage, task) {
        ("decode", "plain") => "Decode: read and check every code",
        ("decode", "sum") => "Decode: look at every value once",
        ("decode", "serial") => "Decode: value by value",
        ("decode", "to-vec") => "Decode: all values into memory",
        ("decode", "p6") => "Decode with P = 6, M = 96",
        ("decode", "p10") => "Decode with P = 10, M = 1533",
        ("decode", "hostile-equal-deltas") => "Decode a stream of equal differences",
        ("index", "64") => "Index of 64 notes an entry",
        ("hash", "nut25") => "Hash, NUT-25",
        ("hash", "nut23") => "Hash, NUT-23",
        ("hash", "bip158") => "Hash, BIP158",
        ("sort", "uniform") => "Sort hashes",
        ("sort", "hostile-equal") => "Sort equal hashes",
        ("sort", "hostile-one-bucket") => "Sort hashes of one narrow range",
        ("encode", "plain") => "Encode sorted hashes",
        ("build", "nut25") => "Build, NUT-25",
        ("build", "nut23") => "Build, NUT-23",
        ("build", "bip158") => "Build, BIP158",
        ("increment", "10k-new") => "10,000 new notes: sort, merge, encode anew",
        ("match", "1k-absent") => "1,000 absent notes against a filter just received",
        ("match", "10k-absent") => "10,000 absent notes against a filter just received",
        ("match", "100k-absent") => "100,000 absent notes against a filter just received",
        ("match", "1k-present") => "1,000 notes that are there against a filter just received",
        ("match", "1k-absent-indexed") => "1,000 absent notes against a filter with an index",
        ("match", "1k-present-indexed") => "1,000 notes that are there, with an index",
        ("lookup", "throughput") => "Look-ups that do not wait for one another",
        ("lookup", "latency") => "One look-up after the other",
        ("lookup", "batched") => "4,096 look-ups in one call",
        _ => "",
    };
    match known {
        "" => format!("{stage}, {task}"),
        known => known.to_owned(),
    }
}

/// What a row's time is for, as in `ns/item`.
#[must_use]
pub fn per(unit: &str) -> &'static str {
    match unit {
        "ns/item" => "a note",
        "ns/target" => "a look-up",
        _ => "a call",
    }
}

/// `0.392 ns a note`.
#[must_use]
pub fn time_per(row: &RowRecord) -> String {
    format!("{} {}", time(row.median), per(&row.unit))
}

/// `10 million notes`.
#[must_use]
pub fn notes(row: &RowRecord) -> String {
    format!("{} notes", count(items(row)))
}

/// The name that a row's level has on the page, without the library's.
#[must_use]
pub fn level(row: &RowRecord) -> String {
    label(&row.who).replace("nutfilter, ", "")
}

/// The machine of a record in a few words.
#[must_use]
pub fn machine(record: &Record) -> String {
    let machine = &record.machine;
    let cpus = match machine.cpus {
        1 => "one CPU".to_owned(),
        cpus => format!("{cpus} CPUs"),
    };
    format!(
        "{} ({}), {cpus}, {}",
        machine.cpu, machine.cpu_version, machine.os
    )
}
