//! The table of `docs/format.md` has exactly the rows that are tested, with the classes that they get.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use nutfilter::DecodeErrorKind;
use nutfilter_cashu::ResponseErrorKind;

use crate::responses::texts;
use crate::rows::{count_prefix_rows, rows};

/// What the rows of a cell that is not in the table are: controls.
const CONTROL: &str = "accepted as it is";

/// Cells that are not rows of bytes or text: where each is tested, and by what.
const ELSEWHERE: [(&str, &str, &str); 16] = [
    (
        "a sum beyond 64 bits",
        "src/decode/scan.rs",
        "sums_that_overflow_64_bits_are_out_of_range",
    ),
    (
        "content of 1 GiB",
        "crates/wallet/tests/misbehaving_mint/size.rs",
        "a_declared_length_above_the_cap_is_refused_before_the_body",
    ),
    (
        "content of 1 GiB",
        "crates/wallet/tests/misbehaving_mint/size.rs",
        "an_endless_body_is_cut_just_past_the_cap",
    ),
    (
        "content of 1 GiB",
        "crates/wallet/tests/robustness/main.rs",
        "a_gigabyte_is_refused_before_it_is_buffered",
    ),
    (
        "targets that are repeated",
        "tests/robustness/targets.rs",
        "repeated_targets_get_an_answer_for_each_position",
    ),
    (
        "two targets that map to one value",
        "tests/robustness/targets.rs",
        "colliding_targets_are_both_answered",
    ),
    (
        "an empty target; an empty list of targets",
        "tests/robustness/targets.rs",
        "empty_target_is_hashed_and_no_targets_give_no_answers",
    ),
    (
        "a seek index of another filter, cut, or with any bit flipped",
        "tests/robustness/index.rs",
        "index_of_another_filter_is_rejected",
    ),
    (
        "a seek index of another filter, cut, or with any bit flipped",
        "tests/robustness/index.rs",
        "truncated_or_flipped_index_is_rejected",
    ),
    (
        "a forged seek index",
        "src/seek_index/tests.rs",
        "forged_entries_never_read_outside_the_filter",
    ),
    (
        "a forged seek index",
        "src/seek_index/tests.rs",
        "points_outside_or_backwards_are_rejected",
    ),
    (
        "a file of a hash store cut at any byte, with any bit flipped, or of another set",
        "crates/store/tests/store.rs",
        "a_run_cut_at_any_byte_is_refused_by_name",
    ),
    (
        "a file of a hash store cut at any byte, with any bit flipped, or of another set",
        "crates/store/tests/store.rs",
        "a_run_with_any_bit_flipped_is_refused_by_name",
    ),
    (
        "a file of a hash store cut at any byte, with any bit flipped, or of another set",
        "crates/store/tests/store.rs",
        "damaged_list_is_refused_by_name",
    ),
    (
        "a file of a hash store cut at any byte, with any bit flipped, or of another set",
        "crates/store/tests/store.rs",
        "store_of_another_hasher_or_label_does_not_open",
    ),
    (
        "a file of a hash store cut at any byte, with any bit flipped, or of another set",
        "crates/mint/tests/data_directory/damage.rs",
        "truncated_or_changed_file_is_never_served",
    ),
];

const WORDS: [&str; 10] = [
    "accepted",
    "bad parameter",
    "too short",
    "too long",
    "out of range",
    "trailing data",
    "padding",
    "non-canonical",
    "bad JSON",
    "bad base64",
];

fn word_of(kind: DecodeErrorKind) -> &'static str {
    match kind {
        DecodeErrorKind::BadParameter => "bad parameter",
        DecodeErrorKind::TooShort => "too short",
        DecodeErrorKind::TooLong => "too long",
        DecodeErrorKind::OutOfRange => "out of range",
        DecodeErrorKind::TrailingData => "trailing data",
        DecodeErrorKind::Padding => "padding",
        DecodeErrorKind::NonCanonical => "non-canonical",
        other => panic!("{other:?} has no word"),
    }
}

fn word_of_text(kind: ResponseErrorKind) -> &'static str {
    match kind {
        ResponseErrorKind::Json => "bad JSON",
        ResponseErrorKind::Base64 => "bad base64",
        ResponseErrorKind::BadParameter => "bad parameter",
        other => panic!("{other:?} has no word"),
    }
}

/// What the rows of each cell get.
fn tested() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let mut cells: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    let mut row = |cell, word| {
        cells.entry(cell).or_default().insert(word);
    };
    for one in rows() {
        row(one.cell, one.class.map_or_else(word_of, |()| "accepted"));
    }
    for (cell, _, class) in count_prefix_rows() {
        row(cell, class.map_or_else(word_of, |_| "accepted"));
    }
    for (cell, _, _, class) in texts() {
        row(cell, class.map_or_else(word_of_text, |()| "accepted"));
    }
    assert!(cells.remove(CONTROL).is_some(), "no control");
    cells
}

fn file(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Both columns of the table.
fn documented() -> BTreeMap<String, String> {
    let text = file("docs/format.md");
    let (_, table) = text
        .split_once("| input | result |\n|---|---|\n")
        .expect("the table");
    let lines = table.lines().take_while(|line| line.starts_with('|'));
    let cells = lines.map(|line| {
        let (input, result) = line
            .trim_matches(['|', ' '])
            .split_once(" | ")
            .expect("two cells");
        (input.to_owned(), result.to_owned())
    });
    cells.collect()
}

#[test]
fn table_in_the_docs_has_exactly_the_tested_rows() {
    let mut documented = documented();
    for (cell, words) in tested() {
        let result = documented.remove(cell);
        let result = result.unwrap_or_else(|| panic!("no row {cell:?} in docs/format.md"));
        let said: BTreeSet<_> = WORDS
            .into_iter()
            .filter(|word| result.to_lowercase().contains(&word.to_lowercase()))
            .collect();
        assert_eq!(said, words, "{cell}");
    }
    for (cell, path, test) in ELSEWHERE {
        assert!(
            file(path).contains(&format!("fn {test}(")),
            "{path}: {test}"
        );
        documented.remove(cell);
    }
    assert_eq!(documented, BTreeMap::new(), "rows without a test");
}
