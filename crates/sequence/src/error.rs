//! [`Error`].

use core::fmt;
use std::io;
use std::path::{Path, PathBuf};

use nutfilter::BuildError;

use crate::inbox::Inbox;

/// A sequence could not be opened, read or written.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(Fault);

#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error("{path}: sequence is in use by another process")]
    InUse { path: PathBuf },
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error(
        "{path}: damaged sequence: {what}; restore the directory from a backup, or remove it to start another sequence, \
         which every wallet will report as a restart"
    )]
    Damaged { path: PathBuf, what: &'static str },
    #[error("{path}: damaged: the file does not have its SHA-256; restore it from a backup")]
    Altered { path: PathBuf },
    #[error(
        "{path}: the sequence has {what} {stored}, not {given}; this never changes during its life"
    )]
    Differs {
        path: PathBuf,
        what: &'static str,
        stored: String,
        given: String,
    },
    #[error("{n} values; a segment holds at most {max}", max = u32::MAX)]
    TooMany { n: u64 },
    #[error(
        "no room for {more} events: {waiting} wait to be published, at most {max}; report them again after the next \
         refresh",
        max = Inbox::CAPACITY
    )]
    Full { waiting: u64, more: u64 },
    #[error("{0}")]
    Build(#[source] BuildError),
}

impl Error {
    pub(crate) fn in_use(path: &Path) -> Self {
        let path = path.to_owned();
        Self(Fault::InUse { path })
    }

    pub(crate) fn damaged(path: &Path, what: &'static str) -> Self {
        let path = path.to_owned();
        Self(Fault::Damaged { path, what })
    }

    pub(crate) fn altered(path: &Path) -> Self {
        let path = path.to_owned();
        Self(Fault::Altered { path })
    }

    pub(crate) fn differs(
        path: &Path,
        what: &'static str,
        stored: impl fmt::Display,
        given: impl fmt::Display,
    ) -> Self {
        Self(Fault::Differs {
            path: path.to_owned(),
            what,
            stored: stored.to_string(),
            given: given.to_string(),
        })
    }

    pub(crate) fn too_many(n: u64) -> Self {
        Self(Fault::TooMany { n })
    }

    pub(crate) fn full(waiting: u64, more: u64) -> Self {
        Self(Fault::Full { waiting, more })
    }

    /// Whether a file is missing, or is not what was written.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        match &self.0 {
            Fault::Damaged { .. } | Fault::Altered { .. } => true,
            Fault::Io { source, .. } => nutfilter_files::is_lost(source),
            _ => false,
        }
    }

    /// The system's error, if there is one.
    #[must_use]
    pub fn io_error(&self) -> Option<&io::Error> {
        match &self.0 {
            Fault::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Names the file of a system error.
pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error(Fault::Io { path, source })
}

impl From<BuildError> for Error {
    fn from(error: BuildError) -> Self {
        Self(Fault::Build(error))
    }
}
