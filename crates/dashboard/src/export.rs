//! A record as what public benchmark services read.
//!
//! - github-action-benchmark, tool `customSmallerIsBetter`: a list of `name`, `unit`, `value`, and optionally `range` and
//!   `extra`, both texts.
//! - Bencher Metric Format, adapter `json`: by benchmark and measure a `value`, and optionally `lower_value` and
//!   `upper_value`. `latency` is a measure that every project has, in nanoseconds.
//!
//! Both get medians with their quartiles: a service that alarms should not do so for one lucky sample.

use std::collections::BTreeMap;

use nutfilter_benchmarks::record::{Record, RowRecord};
use serde::Serialize;

use crate::number::significant;
use crate::records::short_commit;

/// Which service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// `customSmallerIsBetter` of github-action-benchmark.
    GithubActionBenchmark,
    /// Bencher Metric Format.
    Bmf,
}

/// Which rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Ours: a peer that got slower is nobody's alarm.
    Ours,
    /// Those of others, too.
    All,
}

#[derive(Serialize)]
struct Entry {
    name: String,
    unit: String,
    value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<String>,
    extra: String,
}

#[derive(Serialize)]
struct Metric {
    value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lower_value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upper_value: Option<f64>,
}

/// The document for a service.
#[must_use]
pub fn export(record: &Record, format: Format, rows: Rows) -> String {
    let rows: Vec<&RowRecord> = record
        .rows
        .iter()
        .filter(|row| rows == Rows::All || row.kind == "ours")
        .collect();
    let text = match format {
        Format::GithubActionBenchmark => serde_json::to_string_pretty(&entries(record, &rows)),
        Format::Bmf => serde_json::to_string_pretty(&metrics(record, &rows)),
    };
    text.expect("numbers, texts and maps by text") + "\n"
}

fn entries(record: &Record, rows: &[&RowRecord]) -> Vec<Entry> {
    let commit = short_commit(record);
    let row = |row: &&RowRecord| {
        let spread = row.lower_quartile.zip(row.upper_quartile);
        Entry {
            name: row.name.clone(),
            unit: row.unit.clone(),
            value: row.median,
            range: spread
                .map(|(lower, upper)| format!("± {}", significant((upper - lower) / 2.0, 2))),
            extra: format!(
                "minimum {} of {} samples\n{}\n{commit}",
                significant(row.minimum, 4),
                row.samples,
                record.machine.cpu
            ),
        }
    };
    let counts = record.instructions.iter().flat_map(|instructions| {
        instructions.counts.iter().map(|count| Entry {
            name: format!("{} (instructions)", count.name),
            unit: "instructions".to_owned(),
            value: count.instructions as f64,
            range: None,
            extra: format!(
                "{}\n{}\n{commit}",
                instructions.rustc, instructions.valgrind
            ),
        })
    });
    rows.iter().map(row).chain(counts).collect()
}

fn metrics<'r>(
    record: &'r Record,
    rows: &[&'r RowRecord],
) -> BTreeMap<&'r str, BTreeMap<&'static str, Metric>> {
    let mut metrics: BTreeMap<&str, BTreeMap<&str, Metric>> = BTreeMap::new();
    for row in rows {
        let latency = Metric {
            value: row.median,
            lower_value: row.lower_quartile,
            upper_value: row.upper_quartile,
        };
        metrics
            .entry(&row.name)
            .or_default()
            .insert("latency", latency);
    }
    for count in record
        .instructions
        .iter()
        .flat_map(|instructions| &instructions.counts)
    {
        let instructions = Metric {
            value: count.instructions as f64,
            lower_value: None,
            upper_value: None,
        };
        metrics
            .entry(&count.name)
            .or_default()
            .insert("instructions", instructions);
    }
    metrics
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made;
    use serde_json::Value;

    fn exported(format: Format, rows: Rows) -> Value {
        serde_json::from_str(&export(&made::record(), format, rows)).unwrap()
    }

    #[test]
    fn github_action_benchmark_gets_a_list_of_names_units_and_values() {
        let list = exported(Format::GithubActionBenchmark, Rows::Ours);
        let list = list.as_array().unwrap();
        let find = |name: &str| list.iter().find(|entry| entry["name"] == name).unwrap();
        let row = find("decode/plain/1m/avx2");
        assert_eq!(
            (row["unit"].as_str(), row["value"].as_f64()),
            (Some("ns/item"), Some(2.0))
        );
        assert_eq!(row["range"], "± 0.070");
        assert!(row["extra"].as_str().unwrap().contains("101 samples"));
        let count = find("decode/plain/100k/avx2 (instructions)");
        assert_eq!(
            (count["unit"].as_str(), count["value"].as_f64()),
            (Some("instructions"), Some(500_000.0))
        );
        for entry in list {
            assert!(
                entry["name"].is_string() && entry["unit"].is_string() && entry["value"].is_f64()
            );
            assert!(entry.get("range").is_none_or(Value::is_string));
        }
    }

    #[test]
    fn bencher_gets_metrics_by_benchmark_and_measure() {
        let map = exported(Format::Bmf, Rows::Ours);
        let latency = &map["decode/plain/1m/avx2"]["latency"];
        assert_eq!(latency["value"], 2.0);
        assert_eq!(
            (
                latency["lower_value"].as_f64(),
                latency["upper_value"].as_f64()
            ),
            (Some(1.96), Some(2.1))
        );
        let count = &map["decode/plain/100k/avx2"]["instructions"];
        assert_eq!(count["value"], 500_000.0);
        assert!(count.get("lower_value").is_none());
    }

    #[test]
    fn rows_of_others_are_there_where_they_are_asked_for() {
        for format in [Format::GithubActionBenchmark, Format::Bmf] {
            let text = |rows| export(&made::record(), format, rows);
            assert!(!text(Rows::Ours).contains("put-together"));
            assert!(text(Rows::All).contains("decode/plain/1m/put-together"));
        }
    }
}
