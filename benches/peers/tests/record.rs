//! Runs the program on few items: every row asserts its answer, and the record has the schema.

use std::collections::BTreeSet;
use std::process::{Command, Output};

use nutfilter_benchmarks::record::{Record, SCHEMA};

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nutfilter-peers"));
    let output = command.args(arguments).output();
    output.expect("the program starts")
}

#[test]
fn a_quick_run_writes_a_record() {
    let output = run(&["--quick", "--sizes", "10k", "--seconds", "0.01"]);
    let progress = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{progress}");
    let record: Record = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(record.schema, SCHEMA);

    let names: BTreeSet<&str> = record.rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names.len(), record.rows.len(), "a name occurs twice");
    for name in [
        "decode/plain/10k/reference",
        "decode/plain/10k/portable",
        "decode/fold/10k/rust-bitcoin",
        "hash/nut25/10k/mur3",
        "build/bip158/10k/rust-bitcoin",
        "build/nut23/10k/best-of-crates",
        "lookup/latency/10k/xorf-binary-fuse-16",
        "lookup/latency/10k/sux-vfilter-20",
    ] {
        assert!(names.contains(name), "{name} is missing");
    }
    for row in &record.rows {
        assert!(
            0.0 < row.minimum && row.minimum <= row.lower_quartile,
            "{row:?}"
        );
        assert!(row.lower_quartile <= row.median, "{row:?}");
        assert!(row.median <= row.upper_quartile, "{row:?}");
        assert!(row.samples >= 3, "{row:?}");
    }
}
