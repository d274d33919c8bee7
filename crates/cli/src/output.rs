//! Where results go: standard output, a pipe, or a file that appears whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use crate::error::CliError;

/// Stdout, buffered. Flush it before the end: an error of a flush in `drop` is lost.
pub(crate) fn stdout() -> impl Write {
    BufWriter::new(io::stdout().lock())
}

/// Writes the whole of a result to stdout.
pub(crate) fn print(bytes: &[u8]) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    Ok(out.flush()?)
}

/// Prints a JSON value and a line end.
pub(crate) fn print_json(value: &serde_json::Value) -> Result<(), CliError> {
    print(format!("{value:#}\n").as_bytes())
}

/// A number of bytes for people: `2,631,549 (2.5 MiB)`.
pub(crate) fn size(bytes: u64) -> String {
    let exact = indicatif::HumanCount(bytes);
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    // The largest unit that leaves at least 1 in front of the point.
    let unit = (bytes.max(1).ilog2() / 10) as usize;
    match unit.checked_sub(1) {
        None => exact.to_string(),
        Some(i) => {
            let scaled = bytes as f64 / (1_u64 << (10 * unit)) as f64;
            format!("{exact} ({scaled:.1} {})", units[i])
        }
    }
}

/// Whether binary output would end up on somebody's screen.
pub(crate) fn stdout_is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Where a result goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Destination<'a> {
    Stdout,
    File(&'a Path),
}

impl<'a> Destination<'a> {
    /// No path, `-` and the names of this process's own standard output all mean standard output. (Opened by
    /// such a name, a redirected standard output would be written from its beginning.)
    pub(crate) fn of(path: Option<&'a Path>) -> Self {
        let names = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];
        match path {
            Some(path) if !names.iter().any(|name| path.as_os_str() == *name) => {
                Destination::File(path)
            }
            _ => Destination::Stdout,
        }
    }

    /// Writes what `contents` writes: to standard output as it comes, to a file as [`write_file_with`] does.
    pub(crate) fn write(
        self,
        contents: impl FnOnce(&mut dyn Write) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        match self {
            Destination::Stdout => {
                let mut out = stdout();
                contents(&mut out)?;
                Ok(out.flush()?)
            }
            Destination::File(path) => write_file_with(path, contents),
        }
    }

    /// An error of writing here.
    pub(crate) fn failed(self, error: &io::Error) -> CliError {
        match self {
            Destination::File(path) => CliError::at(path.display(), error),
            Destination::Stdout if error.kind() == io::ErrorKind::BrokenPipe => {
                CliError::OutputClosed
            }
            Destination::Stdout => CliError::at("standard output", error),
        }
    }
}

/// Writes a file so that its name stands for the old contents or for all of the new ones, also after a
/// crash: an unnamed or temporary file in the same directory, synced, renamed over the old one. Where the
/// system has unnamed files (Linux), a killed process leaves nothing behind.
///
/// The mode of an existing file is kept (not its owner, which only root could give away). A symbolic link
/// stays one, and its target is replaced or made. A pipe or device is written to directly.
fn write_file_with(
    path: &Path,
    contents: impl FnOnce(&mut dyn Write) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let at = |error: io::Error| CliError::at(path.display(), error);
    let permissions = match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => Some(metadata.permissions()),
        Ok(_) => {
            // By the name that was given: the links of /dev/fd and /proc lead to names such as `pipe:[1]`.
            let mut file = OpenOptions::new().write(true).open(path).map_err(at)?;
            return contents(&mut file);
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(at(error)),
    };
    let target = end_of_links(path).map_err(at)?;
    let mut draft = Draft::create(&target, permissions.is_some()).map_err(at)?;
    if let Some(permissions) = permissions {
        draft.file().set_permissions(permissions).map_err(at)?;
    }
    contents(draft.file())?;
    draft.file().sync_all().map_err(at)?;
    draft.rename_to(&target).map_err(at)
}

/// A file that is being written and has no name yet, or a temporary one.
enum Draft {
    /// Has no name: it goes with the process, however that ends.
    #[cfg(target_os = "linux")]
    Unnamed(File),
    /// Removed when dropped, and left behind when the process is killed.
    Named(tempfile::NamedTempFile),
}

impl Draft {
    /// In the target's directory, as a rename does not cross file systems. Private, if it is to replace a file:
    /// nobody else can open it before it has the mode of that file. Otherwise as the umask says.
    fn create(target: &Path, private: bool) -> io::Result<Self> {
        let directory = directory_of(target);
        #[cfg(target_os = "linux")]
        {
            use std::os::unix::fs::OpenOptionsExt;
            let unnamed = OpenOptions::new()
                .write(true)
                .custom_flags(rustix::fs::OFlags::TMPFILE.bits().cast_signed())
                .mode(if private { 0o600 } else { 0o666 })
                .open(directory);
            // Not every file system has them. Any other error comes again below.
            if let Ok(file) = unnamed {
                return Ok(Draft::Unnamed(file));
            }
        }
        temporary()
            .make_in(directory, |path| create_new(path, private))
            .map(Draft::Named)
    }

    fn file(&mut self) -> &mut File {
        match self {
            #[cfg(target_os = "linux")]
            Draft::Unnamed(file) => file,
            Draft::Named(file) => file.as_file_mut(),
        }
    }

    fn rename_to(self, target: &Path) -> io::Result<()> {
        let temporary = match self {
            // A link cannot replace a file, so it gets a temporary name for the moment until the rename.
            #[cfg(target_os = "linux")]
            Draft::Unnamed(file) => {
                use rustix::fs::{AtFlags, CWD, linkat};
                use std::os::fd::AsRawFd;
                let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
                let link = |path: &Path| {
                    linkat(CWD, &*unnamed, CWD, path, AtFlags::SYMLINK_FOLLOW)?;
                    Ok(())
                };
                let directory = directory_of(target);
                temporary().make_in(directory, link)?.into_temp_path()
            }
            Draft::Named(file) => file.into_temp_path(),
        };
        temporary.persist(target).map_err(|error| error.error)
    }
}

fn temporary() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".nutfilter-").suffix(".tmp");
    builder
}

/// Where the last of the links points, whether or not something is there.
fn end_of_links(path: &Path) -> io::Result<PathBuf> {
    let mut target = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::canonicalize(&target) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => return found,
        }
        // Nothing is there, or a link to nothing.
        let Ok(next) = fs::read_link(&target) else {
            return Ok(target);
        };
        // A relative link counts from the directory that it is in.
        target = directory_of(&target).join(next);
    }
    Err(io::Error::other("too many symbolic links"))
}

/// More links in a row than the usual systems follow.
const MAX_LINKS: usize = 40;

/// The directory that a file is in, or will be.
pub(crate) fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Never follows a link, and never opens a file that exists.
fn create_new(path: &Path, private: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if private {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    #[cfg(not(unix))]
    let _ = private;
    options.open(path)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_planted_link_in_place_of_the_temporary_file_is_not_followed() {
        let directory = tempfile::tempdir().expect("a directory");
        let victim = directory.path().join("victim");
        fs::write(&victim, "precious").expect("a file");
        let planted = directory.path().join("planted");
        std::os::unix::fs::symlink(&victim, &planted).expect("a link");
        let error = create_new(&planted, false).expect_err("a link is there");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);

        // A name that follows from the process id could be planted beforehand.
        let guessed = format!(".out.{}.tmp", std::process::id());
        std::os::unix::fs::symlink(&victim, directory.path().join(guessed)).expect("a link");
        let out = directory.path().join("out");
        let contents = |file: &mut dyn Write| Ok(file.write_all(b"new")?);
        write_file_with(&out, contents).expect("a written file");
        assert_eq!(fs::read(&victim).expect("the victim"), b"precious");
    }
}
