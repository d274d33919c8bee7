//! One object: how it is written, and how it is opened.

use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;

/// Base64 and hex digits shrink by their entropy only, which the fastest level finds.
pub(crate) const LEVEL: Compression = Compression::new(1);

/// Bytes at a path that never change.
#[derive(Debug)]
pub struct Object {
    pub(crate) path: Arc<str>,
    pub(crate) media_type: &'static str,
    pub(crate) date: u64,
    pub(crate) tag: String,
    pub(crate) plain: Content,
    pub(crate) gzip: Content,
}

/// Where the bytes are.
#[derive(Debug)]
pub(crate) enum Content {
    Memory(Bytes),
    File(FileContent),
    /// Written, and not yet at its place.
    New(NamedTempFile, u64),
}

#[derive(Debug)]
pub(crate) struct FileContent {
    pub(crate) path: PathBuf,
    pub(crate) length: u64,
    pub(crate) id: FileId,
}

/// Tells a file from one that replaces it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FileId(u64, u64, Option<std::time::SystemTime>);

impl FileId {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        let (device, inode) = {
            use std::os::unix::fs::MetadataExt;
            (metadata.dev(), metadata.ino())
        };
        #[cfg(not(unix))]
        let (device, inode) = (0, metadata.len());
        Self(device, inode, metadata.modified().ok())
    }
}

/// The bytes of an object, ready to be sent.
#[derive(Debug)]
pub enum Opened {
    /// In memory.
    Memory(Bytes),
    /// An open file of this many bytes.
    File(File, u64),
}

impl Opened {
    /// The number of bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Opened::Memory(bytes) => bytes.len() as u64,
            Opened::File(_, length) => *length,
        }
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Object {
    /// The path, without a leading slash.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The media type.
    #[must_use]
    pub fn media_type(&self) -> &'static str {
        self.media_type
    }

    /// The date, in Unix seconds: the object is true as of then.
    #[must_use]
    pub fn date(&self) -> u64 {
        self.date
    }

    /// The SHA-256 of the plain bytes, in hex.
    #[must_use]
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// Opens the bytes, plain or compressed. Cheap, but for the opening of a file.
    ///
    /// # Errors
    ///
    /// If the file is gone, or is another one.
    pub fn open(&self, gzip: bool) -> io::Result<Opened> {
        match if gzip { &self.gzip } else { &self.plain } {
            Content::Memory(bytes) => Ok(Opened::Memory(bytes.clone())),
            Content::File(content) => {
                let file = File::open(&content.path)?;
                match FileId::of(&file.metadata()?) == content.id {
                    true => Ok(Opened::File(file, content.length)),
                    false => Err(io::Error::other(format!("{}: was replaced by another program", content.path.display()))),
                }
            }
            Content::New(file, length) => Ok(Opened::File(file.reopen()?, *length)),
        }
    }

    /// Whether the bytes are still where they were put.
    pub(crate) fn is_intact(&self) -> bool {
        [&self.plain, &self.gzip].into_iter().all(|content| match content {
            Content::Memory(_) => true,
            Content::File(content) => {
                fs::metadata(&content.path).is_ok_and(|metadata| FileId::of(&metadata) == content.id)
            }
            Content::New(..) => false,
        })
    }
}

/// The tag of an object with these bytes.
#[must_use]
pub fn tag_of(plain: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(plain))
}

/// An object that is being written: the plain bytes go in, and all forms come out.
pub struct Draft {
    path: Arc<str>,
    media_type: &'static str,
    plain: Sink,
    gzip: GzEncoder<Sink>,
    digest: Sha256,
}

/// Where a draft is written to.
enum Sink {
    Memory(Vec<u8>),
    File(BufWriter<NamedTempFile>, u64),
}

impl Sink {
    fn new(directory: Option<&Path>) -> io::Result<Self> {
        const BUFFER: usize = 256 << 10;
        Ok(match directory {
            None => Sink::Memory(vec![]),
            Some(directory) => {
                let file = tempfile::Builder::new()
                    .prefix(super::directory::TEMPORARY)
                    .tempfile_in(directory)?;
                Sink::File(BufWriter::with_capacity(BUFFER, file), 0)
            }
        })
    }

    fn finish(self) -> io::Result<Content> {
        Ok(match self {
            Sink::Memory(bytes) => Content::Memory(bytes.into()),
            Sink::File(file, length) => Content::New(file.into_inner().map_err(io::IntoInnerError::into_error)?, length),
        })
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::Memory(memory) => memory.write(bytes),
            Sink::File(file, length) => {
                let written = file.write(bytes)?;
                *length += written as u64;
                Ok(written)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::Memory(_) => Ok(()),
            Sink::File(file, _) => file.flush(),
        }
    }
}

impl Draft {
    /// A draft in memory, or of files in this directory.
    pub(crate) fn new(path: &str, media_type: &'static str, directory: Option<&Path>) -> io::Result<Self> {
        Ok(Self {
            path: path.into(),
            media_type,
            plain: Sink::new(directory)?,
            gzip: GzEncoder::new(Sink::new(directory)?, LEVEL),
            digest: Sha256::new(),
        })
    }

    /// Ends the object, which is true as of `date`, in Unix seconds.
    ///
    /// # Errors
    ///
    /// Errors of the files.
    pub fn finish(self, date: u64) -> io::Result<Object> {
        Ok(Object {
            path: self.path,
            media_type: self.media_type,
            date,
            tag: HEXLOWER.encode(&self.digest.finalize()),
            plain: self.plain.finish()?,
            gzip: self.gzip.finish()?.finish()?,
        })
    }
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.plain.write_all(bytes)?;
        self.gzip.write_all(bytes)?;
        self.digest.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Draft").field("path", &self.path).finish_non_exhaustive()
    }
}
