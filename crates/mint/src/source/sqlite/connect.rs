//! Opens a database that belongs to someone else, and tells whether it is still the same one.
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

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::sqlite_error;
use crate::source::SourceError;

/// How long a statement waits for a lock of the mint.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// A database that was opened for one reading.
pub(super) struct Opened {
    pub(super) connection: Connection,
    /// Whether a reader blocks the mint's commits.
    pub(super) blocks: bool,
    /// Whether no process had the database open.
    pub(super) is_closed: bool,
    path: PathBuf,
    before: Files,
}

impl Opened {
    pub(super) fn open(path: &Path) -> Result<Self, SourceError> {
        // The `-wal` file is next to the real file, not next to a symbolic link.
        let real = fs::canonicalize(path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => SourceError::not_found(path),
            _ => SourceError::io(path, source),
        })?;
        let before = Files::of(&real)?;
        let is_wal = before.log.is_some() || is_in_wal_mode(&real)?;
        let is_closed = is_wal && before.log.is_none();
        let how = if is_closed { "immutable=1" } else { "mode=ro" };
        let connection = connect(&real, how)?;
        // The first query reports errors of the files.
        connection
            .query_row("PRAGMA schema_version", [], |row| row.get::<_, i64>(0))
            .map_err(|source| cannot_open(&real, source))?;
        Ok(Self {
            connection,
            blocks: !is_wal,
            is_closed,
            path: real,
            before,
        })
    }

    /// What says that a mint only continued this database since: the files, the schema's version, which `VACUUM` and
    /// `.restore` change, and the mint's own record of its migrations. A mint that was killed leaves its log, and starts
    /// again with the same files; then a migration may rewrite rows in place. Call it within the transaction. `None` if the
    /// identity cannot be told.
    pub(super) fn identity(&self, migrations: &str) -> Result<Option<Identity>, SourceError> {
        let version = self
            .connection
            .query_row("PRAGMA schema_version", [], |row| row.get(0))
            .map_err(|source| sqlite_error(&self.path, "reading the schema version", source))?;
        // Without the table, its absence is what is compared.
        let migrations = self
            .connection
            .query_row(migrations, [], |row| row.get(0))
            .ok();
        let log = self.before.log.as_ref().and_then(|log| log.id);
        Ok(self.before.file.id.zip(log).map(|(file, log)| Identity {
            file,
            log,
            version,
            migrations: migrations.flatten(),
        }))
    }

    /// Checks after the last read that the files are those that were opened, and that a closed database was not written
    /// to. Then closes it. As long as it is open here, a mint that ends does not remove the log.
    pub(super) fn close(self) -> Result<(), SourceError> {
        let now = Files::of(&self.path)?;
        let same = now.file.id == self.before.file.id
            && now.log.as_ref().map(|log| log.id) == self.before.log.as_ref().map(|log| log.id)
            // Without a log, a start and stop of the mint shows in the file's size and time.
            && (now.log.is_some() || now.file == self.before.file);
        match same {
            true => Ok(()),
            false => Err(SourceError::ChangedWhileRead(self.path)),
        }
    }
}

/// Equal at two readings only if nobody but a mint wrote to the database in between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    file: FileId,
    log: FileId,
    version: i64,
    migrations: Option<String>,
}

/// Device, inode and birth time. Without the birth time, a file system gives the same inode to the next file.
type FileId = (u64, u64, SystemTime);

/// The outside state of a database.
struct Files {
    file: Stamp,
    /// `None` if there is no log.
    log: Option<Stamp>,
}

#[derive(PartialEq, Eq)]
struct Stamp {
    /// `None` if the system cannot tell.
    id: Option<FileId>,
    length: u64,
    modified: Option<SystemTime>,
}

impl Files {
    fn of(path: &Path) -> Result<Self, SourceError> {
        let metadata = fs::metadata(path).map_err(|source| SourceError::io(path, source))?;
        // Opening a FIFO would wait for a writer.
        if !metadata.is_file() {
            return Err(SourceError::Location(format!(
                "{}: not a regular file but a directory, FIFO, socket or device; give the path of the mint's SQLite file",
                path.display()
            )));
        }
        let wal = beside(path, "-wal");
        let log = match fs::metadata(&wal) {
            Ok(metadata) => Some(Stamp::of(&metadata)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(SourceError::io(&wal, source)),
        };
        Ok(Self {
            file: Stamp::of(&metadata),
            log,
        })
    }
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            id: file_id(metadata),
            length: metadata.len(),
            modified: metadata.modified().ok(),
        }
    }
}

#[cfg(unix)]
fn file_id(metadata: &Metadata) -> Option<FileId> {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.dev(), metadata.ino(), metadata.created().ok()?))
}

#[cfg(not(unix))]
fn file_id(_: &Metadata) -> Option<FileId> {
    None
}

/// One of the files that SQLite keeps next to a database.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// The error to report when SQLite could not open a database. SQLite says "unable to open database file" for any of
/// three files, without the file or the cause.
fn cannot_open(path: &Path, source: rusqlite::Error) -> SourceError {
    match source.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => not_a_database(path),
        Some(ErrorCode::CannotOpen) => SourceError::Schema(format!(
            "{}: opening: {source}; the user of this process must be able to read this file and its -wal and -shm files; \
             if the -shm file is missing, start the mint",
            path.display()
        )),
        _ => sqlite_error(path, "opening", source),
    }
}

fn not_a_database(path: &Path) -> SourceError {
    SourceError::Schema(format!(
        "{}: not a SQLite database, or encrypted",
        path.display()
    ))
}

/// Whether a database without a `-wal` file is in WAL mode.
///
/// The mode is in the file's header, but opening and closing the file here would drop the locks of other connections in
/// this process: POSIX locks belong to processes, and a mint may have mounted this crate. SQLite avoids this. With
/// locking disabled it cannot read a database in WAL mode, and says so before it creates a file.
fn is_in_wal_mode(path: &Path) -> Result<bool, SourceError> {
    let connection = connect(path, "mode=ro&nolock=1")?;
    match connection.query_row("PRAGMA schema_version", [], |row| row.get::<_, i64>(0)) {
        Ok(_) => Ok(false),
        Err(source) => match source.sqlite_error_code() {
            Some(ErrorCode::CannotOpen) => Ok(true),
            Some(ErrorCode::NotADatabase) => Err(not_a_database(path)),
            // The real connection reports other errors (a hot journal, a failed read) better.
            _ => Ok(false),
        },
    }
}

fn connect(path: &Path, parameters: &str) -> Result<Connection, SourceError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(format!("{}?{parameters}", uri(path)), flags)
        .and_then(|connection| connection.busy_timeout(BUSY_TIMEOUT).map(|()| connection))
        .map_err(|source| cannot_open(path, source))
}

/// A `file:` URI in which no character of the path has a special meaning.
fn uri(path: &Path) -> String {
    let mut uri = String::from("file:");
    for &byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            _ if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) => uri.push(byte.into()),
            // On Windows, SQLite takes forward slashes.
            b'\\' if cfg!(windows) => uri.push('/'),
            // Writing to a string cannot fail.
            _ => _ = write!(uri, "%{byte:02X}"),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    #[test]
    fn path_characters_are_not_parameters() {
        use std::os::unix::ffi::OsStrExt;
        let path = std::ffi::OsStr::from_bytes(b"/a b/?mode=rwc#%00\xff.db");
        assert_eq!(
            super::uri(path.as_ref()),
            "file:/a%20b/%3Fmode%3Drwc%23%2500%FF.db"
        );
    }
}
