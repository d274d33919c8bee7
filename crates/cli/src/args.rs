//! The command line's structure. The arguments of each subcommand are next to its code.

use clap::{Parser, Subcommand};

use crate::commands::build::BuildArgs;
use crate::commands::check::CheckArgs;
use crate::commands::demo::DemoArgs;
use crate::commands::inspect::InspectArgs;
use crate::commands::restore::RestoreArgs;
use crate::commands::serve::ServeArgs;
use crate::messages::Globals;

/// Build, serve and query compact filters (Golomb-coded sets) of Cashu notes or any other items.
#[derive(Debug, Parser)]
#[command(name = "nutfilter", version, propagate_version = true, max_term_width = 80, after_help = EXAMPLES)]
pub(crate) struct Cli {
    /// Do not print summaries or warnings on stderr.
    #[arg(long, short, global = true, display_order = LAST)]
    quiet: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    pub(crate) fn globals(&self) -> Globals {
        Globals { quiet: self.quiet }
    }
}

/// Sorts the global option after a subcommand's own options.
const LAST: usize = 900;

const EXAMPLES: &str = "\
Examples:
  nutfilter demo                          # see it work on sample notes
  nutfilter build spent.hex -o spent.json # a filter of hex lines
  nutfilter build emails.txt --input text --rate 1e-6 -o emails.gcs
  nutfilter check spent.json mine.hex     # which of mine may be in it?
  nutfilter restore --mint https://mint.example --seed-file words.txt

Exit codes: 0 success, 2 error. `check` exits with 1 if no item matched,
`restore` if no note is live.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Build a filter from items.
    Build(BuildArgs),
    /// Check which items may be in a filter.
    Check(CheckArgs),
    /// Restore blind signatures, showing the mint live notes only.
    Restore(RestoreArgs),
    /// Validate a filter and print its properties.
    Inspect(InspectArgs),
    /// Serve the filters of a mint's database, over HTTP or as files.
    Serve(ServeArgs),
    /// Run a demo on a sample mint: build, serve and restore.
    Demo(DemoArgs),
    /// Print shell completions.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
