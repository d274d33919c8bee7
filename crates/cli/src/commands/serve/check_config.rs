//! `--check-config`: prints what is in force, and tries the database.

use clap::{ArgMatches, Command};
use nutfilter_mint::MintSource as _;

use super::options::ServeOptions;
use super::waiting::Waiting;
use crate::argument_errors::shown;
use crate::error::CliError;
use crate::io::output;

/// Prints the value of every option, as a file of environment variables would have it.
pub(super) fn print(
    command: &Command,
    matches: &ArgMatches,
    options: &ServeOptions,
) -> Result<(), CliError> {
    let mut text = String::new();
    for option in command.get_arguments() {
        let name = option.get_env().and_then(|name| name.to_str());
        let Some(name) = name.filter(|_| !option.is_hide_set()) else {
            continue;
        };
        let values = matches.get_raw(option.get_id().as_str());
        let values: Vec<_> =
            values.into_iter().flatten().map(|value| value.to_string_lossy()).collect();
        text += &match (name, values.is_empty()) {
            // Its form for display has no password.
            ("MINT_DATABASE", _) => format!("{name}={}\n", options.mint_database),
            (_, true) => format!("# {name} is not set\n"),
            _ => format!("{name}={}\n", shown(&values.join(","))),
        };
    }
    output::print(text.as_bytes())
}

/// Opens the database in the same way as the service, and closes it.
pub(super) fn run(options: &ServeOptions) -> Result<(), CliError> {
    let mut source = Waiting::new(options);
    let keysets = source.keysets()?.keysets.len();
    let mint = source.mint();
    output::print(
        format!("# {mint} database with {keysets} keysets\n# configuration OK\n").as_bytes(),
    )
}
