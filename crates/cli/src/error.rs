//! What a subcommand can end with, other than success.

use std::fmt;
use std::io;

/// Longest message, in characters. Errors may quote what they found, and a hostile file must not fill the
/// screen with itself.
const MAX_MESSAGE: usize = 2_000;

/// An error on its way to stderr and an exit code.
#[derive(Debug)]
pub(crate) enum CliError {
    /// The command line does not make sense; the message says what would.
    Usage(String),
    /// The command line made sense, and doing it failed.
    Failed(String),
    /// The reader of our output has gone (`| head`). Not reported.
    OutputClosed,
    /// Doing it failed, and the log has the error already.
    AlreadyLogged,
}

impl CliError {
    /// A command line that parses and yet cannot be meant.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        CliError::Usage(message.into())
    }

    /// Anything that went wrong while doing what was asked.
    pub(crate) fn failed(message: impl fmt::Display) -> Self {
        CliError::Failed(message.to_string())
    }

    /// A failure with the name of the file, or whatever else it happened to, in front.
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
            CliError::AlreadyLogged => f.write_str("failed, as the log says"),
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

// Errors of the libraries are complete sentences already.
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
    nutfilter::ParamsError,
    nutfilter::BuildError,
    nutfilter::DecodeError,
    nutfilter::ResponseError,
    nutfilter::store::StoreError,
    nutfilter_mint::source::SourceError,
    nutfilter_wallet::FetchError,
    nutfilter_wallet::CheckError,
);
