//! What can go wrong between the mint's store and us.

use core::error::Error;
use core::fmt;
use std::io;
use std::path::PathBuf;

use super::MintType;
use crate::{KeysetId, Kind};

/// Why a mint's store could not be read. Each message names the file, table, column or row to look at.
#[derive(Debug)]
#[non_exhaustive]
pub enum SourceError {
    /// There is no such file. (It is never created.)
    NotFound {
        /// The path that was given.
        path: PathBuf,
    },
    /// A directory that holds no database of a known name, or more than one.
    NoSingleDatabase {
        /// The directory that was given.
        directory: PathBuf,
        /// How many databases of known names are in it.
        found: usize,
    },
    /// The file cannot be looked at.
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A Postgres URL that does not parse. The URL is not kept: it holds a password.
    PostgresUrl {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The path is a FIFO, a socket or a device.
    NotRegular {
        /// The path.
        path: PathBuf,
    },
    /// A file was asked for, and the database is none.
    NotAFile {
        /// The database, without a password.
        database: String,
    },
    /// Postgres, or the way to it, failed.
    Postgres {
        /// The database, without a password.
        database: String,
        /// What was being done.
        doing: &'static str,
        /// What was said.
        source: tokio_postgres::Error,
    },
    /// Postgres did not answer in time.
    PostgresTimeout {
        /// The database, without a password.
        database: String,
        /// What was being done.
        doing: &'static str,
        /// How long it was waited.
        seconds: u64,
    },
    /// A Postgres server that this crate cannot read.
    PostgresVersion {
        /// The database, without a password.
        database: String,
        /// What it says it is, as in `130004`.
        found: String,
    },
    /// What should make a TLS connection possible does not.
    Tls {
        /// What.
        what: String,
        /// What was said.
        source: Box<dyn Error + Send + Sync>,
    },
    /// What should be a table of a mint's is something else of that name: a view, perhaps, of which nobody can
    /// tell what is new.
    NotATable {
        /// The database, without a password.
        database: String,
        /// The name.
        table: &'static str,
        /// The letter in which Postgres says what it is (`relkind`).
        found: String,
    },
    /// A column is of a type that is not this mint's.
    ColumnType {
        /// The database, without a password.
        database: String,
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// Its type.
        found: String,
        /// What it should be.
        expected: &'static str,
    },
    /// The role may not read a column.
    NoPrivilege {
        /// The database, without a password.
        database: String,
        /// The table.
        table: &'static str,
        /// The columns of the table that have to be readable.
        columns: String,
    },
    /// What Postgres sent is not the binary form of rows.
    MalformedCopy {
        /// The table.
        table: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// A table was truncated or rewritten between the look at the database and the lock on the table. Reading
    /// again will do.
    Rewritten {
        /// The table.
        table: &'static str,
    },
    /// A URL of something else. The URL is not kept either.
    UnsupportedScheme {
        /// What it begins with.
        scheme: String,
    },
    /// A `sqlite:` URL with a user in it, and perhaps a password: it is not kept.
    UserInUrl,
    /// The file does not begin as a SQLite database does.
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// The `-wal` file of a database is there and its `-shm` file is not, and SQLite could not make it.
    NoSharedMemory {
        /// The database.
        path: PathBuf,
        /// The file that is missing.
        shm: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// SQLite failed.
    Sqlite {
        /// The database.
        path: PathBuf,
        /// What was being done.
        doing: &'static str,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// The tables are those of no mint that is known.
    UnknownSchema {
        /// The database.
        path: PathBuf,
        /// For each mint the first table that is not there.
        missing: Vec<(MintType, &'static str)>,
    },
    /// The tables of two mints in one database.
    AmbiguousSchema {
        /// The database.
        path: PathBuf,
    },
    /// A table is missing that this mint's database should have.
    MissingTable {
        /// The database.
        path: PathBuf,
        /// The mint.
        mint: MintType,
        /// The table.
        table: &'static str,
    },
    /// A column is missing that this mint's table should have.
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
    /// A row that holds no item.
    BadRow {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// The keyset that was being read.
        keyset: KeysetId,
        /// The kind that was being read.
        kind: Kind,
        /// Which row of the answer it was, counted from 1.
        row: u64,
        /// What is wrong with it.
        fault: RowFault,
    },
    /// The store is not what it was with more items: it is to be read whole. Nothing is wrong with it.
    StartOver {
        /// What tells.
        reason: String,
    },
    /// A database that nobody had open was opened for writing while it was being read. Reading it again
    /// will do.
    ChangedWhileRead {
        /// The database.
        path: PathBuf,
    },
    /// The reader of the items broke off.
    Stopped,
    /// Anything that a source outside this crate has to say.
    Other(Box<dyn Error + Send + Sync>),
}

/// What is wrong with a row. The value itself stays out of it: a log is no place for notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RowFault {
    /// The column holds a value of this type, and should hold one of that.
    WrongType {
        /// What it is.
        found: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// Text of so many bytes that are not all pairs of hex digits.
    NotHex {
        /// The length of the text.
        length: usize,
    },
    /// Nothing at all: no point is empty.
    Empty,
}

impl fmt::Display for RowFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RowFault::WrongType { found, expected } => {
                write!(f, "{found} where {expected} was expected")
            }
            RowFault::NotHex { length } => write!(f, "{length} bytes of text that are not hex"),
            RowFault::Empty => f.write_str("empty"),
        }
    }
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SourceError::NotFound { path } => {
                write!(f, "{}: there is no such database", path.display())
            }
            SourceError::NoSingleDatabase { directory, found } => write!(
                f,
                "{}: a directory with {found} databases of known names; name the file",
                directory.display()
            ),
            SourceError::Io { path, source } => write!(f, "{}: {source}", path.display()),
            SourceError::PostgresUrl { reason } => write!(f, "the Postgres URL: {reason}"),
            SourceError::NotRegular { path } => write!(
                f,
                "{}: not a regular file but a directory, FIFO, socket or device; name the mint's SQLite file",
                path.display()
            ),
            SourceError::NotAFile { database } => write!(f, "{database}: is no file"),
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
            } => write!(f, "{database}: {doing}: no answer in {seconds} seconds"),
            SourceError::PostgresVersion { database, found } => write!(
                f,
                "{database}: Postgres 13 or later is needed, and this is {found}"
            ),
            SourceError::Tls { what, source } => write!(f, "{what}: {source}"),
            SourceError::NotATable {
                database,
                table,
                found,
            } => write!(
                f,
                "{database}: `{table}` is no table but something of kind `{found}`; views and \
                 partitioned tables cannot be read"
            ),
            SourceError::ColumnType {
                database,
                table,
                column,
                found,
                expected,
            } => write!(
                f,
                "{database}: column `{column}` of table `{table}` is {found}, and should be {expected}"
            ),
            SourceError::NoPrivilege {
                database,
                table,
                columns,
            } => write!(
                f,
                "{database}: the role may not read what is needed of table `{table}`; what it takes: \
                 GRANT SELECT ({columns}) ON {table} TO the role"
            ),
            SourceError::MalformedCopy { table, reason } => {
                write!(f, "table `{table}` came malformed: {reason}")
            }
            SourceError::Rewritten { table } => write!(
                f,
                "table `{table}` was truncated or rewritten while it was being read"
            ),
            SourceError::UnsupportedScheme { scheme } => write!(
                f,
                "{scheme}: is no database that this version reads; the path of a SQLite file is, with \
                 or without sqlite: in front"
            ),
            SourceError::UserInUrl => f.write_str(
                "a sqlite: URL is the path of a file, and has no user or password; write it without \
                 the `@`, or the path alone",
            ),
            SourceError::NotADatabase { path } => write!(
                f,
                "{}: not a SQLite database, or an encrypted one, which cannot be read",
                path.display()
            ),
            SourceError::NoSharedMemory { path, shm, source } => write!(
                f,
                "{}: opening: {source}; {} is missing, which only a user who may write there can make: \
                 start the mint, or read as its user",
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
                write!(f, "{}: the tables are of no known mint:", path.display())?;
                for (i, (mint, table)) in missing.iter().enumerate() {
                    let comma = if i == 0 { "" } else { "," };
                    write!(f, "{comma} for {mint} table `{table}` is missing")?;
                }
                Ok(())
            }
            SourceError::AmbiguousSchema { path } => write!(
                f,
                "{}: has the tables of more than one mint; say which it is",
                path.display()
            ),
            SourceError::MissingTable { path, mint, table } => {
                write!(
                    f,
                    "{}: no {mint} database: table `{table}` is missing",
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
                "{}: not the {mint} database that this version knows: column `{column}` of table \
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
                "keyset {keyset}, {kind}: column `{column}` of table `{table}`, row {row} of the \
                 answer: {fault}"
            ),
            SourceError::StartOver { reason } => {
                write!(f, "what was read before cannot be continued: {reason}")
            }
            SourceError::ChangedWhileRead { path } => write!(
                f,
                "{}: the database was opened for writing while it was being read",
                path.display()
            ),
            SourceError::Stopped => f.write_str("reading was stopped"),
            SourceError::Other(error) => error.fmt(f),
        }
    }
}

/// What Postgres said: of its own errors the message and the code, and never the detail, which may quote rows.
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
