//! The program itself, on few items: every row's answer is right, and the record is what
//! docs/benchmarking.md describes.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Output};

use nutfilter_benchmarks::record::{Record, SCHEMA};
use nutfilter_benchmarks::schema;

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nutfilter-peers"));
    let output = command.args(arguments).output();
    output.expect("the program starts")
}

#[test]
fn a_quick_run_writes_a_record_that_conforms() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("record.json");
    let file = path.to_str().expect("a path in UTF-8");
    let output = run(&[
        "--quick",
        "--sizes",
        "10k",
        "--seconds",
        "0.01",
        "--output",
        file,
    ]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");

    let text = std::fs::read_to_string(&path).unwrap();
    let value = serde_json::from_str(&text).unwrap();
    assert_eq!(schema::check(&value, schema::DOCUMENTATION), Ok(()));
    let record: Record = serde_json::from_value(value).unwrap();
    assert_eq!(record.schema, SCHEMA);

    let names: BTreeSet<&str> = record.rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names.len(), record.rows.len(), "a name is there twice");
    for name in [
        "decode/plain/10k/naive",
        "decode/plain/10k/portable",
        "decode/sum/10k/rust-bitcoin",
        "build/bip158/10k/golomb-coded-set",
        "build/nut23/10k/put-together",
        "lookup/latency/10k/xorf-binary-fuse-16",
        "decode/plain/10k/memory",
        "build/nut25/10k/memory",
        "match/1k-absent/10k/memory",
        "lookup/latency/10k/memory",
    ] {
        assert!(names.contains(name), "{name} is missing");
    }
    for row in &record.rows {
        let (lower, upper) = (row.lower_quartile.unwrap(), row.upper_quartile.unwrap());
        assert!(0.0 < row.minimum && row.minimum <= lower, "{row:?}");
        assert!(lower <= row.median && row.median <= upper, "{row:?}");
        assert!(row.samples >= 3, "{row:?}");
    }
    let roles: BTreeSet<&str> = record
        .ratios
        .iter()
        .map(|ratio| ratio.role.as_str())
        .collect();
    let expected = [
        "best-other-format",
        "best-peer",
        "limit",
        "naive",
        "put-together",
    ];
    assert_eq!(roles, BTreeSet::from(expected));
    for ratio in &record.ratios {
        let (lowest, highest) = (ratio.lowest.unwrap(), ratio.highest.unwrap());
        let median = ratio.ratio_of_medians;
        assert!(lowest <= median && median <= highest, "{ratio:?}");
    }

    let structures: BTreeSet<&str> = record
        .space
        .iter()
        .map(|space| space.structure.as_str())
        .collect();
    assert_eq!(structures.len(), 6, "{structures:?}");
    let names = record.names.expect("a part of a whole run");
    assert!((names.measured_rate() - names.formula_rate).abs() < 0.01);
    let roles: Vec<&str> = names
        .others
        .iter()
        .map(|other| other.role.as_deref().unwrap())
        .collect();
    assert_eq!(
        roles,
        ["same-bytes", "same-rate", "rate-above", "best-k", "other-k"]
    );
}

#[test]
fn only_what_is_asked_for_is_measured_and_standard_output_is_the_record() {
    let only = "hash/nut23/1k/portable";
    let output = run(&["--sizes", "1k", "--seconds", "0", "--only", only]);
    assert!(output.status.success());
    let record: Record = serde_json::from_slice(&output.stdout).unwrap();
    let names: Vec<&str> = record.rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, [only]);
    assert!(record.space.is_empty() && record.names.is_none());
}

#[test]
fn a_command_line_that_is_not_understood_exits_with_2() {
    assert_eq!(run(&["--slow"]).status.code(), Some(2));
}
