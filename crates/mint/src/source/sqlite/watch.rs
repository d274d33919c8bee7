//! A database that no mint seems to have open: it is closed, or its log is written elsewhere, or it is an old copy.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::connect::{OpenDatabase, is_in_wal_mode};
use super::file_system::remote;
use super::identity::{Files, beside};
use crate::source::{Result, SourceError};

/// Tells whether another process holds a lock of SQLite on a file. It may open the file, which is only safe while this process
/// has no connection to it: closing a descriptor drops all of the process's locks on the file.
pub type IsLocked = fn(&Path) -> io::Result<bool>;

/// How long a locked database may be without a log. SQLite locks before it creates the log, and unlocks after it removed it.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often it is looked at meanwhile.
const INTERVAL: Duration = Duration::from_millis(200);

/// How long a reading looks for the log after one that failed, as beside a mint that closes its database after each request. With a log,
/// nobody disturbs it.
const DISTURBED: Duration = Duration::from_secs(1);

/// After this time in which no mint had it open or wrote to it, a database is *alone*.
const ALONE_AFTER: Duration = Duration::from_secs(3_600);

/// What one process has seen of a database's log.
#[derive(Debug)]
pub(super) struct Watch {
    is_locked: Option<IsLocked>,
    /// Whether the last reading failed.
    pub(super) is_disturbed: bool,
    /// The files of the last reading, and when a mint was last seen to work on them, or this process started.
    last: Option<Files>,
    seen: Instant,
    pub(super) is_alone: bool,
}

impl Watch {
    pub(super) fn new(is_locked: Option<IsLocked>) -> Self {
        Self { is_locked, is_disturbed: false, last: None, seen: Instant::now(), is_alone: false }
    }

    /// Opens a database for a reading.
    pub(super) fn open(&self, path: &Path) -> Result<OpenDatabase> {
        // The `-wal` file is next to the real file, not next to a symbolic link.
        let path = fs::canonicalize(path).map_err(|source| SourceError::io(path, source))?;
        let (files, is_wal, is_live) = self.files(&path)?;
        OpenDatabase::open(path, files, is_wal, is_live)
    }

    /// The files of a database, whether it is in WAL mode, and whether a mint has it open, as far as that can be told. One that is
    /// open without a log is refused.
    fn files(&self, path: &Path) -> Result<(Files, bool, bool)> {
        let began = Instant::now();
        loop {
            let files = Files::of(path)?;
            if self.is_disturbed && !files.have_log() && began.elapsed() < DISTURBED {
                thread::sleep(Duration::from_millis(1));
                continue;
            }
            let is_wal = files.have_log() || is_in_wal_mode(path);
            // A mint has its `-shm` file locked as long as its log is the one beside it. Without that lock, the log is a killed mint's, a
            // copy, or an old one that only a mount or hard link shows.
            let is_live = match self.is_locked {
                None => files.have_log() || !is_wal,
                // SQLite says best why a file cannot be opened.
                Some(ask) if files.have_log() => ask(&beside(path, "-shm"))
                    .unwrap_or_else(|error| error.kind() != io::ErrorKind::NotFound),
                Some(_) => false,
            };
            let is_locked = || self.is_locked.is_some_and(|ask| ask(path).unwrap_or(false));
            if is_live || !is_wal || !is_locked() {
                return Ok((files, is_wal, is_live));
            }
            if is_refused(path, began.elapsed()) {
                let log = if files.have_log() {
                    "the -wal file here is of another one, or kept from readers by PRAGMA locking_mode = EXCLUSIVE"
                } else {
                    "its -wal file, which has the latest notes, is not visible here"
                };
                let reason = format!(
                    "a process has it open, but {log}; mount the whole directory, and give the path that the mint uses"
                );
                return Err(SourceError::schema(path.display(), reason));
            }
            thread::sleep(INTERVAL);
        }
    }

    /// Takes note of a database that was opened, and checks it once it is alone.
    pub(super) fn note(&mut self, opened: &OpenDatabase) -> Result<()> {
        let (database, now) = (opened.path.display(), &opened.files);
        // nutshell closes its database between requests. Elsewhere than on a local file system, its lock may be invisible, and
        // writing proves nothing.
        let last = self.last.replace(now.clone());
        let was_written = last.is_some_and(|last| now.were_written(&last));
        if opened.is_live || was_written && remote(&opened.path).is_none() {
            self.seen = Instant::now();
            if core::mem::take(&mut self.is_alone) {
                tracing::info!(%database, "database is in use again");
            }
        } else if !self.is_alone && self.seen.elapsed() >= ALONE_AFTER {
            // Without a log, the mint's commits would wait for the check.
            if opened.is_wal {
                opened.check()?;
            }
            self.is_alone = true;
            tracing::warn!(
                %database,
                "no process was seen to use the database for an hour; filters keep the date of its last change"
            );
        }
        Ok(())
    }
}

/// Whether an open database without a log is refused: after [`PATIENCE`], and for as long again. A refresh asks several times.
fn is_refused(path: &Path, waited: Duration) -> bool {
    static LAST: Mutex<Option<(PathBuf, Instant)>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let is_last = |(file, at): &(PathBuf, Instant)| file == path && at.elapsed() < PATIENCE;
    if last.as_ref().is_some_and(is_last) {
        return true;
    }
    let is_refused = waited >= PATIENCE;
    if is_refused {
        *last = Some((path.into(), Instant::now()));
    }
    is_refused
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use crate::source::{DatabaseLocation, MintSource as _, SqliteSource};

    use super::*;

    #[test]
    fn database_without_a_log_for_an_hour_is_checked_and_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mint.db");
        let run = |sql: &str| {
            // The clock of files ticks every few milliseconds.
            thread::sleep(INTERVAL / 10);
            let mint = Connection::open(&path).unwrap();
            mint.execute_batch(sql).unwrap();
            mint
        };
        run("PRAGMA journal_mode = WAL; CREATE TABLE proofs_used (id, y UNIQUE); CREATE TABLE promises (id, b_, c_);
             CREATE TABLE keysets (id, active, unit, input_fee_ppk)");
        let mut source = SqliteSource::open(&DatabaseLocation::from(&*path), None).unwrap();
        let mut is_alone = |hours: u32| {
            source.watch.seen -= ALONE_AFTER * hours;
            source.keysets().map(|_| source.is_alone())
        };
        assert!(!is_alone(0).unwrap());
        assert!(is_alone(1).unwrap() && is_alone(0).unwrap());
        // A mint that closes its database between requests.
        run("INSERT INTO proofs_used VALUES (1, 2)");
        assert!(!is_alone(1).unwrap());
        let mint = run("CREATE TABLE t (c)");
        assert!(!is_alone(1).unwrap());
        drop(mint);
        assert!(!is_alone(1).unwrap() && is_alone(1).unwrap());
        // An index without an entry, as if a page had not been copied.
        run(
            "PRAGMA writable_schema = 1; UPDATE sqlite_schema SET rootpage = 4 WHERE name LIKE 'sqlite_autoindex%'",
        );
        assert!(!is_alone(0).unwrap());
        let error = is_alone(1).unwrap_err().to_string();
        assert!(error.contains("damaged") && error.contains("quick_check"), "{error}");
        // A mint without WAL mode would wait for that.
        run("PRAGMA journal_mode = DELETE");
        let location = DatabaseLocation::from(&*path);
        let mut source = SqliteSource::open_alone(&location, None, Some(|_| Ok(false))).unwrap();
        source.watch.seen -= ALONE_AFTER;
        source.keysets().unwrap();
        assert!(source.is_alone());
    }
}
