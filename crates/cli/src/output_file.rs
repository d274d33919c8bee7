//! Files for a user: written whole, with the mode that the user expects.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// An output file whose name refers to the old contents or to the complete new ones, even after a crash.
///
/// This writes a hidden file in the same directory, syncs it, and renames it over the old one. A killed process may leave
/// the hidden file behind.
///
/// The mode of an existing file is kept, but not its owner, which only root could restore. A symbolic link stays,
/// and its target is replaced. A pipe or device is written to directly.
#[derive(Debug)]
pub(crate) enum Output {
    /// A pipe or device.
    Direct(File),
    /// A draft, and the file that it will replace.
    Draft(NamedTempFile, PathBuf),
}

impl Output {
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
        let mut builder = tempfile::Builder::new();
        builder.prefix(".nutfilter-").suffix(".tmp");
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
            Self::Draft(file, _) => file.as_file_mut(),
        }
    }

    /// Waits until the file is on the disk, and puts it in its place.
    pub(crate) fn finish(self) -> io::Result<()> {
        let Self::Draft(draft, target) = self else {
            return Ok(());
        };
        draft.as_file().sync_all()?;
        draft.persist(&target)?;
        // The file is complete. A directory without read permission cannot be opened.
        #[cfg(unix)]
        let _ = File::open(directory_of(&target)).and_then(|directory| directory.sync_all());
        Ok(())
    }
}

/// The directory of an existing or future file.
fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
