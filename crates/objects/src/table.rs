//! The newest object of each path.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::directory::{Directory, OpenError, Refused, Unfinished};
use crate::object::{Content, Object, Opened, write_forms};

/// Objects by path, in memory or in a directory. Many threads may read while one writes.
#[derive(Debug)]
pub struct Table {
    objects: RwLock<HashMap<Arc<str>, Arc<Object>>>,
    /// `None` if the objects are in memory.
    directory: Option<Mutex<Directory>>,
    /// Files of the directory that were not used at the start.
    refused: Vec<Refused>,
    /// Whether a file was found to be gone, or another one.
    disturbed: AtomicBool,
}

/// An object that was made and not placed yet.
#[derive(Debug)]
pub struct Made {
    path: Arc<str>,
    media_type: &'static str,
    date: u64,
    tag: String,
    forms: Forms,
}

#[derive(Debug)]
enum Forms {
    Memory([Content; 2]),
    Files([Unfinished; 2]),
}

impl Table {
    /// An empty table in memory.
    #[must_use]
    pub fn in_memory() -> Self {
        Self {
            objects: RwLock::default(),
            directory: None,
            refused: vec![],
            disturbed: AtomicBool::new(false),
        }
    }

    /// A table whose objects are files of a directory, which is created if it does not exist. Files get this mode, such as
    /// `0o644`. The table begins with the objects that are there. `check` tells from the path and the plain bytes of one its
    /// media type and date, or what is wrong with it; a file that is refused is not served. It stays, because it may belong to
    /// somebody else, until an object is put in its place.
    ///
    /// # Errors
    ///
    /// If another process publishes there, or the system refuses something.
    ///
    /// # Cost
    ///
    /// Every file is read once.
    pub fn in_directory(
        root: &Path,
        mode: u32,
        check: impl Fn(&str, &[u8]) -> Result<(&'static str, u64), String>,
    ) -> Result<Self, OpenError> {
        let directory = Directory::open(root, mode)?;
        let loaded = directory.load(check);
        let (objects, refused) = loaded.map_err(|error| OpenError::Io(root.into(), error))?;
        let objects =
            objects.into_iter().map(|object| (Arc::clone(&object.path), Arc::new(object)));
        Ok(Self {
            objects: RwLock::new(objects.collect()),
            directory: Some(Mutex::new(directory)),
            refused,
            disturbed: AtomicBool::new(false),
        })
    }

    /// The files of the directory that were not used at the start.
    #[must_use]
    pub fn refused(&self) -> &[Refused] {
        &self.refused
    }

    /// Whether the objects are in memory alone, and end with the process.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        self.directory.is_none()
    }

    /// Puts an object with the bytes that `write` writes, which is true as of `date`, in the place of the one at its path.
    ///
    /// # Errors
    ///
    /// That of [`make`](Self::make) or [`place`](Self::place).
    pub fn put(
        &self,
        path: &str,
        media_type: &'static str,
        date: u64,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        self.place([self.make(path, media_type, date, write)?]).map_err(|(_, error)| error)
    }

    /// Makes an object with the bytes that `write` writes, which is true as of `date`. Nobody sees it before it is placed.
    ///
    /// # Errors
    ///
    /// That of `write`; or if its files cannot be written, or no file can have this path.
    ///
    /// # Cost
    ///
    /// One pass, which also compresses the bytes and takes the tag. In a directory they are not kept in memory. Write some tens
    /// of KiB at once, so that they stay in the CPU's cache.
    pub fn make(
        &self,
        path: &str,
        media_type: &'static str,
        date: u64,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<Made> {
        let (tag, forms) = match self.directory() {
            None => {
                // About as long as the one before, so that nothing is copied while it grows.
                let before = self.get(path);
                let contents = before.iter().flat_map(|object| [&object.plain, &object.gzip]);
                let mut lengths = contents.map(|content| match content {
                    Content::Memory(bytes) => bytes.len() + bytes.len() / 64,
                    Content::File(_) => 0,
                });
                let mut room = || Vec::with_capacity(lengths.next().unwrap_or(0));
                let (tag, forms) = write_forms([room(), room()], write)?;
                let forms = forms.map(|mut bytes: Vec<u8>| {
                    // Growing may have doubled the capacity.
                    bytes.shrink_to_fit();
                    Content::Memory(bytes.into())
                });
                (tag, Forms::Memory(forms))
            }
            Some(directory) => {
                let (tag, files) = write_forms(directory.create(path)?, write)?;
                for file in &files {
                    // Some systems lose what a renamed file contains in a power loss.
                    file.file.sync_all()?;
                }
                (tag, Forms::Files(files))
            }
        };
        Ok(Made { path: path.into(), media_type, date, tag, forms })
    }

    /// Puts objects in the places of those at their paths, in this order: all at once for those who ask this table, one after
    /// the other for those who read its files.
    ///
    /// # Errors
    ///
    /// If a file cannot be put in its place, with the path of its object. That object and those after it stay the old ones.
    pub fn place(&self, made: impl IntoIterator<Item = Made>) -> Result<(), (String, io::Error)> {
        let mut directory = self.directory();
        let (mut placed, mut result) = (vec![], Ok(()));
        {
            // Nobody opens the files of an old object while those of the new one come.
            let mut objects = self.write();
            for made in made {
                let path = Arc::clone(&made.path);
                let forms = match (made.forms, &mut directory) {
                    (Forms::Files(files), Some(directory)) => directory.install(&path, files),
                    (Forms::Memory(forms), None) => Ok(forms),
                    _ => Err(io::Error::other("made for another table")),
                };
                let [plain, gzip] = match forms {
                    Ok(forms) => forms,
                    Err(error) => {
                        result = Err((path.to_string(), error));
                        break;
                    }
                };
                let object = Object {
                    path: Arc::clone(&path),
                    media_type: made.media_type,
                    date: made.date,
                    tag: made.tag,
                    plain,
                    gzip,
                };
                placed.push(Arc::clone(&path));
                objects.insert(path, Arc::new(object));
            }
        }
        if let (Some(directory), Some(first)) = (directory, placed.first()) {
            let synced = directory.sync(placed.iter().map(|path| &**path));
            synced.map_err(|error| (first.to_string(), error))?;
        }
        result
    }

    /// Keeps the objects of these paths. The others are no longer answered, and their files are removed after an hour.
    pub fn retain(&self, keeps: impl Fn(&str) -> bool) {
        let directory = self.directory();
        let mut left = vec![];
        self.write().retain(|path, _| {
            let keeps = keeps(path);
            if !keeps {
                left.push(Arc::clone(path));
            }
            keeps
        });
        if let Some(mut directory) = directory {
            left.iter().for_each(|path| directory.leave_path(path));
            directory.sweep();
        }
    }

    /// Removes an object and its files at once, because it is not true, also files that were refused at the start.
    pub fn remove(&self, path: &str) {
        let directory = self.directory();
        self.write().remove(path);
        if let Some(mut directory) = directory {
            directory.remove(path);
        }
    }

    /// The object at a path, without a leading slash.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<Arc<Object>> {
        self.read().get(path).cloned()
    }

    /// The object at a path with its bytes, plain or compressed.
    ///
    /// # Errors
    ///
    /// If its file is gone, or is another one.
    pub fn open(&self, path: &str, gzip: bool) -> io::Result<Option<(Arc<Object>, Opened)>> {
        let objects = self.read();
        match objects.get(path) {
            None => Ok(None),
            Some(object) => {
                let opened = object.open(gzip).inspect_err(|_| {
                    if !object.is_intact() {
                        self.disturbed.store(true, Ordering::Relaxed);
                    }
                })?;
                Ok(Some((Arc::clone(object), opened)))
            }
        }
    }

    /// Whether since the last call somebody asked for an object whose file is gone, or is another one. Another
    /// [`put`](Self::put) repairs it.
    pub fn was_disturbed(&self) -> bool {
        self.disturbed.swap(false, Ordering::Relaxed)
    }

    /// Whether the object at a path is there, undisturbed by other programs.
    #[must_use]
    pub fn is_intact(&self, path: &str) -> bool {
        self.get(path).is_some_and(|object| object.is_intact())
    }

    /// Makes the directory again if somebody removed it.
    ///
    /// # Errors
    ///
    /// If the system refuses that, or another process was faster.
    pub fn restore(&self) -> Result<(), OpenError> {
        self.directory().map_or(Ok(()), |mut directory| directory.restore())
    }

    /// All objects, in no order.
    #[must_use]
    pub fn objects(&self) -> Vec<Arc<Object>> {
        self.read().values().cloned().collect()
    }

    fn directory(&self) -> Option<MutexGuard<'_, Directory>> {
        let directory = self.directory.as_ref()?;
        Some(directory.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<Arc<str>, Arc<Object>>> {
        self.objects.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<Arc<str>, Arc<Object>>> {
        self.objects.write().unwrap_or_else(PoisonError::into_inner)
    }
}
