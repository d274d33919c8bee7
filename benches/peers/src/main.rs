//! Our rows and those of other libraries, in one run and in turns; writes the record of the run.
//!
//!     cargo run --release --manifest-path benches/peers/Cargo.toml -- --output FILE
//!
//! docs/benchmarking.md has the options, the method and the fields of the record.

#![forbid(unsafe_code)]

mod names;
mod options;
mod peers;
mod space;

use std::process::ExitCode;

use nutfilter::Level;
use nutfilter_benchmarks::record::{Record, RowRecord};
use nutfilter_benchmarks::schedule::{Effort, interleave};
use nutfilter_benchmarks::{Fixture, Group, Row, Who, rows, schema};
use rayon::{ThreadPool, ThreadPoolBuilder};

use options::Options;

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    if cfg!(debug_assertions) {
        eprintln!("warning: built without optimisation or with assertions: times mean nothing");
    }
    let record = run(&options);
    let value = serde_json::to_value(&record).expect("numbers, texts and lists");
    if let Err(faults) = schema::check(&value, schema::DOCUMENTATION) {
        eprintln!(
            "not what docs/benchmarking.md describes:\n{}",
            faults.join("\n")
        );
        return ExitCode::FAILURE;
    }
    let text = serde_json::to_string_pretty(&record).expect("numbers, texts and lists") + "\n";
    match &options.output {
        None => print!("{text}"),
        Some(path) => {
            if let Err(error) = std::fs::write(path, text) {
                eprintln!("{}: {error}", path.display());
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// Measures what is selected, and says so on stderr as it goes.
fn run(options: &Options) -> Record {
    let levels = Level::available().map(|level| level.name().to_owned());
    let features = ["std", "parallel"].map(str::to_owned);
    let mut record = Record::new(options.effort, levels.collect(), features.to_vec());
    let pools = Pools::new();
    let sizes = options.rows.then_some(&options.sizes);
    for size in sizes.into_iter().flatten() {
        eprintln!("{} items", size.name);
        let fixture = Fixture::new(size.clone());
        rows::each(&fixture, &options.selection, &mut |mut group| {
            peers::add(&mut group, &fixture);
            let before = record.rows.len();
            measure(&mut record, &mut group, options.effort, &pools);
            record.rows[before..].iter().for_each(say);
        });
    }
    if let Some(extent) = options.space {
        eprintln!("space: {} items", extent.n);
        record.space = space::measure(extent);
        record.names = Some(names::measure());
    }
    record.finish();
    record
}

fn measure(record: &mut Record, group: &mut Group<'_>, effort: Effort, pools: &Pools) {
    let parallel = group.parallel;
    let threads = |row: &Row<'_>| match row.who {
        Who::Ours(level) if parallel && level == Level::detect() => pools.counts(),
        _ => vec![1],
    };
    let series = interleave(group, effort, threads, &|threads, run| {
        pools.on(threads, run)
    });
    record.add(group, &series);
}

fn say(row: &RowRecord) {
    let (minimum, median, unit) = (row.minimum, row.median, &row.unit);
    let samples = row.samples;
    eprintln!(
        "{minimum:>14.3} {median:>14.3} {unit:<9} {samples:>4} {}",
        row.name
    );
}

/// A pool of one thread, and one of as many as there are CPUs. Every row runs in one of them, so that what
/// the library would spread over threads stays on as many as the row's name says.
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
