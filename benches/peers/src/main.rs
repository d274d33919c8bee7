//! Measures our rows and those of other libraries in turns and writes a record.
//!
//!     cargo run --release --manifest-path benches/peers/Cargo.toml -- --output FILE
//!
//! docs/benchmarking.md describes the method.

#![deny(unsafe_code)]

mod bench_options;
mod peers;

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use nutfilter::internals::SimdLevel;
use nutfilter_benchmarks::record::{Record, RowRecord};
use nutfilter_benchmarks::schedule::interleave;
use nutfilter_benchmarks::{Fixture, Selection, rows};

use bench_options::{BenchOptions, README};

fn main() -> ExitCode {
    let options = BenchOptions::parse();
    if cfg!(debug_assertions) {
        eprintln!("warning: this is a debug build; its times mean nothing");
    }
    let record = run(&options);
    let text = serde_json::to_string_pretty(&record).expect("numbers, texts and lists") + "\n";
    let written = match options.output() {
        None => io::stdout()
            .write_all(text.as_bytes())
            .map_err(|error| (PathBuf::from("standard output"), error)),
        Some(path) => fs::write(&path, text).map_err(|error| (path, error)),
    };
    if let Err((path, error)) = written {
        eprintln!("{}: {error}", path.display());
        return ExitCode::FAILURE;
    }
    if options.quick {
        for size in &options.sizes {
            let groups = README.iter().map(|group| format!("{group}/{}/", size.name));
            groups.for_each(|group| print_lead(&record, &group));
        }
    }
    ExitCode::SUCCESS
}

/// Measures what is selected and prints progress to standard error.
fn run(options: &BenchOptions) -> Record {
    let levels = SimdLevel::available().map(|level| level.name().to_owned());
    let features = ["std".to_owned()];
    let mut record = Record::new(options.effort(), levels.collect(), features.to_vec());
    // Peers that use rayon have one thread, too.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build_global();
    pool.expect("the only pool");
    let selection = Selection::new(options.only());
    for size in options.sizes.clone() {
        eprintln!("{} items", size.name);
        let fixture = Fixture::new(size);
        rows::each(&fixture, &selection, &mut |mut group| {
            peers::add(&mut group, &fixture);
            let before = record.rows.len();
            let series = interleave(&mut group, options.effort());
            record.add(&group, &series);
            record.rows[before..].iter().for_each(print_row);
        });
    }
    record.finish();
    record
}

fn print_row(row: &RowRecord) {
    let (minimum, median, unit) = (row.minimum, row.median, &row.unit);
    let samples = row.samples;
    eprintln!("{minimum:>14.3} {median:>14.3} {unit:<9} {samples:>4} {}", row.name);
}

/// Our fastest code beside the fastest other with no more false positives.
fn print_lead(record: &Record, group: &str) {
    let rows = record.rows.iter().filter(|row| row.name.starts_with(group));
    let fastest = |kind, most| {
        let rows = rows.clone().filter(|row| row.kind == kind);
        rows.filter(|row| row.false_positive_rate.unwrap_or(0.0) <= most)
            .min_by(|a, b| a.median.total_cmp(&b.median))
    };
    let Some(ours) = fastest("ours", 1.0) else {
        return;
    };
    let most = ours.false_positive_rate.unwrap_or(1.0) * 1.05;
    let Some(other) = fastest("peer", most) else {
        return;
    };
    let (ratio, unit) = (ours.median / other.median, &ours.unit);
    let word = if ratio <= 1.0 { "ahead" } else { "behind" };
    println!(
        "{word:<6} {ratio:.2} {:>12.1} {unit:<9} {:<40} {:>12.1} {}",
        ours.median, ours.name, other.median, other.name
    );
}
