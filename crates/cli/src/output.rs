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
/// What is not a regular file (`/dev/null`, a named pipe) is written to directly; a symbolic link stays
/// one, and the file it points to is replaced.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    let at = |error: io::Error| CliError::at(path.display(), error);
    let target = match fs::canonicalize(path) {
        Ok(target) => target,
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
        Err(error) => return Err(at(error)),
    };
    if target.exists() && !target.is_file() {
        let mut file = OpenOptions::new().write(true).open(&target).map_err(at)?;
        return file.write_all(bytes).map_err(at);
    }
    let temporary = temporary_beside(&target)?;
    write_and_rename(&temporary, &target, bytes).map_err(|error| {
        // Best effort: it may never have been made, and the first error is the one to tell.
        let _ = fs::remove_file(&temporary);
        at(error)
    })
}

/// In the same directory, as a rename does not cross file systems.
fn temporary_beside(target: &Path) -> Result<PathBuf, CliError> {
    let name = target
        .file_name()
        .ok_or_else(|| CliError::at(target.display(), "is not the name of a file"))?;
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}.tmp", std::process::id()));
    Ok(target.with_file_name(temporary))
}

fn write_and_rename(temporary: &Path, target: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(temporary, target)
}
