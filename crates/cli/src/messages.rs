//! Options of every subcommand, and messages on stderr.

use std::fmt;
use std::io::{self, Write};

/// The values of the global options.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Globals {
    /// Suppresses summaries and warnings on stderr. Errors still appear.
    pub(crate) quiet: bool,
}

impl Globals {
    /// Prints information on stderr, unless `--quiet`.
    pub(crate) fn note(&self, message: impl fmt::Display) {
        if !self.quiet {
            eprint_line(message);
        }
    }

    /// Prints a warning on stderr, unless `--quiet`.
    pub(crate) fn warn(&self, message: impl fmt::Display) {
        if !self.quiet {
            eprint_labelled("warning", message);
        }
    }
}

/// Unlike `eprintln!`, this does not panic when stderr is a closed pipe.
pub(crate) fn eprint_line(message: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "{message}");
}

/// Prints an error in the same form as clap: `error: ...`.
pub(crate) fn eprint_error(message: impl fmt::Display) {
    eprint_labelled("error", message);
}

fn eprint_labelled(label: &str, message: impl fmt::Display) {
    // Messages quote files and mints. Their control characters must not reach a terminal.
    let message: String = message
        .to_string()
        .chars()
        .flat_map(|c| {
            let plain = (!c.is_control() || c == '\n').then_some(c);
            let escaped = plain.is_none().then(|| c.escape_default());
            plain.into_iter().chain(escaped.into_iter().flatten())
        })
        .collect();
    eprint_line(format_args!("{label}: {message}"));
}
