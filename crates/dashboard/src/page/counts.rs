//! History of instruction counts by commit: they are exact, so every rise is one.

use std::collections::BTreeMap;

use maud::{Markup, html};
use nutfilter_benchmarks::baseline::ALLOWED;
use nutfilter_benchmarks::record::Instructions;

use super::figure::{Figure, picked};
use super::table::{Cell, Row, Table};
use super::words;
use crate::chart::Drawings;
use crate::chart::appearance::label;
use crate::chart::frame::Axis;
use crate::chart::lines::{Lines, Point, Series};
use crate::chart::scale::Kind;
use crate::number::{change, short_count, whole};
use crate::records::{Kept, day, short_commit};

/// The counts of one commit.
struct At<'r> {
    commit: String,
    day: &'r str,
    instructions: &'r Instructions,
}

/// One count, and what it was before.
#[derive(Clone, Debug, PartialEq)]
struct Step {
    /// The place of its commit in the history.
    at: usize,
    instructions: u64,
    /// By how much of what it was before it rose, where the same compiler counted then.
    change: Option<f64>,
    rose: bool,
}

/// The steps of each row, by name.
type Histories<'r> = BTreeMap<&'r str, Vec<Step>>;

/// A figure for each task, and what rose, in words.
#[must_use]
pub fn draw(records: &[Kept]) -> Markup {
    let commits = commits(records);
    let histories = histories(&commits);
    let figures = figures(&commits, &histories);
    html! {
        @if let (Some(first), Some(last)) = (commits.first(), commits.last()) {
            (sentences(&commits, &histories, (first, last)))
            (picked("counts", &figures))
        } @else {
            p { "No record has counts yet." }
        }
    }
}

/// The records with counts, the oldest first; of a commit that was counted more than once the last one.
fn commits(records: &[Kept]) -> Vec<At<'_>> {
    let mut all: Vec<At<'_>> = Vec::new();
    for Kept { record, .. } in records {
        let Some(instructions) = &record.instructions else {
            continue;
        };
        let commit = short_commit(record);
        all.retain(|at| at.commit != commit);
        all.push(At {
            commit,
            day: day(record),
            instructions,
        });
    }
    all
}

fn histories<'r>(commits: &[At<'r>]) -> Histories<'r> {
    let mut histories: Histories<'r> = BTreeMap::new();
    for (at, commit) in commits.iter().enumerate() {
        for count in &commit.instructions.counts {
            let steps = histories.entry(&count.name).or_default();
            let before = steps.last().filter(|step| {
                // Another compiler makes other code.
                commits[step.at].instructions.rustc == commit.instructions.rustc
            });
            let change = before
                .map(|step| count.instructions as f64 / step.instructions.max(1) as f64 - 1.0);
            let rose = before.is_some_and(|step| {
                u128::from(count.instructions) * 100
                    > u128::from(step.instructions) * u128::from(100 + ALLOWED)
            });
            steps.push(Step {
                at,
                instructions: count.instructions,
                change,
                rose,
            });
        }
    }
    histories
}

/// How many rows take at least 2 % less than when they were first counted, about the same, and at least 2 % more.
fn since_the_first(histories: &Histories<'_>) -> (usize, usize, usize) {
    let (mut less, mut same, mut more) = (0, 0, 0);
    // One that was counted once has no history.
    for steps in histories.values().filter(|steps| steps.len() > 1) {
        let (first, last) = (steps[0].instructions, steps[steps.len() - 1].instructions);
        match last as f64 / first.max(1) as f64 {
            ..0.98 => less += 1,
            ..1.02 => same += 1,
            _ => more += 1,
        }
    }
    (less, same, more)
}

/// Whether it gets better or worse, in a sentence.
#[must_use]
pub fn glance(records: &[Kept]) -> Option<Markup> {
    let commits = commits(records);
    let last = commits.len().checked_sub(1).filter(|last| *last > 0)?;
    let histories = histories(&commits);
    let (less, same, more) = since_the_first(&histories);
    let steps = histories.values().flatten();
    let rose = steps.filter(|step| step.at == last && step.rose).count();
    Some(html! {
        strong { "Trend: " (less) " of " (less + same + more) " rows take fewer instructions" }
        " than when they were first counted, " (same) " about as many, " (more) " more; at the newest of " (commits.len())
        " commits " (rose) " rose by more than " (ALLOWED) " %."
    })
}

fn sentences(
    commits: &[At<'_>],
    histories: &Histories<'_>,
    (first, last): (&At<'_>, &At<'_>),
) -> Markup {
    let (less, same, more) = since_the_first(histories);
    let rises = histories.iter().flat_map(|(name, steps)| {
        steps
            .iter()
            .filter(|step| step.rose)
            .map(move |step| (*name, step))
    });
    let mut rises: Vec<(&str, &Step)> = rises.collect();
    rises.sort_by_key(|(name, step)| (std::cmp::Reverse(step.at), *name));
    html! {
        p {
            (histories.len()) " rows were counted at " (commits.len()) " commits, from " (first.day) " (" code { (first.commit) }
            ") to " (last.day) " (" code { (last.commit) } "). Against their first count " (less) " take at least 2 % less, "
            (more) " at least 2 % more, " (same) " about the same. "
            @if rises.is_empty() {
                "No step rose by more than " (ALLOWED) " %."
            } @else {
                (rises.len()) " steps rose by more than " (ALLOWED) " %; they have a " span class="rose-word" { "▲" } " in the charts:"
            }
        }
        @if !rises.is_empty() {
            ul class="rises" {
                @for (name, step) in rises {
                    li {
                        span class="rose-word" { "▲" } " " code { (name) } " rose by " (change(step.change.unwrap_or(0.0)))
                        " at " code { (commits[step.at].commit) } " (" (commits[step.at].day) "), to " (whole(step.instructions))
                    }
                }
            }
        }
    }
}

/// A name without its last part, and that.
fn split(name: &str) -> (&str, &str) {
    name.rsplit_once('/').unwrap_or(("", name))
}

fn figures(commits: &[At<'_>], histories: &Histories<'_>) -> Vec<Figure> {
    let mut paths: Vec<&str> = histories.keys().map(|name| split(name).0).collect();
    paths.dedup();
    let of_path = |path: &&str| {
        let rows = histories.iter().filter(|(name, _)| split(name).0 == *path);
        figure(
            commits,
            path,
            &rows
                .map(|(name, steps)| (split(name).1, steps))
                .collect::<Vec<_>>(),
        )
    };
    paths.iter().map(of_path).collect()
}

fn figure(commits: &[At<'_>], path: &str, rows: &[(&str, &Vec<Step>)]) -> Figure {
    let mut parts = path.split('/');
    let (stage, task) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    let size = parts.collect::<Vec<_>>().join("/");
    let title = format!("{}: instructions by commit", words::task_title(stage, task));
    let chart = Lines {
        says: title.clone(),
        x: commit_axis(commits.iter().map(|at| at.commit.clone())),
        y: Axis {
            name: "instructions of one call".to_owned(),
            kind: Kind::Log,
            interval: None,
            ticks: Vec::new(),
            write: short_count,
        },
        series: rows
            .iter()
            .map(|(who, steps)| series(commits, who, steps))
            .collect(),
        rules: Vec::new(),
    };
    Figure {
        id: format!("instructions-{stage}-{task}"),
        title,
        caption: html! {
            p {
                "One call over " (size) " notes under callgrind: exact for a commit and a compiler. "
                @if rows.iter().any(|(_, steps)| steps.iter().any(|step| step.rose)) {
                    span class="rose-word" { "▲" } " rose by more than " (ALLOWED) " %."
                } @else {
                    "No step rose by more than " (ALLOWED) " %."
                }
            }
        },
        legend: rows.iter().map(|(who, _)| (*who).to_owned()).collect(),
        drawings: Some(Drawings::of(|room| chart.draw(room))),
        table: table(commits, rows),
        choices: vec![("Stage", stage.to_owned()), ("Task", task.to_owned())],
    }
}

/// Commits one after the other, each with its name.
pub(crate) fn commit_axis(commits: impl Iterator<Item = String>) -> Axis {
    let ticks: Vec<(f64, String)> = commits
        .enumerate()
        .map(|(i, commit)| (i as f64, commit))
        .collect();
    let last = ticks.len().saturating_sub(1) as f64;
    Axis {
        name: "commits, the newest on the right".to_owned(),
        kind: Kind::Linear,
        interval: Some((-0.4, last + 0.4)),
        ticks,
        write: short_count,
    }
}

fn series(commits: &[At<'_>], who: &str, steps: &[Step]) -> Series {
    let point = |step: &Step| Point {
        x: step.at as f64,
        y: step.instructions as f64,
        spread: None,
        note: format!(
            "{}, {}: {} instructions{}",
            label(who),
            commits[step.at].commit,
            whole(step.instructions),
            step.change
                .map_or(String::new(), |share| format!(" ({})", change(share)))
        ),
        rose: step.rose,
    };
    Series {
        key: who.to_owned(),
        points: steps.iter().map(point).collect(),
        joined: true,
        marked: true,
    }
}

fn table(commits: &[At<'_>], rows: &[(&str, &Vec<Step>)]) -> Table {
    let row = |who: &str, step: &Step| {
        let at = &commits[step.at];
        let mark = if step.rose { "▲ rose" } else { "" };
        let cells = vec![
            Cell::text(at.commit.clone()),
            Cell::text(at.day),
            Cell::text(who),
            Cell::number(step.instructions as f64, whole(step.instructions)),
            Cell::known(step.change, change),
            Cell::text(mark),
            Cell::text(at.instructions.rustc.clone()),
        ];
        Row::of(who, cells)
    };
    Table {
        columns: vec![
            "commit",
            "date",
            "level",
            "instructions",
            "against the one before",
            "mark",
            "compiler",
        ],
        rows: rows
            .iter()
            .flat_map(|(who, steps)| steps.iter().map(|step| row(who, step)))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made;
    use nutfilter_benchmarks::record::Record;

    fn with_counts(commit: &str, date: u32, portable: u64, rustc: &str) -> Record {
        let mut record = made::later(commit, date);
        let instructions = record.instructions.as_mut().unwrap();
        instructions.rustc = rustc.to_owned();
        for count in &mut instructions.counts {
            if count.name.ends_with("portable") {
                count.instructions = portable;
            }
        }
        record
    }

    #[test]
    fn a_rise_of_more_than_two_percent_is_marked_and_said_and_a_smaller_one_is_not() {
        let records = made::kept(vec![
            with_counts("aaaaaaa1", 1, 1_000_000, "rustc 1"),
            with_counts("bbbbbbb2", 2, 1_020_000, "rustc 1"),
            with_counts("ccccccc3", 3, 1_050_000, "rustc 1"),
            with_counts("ddddddd4", 4, 2_000_000, "rustc 2"),
        ]);
        let drawn = draw(&records).into_string();
        assert!(drawn.contains("1 steps rose by more than 2 %"));
        let said = glance(&records).unwrap().into_string();
        assert!(
            said.contains("0 of 3 rows take fewer") && said.contains("2 about as many, 1 more"),
            "{said}"
        );
        assert!(
            said.contains("at the newest of 4 commits 0 rose"),
            "another compiler counted: {said}"
        );
        assert!(glance(&records[..1]).is_none());
        assert!(drawn.contains(
            "<code>decode/plain/100k/portable</code> rose by +2.9 % at <code>ccccccc</code>"
        ));
        // Once in each drawing, wide and narrow.
        assert_eq!(drawn.matches("class=\"rose\"").count(), 2);
        assert_eq!(drawn.matches("▲ rose").count(), 1, "in the table");
    }

    #[test]
    fn every_row_is_a_series_of_the_figure_of_its_task() {
        let records = made::kept(vec![made::record(), made::later("fedcba9876", 1)]);
        let commits = commits(&records);
        let figures = figures(&commits, &histories(&commits));
        assert_eq!(figures.len(), 2);
        let legends: Vec<&[String]> = figures
            .iter()
            .map(|figure| figure.legend.as_slice())
            .collect();
        assert_eq!(
            legends,
            [
                &["avx2".to_owned()][..],
                &["avx2".to_owned(), "portable".to_owned()]
            ]
        );
        for figure in &figures {
            assert_eq!(figure.table.rows.len(), 2 * figure.legend.len());
            let drawn = figure.drawings.as_ref().unwrap().wide.clone().into_string();
            for key in &figure.legend {
                assert!(drawn.contains(&format!("data-series=\"{key}\"")), "{key}");
            }
        }
    }

    #[test]
    fn a_commit_that_was_counted_twice_is_one_step() {
        let records = made::kept(vec![
            with_counts("aaaaaaa1", 1, 1_000_000, "rustc 1"),
            with_counts("aaaaaaa1", 2, 1_000_001, "rustc 1"),
        ]);
        assert_eq!(commits(&records).len(), 1);
        assert!(
            draw(&made::kept(vec![]))
                .into_string()
                .contains("No record has counts yet")
        );
    }
}
