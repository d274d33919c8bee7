//! One object: how it is written, and how it is opened.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _, Write};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use crate::gzip::Gzip;

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
}

#[derive(Debug)]
pub(crate) struct FileContent {
    pub(crate) path: PathBuf,
    pub(crate) length: u64,
    pub(crate) id: FileId,
    /// The bytes of a small file, once somebody asked for them: then the system tells only that it is still there.
    pub(crate) kept: OnceLock<Bytes>,
}

/// The most bytes that are kept. To open, read and close a small file takes a third of the time of an answer.
const KEPT: u64 = 4096;

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
    /// All bytes.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn read(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Memory(bytes) => Ok(bytes.into()),
            Self::File(mut file, length) => {
                let mut bytes = Vec::with_capacity(length as usize);
                file.read_to_end(&mut bytes)?;
                Ok(bytes)
            }
        }
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
            Content::File(content) => content.open(),
        }
    }

    /// Whether the bytes are still where they were put.
    pub(crate) fn is_intact(&self) -> bool {
        [&self.plain, &self.gzip].into_iter().all(|content| match content {
            Content::Memory(_) => true,
            Content::File(content) => {
                fs::metadata(&content.path).and_then(|found| content.check(&found)).is_ok()
            }
        })
    }
}

impl FileContent {
    fn open(&self) -> io::Result<Opened> {
        if let Some(bytes) = self.kept.get() {
            self.check(&fs::metadata(&self.path)?)?;
            return Ok(Opened::Memory(bytes.clone()));
        }
        let file = File::open(&self.path)?;
        self.check(&file.metadata()?)?;
        let opened = Opened::File(file, self.length);
        if self.length > KEPT {
            return Ok(opened);
        }
        let bytes = opened.read()?;
        if bytes.len() as u64 != self.length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Opened::Memory(self.kept.get_or_init(|| bytes.into()).clone()))
    }

    fn check(&self, found: &Metadata) -> io::Result<()> {
        if FileId::of(found) == self.id {
            return Ok(());
        }
        let path = self.path.display();
        Err(io::Error::other(format!("{path}: was replaced by another program")))
    }
}

/// The tag of an object with these bytes.
#[must_use]
pub fn tag_of(plain: &[u8]) -> String {
    hex(&Sha256::digest(plain))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes both forms of an object, plain and compressed, in one pass. Returns its tag, too.
pub(crate) fn write_forms<W: Write>(
    [plain, gzip]: [W; 2],
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<(String, [W; 2])> {
    let mut forms = FormsWriter { plain, gzip: Gzip::new(gzip), tag: Sha256::new() };
    write(&mut forms)?;
    let tag = hex(&forms.tag.finalize());
    Ok((tag, [forms.plain, forms.gzip.finish()?]))
}

struct FormsWriter<W> {
    plain: W,
    gzip: Gzip<W>,
    tag: Sha256,
}

impl<W: Write> Write for FormsWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.plain.write_all(bytes)?;
        self.gzip.write_all(bytes)?;
        self.tag.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
