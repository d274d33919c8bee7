//! Errors of reading a mint's store.

use core::error::Error;
use core::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::MintType;
use super::location::existing;
use crate::{KeysetId, NoteKind};

/// Why a mint's store could not be read. Each message names the file, table, column or row to check.
#[derive(Debug)]
#[non_exhaustive]
pub enum SourceError {
    /// The file does not exist. It is never created.
    NotFound {
        /// The longest part of the given path that exists. The rest is not kept, because it may be a password.
        below: PathBuf,
    },
    /// A directory with no database of a known name, or with several.
    NoSingleDatabase {
        /// The given directory.
        directory: PathBuf,
        /// Number of databases of known names in it.
        found: usize,
    },
    /// The file cannot be accessed.
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A Postgres URL that does not parse. The URL is not kept, because it may contain a password.
    PostgresUrl {
        /// The fault of the URL.
        reason: &'static str,
    },
    /// The path is not a regular file: a directory, a FIFO, a socket or a device.
    NotRegular {
        /// The path.
        path: PathBuf,
    },
    /// A file was required, but the database is not a file.
    NotAFile {
        /// The database, without a password.
        database: String,
    },
    /// Postgres or the connection to it failed.
    Postgres {
        /// The database, without a password.
        database: String,
        /// The step that failed.
        doing: &'static str,
        /// The error.
        source: tokio_postgres::Error,
    },
    /// Postgres did not answer in time.
    PostgresTimeout {
        /// The database, without a password.
        database: String,
        /// The step that timed out.
        doing: &'static str,
        /// The timeout, in seconds.
        seconds: u64,
    },
    /// A Postgres server with an unsupported version.
    PostgresVersion {
        /// The database, without a password.
        database: String,
        /// The server's version number, such as `130004`.
        found: String,
    },
    /// TLS could not be set up.
    Tls {
        /// The part of the setup that failed.
        what: String,
        /// The error.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The name of a mint's table belongs to something else, such as a view. New rows of a view cannot be found.
    NotATable {
        /// The database, without a password.
        database: String,
        /// The name.
        table: &'static str,
        /// The letter with which Postgres describes the relation (`relkind`).
        found: String,
    },
    /// A column has a type that this mint's schema does not use.
    ColumnType {
        /// The database, without a password.
        database: String,
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// The type found.
        found: String,
        /// The expected type.
        expected: &'static str,
    },
    /// The role has no privilege to read a column.
    NoPrivilege {
        /// The database, without a password.
        database: String,
        /// The table.
        table: &'static str,
        /// The columns of the table that must be readable.
        columns: String,
    },
    /// Postgres sent data that is not valid binary `COPY` output.
    MalformedCopy {
        /// The table.
        table: &'static str,
        /// The fault.
        reason: String,
    },
    /// A table was truncated or rewritten after the snapshot was taken and before the table was locked. Reading
    /// again is enough.
    Rewritten {
        /// The table.
        table: &'static str,
    },
    /// A URL with an unsupported scheme. The URL is not kept, because it may contain a password.
    UnsupportedScheme {
        /// The scheme.
        scheme: String,
    },
    /// A `sqlite:` URL with a user name. It is not kept, because it may contain a password.
    UserInUrl,
    /// The file does not start like a SQLite database.
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// The database has a `-wal` file but no `-shm` file, and SQLite could not create the `-shm` file.
    NoSharedMemory {
        /// The database.
        path: PathBuf,
        /// The missing file.
        shm: PathBuf,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// SQLite failed.
    Sqlite {
        /// The database.
        path: PathBuf,
        /// The step that failed.
        doing: &'static str,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// The tables match no known mint.
    UnknownSchema {
        /// The database.
        path: PathBuf,
        /// The first missing table, per mint.
        missing: Vec<(MintType, &'static str)>,
    },
    /// The database contains the tables of two mints.
    AmbiguousSchema {
        /// The database.
        path: PathBuf,
    },
    /// A table of this mint is missing.
    MissingTable {
        /// The database.
        path: PathBuf,
        /// The mint.
        mint: MintType,
        /// The table.
        table: &'static str,
    },
    /// A column of this mint's table is missing.
    MissingColumn {
        /// The database.
        path: PathBuf,
        /// The mint.
        mint: MintType,
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
    },
    /// A row without a valid item.
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
    /// The store is not its earlier state plus new items, so everything must be read. This is not a fault of the
    /// store.
    RescanRequired {
        /// Why it must be read again.
        reason: String,
    },
    /// An unused database was opened for writing while it was being read. Reading it again is enough.
    ChangedWhileRead {
        /// The database.
        path: PathBuf,
    },
    /// The receiver of the items stopped the reading.
    Stopped,
    /// Any error of a source outside this crate.
    Other(Box<dyn Error + Send + Sync>),
}

/// The fault of a row. The value itself is left out, because notes must not appear in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RowFault {
    /// The column holds a value of the wrong type.
    WrongType {
        /// The type found.
        found: &'static str,
        /// The expected type.
        expected: &'static str,
    },
    /// Text that is not an even number of hex digits.
    NotHex {
        /// The length of the text, in bytes.
        length: usize,
    },
    /// An empty value. A point is never empty.
    Empty,
}

impl fmt::Display for RowFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RowFault::WrongType { found, expected } => {
                write!(f, "expected {expected}, found {found}")
            }
            RowFault::NotHex { length } => write!(f, "invalid hex text of {length} bytes"),
            RowFault::Empty => f.write_str("empty"),
        }
    }
}

impl SourceError {
    /// Nothing is at the path of a database.
    pub(super) fn not_found(path: &Path) -> Self {
        let below = existing(path).to_owned();
        SourceError::NotFound { below }
    }
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SourceError::NotFound { below } => write!(
                f,
                "database not found below {}; the given location is not shown, because it may hold a password",
                below.display()
            ),
            SourceError::NoSingleDatabase { directory, found } => write!(
                f,
                "{}: directory contains {found} databases with a known name; give the path of the \
                 file",
                directory.display()
            ),
            SourceError::Io { path, source } => write!(f, "{}: {source}", path.display()),
            SourceError::PostgresUrl { reason } => write!(f, "invalid Postgres URL: {reason}"),
            SourceError::NotRegular { path } => write!(
                f,
                "{}: not a regular file but a directory, FIFO, socket or device; give the path of \
                 the mint's SQLite file",
                path.display()
            ),
            SourceError::NotAFile { database } => write!(f, "{database}: not a file path"),
            SourceError::Postgres {
                database,
                doing,
                source,
            } => {
                write!(f, "{database}: {doing}: ")?;
                write_postgres(f, source)
            }
            SourceError::PostgresTimeout {
                database,
                doing,
                seconds,
            } => write!(f, "{database}: {doing}: timed out after {seconds} s"),
            SourceError::PostgresVersion { database, found } => write!(
                f,
                "{database}: unsupported Postgres version {found}; 13 or later is required"
            ),
            SourceError::Tls { what, source } => write!(f, "{what}: {source}"),
            SourceError::NotATable {
                database,
                table,
                found,
            } => write!(
                f,
                "{database}: `{table}` is not a table but a relation of kind `{found}`; views and partitioned tables are not supported"
            ),
            SourceError::ColumnType {
                database,
                table,
                column,
                found,
                expected,
            } => write!(
                f,
                "{database}: column `{column}` of table `{table}` has type {found}, expected {expected}"
            ),
            SourceError::NoPrivilege {
                database,
                table,
                columns,
            } => write!(
                f,
                "{database}: the role cannot read table `{table}`; to allow it: GRANT SELECT \
                 ({columns}) ON {table} TO the role"
            ),
            SourceError::MalformedCopy { table, reason } => {
                write!(f, "malformed data from table `{table}`: {reason}")
            }
            SourceError::Rewritten { table } => write!(
                f,
                "table `{table}` was truncated or rewritten while it was being read"
            ),
            SourceError::UnsupportedScheme { scheme } => write!(
                f,
                "unsupported database scheme '{scheme}'; give a postgres:// URL, or the path of a SQLite file"
            ),
            SourceError::UserInUrl => f.write_str(
                "invalid sqlite: URL: it is a file path and has no user or password; remove the \
                 part before the `@`",
            ),
            SourceError::NotADatabase { path } => {
                write!(f, "{}: not a SQLite database, or encrypted", path.display())
            }
            SourceError::NoSharedMemory { path, shm, source } => write!(
                f,
                "{}: opening: {source}; {} is missing and cannot be created: start the mint, or \
                 run as the mint's user",
                path.display(),
                shm.display()
            ),
            SourceError::Sqlite {
                path,
                doing,
                source,
            } => {
                write!(f, "{}: {doing}: {source}", path.display())
            }
            SourceError::UnknownSchema { path, missing } => {
                write!(f, "{}: unknown mint schema:", path.display())?;
                for (i, (mint, table)) in missing.iter().enumerate() {
                    let comma = if i == 0 { "" } else { "," };
                    write!(f, "{comma} for {mint} table `{table}` is missing")?;
                }
                Ok(())
            }
            SourceError::AmbiguousSchema { path } => write!(
                f,
                "{}: contains the tables of more than one mint; set the mint type",
                path.display()
            ),
            SourceError::MissingTable { path, mint, table } => {
                write!(
                    f,
                    "{}: not a {mint} database: table `{table}` is missing",
                    path.display()
                )
            }
            SourceError::MissingColumn {
                path,
                mint,
                table,
                column,
            } => write!(
                f,
                "{}: unsupported {mint} schema: column `{column}` of table \
                 `{table}` is missing",
                path.display()
            ),
            SourceError::BadRow {
                table,
                column,
                keyset,
                kind,
                row,
                fault,
            } => write!(
                f,
                "keyset {keyset}, {kind}: column `{column}` of table `{table}`, row {row}: \
                 {fault}"
            ),
            SourceError::RescanRequired { reason } => {
                write!(f, "full reread required: {reason}")
            }
            SourceError::ChangedWhileRead { path } => write!(
                f,
                "{}: the database was opened for writing while it was being read",
                path.display()
            ),
            SourceError::Stopped => f.write_str("read cancelled"),
            SourceError::Other(error) => error.fmt(f),
        }
    }
}

/// Writes a Postgres error. Of server errors, only the message and the code are written: the detail may quote rows.
fn write_postgres(f: &mut fmt::Formatter<'_>, error: &tokio_postgres::Error) -> fmt::Result {
    if let Some(said) = error.as_db_error() {
        return write!(f, "{} (SQLSTATE {})", said.message(), said.code().code());
    }
    write!(f, "{error}")?;
    let mut cause = error.source();
    while let Some(error) = cause {
        write!(f, ": {error}")?;
        cause = error.source();
    }
    Ok(())
}

impl Error for SourceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            SourceError::Io { source, .. } => Some(source),
            SourceError::Sqlite { source, .. } | SourceError::NoSharedMemory { source, .. } => {
                Some(source)
            }
            SourceError::Tls { source, .. } => Some(&**source),
            SourceError::Other(error) => error.source(),
            _ => None,
        }
    }
}
