//! Flags that every subcommand takes.

use std::fmt;
use std::io::{self, IsTerminal, Write};

use crate::error::CliError;

/// What was said before or after the subcommand and holds for all of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Globals {
    /// No progress bars, summaries or warnings on stderr; errors still are.
    pub(crate) quiet: bool,
    /// Threads to compute with; `None` leaves it to the machine.
    pub(crate) threads: Option<usize>,
}

impl Globals {
    /// Starts as many threads as were asked for. Where no number was given, those that compute start them when
    /// they have something to share.
    pub(crate) fn start_threads(&self) -> Result<(), CliError> {
        let Some(threads) = self.threads else {
            return Ok(());
        };
        rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build_global()
            .map_err(|error| CliError::at("--threads", error))
    }

    /// Whether a progress bar would be seen and is wanted.
    pub(crate) fn shows_progress(&self) -> bool {
        !self.quiet && io::stderr().is_terminal()
    }

    /// Says something on stderr that is neither the result nor an error.
    pub(crate) fn note(&self, message: impl fmt::Display) {
        if !self.quiet {
            say(message);
        }
    }
}

/// `eprintln!` panics when stderr is a pipe that nobody reads any more; this does not.
pub(crate) fn say(message: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "{message}");
}
