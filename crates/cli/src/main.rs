//! The command line of `nutfilter`: parses, runs one subcommand, maps its result to an exit code.

#![forbid(unsafe_code)]

mod args;
mod build_filter;
mod check;
mod completions;
mod demo;
mod error;
mod fetch;
mod filter_file;
mod gcs;
mod globals;
mod hex;
mod inspect;
mod items;
mod log;
mod man;
mod output;
mod plan;
mod profile;
mod progress;
mod restore;
mod serve;
mod shards;
mod value_parsers;

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use crate::args::{Cli, Command};
use crate::error::CliError;

/// Exit code of any error. `check` uses 1 for "no item matched".
const EXIT_ERROR: u8 = 2;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage_error(&error),
    };
    match run(cli) {
        Ok(code) => code,
        Err(CliError::OutputClosed) => ExitCode::SUCCESS,
        Err(CliError::AlreadyLogged) => ExitCode::from(EXIT_ERROR),
        Err(error) => {
            globals::eprint_error(error);
            ExitCode::from(EXIT_ERROR)
        }
    }
}

/// An invalid value is one line, as every other error of a command. For other errors, and `--help`, clap prints more.
/// Its tip repeats one of the possible values.
fn usage_error(error: &clap::Error) -> ExitCode {
    if !matches!(
        error.kind(),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation
    ) {
        error.exit();
    }
    let text = error.render().to_string();
    let lines = text.lines().map(str::trim);
    let left_out = ["For more information", "tip:"];
    let lines = lines.filter(|line| !left_out.iter().any(|start| line.starts_with(start)));
    let lines = lines.filter(|line| !line.is_empty());
    let message = lines.collect::<Vec<_>>().join(" ");
    globals::eprint_error(message.strip_prefix("error: ").unwrap_or(&message));
    ExitCode::from(EXIT_ERROR)
}

/// The exit codes of `check` and `restore` also say whether any item matched.
fn run(cli: Cli) -> Result<ExitCode, CliError> {
    let globals = cli.globals();
    globals.start_threads()?;
    match cli.command {
        Command::Build(args) => build_filter::run(&args, &globals)?,
        Command::Check(args) => return check::run(&args, &globals),
        Command::Restore(args) => return restore::run(&args, &globals),
        Command::Inspect(args) => inspect::run(&args, &globals)?,
        Command::Plan(args) => plan::run(&args)?,
        Command::Serve(args) => serve::run(args, &globals)?,
        Command::Publish(args) => serve::publish::run(&args, &globals)?,
        Command::Demo(args) => demo::run(args, &globals)?,
        Command::Completions(args) => completions::run(&args)?,
        Command::Man(args) => man::run(&args)?,
    }
    Ok(ExitCode::SUCCESS)
}
