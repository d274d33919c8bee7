//! The command line of `nutfilter`: parses, runs one subcommand, maps its result to an exit code.

#![deny(unsafe_code)]

mod args;
mod argument_errors;
mod commands;
mod error;
mod io;
mod log;
mod messages;
mod profile;
mod value_parsers;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use crate::args::{Cli, Command};
use crate::commands::{build, check, demo, inspect, restore, serve};
use crate::error::{CliError, EXIT_ERROR};

/// Exit code of `serve` if an operator has to decide. The service manager must not start it again.
const EXIT_HELD: u8 = 3;

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(CliError::OutputClosed) => ExitCode::SUCCESS,
        Err(CliError::Held) => ExitCode::from(EXIT_HELD),
        Err(CliError::AlreadyLogged) => ExitCode::from(EXIT_ERROR),
        Err(CliError::Invalid(lines)) => {
            for line in lines {
                messages::eprint_error(CliError::usage(line));
            }
            ExitCode::from(EXIT_ERROR)
        }
        Err(error) => {
            messages::eprint_error(error);
            ExitCode::from(EXIT_ERROR)
        }
    }
}

/// The exit codes of `check` and `restore` also say whether any item matched.
fn run() -> Result<ExitCode, CliError> {
    let mut command = Cli::command();
    let matches = command.try_get_matches_from_mut(std::env::args_os());
    let parsed = matches.and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches)));
    let (cli, matches) = match parsed {
        Ok(parsed) => parsed,
        // Help, and errors that are not about values, are clap's to print.
        Err(error) => match argument_errors::errors(command, error) {
            Ok(lines) => return Err(CliError::Invalid(lines)),
            Err(error) => error.exit(),
        },
    };
    let globals = cli.globals();
    let matches = matches.subcommand().map(|(_, matches)| matches);
    let matches = matches.expect("a subcommand is required");
    if matches!(cli.command, Command::Serve(_)) {
        let unknown = argument_errors::unknown_variables(&command);
        if !unknown.is_empty() {
            return Err(CliError::Invalid(unknown));
        }
    }
    match cli.command {
        Command::Build(args) => build::run(&args, &globals)?,
        Command::Check(args) => return check::run(&args, &globals),
        Command::Restore(args) => return restore::run(&args, &globals),
        Command::Inspect(args) => return inspect::run(&args, &globals),
        Command::Serve(args) => serve::run::run(&args, matches, &globals)?,
        Command::Demo(args) => demo::run(args, &globals)?,
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut command, "nutfilter", &mut text);
            io::output::stdout().write_all(&text)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
