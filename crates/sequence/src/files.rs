//! Durable files: created once, synced, and never overwritten. Only the state file is replaced, by a rename.
//! [`SealedFile`] is the one way in which they are read.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nutfilter_cashu::state_filters::manifest::Hash;
use sha2::{Digest, Sha256};

use crate::error::{Error, at};

const BUFFER: usize = 64 << 10;

/// For tests: after this many changes of the disk, every further one fails, as after a crash.
#[derive(Clone, Debug, Default)]
pub struct Faults(Option<Arc<AtomicU64>>);

impl Faults {
    /// Fails after `changes` changes. A write that fails leaves the first half of its bytes.
    #[must_use]
    pub fn after(changes: u64) -> Self {
        Self(Some(Arc::new(AtomicU64::new(changes))))
    }

    /// Waits until a file or directory is on the disk. A test that injects faults survives them, so it need not wait.
    fn sync(&self, file: &File) -> io::Result<()> {
        match self.0 {
            None => file.sync_all(),
            Some(_) => Ok(()),
        }
    }

    /// No change fails any more.
    pub fn repair(&self) {
        if let Some(left) = &self.0 {
            left.store(u64::MAX, Ordering::Relaxed);
        }
    }

    fn change(&self) -> io::Result<()> {
        let Some(left) = &self.0 else {
            return Ok(());
        };
        let before = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            left.checked_sub(1)
        });
        match before {
            Ok(_) => Ok(()),
            Err(_) => Err(io::ErrorKind::StorageFull.into()),
        }
    }
}

/// A published file. It never changes, so other bytes are damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its SHA-256.
    pub sha256: Hash,
}

impl SealedFile {
    /// Reads the file.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is damaged.
    pub fn read(&self) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        self.visit(|piece| bytes.extend_from_slice(piece))?;
        Ok(bytes)
    }

    /// Checks the file.
    ///
    /// # Errors
    ///
    /// As [`SealedFile::read`].
    pub fn check(&self) -> Result<(), Error> {
        self.visit(|_| ())
    }

    fn visit(&self, mut visit: impl FnMut(&[u8])) -> Result<(), Error> {
        let mut file = File::open(&self.path).map_err(at(&self.path))?;
        let (mut digest, mut piece) = (Sha256::new(), vec![0; BUFFER]);
        loop {
            let bytes = match file.read(&mut piece).map_err(at(&self.path))? {
                0 => break,
                read => &piece[..read],
            };
            digest.update(bytes);
            visit(bytes);
        }
        match Hash::from(digest.finalize()) == self.sha256 {
            true => Ok(()),
            false => Err(Error::altered(&self.path)),
        }
    }
}

/// A file that is being written.
pub(crate) struct NewFile<'a> {
    path: &'a Path,
    file: BufWriter<File>,
    faults: &'a Faults,
    digest: Sha256,
    length: u64,
}

/// A complete file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    pub(crate) length: u64,
    pub(crate) sha256: Hash,
}

/// Creates a file that does not exist yet.
pub(crate) fn create<'a>(path: &'a Path, faults: &'a Faults) -> Result<NewFile<'a>, Error> {
    let mut options = OpenOptions::new();
    private(options.write(true).create_new(true));
    let file = faults.change().and_then(|()| options.open(path));
    Ok(NewFile {
        path,
        file: BufWriter::with_capacity(BUFFER, file.map_err(at(path))?),
        faults,
        digest: Sha256::new(),
        length: 0,
    })
}

/// Only this user may read it until it is served.
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

impl NewFile<'_> {
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if let Err(error) = self.faults.change() {
            let _ = self.file.write_all(&bytes[..bytes.len() / 2]);
            let _ = self.file.flush();
            return Err(at(self.path)(error));
        }
        self.digest.update(bytes);
        self.length += bytes.len() as u64;
        self.file.write_all(bytes).map_err(at(self.path))
    }

    /// Writes the rest and waits until all of it is on the disk.
    pub(crate) fn finish(self) -> Result<Written, Error> {
        let synced = self.faults.change().and_then(|()| {
            let file = self
                .file
                .into_inner()
                .map_err(io::IntoInnerError::into_error)?;
            self.faults.sync(&file)
        });
        synced.map_err(at(self.path))?;
        Ok(Written {
            length: self.length,
            sha256: self.digest.finalize().into(),
        })
    }
}

/// Creates a file with these bytes.
pub(crate) fn write(path: &Path, bytes: &[u8], faults: &Faults) -> Result<Written, Error> {
    let mut file = create(path, faults)?;
    file.write(bytes)?;
    file.finish()
}

/// Replaces a file: afterwards it has either its old bytes or these.
pub(crate) fn replace(path: &Path, bytes: &[u8], faults: &Faults) -> Result<(), Error> {
    let new = path.with_extension("new");
    remove(&new, &Faults::default())?;
    write(&new, bytes, faults)?;
    install(&new, path, faults)
}

/// Puts a complete file in the place of another.
pub(crate) fn install(new: &Path, path: &Path, faults: &Faults) -> Result<(), Error> {
    let renamed = faults.change().and_then(|()| fs::rename(new, path));
    renamed.map_err(at(path))?;
    sync_directory(path.parent().unwrap_or(path), faults)
}

/// Appends to a file, or creates it.
pub(crate) fn append(path: &Path, bytes: &[u8], faults: &Faults) -> Result<(), Error> {
    let mut options = OpenOptions::new();
    let opened = faults
        .change()
        .and_then(|()| private(options.append(true).create(true)).open(path));
    let mut file = opened.map_err(at(path))?;
    if let Err(error) = faults.change() {
        let _ = file.write_all(&bytes[..bytes.len() / 2]);
        return Err(at(path)(error));
    }
    let appended = file.write_all(bytes).and_then(|()| faults.sync(&file));
    appended.map_err(at(path))
}

/// Cuts a file to this length.
pub(crate) fn cut(path: &Path, length: u64, faults: &Faults) -> Result<(), Error> {
    let cut = faults.change().and_then(|()| {
        let file = OpenOptions::new().write(true).open(path)?;
        file.set_len(length)?;
        faults.sync(&file)
    });
    cut.map_err(at(path))
}

/// Makes the names in a directory durable.
pub(crate) fn sync_directory(path: &Path, faults: &Faults) -> Result<(), Error> {
    faults.change().map_err(at(path))?;
    // Elsewhere a directory cannot be opened as a file.
    if cfg!(unix) {
        let synced = File::open(path).and_then(|directory| faults.sync(&directory));
        synced.map_err(at(path))?;
    }
    Ok(())
}

/// Removes a file, if it exists.
pub(crate) fn remove(path: &Path, faults: &Faults) -> Result<(), Error> {
    match faults.change().and_then(|()| fs::remove_file(path)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(path)(error)),
        _ => Ok(()),
    }
}

/// Removes everything else in a directory.
pub(crate) fn remove_others(
    directory: &Path,
    named: &BTreeSet<PathBuf>,
    faults: &Faults,
) -> Result<(), Error> {
    for name in names(directory)? {
        let path = directory.join(name);
        if !named.contains(&path) {
            remove(&path, faults)?;
        }
    }
    Ok(())
}

/// Creates a directory for this user only, and the ones above it. All of their names are durable afterwards.
pub fn make_directory(path: &Path, faults: &Faults) -> Result<(), Error> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    let parent = parent.unwrap_or(Path::new("."));
    make_directory(parent, faults)?;
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match faults.change().and_then(|()| builder.create(path)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(at(path)(error)),
        _ => sync_directory(parent, faults),
    }
}

/// The names in a directory that are text. Other names are not ours.
pub(crate) fn names(path: &Path) -> Result<Vec<String>, Error> {
    let read = || -> io::Result<Vec<String>> {
        let mut names = vec![];
        for entry in fs::read_dir(path)? {
            names.extend(entry?.file_name().into_string().ok());
        }
        Ok(names)
    };
    read().map_err(at(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_directories_are_synced_in_their_parents() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b/c");
        // Three are created, and each of their parents is synced.
        for (changes, is_made) in [(5, false), (6, true)] {
            let _ = fs::remove_dir_all(directory.path().join("a"));
            let made = make_directory(&path, &Faults::after(changes));
            assert_eq!(made.is_ok(), is_made, "{changes}");
        }
        make_directory(&path, &Faults::after(0)).unwrap();
    }
}
