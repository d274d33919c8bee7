//! The rows of other libraries, each in its best form, into the groups of ours.

mod bip158;
mod other_formats;
mod put_together;
mod sorts_and_hashes;

use nutfilter_benchmarks::rows::LARGEST_FOR_SLOW;
use nutfilter_benchmarks::{Fixture, Group};

pub(crate) use sorts_and_hashes::fastmurmur3;

/// Adds the peers that answer the question of this group.
pub(crate) fn add<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    let task = group.task.clone();
    match (group.stage, task.as_str()) {
        ("decode", "sum" | "serial" | "to-vec") => {
            put_together::values(group, fixture);
            other_formats::iterate(group, fixture);
            bip158::decode(group, fixture);
        }
        ("decode", _) => put_together::decode(group, fixture),
        ("hash", _) => sorts_and_hashes::hash(group, fixture),
        ("sort", _) => sorts_and_hashes::sort(group, fixture),
        ("encode", _) => put_together::encode(group, fixture),
        ("build", profile) => {
            put_together::build(group, fixture);
            match profile {
                "bip158" => bip158::build(group, fixture),
                "nut23" => other_formats::build(group, fixture),
                _ => {}
            }
        }
        ("increment", _) => put_together::increment(group, fixture),
        ("match", task) if task.ends_with("-indexed") => other_formats::ask(group, fixture),
        ("match", task) => {
            put_together::ask(group, fixture);
            if task == "1k-absent" {
                bip158::match_any(group, fixture);
            }
        }
        ("lookup", _) => other_formats::look_up(group, fixture),
        _ => {}
    }
}

/// Whether peers that take microseconds an item are worth waiting for.
fn is_small(fixture: &Fixture) -> bool {
    fixture.n() <= LARGEST_FOR_SLOW
}
