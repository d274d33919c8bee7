//! Objects as files of a directory.

use std::collections::HashSet;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use zlib_rs::{Inflate, InflateFlush, Status};

use crate::gzip::HEADER;
use crate::object::{Content, FileContent, FileId, Object, tag_of};

/// Begins the names of files that are not objects: unfinished ones, and the lock.
pub(crate) const TEMPORARY: &str = ".nutfilter-";
const LOCK: &str = ".nutfilter-lock";

/// Ends the name of a compressed form.
const GZIP: &str = "gz";

/// How long the file of a former object stays: somebody may have read a list that names it.
const STAYS: Duration = Duration::from_secs(3_600);

/// Why a directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process publishes there.
    #[error("{0}: another process publishes to this directory; give each its own")]
    InUse(PathBuf),
    /// The system refuses something.
    #[error("{0}: {1}")]
    Io(PathBuf, #[source] io::Error),
}

/// A file that is not used, and why.
#[derive(Clone, Debug)]
pub struct Refused {
    /// The path of the object that it would be.
    pub object: String,
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

impl Refused {
    /// What can be read of the object, though it is not served: the plain file, and what the compressed one contains.
    #[must_use]
    pub fn read(&self) -> Vec<Vec<u8>> {
        let plain = fs::read(&self.path).ok();
        let gzip = fs::read(with_gz(&self.path)).ok();
        // A filter's JSON is at most twice as long as its compressed form.
        let inflated = gzip.and_then(|gzip| inflate(&gzip, 2 * gzip.len()).ok());
        let inflated = inflated.map(|(inflated, _)| inflated);
        plain.into_iter().chain(inflated).collect()
    }
}

/// The lock of a directory. A child that is just being forked has every open file of this process for a moment, so closing
/// alone would not release it.
#[derive(Debug)]
struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing is all that is left if this fails.
        let _ = self.0.unlock();
    }
}

/// A directory that this process has locked.
#[derive(Debug)]
pub(crate) struct Directory {
    root: PathBuf,
    mode: u32,
    lock: Lock,
    /// Files that are not objects of the table any more.
    leaving: HashSet<PathBuf>,
}

impl Directory {
    /// Creates and locks a directory. Files get this mode, whatever the process' mask is.
    pub(crate) fn open(root: &Path, mode: u32) -> Result<Self, OpenError> {
        let failed = |error| OpenError::Io(root.into(), error);
        let directory = Self {
            root: root.into(),
            mode,
            lock: Self::lock(root, mode)?,
            leaving: HashSet::new(),
        };
        // What a killed process did not finish.
        for path in directory.files().map_err(failed)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with(TEMPORARY) && name != LOCK && !finish(&path) {
                fs::remove_file(&path).map_err(failed)?;
            }
        }
        Ok(directory)
    }

    fn lock(root: &Path, mode: u32) -> Result<Lock, OpenError> {
        let failed = |error| OpenError::Io(root.into(), error);
        make_directories(root, mode).map_err(failed)?;
        let path = root.join(LOCK);
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(failed)?;
        match lock.try_lock().map_err(io::Error::from) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Err(OpenError::InUse(root.into()))
            }
            // Some file systems have no locks. There the operator must start only one process.
            Err(error) if error.kind() != io::ErrorKind::Unsupported => Err(failed(error)),
            _ => Ok(Lock(lock)),
        }
    }

    /// Makes the directory again if somebody removed it. Another process may then have been faster.
    pub(crate) fn restore(&mut self) -> Result<(), OpenError> {
        let is =
            |metadata: io::Result<Metadata>| metadata.ok().map(|metadata| FileId::of(&metadata));
        if is(fs::metadata(self.root.join(LOCK))) != is(self.lock.0.metadata()) {
            self.lock = Self::lock(&self.root, self.mode)?;
        }
        Ok(())
    }

    /// The objects that are there. `check` tells from path and plain bytes the media type and the date of one, or what is
    /// wrong.
    pub(crate) fn load(
        &self,
        check: impl Fn(&str, &[u8]) -> Result<(&'static str, u64), String>,
    ) -> io::Result<(Vec<Object>, Vec<Refused>)> {
        let (mut objects, mut refused) = (vec![], vec![]);
        for file in self.files()? {
            // A compressed form that lost its plain one still shows what was published.
            let file = match file.extension().is_some_and(|extension| extension == GZIP) {
                true if !file.with_extension("").exists() => file.with_extension(""),
                _ => file,
            };
            let Some(path) = self.path_of(&file) else {
                continue;
            };
            match load(&file, path.clone(), &check) {
                Ok(object) => objects.push(object),
                // It may be a file of somebody else, so it is never removed.
                Err(reason) => refused.push(Refused { object: path, path: file, reason }),
            }
        }
        Ok((objects, refused))
    }

    /// Creates temporary files for both forms of an object.
    pub(crate) fn create(&self, path: &str) -> io::Result<[Unfinished; 2]> {
        let file = self.file_of(path)?;
        let parent = file.parent().unwrap_or(&self.root);
        make_directories(parent, self.mode)?;
        let create = |prefix: &str| Unfinished::create(parent, prefix, self.mode);
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        // For `finish`.
        let named = format!("{TEMPORARY}{name}.");
        Ok([create(&named)?, create(TEMPORARY)?])
    }

    /// Puts written and synced files in their places. They are published once their folder is synced, too.
    pub(crate) fn install(
        &mut self,
        path: &str,
        [plain, gzip]: [Unfinished; 2],
    ) -> io::Result<[Content; 2]> {
        let file = self.file_of(path)?;
        // The plain file last: a compressed form that was older than it would be sent in its place.
        let gzip = install(gzip, &with_gz(&file))?;
        let plain = install(plain, &file)?;
        self.leaving.remove(&file);
        Ok([plain, gzip])
    }

    /// Makes the names of the files of these paths survive a power loss.
    pub(crate) fn sync<'p>(&self, paths: impl IntoIterator<Item = &'p str>) -> io::Result<()> {
        let mut folders = HashSet::new();
        for path in paths {
            let mut folder = self.file_of(path)?;
            // New folders are names in the folders above.
            while folder.pop() && folder.starts_with(&self.root) && folders.insert(folder.clone()) {
            }
        }
        // A system without such a call keeps names in another way.
        let sync = |folder: &PathBuf| File::open(folder).map_or(Ok(()), |folder| folder.sync_all());
        folders.iter().try_for_each(sync)
    }

    /// The files of this path will be removed.
    pub(crate) fn leave_path(&mut self, path: &str) {
        if let Ok(file) = self.file_of(path) {
            self.leave(&file);
        }
    }

    fn leave(&mut self, file: &Path) {
        self.leaving.insert(file.into());
    }

    /// Removes files of former objects that were written more than an hour ago. The time of the file counts, because a process
    /// that refreshes once does not last for an hour.
    pub(crate) fn sweep(&mut self) {
        let is_new = |file: &PathBuf| {
            let written = fs::metadata(file).and_then(|metadata| metadata.modified());
            written.is_ok_and(|time| time.elapsed().is_ok_and(|age| age < STAYS))
        };
        self.leaving.retain(|file| is_new(file) || !remove(file));
    }

    /// Removes the files of this path now.
    pub(crate) fn remove(&mut self, path: &str) {
        if let Ok(file) = self.file_of(path)
            && !remove(&file)
        {
            self.leave(&file);
        }
    }

    /// All files below the root, also behind symbolic links.
    fn files(&self) -> io::Result<Vec<PathBuf>> {
        let (mut found, mut folders) = (vec![], vec![self.root.clone()]);
        let mut seen = HashSet::new();
        while let Some(folder) = folders.pop() {
            // A link may lead back.
            if !seen.insert(fs::canonicalize(&folder)?) {
                continue;
            }
            for entry in fs::read_dir(&folder)? {
                let path = entry?.path();
                match fs::metadata(&path) {
                    Ok(metadata) if metadata.is_dir() => folders.push(path),
                    Ok(metadata) if metadata.is_file() => found.push(path),
                    // It has gone, or leads nowhere.
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
        }
        found.sort();
        Ok(found)
    }

    /// The path of the object in a plain file.
    fn path_of(&self, file: &Path) -> Option<String> {
        let is_hidden = file.file_name()?.to_str()?.starts_with('.');
        if is_hidden || file.extension().is_some_and(|extension| extension == GZIP) {
            return None;
        }
        let parts: Option<Vec<&str>> =
            file.strip_prefix(&self.root).ok()?.iter().map(|part| part.to_str()).collect();
        Some(parts?.join("/"))
    }

    /// The plain file of an object. Refuses a path that a file cannot have.
    fn file_of(&self, path: &str) -> io::Result<PathBuf> {
        let relative = Path::new(path);
        let is_plain = relative.components().all(|part| matches!(part, Component::Normal(_)))
            && !path.is_empty()
            && path
                .split('/')
                .all(|part| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".gz"));
        match is_plain {
            true => Ok(self.root.join(relative)),
            false => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("`{path}` cannot be the path of a file"),
            )),
        }
    }
}

/// Puts a temporary plain file in its place if its compressed form is already there: the process was killed between the two.
fn finish(temporary: &Path) -> bool {
    let place = || {
        let name = temporary.file_name()?.to_str()?.strip_prefix(TEMPORARY)?;
        let file = temporary.with_file_name(name.rsplit_once('.')?.0);
        let gzip = fs::read(with_gz(&file)).ok()?;
        contains(&gzip, &fs::read(temporary).ok()?).ok()?;
        fs::rename(temporary, file).ok()
    };
    place().is_some()
}

fn install(mut file: Unfinished, to: &Path) -> io::Result<Content> {
    fs::rename(&file.path, to)?;
    file.is_installed = true;
    content(to, &file.file.metadata()?)
}

/// A new file, which is removed if it does not get to its place.
#[derive(Debug)]
pub(crate) struct Unfinished {
    pub(crate) file: File,
    path: PathBuf,
    is_installed: bool,
}

impl Unfinished {
    /// Creates a file. This process has locked the directory, and removed what others left.
    fn create(parent: &Path, prefix: &str, mode: u32) -> io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{prefix}{}-{number}", std::process::id());
        let path = parent.join(name);
        let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            file.set_permissions(fs::Permissions::from_mode(mode))?;
        }
        Ok(Self { file, path, is_installed: false })
    }
}

impl Write for Unfinished {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.is_installed {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn content(path: &Path, metadata: &Metadata) -> io::Result<Content> {
    Ok(Content::File(FileContent {
        path: path.into(),
        length: metadata.len(),
        id: FileId::of(metadata),
        kept: OnceLock::new(),
    }))
}

/// Removes both forms of an object. Returns whether they are gone.
fn remove(file: &Path) -> bool {
    [file.to_owned(), with_gz(file)].iter().all(|file| match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(file = %file.display(), %error, "could not remove the file of a former object");
            false
        }
        _ => true,
    })
}

fn with_gz(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".");
    name.push(GZIP);
    name.into()
}

fn make_directories(path: &Path, mode: u32) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        make_directories(parent, mode)?;
    }
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        result => result?,
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // Those who may read files may enter directories.
        let mode = mode | 0o700 | (mode & 0o444) >> 2;
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

/// Reads an object from its files: the compressed form ends with the CRC-32 and the length of the plain one.
fn load(
    file: &Path,
    path: String,
    check: &impl Fn(&str, &[u8]) -> Result<(&'static str, u64), String>,
) -> Result<Object, String> {
    let failed = |error: io::Error| error.to_string();
    let zipped = with_gz(file);
    // First, as the files of others have none.
    let gzip = fs::read(&zipped)
        .map_err(|error| format!("its compressed form cannot be read: {error}"))?;
    let plain = fs::read(file).map_err(failed)?;
    contains(&gzip, &plain)?;
    let (media_type, date) = check(&path, &plain)?;
    let of = |path: &Path| {
        fs::metadata(path).and_then(|metadata| content(path, &metadata)).map_err(failed)
    };
    Ok(Object {
        path: Arc::from(path),
        media_type,
        date,
        tag: tag_of(&plain),
        plain: of(file)?,
        gzip: of(&zipped)?,
    })
}

/// What a gzip file contains, if that is at most so long, and how many of its bytes say it.
fn inflate(gzip: &[u8], longest: usize) -> Result<(Vec<u8>, u64), String> {
    // The window of 2^15 bytes, and 16 for the gzip format.
    let (mut plain, mut inflate) = (vec![0; longest], Inflate::new(true, 15 + 16));
    match inflate.decompress(gzip, &mut plain, InflateFlush::Finish) {
        Ok(Status::StreamEnd) => {
            plain.truncate(usize::try_from(inflate.total_out()).unwrap_or(longest));
            Ok((plain, inflate.total_in()))
        }
        Ok(_) => Err("it is not what its compressed form contains".to_owned()),
        Err(error) => Err(format!("its compressed form is damaged: {}", error.as_str())),
    }
}

/// Checks a compressed form, with its checksum.
pub(crate) fn contains(gzip: &[u8], plain: &[u8]) -> Result<(), String> {
    // Decoders ignore most of the header: a time, a system, hints.
    if !gzip.starts_with(&HEADER) {
        return Err("its compressed form has a damaged header".to_owned());
    }
    // One byte more: what is longer does not fit.
    match inflate(gzip, plain.len() + 1)? {
        // A decoder does not look behind the end.
        (_, read) if read < gzip.len() as u64 => {
            Err("its compressed form is followed by other bytes".to_owned())
        }
        (inflated, _) if inflated == plain => Ok(()),
        _ => Err("it is not what its compressed form contains".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_is_released_though_a_child_still_has_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let open = || Directory::open(directory.path(), 0o644);
        let first = open().unwrap();
        let of_child = first.lock.0.try_clone().unwrap();
        assert!(matches!(open(), Err(OpenError::InUse(_))));
        drop(first);
        open().unwrap();
        drop(of_child);
    }
}
