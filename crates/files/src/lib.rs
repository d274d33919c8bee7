//! Durable files: written whole, synced and renamed, by one process at a time.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

#[cfg(feature = "output")]
mod output;

use self::faults::change;
#[cfg(feature = "output")]
pub use self::output::Output;

/// Locks a file until it is closed; creates it if it does not exist. Some file systems have no locks. There the operator
/// must start only one process.
///
/// # Errors
///
/// [`io::ErrorKind::WouldBlock`] if another process has the lock.
pub fn lock(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)?;
    match file.try_lock().map_err(io::Error::from) {
        Err(error) if error.kind() != io::ErrorKind::Unsupported => Err(error),
        _ => Ok(file),
    }
}

/// Creates a file that only this user can read. It must not exist.
///
/// # Errors
///
/// As the system reports, here and below.
pub fn create(path: &Path) -> io::Result<File> {
    change()?;
    private(OpenOptions::new().write(true).create_new(true)).open(path)
}

fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Writes bytes. In a test of faults that fails, the first half is written.
pub fn write_all(mut file: impl Write, bytes: &[u8]) -> io::Result<()> {
    change().inspect_err(|_| drop(file.write_all(&bytes[..bytes.len() / 2])))?;
    file.write_all(bytes)
}

/// Waits until a file is on the disk.
pub fn sync(file: &File) -> io::Result<()> {
    change()?;
    match faults::is_on() {
        // The test survives its faults.
        true => Ok(()),
        false => file.sync_all(),
    }
}

/// Writes a file that only this user can read, in the place of an unfinished one. Waits until it is on the disk.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // Others may be able to read the old one.
    remove(path)?;
    let mut file = create(path)?;
    write_all(&mut file, bytes)?;
    sync(&file)
}

/// Replaces a file by way of `new`, in the same directory. Also after a crash it has its old bytes or these.
pub fn replace(path: &Path, new: &Path, bytes: &[u8]) -> io::Result<()> {
    write(new, bytes)?;
    install(path, new)
}

/// Puts the complete file `new` in the place of another.
pub fn install(path: &Path, new: &Path) -> io::Result<()> {
    change()?;
    fs::rename(new, path)?;
    sync_directory(path.parent().unwrap_or(path))
}

/// Removes a file, if it exists.
pub fn remove(path: &Path) -> io::Result<()> {
    match change().and_then(|()| fs::remove_file(path)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Creates a directory for this user only, and the ones above it. All of their names are durable afterwards.
pub fn make_directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    let parent = parent.unwrap_or(Path::new("."));
    make_directory(parent)?;
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match change().and_then(|()| builder.create(path)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => sync_directory(parent),
    }
}

/// Waits until the names in a directory are on the disk.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    // Other systems cannot open a directory as a file. Renaming is as durable as they allow.
    if cfg!(unix) {
        let is_here = path.as_os_str().is_empty();
        sync(&File::open(if is_here { Path::new(".") } else { path })?)?;
    }
    Ok(())
}

/// For tests: changes of the disk that fail.
pub mod faults {
    use core::cell::Cell;
    use std::io;

    thread_local! {
        static LEFT: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// After this many changes by this thread, every further one fails, as after a crash. Nothing waits for the disk.
    pub fn after(changes: u64) {
        LEFT.set(Some(changes));
    }

    /// Ends [`after`].
    pub fn off() {
        LEFT.set(None);
    }

    pub(crate) fn is_on() -> bool {
        LEFT.get().is_some()
    }

    pub(crate) fn change() -> io::Result<()> {
        let Some(left) = LEFT.get() else {
            return Ok(());
        };
        let left = left.checked_sub(1).ok_or(io::ErrorKind::StorageFull)?;
        LEFT.set(Some(left));
        Ok(())
    }
}

/// Whether a file is missing, or lies on an unreadable part of the disk.
#[must_use]
pub fn is_lost(error: &io::Error) -> bool {
    /// `EIO`, which has no stable [`io::ErrorKind`].
    const BAD_DISK: i32 = 5;
    error.kind() == io::ErrorKind::NotFound
        || (cfg!(unix) && error.raw_os_error() == Some(BAD_DISK))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_exclude_and_end_with_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let first = lock(&path).unwrap();
        let kind = lock(&path).unwrap_err().kind();
        assert_eq!(kind, io::ErrorKind::WouldBlock);
        drop(first);
        lock(&path).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn replaced_file_is_private_and_complete() {
        use std::os::unix::fs::PermissionsExt;

        let directory = tempfile::tempdir().unwrap();
        let [path, new] = ["a", "a.new"].map(|name| directory.path().join(name));
        fs::write(&path, "old").unwrap();
        fs::write(&new, "unfinished and longer").unwrap();
        replace(&path, &new, b"bytes").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"bytes");
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert!(!new.exists());
    }

    #[test]
    fn new_directories_are_synced_in_their_parents() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b/c");
        // Three are created, and each of their parents is synced.
        for (changes, is_made) in [(5, false), (6, true)] {
            let _ = fs::remove_dir_all(directory.path().join("a"));
            faults::after(changes);
            assert_eq!(make_directory(&path).is_ok(), is_made, "{changes}");
        }
        faults::after(0);
        make_directory(&path).unwrap();
    }
}
