//! Destinations of results: standard output, a pipe, or a file that is written atomically.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use crate::error::CliError;

/// Buffered stdout. Flush it explicitly: `drop` ignores the error of a flush.
pub(crate) fn stdout() -> impl Write {
    BufWriter::new(io::stdout().lock())
}

/// Writes a complete result to stdout.
pub(crate) fn print(bytes: &[u8]) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    Ok(out.flush()?)
}

/// Prints a JSON value and a line end.
pub(crate) fn print_json(value: &serde_json::Value) -> Result<(), CliError> {
    print(format!("{value:#}\n").as_bytes())
}

/// Formats a number of bytes for display: `2,631,549 (2.5 MiB)`.
pub(crate) fn size(bytes: u64) -> String {
    let exact = indicatif::HumanCount(bytes);
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    // The largest unit in which the number is at least 1.
    let unit = (bytes.max(1).ilog2() / 10) as usize;
    match unit.checked_sub(1) {
        None => exact.to_string(),
        Some(i) => {
            let scaled = bytes as f64 / (1_u64 << (10 * unit)) as f64;
            format!("{exact} ({scaled:.1} {})", units[i])
        }
    }
}

/// Formats a time like `2026-08-01 12:00:00 UTC`; as Unix seconds after the year 9999.
pub(crate) fn utc(unix_seconds: u64) -> String {
    let time = i64::try_from(unix_seconds).map(jiff::Timestamp::from_second);
    match time {
        Ok(Ok(time)) => time.strftime("%F %T UTC").to_string(),
        _ => format!("{unix_seconds} s after 1970"),
    }
}

/// Whether binary output would go to a terminal.
pub(crate) fn stdout_is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// The destination of a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Destination<'a> {
    Stdout,
    File(&'a Path),
}

impl<'a> Destination<'a> {
    /// No path, `-`, and the names of this process's own standard output all mean standard output. Opening a
    /// redirected standard output by such a name would overwrite it from its beginning.
    pub(crate) fn of(path: Option<&'a Path>) -> Self {
        let names = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];
        match path {
            Some(path) if !names.iter().any(|name| path.as_os_str() == *name) => {
                Destination::File(path)
            }
            _ => Destination::Stdout,
        }
    }

    /// Writes the output of `contents`: directly to standard output, or to a file as [`write_file_with`] does.
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

    /// The error for a failed write to this destination.
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

/// Writes a file atomically: its name refers to the old contents or to the complete new ones, even after a crash.
/// It writes an unnamed or temporary file in the same directory, syncs it, and renames it over the old one. Where
/// the system supports unnamed files (Linux), a killed process leaves nothing behind.
///
/// The mode of an existing file is kept, but not its owner, which only root could restore. A symbolic link stays,
/// and its target is replaced or created. A pipe or device is written to directly.
fn write_file_with(
    path: &Path,
    contents: impl FnOnce(&mut dyn Write) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let at = |error: io::Error| CliError::at(path.display(), error);
    let permissions = match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => Some(metadata.permissions()),
        Ok(_) => {
            // Open the given name: the links of /dev/fd and /proc lead to names such as `pipe:[1]`.
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
    draft.rename_to(&target).map_err(at)?;
    // The file is complete. A directory without read permission cannot be opened.
    let _ = nutfilter_files::sync_directory(directory_of(&target));
    Ok(())
}

/// A file that is being written under a temporary name or without a name.
enum Draft {
    /// Has no name, so it disappears with the process, however that ends.
    #[cfg(target_os = "linux")]
    Unnamed(File),
    /// Removed when dropped; left behind when the process is killed.
    Named(tempfile::NamedTempFile),
}

impl Draft {
    /// Creates the file in the target's directory, because a rename cannot cross file systems. If it replaces a
    /// file, it is private, so that nobody else can open it before it has that file's mode. Otherwise the umask
    /// decides.
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
            // Not every file system supports unnamed files. Any other error occurs again below.
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
pub(crate) fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Creates a file. Never follows a link and never opens an existing file.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_utc() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_782_399), "2000-02-28 23:59:59 UTC");
        assert_eq!(utc(u64::MAX), "18446744073709551615 s after 1970");
    }

    #[cfg(unix)]
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
        let contents = |file: &mut dyn Write| Ok(file.write_all(b"new")?);
        write_file_with(&out, contents).expect("a written file");
        assert_eq!(fs::read(&victim).expect("the victim"), b"precious");
    }
}
