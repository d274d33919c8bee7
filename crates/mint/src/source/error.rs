//! Errors of reading a mint's store.

use core::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use super::MintType;
use super::location::existing;
use crate::{KeysetId, NoteKind};

/// Why a mint's store could not be read. Each message names the file, table, column or row to check.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The file does not exist. It is never created.
    #[error(
        "database not found below {below}; the given location is not shown, because it may hold a password"
    )]
    NotFound {
        /// The longest part of the given path that exists. The rest is not kept, because it may be a password.
        below: PathBuf,
    },
    /// A directory with no database of a known name, or with several.
    #[error(
        "{directory}: directory contains {found} databases with a known name; give the path of the file"
    )]
    NoSingleDatabase {
        /// The given directory.
        directory: PathBuf,
        /// Number of databases of known names in it.
        found: usize,
    },
    /// The file cannot be accessed.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A Postgres URL that does not parse. The URL is not kept, because it may contain a password.
    #[error("invalid Postgres URL: {reason}")]
    PostgresUrl {
        /// The fault of the URL.
        reason: &'static str,
    },
    /// The path is not a regular file: a directory, a FIFO, a socket or a device.
    #[error(
        "{path}: not a regular file but a directory, FIFO, socket or device; give the path of the mint's SQLite file"
    )]
    NotRegular {
        /// The path.
        path: PathBuf,
    },
    /// A file was required, but the database is not a file.
    #[error("{database}: not a file path")]
    NotAFile {
        /// The database, without a password.
        database: String,
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
    /// Postgres did not answer in time.
    #[error("{database}: {doing}: timed out after {seconds} s")]
    PostgresTimeout {
        /// The database, without a password.
        database: String,
        /// The step that timed out.
        doing: &'static str,
        /// The timeout, in seconds.
        seconds: u64,
    },
    /// A Postgres server with an unsupported version.
    #[error("{database}: unsupported Postgres version {found}; 13 or later is required")]
    PostgresVersion {
        /// The database, without a password.
        database: String,
        /// The server's version number, such as `130004`.
        found: String,
    },
    /// TLS could not be set up.
    #[error("{what}: {source}")]
    Tls {
        /// The part of the setup that failed.
        what: String,
        /// The error.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The name of a mint's table belongs to something else, such as a view. New rows of a view cannot be found.
    #[error(
        "{database}: `{table}` is not a table but a relation of kind `{found}`; views and partitioned tables are not \
         supported"
    )]
    NotATable {
        /// The database, without a password.
        database: String,
        /// The name.
        table: &'static str,
        /// The letter with which Postgres describes the relation (`relkind`).
        found: String,
    },
    /// A column has a type that this mint's schema does not use.
    #[error(
        "{database}: column `{column}` of table `{table}` has type {found}, expected {expected}"
    )]
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
    #[error(
        "{database}: the role cannot read table `{table}`; to allow it: GRANT SELECT ({columns}) ON {table} TO the role"
    )]
    NoPrivilege {
        /// The database, without a password.
        database: String,
        /// The table.
        table: &'static str,
        /// The columns of the table that must be readable.
        columns: String,
    },
    /// Postgres sent data that is not valid binary `COPY` output.
    #[error("malformed data from table `{table}`: {reason}")]
    MalformedCopy {
        /// The table.
        table: &'static str,
        /// The fault.
        reason: String,
    },
    /// A table was truncated or rewritten after the snapshot was taken and before the table was locked. Reading
    /// again is enough.
    #[error("table `{table}` was truncated or rewritten while it was being read")]
    Rewritten {
        /// The table.
        table: &'static str,
    },
    /// A URL with an unsupported scheme. The URL is not kept, because it may contain a password.
    #[error(
        "unsupported database scheme '{scheme}'; give a postgres:// URL, or the path of a SQLite file"
    )]
    UnsupportedScheme {
        /// The scheme.
        scheme: String,
    },
    /// A `sqlite:` URL with a user name. It is not kept, because it may contain a password.
    #[error(
        "invalid sqlite: URL: it is a file path and has no user or password; remove the part before the `@`"
    )]
    UserInUrl,
    /// The file does not start like a SQLite database.
    #[error("{path}: not a SQLite database, or encrypted")]
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// The database has a `-wal` file but no `-shm` file, and SQLite could not create the `-shm` file.
    #[error(
        "{path}: opening: {source}; {shm} is missing and cannot be created: start the mint, or run as the mint's user"
    )]
    NoSharedMemory {
        /// The database.
        path: PathBuf,
        /// The missing file.
        shm: PathBuf,
        /// SQLite's error.
        source: rusqlite::Error,
    },
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
    /// The tables match no known mint.
    #[error("{path}: unknown mint schema:{}", of_missing(missing))]
    UnknownSchema {
        /// The database.
        path: PathBuf,
        /// The first missing table, per mint.
        missing: Vec<(MintType, &'static str)>,
    },
    /// The database contains the tables of two mints.
    #[error("{path}: contains the tables of more than one mint; set the mint type")]
    AmbiguousSchema {
        /// The database.
        path: PathBuf,
    },
    /// A table of this mint is missing.
    #[error("{path}: not a {mint} database: table `{table}` is missing")]
    MissingTable {
        /// The database.
        path: PathBuf,
        /// The mint.
        mint: MintType,
        /// The table.
        table: &'static str,
    },
    /// A column of this mint's table is missing.
    #[error("{path}: unsupported {mint} schema: column `{column}` of table `{table}` is missing")]
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
    /// The store is not its earlier state plus new items, so everything must be read. This is not a fault of the
    /// store.
    #[error("full reread required: {reason}")]
    RescanRequired {
        /// Why it must be read again.
        reason: String,
    },
    /// An unused database was opened for writing while it was being read. Reading it again is enough.
    #[error("{path}: the database was opened for writing while it was being read")]
    ChangedWhileRead {
        /// The database.
        path: PathBuf,
    },
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
    /// Text that is not an even number of hex digits.
    #[error("invalid hex text of {length} bytes")]
    NotHex {
        /// The length of the text, in bytes.
        length: usize,
    },
    /// An empty value. A point is never empty.
    #[error("empty")]
    Empty,
}

impl SourceError {
    /// Nothing is at the path of a database.
    pub(super) fn not_found(path: &Path) -> Self {
        let below = existing(path).to_owned();
        SourceError::NotFound { below }
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

fn of_missing(missing: &[(MintType, &str)]) -> String {
    let missing = missing
        .iter()
        .map(|(mint, table)| format!(" for {mint} table `{table}` is missing"));
    missing.collect::<Vec<_>>().join(",")
}
