//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use nutfilter_benchmarks::fixture::Size;
use nutfilter_benchmarks::schedule::Effort;

/// Measure nutfilter and other libraries in turns and write a record.
#[derive(Parser)]
pub(crate) struct BenchOptions {
    /// A quick run of the README's rows: --sizes 1m --seconds 0.5; prints for each our time and that of the fastest other
    #[arg(long)]
    pub(crate) quick: bool,
    /// Numbers of items
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "100k,1m,10m",
        default_value_if("quick", "true", "1m")
    )]
    pub(crate) sizes: Vec<Size>,
    /// Time per group of rows
    #[arg(long, value_parser = seconds, default_value = "3", default_value_if("quick", "true", "0.5"))]
    seconds: Duration,
    /// Measure only rows whose names begin with PREFIX, as in decode/plain/1m; may be repeated
    #[arg(long, value_name = "PREFIX")]
    only: Vec<String>,
    /// Where to write the record [default: standard output; with --quick nutfilter-quick.json in the folder for temporary files]
    #[arg(long)]
    output: Option<PathBuf>,
}

/// The groups of the README's table, as in benches/dashboard/readme.py.
pub(crate) const README: [&str; 7] = [
    "match/1k-absent",
    "lookup/latency",
    "match/1k-absent-resident",
    "lookup/latency-resident",
    "build/nut25",
    "increment/10k-new",
    "decode/plain",
];

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|error| format!("{error}"))?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

impl BenchOptions {
    pub(crate) fn only(&self) -> Vec<String> {
        match self.quick && self.only.is_empty() {
            true => README.map(|group| format!("{group}/")).to_vec(),
            false => self.only.clone(),
        }
    }

    pub(crate) fn output(&self) -> Option<PathBuf> {
        let quick = || std::env::temp_dir().join("nutfilter-quick.json");
        self.output.clone().or_else(|| self.quick.then(quick))
    }

    pub(crate) fn effort(&self) -> Effort {
        Effort { per_group: self.seconds, most_samples: 101, least_samples: 3 }
    }
}

#[test]
fn explicit_options_override_quick() {
    let parse = |line: &'static str| {
        let words = ["peers"].into_iter().chain(line.split_whitespace());
        let options = BenchOptions::try_parse_from(words).ok()?;
        let sizes: Vec<_> = options.sizes.into_iter().map(|size| size.name).collect();
        Some((sizes.join(","), options.seconds.as_secs_f64()))
    };
    for (line, sizes, seconds) in [
        ("", "100k,1m,10m", 3.0),
        ("--quick", "1m", 0.5),
        ("--sizes 7,2k --quick --seconds 0.01", "7,2k", 0.01),
    ] {
        assert_eq!(parse(line), Some((sizes.to_owned(), seconds)));
    }
    assert!(parse("--seconds -1").is_none() && parse("--sizes x").is_none());
}
