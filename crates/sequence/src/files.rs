//! Durable files: created once, synced, and never overwritten. Only the state file is replaced, by a rename.
//! [`SealedFile`] is the one way in which they are read.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Read};
use std::path::{Path, PathBuf};

use nutfilter_cashu::state_filters::manifest::Hash;
use sha2::{Digest, Sha256};

use crate::error::{Error, at};

const BUFFER: usize = 64 << 10;

/// A published file. It never changes, so other bytes are damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its SHA-256.
    pub sha256: Hash,
}

impl SealedFile {
    /// Reads the file.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is damaged.
    pub fn read(&self) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        self.visit(|piece| bytes.extend_from_slice(piece))?;
        Ok(bytes)
    }

    /// Checks the file.
    ///
    /// # Errors
    ///
    /// As [`SealedFile::read`].
    pub fn check(&self) -> Result<(), Error> {
        self.visit(|_| ())
    }

    fn visit(&self, mut visit: impl FnMut(&[u8])) -> Result<(), Error> {
        let mut file = File::open(&self.path).map_err(at(&self.path))?;
        let (mut digest, mut piece) = (Sha256::new(), vec![0; BUFFER]);
        loop {
            let bytes = match file.read(&mut piece).map_err(at(&self.path))? {
                0 => break,
                read => &piece[..read],
            };
            digest.update(bytes);
            visit(bytes);
        }
        match Hash::from(digest.finalize()) == self.sha256 {
            true => Ok(()),
            false => Err(Error::altered(&self.path)),
        }
    }
}

/// A file that is being written.
pub(crate) struct NewFile<'a> {
    path: &'a Path,
    file: BufWriter<File>,
    digest: Sha256,
    length: u64,
}

/// A complete file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    pub(crate) length: u64,
    pub(crate) sha256: Hash,
}

/// Creates a file that does not exist yet.
pub(crate) fn create(path: &Path) -> Result<NewFile<'_>, Error> {
    let file = nutfilter_files::create(path).map_err(at(path))?;
    Ok(NewFile {
        path,
        file: BufWriter::with_capacity(BUFFER, file),
        digest: Sha256::new(),
        length: 0,
    })
}

impl NewFile<'_> {
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.digest.update(bytes);
        self.length += bytes.len() as u64;
        nutfilter_files::write_all(&mut self.file, bytes).map_err(at(self.path))
    }

    /// Writes the rest and waits until all of it is on the disk.
    pub(crate) fn finish(self) -> Result<Written, Error> {
        let file = self
            .file
            .into_inner()
            .map_err(io::IntoInnerError::into_error);
        let synced = file.and_then(|file| nutfilter_files::sync(&file));
        synced.map_err(at(self.path))?;
        Ok(Written {
            length: self.length,
            sha256: self.digest.finalize().into(),
        })
    }
}

/// Creates a file with these bytes.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<Written, Error> {
    let mut file = create(path)?;
    file.write(bytes)?;
    file.finish()
}

/// Replaces a file: afterwards it has either its old bytes or these.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let new = path.with_extension("new");
    nutfilter_files::replace(path, &new, bytes).map_err(at(path))
}

/// The functions of `nutfilter-files`, with errors that name the file.
macro_rules! with_path {
    ($($name:ident($($argument:ident: $type:ty)?) -> $result:ty;)*) => {$(
        pub(crate) fn $name(path: &Path, $($argument: $type)?) -> Result<$result, Error> {
            nutfilter_files::$name(path, $($argument)?).map_err(at(path))
        }
    )*};
}

with_path! {
    append(bytes: &[u8]) -> ();
    cut(length: u64) -> ();
    install(new: &Path) -> ();
    make_directory() -> ();
    names() -> Vec<String>;
    remove() -> ();
    remove_others(named: &BTreeSet<PathBuf>) -> ();
    sync_directory() -> ();
}
