//! The first thing that is seen: four tasks as ratios, with a sentence each.

use maud::{Markup, html};
use nutfilter_benchmarks::record::{Record, RowRecord};

use super::figure::Figure;
use super::table::{Cell, Row, Table};
use super::words;
use crate::chart::Drawings;
use crate::chart::appearance::label;
use crate::chart::bars::{Bar, Bars, Group};
use crate::number::{count, percent, significant, times};
use crate::records::{Kept, day, items, short_commit};
use crate::standing::{Role, Standing, best_ours, largest, sizes};

/// One of the four.
struct Task {
    name: &'static str,
    /// What is timed.
    what: &'static str,
    /// Stage and task.
    of: (&'static str, &'static str),
    /// Where libraries are measured that do not have this task: they are held against our row there.
    libraries: &'static [(&'static str, &'static str)],
    roles: &'static [Role],
}

const CODEC: &[Role] = &[Role::PutTogether, Role::Library, Role::Naive, Role::Limit];

const TASKS: [Task; 4] = [
    Task {
        name: "Build",
        what: "hash with NUT-25, sort, encode",
        of: ("build", "nut25"),
        libraries: &[("build", "nut25"), ("build", "bip158")],
        roles: CODEC,
    },
    Task {
        name: "Decode",
        what: "read and check every code",
        of: ("decode", "plain"),
        libraries: &[("decode", "plain"), ("decode", "sum")],
        roles: CODEC,
    },
    Task {
        name: "Match",
        what: "1,000 absent notes against a filter just received",
        of: ("match", "1k-absent"),
        libraries: &[("match", "1k-absent")],
        roles: CODEC,
    },
    Task {
        name: "Look-up",
        what: "one after the other, with an index of 1 bit a note",
        of: ("lookup", "latency"),
        libraries: &[("lookup", "latency")],
        // Nobody else looks up in these bits: it is held against other structures.
        roles: &[Role::OtherFormat, Role::Limit],
    },
];

/// The stages and tasks whose ratios the page follows.
pub(crate) fn tasks() -> impl Iterator<Item = (&'static str, (&'static str, &'static str))> {
    TASKS.iter().map(|task| (task.name, task.of))
}

/// The record that the page speaks of first: of those with the most of the four tasks, and with the
/// largest set, the newest.
#[must_use]
pub fn record(records: &[Kept]) -> Option<&Kept> {
    let rank = |record: &Record| {
        let has = |task: &&Task| !sizes(record, task.of.0, task.of.1).is_empty();
        let largest = record.rows.iter().map(items).max();
        (TASKS.iter().filter(has).count(), largest)
    };
    let timed = records.iter().filter(|kept| !kept.record.rows.is_empty());
    // Of equals the last one is taken, which is the newest.
    timed.max_by_key(|kept| rank(&kept.record))
}

/// Sentences, those of `others` after them, the chart and its table.
#[must_use]
pub fn draw(record: &Record, others: &[Markup]) -> Markup {
    let standings = || TASKS.iter().map(|task| (task, task.standings(record)));
    let groups: Vec<Group> = standings()
        .filter_map(|(task, standings)| task.group(record, &standings))
        .collect();
    let chart = Bars {
        says:
            "How many times our time others take, for building, decoding, matching and looking up"
                .into(),
        sides: ("we are slower".into(), "we are faster".into()),
        groups,
    };
    let figure = Figure {
        id: "headline".to_owned(),
        title: "How many times our time others take".to_owned(),
        caption: caption(record),
        legend: Vec::new(),
        drawings: Some(Drawings::of(|room| chart.draw(room))),
        table: table(standings().flat_map(|(_, standings)| standings).collect()),
        choices: Vec::new(),
    };
    html! {
        ul class="sentences" {
            @for (task, standings) in standings() {
                @if let Some(sentence) = task.sentence(record, &standings) { li { (sentence) } }
            }
            @for sentence in others { li { (sentence) } }
        }
        (figure.draw())
    }
}

impl Task {
    fn standings<'r>(&self, record: &'r Record) -> Vec<Standing<'r>> {
        let (stage, task) = self.of;
        let of = |role| match role {
            Role::Library => {
                let mut tasks = self.libraries.iter();
                tasks.find_map(|(stage, task)| largest(record, stage, task, role))
            }
            role => largest(record, stage, task, role),
        };
        self.roles.iter().copied().filter_map(of).collect()
    }

    /// Our row at the largest size.
    fn ours<'r>(&self, record: &'r Record) -> Option<&'r RowRecord> {
        let (stage, task) = self.of;
        let mut sizes = sizes(record, stage, task).into_iter().rev();
        sizes.find_map(|size| best_ours(record, &format!("{stage}/{task}/{size}")))
    }

    fn sentence(&self, record: &Record, standings: &[Standing<'_>]) -> Option<Markup> {
        let ours = self.ours(record)?;
        let clause = |standing: &Standing<'_>| clause(standing, ours);
        let (takes, faster): (Vec<_>, Vec<_>) =
            standings.iter().map(clause).partition(|(takes, _)| *takes);
        let join = |clauses: Vec<(bool, String)>, with: &str| {
            let clauses: Vec<String> = clauses.into_iter().map(|(_, clause)| clause).collect();
            clauses.join(with)
        };
        let (faster, takes) = (join(faster, ", "), join(takes, " "));
        Some(html! {
            strong { (self.name) ": " (words::time_per(ours)) }
            " (" (self.what) "; " (words::notes(ours)) ", " (words::level(ours)) ")"
            @if !faster.is_empty() { ", " (faster) } ". " (takes)
        })
    }

    fn group(&self, record: &Record, standings: &[Standing<'_>]) -> Option<Group> {
        let ours = self.ours(record)?;
        let bar = |standing: &Standing<'_>| {
            let size = match standing.ours.name == ours.name {
                true => String::new(),
                false if standing.ours.task == ours.task => format!(", {}", standing.ours.size),
                false => format!(", {} {}", standing.ours.task, standing.ours.size),
            };
            let name = match standing.role {
                Role::Library | Role::OtherFormat => label(&standing.other.who),
                role => label(role.key()),
            };
            Bar {
                key: standing.role.key().to_owned(),
                label: format!("{name}{size}"),
                ratio: standing.ratio(),
                spread: standing.spread(),
                note: format!(
                    "{}: {} beside {} of {}",
                    times(standing.ratio()),
                    words::time_per(standing.other),
                    words::time_per(standing.ours),
                    standing.ours.name
                ),
            }
        };
        Some(Group {
            heading: format!(
                "{}: {}, {}",
                self.name,
                words::time_per(ours),
                words::notes(ours)
            ),
            bars: standings.iter().map(bar).collect(),
        })
    }
}

/// What a standing says beside our row: whether the other one takes less, which is a sentence of its own, and the words.
fn clause(standing: &Standing<'_>, ours: &RowRecord) -> (bool, String) {
    let size = count(items(standing.ours));
    let is_same_task = standing.ours.task == ours.task;
    let at = match standing.ours.name == ours.name {
        true => String::new(),
        false if is_same_task => format!(" (at {size})"),
        false => {
            let title = words::task_title(&standing.ours.stage, &standing.ours.task);
            format!(" ({title}, at {size})")
        }
    };
    let other = match standing.role {
        Role::Library | Role::OtherFormat => label(&standing.other.who),
        Role::Limit => "moving the bytes alone".to_owned(),
        Role::PutTogether => "the best parts put together".to_owned(),
        Role::Naive => "bit by bit".to_owned(),
    };
    let ratio = standing.ratio();
    if ratio >= 1.0 && standing.role != Role::Limit {
        return (false, format!("{} as fast as {other}{at}", times(ratio)));
    }
    let of = if standing.role == Role::OtherFormat {
        "of other formats, "
    } else {
        ""
    };
    let words = format!("{of}{other} takes {} of that time{at}.", percent(ratio));
    (true, with_capital(&words))
}

fn with_capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}

fn caption(record: &Record) -> Markup {
    html! {
        p {
            "Medians of one run on one thread, all in turns; bars that go to the right of 1× take longer than we do. "
            @if record.rows.iter().any(|row| row.lower_quartile.is_some()) {
                "The thin line is from their lower quartile by our upper one to their upper by our lower one. "
            }
            "A size beside a name says that this one was not measured with more notes. "
            (words::machine(record)) ", " (day(record)) ", commit " code { (short_commit(record)) } ", "
            (record.build.rustc) "."
        }
    }
}

fn table(standings: Vec<Standing<'_>>) -> Table {
    let row = |standing: &Standing<'_>| {
        let spread = standing.spread();
        let ratio = |value: f64| significant(value, 3);
        let time = |row: &RowRecord| Cell::number(row.median, significant(row.median, 4));
        Row {
            series: None,
            cells: vec![
                Cell::text(standing.ours.name.clone()),
                Cell::text(standing.other.name.clone()),
                Cell::text(label(standing.role.key())),
                Cell::text(standing.ours.unit.clone()),
                time(standing.ours),
                time(standing.other),
                Cell::number(standing.ratio(), ratio(standing.ratio())),
                Cell::known(spread.map(|spread| spread.0), ratio),
                Cell::known(spread.map(|spread| spread.1), ratio),
                Cell::number(
                    standing.ratio_of_minima(),
                    ratio(standing.ratio_of_minima()),
                ),
            ],
        }
    };
    Table {
        columns: vec![
            "ours",
            "against",
            "what it is",
            "unit",
            "our median",
            "its median",
            "ratio of medians",
            "lowest",
            "highest",
            "ratio of minima",
        ],
        rows: standings.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made;

    #[test]
    fn the_headline_is_of_the_newest_record_with_all_tasks_and_the_largest_set() {
        let full = made::record();
        let mut quick = made::later("quick", 1);
        quick.rows.retain(|row| row.size == "1m");
        let mut partial = made::later("partial", 2);
        partial.rows.retain(|row| row.stage == "decode");
        let mut counted = made::later("counted", 3);
        counted.rows.clear();
        let newer = made::later("newer", 1);
        let chosen = |records: Vec<Record>| {
            record(&made::kept(records))
                .unwrap()
                .record
                .source
                .commit
                .clone()
        };
        assert_eq!(
            chosen(vec![full.clone(), quick.clone(), partial.clone(), counted]),
            "0123456789abcdef"
        );
        assert_eq!(chosen(vec![full, newer, quick.clone()]), "newer");
        assert_eq!(chosen(vec![quick, partial]), "quick");
        assert!(record(&[]).is_none());
    }

    #[test]
    fn sentences_say_who_is_faster_and_at_what_size() {
        let drawn = draw(&made::record(), &[]).into_string();
        for part in [
            "Decode: 1.20 ns a note",
            "10 million notes, AVX-512",
            "8.00× as fast as the best parts put together",
            "40.0× as fast as bit by bit (at a million)",
            "Moving the bytes alone takes 25.0 % of that time",
            "Of other formats, Elias-Fano (sux) takes 50.0 % of that time",
            "commit <code>0123456</code>",
        ] {
            assert!(drawn.contains(part), "{part}");
        }
    }

    #[test]
    fn a_record_without_the_four_tasks_has_no_bars_and_no_sentences() {
        let mut record = made::record();
        record.rows.clear();
        let drawn = draw(&record, &[]).into_string();
        assert!(!drawn.contains("<li>") && !drawn.contains("class=\"bar\""));
    }
}
