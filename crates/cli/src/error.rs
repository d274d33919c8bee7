//! The ways in which a subcommand can end other than success.

use std::fmt;
use std::io;

/// Maximum length of a message, in characters. Errors may quote their input, and a hostile file must not flood the
/// screen.
const MAX_MESSAGE: usize = 2_000;

/// Exit code of any error. `check` uses 1 for "no item matched".
pub(crate) const EXIT_ERROR: u8 = 2;

/// An error that determines the message on stderr and the exit code.
#[derive(Debug)]
pub(crate) enum CliError {
    /// The command line is invalid; the message says what is accepted.
    Usage(String),
    /// The command line was valid but the command failed.
    Failed(String),
    /// The reader of the output has gone (`| head`). Not reported.
    OutputClosed,
    /// The command line or the environment is invalid: a message for each error.
    Invalid(Vec<String>),
    /// The command failed, and the error is already in the log.
    AlreadyLogged,
    /// The database lacks what was published. An operator has to decide; the log says what.
    Held,
}

impl CliError {
    /// An error for a command line that parses but is invalid.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        CliError::Usage(message.into())
    }

    /// An error of a command that failed.
    pub(crate) fn failed(message: impl fmt::Display) -> Self {
        CliError::Failed(message.to_string())
    }

    /// A failure, preceded by the file or other place where it occurred.
    pub(crate) fn at(place: impl fmt::Display, message: impl fmt::Display) -> Self {
        CliError::Failed(format!("{place}: {message}"))
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CliError::Usage(message) | CliError::Failed(message) => {
                match message.char_indices().nth(MAX_MESSAGE) {
                    Some((end, _)) => write!(f, "{}...", &message[..end]),
                    None => f.write_str(message),
                }
            }
            CliError::OutputClosed => f.write_str("output closed"),
            CliError::Invalid(lines) => f.write_str(&lines.join("\n")),
            CliError::AlreadyLogged | CliError::Held => f.write_str("failed; see the log"),
        }
    }
}

impl std::error::Error for CliError {}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => CliError::OutputClosed,
            _ => CliError::failed(error),
        }
    }
}

// The libraries' errors are complete sentences.
macro_rules! failed_from {
    ($($error:ty),* $(,)?) => {$(
        impl From<$error> for CliError {
            fn from(error: $error) -> Self {
                CliError::failed(error)
            }
        }
    )*};
}

failed_from!(
    nutfilter::error::ParamsError,
    nutfilter::BuildError,
    nutfilter::DecodeError,
    nutfilter_cashu::ResponseError,
    nutfilter_mint::source::SourceError,
    nutfilter_wallet::FetchError,
    nutfilter_wallet::CheckError,
);
