//! Files for a user: written whole, with the mode that the user expects.

use std::fs::{self, File, OpenOptions};
use std::io;
#[cfg(target_os = "linux")]
use std::os::{fd::AsRawFd, unix::fs::OpenOptionsExt};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// An output file whose name refers to the old contents or to the complete new ones, even after a crash.
///
/// This writes a hidden file in the same directory, syncs it, and renames it over the old one. On Linux it has no name until
/// then, if the file system has such files, so nothing stays behind of a process that is killed.
///
/// The mode of an existing file is kept, but not its owner, which only root could restore. A symbolic link stays,
/// and its target is replaced. A pipe or device is written to directly.
#[derive(Debug)]
pub(crate) enum OutputFile {
    /// A pipe or device.
    Direct(File),
    /// A draft without a name, and the file that it will replace.
    #[cfg(target_os = "linux")]
    Unnamed(File, PathBuf),
    /// A draft, and the file that it will replace.
    Draft(NamedTempFile, PathBuf),
}

impl OutputFile {
    /// Begins a file. Nothing appears under its name before [`finish`](Self::finish).
    ///
    /// # Errors
    ///
    /// As the system reports, here and below.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let (target, permissions) = match fs::metadata(path) {
            Ok(metadata) if metadata.is_file() => {
                (fs::canonicalize(path)?, Some(metadata.permissions()))
            }
            Ok(_) => {
                // Open the given name: the links of /dev/fd and /proc lead to names such as `pipe:[1]`.
                let file = OpenOptions::new().write(true).open(path)?;
                return Ok(Self::Direct(file));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => (path.to_owned(), None),
            Err(error) => return Err(error),
        };
        #[cfg(target_os = "linux")]
        if let Some(draft) = unnamed(directory_of(&target)) {
            if let Some(permissions) = permissions {
                draft.set_permissions(permissions)?;
            }
            return Ok(Self::Unnamed(draft, target));
        }
        let mut builder = hidden();
        // A file that replaces another one is private until it has that one's mode. Otherwise the umask decides.
        #[cfg(unix)]
        if permissions.is_none() {
            use std::os::unix::fs::PermissionsExt;
            builder.permissions(fs::Permissions::from_mode(0o666));
        }
        // A rename cannot cross file systems.
        let draft = builder.tempfile_in(directory_of(&target))?;
        if let Some(permissions) = permissions {
            draft.as_file().set_permissions(permissions)?;
        }
        Ok(Self::Draft(draft, target))
    }

    /// The file to write to.
    pub(crate) fn file(&mut self) -> &mut File {
        match self {
            Self::Direct(file) => file,
            #[cfg(target_os = "linux")]
            Self::Unnamed(file, _) => file,
            Self::Draft(file, _) => file.as_file_mut(),
        }
    }

    /// Waits until the file is on the disk, and puts it in its place.
    pub(crate) fn finish(self) -> io::Result<()> {
        let target = match self {
            Self::Direct(_) => return Ok(()),
            #[cfg(target_os = "linux")]
            Self::Unnamed(draft, target) => {
                draft.sync_all()?;
                let link = format!("/proc/self/fd/{}", draft.as_raw_fd());
                let named = |path: &Path| {
                    use rustix::fs::{AtFlags, CWD, linkat};
                    linkat(CWD, &link, CWD, path, AtFlags::SYMLINK_FOLLOW).map_err(io::Error::from)
                };
                // A link replaces nothing; a rename does.
                let draft = hidden().make_in(directory_of(&target), named)?;
                draft.into_temp_path().persist(&target)?;
                target
            }
            Self::Draft(draft, target) => {
                draft.as_file().sync_all()?;
                draft.persist(&target)?;
                target
            }
        };
        // The file is complete. A directory without read permission cannot be opened.
        #[cfg(unix)]
        let _ = File::open(directory_of(&target)).and_then(|directory| directory.sync_all());
        Ok(())
    }
}

fn hidden() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".nutfilter-").suffix(".tmp");
    builder
}

/// A file without a name, with the mode of the umask. Some file systems have none, and without /proc it could not get one.
#[cfg(target_os = "linux")]
fn unnamed(directory: &Path) -> Option<File> {
    if !Path::new("/proc/self/fd").exists() {
        return None;
    }
    let flags = rustix::fs::OFlags::TMPFILE.bits() as i32;
    let mut options = OpenOptions::new();
    options.write(true).mode(0o666).custom_flags(flags);
    options.open(directory).ok()
}

/// The directory of an existing or future file.
fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn killed_process_leaves_no_file_behind() {
        let place = tempfile::tempdir().unwrap();
        if unnamed(place.path()).is_none() {
            eprintln!("skipped: the file system has no files without names");
            return;
        }
        let names = || fs::read_dir(place.path()).unwrap().count();
        let path = place.path().join("filter");
        for text in ["first", "second"] {
            let before = names();
            let mut output = OutputFile::create(&path).unwrap();
            output.file().write_all(text.as_bytes()).unwrap();
            assert_eq!(names(), before);
            output.finish().unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(names(), 1);
    }
}
