//! Durable files: written whole, synced and renamed, by one process at a time.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

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

/// Writes a file that only this user can read, in the place of an unfinished one. Waits until it is on the disk.
///
/// # Errors
///
/// As the system reports.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // Others may be able to read the old one.
    let _ = fs::remove_file(path);
    let mut options = OpenOptions::new();
    options.create_new(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Replaces a file by way of `new`, in the same directory. Also after a crash it has its old bytes or these.
///
/// # Errors
///
/// As the system reports.
pub fn replace(path: &Path, new: &Path, bytes: &[u8]) -> io::Result<()> {
    write(new, bytes)?;
    fs::rename(new, path)?;
    sync_directory(path.parent().unwrap_or(path))
}

/// Waits until the names in a directory are on the disk.
///
/// # Errors
///
/// As the system reports.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    // Other systems cannot open a directory as a file. Renaming is as durable as they allow.
    if cfg!(unix) {
        let is_here = path.as_os_str().is_empty();
        File::open(if is_here { Path::new(".") } else { path })?.sync_all()?;
    }
    Ok(())
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
}
