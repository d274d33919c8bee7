//! Where results go: stdout, or a file that appears whole or not at all.

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

/// Whether binary output would end up on somebody's screen.
pub(crate) fn stdout_is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Writes a file so that its name stands for the old contents or for all of the new ones, also after a
/// crash: a temporary file beside it, synced, renamed over it.
///
/// The mode of a file that is there stays as it is (not its owner, which only root could give away). What
/// is not a regular file (`/dev/null`, a named pipe) is written to directly; a symbolic link stays one, and
/// the file it points to is replaced, or made.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    write_file_with(path, |file| {
        file.write_all(bytes)
            .map_err(|error| CliError::at(path.display(), error))
    })
}

/// [`write_file`] for contents that come piece by piece; `contents` names the file in its own errors.
pub(crate) fn write_file_with(
    path: &Path,
    contents: impl FnOnce(&mut File) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let at = |error: io::Error| CliError::at(path.display(), error);
    let target = end_of_links(path).map_err(at)?;
    let permissions = match fs::metadata(&target) {
        Ok(metadata) if metadata.is_file() => Some(metadata.permissions()),
        Ok(_) => {
            let mut file = OpenOptions::new().write(true).open(&target).map_err(at)?;
            return contents(&mut file);
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(at(error)),
    };
    // In the same directory, as a rename does not cross file systems. Dropped, the file is removed.
    let mut temporary = tempfile::Builder::new()
        .prefix(".nutfilter-")
        .suffix(".tmp")
        .make_in(directory_of(&target), |path| {
            create_new(path, permissions.is_some())
        })
        .map_err(at)?;
    if let Some(permissions) = permissions {
        temporary
            .as_file()
            .set_permissions(permissions)
            .map_err(at)?;
    }
    contents(temporary.as_file_mut())?;
    temporary.as_file().sync_all().map_err(at)?;
    temporary
        .persist(&target)
        .map_err(|error| at(error.error))?;
    Ok(())
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

/// Never follows a link, and never opens what somebody else has put there. Private: nobody else can open it
/// before it has the mode of the file it replaces. Otherwise as the umask says.
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
        write_file(&directory.path().join("out"), b"new").expect("a written file");
        assert_eq!(fs::read(&victim).expect("the victim"), b"precious");
    }
}
