//! [`Error`]: what can go wrong, with what a person needs to put it right.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

/// Why there is no answer.
#[derive(Debug)]
pub struct Error(Fault);

#[derive(Debug)]
enum Fault {
    Read(PathBuf, io::Error),
    Write(PathBuf, io::Error),
    NotJson(PathBuf, serde_json::Error),
    NotARecord(PathBuf, Vec<String>),
    NoRecords(PathBuf, &'static str),
    NotStarted(String, io::Error),
    Failed(String, ExitStatus),
    NotDescribed(Vec<String>),
}

impl Error {
    pub(crate) fn read(path: &Path, error: io::Error) -> Self {
        Self(Fault::Read(path.to_owned(), error))
    }

    pub(crate) fn write(path: &Path, error: io::Error) -> Self {
        Self(Fault::Write(path.to_owned(), error))
    }

    pub(crate) fn not_json(path: &Path, error: serde_json::Error) -> Self {
        Self(Fault::NotJson(path.to_owned(), error))
    }

    pub(crate) fn not_a_record(path: &Path, faults: Vec<String>) -> Self {
        Self(Fault::NotARecord(path.to_owned(), faults))
    }

    /// Nothing that has `what` below a folder.
    #[must_use]
    pub fn no_records(folder: &Path, what: &'static str) -> Self {
        Self(Fault::NoRecords(folder.to_owned(), what))
    }

    pub(crate) fn not_started(command: &str, error: io::Error) -> Self {
        Self(Fault::NotStarted(command.to_owned(), error))
    }

    pub(crate) fn failed(command: &str, status: ExitStatus) -> Self {
        Self(Fault::Failed(command.to_owned(), status))
    }

    /// A record made here is not what the documents describe.
    pub(crate) fn not_described(faults: Vec<String>) -> Self {
        Self(Fault::NotDescribed(faults))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Fault::Read(path, error) => write!(f, "cannot read {}: {error}", path.display()),
            Fault::Write(path, error) => write!(f, "cannot write {}: {error}", path.display()),
            Fault::NotJson(path, error) => write!(f, "{} is no record: {error}", path.display()),
            Fault::NotARecord(path, faults) => {
                write!(f, "{} is no record:", path.display())?;
                list(f, faults)
            }
            Fault::NoRecords(folder, what) => {
                write!(f, "no record below {} has {what}", folder.display())
            }
            Fault::NotStarted(command, error) => write!(f, "cannot start `{command}`: {error}"),
            Fault::Failed(command, status) => write!(f, "`{command}` ended with {status}"),
            Fault::NotDescribed(faults) => {
                f.write_str("the new record is not what docs/benchmarking.md describes:")?;
                list(f, faults)
            }
        }
    }
}

/// The first faults, a line each: a file of another kind has hundreds.
fn list(f: &mut fmt::Formatter<'_>, faults: &[String]) -> fmt::Result {
    const SHOWN: usize = 10;
    for fault in faults.iter().take(SHOWN) {
        write!(f, "\n    {fault}")?;
    }
    match faults.len().checked_sub(SHOWN) {
        None | Some(0) => Ok(()),
        Some(more) => write!(f, "\n    and {more} more"),
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0 {
            Fault::Read(_, error) | Fault::Write(_, error) | Fault::NotStarted(_, error) => {
                Some(error)
            }
            Fault::NotJson(_, error) => Some(error),
            Fault::NotARecord(..)
            | Fault::NoRecords(..)
            | Fault::Failed(..)
            | Fault::NotDescribed(_) => None,
        }
    }
}
