//! Opening a database that belongs to somebody else.
//!
//! Read-only is not enough to leave no trace. A database in WAL mode that nobody has open has no `-wal`
//! file, and SQLite makes one (and an `-shm`) even for a read-only connection, owned by whoever reads:
//! a mint started later under another user may then be unable to write its own database. So these cases
//! are told apart:
//!
//! | the mint's database | opened with | made beside it |
//! |---|---|---|
//! | WAL mode, `-wal` and `-shm` there: the mint is running, or was killed | `mode=ro` | nothing |
//! | WAL mode, `-wal` without `-shm`: copied so, or somebody removed the latter | `mode=ro` | an `-shm`, owned by the reader |
//! | not in WAL mode | `mode=ro`: a reader holds up writers | nothing |
//! | WAL mode, no `-wal`: closed | `immutable=1`, and a check afterwards that it stayed closed | nothing |
//!
//! The `-shm` of the second case is the price of the notes in the `-wal`, which no other way of opening
//! shows. Between the look at the `-wal` file and the opening a mint may still stop; in that moment
//! SQLite makes both files after all. Taking a database for immutable that is not would be worse: notes
//! would be missing.

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

/// How long a statement waits for a lock of the mint's. In WAL mode that is the moment in which the
/// first or last connection comes or goes; otherwise one commit.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// An open database, and what has to be looked at when the reading is over.
pub(super) struct ReadOnly {
    pub(super) connection: Connection,
    pub(super) mode: JournalMode,
    /// The same as at another opening only if the database went on from there: it is the same file, no mint was
    /// stopped or started, and no schema was changed, as `.restore` does too. `None` if that cannot be told.
    pub(super) identity: Option<String>,
    path: PathBuf,
    /// How the file looked before, if it was taken for immutable.
    before: Option<Stamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JournalMode {
    /// Readers and writers do not wait for each other.
    Wal,
    /// A reader holds up the writers.
    Rollback,
}

impl ReadOnly {
    pub(super) fn open(path: &Path) -> Result<Self, SourceError> {
        // The `-wal` file is beside the real file, not beside a link to it.
        let real = fs::canonicalize(path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => SourceError::NotFound { path: path.into() },
            _ => SourceError::Io {
                path: path.into(),
                source,
            },
        })?;
        let before = Stamp::of(&real)?;
        // Of a closed database all of the file, and of an open one also the log, which every start of a mint makes anew.
        let files = match before.wal {
            true => file_identity(&real).zip(file_identity(&beside(&real, "-wal"))),
            false => file_identity(&real).map(|file| (file, format!("{before:?}"))),
        };
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
        // Errors about the file itself come with the first look into it.
        let schema: i64 = connection
            .query_row("PRAGMA schema_version", [], |row| row.get(0))
            .map_err(|source| cannot_open(&real, source))?;
        // Without a log a mint that is stopped and started leaves no trace.
        let files = files.filter(|_| mode == JournalMode::Wal);
        Ok(Self {
            connection,
            mode,
            identity: files.map(|(file, log)| format!("{file} {log} {schema}")),
            path: real,
            before,
        })
    }

    /// Whether nobody had the database open when we came.
    pub(super) fn is_closed(&self) -> bool {
        self.before.is_some()
    }

    /// To be asked after the last read: whether what was read can be relied upon.
    pub(super) fn finish(self) -> Result<(), SourceError> {
        match self.before {
            // Whoever opens a database in WAL mode makes the `-wal` file before writing anything, and
            // whatever was moved to the database itself, if the file is gone again, changed its time.
            Some(before) if before != Stamp::of(&self.path)? => {
                Err(SourceError::ChangedWhileRead { path: self.path })
            }
            _ => Ok(()),
        }
    }
}

/// How a closed database looks from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    length: u64,
    modified: Option<SystemTime>,
    wal: bool,
}

impl Stamp {
    fn of(path: &Path) -> Result<Self, SourceError> {
        let io_error = |source| SourceError::Io {
            path: path.into(),
            source,
        };
        let metadata = fs::metadata(path).map_err(io_error)?;
        // To open a FIFO is to wait for somebody who writes to it.
        if !metadata.is_file() {
            return Err(SourceError::NotRegular { path: path.into() });
        }
        Ok(Self {
            length: metadata.len(),
            modified: metadata.modified().ok(),
            wal: beside(path, "-wal").try_exists().map_err(io_error)?,
        })
    }
}

/// Tells a file from one that takes its place, also where its number is given again; `None` if the system cannot.
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

/// One of the files that SQLite keeps beside a database.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// What to say when SQLite could not open a database. It says "unable to open database file" of three
/// files, and not which of them, nor why.
fn cannot_open(path: &Path, source: rusqlite::Error) -> SourceError {
    if source.sqlite_error_code() == Some(ErrorCode::NotADatabase) {
        return SourceError::NotADatabase { path: path.into() };
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
        return SourceError::NoSharedMemory {
            path: path.into(),
            shm,
            source,
        };
    }
    sqlite_error(path, "opening", source)
}

/// Opens a file to see whether that is allowed.
///
/// To close it again would drop the locks that other connections of this process hold on it, as said at
/// [`journal_mode`]. A file that opens is therefore kept open; it is one of three, and seldom that.
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
/// It is in the header, but to open and close the file ourselves would drop the locks that any other
/// connection of this process holds on it (POSIX gives locks to processes, and a mint may have mounted
/// us). SQLite knows about that. Without locks it can read no database in WAL mode, and says so before
/// making any file.
fn journal_mode(path: &Path) -> Result<JournalMode, SourceError> {
    let connection = connect(path, "mode=ro&nolock=1")?;
    match connection.query_row("PRAGMA schema_version", [], |row| row.get::<_, i64>(0)) {
        Ok(_) => Ok(JournalMode::Rollback),
        Err(source) => match source.sqlite_error_code() {
            Some(ErrorCode::CannotOpen) => Ok(JournalMode::Wal),
            Some(ErrorCode::NotADatabase) => Err(SourceError::NotADatabase { path: path.into() }),
            // Anything else (a hot journal, a full read) is better said by the real connection.
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

/// A `file:` URI in which no character of the path means anything.
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

/// Elsewhere SQLite takes UTF-8, forward slashes, and one in front of a drive letter.
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
    fn nothing_in_a_path_is_taken_for_a_parameter() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;
        let path = Path::new(OsStr::from_bytes(b"/a b/?mode=rwc#%00\xff.db"));
        assert_eq!(uri(path), "file:/a%20b/%3Fmode%3Drwc%23%2500%FF.db");
    }
}
