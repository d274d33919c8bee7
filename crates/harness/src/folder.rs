//! [`Folder`]: for the cases that work on files.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A new folder that is removed on drop; in memory if the system supports it.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    /// With these files.
    pub(crate) fn of(
        files: impl IntoIterator<Item = (impl AsRef<Path>, impl AsRef<[u8]>)>,
    ) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("nutfilter-harness-{}-{count}", std::process::id());
        let memory = Path::new("/dev/shm");
        let parent = match memory.is_dir() {
            true => memory.to_owned(),
            false => std::env::temp_dir(),
        };
        let folder = Self(parent.join(name));
        // A process with the same ID may have left one.
        let _ = fs::remove_dir_all(&folder.0);
        fs::create_dir(&folder.0).expect("a folder");
        for (name, bytes) in files {
            let path = folder.0.join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, bytes).expect("room");
        }
        folder
    }

    pub(crate) fn empty() -> Self {
        Self::of([("", ""); 0])
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
