//! Writing `.gcs` files, and the check of a key that they hold. `docs/format.md` has the layout.

use std::io::{self, Write};

use nutfilter::ItemHash;
use nutfilter::gcs::FilterHeader;

use crate::profile::{AnyHash, Profile};

/// The item whose hash detects a wrong key.
const KEY_CHECK_ITEM: &[u8] = b"nutfilter key check";

/// The value that detects a wrong key, with which no member would match; 0 for hashes without a key.
pub(crate) fn key_check(profile: Profile, hasher: &AnyHash) -> u32 {
    match profile.is_keyed() {
        true => (hasher.hash(KEY_CHECK_ITEM) >> 32) as u32,
        false => 0,
    }
}

/// Writes a `.gcs` file around the bytes of a coded set. [`finish`](Self::finish) completes it.
pub(crate) struct GcsWriter<W> {
    output: W,
    checksum: crc32fast::Hasher,
}

impl<W: Write> GcsWriter<W> {
    pub(crate) fn new(output: W, header: FilterHeader) -> io::Result<Self> {
        let mut writer = Self {
            output,
            checksum: crc32fast::Hasher::new(),
        };
        writer.write_all(&header.to_bytes())?;
        Ok(writer)
    }

    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.output
            .write_all(&self.checksum.finalize().to_le_bytes())?;
        self.output.flush()
    }
}

impl<W: Write> Write for GcsWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.output.write(bytes)?;
        self.checksum.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}
