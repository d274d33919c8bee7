//! Errors of reading a mint's store.

use core::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use super::location::existing;
use crate::{KeysetId, NoteKind};

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
    #[error("{database}: {doing}: {}", of_postgres(source))]
    Postgres {
        /// The database, without a password.
        database: String,
        /// The step that failed.
        doing: &'static str,
        /// The error.
        r#source: tokio_postgres::Error,
    },
    /// A table was truncated or rewritten after the snapshot was taken and before the table was locked. Reading
    /// again is enough.
    #[error("table `{0}` was truncated or rewritten while it was being read")]
    Rewritten(&'static str),
    /// SQLite failed.
    #[error("{path}: {doing}: {source}")]
    Sqlite {
        /// The database.
        path: PathBuf,
        /// The step that failed.
        doing: &'static str,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// A row without a valid item.
    #[error("keyset {keyset}, {kind}: column `{column}` of table `{table}`, row {row}: {fault}")]
    BadRow {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// The keyset being read.
        keyset: KeysetId,
        /// The kind being read.
        kind: NoteKind,
        /// The row: its `rowid` in SQLite, its number in the result in Postgres.
        row: i64,
        /// The fault of the row.
        fault: RowFault,
    },
    /// The store is not its earlier state plus new items, for this reason, so everything must be read. This is not a
    /// fault of the store.
    #[error("full reread required: {0}")]
    RescanRequired(String),
    /// An unused database was opened for writing while it was being read. Reading it again is enough.
    #[error("{0}: the database was opened for writing while it was being read")]
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
    /// An empty value. A point is never empty.
    #[error("empty")]
    Empty,
}

impl SourceError {
    /// Everything must be read, for this reason.
    pub(crate) fn rescan(reason: impl Into<String>) -> Self {
        SourceError::RescanRequired(reason.into())
    }

    /// Nothing is at the path of a database. Only the part that exists is named: the rest may be a password.
    pub(super) fn not_found(path: &Path) -> Self {
        let below = existing(path).display();
        SourceError::Location(format!(
            "database not found below {below}; the given location is not shown, because it may hold a password"
        ))
    }

    /// A Postgres URL that does not parse.
    pub(super) fn postgres_url(reason: &str) -> Self {
        SourceError::Location(format!("invalid Postgres URL: {reason}"))
    }

    /// Postgres sent data that is not valid binary `COPY` output.
    pub(super) fn malformed(table: &str, reason: &str) -> Self {
        SourceError::Other(format!("malformed data from table `{table}`: {reason}").into())
    }
}

/// The text of a Postgres error. Of server errors, only the message and the code: the detail may quote rows.
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
