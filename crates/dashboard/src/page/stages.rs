//! Time over the size of the set, one figure a task.

use maud::{Markup, html};
use nutfilter_benchmarks::record::{Record, RowRecord};

use super::figure::{Figure, picked};
use super::table::{Cell, Row, Table};
use super::words;
use crate::chart::Drawings;
use crate::chart::appearance::label;
use crate::chart::frame::Axis;
use crate::chart::lines::{Lines, Point, Series};
use crate::chart::scale::Kind;
use crate::number::{rate, short_count, short_time, significant};
use crate::records::{Kept, day, items, short_commit};

/// The figures of all tasks of each machine, with pickers.
#[must_use]
pub fn draw(records: &[Kept]) -> Markup {
    let machines = super::newest_of_each_machine(records);
    let figures: Vec<Figure> = machines.iter().flat_map(|record| figures(record)).collect();
    picked("stages-of-a-run", &figures)
}

/// A figure for each task of a record, in the order of its rows.
#[must_use]
pub fn figures(record: &Record) -> Vec<Figure> {
    let mut tasks: Vec<(&str, &str)> = Vec::new();
    for row in &record.rows {
        let task = (row.stage.as_str(), row.task.as_str());
        if !tasks.contains(&task) {
            tasks.push(task);
        }
    }
    tasks.into_iter().map(|task| figure(record, task)).collect()
}

fn figure(record: &Record, (stage, task): (&str, &str)) -> Figure {
    let of_task = record
        .rows
        .iter()
        .filter(|row| row.stage == stage && row.task == task);
    let rows: Vec<&RowRecord> = of_task.collect();
    let title = words::task_title(stage, task);
    let unit = rows.first().map_or("a call", |row| words::per(&row.unit));
    let series = series(&rows);
    let legend = series.iter().map(|series| series.key.clone()).collect();
    let axis = |name: String, write| Axis {
        name,
        kind: Kind::Log,
        interval: None,
        ticks: Vec::new(),
        write,
    };
    let mut x = axis("notes in the set".to_owned(), short_count);
    x.ticks = sizes(&rows);
    let chart = Lines {
        says: format!("{title}: time {unit} over the number of notes"),
        x,
        y: axis(format!("time {unit}"), short_time),
        series,
        rules: Vec::new(),
    };
    let machine = record.machine_name();
    Figure {
        id: format!("{machine}-{stage}-{task}"),
        title,
        caption: caption(record, &rows),
        legend,
        drawings: Some(Drawings::of(|room| chart.draw(room))),
        table: table(&rows),
        choices: vec![
            ("Machine", machine),
            ("Stage", stage.to_owned()),
            ("Task", task.to_owned()),
        ],
    }
}

/// One for each who, in the order of the rows.
fn series(rows: &[&RowRecord]) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for row in rows {
        let point = Point {
            x: items(row) as f64,
            y: row.median,
            spread: row.lower_quartile.zip(row.upper_quartile),
            note: format!(
                "{}: {}, {}",
                label(&row.who),
                words::time_per(row),
                words::notes(row)
            ),
            rose: false,
        };
        match all.iter_mut().find(|series| series.key == row.who) {
            Some(series) => series.points.push(point),
            None => all.push(Series {
                key: row.who.clone(),
                points: vec![point],
                joined: true,
                marked: true,
            }),
        }
    }
    for series in &mut all {
        series.points.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    all
}

/// The sizes that were measured are the ticks: there is nothing between them.
fn sizes(rows: &[&RowRecord]) -> Vec<(f64, String)> {
    let mut sizes: Vec<u64> = rows.iter().map(|row| items(row)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
        .into_iter()
        .map(|n| (n as f64, short_count(n as f64)))
        .collect()
}

fn caption(record: &Record, rows: &[&RowRecord]) -> Markup {
    let has = |kind: &str| rows.iter().any(|row| row.kind == kind);
    html! {
        p {
            "Medians, both axes logarithmic"
            @if rows.iter().any(|row| row.lower_quartile.is_some()) { "; whiskers from the lower to the upper quartile" }
            ". What is drawn through is ours"
            @if has("limit") { "; the limit is what the hardware takes to move the same bytes" }
            ". " (record.machine_name()) ", " (day(record)) ", commit " code { (short_commit(record)) } "."
        }
    }
}

fn table(rows: &[&RowRecord]) -> Table {
    let time = |value: f64| significant(value, 4);
    let row = |row: &&RowRecord| {
        let cells = vec![
            Cell::text(row.name.clone()),
            Cell::text(label(&row.who)),
            Cell::number(items(row) as f64, words::notes(row)),
            Cell::text(row.unit.clone()),
            Cell::number(row.median, time(row.median)),
            Cell::known(row.lower_quartile, time),
            Cell::known(row.upper_quartile, time),
            Cell::number(row.minimum, time(row.minimum)),
            Cell::number(row.samples as f64, row.samples.to_string()),
            Cell::known(row.bits_per_item, |bits| significant(bits, 4)),
            Cell::known(row.false_positive_rate, rate),
        ];
        Row::of(&row.who, cells)
    };
    Table {
        columns: vec![
            "row",
            "who",
            "notes",
            "unit",
            "median",
            "lower quartile",
            "upper quartile",
            "minimum",
            "samples",
            "bits a note",
            "false-positive rate",
        ],
        rows: rows.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made;

    #[test]
    fn every_row_of_a_record_is_in_the_chart_and_in_the_table_of_its_task() {
        let record = made::record();
        let figures = figures(&record);
        let titles: Vec<&str> = figures
            .iter()
            .map(|figure| figure.choices[2].1.as_str())
            .collect();
        assert_eq!(titles, ["plain", "nut25", "1k-absent", "latency"]);
        let mut rows = 0;
        for figure in &figures {
            let drawings = figure.drawings.as_ref().unwrap();
            for drawn in [&drawings.wide, &drawings.narrow].map(|drawn| drawn.clone().into_string())
            {
                assert_eq!(
                    drawn.matches("class=\"point\"").count(),
                    figure.table.rows.len()
                );
                for key in &figure.legend {
                    assert!(drawn.contains(&format!("data-series=\"{key}\"")), "{key}");
                }
            }
            rows += figure.table.rows.len();
        }
        assert_eq!(rows, record.rows.len());
    }

    #[test]
    fn rows_of_the_table_are_hidden_with_their_series() {
        let figure = &figures(&made::record())[0];
        for row in &figure.table.rows {
            let series = row.series.as_ref().unwrap();
            assert!(figure.legend.contains(series), "{series}");
        }
    }
}
