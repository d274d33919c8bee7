//! Checks the operator's guide against the code.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const DOCUMENT: &str = include_str!("../../../../docs/operating.md");
const ALARMS: &str = include_str!("../../../../contrib/prometheus/alerts.yml");

/// Quotes in the run-book that are not texts of this program.
const OF_OTHERS: [&str; 5] = [
    "No space left on device",
    "Permission denied",
    "systemctl ",
    "openssl ",
    "--",
];

/// All code that logs, with multi-line string literals joined.
pub(super) fn code() -> String {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut code = String::new();
    for directory in ["../mint/src", "src"] {
        append_code(&here.join(directory), &mut code);
    }
    let lines = code.split("\\\n").map(str::trim_start);
    lines.collect::<Vec<_>>().concat()
}

fn append_code(directory: &Path, into: &mut String) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            append_code(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            *into += &fs::read_to_string(path).unwrap();
        }
    }
}

#[test]
fn run_book_quotes_only_existing_log_lines() {
    let (_, book) = DOCUMENT.split_once("\n## Run-book\n").unwrap();
    let (book, _) = book.split_once("\n## ").unwrap();
    // A quote may continue on the next line. Every second part is between backticks.
    let book = book.replace('\n', " ");
    let quoted = book
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|text| text.contains(' '));
    let code = code();
    let mut lines = 0;
    for text in quoted.filter(|text| !OF_OTHERS.iter().any(|other| text.starts_with(other))) {
        for part in text
            .split("...")
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            assert!(code.contains(part), "`{part}` is not in the code");
        }
        lines += 1;
    }
    assert!(lines > 15, "found only {lines} lines");
}

#[test]
fn run_book_explains_every_warning_and_error() {
    let (_, book) = DOCUMENT.split_once("\n## Run-book\n").unwrap();
    let book = book.replace('\n', " ");
    let code = code();
    let mut lines = 0;
    let events = ["warn", "error"].map(|level| format!("tracing::{level}!("));
    for event in events.iter().flat_map(|event| code.split(event).skip(1)) {
        let event = &event[..event.find(");").unwrap_or(event.len())];
        let Some(text) = event
            .split('"')
            .skip(1)
            .step_by(2)
            .find(|text| text.contains(' '))
        else {
            continue;
        };
        // The first clause identifies the line; a placeholder may come before it.
        let text = text.split_once("} ").map_or(text, |(_, text)| text);
        let clause = text.split([';', ':', ',']).next().unwrap();
        let found = clause.split('`').next().unwrap().trim();
        assert!(book.contains(found), "`{found}` is not in the run-book");
        lines += 1;
    }
    assert!(lines > 20, "found only {lines} lines");
}

#[test]
fn run_book_explains_exactly_the_alarms() {
    let alarms: BTreeSet<_> = ALARMS
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "))
        .collect();
    let (_, book) = DOCUMENT.split_once("\n## Run-book\n").unwrap();
    let words = book.split(|c: char| !c.is_ascii_alphanumeric());
    let explained: BTreeSet<_> = words.filter(|word| word.starts_with("Nutfilter")).collect();
    assert_eq!(alarms, explained);
}
