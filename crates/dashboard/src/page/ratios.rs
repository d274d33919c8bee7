//! History of ratios by commit, on each machine: times differ between machines and hours, ratios of one run less.

use maud::{Markup, html};
use nutfilter_benchmarks::record::Record;

use super::counts::commit_axis;
use super::figure::{Figure, picked};
use super::headline;
use super::table::{Cell, Row, Table};
use super::words;
use crate::chart::Drawings;
use crate::chart::appearance::label;
use crate::chart::frame::Axis;
use crate::chart::lines::{Lines, Point, Series};
use crate::chart::scale::Kind;
use crate::number::{significant, times};
use crate::records::{Kept, day, items, short_commit};
use crate::standing::{Role, Standing, sizes, standing};

/// One ratio, and whether it is worse than the one before.
struct Step<'r> {
    /// The place of its record in the history.
    at: usize,
    standing: Standing<'r>,
    /// Worse by more than both spreads.
    worse: bool,
}

/// The steps of one role.
struct History<'r> {
    role: Role,
    size: &'r str,
    steps: Vec<Step<'r>>,
}

/// A figure for each machine and task, and what got worse, in words.
#[must_use]
pub fn draw(records: &[Kept]) -> Markup {
    let mut machines: Vec<String> = records
        .iter()
        .map(|kept| kept.record.machine_name())
        .collect();
    machines.sort_unstable();
    machines.dedup();
    // What is seen first is of the machine that the page speaks of first.
    let first = headline::record(records).map(|kept| kept.record.machine_name());
    machines.sort_by_key(|machine| Some(machine) != first.as_ref());
    let mut figures = Vec::new();
    let mut worse = Vec::new();
    for machine in machines {
        let of_machine = records.iter().map(|kept| &kept.record);
        let of_machine =
            of_machine.filter(|record| record.machine_name() == machine && !record.rows.is_empty());
        let of_machine: Vec<&Record> = of_machine.collect();
        for (name, task) in headline::tasks() {
            if let Some((figure, words)) = figure(&machine, &of_machine, name, task) {
                figures.push(figure);
                worse.extend(words);
            }
        }
    }
    html! {
        p {
            @if worse.is_empty() {
                "No ratio got worse by more than its spread from one record of a machine to the next."
            } @else {
                (worse.len()) " ratios got worse by more than the spread of both records; they have a "
                span class="rose-word" { "▲" } " in the charts:"
            }
        }
        @if !worse.is_empty() {
            ul class="rises" { @for words in &worse { li { span class="rose-word" { "▲" } " " (words) } } }
        }
        (picked("ratios", &figures))
    }
}

/// The figure of one task on one machine; and what got worse.
fn figure(
    machine: &str,
    records: &[&Record],
    name: &str,
    task: (&str, &str),
) -> Option<(Figure, Vec<String>)> {
    let histories: Vec<History<'_>> = Role::ALL
        .iter()
        .filter_map(|role| history(records, task, *role))
        .collect();
    if histories.is_empty() {
        return None;
    }
    let worse = histories
        .iter()
        .flat_map(|history| history.steps.iter().filter(|step| step.worse));
    let say = |step: &Step<'_>| {
        let commit = short_commit(records[step.at]);
        let (ours, who) = (&step.standing.ours.name, label(&step.standing.other.who));
        format!(
            "{machine}: {ours} against {who} at {commit}: {}",
            times(step.standing.ratio())
        )
    };
    let worse: Vec<String> = worse.map(say).collect();
    let title = format!("{name}: ratios by commit");
    let chart = Lines {
        says: title.clone(),
        x: commit_axis(records.iter().map(|record| short_commit(record))),
        y: Axis {
            name: "their time by ours".to_owned(),
            kind: Kind::Log,
            interval: None,
            ticks: Vec::new(),
            write: times_of_tick,
        },
        series: histories.iter().map(series).collect(),
        rules: Vec::new(),
    };
    let figure = Figure {
        id: format!("ratios-{machine}-{}-{}", task.0, task.1),
        title,
        caption: caption(machine, records, task, &histories),
        legend: histories
            .iter()
            .map(|history| history.role.key().to_owned())
            .collect(),
        drawings: Some(Drawings::of(|room| chart.draw(room))),
        table: table(records, &histories),
        choices: vec![("Machine", machine.to_owned()), ("Task", name.to_owned())],
    };
    Some((figure, worse))
}

fn caption(
    machine: &str,
    records: &[&Record],
    task: (&str, &str),
    histories: &[History<'_>],
) -> Markup {
    let sizes = histories
        .iter()
        .map(|history| format!("{} at {}", label(history.role.key()), history.size));
    html! {
        p {
            (words::task_title(task.0, task.1)) ", on " (machine) ", our best level on one thread; "
            (sizes.collect::<Vec<_>>().join(", ")) " notes. Medians; whiskers from their lower quartile by our upper one to their upper by our "
            "lower one, where the record has quartiles. Above 1× we are faster. "
            @match records.len() { 1 => { "One record so far." } n => { (n) " records." } }
        }
    }
}

fn times_of_tick(tick: f64) -> String {
    format!("{}×", crate::number::trimmed(tick))
}

/// The steps of one role, at the size at which most records have it, and of those the largest.
fn history<'r>(
    records: &[&'r Record],
    (stage, task): (&str, &str),
    role: Role,
) -> Option<History<'r>> {
    let mut all: Vec<(u64, &'r str)> = Vec::new();
    for record in records {
        let found = sizes(record, stage, task).into_iter();
        let found =
            found.filter_map(|size| standing(record, &format!("{stage}/{task}/{size}"), role));
        all.extend(found.map(|standing| (items(standing.ours), standing.ours.size.as_str())));
    }
    let count = |size: &(u64, &str)| all.iter().filter(|other| *other == size).count();
    let (_, size) = *all.iter().max_by_key(|size| (count(size), size.0))?;
    let mut steps: Vec<Step<'r>> = Vec::new();
    for (at, record) in records.iter().enumerate() {
        let Some(standing) = standing(record, &format!("{stage}/{task}/{size}"), role) else {
            continue;
        };
        let before = steps.last().and_then(|step| step.standing.spread());
        let worse = before
            .zip(standing.spread())
            .is_some_and(|(before, now)| now.1 < before.0);
        steps.push(Step {
            at,
            standing,
            worse,
        });
    }
    Some(History { role, size, steps })
}

fn series(history: &History<'_>) -> Series {
    let point = |step: &Step<'_>| Point {
        x: step.at as f64,
        y: step.standing.ratio(),
        spread: step.standing.spread(),
        note: format!(
            "{}: {} ({} beside {})",
            label(&step.standing.other.who),
            times(step.standing.ratio()),
            words::time_per(step.standing.other),
            words::time_per(step.standing.ours)
        ),
        rose: step.worse,
    };
    Series {
        key: history.role.key().to_owned(),
        points: history.steps.iter().map(point).collect(),
        joined: true,
        marked: true,
    }
}

fn table(records: &[&Record], histories: &[History<'_>]) -> Table {
    let ratio = |value: f64| significant(value, 3);
    let row = |role: Role, step: &Step<'_>| {
        let spread = step.standing.spread();
        let cells = vec![
            Cell::text(short_commit(records[step.at])),
            Cell::text(day(records[step.at])),
            Cell::text(step.standing.ours.name.clone()),
            Cell::text(step.standing.other.who.clone()),
            Cell::number(step.standing.ratio(), ratio(step.standing.ratio())),
            Cell::known(spread.map(|spread| spread.0), ratio),
            Cell::known(spread.map(|spread| spread.1), ratio),
            Cell::number(
                step.standing.ratio_of_minima(),
                ratio(step.standing.ratio_of_minima()),
            ),
            Cell::text(if step.worse { "▲ worse" } else { "" }),
        ];
        Row::of(role.key(), cells)
    };
    let rows = histories
        .iter()
        .flat_map(|history| history.steps.iter().map(|step| row(history.role, step)));
    Table {
        columns: vec![
            "commit",
            "date",
            "ours",
            "against",
            "ratio of medians",
            "lowest",
            "highest",
            "ratio of minima",
            "mark",
        ],
        rows: rows.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made;

    /// The same with all of our times so many times as long.
    fn slower(mut record: Record, times: f64) -> Record {
        for row in record.rows.iter_mut().filter(|row| row.kind == "ours") {
            row.median *= times;
            row.minimum *= times;
            row.lower_quartile = row.lower_quartile.map(|time| time * times);
            row.upper_quartile = row.upper_quartile.map(|time| time * times);
        }
        record
    }

    #[test]
    fn a_ratio_that_falls_below_the_spread_before_is_marked_and_said() {
        let records = made::kept(vec![
            made::record(),
            slower(made::later("bbbbbbb", 1), 1.05),
            slower(made::later("ccccccc", 2), 1.6),
        ]);
        let drawn = draw(&records).into_string();
        assert!(drawn.contains(
            "xeon-2-cpus: decode/plain/10m/avx512 against best parts put together at ccccccc: 5.00×"
        ));
        assert!(
            !drawn.contains("at bbbbbbb: "),
            "five percent lie within the spread"
        );
        assert!(drawn.contains("class=\"rose\""));
    }

    #[test]
    fn each_machine_and_task_has_a_figure_with_every_role_that_was_measured() {
        let mut other = made::later("bbbbbbb", 1);
        other.machine.cpus = 9;
        other.rows.retain(|row| row.stage == "decode");
        let drawn = draw(&made::kept(vec![made::record(), other])).into_string();
        assert_eq!(drawn.matches("<figure").count(), 5);
        assert!(drawn.contains("data-choice=\"xeon-9-cpus/Decode\""));
        for role in Role::ALL {
            assert!(
                drawn.contains(&format!("data-series=\"{}\"", role.key())),
                "{role:?}"
            );
        }
    }

    #[test]
    fn the_size_of_a_role_is_the_one_that_most_records_have() {
        let (full, mut small) = (made::record(), made::later("b", 1));
        small.rows.retain(|row| row.size == "1m");
        let size = |records: &[&Record], role| {
            history(records, ("decode", "plain"), role).map(|found| found.size.to_owned())
        };
        assert_eq!(size(&[&full], Role::PutTogether).as_deref(), Some("10m"));
        assert_eq!(
            size(&[&full, &small], Role::PutTogether).as_deref(),
            Some("1m")
        );
        assert_eq!(size(&[&full], Role::Naive).as_deref(), Some("1m"));
        assert_eq!(size(&[&full], Role::OtherFormat), None);
    }
}
