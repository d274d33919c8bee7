//! Whether a database is still the same one: at the end of a reading, and at the next one.

use std::fs::{self, Metadata};
use std::io;
#[cfg(unix)]
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::SystemTime;

use crate::source::{Result, SourceError};

/// Equal before and after a reading only if nobody replaced the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Files {
    file: FileId,
    /// The `-wal` file.
    log: Option<FileId>,
    /// Without a log, a start and stop of the mint shows in the file's size and time.
    closed: Option<(u64, Option<SystemTime>)>,
}

/// Device, inode and birth time; `None` if the system cannot tell. Without the birth time, a file system gives the same
/// inode to the next file.
type FileId = Option<(u64, u64, SystemTime)>;

/// Equal at two readings only if nobody but a mint wrote to the database in between: the files, `PRAGMA schema_version`
/// (changed by `VACUUM`, `.restore` and a table that is rebuilt), and the mint's record of its migrations. A mint that was
/// killed leaves its log, and may start again with the same files and rewrite rows in place.
pub(super) type Identity = (Files, i64, Option<String>);

impl Files {
    pub(super) fn of(path: &Path) -> Result<Self> {
        let file = fs::metadata(path).map_err(|source| SourceError::io(path, source))?;
        // Opening a FIFO would wait for a writer.
        if !file.is_file() {
            return Err(SourceError::Location(format!(
                "{}: not a regular file but a directory, FIFO, socket or device; give the path of the mint's SQLite file",
                path.display()
            )));
        }
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        let log = match fs::metadata(&log) {
            Ok(metadata) => Some(file_id(&metadata)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(SourceError::io(log.as_ref(), source)),
        };
        Ok(Self {
            file: file_id(&file),
            closed: log.is_none().then(|| (file.len(), file.modified().ok())),
            log,
        })
    }

    pub(super) fn have_log(&self) -> bool {
        self.log.is_some()
    }

    /// Whether the system tells these files from others at the next reading. Without a log it cannot be told.
    pub(super) fn are_known(&self) -> bool {
        self.file.is_some() && self.log.flatten().is_some()
    }
}

fn file_id(metadata: &Metadata) -> FileId {
    #[cfg(not(unix))]
    return None;
    #[cfg(unix)]
    Some((metadata.dev(), metadata.ino(), metadata.created().ok()?))
}
