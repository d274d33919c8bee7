//! The `.gcs` format: a filter with a header that describes it. `docs/format.md` has the layout.

use std::io::{self, Write};

use nutfilter::gcs::{self, CHECKSUM_BYTES, KIND_FILTER};
use nutfilter::{ItemHash, Params};

use crate::profile::{AnyHash, Profile};

/// Length of the header, in bytes.
pub(crate) const HEADER_BYTES: usize = 36;

/// The item whose hash detects a wrong key.
const KEY_CHECK_ITEM: &[u8] = b"nutfilter key check";

/// The fields of a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) profile: Profile,
    pub(crate) params: Params,
    /// Below 2^32 in every supported filter.
    pub(crate) n: u64,
    /// Unix seconds; 0 if unknown.
    pub(crate) timestamp: u64,
    /// See [`key_check`].
    pub(crate) key_check: u32,
}

/// Why bytes are not a filter in a `.gcs` file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GcsError {
    #[error("{0}")]
    Frame(gcs::GcsError),
    #[error(
        "truncated .gcs file: {bytes} bytes, but header and checksum take {needed}",
        needed = HEADER_BYTES + CHECKSUM_BYTES
    )]
    TooShort { bytes: usize },
    #[error("a segment; use `nutfilter segment check`")]
    Segment,
    #[error("unsupported kind {0} of .gcs file; this program reads kind {KIND_FILTER}, filters")]
    Kind(u8),
    #[error("unknown hash {0} in the .gcs header")]
    Hash(u8),
    #[error("invalid .gcs header: {0}")]
    Params(nutfilter::ParamsError),
}

/// The value that detects a wrong key, with which no member would match; 0 for hashes without a key.
pub(crate) fn key_check(profile: Profile, hasher: &AnyHash) -> u32 {
    match profile.is_keyed() {
        true => (hasher.hash(KEY_CHECK_ITEM) >> 32) as u32,
        false => 0,
    }
}

fn hash_id(profile: Profile) -> u8 {
    match profile {
        Profile::Nut25 => 1,
        Profile::Nut23 => 2,
        Profile::Bip158 => 3,
        Profile::Siphash => 4,
    }
}

const PROFILES: [Profile; 4] = [
    Profile::Nut25,
    Profile::Nut23,
    Profile::Bip158,
    Profile::Siphash,
];

impl Header {
    fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..gcs::HEAD_BYTES].copy_from_slice(&gcs::head(KIND_FILTER));
        bytes[10] = hash_id(self.profile);
        // P is at most 32 and M is below 2^32.
        bytes[11] = self.params.p() as u8;
        bytes[12..16].copy_from_slice(&(self.params.m() as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.n.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.timestamp.to_le_bytes());
        bytes[32..].copy_from_slice(&self.key_check.to_le_bytes());
        bytes
    }

    /// Splits a file into its header and the coded set. Verifies the checksum but not the coded set.
    pub(crate) fn parse(file: &[u8]) -> Result<(Self, &[u8]), GcsError> {
        let (kind, contents) = gcs::open(file).map_err(GcsError::Frame)?;
        if kind == gcs::KIND_SEGMENT {
            return Err(GcsError::Segment);
        }
        if kind != KIND_FILTER {
            return Err(GcsError::Kind(kind));
        }
        // Fields are numbered from the beginning of the file.
        let checked = &file[..gcs::HEAD_BYTES + contents.len()];
        let Some((header, coded)) = checked.split_first_chunk::<HEADER_BYTES>() else {
            return Err(GcsError::TooShort { bytes: file.len() });
        };
        let number = |range: std::ops::Range<usize>| {
            let bytes = header[range].iter().rev();
            bytes.fold(0, |number, &byte| number << 8 | u64::from(byte))
        };
        let profile = PROFILES
            .into_iter()
            .find(|&profile| hash_id(profile) == header[10])
            .ok_or(GcsError::Hash(header[10]))?;
        let params =
            Params::new(u32::from(header[11]), number(12..16)).map_err(GcsError::Params)?;
        let header = Self {
            profile,
            params,
            n: number(16..24),
            timestamp: number(24..32),
            key_check: number(32..36) as u32,
        };
        Ok((header, coded))
    }
}

/// Writes a `.gcs` file around the bytes of a coded set. [`finish`](Self::finish) completes it.
pub(crate) struct GcsWriter<W> {
    output: W,
    checksum: crc32fast::Hasher,
}

impl<W: Write> GcsWriter<W> {
    pub(crate) fn new(output: W, header: Header) -> io::Result<Self> {
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
