//! Objects as files of a directory, for any static file server.
//!
//! The modification time of a file is the date of its object. File servers send it as `Last-Modified` and make the
//! `ETag` of it. Media types and cache rules cannot be kept in a file: they are the file server's to configure.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use data_encoding::HEXLOWER;
use nutfilter_cashu::state_filters::manifest::hash;
use nutfilter_mint::Object;
use tempfile::Builder;

use crate::{DestinationError, Found, Put, Store, StoreError, Version};

/// The directory for the lock and for unfinished files. No object has such a path.
const OWN: &str = ".nutfilter";

pub(crate) struct Directory {
    root: PathBuf,
}

impl Directory {
    pub(crate) fn open(root: &Path) -> Result<Self, DestinationError> {
        let failed = |source| DestinationError::Directory {
            path: root.display().to_string(),
            source,
        };
        if root.as_os_str().is_empty() {
            return Err(DestinationError::url("the path is empty"));
        }
        fs::create_dir_all(root.join(OWN)).map_err(failed)?;
        Ok(Self {
            root: root.to_owned(),
        })
    }

    fn write(&self, object: &Object, bytes: &[u8], replace: bool) -> io::Result<Put> {
        let target = self.root.join(&*object.path);
        let parent = target.parent().unwrap_or(&self.root);
        fs::create_dir_all(parent)?;
        let mut builder = Builder::new();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // Readable for the file server, as far as the umask allows it.
            builder.permissions(fs::Permissions::from_mode(0o666));
        }
        let mut file = builder.tempfile_in(self.root.join(OWN))?;
        file.write_all(bytes)?;
        if let Some(date) = object.date {
            file.as_file()
                .set_modified(UNIX_EPOCH + Duration::from_secs(date))?;
        }
        file.as_file().sync_all()?;
        let persisted = match replace {
            true => file.persist(&target),
            false => file.persist_noclobber(&target),
        };
        match persisted {
            Ok(_) => {}
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                return Ok(Put::Conflict);
            }
            Err(error) => return Err(error.error),
        }
        // The new name must be on disk before another object names it.
        nutfilter_files::sync_directory(parent)?;
        Ok(Put::Written)
    }
}

impl Store for Directory {
    fn lock(&mut self) -> Result<Option<File>, StoreError> {
        let own = self.root.join(OWN);
        let lock = || -> io::Result<File> {
            fs::create_dir_all(&own)?;
            let lock = File::create(own.join("lock"))?;
            lock.lock()?;
            // A publisher that was killed may have left unfinished files.
            for entry in fs::read_dir(&own)? {
                let entry = entry?;
                if entry.file_name() != "lock" {
                    fs::remove_file(entry.path())?;
                }
            }
            Ok(lock)
        };
        lock()
            .map(Some)
            .map_err(|error| StoreError::new("locking the directory", error))
    }

    fn read(&mut self, path: &str) -> Result<Option<(Vec<u8>, Version)>, StoreError> {
        match fs::read(self.root.join(path)) {
            Ok(bytes) => Ok(Some((bytes, Version::default()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::new("reading", error)),
        }
    }

    fn find(&mut self, object: &Object) -> Result<Option<Found>, StoreError> {
        let path = self.root.join(&*object.path);
        let failed = |error| StoreError::new("reading", error);
        let metadata = match fs::metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let date = metadata.modified().map_err(failed)?;
        let date = date
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs();
        let digest = HEXLOWER.encode(&hash(&fs::read(&path).map_err(failed)?));
        Ok(Some(Found {
            version: Version::default(),
            date,
            is_same: digest == object.digest(),
        }))
    }

    /// Versions are not compared, because the directory is locked.
    fn put(
        &mut self,
        object: &Object,
        bytes: Bytes,
        _cache: &str,
        over: Option<&Version>,
    ) -> Result<Put, StoreError> {
        self.write(object, &bytes, over.is_some())
            .map_err(|error| StoreError::new("writing", error))
    }
}
