//! Measures our rows and those of other libraries in turns and writes a record.
//!
//!     cargo run --release --manifest-path benches/peers/Cargo.toml -- --output FILE
//!
//! docs/benchmarking.md describes the method.

#![deny(unsafe_code)]

mod options;
mod peers;

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use nutfilter::internals::SimdLevel;
use nutfilter_benchmarks::record::{Record, RowRecord};
use nutfilter_benchmarks::schedule::interleave;
use nutfilter_benchmarks::{Fixture, Selection, rows};

use options::Options;
use peers::lines;

fn main() -> ExitCode {
    let options = Options::parse();
    if cfg!(debug_assertions) {
        eprintln!("warning: this is a debug build; its times mean nothing");
    }
    let made = match &options.build_lines {
        Some(path) => lines::build_file(path).map_err(|error| (path.as_path(), error)),
        None => {
            let record = serde_json::to_string_pretty(&run(&options));
            Ok((record.expect("numbers, texts and lists") + "\n").into_bytes())
        }
    };
    let written = made.and_then(|bytes| match &options.output {
        None => io::stdout()
            .write_all(&bytes)
            .map_err(|error| (Path::new("standard output"), error)),
        Some(path) => fs::write(path, bytes).map_err(|error| (path.as_path(), error)),
    });
    if let Err((path, error)) = written {
        eprintln!("{}: {error}", path.display());
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Measures what is selected and prints progress to standard error.
fn run(options: &Options) -> Record {
    let levels = SimdLevel::available().map(|level| level.name().to_owned());
    let features = ["std".to_owned()];
    let mut record = Record::new(options.effort(), levels.collect(), features.to_vec());
    // Peers that use rayon have one thread, too.
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build_global();
    pool.expect("the only pool");
    let selection = Selection::new(options.only.clone());
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
    eprintln!(
        "{minimum:>14.3} {median:>14.3} {unit:<9} {samples:>4} {}",
        row.name
    );
}
