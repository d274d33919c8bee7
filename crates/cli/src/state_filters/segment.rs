//! `nutfilter segment`: builds, merges, folds and checks segments.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use nutfilter::gcs;
use nutfilter::segment::{Segment, Universe};
use serde_json::{Value, json};

use super::{CheckArgs, OutputArgs, print_answers, read_elements, read_file};
use crate::error::CliError;
use crate::globals::Globals;
use crate::items::is_stdin;
use crate::output;
use crate::value_parsers;

#[derive(Debug, Subcommand)]
pub(crate) enum SegmentCommand {
    /// Build the segment of elements.
    Build(BuildArgs),
    /// Merge segments of one width: the result is the segment of all their elements.
    Merge(MergeArgs),
    /// Make the values of a segment shorter.
    Fold(FoldArgs),
    /// Check which elements may be in a segment. Exit code: 0 some element matched, 1 none did, 2 error.
    Check(CheckArgs),
}

#[derive(Debug, Args)]
pub(crate) struct BuildArgs {
    /// Number of bits of a value: 8 to 56.
    #[arg(long, value_name = "W", allow_negative_numbers = true, value_parser = value_parsers::whole::<u32>)]
    width: u32,

    /// Elements in hex, one per line, or `-` for standard input. There may be none. Repeated ones count once.
    elements: PathBuf,

    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// The segments, in any order. One of them may be `-` for standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct FoldArgs {
    /// New number of bits of a value: 8 to the segment's own.
    #[arg(long, value_name = "W", allow_negative_numbers = true, value_parser = value_parsers::whole::<u32>)]
    width: u32,

    /// The segment, or `-` for standard input.
    file: PathBuf,

    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(command: &SegmentCommand, globals: &Globals) -> Result<ExitCode, CliError> {
    match command {
        SegmentCommand::Build(args) => build(args, globals)?,
        SegmentCommand::Merge(args) => merge(args, globals)?,
        SegmentCommand::Fold(args) => fold(args, globals)?,
        SegmentCommand::Check(args) => return check(args, globals),
    }
    Ok(ExitCode::SUCCESS)
}

fn build(args: &BuildArgs, globals: &Globals) -> Result<(), CliError> {
    let universe = Universe::new(args.width)?;
    let elements = read_elements(&args.elements, globals)?;
    let segment = Segment::from_elements(universe, &elements)?;
    args.output.write(&segment.to_bytes())
}

fn merge(args: &MergeArgs, globals: &Globals) -> Result<(), CliError> {
    if args.files.iter().filter(|path| is_stdin(path)).count() > 1 {
        return Err(CliError::usage("only one FILE can be standard input"));
    }
    let mut segments: Vec<Segment> = Vec::new();
    for path in &args.files {
        let (name, bytes) = read_file(path, globals)?;
        let segment = parse(&name, &bytes)?;
        if let Some(first) = segments.first()
            && first.universe() != segment.universe()
        {
            let (width, other) = (segment.universe().width(), first.universe().width());
            let message = format!("width {width}, but the first segment has width {other}");
            return Err(CliError::at(name, message));
        }
        segments.push(segment);
    }
    args.output.write(&Segment::merge(&segments)?.to_bytes())
}

fn fold(args: &FoldArgs, globals: &Globals) -> Result<(), CliError> {
    let universe = Universe::new(args.width)?;
    let (name, bytes) = read_file(&args.file, globals)?;
    let folded = parse(&name, &bytes)?.fold(universe);
    let folded = folded.map_err(|error| CliError::at(&name, error))?;
    args.output.write(&folded.to_bytes())
}

fn check(args: &CheckArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let checked = args.read(globals)?;
    let segment = parse(&checked.name, &checked.bytes)?;
    globals.note(format_args!(
        "segment of {} values, width {}, false-positive rate {:.3e}",
        segment.n(),
        segment.universe().width(),
        segment.false_positive_rate()
    ));
    print_answers(&checked.texts, &segment.matches_elements(&checked.elements))
}

/// Whether a file is a segment, valid or not.
pub(crate) fn is_segment(file: &[u8]) -> bool {
    file.starts_with(&gcs::head(gcs::KIND_SEGMENT))
}

pub(crate) fn parse(name: &str, bytes: &[u8]) -> Result<Segment, CliError> {
    let segment = Segment::parse(bytes).map_err(|error| CliError::at(name, error))?;
    Ok(segment.into_owned())
}

/// The properties that `inspect` prints.
pub(crate) fn as_text(segment: &Segment) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<14} {value}");
    };
    row("kind", "segment".to_owned());
    row("n", segment.n().to_string());
    row("w", segment.universe().width().to_string());
    row("P", segment.p().to_string());
    row("bytes", output::size(segment.file_bytes() as u64));
    if let Some(bits) = bits_per_item(segment) {
        row("bits per item", format!("{bits:.3}"));
        let lookups = 1.0 / segment.false_positive_rate();
        row("rate", format!("1 in {lookups:.0} look-ups"));
    }
    row(
        "valid",
        "yes: every value was read, and the bytes are canonical".to_owned(),
    );
    text
}

/// The same as a JSON object.
pub(crate) fn as_json(segment: &Segment) -> Value {
    json!({
        "valid": true,
        "kind": "segment",
        "n": segment.n(),
        "w": segment.universe().width(),
        "p": segment.p(),
        "bytes": segment.file_bytes(),
        "bits_per_item": bits_per_item(segment),
        "rate": segment.false_positive_rate(),
    })
}

/// The bits of the code, without header and checksum, for each value.
fn bits_per_item(segment: &Segment) -> Option<f64> {
    (segment.n() > 0).then(|| segment.code().len() as f64 * 8.0 / f64::from(segment.n()))
}
