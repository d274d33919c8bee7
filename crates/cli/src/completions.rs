//! `nutfilter completions`.

use clap::{Args, Command};
use clap_complete::Shell;

use crate::error::CliError;
use crate::output;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// Shell to generate the script for.
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  nutfilter completions bash > ~/.local/share/bash-completion/completions/nutfilter
  nutfilter completions fish > ~/.config/fish/completions/nutfilter.fish
  nutfilter completions zsh  > \"${fpath[1]}/_nutfilter\"";

pub(crate) fn run(args: &CompletionsArgs, command: &mut Command) -> Result<(), CliError> {
    // Generate in memory first, because the generator panics when a write fails.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "nutfilter", &mut script);
    output::print(&script)
}
