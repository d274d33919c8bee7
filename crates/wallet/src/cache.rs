//! A cache directory: the last filter of each mint, with its timestamp.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nutfilter::{ItemHash, Nut25};
use nutfilter_cashu::{KeysetId, NoteKind};
use sha2::{Digest, Sha256};

use crate::base_url::BaseUrl;
use crate::cache_file::{self, Damage, Id};
use crate::dialect::PROBE;
use crate::mint_filter::MintFilter;

pub(crate) use crate::cache_file::{Kept, Limits};

/// A process holds this lock while it replaces a file.
const LOCK: &str = ".nutfilter-lock";

/// The next content of a file, written under the lock. A killed process leaves it, and the next writer replaces it.
const TEMPORARY: &str = ".nutfilter-new";

/// Maximum wait for the lock. Other processes hold it for milliseconds.
pub(crate) const LOCK_WAIT: Duration = Duration::from_secs(5);

/// Time between two attempts to take the lock.
const LOCK_RETRY: Duration = Duration::from_millis(10);

/// Stores the last valid filter and its timestamp for each mint, keyset, kind and hash.
///
/// With a cache, a wallet need not download a filter that it already has, and it detects a mint that returns an
/// older filter. Nothing that a server says about its own bodies is stored or trusted. Revalidation uses the
/// SHA-256 of the bytes that are on disk at that moment, so a damaged file can never pass for the mint's current
/// filter.
///
/// # Privacy
///
/// The mint: the hash tells it which version this wallet has, and so links this request to the earlier one. A mint
/// that gives every wallet a different filter can recognise each wallet, as with a cookie; a timestamp that
/// differs by one second is enough. [`without_etag`](Self::without_etag) downloads every filter in full and still
/// remembers the timestamp.
///
/// Readers of the disk: they learn which mints and keysets are in use. Only the owner can read the files. Their
/// names are hashes, which do not protect against guessing.
#[derive(Clone, Debug)]
pub struct FilterCache {
    directory: PathBuf,
    etag: bool,
}

/// A filter that was fetched through a cache.
#[derive(Debug)]
pub struct CachedFetch<H: ItemHash = Nut25> {
    /// The filter. Its timestamp is the filter's own, from the mint or from the cache.
    pub filter: MintFilter<H>,
    /// Whether the mint confirmed that the cached filter is still current.
    pub from_cache: bool,
    /// Why the cached file was not used. The timestamp of the newest filter seen is unknown in this case.
    pub discarded: Option<Damage>,
    /// Why the filter could not be stored. The filter is valid, but neither it nor its timestamp will be
    /// remembered.
    pub not_kept: Option<io::Error>,
}

impl FilterCache {
    /// Opens a directory. Creates it, with access for its owner only, if it does not exist.
    ///
    /// # Errors
    ///
    /// When the directory cannot be created, or the path is not a directory.
    pub fn open(directory: impl Into<PathBuf>) -> io::Result<Self> {
        let directory = directory.into();
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&directory)?;
        Ok(Self {
            directory,
            etag: true,
        })
    }

    /// Downloads every filter in full, so that the mint does not learn which version this wallet has.
    #[must_use]
    pub fn without_etag(mut self) -> Self {
        self.etag = false;
        self
    }

    /// The path of a cached filter. Removing the file also removes the remembered timestamp.
    #[must_use]
    pub fn path<H: ItemHash + Default>(
        &self,
        base: &str,
        keyset: &KeysetId,
        kind: NoteKind,
    ) -> PathBuf {
        self.directory.join(file_name(&id::<H>(base, keyset, kind)))
    }

    pub(crate) fn entry<H: ItemHash + Default>(
        &self,
        base: &str,
        keyset: &KeysetId,
        kind: NoteKind,
        limits: Limits,
    ) -> Entry<'_> {
        let id = id::<H>(base, keyset, kind);
        Entry {
            directory: &self.directory,
            path: self.directory.join(file_name(&id)),
            id,
            limits,
        }
    }

    /// The ETag of a body, or `None` if requests must not carry one.
    pub(crate) fn tag(&self, kept: Kept) -> Option<String> {
        let quoted = || format!("\"{}\"", const_hex::encode(kept.digest));
        self.etag.then(quoted)
    }
}

/// One file of a cache.
pub(crate) struct Entry<'a> {
    directory: &'a Path,
    path: PathBuf,
    id: Id,
    limits: Limits,
}

impl Entry<'_> {
    /// Copies the cached body to `body`, or returns the reason why it is not used. Damaged files are removed. Files beyond
    /// a limit stay, because another limit or a corrected clock may accept them.
    pub(crate) fn load(&self, body: impl Write) -> io::Result<(Option<Kept>, Option<Damage>)> {
        let metadata = match fs::symlink_metadata(&self.path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((None, None)),
            Err(error) => return Err(error),
        };
        // Opening a pipe would wait for a writer. Leave it in place: somebody put it there on purpose.
        if !metadata.is_file() {
            return Ok((None, Some(Damage::NotAFile)));
        }
        let file = File::open(&self.path)?;
        match cache_file::read(&self.id, file, metadata.len(), self.limits, body)? {
            Ok(kept) => Ok((Some(kept), None)),
            Err(damage @ (Damage::TooLarge { .. } | Damage::Future { .. })) => {
                Ok((None, Some(damage)))
            }
            Err(damage) => {
                fs::remove_file(&self.path)?;
                Ok((None, Some(damage)))
            }
        }
    }

    /// Writes a body to the disk before it is validated, since validation takes its memory. Waits for other writers until
    /// `deadline`, and keeps them away until the result is dropped.
    pub(crate) fn begin(&self, body: &[u8], deadline: Instant) -> io::Result<Unfinished<'_>> {
        let lock = self.lock(deadline)?;
        let path = self.directory.join(TEMPORARY);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = OpenOptions::new();
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut unfinished = Unfinished {
            entry: self,
            file: options.write(true).create_new(true).open(&path)?,
            path,
            digest: Sha256::digest(body).into(),
            _lock: lock,
        };
        unfinished.file.write_all(body)?;
        Ok(unfinished)
    }

    /// Tries at least once, even after the deadline.
    fn lock(&self, deadline: Instant) -> io::Result<File> {
        let path = self.directory.join(LOCK);
        let at = |what: &str| format!("{}: {what}", path.display());
        // Opening a pipe would wait for a reader.
        if fs::symlink_metadata(&path).is_ok_and(|found| !found.is_file()) {
            return Err(io::Error::other(at("not a regular file; remove it")));
        }
        let mut options = OpenOptions::new();
        let options = options.create(true).truncate(false).write(true);
        let file = options.open(&path)?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    thread::sleep(LOCK_RETRY);
                }
                Err(TryLockError::WouldBlock) => {
                    let kind = io::ErrorKind::TimedOut;
                    return Err(io::Error::new(kind, at("locked by another process")));
                }
                // Some file systems have no locks.
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                    return Ok(file);
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }
}

/// A body that is on the disk, but not yet in its place. Dropping it removes it.
pub(crate) struct Unfinished<'a> {
    entry: &'a Entry<'a>,
    path: PathBuf,
    file: File,
    digest: [u8; 32],
    _lock: File,
}

impl Unfinished<'_> {
    /// Atomically replaces the cached body, unless a newer one was stored in the meantime.
    pub(crate) fn store(mut self, timestamp: u64) -> io::Result<()> {
        let entry = self.entry;
        let (stored, _) = entry.load(io::sink())?;
        if stored.is_some_and(|stored| stored.timestamp > timestamp) {
            return Ok(());
        }
        let digest = self.digest;
        let trailer = cache_file::trailer(&entry.id, Kept { timestamp, digest });
        self.file.write_all(&trailer)?;
        self.file.sync_all()?;
        fs::rename(&self.path, &entry.path)
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        // Stored, it has another name. What cannot be removed is replaced by the next writer.
        drop(fs::remove_file(&self.path));
    }
}

fn file_name(id: &Id) -> String {
    const_hex::encode(id) + ".filter"
}

/// The ID of mint, keyset, kind and hash. Different spellings of a mint's URL or of a keyset give the same ID. The hash
/// counts by its value for one item, because a caller's own profile has no unique name.
fn id<H: ItemHash + Default>(base: &str, keyset: &KeysetId, kind: NoteKind) -> Id {
    let mint = BaseUrl::parse(base)
        .ok()
        .and_then(|base| base.canonical())
        .unwrap_or_else(|| base.to_owned());
    let mut digest = Sha256::new();
    for part in [&mint, &keyset.canonical(), kind.as_str()] {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    digest.update(H::default().hash(PROBE).to_le_bytes());
    digest.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nutfilter::Nut25;

    fn cache(directory: &Path) -> FilterCache {
        FilterCache::open(directory).unwrap()
    }

    fn entry(cache: &FilterCache) -> Entry<'_> {
        let keyset = "00ffd48b8f5ecf80".parse().unwrap();
        let limits = Limits {
            max_bytes: 1 << 20,
            latest: u64::MAX,
        };
        cache.entry::<Nut25>("https://mint.example", &keyset, NoteKind::Spent, limits)
    }

    #[test]
    fn store_keeps_the_newest_time_and_the_last_body_of_that_time() {
        let directory = tempfile::tempdir().unwrap();
        let cache = cache(directory.path());
        let entry = entry(&cache);
        let kept = || {
            let mut body = Vec::new();
            entry.load(&mut body).unwrap().0.map(|_| body).unwrap()
        };
        let store = |body: &str, timestamp| {
            let unfinished = entry.begin(body.as_bytes(), Instant::now()).unwrap();
            unfinished.store(timestamp).unwrap();
        };
        for (body, timestamp, stays) in [
            ("first", 5, "first"),
            ("same time", 5, "same time"),
            ("older", 4, "same time"),
            ("newer", 6, "newer"),
        ] {
            store(body, timestamp);
            assert_eq!(kept(), stays.as_bytes(), "{body}");
        }
        drop(entry.begin(b"refused", Instant::now()).unwrap());
        assert_eq!(kept(), b"newer");
        assert!(!directory.path().join(TEMPORARY).exists());
    }

    #[test]
    fn held_lock_is_an_error_after_the_deadline() {
        let directory = tempfile::tempdir().unwrap();
        let cache = cache(directory.path());
        let lock = File::create(directory.path().join(LOCK)).unwrap();
        lock.lock().unwrap();
        let soon = Instant::now() + Duration::from_millis(30);
        let entry = entry(&cache);
        let error = entry.begin(b"body", soon).err().expect("a held lock");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(Instant::now() >= soon, "gave up before the deadline");
        // Another thread releases the lock while this one waits for it.
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(3 * LOCK_RETRY);
                drop(lock);
            });
            let later = Instant::now() + LOCK_WAIT;
            let unfinished = entry.begin(b"body", later).expect("the lock");
            unfinished.store(1).expect("a disk");
        });
    }

    #[cfg(unix)]
    #[test]
    fn pipe_in_place_of_the_lock_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let cache = cache(directory.path());
        let pipe = directory.path().join(LOCK);
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("mkfifo").success());
        let entry = entry(&cache);
        let error = entry.begin(b"body", Instant::now()).err();
        let error = error.expect("a pipe").to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }

    // On other systems a path through a file counts as missing.
    #[cfg(unix)]
    #[test]
    fn load_ignores_only_a_missing_file() {
        let directory = tempfile::tempdir().unwrap();
        let cache = cache(&directory.path().join("cache"));
        let load = || entry(&cache).load(io::sink());
        assert!(matches!(load(), Ok((None, None))));
        // Put a file in place of the directory, so that the look-up fails.
        fs::remove_dir_all(directory.path().join("cache")).unwrap();
        fs::write(directory.path().join("cache"), "").unwrap();
        let Err(error) = load() else {
            panic!("nothing is kept, and nothing is wrong");
        };
        assert_ne!(error.kind(), io::ErrorKind::NotFound);
    }
}
