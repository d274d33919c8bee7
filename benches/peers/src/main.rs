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
use nutfilter_benchmarks::schedule::{Effort, interleave};
use nutfilter_benchmarks::{Fixture, Group, Row, Selection, Who, rows};
use rayon::{ThreadPool, ThreadPoolBuilder};

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
    let features = ["std", "parallel"].map(str::to_owned);
    let mut record = Record::new(options.effort(), levels.collect(), features.to_vec());
    let pools = Pools::new();
    let selection = Selection::new(options.only.clone());
    for size in options.sizes.clone() {
        eprintln!("{} items", size.name);
        let fixture = Fixture::new(size);
        rows::each(&fixture, &selection, &mut |mut group| {
            peers::add(&mut group, &fixture);
            let before = record.rows.len();
            measure(&mut record, &mut group, options.effort(), &pools);
            record.rows[before..].iter().for_each(print_row);
        });
    }
    record.finish();
    record
}

fn measure(record: &mut Record, group: &mut Group<'_>, effort: Effort, pools: &Pools) {
    let parallel = group.parallel;
    let threads = |row: &Row<'_>| match row.who {
        Who::Ours(level) if parallel && level == SimdLevel::detect() => pools.counts(),
        _ => vec![1],
    };
    let series = interleave(group, effort, threads, &|threads, run| {
        pools.on(threads, run)
    });
    record.add(group, &series);
}

fn print_row(row: &RowRecord) {
    let (minimum, median, unit) = (row.minimum, row.median, &row.unit);
    let samples = row.samples;
    eprintln!(
        "{minimum:>14.3} {median:>14.3} {unit:<9} {samples:>4} {}",
        row.name
    );
}

/// A pool of one thread and one with a thread per CPU. Every row runs in one of them, so that the library uses exactly
/// the number of threads in the row's name.
struct Pools(Vec<ThreadPool>);

impl Pools {
    fn new() -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let mut counts = vec![1, cpus];
        counts.dedup();
        let pool = |threads| ThreadPoolBuilder::new().num_threads(threads).build();
        let pools = counts
            .into_iter()
            .map(|threads| pool(threads).expect("a pool of threads"));
        Self(pools.collect())
    }

    fn counts(&self) -> Vec<usize> {
        self.0.iter().map(ThreadPool::current_num_threads).collect()
    }

    fn on(&self, threads: usize, run: &mut (dyn FnMut() + Send)) {
        let mut pools = self.0.iter();
        let pool = pools.find(|pool| pool.current_num_threads() == threads);
        pool.expect("one of the counts").install(run);
    }
}
