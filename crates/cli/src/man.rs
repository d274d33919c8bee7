//! `nutfilter man`.

use std::path::PathBuf;

use clap::{Args, Command};
use clap_mangen::Man;

use crate::error::CliError;
use crate::output;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ManArgs {
    /// Subcommand whose manual page to print [default: the page of nutfilter itself].
    command: Option<String>,

    /// Write all pages into this directory.
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    output_dir: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  nutfilter man build | man -l -
  nutfilter man --output-dir ~/.local/share/man/man1";

pub(crate) fn run(args: &ManArgs, mut cli: Command) -> Result<(), CliError> {
    cli.build();
    if let Some(directory) = &args.output_dir {
        return clap_mangen::generate_to(cli, directory)
            .map_err(|error| CliError::at(directory.display(), error));
    }
    let command = match &args.command {
        None => cli,
        Some(name) => page(&cli, name)?,
    };
    let mut text = Vec::new();
    Man::new(command).render(&mut text)?;
    output::print(&text)
}

/// Finds a subcommand by the name of its manual page.
fn page(cli: &Command, name: &str) -> Result<Command, CliError> {
    let command = cli.find_subcommand(name).ok_or_else(|| {
        let names: Vec<&str> = cli.get_subcommands().map(Command::get_name).collect();
        CliError::usage(format!(
            "unknown subcommand '{name}'; there are {}",
            names.join(", ")
        ))
    })?;
    let title = format!("nutfilter-{name}");
    Ok(command.clone().display_name(title))
}
