//! Opens a database that belongs to someone else.
//!
//! Read-only access can still leave traces. A closed database in WAL mode has no `-wal` file, and SQLite creates one
//! even for a read-only connection, owned by the reading user. A mint that starts later under another user may then be
//! unable to write. So three cases are distinguished:
//!
//! | the mint's database | opened with | files created |
//! |---|---|---|
//! | a `-wal` file exists: the mint is running, or was killed | `mode=ro` | a `-shm` file, if it is missing |
//! | WAL mode without a `-wal` file: closed | `immutable=1`, with a check afterwards that nothing changed | none |
//! | another journal mode | `mode=ro`: a reader blocks writers | none |
//!
//! One process has one SQLite: nothing here opens the database or its `-shm` but through it. POSIX locks belong to processes, so
//! closing any other descriptor of the file would drop the locks of all connections, also those of a mint that mounted this crate.

use std::path::{Path, PathBuf};
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use rusqlite::{Connection, ErrorCode, OpenFlags, Params, Row};

use super::identity::{Files, Identity, Log};
use crate::source::{Result, SourceError};

/// How long a statement waits for a lock of the mint.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The characters that are escaped in the path of a `file:` URI.
const ESCAPED: AsciiSet = NON_ALPHANUMERIC.remove(b'/');

/// A database that was opened for one reading, in one transaction.
pub(super) struct OpenDatabase {
    connection: Connection,
    pub(super) path: PathBuf,
    /// Otherwise a reader blocks the mint's commits.
    pub(super) is_wal: bool,
    /// Whether a mint has it open, so that it lacks nothing. Otherwise it may be an old copy.
    pub(super) is_live: bool,
    pub(super) files: Files,
    version: i64,
}

impl OpenDatabase {
    /// Opens the file at a path without symbolic links.
    pub(super) fn open(path: PathBuf, files: Files, is_wal: bool, is_live: bool) -> Result<Self> {
        let is_closed = is_wal && !files.have_log();
        let how = if is_closed { "immutable=1" } else { "mode=ro" };
        let opened = connect(&path, how).and_then(|connection| {
            connection.execute_batch("BEGIN")?;
            // The first query begins the transaction, and reports errors of the files.
            let version = connection.query_row("PRAGMA schema_version", [], |row| row.get(0))?;
            Ok((connection, version))
        });
        let (connection, version) = opened.map_err(|source| failed(&path, "opening", source))?;
        Ok(Self { connection, path, is_wal, is_live, files, version })
    }

    /// Whether it is in WAL mode without a log: no process has it open, or none that is visible here.
    pub(super) fn is_closed(&self) -> bool {
        self.is_wal && !self.files.have_log()
    }

    /// What says that a mint only continued this database, or why that cannot be told.
    pub(super) fn identity(&self, migrations: &str) -> Result<Identity, &'static str> {
        match self.files.are_known() {
            true => {}
            false if self.is_closed() => return Err("closed"),
            false if !self.files.have_log() => return Err("journal"),
            false => return Err("file system"),
        }
        // Without the table, its absence is what is compared.
        let migrations = self.connection.query_row(migrations, [], |row| row.get(0));
        Ok(Identity {
            files: self.files.clone(),
            log: Log::of(&self.path).map_err(|_| "log")?,
            version: self.version,
            migrations: migrations.ok().flatten(),
        })
    }

    /// Checks the whole database.
    pub(super) fn check(&self) -> Result<()> {
        let mut found = String::new();
        self.rows("checking", "PRAGMA quick_check(1)", [()], |row| {
            found = row.get(0).unwrap_or_default();
            Ok(())
        })?;
        match &*found {
            "ok" => Ok(()),
            _ => Err(SourceError::schema(
                self.path.display(),
                format!(
                    "damaged, or copied while a mint wrote to it; `PRAGMA quick_check` found: {found}"
                ),
            )),
        }
    }

    /// Runs a statement once with each of `parameters`, and passes on the rows.
    pub(super) fn rows<P: Params>(
        &self,
        doing: &'static str,
        sql: &str,
        parameters: impl IntoIterator<Item = P>,
        mut take: impl FnMut(&Row<'_>) -> Result<()>,
    ) -> Result<()> {
        let failed = |source: rusqlite::Error| {
            let is_damage = source.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt);
            // What a mint writes meanwhile can look like damage.
            match Files::of(&self.path) {
                Ok(now) if is_damage && !now.are_still(&self.files) => {
                    SourceError::ChangedWhileRead(self.path.clone())
                }
                _ => failed(&self.path, doing, source),
            }
        };
        let mut statement = self.connection.prepare(sql).map_err(failed)?;
        for parameters in parameters {
            let mut rows = statement.query(parameters).map_err(failed)?;
            while let Some(row) = rows.next().map_err(failed)? {
                take(row)?;
            }
        }
        Ok(())
    }

    /// Checks after the last read that the files are those that were opened, and that a closed database was not written
    /// to. Then closes it. As long as it is open here, a mint that ends does not remove the log.
    pub(super) fn close(self) -> Result<()> {
        match Files::of(&self.path)?.are_still(&self.files) {
            true => Ok(()),
            false => Err(SourceError::ChangedWhileRead(self.path)),
        }
    }
}

/// SQLite says "unable to open database file" for any of three files, without the file or the cause.
fn failed(path: &Path, doing: &'static str, source: rusqlite::Error) -> SourceError {
    let reason = match source.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => "not a SQLite database, or encrypted".to_owned(),
        Some(ErrorCode::CannotOpen) => format!(
            "{doing}: {source}; the user of this process must be able to read this file and its -wal and -shm files; if the \
             -shm file is missing, start the mint"
        ),
        _ => {
            let path = path.into();
            return SourceError::Sqlite { path, doing, source };
        }
    };
    SourceError::schema(path.display(), reason)
}

/// Whether a database without a `-wal` file is in WAL mode. The real connection reports other errors (a hot journal, a
/// failed read) better.
///
/// The mode is in the file's header, which only SQLite may open. With locking disabled it cannot read a database in WAL mode, and
/// says so before it creates a file.
pub(super) fn is_in_wal_mode(path: &Path) -> bool {
    let version = connect(path, "mode=ro&nolock=1")
        .and_then(|unlocked| unlocked.query_row("PRAGMA schema_version", [], |_| Ok(())));
    version.is_err_and(|error| error.sqlite_error_code() == Some(ErrorCode::CannotOpen))
}

fn connect(path: &Path, parameters: &str) -> rusqlite::Result<Connection> {
    // No character of the path has a special meaning.
    let path = percent_encode(path.as_os_str().as_encoded_bytes(), &ESCAPED);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(format!("file:{path}?{parameters}"), flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    Ok(connection)
}
