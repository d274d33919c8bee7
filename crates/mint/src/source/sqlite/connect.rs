//! Opens a database that belongs to someone else.
//!
//! Read-only access can still leave traces. A closed database in WAL mode has no `-wal` file. SQLite creates one
//! (and a `-shm`) even for a read-only connection, owned by the reading user. A mint that starts later under
//! another user may then be unable to write its own database. So these cases are distinguished:
//!
//! | the mint's database | opened with | files created |
//! |---|---|---|
//! | WAL mode, `-wal` and `-shm` exist: the mint is running, or was killed | `mode=ro` | none |
//! | WAL mode, `-wal` without `-shm`: copied this way, or `-shm` was removed | `mode=ro` | a `-shm`, owned by the
//! reader |
//! | not in WAL mode | `mode=ro`: a reader blocks writers | none |
//! | WAL mode, no `-wal`: closed | `immutable=1`, with a check afterwards that it stayed closed | none |
//!
//! In the second case, the notes in the `-wal` file can only be read by creating a `-shm` file. A mint may still
//! stop between the check for the `-wal` file and the opening; SQLite then creates both files after all. Wrongly
//! opening a database as immutable would be worse, because notes would be missing.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::sqlite_error;
use crate::source::SourceError;

/// How long a statement waits for a lock of the mint. In WAL mode, such locks are only held while the first or last
/// connection opens or closes. Otherwise they last for one commit.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// An open database, and what must be checked at the end of the reading.
pub(super) struct ReadOnly {
    pub(super) connection: Connection,
    pub(super) mode: JournalMode,
    /// Equal at two openings only if the database was continued in between: same file, no start or stop of a mint,
    /// and no schema change (`.restore` changes it too). `None` if this cannot be told.
    pub(super) identity: Option<String>,
    path: PathBuf,
    /// State of the file before it was opened as immutable.
    before: Option<Stamp>,
    /// The files that were opened.
    files: Option<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JournalMode {
    /// Readers and writers do not wait for each other.
    Wal,
    /// A reader blocks writers.
    Rollback,
}

impl ReadOnly {
    pub(super) fn open(path: &Path) -> Result<Self, SourceError> {
        // The `-wal` file is next to the real file, not next to a symbolic link.
        let real = fs::canonicalize(path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => SourceError::not_found(path),
            _ => SourceError::Io {
                path: path.into(),
                source,
            },
        })?;
        let before = Stamp::of(&real)?;
        let files = before.files(&real);
        let (mode, before) = if before.wal {
            (JournalMode::Wal, None)
        } else {
            match journal_mode(&real)? {
                JournalMode::Wal => (JournalMode::Wal, Some(before)),
                JournalMode::Rollback => (JournalMode::Rollback, None),
            }
        };
        let how = if before.is_some() {
            "immutable=1"
        } else {
            "mode=ro"
        };
        let connection = connect(&real, how)?;
        // The first query reports errors of the file itself.
        let schema: i64 = connection
            .query_row("PRAGMA schema_version", [], |row| row.get(0))
            .map_err(|source| cannot_open(&real, source))?;
        // Without a log, a stop and start of the mint cannot be detected.
        let files = files.filter(|_| mode == JournalMode::Wal);
        Ok(Self {
            connection,
            mode,
            identity: files
                .as_ref()
                .map(|(file, log)| format!("{file} {log} {schema}")),
            path: real,
            before,
            files,
        })
    }

    /// Whether the files are still those that were opened. Everything opened in between is then the same database.
    pub(super) fn is_in_place(&self) -> bool {
        let now = Stamp::of(&self.path).ok();
        self.files.is_some() && now.and_then(|now| now.files(&self.path)) == self.files
    }

    /// Whether the database was closed when it was opened here.
    pub(super) fn is_closed(&self) -> bool {
        self.before.is_some()
    }

    /// Checks after the last read whether the results are valid.
    pub(super) fn finish(self) -> Result<(), SourceError> {
        match self.before {
            // Opening a database in WAL mode creates the `-wal` file before anything is written. If that file is
            // gone again, its contents were moved to the database file, whose time has changed.
            Some(before) if before != Stamp::of(&self.path)? => {
                Err(SourceError::ChangedWhileRead(self.path))
            }
            _ => Ok(()),
        }
    }
}

/// The outside state of a closed database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    length: u64,
    modified: Option<SystemTime>,
    wal: bool,
}

impl Stamp {
    /// Identifies the files of a database. For a closed one this is the database file. For an open one it includes
    /// the log, which every start of a mint creates again.
    fn files(&self, path: &Path) -> Option<(String, String)> {
        match self.wal {
            true => file_identity(path).zip(file_identity(&beside(path, "-wal"))),
            false => file_identity(path).map(|file| (file, format!("{self:?}"))),
        }
    }

    fn of(path: &Path) -> Result<Self, SourceError> {
        let io_error = |source| SourceError::Io {
            path: path.into(),
            source,
        };
        let metadata = fs::metadata(path).map_err(io_error)?;
        // Opening a FIFO would wait for a writer.
        if !metadata.is_file() {
            return Err(SourceError::Location(format!(
                "{}: not a regular file but a directory, FIFO, socket or device; give the path of the mint's SQLite file",
                path.display()
            )));
        }
        Ok(Self {
            length: metadata.len(),
            modified: metadata.modified().ok(),
            wal: beside(path, "-wal").try_exists().map_err(io_error)?,
        })
    }
}

/// Identifies a file, also if its inode number was reused by a replacement. `None` if the system cannot tell.
#[cfg(unix)]
fn file_identity(path: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let metadata = fs::metadata(path).ok()?;
    let created = metadata.created().ok()?;
    let created = created.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let (device, number) = (metadata.dev(), metadata.ino());
    Some(format!("{device}:{number}:{}", created.as_nanos()))
}

#[cfg(not(unix))]
fn file_identity(_: &Path) -> Option<String> {
    None
}

/// One of the files that SQLite keeps next to a database.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// The error to report when SQLite could not open a database. SQLite says "unable to open database file" for any of
/// three files, without naming the file or the cause.
fn cannot_open(path: &Path, source: rusqlite::Error) -> SourceError {
    if source.sqlite_error_code() == Some(ErrorCode::NotADatabase) {
        return not_a_database(path);
    }
    let (wal, shm) = (beside(path, "-wal"), beside(path, "-shm"));
    for file in [path, &wal, &shm] {
        match readable(file) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return SourceError::Io {
                    path: file.into(),
                    source,
                };
            }
            _ => {}
        }
    }
    if matches!(wal.try_exists(), Ok(true)) && matches!(shm.try_exists(), Ok(false)) {
        let (path, shm) = (path.display(), shm.display());
        return SourceError::Schema(format!(
            "{path}: opening: {source}; {shm} is missing and cannot be created: start the mint, or run as the mint's user"
        ));
    }
    sqlite_error(path, "opening", source)
}

fn not_a_database(path: &Path) -> SourceError {
    let path = path.display();
    SourceError::Schema(format!("{path}: not a SQLite database, or encrypted"))
}

/// Opens a file to check whether this is allowed.
///
/// Closing it would drop the locks that other connections of this process hold on it; see [`journal_mode`]. So the
/// file is kept open. There are at most three such files, and rarely any.
fn readable(file: &Path) -> io::Result<()> {
    static KEPT: Mutex<BTreeMap<PathBuf, File>> = Mutex::new(BTreeMap::new());
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if !kept.contains_key(file) {
        kept.insert(file.into(), File::open(file)?);
    }
    Ok(())
}

/// The journal mode of a database without a `-wal` file.
///
/// The mode is in the file header. But opening and closing the file here would drop the locks of other connections
/// in this process: POSIX locks belong to processes, and a mint may have mounted this crate. SQLite avoids this.
/// With locking disabled, it cannot read a database in WAL mode, and reports this before it creates any file.
fn journal_mode(path: &Path) -> Result<JournalMode, SourceError> {
    let connection = connect(path, "mode=ro&nolock=1")?;
    match connection.query_row("PRAGMA schema_version", [], |row| row.get::<_, i64>(0)) {
        Ok(_) => Ok(JournalMode::Rollback),
        Err(source) => match source.sqlite_error_code() {
            Some(ErrorCode::CannotOpen) => Ok(JournalMode::Wal),
            Some(ErrorCode::NotADatabase) => Err(not_a_database(path)),
            // The real connection reports other errors (a hot journal, a failed read) better.
            _ => Ok(JournalMode::Rollback),
        },
    }
}

fn connect(path: &Path, parameters: &str) -> Result<Connection, SourceError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let uri = format!("{}?{parameters}", uri(path));
    let open = || -> rusqlite::Result<Connection> {
        let connection = Connection::open_with_flags(uri, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        Ok(connection)
    };
    open().map_err(|source| cannot_open(path, source))
}

/// A `file:` URI in which no character of the path has a special meaning.
fn uri(path: &Path) -> String {
    let mut uri = String::from("file:");
    for &byte in path_bytes(path).iter() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

#[cfg(unix)]
fn path_bytes(path: &Path) -> std::borrow::Cow<'_, [u8]> {
    use std::os::unix::ffi::OsStrExt;
    path.as_os_str().as_bytes().into()
}

/// On other systems, SQLite takes UTF-8, forward slashes, and one slash in front of a drive letter.
#[cfg(not(unix))]
fn path_bytes(path: &Path) -> std::borrow::Cow<'_, [u8]> {
    let text = path.to_string_lossy().replace('\\', "/");
    format!("/{}", text.trim_start_matches("//?/"))
        .into_bytes()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn path_characters_are_not_parameters() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;
        let path = Path::new(OsStr::from_bytes(b"/a b/?mode=rwc#%00\xff.db"));
        assert_eq!(uri(path), "file:/a%20b/%3Fmode%3Drwc%23%2500%FF.db");
    }
}
