//! [`Comparison`]: what changed between two records.
//!
//! A time of ours *rose* where it rose against every other row of its group: by minima above the threshold, and with
//! spreads that do not touch, from the lower to the upper quartile of both rows, or from the minimum to the median in a
//! record that has no quartiles. So an hour in which the machine is slower raises nothing. In a group of ours alone the
//! time stands for itself. A count of instructions rose where it is above its own threshold, if the same compiler made
//! what was counted. Times of different machines are shown and bind nobody.

use std::collections::BTreeMap;
use std::fmt::Write;

use nutfilter_benchmarks::record::{Record, RowRecord};
use serde::Serialize;

use crate::number::{change, significant, whole};
use crate::standing::by;

/// By how much a time or a count may rise, as a share.
#[derive(Clone, Copy, Debug)]
pub struct Thresholds {
    /// Of the minima.
    pub times: f64,
    /// Of the counts.
    pub instructions: f64,
}

/// What changed.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The commits, the older one first as they were given.
    pub commits: [String; 2],
    /// What else than the library differs, in words.
    pub differences: Vec<String>,
    /// Whether a rise of a time is a failure: the machine is the same.
    pub times_bind: bool,
    /// Whether a rise of a count is one: the compiler is the same.
    pub instructions_bind: bool,
    /// Rows of both, the largest rise first.
    pub times: Vec<Change>,
    /// Counts of both, the largest rise first.
    pub instructions: Vec<Change>,
    /// Rows and counts of the first alone.
    pub gone: Vec<String>,
    /// Rows and counts of the second alone.
    pub new: Vec<String>,
    /// How many rises are failures.
    pub rises: usize,
}

/// One row or count of both.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Its name.
    pub name: String,
    /// Of the figures.
    pub unit: String,
    /// Minimum, or count.
    pub before: f64,
    /// The same of the second record.
    pub after: f64,
    /// The second by the first.
    pub ratio: f64,
    /// The same of our row, each time by another row of its group: of all those the one nearest to 1.
    pub against_others: Option<f64>,
    /// What it comes to.
    pub mark: Mark,
}

/// What a change comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    /// Above the threshold and beyond the spreads.
    Rose,
    /// The same downwards.
    Fell,
    /// Neither.
    Same,
}

impl Comparison {
    /// Compares `after` with `before`.
    #[must_use]
    pub fn of(before: &Record, after: &Record, thresholds: Thresholds) -> Self {
        let (mut gone, mut new) = (Vec::new(), Vec::new());
        let times = pairs(&rows(before), &rows(after), (&mut gone, &mut new));
        let mut times: Vec<Change> = times
            .iter()
            .map(|pair| of_times(*pair, &times, thresholds.times))
            .collect();
        let counts = pairs(&counts(before), &counts(after), (&mut gone, &mut new));
        let mut instructions: Vec<Change> = counts
            .into_iter()
            .map(|(before, after)| of_counts(before, after, thresholds.instructions))
            .collect();
        for changes in [&mut times, &mut instructions] {
            changes.sort_by(|a, b| {
                b.ratio
                    .total_cmp(&a.ratio)
                    .then_with(|| a.name.cmp(&b.name))
            });
        }
        let times_bind = machine(before) == machine(after);
        let instructions_bind = compilers_of_counts(before, after).is_none();
        let rises = |changes: &[Change]| {
            changes
                .iter()
                .filter(|change| change.mark == Mark::Rose)
                .count()
        };
        let rises = rises(&times) * usize::from(times_bind)
            + rises(&instructions) * usize::from(instructions_bind);
        Self {
            commits: [before, after].map(|record| record.source.commit.clone()),
            differences: differences(before, after),
            times_bind,
            instructions_bind,
            times,
            instructions,
            gone,
            new,
            rises,
        }
    }

    /// For people: what differs, the changes, and what they come to.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for difference in &self.differences {
            let _ = writeln!(text, "differs: {difference}");
        }
        if !self.times_bind {
            text += "times of different machines are shown, and bind nobody\n";
        }
        if !self.instructions_bind {
            text += "counts of different compilers are shown, and bind nobody\n";
        }
        list(
            &mut text,
            "times (minima, and what they are against the others of the group)",
            &self.times,
            |value| significant(value, 4),
        );
        list(&mut text, "instructions", &self.instructions, |value| {
            whole(value as u64)
        });
        for (what, names) in [
            ("only in the first", &self.gone),
            ("only in the second", &self.new),
        ] {
            if !names.is_empty() {
                let _ = writeln!(text, "\n{what}: {}", names.join(", "));
            }
        }
        let of = |mark| {
            let all = self.times.iter().chain(&self.instructions);
            all.filter(|change| change.mark == mark).count()
        };
        let _ = writeln!(
            text,
            "\n{} rose, {} fell, {} about the same; {} of the rises bind",
            of(Mark::Rose),
            of(Mark::Fell),
            of(Mark::Same),
            self.rises
        );
        text
    }
}

fn list(text: &mut String, title: &str, changes: &[Change], show: impl Fn(f64) -> String) {
    if changes.is_empty() {
        return;
    }
    let _ = writeln!(
        text,
        "\n{title}\n{:>14} {:>14} {:>10} {:>10}",
        "before", "after", "change", "to others"
    );
    for entry in changes {
        let mark = match entry.mark {
            Mark::Rose => "  ROSE",
            Mark::Fell => "  fell",
            Mark::Same => "",
        };
        let (before, after) = (show(entry.before), show(entry.after));
        let (share, unit) = (change(entry.ratio - 1.0), &entry.unit);
        let against = entry.against_others.map(|ratio| change(ratio - 1.0));
        let against = against.unwrap_or_default();
        let _ = writeln!(
            text,
            "{before:>14} {after:>14} {share:>10} {against:>10} {unit:<12} {}{mark}",
            entry.name
        );
    }
}

fn rows(record: &Record) -> BTreeMap<&str, &RowRecord> {
    record
        .rows
        .iter()
        .map(|row| (row.name.as_str(), row))
        .collect()
}

fn counts(record: &Record) -> BTreeMap<&str, (&str, u64)> {
    let counts = record
        .instructions
        .iter()
        .flat_map(|instructions| &instructions.counts);
    counts
        .map(|count| {
            (
                count.name.as_str(),
                (count.name.as_str(), count.instructions),
            )
        })
        .collect()
}

/// What both maps have; the names that one of them alone has are added to the lists.
fn pairs<'m, V: Copy>(
    before: &BTreeMap<&'m str, V>,
    after: &BTreeMap<&'m str, V>,
    (gone, new): (&mut Vec<String>, &mut Vec<String>),
) -> Vec<(V, V)> {
    let only = |these: &BTreeMap<&'m str, V>, those: &BTreeMap<&'m str, V>| -> Vec<String> {
        let names = these.keys().filter(|name| !those.contains_key(*name));
        names.map(|name| (*name).to_owned()).collect()
    };
    // Where one of them has nothing of the kind there is nothing to miss.
    if !before.is_empty() && !after.is_empty() {
        gone.extend(only(before, after));
        new.extend(only(after, before));
    }
    let both = before
        .iter()
        .filter_map(|(name, value)| Some((*value, *after.get(name)?)));
    both.collect()
}

/// From where to where half of the samples lie, or what is known of it.
fn spread(row: &RowRecord) -> (f64, f64) {
    let low = row.lower_quartile.unwrap_or(row.minimum);
    let high = row.upper_quartile.unwrap_or(row.median);
    (low, high)
}

/// A row before and after.
type Pair<'r> = (&'r RowRecord, &'r RowRecord);

fn is_ours(row: &RowRecord) -> bool {
    row.kind == "ours"
}

fn group(row: &RowRecord) -> (&str, &str, &str) {
    (&row.stage, &row.task, &row.size)
}

/// A time, or its share of another one: how it changed, and between what it lay before and lies after.
struct Move {
    ratio: f64,
    was: (f64, f64),
    is: (f64, f64),
}

impl Move {
    fn of((before, after): Pair<'_>) -> Self {
        Self {
            ratio: after.minimum / before.minimum,
            was: spread(before),
            is: spread(after),
        }
    }

    fn against(&self, other: &Self) -> Self {
        Self {
            ratio: self.ratio / other.ratio,
            was: by(self.was, other.was),
            is: by(self.is, other.is),
        }
    }

    fn mark(&self, threshold: f64) -> Mark {
        if self.ratio > 1.0 + threshold && self.is.0 > self.was.1 {
            Mark::Rose
        } else if self.ratio < 1.0 / (1.0 + threshold) && self.is.1 < self.was.0 {
            Mark::Fell
        } else {
            Mark::Same
        }
    }
}

/// `all` are the rows of both records, the others of this one's group among them.
fn of_times(pair: Pair<'_>, all: &[Pair<'_>], threshold: f64) -> Change {
    let (before, after) = pair;
    let own = Move::of(pair);
    let mut change = Change {
        name: before.name.clone(),
        unit: before.unit.clone(),
        before: before.minimum,
        after: after.minimum,
        ratio: own.ratio,
        against_others: None,
        mark: Mark::Same,
    };
    if !is_ours(before) {
        return change;
    }
    let others = all
        .iter()
        .filter(|(other, _)| !is_ours(other) && group(other) == group(before));
    let against: Vec<Move> = others.map(|other| own.against(&Move::of(*other))).collect();
    let ratios = against.iter().map(|moved| moved.ratio);
    change.against_others = ratios.min_by(|a, b| a.ln().abs().total_cmp(&b.ln().abs()));
    let judged = if against.is_empty() {
        vec![own]
    } else {
        against
    };
    let first = judged[0].mark(threshold);
    if judged.iter().all(|moved| moved.mark(threshold) == first) {
        change.mark = first;
    }
    change
}

fn of_counts((name, before): (&str, u64), (_, after): (&str, u64), threshold: f64) -> Change {
    let ratio = after as f64 / before.max(1) as f64;
    let mark = if ratio > 1.0 + threshold {
        Mark::Rose
    } else if ratio < 1.0 - threshold {
        Mark::Fell
    } else {
        Mark::Same
    };
    Change {
        name: name.to_owned(),
        unit: "instructions".to_owned(),
        before: before as f64,
        after: after as f64,
        ratio,
        against_others: None,
        mark,
    }
}

/// What makes times of two records comparable.
fn machine(record: &Record) -> (&str, &str, usize, &str) {
    let machine = &record.machine;
    (
        &machine.cpu,
        &machine.cpu_version,
        machine.cpus,
        &machine.affinity,
    )
}

/// The compilers of the counts, where both have counts and they are not of the same one.
fn compilers_of_counts<'r>(before: &'r Record, after: &'r Record) -> Option<(&'r str, &'r str)> {
    let (before, after) = (before.instructions.as_ref()?, after.instructions.as_ref()?);
    (before.rustc != after.rustc).then_some((before.rustc.as_str(), after.rustc.as_str()))
}

/// What else than the library may have changed the figures.
fn differences(before: &Record, after: &Record) -> Vec<String> {
    let mut found = Vec::new();
    let mut note = |what: &str, before: String, after: String| {
        if before != after {
            found.push(format!("{what}: {before}, then {after}"));
        }
    };
    let machine = |record: &Record| {
        let (cpu, version, cpus, affinity) = machine(record);
        format!("{cpu} ({version}), {cpus} CPUs ({affinity})")
    };
    note("machine", machine(before), machine(after));
    let system = |record: &Record| {
        let machine = &record.machine;
        format!(
            "{}, {}, huge pages {}",
            machine.os, machine.kernel, machine.huge_pages
        )
    };
    note("system", system(before), system(after));
    let build = |record: &Record| {
        let build = &record.build;
        let flags = if build.rustflags.is_empty() {
            "no flags"
        } else {
            &build.rustflags
        };
        format!(
            "{}, {}, opt-level {}, {flags}",
            build.rustc, build.target, build.opt_level
        )
    };
    note("build", build(before), build(after));
    note("levels", before.levels.join(" "), after.levels.join(" "));
    note(
        "features",
        before.features.join(" "),
        after.features.join(" "),
    );
    let effort = |record: &Record| {
        let settings = &record.settings;
        format!(
            "{} s a group, {} to {} samples",
            settings.seconds_per_group, settings.least_samples, settings.most_samples
        )
    };
    note("effort", effort(before), effort(after));
    if let Some((before, after)) = compilers_of_counts(before, after) {
        found.push(format!("compiler of the counts: {before}, then {after}"));
    }
    for (which, record) in [("first", before), ("second", after)] {
        if record.build.debug_assertions == Some(true) {
            found.push(format!(
                "the {which} was built with debug assertions: its times mean nothing"
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made;

    const THRESHOLDS: Thresholds = Thresholds {
        times: 0.05,
        instructions: 0.02,
    };

    /// One row so many times as slow.
    fn slower(name: &str, times: f64) -> Record {
        let mut record = made::later("fedcba9876", 1);
        slow_down(find(&mut record, name), times);
        record
    }

    fn find<'r>(record: &'r mut Record, name: &str) -> &'r mut RowRecord {
        let mut rows = record.rows.iter_mut();
        rows.find(|row| row.name == name).unwrap()
    }

    fn slow_down(row: &mut RowRecord, times: f64) {
        row.minimum *= times;
        row.median *= times;
        for quartile in [&mut row.lower_quartile, &mut row.upper_quartile] {
            *quartile = quartile.map(|time| time * times);
        }
    }

    fn mark_of(comparison: &Comparison, name: &str) -> Mark {
        let mut all = comparison.times.iter().chain(&comparison.instructions);
        all.find(|change| change.name == name).unwrap().mark
    }

    #[test]
    fn a_time_rose_where_it_is_above_the_threshold_and_outside_both_spreads() {
        let name = "decode/plain/1m/avx2";
        // The spread is from 0.98 to 1.05 of the median, of ours and of the others: (1.05 / 0.98)^2 is 1.148.
        for (times, mark, rises) in [
            (1.04, Mark::Same, 0),
            (1.14, Mark::Same, 0),
            (1.16, Mark::Rose, 1),
            (2.0, Mark::Rose, 1),
            (0.95, Mark::Same, 0),
            (0.8, Mark::Fell, 0),
        ] {
            let comparison = Comparison::of(&made::record(), &slower(name, times), THRESHOLDS);
            assert_eq!(mark_of(&comparison, name), mark, "{times}");
            assert_eq!(comparison.rises, rises, "{times}");
            let wide = Thresholds {
                times: 3.0,
                ..THRESHOLDS
            };
            assert_eq!(
                Comparison::of(&made::record(), &slower(name, times), wide).rises,
                0
            );
        }
    }

    #[test]
    fn a_slower_machine_raises_nothing_and_a_slower_row_rises_on_it_too() {
        let name = "decode/plain/1m/avx2";
        let mut record = slower(name, 1.5);
        for row in &mut record.rows {
            slow_down(row, 1.4);
        }
        let comparison = Comparison::of(&made::record(), &record, THRESHOLDS);
        let change = |name: &str| {
            let mut all = comparison.times.iter();
            all.find(|change| change.name == name).unwrap()
        };
        let ours = change(name);
        assert!((ours.ratio - 2.1).abs() < 1e-9, "{}", ours.ratio);
        assert!((ours.against_others.unwrap() - 1.5).abs() < 1e-9);
        assert_eq!(ours.mark, Mark::Rose);
        assert_eq!(comparison.rises, 1);
        let naive = change("decode/plain/1m/naive");
        assert_eq!((naive.mark, naive.against_others), (Mark::Same, None));

        // One of the others that went the same way says that it may be the machine.
        slow_down(find(&mut record, "decode/plain/1m/naive"), 1.5);
        assert_eq!(
            Comparison::of(&made::record(), &record, THRESHOLDS).rises,
            0
        );
    }

    #[test]
    fn a_row_of_a_group_of_ours_alone_stands_for_itself() {
        let name = "decode/plain/1m/avx2";
        let only_ours = |mut record: Record| {
            record.rows.retain(|row| row.kind == "ours");
            record
        };
        let (before, after) = (only_ours(made::record()), only_ours(slower(name, 1.2)));
        let comparison = Comparison::of(&before, &after, THRESHOLDS);
        assert_eq!(mark_of(&comparison, name), Mark::Rose);
        assert_eq!(comparison.rises, 1);
    }

    #[test]
    fn without_quartiles_the_spread_is_from_the_minimum_to_the_median() {
        let name = "decode/plain/1m/avx2";
        let without = |mut record: Record| {
            for row in &mut record.rows {
                (row.lower_quartile, row.upper_quartile) = (None, None);
            }
            record
        };
        let compare = |times| {
            Comparison::of(
                &without(made::record()),
                &without(slower(name, times)),
                THRESHOLDS,
            )
        };
        assert_eq!(
            mark_of(&compare(1.10), name),
            Mark::Same,
            "the minimum, by the others' median, is below the median before by their minimum"
        );
        assert_eq!(mark_of(&compare(1.12), name), Mark::Rose);
    }

    #[test]
    fn rises_on_another_machine_are_said_and_bind_nobody() {
        let mut other = slower("decode/plain/1m/avx2", 3.0);
        other.machine.affinity = "1".to_owned();
        let comparison = Comparison::of(&made::record(), &other, THRESHOLDS);
        assert_eq!(mark_of(&comparison, "decode/plain/1m/avx2"), Mark::Rose);
        assert!(!comparison.times_bind && comparison.rises == 0);
        assert!(
            comparison.text().starts_with("differs: machine"),
            "{}",
            comparison.text()
        );
        other.instructions.as_mut().unwrap().counts[0].instructions *= 2;
        assert_eq!(
            Comparison::of(&made::record(), &other, THRESHOLDS).rises,
            1,
            "counts do"
        );
    }

    #[test]
    fn counts_rise_above_their_threshold_if_the_compiler_is_the_same() {
        let with = |count: u64, rustc: &str| {
            let mut record = made::later("fedcba9876", 1);
            let instructions = record.instructions.as_mut().unwrap();
            instructions.rustc = rustc.to_owned();
            instructions.counts[0].instructions = count;
            Comparison::of(&made::record(), &record, THRESHOLDS)
        };
        for (count, rises) in [(500_000, 0), (510_000, 0), (510_001, 1), (400_000, 0)] {
            assert_eq!(with(count, "rustc 1.95.0").rises, rises, "{count}");
        }
        let other = with(900_000, "rustc 2");
        assert!(!other.instructions_bind && other.rises == 0);
        assert!(
            other
                .text()
                .contains("compiler of the counts: rustc 1.95.0, then rustc 2")
        );
    }

    #[test]
    fn the_largest_rise_is_first_and_what_only_one_has_is_listed() {
        let mut after = slower("decode/plain/1m/avx2", 3.0);
        after.rows.retain(|row| row.who != "naive");
        after.rows[0].name = "decode/plain/1m/newcomer".to_owned();
        let comparison = Comparison::of(&made::record(), &after, THRESHOLDS);
        assert_eq!(comparison.times[0].name, "decode/plain/1m/avx2");
        assert_eq!(comparison.gone.len(), 4, "{:?}", comparison.gone);
        assert_eq!(comparison.new, ["decode/plain/1m/newcomer"]);
        let json = serde_json::to_value(&comparison).unwrap();
        assert_eq!(json["times"][0]["mark"], "rose");
        assert_eq!(json["rises"], 1);
    }

    #[test]
    fn a_record_of_counts_alone_misses_no_rows() {
        let mut after = made::later("fedcba9876", 1);
        after.rows.clear();
        let comparison = Comparison::of(&made::record(), &after, THRESHOLDS);
        assert!(comparison.gone.is_empty() && comparison.times.is_empty());
        assert_eq!(comparison.instructions.len(), 3);
    }
}
