//! Files for a user: written whole, with the mode that the user expects.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// An output file whose name refers to the old contents or to the complete new ones, even after a crash.
///
/// This writes an unnamed or temporary file in the same directory, syncs it, and renames it over the old one. Where
/// the system supports unnamed files (Linux), a killed process leaves nothing behind.
///
/// The mode of an existing file is kept, but not its owner, which only root could restore. A symbolic link stays,
/// and its target is replaced or created. A pipe or device is written to directly.
#[derive(Debug)]
pub(crate) struct Output {
    draft: Draft,
    target: PathBuf,
}

#[derive(Debug)]
enum Draft {
    /// A pipe or device.
    Direct(File),
    /// Has no name, so it disappears with the process, however that ends.
    #[cfg(target_os = "linux")]
    Unnamed(File),
    /// Removed when dropped; left behind when the process is killed.
    Named(tempfile::NamedTempFile),
}

impl Output {
    /// Begins a file. Nothing appears under its name before [`finish`](Self::finish).
    ///
    /// # Errors
    ///
    /// As the system reports, here and below.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let permissions = match fs::metadata(path) {
            Ok(metadata) if metadata.is_file() => Some(metadata.permissions()),
            Ok(_) => {
                // Open the given name: the links of /dev/fd and /proc lead to names such as `pipe:[1]`.
                let file = OpenOptions::new().write(true).open(path)?;
                let (draft, target) = (Draft::Direct(file), path.into());
                return Ok(Self { draft, target });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let target = end_of_links(path)?;
        let draft = Draft::create(directory_of(&target), permissions.is_some())?;
        let mut output = Self { draft, target };
        if let Some(permissions) = permissions {
            output.file().set_permissions(permissions)?;
        }
        Ok(output)
    }

    /// The file to write to.
    pub(crate) fn file(&mut self) -> &mut File {
        match &mut self.draft {
            #[cfg(target_os = "linux")]
            Draft::Unnamed(file) => file,
            Draft::Direct(file) => file,
            Draft::Named(file) => file.as_file_mut(),
        }
    }

    /// Waits until the file is on the disk, and puts it in its place.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        if matches!(self.draft, Draft::Direct(_)) {
            return Ok(());
        }
        self.file().sync_all()?;
        let directory = directory_of(&self.target);
        let temporary = match self.draft {
            Draft::Direct(_) => return Ok(()),
            // A link cannot replace a file, so the file gets a temporary name just before the rename.
            #[cfg(target_os = "linux")]
            Draft::Unnamed(file) => {
                use rustix::fs::{AtFlags, CWD, linkat};
                use std::os::fd::AsRawFd;
                let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
                let link = |path: &Path| {
                    linkat(CWD, &*unnamed, CWD, path, AtFlags::SYMLINK_FOLLOW)?;
                    Ok(())
                };
                temporary().make_in(directory, link)?.into_temp_path()
            }
            Draft::Named(file) => file.into_temp_path(),
        };
        temporary.persist(&self.target)?;
        // The file is complete. A directory without read permission cannot be opened.
        #[cfg(unix)]
        let _ = File::open(directory).and_then(|directory| directory.sync_all());
        Ok(())
    }
}

impl Draft {
    /// Creates the file in the target's directory, because a rename cannot cross file systems. If it replaces a
    /// file, it is private, so that nobody else can open it before it has that file's mode. Otherwise the umask
    /// decides.
    fn create(directory: &Path, private: bool) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        {
            use std::os::unix::fs::OpenOptionsExt;
            let unnamed = OpenOptions::new()
                .write(true)
                .custom_flags(rustix::fs::OFlags::TMPFILE.bits().cast_signed())
                .mode(if private { 0o600 } else { 0o666 })
                .open(directory);
            // Not every file system supports unnamed files. Any other error occurs again below.
            if let Ok(file) = unnamed {
                return Ok(Draft::Unnamed(file));
            }
        }
        temporary()
            .make_in(directory, |path| create_new(path, private))
            .map(Draft::Named)
    }
}

fn temporary() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".nutfilter-").suffix(".tmp");
    builder
}

/// Creates a file. Never follows a link and never opens an existing file.
#[cfg_attr(not(unix), allow(unused_variables))]
fn create_new(path: &Path, private: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if private {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    options.open(path)
}

/// The target of the last link, whether or not it exists.
fn end_of_links(path: &Path) -> io::Result<PathBuf> {
    let mut target = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::canonicalize(&target) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => return found,
        }
        // The path does not exist, or is a link to nothing.
        let Ok(next) = fs::read_link(&target) else {
            return Ok(target);
        };
        // A relative link is relative to its own directory.
        target = directory_of(&target).join(next);
    }
    Err(io::Error::other("too many symbolic links"))
}

/// More links in a row than common systems follow.
const MAX_LINKS: usize = 40;

/// The directory of an existing or future file.
fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn planted_link_for_the_temporary_file_is_not_followed() {
        let directory = tempfile::tempdir().expect("a directory");
        let victim = directory.path().join("victim");
        fs::write(&victim, "precious").expect("a file");
        let planted = directory.path().join("planted");
        std::os::unix::fs::symlink(&victim, &planted).expect("a link");
        let error = create_new(&planted, false).expect_err("a link is there");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);

        // A name derived from the process ID could be planted in advance.
        let guessed = format!(".out.{}.tmp", std::process::id());
        std::os::unix::fs::symlink(&victim, directory.path().join(guessed)).expect("a link");
        let out = directory.path().join("out");
        let mut output = Output::create(&out).expect("a draft");
        output.file().write_all(b"new").expect("written bytes");
        output.finish().expect("a written file");
        assert_eq!(fs::read(&out).expect("the output"), b"new");
        assert_eq!(fs::read(&victim).expect("the victim"), b"precious");
    }
}
