//! `--check-config`: prints what is in force, and tries everything that can be tried before the start.

use std::io;
use std::path::Path;

use clap::{ArgMatches, Command};
use nutfilter_mint::MintSource as _;

use super::options::{Listen, Options};
use super::run::Waiting;
use crate::error::CliError;
use crate::globals::{self, Globals};
use crate::output;
use crate::usage::shown;

/// Prints the value of every option, as a file of environment variables would have it.
pub(super) fn print(
    command: &Command,
    matches: &ArgMatches,
    options: &Options,
) -> Result<(), CliError> {
    let mut text = String::new();
    for option in command.get_arguments() {
        let Some(name) = option.get_env().and_then(|name| name.to_str()) else {
            continue;
        };
        let values = matches.get_raw(option.get_id().as_str());
        let values: Vec<_> = values
            .into_iter()
            .flatten()
            .map(|value| value.to_string_lossy())
            .collect();
        text += &match (name, values.is_empty()) {
            // Its form for display has no password.
            ("MINT_DATABASE", _) => format!("{name}={}\n", options.mint_database),
            (_, true) => format!("# {name} is not set\n"),
            _ => format!("{name}={}\n", shown(&values.join(","))),
        };
    }
    output::print(text.as_bytes())
}

/// Tries the database, the directories and the addresses, without changing anything, and reports all errors.
pub(super) fn run(options: &Options, globals: &Globals) -> Result<(), CliError> {
    let mut checks = vec![(
        database(options),
        "give --mint-database or MINT_DATABASE a database that this user can read",
    )];
    if let Some(directory) = &options.output {
        let cure = "let this user write to it, or change --output or NUTFILTER_OUTPUT";
        checks.push((writable(directory), cure));
    }
    for address in &options.listen() {
        let cure = "give --listen or NUTFILTER_LISTEN an address of this machine and a directory that exists";
        checks.push((bindable(address, globals), cure));
    }
    let mut errors = 0;
    for (result, cure) in checks {
        if let Err(error) = result {
            globals::eprint_error(format_args!("{error}; {cure}"));
            errors += 1;
        }
    }
    match errors {
        0 => output::print(b"# configuration OK\n"),
        _ => Err(CliError::usage(format!(
            "invalid configuration (errors: {errors})"
        ))),
    }
}

/// Opens the database in the same way as the service, and closes it.
fn database(options: &Options) -> Result<(), CliError> {
    let mut source = Waiting::new(options);
    let keysets = source.keysets()?;
    let mint = source.mint();
    output::print(format!("# {mint} database with {} keysets\n", keysets.keysets.len()).as_bytes())
}

/// Whether files can be created in a directory, or the directory in its parent; tried with an unnamed file.
fn writable(directory: &Path) -> Result<(), CliError> {
    let failed = |error: io::Error| CliError::at(directory.display(), error);
    match std::fs::metadata(directory) {
        // The command would create it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let above = match directory.parent() {
                Some(above) if above.as_os_str().is_empty() => Path::new("."),
                Some(above) => above,
                None => return Err(failed(error)),
            };
            tempfile::tempfile_in(above).map(drop).map_err(failed)
        }
        _ => tempfile::tempfile_in(directory).map(drop).map_err(failed),
    }
}

/// Whether the service can listen at an address. The one that listens there may be this service.
fn bindable(address: &Listen, globals: &Globals) -> Result<(), CliError> {
    let tried = match address {
        Listen::Tcp(address) => std::net::TcpListener::bind(address).map(drop),
        Listen::Unix(path) => {
            let directory = path.parent().unwrap_or(Path::new("/"));
            std::fs::metadata(directory).map(drop)
        }
    };
    match tried {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            globals.warn(format_args!(
                "{address} is in use; unless by this service, give --listen or NUTFILTER_LISTEN another address"
            ));
            Ok(())
        }
        tried => tried.map_err(|error| CliError::at(address, error)),
    }
}
