//! Errors of reading a mint's store.

use core::error::Error;
use std::io;
use std::path::PathBuf;

/// The result of reading a mint's store.
pub type Result<T, E = SourceError> = core::result::Result<T, E>;

/// Why a mint's store could not be read. Each message names the file, table, column or row to check.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The location is invalid, or there is no database. It is never created. The message does not repeat the location,
    /// because it may contain a password.
    #[error("{0}")]
    Location(String),
    /// The database is not one of a mint that this version reads, or it may not be read.
    #[error("{0}")]
    Schema(String),
    /// The file cannot be accessed.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Postgres or the connection to it failed.
    #[cfg(feature = "postgres")]
    #[error("{database}: {doing}: {}", of_postgres(source))]
    Postgres {
        /// The database, without a password.
        database: String,
        /// The step that failed.
        doing: &'static str,
        /// The error.
        r#source: tokio_postgres::Error,
    },
    /// SQLite failed.
    #[cfg(feature = "sqlite")]
    #[error("{path}: {doing}: {source}")]
    Sqlite {
        /// The database.
        path: PathBuf,
        /// The step that failed.
        doing: &'static str,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// A row without a valid item: keyset, kind, column, table and row (its `rowid` in SQLite, its number in the result in
    /// Postgres), and its fault.
    #[error("{0}: {1}")]
    BadRow(String, RowFault),
    /// The files or a table of a database were replaced, or a mint started or stopped, while it was being read. Reading it
    /// again is enough.
    #[error("{0}: the database changed while it was being read")]
    ChangedWhileRead(PathBuf),
    /// The receiver of the items stopped the reading.
    #[error("read cancelled")]
    Stopped,
    /// Any error of a source outside this crate.
    #[error(transparent)]
    Other(Box<dyn Error + Send + Sync>),
}

/// The fault of a row. The value itself is left out, because notes must not appear in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RowFault {
    /// The column holds a value of the wrong type.
    #[error("expected {expected}, found {found}")]
    WrongType {
        /// The type found.
        found: &'static str,
        /// The expected type.
        expected: &'static str,
    },
    /// Text of this many bytes that is not an even number of hex digits.
    #[error("invalid hex text of {0} bytes")]
    NotHex(usize),
    /// Bytes that are not a compressed point.
    #[error("expected a point of {expected} bytes, found {found} bytes")]
    NotAPoint {
        /// The number of bytes found.
        found: usize,
        /// The number of bytes of the keyset's points.
        expected: usize,
    },
    /// An empty value. A point is never empty.
    #[error("empty")]
    Empty,
    /// The mint gave the row a state that this version does not know.
    #[error("unknown state")]
    UnknownState,
}

/// How often something is tried while the files of a database change.
const ATTEMPTS: usize = 3;

/// Tries again if the files of a database changed meanwhile: a mint that started or stopped has done so by then. Beside one that
/// stops, SQLite can take a database for damaged.
///
/// # Errors
///
/// Those of the last attempt.
pub(crate) fn retry_changed<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 1..ATTEMPTS {
        match attempt() {
            Err(SourceError::ChangedWhileRead(_)) => {}
            #[cfg(feature = "sqlite")]
            Err(SourceError::Sqlite { source, .. })
                if source.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseCorrupt) => {}
            result => return result,
        }
    }
    attempt()
}

#[cfg(any(feature = "sqlite", feature = "postgres"))]
impl SourceError {
    /// A file that cannot be accessed, or is not there.
    pub(super) fn io(path: &std::path::Path, source: io::Error) -> Self {
        let path = super::location::shown(path);
        match source.kind() {
            io::ErrorKind::NotFound => Self::Location(format!("database not found: {path}")),
            _ => Self::Io { path: path.into(), source },
        }
    }

    /// A database that is not one that can be read.
    pub(super) fn schema(
        database: impl core::fmt::Display,
        reason: impl core::fmt::Display,
    ) -> Self {
        SourceError::Schema(format!("{database}: {reason}"))
    }

    /// A Postgres URL that does not parse.
    pub(super) fn postgres_url(reason: &str) -> Self {
        SourceError::Location(format!("invalid Postgres URL: {reason}"))
    }
}

/// The text of a Postgres error. Of server errors, only the message and the code: the detail may quote rows.
#[cfg(feature = "postgres")]
fn of_postgres(error: &tokio_postgres::Error) -> String {
    if let Some(said) = error.as_db_error() {
        return format!("{} (SQLSTATE {})", said.message(), said.code().code());
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}
