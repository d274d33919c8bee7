//! The page: one HTML file that asks for nothing else, in the order of what a reader wants to know.
//!
//! The same records give the same bytes: nothing here asks for the time, and nothing depends on the order of a map.

pub mod counts;
pub mod figure;
pub mod fuzzed;
pub mod headline;
pub mod method;
pub mod ratios;
pub mod space;
pub mod stages;
pub mod table;
pub mod words;

use std::collections::BTreeMap;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use nutfilter_benchmarks::record::Record;

use crate::chart::appearance::{BACKGROUND, COLOURS};
use crate::fuzzing::Campaign;
use crate::records::{Kept, items};

/// Nothing is loaded: style and script are in the file, the icon and the tables' CSV are `data:`.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// The whole page.
#[must_use]
pub fn render(records: &[Kept], campaigns: &[Campaign]) -> String {
    let headline = headline::record(records);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "nutfilter: how fast, how small, how well tested" }
                link rel="icon" href="data:,";
                style { (PreEscaped(style())) }
            }
            body {
                (head())
                main {
                    (section("fast", "How fast, against whom", html! {
                        @if let Some(kept) = headline { (headline::draw(&kept.record, &glances(records, campaigns))) } @else { p { "No record has times yet." } }
                    }))
                    (section("sizes", "By stage and size", stages::draw(records)))
                    (section("history", "Better or worse", html! {
                        h3 { "Instructions, counted" }
                        (counts::draw(records))
                        h3 { "Ratios, measured" }
                        (ratios::draw(records))
                    }))
                    (section("small", "How small", space::draw(records)))
                    (section("fuzzed", "How well fuzzed", fuzzed::draw(campaigns)))
                    (section("measured", "How measured, and on what", method::draw(records)))
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string() + "\n"
}

/// One sentence each of size, trend and fuzzing, for who reads no further.
fn glances(records: &[Kept], campaigns: &[Campaign]) -> Vec<Markup> {
    let glances = [
        space::glance(),
        counts::glance(records),
        fuzzed::glance(campaigns),
    ];
    glances.into_iter().flatten().collect()
}

fn head() -> Markup {
    let places = [
        ("fast", "How fast"),
        ("sizes", "Stages"),
        ("history", "History"),
        ("small", "Space"),
        ("fuzzed", "Fuzzing"),
        ("measured", "Method"),
    ];
    html! {
        header {
            h1 { "nutfilter" }
            p { "Golomb-coded sets over ecash notes: what was measured, against whom, on what." }
            nav aria-label="Sections" {
                @for (id, name) in places { a href={ "#" (id) } { (name) } " " }
                button type="button" id="theme" class="scripted" { "Dark" }
            }
        }
    }
}

fn section(id: &str, title: &str, content: Markup) -> Markup {
    html! {
        section id=(id) aria-labelledby={ (id) "-title" } {
            h2 id={ (id) "-title" } { (title) }
            (content)
        }
    }
}

/// The style sheet, with the colours of both themes before it.
fn style() -> String {
    let variables = |theme: usize| {
        let colours = COLOURS
            .iter()
            .map(|colour| format!("--{}:{}", colour.name, colour.values[theme]));
        let background = format!("--background:{}", BACKGROUND[theme]);
        let all: Vec<String> = std::iter::once(background).chain(colours).collect();
        all.join(";")
    };
    let (light, dark) = (variables(0), variables(1));
    // What the toggle says goes before what the system says.
    format!(
        ":root{{{light}}}\n@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}\n\
         :root[data-theme=dark]{{{dark}}}\n{STYLE}"
    )
}

/// For each machine the record with the largest set, and of those the newest.
pub(crate) fn newest_of_each_machine(records: &[Kept]) -> Vec<&Record> {
    let largest = |record: &Record| record.rows.iter().map(items).max();
    let mut machines: BTreeMap<String, &Record> = BTreeMap::new();
    for Kept { record, .. } in records {
        let known = machines.entry(record.machine_name()).or_insert(record);
        if largest(record) >= largest(known) {
            *known = record;
        }
    }
    // The machine that the headline is of comes first: its figures are what is seen first.
    let first = headline::record(records).map(|kept| kept.record.machine_name());
    let mut all: Vec<(String, &Record)> = machines.into_iter().collect();
    all.retain(|(_, record)| !record.rows.is_empty());
    all.sort_by_key(|(machine, _)| Some(machine) != first.as_ref());
    all.into_iter().map(|(_, record)| record).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made;

    fn page() -> String {
        let campaign = serde_json::from_str(made::CAMPAIGN).unwrap();
        render(
            &made::kept(vec![made::record(), made::later("fedcba9876", 1)]),
            &[campaign],
        )
    }

    #[test]
    fn the_page_has_all_sections_and_asks_for_nothing() {
        let page = page();
        for id in ["fast", "sizes", "history", "small", "fuzzed", "measured"] {
            assert!(page.contains(&format!("<section id=\"{id}\"")), "{id}");
            assert!(page.contains(&format!("href=\"#{id}\"")), "{id}");
        }
        for outside in ["http:", "https:", "src=\"", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(
            page.contains(POLICY),
            "the policy is written as it is: {POLICY}"
        );
    }

    #[test]
    fn every_figure_has_a_name_of_its_own_a_table_and_a_csv() {
        let page = page();
        let ids: Vec<&str> = page
            .split("<figure id=\"")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap())
            .collect();
        let mut unique = ids.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), ids.len(), "{ids:?}");
        assert!(ids.len() >= 12, "{ids:?}");
        assert_eq!(page.matches("<table>").count(), ids.len());
        assert_eq!(page.matches("class=\"csv\"").count(), ids.len());
        assert_eq!(
            page.matches("chart wide").count(),
            page.matches("chart narrow").count()
        );
    }

    #[test]
    fn the_same_records_give_the_same_bytes() {
        assert_eq!(page(), page());
    }

    #[test]
    fn a_page_of_nothing_says_so() {
        let page = render(&[], &[]);
        for words in [
            "No record has times yet",
            "No record has counts yet",
            "No campaign is recorded yet",
        ] {
            assert!(page.contains(words), "{words}");
        }
    }

    #[test]
    fn what_a_record_says_is_text_and_no_markup() {
        let mut record = made::record();
        record.machine.cpu = "<script>alert(1)</script>".to_owned();
        record.rows[1].who = "\"><b>".to_owned();
        let page = render(&made::kept(vec![record]), &[]);
        assert!(!page.contains("<script>alert") && !page.contains("\"><b>"));
        assert!(page.contains("&lt;script&gt;alert(1)"));
    }

    #[test]
    fn the_stages_are_of_the_largest_run_of_each_machine_and_the_headlines_machine_is_first() {
        let mut quick = made::later("quick", 3);
        quick.rows.retain(|row| row.size == "1m");
        let mut other = made::later("other", 2);
        other.machine.cpus = 1;
        other.rows.retain(|row| row.stage == "decode");
        let records = made::kept(vec![made::record(), other, quick]);
        let chosen: Vec<&str> = newest_of_each_machine(&records)
            .iter()
            .map(|record| record.source.commit.as_str())
            .collect();
        assert_eq!(chosen, ["0123456789abcdef", "other"]);
    }
}
