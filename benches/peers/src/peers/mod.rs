//! Adds the rows of other libraries, each used in its fastest way, to our groups.

mod best_of_crates;
mod bip158_crates;
mod other_formats;
mod sorts_and_hashes;

use nutfilter_benchmarks::rows::LARGEST_FOR_SLOW;
use nutfilter_benchmarks::{Fixture, Group};

/// Adds the peers that can do the task of this group.
pub(crate) fn add<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    let task = group.task.clone();
    match (group.stage, task.as_str()) {
        ("decode", "fold" | "serial" | "to-vec") => {
            best_of_crates::values(group, fixture);
            other_formats::iterate(group, fixture);
        }
        ("decode", _) => best_of_crates::decode(group, fixture),
        ("hash", task) if task.ends_with("-48") => {}
        ("hash", _) => sorts_and_hashes::hash(group, fixture),
        ("sort", _) => sorts_and_hashes::sort(group, fixture),
        ("encode", _) => best_of_crates::encode(group, fixture),
        // Compared in "nut25".
        ("build", "nut25-records") => {}
        ("build", profile) => {
            best_of_crates::build(group, fixture);
            if profile == "nut23" {
                other_formats::build(group, fixture);
            }
        }
        ("increment", _) => best_of_crates::increment(group, fixture),
        ("match", task) if task.ends_with("-indexed") || task.ends_with("-resident") => {
            other_formats::ask(group, fixture);
        }
        ("match", task) => {
            best_of_crates::ask(group, fixture);
            if task == "1k-absent" {
                bip158_crates::match_any(group, fixture);
            }
        }
        ("lookup", _) => other_formats::look_up(group, fixture),
        ("scan", task) => {
            bip158_crates::scan(group, fixture);
            if !task.ends_with("-verified") {
                other_formats::scan(group, fixture);
            }
        }
        _ => {}
    }
}

/// Whether the set is small enough for peers that take microseconds per item.
fn is_small(fixture: &Fixture) -> bool {
    fixture.n() <= LARGEST_FOR_SLOW
}
