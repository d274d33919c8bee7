//! The directory of a persistent store: its list of runs, and its lock.
//!
//! The list of runs is one small file, replaced by renaming. A commit of many runs, or of one run that replaces
//! others, is therefore atomic. New runs are on the disk before the list names them. Old ones are removed after
//! the new list is on the disk. Unlisted run files are left over from a crash, and are removed when the store
//! is opened.
//!
//! ```text
//! nutfilter store 1
//! set 0123456789abcdef 0123456789abcdef 0123456789abcdef
//! note 6b6570742062792074686520756e636c65
//! run 0000000000000000 58720256
//! sum 0123456789abcdef
//! ```
//!
//! Numbers are hexadecimal, except the number of hashes of a run. The note line is the metadata of the last
//! commit; empty metadata has no line. The sum is the fingerprint of all lines before it.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::{Damage, Fault, StoreError};
use crate::fingerprint;
use crate::run::{Header, Mark, Place, Run};

const LIST: &str = "nutfilter-store";
const NEW_LIST: &str = "nutfilter-store.new";
const LOCK: &str = "nutfilter-store.lock";
const FIRST_LINE: &str = "nutfilter store 1";

/// A list is read at once. A store has at most 128 runs, which take 5 KiB.
const MAX_LIST_BYTES: u64 = 1 << 20;

/// The directory, locked while this value exists.
#[derive(Debug)]
pub(crate) struct Directory {
    directory: PathBuf,
    /// Closing the file releases the lock.
    _lock: File,
}

impl Directory {
    /// Returns whether there is a store in `directory`.
    pub(crate) fn is_in(directory: &Path) -> bool {
        directory.join(LIST).exists()
    }

    /// Prepares `directory` for a new store; creates it if necessary.
    pub(crate) fn create(directory: &Path) -> Result<Self, StoreError> {
        match fs::create_dir(directory) {
            Ok(()) => {
                // The directory's name must be as durable as its contents.
                if let Some(parent) = directory.parent() {
                    sync_directory(parent)?;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(StoreError::io("create", directory, error)),
        }
        let kept = Self::lock(directory)?;
        if Self::is_in(directory) {
            let path = directory.to_owned();
            return Err(StoreError(Fault::Exists { path }));
        }
        Ok(kept)
    }

    /// Opens the store in `directory`; returns it with its metadata and its runs.
    pub(crate) fn open(
        directory: &Path,
        mark: Mark,
    ) -> Result<(Self, Vec<u8>, Vec<Run>), StoreError> {
        let path = directory.join(LIST);
        // Before the lock, which would create a file even if there is no store.
        File::open(&path).map_err(|error| StoreError::io("open", &path, error))?;
        let kept = Self::lock(directory)?;
        let (metadata, listed) = listed(directory, read_list(&path)?, mark)?;
        let runs = listed
            .into_iter()
            .map(|header| Run::open(run_path(directory, header.id), Place::Named, header))
            .collect::<Result<_, _>>()?;
        Ok((kept, metadata, runs))
    }

    /// The result of [`Directory::open`] for a directory with this list and files of these names.
    pub(crate) fn read(
        list: Vec<u8>,
        mut file: impl FnMut(&str) -> Option<Vec<u8>>,
        mark: Mark,
    ) -> Result<(Vec<u8>, Vec<Run>), StoreError> {
        let (metadata, listed) = listed(Path::new(""), list, mark)?;
        let run = |header: Header| {
            let path = run_path(Path::new(""), header.id);
            let name = path.to_string_lossy();
            let gone = || StoreError::io("open", &path, io::ErrorKind::NotFound.into());
            let bytes = file(&name).ok_or_else(gone)?;
            Run::open(path, Place::Memory(bytes), header)
        };
        Ok((
            metadata,
            listed.into_iter().map(run).collect::<Result<_, _>>()?,
        ))
    }

    fn lock(directory: &Path) -> Result<Self, StoreError> {
        let path = directory.join(LOCK);
        let lock = nutfilter_files::lock(&path).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => StoreError(Fault::InUse {
                path: directory.into(),
            }),
            _ => StoreError::io("lock", &path, error),
        })?;
        Ok(Self {
            directory: directory.to_owned(),
            _lock: lock,
        })
    }

    /// Makes `runs` the contents of the store. They must be on the disk already.
    pub(crate) fn replace(
        &self,
        mark: Mark,
        metadata: &[u8],
        runs: &[Arc<Run>],
    ) -> Result<(), StoreError> {
        let headers: Vec<Header> = runs.iter().map(|run| run.header()).collect();
        // The names of the runs must be on the disk before the list that contains them.
        self.sync_directory()?;
        self.write(mark, metadata, &headers)
    }

    /// Writes the list.
    pub(crate) fn write(
        &self,
        mark: Mark,
        metadata: &[u8],
        runs: &[Header],
    ) -> Result<(), StoreError> {
        let (new, path) = (self.directory.join(NEW_LIST), self.directory.join(LIST));
        let written = nutfilter_files::write(&new, list(mark, metadata, runs).as_bytes());
        written.map_err(|error| StoreError::io("write", &new, error))?;
        fs::rename(&new, &path).map_err(|error| StoreError::io("rename", &path, error))
    }

    /// Waits until the names in the directory are on the disk.
    pub(crate) fn sync_directory(&self) -> Result<(), StoreError> {
        sync_directory(&self.directory)
    }

    /// Removes files left over from a crash.
    pub(crate) fn remove_unlisted(&self, listed: &[Run]) -> Result<(), StoreError> {
        let directory = &self.directory;
        let list = |error| StoreError::io("list", directory, error);
        for entry in fs::read_dir(directory).map_err(list)? {
            let name = entry.map_err(list)?.file_name();
            let id = name.to_str().and_then(run_id);
            if id.is_some_and(|id| listed.iter().all(|run| run.id() != id)) {
                let path = directory.join(name);
                fs::remove_file(&path).map_err(|error| StoreError::io("remove", &path, error))?;
            }
        }
        Ok(())
    }
}

/// The path of a run of a persistent store.
pub(crate) fn run_path(directory: &Path, id: u64) -> PathBuf {
    directory.join(format!("run-{id:016x}.hashes"))
}

/// Parses the ID from a name made by [`run_path`].
fn run_id(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("run-")?.strip_suffix(".hashes")?;
    number(digits, 16).filter(|_| digits.len() == 16)
}

/// A name that nobody else uses. Files are never overwritten, so a collision is at worst an error.
pub(crate) fn scratch_path(directory: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let time = SystemTime::now().duration_since(UNIX_EPOCH);
    let time = time.unwrap_or_default().as_nanos();
    directory.join(format!(
        ".nutfilter-{:x}-{time:x}-{count:x}.hashes",
        process::id()
    ))
}

fn sync_directory(directory: &Path) -> Result<(), StoreError> {
    let synced = nutfilter_files::sync_directory(directory);
    synced.map_err(|error| StoreError::io("sync", directory, error))
}

fn read_list(path: &Path) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_LIST_BYTES).read_to_end(&mut bytes));
    read.map_err(|error| StoreError::io("read", path, error))?;
    Ok(bytes)
}

/// The metadata and the runs listed in `directory`, if the list belongs to the set of this mark.
fn listed(
    directory: &Path,
    list: Vec<u8>,
    mark: Mark,
) -> Result<(Vec<u8>, Vec<Header>), StoreError> {
    let damaged = |damage| StoreError::damaged(&directory.join(LIST), damage);
    let text = String::from_utf8(list).map_err(|_| damaged(Damage::ManifestChecksum))?;
    let (stored, metadata, listed) = parse(&text).map_err(damaged)?;
    if stored != mark {
        let path = directory.to_owned();
        return Err(StoreError(Fault::OtherSet { path }));
    }
    Ok((metadata, listed))
}

fn list(mark: Mark, metadata: &[u8], runs: &[Header]) -> String {
    let [first, second, label] = mark;
    let mut text = format!("{FIRST_LINE}\nset {first:016x} {second:016x} {label:016x}\n");
    // Writing to a string cannot fail, here and below.
    if !metadata.is_empty() {
        text.push_str("note ");
        for byte in metadata {
            let _ = write!(text, "{byte:02x}");
        }
        text.push('\n');
    }
    for run in runs {
        let _ = writeln!(text, "run {:016x} {}", run.id, run.items);
    }
    let sum = fingerprint(text.as_bytes());
    text + &format!("sum {sum:016x}\n")
}

fn parse(text: &str) -> Result<(Mark, Vec<u8>, Vec<Header>), Damage> {
    let first = text.lines().next().unwrap_or_default();
    if first != FIRST_LINE {
        let version = first.strip_prefix("nutfilter store ");
        return Err(match version.and_then(|version| version.parse().ok()) {
            Some(version) => Damage::Version { version },
            None => Damage::NoMagic,
        });
    }
    // Check the sum first: if it is valid, a store wrote the list.
    let sum = text.rfind("sum ").unwrap_or(0);
    let (lines, last) = text.split_at(sum);
    if last != format!("sum {:016x}\n", fingerprint(lines.as_bytes())) {
        return Err(Damage::ManifestChecksum);
    }
    let mut lines = (2..).zip(lines.lines().skip(1)).peekable();
    let mark = lines.next().and_then(|(_, line)| {
        let mut words = line.strip_prefix("set ")?.split(' ');
        let mut word = || number(words.next()?, 16);
        Some([word()?, word()?, word()?])
    });
    let mark = mark.ok_or(Damage::Manifest { line: 2 })?;
    let metadata = lines.next_if(|(_, line)| line.starts_with("note "));
    let metadata = metadata.map_or(Some(Vec::new()), |(_, line)| bytes(&line["note ".len()..]));
    let metadata = metadata.ok_or(Damage::Manifest { line: 3 })?;
    let run = |(line, text): (u64, &str)| {
        let words = text
            .strip_prefix("run ")
            .and_then(|run| run.split_once(' '));
        let header = words.and_then(|(id, items)| {
            Some(Header {
                // The largest number is rejected, because the next run would have no number.
                id: number(id, 16).filter(|&id| id < u64::MAX)?,
                items: number(items, 10)?,
                mark,
            })
        });
        header.ok_or(Damage::Manifest { line })
    };
    Ok((mark, metadata, lines.map(run).collect::<Result<_, _>>()?))
}

/// Decodes pairs of hex digits.
fn bytes(digits: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| number(std::str::from_utf8(pair).ok()?, 16)?.try_into().ok();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(byte).collect()
}

/// Parses digits without a sign.
fn number(digits: &str, radix: u32) -> Option<u64> {
    if digits.starts_with('+') {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::super::{MIN_MEMORY, Nut25, Options, Store, StoreErrorKind};
    use super::*;

    #[test]
    fn only_unchanged_lists_are_read() {
        let mark = [1, u64::MAX, 0];
        let runs = vec![
            Header {
                id: 0,
                items: 7,
                mark,
            },
            Header {
                id: 0xabc,
                items: u64::MAX,
                mark,
            },
        ];
        for metadata in [&b""[..], b"as of \0\xff"] {
            let text = list(mark, metadata, &runs);
            assert_eq!(
                parse(&text).expect("a list"),
                (mark, metadata.to_vec(), runs.clone())
            );
            for end in 0..text.len() {
                assert!(parse(&text[..end]).is_err(), "cut to {end} bytes");
            }
            for at in 0..text.len() {
                for bit in 0..7 {
                    let mut bytes = text.clone().into_bytes();
                    bytes[at] ^= 1 << bit;
                    let text = String::from_utf8(bytes).expect("ASCII");
                    assert!(parse(&text).is_err(), "bit {bit} of byte {at}");
                }
            }
        }
    }

    #[test]
    fn list_without_a_number_for_the_next_run_is_rejected() {
        let options = Options::<Nut25>::new(MIN_MEMORY);
        for (id, whole) in [(u64::MAX - 1, true), (u64::MAX, false)] {
            let header = Header {
                id,
                items: 0,
                mark: options.mark(),
            };
            let list = list(header.mark, b"", &[header]).into_bytes();
            let run = |_: &str| Some(header.to_bytes().to_vec());
            let store = Store::read_files(list, run, options.clone());
            assert_eq!(store.is_ok(), whole, "run {id:x}");
            if let Err(error) = store {
                assert_eq!(error.kind(), StoreErrorKind::Damaged, "{error}");
            }
        }
    }

    #[test]
    fn list_of_another_version_reports_the_version() {
        let damage = parse("nutfilter store 2\n").expect_err("a later version");
        assert!(matches!(damage, Damage::Version { version: 2 }));
        let damage = parse("something else\n").expect_err("no list");
        assert!(matches!(damage, Damage::NoMagic));
    }

    #[test]
    fn only_run_files_have_run_names() {
        let path = run_path(Path::new("there"), 0xbeef);
        let name = path.file_name().and_then(|name| name.to_str());
        assert_eq!(name.and_then(run_id), Some(0xbeef));
        for name in [
            "run-beef.hashes",
            "run-000000000000beef.hashes.bak",
            "run-+00000000000beef.hashes",
            LIST,
        ] {
            assert_eq!(run_id(name), None, "{name}");
        }
    }
}
