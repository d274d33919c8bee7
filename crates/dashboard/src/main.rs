//! The command line of `nutfilter-dashboard`: parses, runs one subcommand, maps its end to an exit code.

#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use nutfilter_benchmarks::record::Record;
use nutfilter_dashboard::compare::{Comparison, Thresholds};
use nutfilter_dashboard::error::Error;
use nutfilter_dashboard::export::{Format, Rows, export};
use nutfilter_dashboard::files::write_whole;
use nutfilter_dashboard::fuzzing::read_campaigns;
use nutfilter_dashboard::page::{headline, render};
use nutfilter_dashboard::records::{Kept, read_record, read_records};
use nutfilter_dashboard::run::{Plan, run};

/// For wrong use and for what went wrong; 1 says that `compare` found a rise.
const EXIT_ERROR: u8 = 2;

/// Benchmarks of nutfilter: measures, and shows what was measured.
#[derive(Debug, Parser)]
#[command(name = "nutfilter-dashboard", version, after_help = AFTER)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const AFTER: &str = "\
Exit codes: 0 success, 1 `compare` found a rise, 2 wrong use or failure. docs/dashboard.md says more.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure everything and keep the record.
    Run(RunArgs),
    /// Write the page from all records.
    Report(ReportArgs),
    /// Write a record as a benchmark service reads it.
    Export(ExportArgs),
    /// Print what changed between two records.
    Compare(CompareArgs),
}

#[derive(Args, Debug)]
struct RunArgs {
    /// Small sets and little time, for a look: some minutes.
    #[arg(long)]
    quick: bool,
    /// Numbers of items, as in 100k,1m,10m.
    #[arg(long, value_name = "LIST")]
    sizes: Option<String>,
    /// Time for the rows of one group.
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    /// Rows whose names begin so, as in decode/plain/1m, and nothing else but the counts; may be repeated.
    #[arg(long, value_name = "PREFIX")]
    only: Vec<String>,
    /// Where records are kept [default: benches/record].
    #[arg(long, value_name = "FOLDER")]
    record: Option<PathBuf>,
    /// Count no instructions.
    #[arg(long)]
    no_instructions: bool,
}

#[derive(Args, Debug)]
struct ReportArgs {
    /// Where records of benchmarks are [default: benches/record].
    #[arg(long, value_name = "FOLDER")]
    record: Option<PathBuf>,
    /// Where records of fuzzing campaigns are [default: fuzz/record].
    #[arg(long, value_name = "FOLDER")]
    fuzz: Option<PathBuf>,
    /// The page [default: docs/dashboard/index.html].
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Args, Debug)]
struct ExportArgs {
    /// For which service.
    #[arg(long, value_enum)]
    format: Format,
    /// Rows of peers too, and not only ours.
    #[arg(long)]
    all_rows: bool,
    /// Where it goes [default: standard output].
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Which record [default: the one that the page speaks of first].
    record: Option<PathBuf>,
}

#[derive(Args, Debug)]
struct CompareArgs {
    /// The record before.
    before: PathBuf,
    /// The record after.
    after: PathBuf,
    /// By how much a time may rise.
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "5%")]
    threshold: f64,
    /// By how much a count of instructions may rise.
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "2%")]
    instructions_threshold: f64,
    /// As one JSON document.
    #[arg(long)]
    json: bool,
}

/// `5%` or `5` as a share.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    match number.parse::<f64>() {
        Ok(percent) if percent.is_finite() && percent >= 0.0 => Ok(percent / 100.0),
        _ => Err("not a percentage, as in 5%".to_owned()),
    }
}

fn main() -> ExitCode {
    // Usage errors never come back from here: clap prints them and leaves, with 2 as well.
    let result = match Cli::parse().command {
        Command::Run(args) => measure(args),
        Command::Report(args) => report(args),
        Command::Export(args) => exported(&args),
        Command::Compare(args) => compare(&args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("nutfilter-dashboard: {error}");
        ExitCode::from(EXIT_ERROR)
    })
}

/// This checkout: cargo built the program there, in `crates/dashboard`, and starts it there.
fn repository() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).unwrap_or(package)
}

fn in_repository(given: Option<PathBuf>, usual: &str) -> PathBuf {
    given.unwrap_or_else(|| repository().join(usual))
}

fn measure(args: RunArgs) -> Result<ExitCode, Error> {
    let mut arguments = Vec::new();
    if args.quick {
        arguments.push("--quick".to_owned());
    }
    let seconds = args.seconds.map(|seconds| seconds.to_string());
    let values = [("--sizes", args.sizes), ("--seconds", seconds)].into_iter();
    let values = values.filter_map(|(flag, value)| Some((flag, value?)));
    for (flag, value) in values.chain(args.only.into_iter().map(|only| ("--only", only))) {
        arguments.extend([flag.to_owned(), value]);
    }
    let path = run(&Plan {
        repository: repository().to_owned(),
        records: in_repository(args.record, "benches/record"),
        arguments,
        counts: !args.no_instructions,
    })?;
    say(&format!("{}\n", path.display()));
    Ok(ExitCode::SUCCESS)
}

fn report(args: ReportArgs) -> Result<ExitCode, Error> {
    let records = read_records(&in_repository(args.record, "benches/record"))?;
    let campaigns = read_campaigns(&in_repository(args.fuzz, "fuzz/record"))?;
    let output = in_repository(args.output, "docs/dashboard/index.html");
    write_whole(&output, &render(&records, &campaigns))?;
    say(&format!(
        "{}: {} records, {} campaigns\n",
        output.display(),
        records.len(),
        campaigns.len()
    ));
    Ok(ExitCode::SUCCESS)
}

fn exported(args: &ExportArgs) -> Result<ExitCode, Error> {
    let rows = if args.all_rows { Rows::All } else { Rows::Ours };
    let text = export(
        &record_to_export(args.record.as_deref())?,
        args.format,
        rows,
    );
    match &args.output {
        None => say(&text),
        Some(path) => write_whole(path, &text)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn record_to_export(given: Option<&Path>) -> Result<Record, Error> {
    if let Some(path) = given {
        return read_record(path);
    }
    let folder = in_repository(None, "benches/record");
    let records: Vec<Kept> = read_records(&folder)?;
    let newest = headline::record(&records).map(|kept| kept.record.clone());
    newest.ok_or_else(|| Error::no_records(&folder, "rows"))
}

fn compare(args: &CompareArgs) -> Result<ExitCode, Error> {
    let thresholds = Thresholds {
        times: args.threshold,
        instructions: args.instructions_threshold,
    };
    let comparison = Comparison::of(
        &read_record(&args.before)?,
        &read_record(&args.after)?,
        thresholds,
    );
    match args.json {
        true => say(&(serde_json::to_string_pretty(&comparison)
            .expect("numbers, texts and lists")
            + "\n")),
        false => say(&comparison.text()),
    }
    Ok(ExitCode::from(u8::from(comparison.rises > 0)))
}

/// To standard output. Whoever closed it has seen enough.
fn say(text: &str) {
    let _ = io::stdout().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn percentages_are_shares() {
        assert_eq!(percent("5%"), Ok(0.05));
        assert_eq!(percent("2.5"), Ok(0.025));
        for wrong in ["", "%", "-1%", "inf", "five"] {
            assert!(percent(wrong).is_err(), "{wrong}");
        }
    }
}
