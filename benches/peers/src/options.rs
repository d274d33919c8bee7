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
    /// Numbers of items [default: 100k,1m,10m]
    #[arg(long, value_delimiter = ',')]
    sizes: Vec<Size>,
    /// Time per group of rows [default: 3]
    #[arg(long, value_parser = seconds)]
    seconds: Option<Duration>,
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
    pub(crate) fn timed_sizes(&self) -> Vec<Size> {
        if !self.sizes.is_empty() {
            return self.sizes.clone();
        }
        let default: &[&str] = if self.quick {
            &["100k"]
        } else {
            &["100k", "1m", "10m"]
        };
        let sizes = default.iter().map(|size| size.parse().expect("a size"));
        sizes.collect()
    }

    pub(crate) fn effort(&self) -> Effort {
        let default = Duration::from_millis(if self.quick { 500 } else { 3_000 });
        Effort {
            per_group: self.seconds.unwrap_or(default),
            most_samples: 101,
            least_samples: 3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, clap::Error> {
        Options::try_parse_from(["peers"].into_iter().chain(line.split_whitespace()))
    }

    #[test]
    fn explicit_options_override_quick() {
        let names = |line| {
            let sizes = parse(line).unwrap().timed_sizes().into_iter();
            sizes.map(|size| size.name).collect::<Vec<_>>()
        };
        assert_eq!(names(""), ["100k", "1m", "10m"]);
        assert_eq!(names("--quick"), ["100k"]);
        assert_eq!(names("--sizes 7,2k --quick"), ["7", "2k"]);
        let seconds = |line| parse(line).unwrap().effort().per_group.as_secs_f64();
        assert_eq!(seconds("--quick"), 0.5);
        assert_eq!(seconds("--quick --seconds 0.01"), 0.01);
        assert!(parse("--seconds -1").is_err() && parse("--sizes x").is_err());
    }
}
