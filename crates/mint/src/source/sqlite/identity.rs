//! Whether a database is still the same one: at the end of a reading, and at the next one.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _, Seek as _, SeekFrom};
#[cfg(unix)]
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::source::{Reading, Result, SourceError};

/// The files of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Files {
    file: DatabaseFileId,
    /// The `-wal` file.
    log: Option<DatabaseFileId>,
    /// Size and time of the database: without a log, a start and stop of the mint shows only there.
    state: (u64, Option<SystemTime>),
    /// The later one of the times of the database and its log.
    modified: Option<SystemTime>,
    /// When the system last changed the file or what it says of it, which no program can set; `None` if it cannot tell.
    changed: Option<Duration>,
    has_journal: bool,
}

/// A closed database that was read whole. It need not be read again while nobody touches it.
#[derive(Debug)]
pub(super) struct Settled {
    files: Files,
    began: FileMoment,
    reading: Reading,
}

/// When something happened, by the clock that dates files and by one that nobody sets.
pub(super) type FileMoment = (SystemTime, Instant);

/// A reading must begin so long after the last change: the clock of files is some milliseconds behind, and some file
/// systems know only seconds.
const MARGIN: Duration = Duration::from_secs(1);

/// Device, inode and birth time; `None` if the system cannot tell. Without the birth time, a file system gives the same
/// inode to the next file.
type DatabaseFileId = Option<(u64, u64, SystemTime)>;

/// Equal at two readings only if nobody but a mint wrote to the database in between. A mint that was killed leaves its log,
/// and may start again with the same files and rewrite rows in place; or with older files that were put in their place.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) files: Files,
    pub(super) log: Log,
    /// `PRAGMA schema_version`, changed by `VACUUM`, `.restore` and a table that is rebuilt.
    pub(super) version: i64,
    /// The mint's record of its migrations.
    pub(super) migrations: Option<String>,
}

/// How far a log was written. It may be opened here: unlike the database and its `-shm` it has no locks to lose.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// The salts of all its frames; none if it is empty. To begin the log again, a mint adds 1 to the first, and draws the
    /// second.
    salts: Option<[u32; 2]>,
    /// Bytes of a page.
    page: u32,
    /// The number of the last frame of a commit with these salts, and its header. Its checksum is over everything before it. Frames
    /// behind it are of a transaction that has not ended, which may write them again.
    last: Option<(u64, Frame)>,
}

/// The header of a frame: page, size of the database after a commit, salts and checksums.
type Frame = [u8; 24];

/// The most frames of a transaction that has not ended which are passed over to find the last commit.
const MOST_OPEN: u64 = 4096;

/// How often a mint can begin its log again between two readings.
const MAX_RESETS: u32 = 1 << 16;

impl Identity {
    /// Checks that only mints wrote since an earlier one; otherwise says in a word what differs. True if the log proves it. Once it was
    /// begun again, which happens every few seconds if the traffic is high, it cannot tell a mint from older files.
    pub(super) fn continues(&self, path: &Path, earlier: &Self) -> Result<bool, &'static str> {
        let [now, before] = [&self.files, &earlier.files];
        let is_proved = match (self.log.salts, earlier.log.salts) {
            (Some(now), Some(before)) if now == before => match earlier.log.last {
                Some((number, frame)) => {
                    let log = File::open(log_of(path));
                    let now = log.and_then(|mut log| self.log.frame(&mut log, number));
                    now.is_ok_and(|now| now == frame).then_some(true)
                }
                None => Some(false),
            },
            (Some([now, _]), Some([before, _])) => {
                (1..MAX_RESETS).contains(&now.wrapping_sub(before)).then_some(false)
            }
            (None, None) => (now.state == before.state).then_some(true),
            _ => None,
        };
        match is_proved {
            _ if now.file != before.file => Err("replaced"),
            _ if now.log != before.log => Err("reopened"),
            None => Err("log"),
            _ if self.version != earlier.version => Err("schema"),
            _ if self.migrations != earlier.migrations => Err("migrated"),
            Some(is_proved) => Ok(is_proved),
        }
    }
}

impl Settled {
    /// What a whole reading says of a closed database on a file system that dates each change; `None` if a later change
    /// could have the date of the last one.
    pub(super) fn of(files: &Files, began: FileMoment, reading: &Reading) -> Option<Self> {
        files.were_settled(began.0).then(|| Self {
            files: files.clone(),
            began,
            reading: Reading { whole: None, ..reading.clone() },
        })
    }

    /// A reading of nothing, if nobody touched the database since. A clock that was set back may give a date twice.
    pub(super) fn still(&self, files: &Files, now: FileMoment) -> Option<Reading> {
        let passed = now.0.duration_since(self.began.0).ok()?;
        let is_steady = passed + MARGIN > now.1.duration_since(self.began.1);
        (is_steady && *files == self.files).then(|| self.reading.clone())
    }
}

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
        let mut modified = file.modified().ok();
        let log = match fs::metadata(log_of(path)) {
            Ok(metadata) => {
                modified = modified.max(metadata.modified().ok());
                Some(file_id(&metadata))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(SourceError::io(&log_of(path), source)),
        };
        Ok(Self {
            file: file_id(&file),
            log,
            state: (file.len(), file.modified().ok()),
            modified,
            changed: changed(&file),
            has_journal: beside(path, "-journal").try_exists().unwrap_or(true),
        })
    }

    pub(super) fn have_log(&self) -> bool {
        self.log.is_some()
    }

    /// Whether the system tells these files from others at the next reading.
    pub(super) fn are_known(&self) -> bool {
        self.file.is_some() && self.log.flatten().is_some()
    }

    /// Whether nobody replaced the files of an earlier moment, nor wrote to a database without a log.
    pub(super) fn are_still(&self, earlier: &Self) -> bool {
        let is_same = (self.file, self.log) == (earlier.file, earlier.log);
        let state = |files: &Self| (files.state, files.changed);
        is_same && (self.have_log() || state(self) == state(earlier))
    }

    /// Whether the database grew or was written to since an earlier moment.
    pub(super) fn were_written(&self, earlier: &Self) -> bool {
        self.file == earlier.file && self.state != earlier.state
    }

    /// Whether a reading that began then has every change of its date, and the next one gets another date.
    fn were_settled(&self, began: SystemTime) -> bool {
        let began = began.duration_since(UNIX_EPOCH).ok();
        let age = began.zip(self.changed).and_then(|(began, changed)| began.checked_sub(changed));
        self.file.is_some() && !self.has_journal && age.is_some_and(|age| age > MARGIN)
    }

    /// When the database was last written to, in Unix seconds.
    pub(super) fn modified(&self) -> Option<u64> {
        let since = self.modified?.duration_since(UNIX_EPOCH).ok()?;
        Some(since.as_secs())
    }
}

impl Log {
    /// Reads how far the log of a database is written. It has to be asked after the snapshot was taken.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let mut file = File::open(log_of(path))?;
        let (length, mut header) = (file.metadata()?.len(), [0; 32]);
        if length < header.len() as u64 {
            return Ok(Self::default());
        }
        file.read_exact(&mut header)?;
        let [page, salts @ ..] = [8, 16, 20].map(|at| number(&header, at));
        let mut log = Self { page, ..Self::default() };
        // Behind those with these salts are frames from before the log was begun again.
        let (mut count, mut end) = (0, (length - 32) / log.stride());
        while count < end {
            let middle = count + (end - count) / 2;
            let frame = log.frame(&mut file, middle)?;
            match [8, 12].map(|at| number(&frame, at)) == salts {
                true => (log.salts, count) = (Some(salts), middle + 1),
                false => end = middle,
            }
        }
        for place in (count.saturating_sub(MOST_OPEN)..count).rev() {
            let frame = log.frame(&mut file, place)?;
            // The size of the database after a commit.
            if number(&frame, 4) > 0 {
                log.last = Some((place, frame));
                break;
            }
        }
        Ok(log)
    }

    fn frame(&self, log: &mut File, number: u64) -> io::Result<Frame> {
        let mut frame = [0; 24];
        log.seek(SeekFrom::Start(32 + number * self.stride()))?;
        log.read_exact(&mut frame).map(|()| frame)
    }

    /// Bytes of a frame.
    fn stride(&self) -> u64 {
        24 + u64::from(self.page)
    }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes[at..].first_chunk().copied();
    u32::from_be_bytes(bytes.unwrap_or_default())
}

fn log_of(path: &Path) -> PathBuf {
    beside(path, "-wal")
}

/// The path of a file beside the database.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Full seconds are refused: the file system may know no others, and then one second has many changes.
fn changed(metadata: &Metadata) -> Option<Duration> {
    #[cfg(not(unix))]
    return None;
    #[cfg(unix)]
    {
        let seconds = metadata.ctime().try_into().ok()?;
        let nanos = metadata.ctime_nsec().try_into().ok().filter(|&n| n > 0)?;
        Some(Duration::new(seconds, nanos))
    }
}

fn file_id(metadata: &Metadata) -> DatabaseFileId {
    #[cfg(not(unix))]
    return None;
    #[cfg(unix)]
    Some((metadata.dev(), metadata.ino(), metadata.created().ok()?))
}

#[cfg(all(test, unix))]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::super::file_system::dates_changes;
    use super::*;
    use crate::sets::Found;
    use crate::source::{AsOf, DatabaseLocation, MintSource as _, SqliteSource};
    use nutfilter_cashu::NoteKind;

    fn files() -> Files {
        Files {
            file: Some((1, 2, UNIX_EPOCH)),
            log: None,
            state: (3, None),
            modified: None,
            changed: Some(Duration::from_millis(100_500)),
            has_journal: false,
        }
    }

    /// Other files than [`files`].
    fn others() -> Vec<Files> {
        let later = UNIX_EPOCH + Duration::from_secs(999);
        let changes: [fn(&mut Files, SystemTime); 7] = [
            |files, _| files.file = Some((1, 3, UNIX_EPOCH)),
            |files, later| files.file = Some((1, 2, later)),
            |files, _| files.log = Some(None),
            |files, _| files.state = (4, None),
            |files, later| files.state = (3, Some(later)),
            |files, _| files.changed = Some(Duration::from_nanos(100_500_000_001)),
            |files, _| files.has_journal = true,
        ];
        let other = |change: fn(&mut Files, SystemTime)| {
            let mut files = files();
            change(&mut files, later);
            files
        };
        changes.map(other).into()
    }

    #[test]
    fn reading_is_settled_a_second_after_the_last_change() {
        let is_settled =
            |files: &Files, at: u64| files.were_settled(UNIX_EPOCH + Duration::from_millis(at));
        let moments = [0, 100_500, 101_500, 101_501, 999_999];
        let settled = moments.map(|at| is_settled(&files(), at));
        assert_eq!(settled, [false, false, false, true, true]);
        let [mut unknown, mut undated, mut hot] = [files(), files(), files()];
        (unknown.file, undated.changed, hot.has_journal) = (None, None, true);
        for files in [unknown, undated, hot] {
            assert!(!is_settled(&files, 999_999), "{files:?}");
        }
    }

    #[test]
    fn database_is_still_the_same_while_nothing_differs() {
        let (wall, steady) = (UNIX_EPOCH + Duration::from_secs(999), Instant::now());
        let reading = Reading { whole: None, as_of: AsOf::LastChange(7), unservable: vec![] };
        let settled = Settled { files: files(), began: (wall, steady), reading };
        let is_still = |files: &Files, by_wall: i64| {
            let wall = match by_wall {
                0.. => wall + Duration::from_secs(by_wall.unsigned_abs()),
                _ => wall - Duration::from_secs(by_wall.unsigned_abs()),
            };
            let now = (wall, steady + Duration::from_secs(60));
            settled.still(files, now) == Some(settled.reading.clone())
        };
        for (by_wall, expected) in [(60, true), (3_600, true), (58, false), (0, false), (-1, false)]
        {
            assert_eq!(is_still(&files(), by_wall), expected, "{by_wall}");
        }
        for other in others() {
            assert!(!is_still(&other, 60), "{other:?}");
        }
    }

    /// What happens once somebody does is tried by random histories.
    #[test]
    fn closed_database_that_nobody_touches_is_not_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mint.db");
        let sql = "PRAGMA journal_mode = WAL; CREATE TABLE proofs_used (id, y UNIQUE, created); CREATE TABLE promises (id, b_, c_);
             CREATE TABLE keysets (id, active, unit, input_fee_ppk); INSERT INTO proofs_used VALUES (1, '02', 5), (1, '03', 1 << 60)";
        rusqlite::Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let mut source = SqliteSource::open(&DatabaseLocation::from(&*path), None).unwrap();
        let never = AtomicBool::new(false);
        let mut read = |whole| {
            let reading = source.read(NoteKind::Spent, whole, &mut Found::new(&never));
            let reading = reading.unwrap();
            (reading.is_whole(), reading.as_of)
        };
        // It was changed just now.
        assert!(read(false).0 && read(false).0);
        std::thread::sleep(MARGIN + Duration::from_millis(50));
        assert_eq!(read(false), (true, AsOf::LastChange(5)));
        let is_known = dates_changes(&path);
        assert_eq!(read(false), (!is_known, AsOf::LastChange(5)));
        assert!(read(true).0);
    }
}
