//! Objects as files of a directory, for any static file server.
//!
//! - A file is replaced as a whole: a reader gets the old or the new one, never a mixture.
//! - Files are written in the order of the objects, and the first failure ends the publication. An object that names others
//!   comes after them. So after a crash, everything that is named exists.
//! - A file is never replaced by an older one. Publishers of one directory take turns.
//! - Nothing is deleted.
//!
//! The modification time of a file is the date of its object. File servers send it as `Last-Modified` and make the
//! `ETag` of it. Media types and cache rules cannot be kept in a file: they are the file server's to configure.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nutfilter_mint::Object;

/// The directory for the lock and for unfinished files. No object has such a path.
const OWN: &str = ".nutfilter";

/// A file dated later than this from now was published with a wrong clock, and is replaced. Wallets reject such a filter.
const MAX_AHEAD: Duration = Duration::from_secs(300);

/// A directory to which objects are published.
#[derive(Debug)]
pub struct Directory {
    root: PathBuf,
}

/// Result of a publication.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Number of files written.
    pub written: usize,
    /// Number of bytes written.
    pub bytes: u64,
    /// Number of files that were there already.
    pub unchanged: usize,
    /// Paths at which another publisher has a later file.
    pub superseded: Vec<String>,
}

/// Why a publication ended early. All objects before this one are published.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct PublishError {
    path: PathBuf,
    source: io::Error,
}

impl Directory {
    /// Opens a directory, which is created if it is missing.
    ///
    /// # Errors
    ///
    /// If the directory cannot be created.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, PublishError> {
        let root = root.into();
        match fs::create_dir_all(root.join(OWN)) {
            Ok(()) => Ok(Self { root }),
            Err(source) => Err(PublishError { path: root, source }),
        }
    }

    /// Publishes objects in their order: each comes after those that it names. An unchanged one costs one read of its file.
    ///
    /// # Errors
    ///
    /// The first failure. All objects before it are published, and none after it.
    pub fn publish(&self, objects: &[Object]) -> Result<Report, PublishError> {
        let own = self.root.join(OWN);
        let _lock = lock(&own).map_err(|source| PublishError { path: own, source })?;
        let mut report = Report::default();
        for object in objects {
            if !is_plain(&object.path) {
                // Some ids from before versions existed contain slashes.
                tracing::warn!(path = %object.path, "this object is only served by the service");
                continue;
            }
            let path = self.root.join(&*object.path);
            let published = self.publish_one(object, &path, &mut report);
            published.map_err(|source| PublishError { path, source })?;
        }
        Ok(report)
    }

    fn publish_one(&self, object: &Object, path: &Path, report: &mut Report) -> io::Result<()> {
        let bytes = object.body.bytes();
        let date = SystemTime::UNIX_EPOCH + Duration::from_secs(object.date);
        match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
            Ok(found) if !found.is_file() => return Err(io::Error::other("not a file")),
            Ok(found) => {
                let published = found.modified()?;
                if found.len() == bytes.len() as u64 && fs::read(path)? == *bytes {
                    report.unchanged += 1;
                    return Ok(());
                }
                if published > SystemTime::now() + MAX_AHEAD {
                    let path = path.display();
                    tracing::warn!(%path, "replacing an object that is dated in the future");
                } else if published > date {
                    report.superseded.push(object.path.to_string());
                    return Ok(());
                }
            }
        }
        self.write(path, bytes, date)?;
        report.written += 1;
        report.bytes += bytes.len() as u64;
        Ok(())
    }

    fn write(&self, path: &Path, bytes: &[u8], date: SystemTime) -> io::Result<()> {
        let parent = path.parent().unwrap_or(&self.root);
        fs::create_dir_all(parent)?;
        let mut builder = tempfile::Builder::new();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // Readable for the file server, as far as the umask allows it.
            builder.permissions(fs::Permissions::from_mode(0o666));
        }
        let mut file = builder.tempfile_in(self.root.join(OWN))?;
        file.write_all(bytes)?;
        file.as_file().set_modified(date)?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        // The new name must be on disk before another object names it. Other systems cannot open a directory as a file.
        match cfg!(unix) {
            true => File::open(parent)?.sync_all(),
            false => Ok(()),
        }
    }
}

/// Keeps other publishers away until the file is dropped.
fn lock(own: &Path) -> io::Result<File> {
    fs::create_dir_all(own)?;
    let lock = File::create(own.join("lock"))?;
    lock.lock()?;
    // A publisher that was killed may have left unfinished files.
    for entry in fs::read_dir(own)? {
        let entry = entry?;
        if entry.file_name() != "lock" {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(lock)
}

/// Whether a reader's URL and a file with this path mean the same object.
fn is_plain(path: &str) -> bool {
    path.split('/').all(|segment| {
        !segment.is_empty()
            && !segment.starts_with('.')
            && !segment.contains(|c: char| c.is_control() || c == '\\')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_must_be_plain_and_relative() {
        for path in ["v1/keysets", "v1/filter/spent/I2yN+iRYfk/T", "a.json"] {
            assert!(is_plain(path), "{path}");
        }
        for path in [
            "", "/a", "a/", "a//b", "a/../b", ".", ".hidden", "a\\b", "a\0",
        ] {
            assert!(!is_plain(path), "{path}");
        }
    }
}
