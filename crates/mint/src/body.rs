//! Finished bodies: immutable bytes and their SHA-256.
//!
//! A body lies in memory, or in a mapped file without a name. The system can evict the pages of a mapped file, so
//! that sets larger than memory can be served.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use bytes::Bytes;
use sha2::{Digest, Sha256};

/// Size of the file buffer, in bytes. The text arrives in pieces of at most 64 KiB.
const FILE_BUFFER: usize = 64 << 10;

/// A finished body, the same in gzip if that is worth it, and their SHA-256. Clones share the bytes.
#[derive(Clone, Debug)]
pub struct Body {
    bytes: Bytes,
    gzip: Option<Bytes>,
    sha256: [u8; 32],
}

impl Body {
    /// Creates a body of bytes, with the same bytes in gzip.
    ///
    /// # Cost
    ///
    /// One pass over `bytes`.
    #[must_use]
    pub fn new(bytes: impl Into<Bytes>, gzip: Option<Bytes>) -> Self {
        let bytes = bytes.into();
        let sha256 = Sha256::digest(&bytes).into();
        Self {
            bytes,
            gzip,
            sha256,
        }
    }

    /// The bytes. Clones of the returned value share them.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The bytes in gzip.
    #[must_use]
    pub fn gzip(&self) -> Option<&Bytes> {
        self.gzip.as_ref()
    }

    /// The SHA-256 of the bytes.
    #[must_use]
    pub fn sha256(&self) -> &[u8; 32] {
        &self.sha256
    }
}

/// Where bodies are stored while they are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyPlace {
    /// In memory.
    Memory,
    /// On the disk of this directory, in files without a name. The system removes them when the process ends, also
    /// after a crash. Frequently requested bodies stay in the page cache. If a body was evicted, the thread that
    /// sends it reads it from disk again.
    Directory(PathBuf),
}

impl BodyPlace {
    /// Starts a body of about `bytes` bytes. In memory, it can then grow without reallocation.
    pub(crate) fn writer(&self, bytes: usize) -> io::Result<BodyWriter> {
        let sink = match self {
            BodyPlace::Memory => {
                let mut memory = Vec::new();
                memory.try_reserve_exact(bytes)?;
                Sink::Memory(memory)
            }
            BodyPlace::Directory(directory) => {
                let file = tempfile::tempfile_in(directory)?;
                Sink::File(BufWriter::with_capacity(FILE_BUFFER, file))
            }
        };
        Ok(BodyWriter { sink, written: 0 })
    }

    /// Stores finished bytes. In memory they are not copied.
    pub(crate) fn keep(&self, mut bytes: Vec<u8>) -> io::Result<Bytes> {
        match self {
            BodyPlace::Memory => {
                bytes.shrink_to_fit();
                Ok(bytes.into())
            }
            BodyPlace::Directory(_) => {
                let mut writer = self.writer(bytes.len())?;
                writer.write_all(&bytes)?;
                writer.finish()
            }
        }
    }
}

/// An unfinished body. If it is dropped before [`finish`](Self::finish), it leaves nothing behind.
#[derive(Debug)]
pub(crate) struct BodyWriter {
    sink: Sink,
    written: u64,
}

#[derive(Debug)]
enum Sink {
    Memory(Vec<u8>),
    File(BufWriter<File>),
}

impl BodyWriter {
    /// Finishes the body. If the disk refuses or loses what was written, the space is free again.
    pub(crate) fn finish(self) -> io::Result<Bytes> {
        match self.sink {
            Sink::Memory(mut memory) => {
                memory.shrink_to_fit();
                Ok(memory.into())
            }
            Sink::File(file) => {
                let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
                // A file system with delayed allocation may report missing space only here. Without this, a reader
                // could hit a page that was never written, and get a SIGBUS.
                file.sync_data()?;
                map(file, self.written)
            }
        }
    }
}

impl Write for BodyWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = match &mut self.sink {
            Sink::Memory(memory) => {
                memory.try_reserve(bytes.len())?;
                memory.write(bytes)?
            }
            Sink::File(file) => file.write(bytes)?,
        };
        self.written += taken as u64;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.sink {
            Sink::Memory(_) => Ok(()),
            Sink::File(file) => file.flush(),
        }
    }
}

/// Maps a file without a name. The caller passes its only descriptor.
#[expect(unsafe_code, reason = "mapping a file needs it")]
fn map(file: File, length: u64) -> io::Result<Bytes> {
    let found = file.metadata()?.len();
    if found != length {
        return Err(io::Error::other(format!(
            "file has {found} bytes, expected {length}"
        )));
    }
    // An empty file cannot be mapped.
    if length == 0 {
        return Ok(Bytes::new());
    }
    // SAFETY: The bytes of a map must not change, and its file must not become shorter. `tempfile_in` created this
    // file with access for this user only and without a name (or with a name that was removed at once). So no one
    // else can open it. `file` is its only descriptor; it was not shared, and is closed when this function returns.
    // From then on, the read-only map is the only access to the file.
    let map = unsafe { memmap2::Mmap::map(&file)? };
    Ok(Bytes::from_owner(map))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(place: &BodyPlace, pieces: &[&[u8]]) -> Bytes {
        let mut writer = place.writer(0).expect("a writer");
        for piece in pieces {
            writer.write_all(piece).expect("room");
        }
        writer.finish().expect("a body")
    }

    fn places() -> (tempfile::TempDir, [BodyPlace; 2]) {
        let directory = tempfile::tempdir().expect("a directory");
        let place = BodyPlace::Directory(directory.path().to_owned());
        (directory, [BodyPlace::Memory, place])
    }

    #[test]
    fn pieces_around_the_buffer_length_are_kept() {
        let (_directory, places) = places();
        for place in &places {
            for length in [FILE_BUFFER - 1, FILE_BUFFER, FILE_BUFFER + 1] {
                let piece: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
                let whole = [&piece, &b"x"[..], &piece].concat();
                let body = written(place, &[&piece, b"x", &piece]);
                assert_eq!(body[..], whole[..]);
                assert_eq!(place.keep(whole).expect("a body"), body);
            }
            assert!(written(place, &[]).is_empty());
        }
    }

    #[test]
    fn files_have_no_name_and_bodies_outlive_their_directory() {
        let (directory, places) = places();
        let body = written(&places[1], &[b"still here"]);
        let unfinished = places[1].writer(0).expect("a writer");
        let listed = std::fs::read_dir(directory.path()).expect("a directory");
        assert_eq!(listed.count(), 0);
        drop(unfinished);
        directory.close().expect("nothing in it");
        assert_eq!(body[..], b"still here"[..]);
        assert!(places[1].writer(0).is_err());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn full_disk_is_an_error() {
        let full = File::options()
            .write(true)
            .open("/dev/full")
            .expect("Linux has it");
        let mut writer = BodyWriter {
            sink: Sink::File(BufWriter::with_capacity(FILE_BUFFER, full)),
            written: 0,
        };
        // The data fits in the buffer, so only `finish` can fail.
        writer.write_all(b"lost").expect("room in the buffer");
        let error = writer.finish().expect_err("no space");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn file_with_wrong_length_is_not_mapped() {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(3).expect("room");
        let error = map(file, 4).expect_err("shorter than what was written");
        assert_eq!(error.to_string(), "file has 3 bytes, expected 4");
    }
}
