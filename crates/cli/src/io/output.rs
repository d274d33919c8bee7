//! Destinations of results: standard output, a pipe, or a file that is written atomically.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, UNIX_EPOCH};

use crate::error::CliError;
use crate::io::output_file::OutputFile;

/// Buffered stdout. Flush it explicitly: `drop` ignores the error of a flush.
pub(crate) fn stdout() -> impl Write {
    BufWriter::new(io::stdout().lock())
}

/// Writes a complete result to stdout.
pub(crate) fn print(bytes: &[u8]) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    Ok(out.flush()?)
}

/// Prints a JSON value and a line end.
pub(crate) fn print_json(value: &serde_json::Value) -> Result<(), CliError> {
    print(format!("{value:#}\n").as_bytes())
}

/// Formats a number for display: `2,631,549`.
pub(crate) fn count(number: u64) -> String {
    indicatif::HumanCount(number).to_string()
}

/// Formats a number of bytes for display: `2,631,549 (2.51 MiB)`.
pub(crate) fn size(bytes: u64) -> String {
    match count(bytes) {
        exact if bytes < 1024 => exact,
        exact => format!("{exact} ({})", indicatif::HumanBytes(bytes)),
    }
}

/// Formats a time like `Sat, 01 Aug 2026 12:00:00 GMT`; as Unix seconds after the year 9999.
pub(crate) fn utc(unix_seconds: u64) -> String {
    const YEAR_10000: u64 = 253_402_300_800;
    match unix_seconds {
        ..YEAR_10000 => httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(unix_seconds)),
        _ => format!("{unix_seconds} s after 1970"),
    }
}

/// Exit code if no item matched. (The exit code of an error is 2.)
const EXIT_NONE_MATCHED: u8 = 1;

/// The exit code of a command whose results say whether anything matched.
pub(crate) fn exit_code(matched: bool) -> ExitCode {
    ExitCode::from(if matched { 0 } else { EXIT_NONE_MATCHED })
}

/// The destination of a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Destination<'a> {
    Stdout,
    File(&'a Path),
}

impl<'a> Destination<'a> {
    /// No path, `-`, and the names of this process's own standard output all mean standard output. Opening a
    /// redirected standard output by such a name would overwrite it from its beginning.
    pub(crate) fn of(path: Option<&'a Path>) -> Self {
        let names = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];
        match path {
            Some(path) if !names.iter().any(|name| path.as_os_str() == *name) => {
                Destination::File(path)
            }
            _ => Destination::Stdout,
        }
    }

    /// Rejects a terminal, for binary output.
    pub(crate) fn no_terminal(self) -> Result<(), CliError> {
        match self == Destination::Stdout && io::stdout().is_terminal() {
            true => Err(CliError::usage(
                "this format is binary and would garble the terminal: use --output FILE or a pipe",
            )),
            false => Ok(()),
        }
    }

    /// Writes the output of `contents`: directly to standard output, or to a file as [`OutputFile`] does.
    pub(crate) fn write(
        self,
        contents: impl FnOnce(&mut dyn Write) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        match self {
            Destination::Stdout => {
                let mut out = stdout();
                contents(&mut out)?;
                Ok(out.flush()?)
            }
            Destination::File(path) => {
                let at = |error: io::Error| CliError::at(path.display(), error);
                let mut output = OutputFile::create(path).map_err(at)?;
                contents(output.file())?;
                output.finish().map_err(at)
            }
        }
    }

    /// The error for a failed write to this destination.
    pub(crate) fn failed(self, error: &io::Error) -> CliError {
        match self {
            Destination::File(path) => CliError::at(path.display(), error),
            Destination::Stdout if error.kind() == io::ErrorKind::BrokenPipe => {
                CliError::OutputClosed
            }
            Destination::Stdout => CliError::at("standard output", error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000")] {
            assert_eq!(count(number), text);
        }
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(size(2_631_549), "2,631,549 (2.51 MiB)");
    }

    #[test]
    fn times_are_in_utc() {
        assert_eq!(utc(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(utc(951_782_399), "Mon, 28 Feb 2000 23:59:59 GMT");
        assert_eq!(utc(253_402_300_799), "Fri, 31 Dec 9999 23:59:59 GMT");
        assert_eq!(utc(u64::MAX), "18446744073709551615 s after 1970");
    }
}
