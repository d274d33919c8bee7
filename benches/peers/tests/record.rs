//! Runs the program on few items: every row asserts its answer, and the record has the schema.

use std::collections::BTreeSet;
use std::process::{Command, Output};

use nutfilter_benchmarks::record::SCHEMA;
use serde_json::Value;

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nutfilter-peers"));
    let output = command.args(arguments).output();
    output.expect("the program starts")
}

#[test]
fn a_run_writes_a_record() {
    let output = run(&["--sizes", "10k", "--seconds", "0.01"]);
    let progress = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{progress}");
    let record: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(record["schema"], SCHEMA);
    assert!(record["date"].as_str().is_some_and(|date| date.len() == 20), "{}", record["date"]);
    let rows = rows(&record);

    let names: BTreeSet<&str> = rows.iter().map(name).collect();
    assert_eq!(names.len(), rows.len(), "a name occurs twice");
    for name in [
        "decode/plain/10k/reference",
        "decode/plain/10k/portable",
        "hash/nut25/10k/mur3",
        "match/1k-absent/10k/rust-bitcoin",
        "build/nut23/10k/best-of-crates",
        "lookup/latency/10k/xorf-binary-fuse-16",
        "lookup/latency/10k/sux-vfilter-20",
        "lookup/latency-resident/10k/std-hash-set",
    ] {
        assert!(names.contains(name), "{name} is missing");
    }
    assert!(rows.iter().any(|row| row["bits_per_item"].is_f64()));
    for row in rows {
        let times = ["minimum", "lower_quartile", "median", "upper_quartile"];
        let times = times.map(|time| row[time].as_f64().unwrap());
        assert!(times[0] > 0.0 && times.is_sorted(), "{row}");
        assert!(row["samples"].as_u64() >= Some(3), "{row}");
    }
}

fn rows(record: &Value) -> &[Value] {
    record["rows"].as_array().unwrap()
}

fn name(row: &Value) -> &str {
    row["name"].as_str().unwrap()
}

#[test]
fn a_quick_run_names_the_lead_in_each_row_of_the_readme() {
    let file = std::env::temp_dir().join(format!("nutfilter-peers-{}.json", std::process::id()));
    let path = file.to_str().unwrap();
    let output = run(&["--quick", "--sizes", "10k", "--seconds", "0.01", "--output", path]);
    let record: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(rows(&record).iter().all(|row| !name(row).starts_with("scan/")));
    let text = String::from_utf8(output.stdout).unwrap();
    let leads: Vec<&str> = text.lines().collect();
    assert_eq!(leads.len(), 7, "{text}");
    for lead in leads {
        let word = lead.split(' ').next().unwrap();
        assert!(["ahead", "behind"].contains(&word), "{lead}");
    }
}
