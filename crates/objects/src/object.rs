//! One object: how it is written, and how it is opened.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use zlib_rs::{DeflateConfig, ReturnCode, Strategy, compress_bound, compress_slice};

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
                    false => Err(io::Error::other(format!(
                        "{}: was replaced by another program",
                        content.path.display()
                    ))),
                }
            }
        }
    }

    /// Whether the bytes are still where they were put.
    pub(crate) fn is_intact(&self) -> bool {
        [&self.plain, &self.gzip]
            .into_iter()
            .all(|content| match content {
                Content::Memory(_) => true,
                Content::File(content) => fs::metadata(&content.path)
                    .is_ok_and(|metadata| FileId::of(&metadata) == content.id),
            })
    }
}

/// The tag of an object with these bytes.
#[must_use]
pub fn tag_of(plain: &[u8]) -> String {
    const_hex::encode(Sha256::digest(plain))
}

/// Compresses bytes. Nearly all of a filter's JSON is base64 of uniform bytes, in which there are no repetitions to search
/// for: all levels come to 0.753 of its length. A Huffman code alone takes half of the time of level 2.
pub(crate) fn compressed(plain: &[u8]) -> io::Result<Vec<u8>> {
    let config = DeflateConfig {
        // The window of 2^15 bytes, and 16 for the gzip format.
        window_bits: 15 + 16,
        strategy: Strategy::HuffmanOnly,
        ..DeflateConfig::default()
    };
    /// Length of the header and the trailer of gzip, in bytes.
    const FRAME: usize = 18;
    let most = compress_bound(plain.len()).saturating_add(FRAME);
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(most)?;
    bytes.resize(most, 0);
    let length = match compress_slice(&mut bytes, plain, config) {
        (compressed, ReturnCode::Ok) => compressed.len(),
        (_, code) => return Err(io::Error::other(format!("compression failed: {code:?}"))),
    };
    bytes.truncate(length);
    Ok(bytes)
}
