//! Files with a filter: `.gcs`. `docs/format.md` has the layout.
//!
//! ```text
//!   0   8  magic: 89 47 43 53 0d 0a 1a 0a
//!   8   1  version: 1
//!   9   1  kind: 1 = filter
//!  10      contents
//!       4  CRC-32 (as in zlib and PNG) of everything before it, little-endian
//! ```

use crate::error::{ParamsError, error_texts};
use crate::params::Params;

/// As in PNG: no text file begins with these bytes, and a transfer that converts line ends changes them.
const MAGIC: [u8; 8] = *b"\x89GCS\r\n\x1a\n";

/// The part of the magic that survives a conversion of line ends.
const SHORT_MAGIC: &[u8] = b"\x89GCS";

/// The version that this crate reads and writes.
const VERSION: u8 = 1;

/// The kind of a file with a filter, the only one.
const KIND: u8 = 1;

/// The number of bytes before the contents.
const HEAD_BYTES: usize = 10;

/// The number of bytes of the checksum at the end.
const CHECKSUM_BYTES: usize = 4;

/// Bytes are not a `.gcs` file, or a damaged one.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum GcsError {
    /// The bytes do not begin with the magic.
    Magic,
    /// The bytes begin with a magic whose line ends were converted.
    LineEnds,
    /// There are too few bytes for a head and a checksum.
    TooShort {
        /// The number of bytes.
        bytes: usize,
    },
    /// The version is not 1.
    Version(u8),
    /// The checksum does not match.
    Checksum {
        /// The checksum in the file.
        stored: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
    /// The file is not one of kind 1, with a filter.
    Kind(u8),
    /// The hash is not one of [`GcsHash`].
    Hash(u8),
    /// The parameters are invalid.
    Params(ParamsError),
}

error_texts!(GcsError {
    Self::Magic => "not a .gcs file: it does not begin with the magic bytes";
    Self::LineEnds => "damaged .gcs header: a transfer changed its line endings";
    Self::TooShort { bytes } => "truncated .gcs file: {bytes} bytes, but header and checksum take at least {}",
        HEAD_BYTES + CHECKSUM_BYTES;
    Self::Version(version) => "unsupported .gcs version {version}; this program reads version {VERSION}";
    Self::Checksum { stored, computed }
        => "damaged or truncated .gcs file: checksum {stored:08x}, computed {computed:08x}";
    Self::Kind(kind) => "unsupported kind {kind} of .gcs file; this program reads kind {KIND}, filters";
    Self::Hash(hash) => "unknown hash {hash} in the .gcs header";
    Self::Params(error) => "invalid .gcs header: {error}";
});

/// Returns whether the bytes begin like a `.gcs` file.
#[must_use]
pub fn is_gcs(head: &[u8]) -> bool {
    head.starts_with(SHORT_MAGIC)
}

/// The hash of a filter in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GcsHash {
    /// [`Nut25`](crate::Nut25).
    Nut25 = 1,
    /// [`Nut23`](crate::Nut23).
    Nut23 = 2,
    /// [`SipHash`](crate::SipHash) with the key of a block.
    Bip158 = 3,
    /// [`SipHash`](crate::SipHash) with a secret key.
    SipHash = 4,
}

/// The first fields of a file with a filter; the coded set follows.
///
/// ```text
///   0  10  head, kind 1
///  10   1  hash: 1 = NUT-25, 2 = NUT-23, 3 = BIP158, 4 = SipHash with a secret key
///  11   1  P
///  12   4  M
///  16   8  N
///  24   8  Unix time in seconds, or 0
///  32   4  key check, or 0 for hashes without a key
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GcsHeader {
    /// The hash of the items.
    pub hash: GcsHash,
    /// P and M.
    pub params: Params,
    /// The number of items. Not checked here.
    pub n: u64,
    /// Unix seconds; 0 if unknown.
    pub timestamp: u64,
    /// A value of the key, by which a wrong key is noticed.
    pub key_check: u32,
}

impl GcsHeader {
    /// The number of bytes before the coded set.
    pub const BYTES: usize = 36;

    /// The beginning of the file.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        [bytes[8], bytes[9]] = [VERSION, KIND];
        bytes[10] = self.hash as u8;
        // P is at most 32 and M is below 2^32.
        bytes[11] = self.params.p() as u8;
        bytes[12..16].copy_from_slice(&(self.params.m() as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.n.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.timestamp.to_le_bytes());
        bytes[32..].copy_from_slice(&self.key_check.to_le_bytes());
        bytes
    }

    /// Splits a file into its header and the coded set. The checksum is verified, the coded set is not.
    ///
    /// # Errors
    ///
    /// Magic, length, version, checksum, kind, hash and parameters, in this order.
    pub fn parse(file: &[u8]) -> Result<(Self, &[u8]), GcsError> {
        if !is_gcs(file) {
            return Err(GcsError::Magic);
        }
        if !file.starts_with(&MAGIC) && file.len() >= MAGIC.len() {
            return Err(GcsError::LineEnds);
        }
        let too_short = GcsError::TooShort { bytes: file.len() };
        let Some((checked, checksum)) = file.split_last_chunk::<CHECKSUM_BYTES>() else {
            return Err(too_short);
        };
        let Some((&[.., version, kind], _)) = checked.split_first_chunk::<HEAD_BYTES>() else {
            return Err(too_short);
        };
        if version != VERSION {
            return Err(GcsError::Version(version));
        }
        let (stored, computed) = (u32::from_le_bytes(*checksum), crc32fast::hash(checked));
        if stored != computed {
            return Err(GcsError::Checksum { stored, computed });
        }
        if kind != KIND {
            return Err(GcsError::Kind(kind));
        }
        let Some((header, coded)) = checked.split_first_chunk::<{ Self::BYTES }>() else {
            return Err(too_short);
        };
        let number = |range: core::ops::Range<usize>| {
            let bytes = header[range].iter().rev();
            bytes.fold(0, |number, &byte| number << 8 | u64::from(byte))
        };
        let hashes = [GcsHash::Nut25, GcsHash::Nut23, GcsHash::Bip158, GcsHash::SipHash];
        let hash = hashes.into_iter().find(|&hash| hash as u8 == header[10]);
        let params = Params::new(u32::from(header[11]), number(12..16));
        let header = Self {
            hash: hash.ok_or(GcsError::Hash(header[10]))?,
            params: params.map_err(GcsError::Params)?,
            n: number(16..24),
            timestamp: number(24..32),
            key_check: number(32..36) as u32,
        };
        Ok((header, coded))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_of_a_header_is_read() {
        for bit in 0..64 {
            let header = GcsHeader {
                hash: GcsHash::Nut23,
                params: Params::new(bit.min(32), (u64::from(u32::MAX) >> bit.min(31)).max(1))
                    .unwrap(),
                n: 1 << bit,
                timestamp: !0 >> bit,
                key_check: 1 << (bit % 32),
            };
            let mut file = [&header.to_bytes()[..], b"set"].concat();
            file.extend(crc32fast::hash(&file).to_le_bytes());
            assert_eq!(GcsHeader::parse(&file), Ok((header, &b"set"[..])));
        }
    }
}
