//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use nutfilter_benchmarks::fixture::Size;
use nutfilter_benchmarks::schedule::Effort;

/// Measure nutfilter and other libraries in turns and write a record.
#[derive(Parser)]
pub(crate) struct Options {
    /// A quick run: --sizes 100k --seconds 0.5
    #[arg(long)]
    quick: bool,
    /// Numbers of items
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "100k,1m,10m",
        default_value_if("quick", "true", "100k")
    )]
    pub(crate) sizes: Vec<Size>,
    /// Time per group of rows
    #[arg(long, value_parser = seconds, default_value = "3", default_value_if("quick", "true", "0.5"))]
    seconds: Duration,
    /// Measure only rows whose names begin with PREFIX, as in decode/plain/1m; may be repeated
    #[arg(long, value_name = "PREFIX")]
    pub(crate) only: Vec<String>,
    /// Measure nothing: write what `nutfilter build FILE --input text --format raw` does, with the fastest crates
    #[arg(long, value_name = "FILE")]
    pub(crate) build_lines: Option<PathBuf>,
    /// Where to write the record [default: standard output]
    #[arg(long)]
    pub(crate) output: Option<PathBuf>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|error| format!("{error}"))?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

impl Options {
    pub(crate) fn effort(&self) -> Effort {
        Effort {
            per_group: self.seconds,
            most_samples: 101,
            least_samples: 3,
        }
    }
}

#[test]
fn explicit_options_override_quick() {
    let parse = |line: &'static str| {
        let words = ["peers"].into_iter().chain(line.split_whitespace());
        let options = Options::try_parse_from(words).ok()?;
        let sizes: Vec<_> = options.sizes.into_iter().map(|size| size.name).collect();
        Some((sizes.join(","), options.seconds.as_secs_f64()))
    };
    for (line, sizes, seconds) in [
        ("", "100k,1m,10m", 3.0),
        ("--quick", "100k", 0.5),
        ("--sizes 7,2k --quick --seconds 0.01", "7,2k", 0.01),
    ] {
        assert_eq!(parse(line), Some((sizes.to_owned(), seconds)));
    }
    assert!(parse("--seconds -1").is_none() && parse("--sizes x").is_none());
}
