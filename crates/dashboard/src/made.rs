//! Records made up for tests: every part that a record may have, with figures that are easy to reckon with.

use nutfilter_benchmarks::record::Record;
use serde_json::{Value, json};

use crate::records::Kept;

/// Who is in a task, with its kind, whether it knows the format, and its time for a million notes.
type Who = (&'static str, &'static str, bool, f64);

const CODEC: &[Who] = &[
    ("naive", "naive", true, 40.0),
    ("portable", "ours", true, 4.0),
    ("avx2", "ours", true, 2.0),
    ("avx512", "ours", true, 1.0),
    ("avx512-2-threads", "ours", true, 0.6),
    ("put-together", "peer", true, 8.0),
    ("rust-bitcoin", "peer", true, 20.0),
    ("memory", "limit", false, 0.25),
];
const LOOKUP: &[Who] = &[
    ("avx2", "ours", true, 300.0),
    ("avx512", "ours", true, 200.0),
    ("sux-elias-fano", "peer", false, 100.0),
    ("memory", "limit", false, 80.0),
];

fn row(path: [&str; 3], unit: &str, (who, kind, same_format, median): Who) -> Value {
    let [stage, task, size] = path;
    // Naive rows stop at a million, and ten million take a fifth longer each.
    let median = if size == "10m" { median * 1.2 } else { median };
    let mut row = json!({
        "name": format!("{stage}/{task}/{size}/{who}"), "stage": stage, "task": task, "size": size, "who": who,
        "kind": kind, "threads": if who.ends_with("-2-threads") { 2 } else { 1 }, "same_format": same_format,
        "n": 1_000_000, "unit": unit, "minimum": median * 0.95, "median": median,
        "lower_quartile": median * 0.98, "upper_quartile": median * 1.05, "samples": 101,
    });
    if kind == "ours" {
        row["level"] = json!(who.split('-').next());
    }
    row
}

fn rows() -> Vec<Value> {
    let mut rows = Vec::new();
    let tasks = [
        ("decode", "plain", "ns/item", CODEC),
        ("build", "nut25", "ns/item", CODEC),
        ("match", "1k-absent", "ns/call", CODEC),
        ("lookup", "latency", "ns/target", LOOKUP),
    ];
    for (stage, task, unit, all) in tasks {
        for size in ["1m", "10m"] {
            let all = all.iter().filter(|who| size == "1m" || who.1 != "naive");
            rows.extend(all.map(|&who| row([stage, task, size], unit, who)));
        }
    }
    rows
}

fn space(structure: &str, parameters: &str, (bits, rate): (f64, f64)) -> Value {
    let asked = 10_000_000_u64;
    json!({
        "structure": structure, "parameters": parameters, "n": 1_000_000, "bits_per_item": bits,
        "designed_rate": rate, "asked": asked, "false_positives": (rate * asked as f64) as u64,
    })
}

/// A record with all parts.
pub(crate) fn record() -> Record {
    let mut same_bytes = space("gcs", "P = 1, M = 4", (3.27, 0.25));
    same_bytes["role"] = json!("same-bytes");
    let mut same_rate = space("gcs", "P = 1, M = 5", (3.6, 0.2));
    same_rate["role"] = json!("same-rate");
    let mut best_k = space("bloom", "k = 2", (3.2768, 0.2086));
    best_k["role"] = json!("best-k");
    for space in [&mut same_bytes, &mut same_rate, &mut best_k] {
        space["n"] = json!(10_000);
    }
    let value = json!({
        "schema": 1,
        "date": "2026-11-22T01:02:03Z",
        "source": { "commit": "0123456789abcdef", "dirty": false },
        "build": { "rustc": "rustc 1.95.0", "target": "x86_64-unknown-linux-gnu", "opt_level": "3",
                   "rustflags": "", "debug_assertions": false },
        "machine": { "cpu": "Intel(R) Xeon(R) Processor", "cpu_version": "6-207-2", "cpus": 2, "affinity": "0-1",
                     "caches": ["L1 Data 48K", "L2 Unified 2048K"], "memory": 25_325_268_992_u64,
                     "hypervisor": "kind unknown", "os": "an OS", "kernel": "6.18", "huge_pages": "madvise" },
        "settings": { "seconds_per_group": 3.0, "least_samples": 3, "most_samples": 101 },
        "levels": ["portable", "avx2", "avx512"],
        "features": ["std", "parallel"],
        "rows": rows(),
        "ratios": [],
        "instructions": { "rustc": "rustc 1.95.0", "valgrind": "valgrind-3.19.0", "counts": [
            { "name": "decode/plain/100k/avx2", "instructions": 500_000 },
            { "name": "decode/plain/100k/portable", "instructions": 2_000_000 },
            { "name": "build/nut25/100k/avx2", "instructions": 12_000_000 },
        ] },
        "space": [
            space("gcs", "P = 10, M = 1533", (12.06, 1.0 / 1533.0)),
            space("gcs", "P = 2, M = 8", (4.55, 0.125)),
            space("bloom", "k = 3", (4.33, 0.125)),
            space("bloom", "k = 10", (14.4, 1.0 / 1024.0)),
            space("binary-fuse-8", "8 bits", (9.04, 1.0 / 256.0)),
            space("elias-fano", "M = 1533", (13.2, 1.0 / 1533.0)),
        ],
        "names": { "n": 10_000, "bits": 32_768, "k": 2, "asked": 1_000_000, "false_positives": 208_600,
                   "formula_rate": 0.2086, "best_k": 2.271, "others": [same_bytes, same_rate, best_k] },
    });
    serde_json::from_value(value).unwrap()
}

/// The same some commits later, on another day.
pub(crate) fn later(commit: &str, day: u32) -> Record {
    let mut record = record();
    record.source.commit = commit.to_owned();
    record.date = format!("2026-12-{day:02}T00:00:00Z");
    record
}

/// As they are read from a folder.
pub(crate) fn kept(records: Vec<Record>) -> Vec<Kept> {
    let kept = |record: Record| Kept {
        path: record.path().to_string_lossy().into_owned(),
        record,
    };
    records.into_iter().map(kept).collect()
}

/// A campaign of two targets, one of which found things.
pub(crate) const CAMPAIGN: &str = r#"{
 "schema": 1, "what": "fuzzing campaign", "written": "2026-11-22T01:00:00Z", "started": "2026-11-22T00:00:00Z",
 "ended": "2026-11-22T01:00:00Z", "sessions": [], "machine": {"cpu": "A CPU", "cores": 2, "kernel": "6", "architecture": "x86_64", "vector_instructions": []},
 "compiler": "rustc 1.97.0-nightly", "revision": "89abcdef01234567", "changed": false,
 "cpu_seconds": 7200.5, "wall_seconds": 3700.0, "executions": 123456789,
 "on_this_code": {"cpu_seconds": 3600.0, "wall_seconds": 1900.0, "executions": 60000000, "rounds": 9},
 "finds": [
  {"target": "decode", "kind": "crash", "source": "new"},
  {"target": "decode", "kind": "crash", "source": "old"},
  {"target": "decode", "kind": "slow unit", "source": "new"}],
 "finds_on_this_code": 1,
 "targets": {
  "decode": {"source": "new", "cpu_seconds": 4000.0, "executions": 100000000, "executions_per_cpu_second": 25000,
   "edges": 1234, "features": 5678, "last_new_edge": "2026-11-22T00:30:00Z", "cpu_seconds_since_last_new_edge": 600.0,
   "corpus": {"files": 300, "bytes": 40000}, "minimised_corpus": {"files": 200, "bytes": 30000, "features": 5600}},
  "encode": {"source": "new", "cpu_seconds": 3200.5, "executions": 23456789, "executions_per_cpu_second": 7329,
   "edges": 900, "features": 2000, "last_new_edge": null, "cpu_seconds_since_last_new_edge": 3200.5,
   "corpus": {"files": 50, "bytes": 9000}, "minimised_corpus": null}},
 "coverage": {"missing": null, "total": {"regions": [980, 1000], "lines": [4900, 5000], "functions": [99, 100]},
  "by_target": {"decode": {"regions": [400, 1000], "lines": [2000, 5000], "functions": [40, 100]}}}
}"#;
