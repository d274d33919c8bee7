//! Files that are there whole or not at all.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// Writes `text` beside `path` and moves it there: whoever reads `path` sees the old text or the new one. Makes
/// the folders above it.
///
/// # Errors
///
/// Where a folder or the file cannot be written.
pub fn write_whole(path: &Path, text: &str) -> Result<(), Error> {
    let failed = |error| Error::write(path, error);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = path.with_file_name(name);
    let written = fs::write(&new, text).and_then(|()| fs::rename(&new, path));
    written.map_err(|error| {
        // What is left of it is of no use; that it stays is no second error to speak of.
        let _ = fs::remove_file(&new);
        failed(error)
    })
}

/// The text of a file.
pub(crate) fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|error| Error::read(path, error))
}

/// All files below `folder` whose name ends with `.json`, in the order of their paths.
pub(crate) fn json_files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |error| Error::read(folder, error);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            found.extend(json_files(&path)?);
        } else if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/er/a.json");
        for text in ["first", "second"] {
            write_whole(&path, text).unwrap();
            assert_eq!(read(&path).unwrap(), text);
        }
        assert_eq!(
            json_files(folder.path()).unwrap(),
            std::slice::from_ref(&path)
        );
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let taken = folder.path().join("taken");
        fs::create_dir(&taken).unwrap();
        fs::write(taken.join("inside"), "").unwrap();
        let error = write_whole(&taken, "text").unwrap_err().to_string();
        assert!(error.contains("taken"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
