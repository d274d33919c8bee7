//! Flags that every subcommand takes.

use std::fmt;
use std::io::{self, IsTerminal, Write};

/// What was said before or after the subcommand and holds for all of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Globals {
    /// No progress bars, summaries or warnings on stderr; errors still are.
    pub(crate) quiet: bool,
    /// Threads that may be used; `None` leaves it to the machine.
    pub(crate) threads: Option<usize>,
}

impl Globals {
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
