//! `nutfilter block`: builds, folds and checks Bloom blocks of the draft.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use nutfilter_cashu::state_filters::Block;

use super::{CheckArgs, OutputArgs, print_answers, read_elements, read_file};
use crate::error::CliError;
use crate::globals::Globals;
use crate::value_parsers;

#[derive(Debug, Subcommand)]
pub(crate) enum BlockCommand {
    /// Build the bitmap of elements.
    Build(BuildArgs),
    /// Make a block smaller.
    Fold(FoldArgs),
    /// Check which elements may be in a block. Exit code: 0 some element matched, 1 none did, 2 error.
    Check(CheckArgs),
}

#[derive(Debug, Args)]
pub(crate) struct BuildArgs {
    /// Binary logarithm of the number of bits: 5 to 26.
    #[arg(long, value_name = "B", allow_negative_numbers = true, value_parser = value_parsers::whole::<u32>)]
    width: u32,

    /// Elements in hex, one per line, or `-` for standard input. There may be none.
    elements: PathBuf,

    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct FoldArgs {
    /// Binary logarithm of the new number of bits: 5 to the block's own.
    #[arg(long, value_name = "B", allow_negative_numbers = true, value_parser = value_parsers::whole::<u32>)]
    width: u32,

    /// The block, or `-` for standard input.
    file: PathBuf,

    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(command: &BlockCommand, globals: &Globals) -> Result<ExitCode, CliError> {
    match command {
        BlockCommand::Build(args) => build(args, globals)?,
        BlockCommand::Fold(args) => fold(args, globals)?,
        BlockCommand::Check(args) => return check(args, globals),
    }
    Ok(ExitCode::SUCCESS)
}

fn build(args: &BuildArgs, globals: &Globals) -> Result<(), CliError> {
    let mut block = Block::new(args.width)?;
    let elements = read_elements(&args.elements, globals)?;
    for element in &elements {
        block.insert(element);
    }
    let capacity = Block::capacity(args.width)?;
    if elements.len() as u64 > u64::from(capacity) {
        globals.warn(format_args!(
            "{} elements exceed the capacity of {capacity}; the false-positive rate is {:.3e}",
            elements.len(),
            block.false_positive_rate()
        ));
    }
    args.output.write(block.as_bytes())
}

fn fold(args: &FoldArgs, globals: &Globals) -> Result<(), CliError> {
    let (name, bytes) = read_file(&args.file, globals)?;
    let block = parse(&name, bytes)?;
    let folded = block
        .fold(args.width)
        .map_err(|error| CliError::at(&name, error))?;
    args.output.write(folded.as_bytes())
}

fn check(args: &CheckArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let checked = args.read(globals)?;
    let block = parse(&checked.name, checked.bytes)?;
    globals.note(format_args!(
        "block of width {}, {} bits set, false-positive rate {:.3e}",
        block.width(),
        block.popcount(),
        block.false_positive_rate()
    ));
    let found = checked
        .elements
        .iter()
        .map(|element| block.may_contain(element));
    print_answers(&checked.texts, &found.collect::<Vec<bool>>())
}

fn parse(name: &str, bytes: Vec<u8>) -> Result<Block, CliError> {
    Block::from_bytes(bytes).map_err(|error| CliError::at(name, error))
}
