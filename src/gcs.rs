//! The frame that all `.gcs` files share: magic, version, kind and checksum. `docs/format.md` has the layout.
//!
//! ```text
//!   0   8  magic: 89 47 43 53 0d 0a 1a 0a
//!   8   1  version: 1
//!   9   1  kind: 1 = filter, 2 = segment
//!  10      contents, which depend on the kind
//!       4  CRC-32 (as in zlib and PNG) of everything before it, little-endian
//! ```

use alloc::vec::Vec;
use core::error::Error;
use core::fmt;

/// As in PNG: no text file begins with these bytes, and a transfer that converts line ends changes them.
const MAGIC: [u8; 8] = *b"\x89GCS\r\n\x1a\n";

/// The part of the magic that survives a conversion of line ends.
const SHORT_MAGIC: &[u8] = b"\x89GCS";

/// The version that this crate reads and writes.
pub const VERSION: u8 = 1;

/// The kind of a filter with its parameters.
pub const KIND_FILTER: u8 = 1;

/// The kind of a [`Segment`](crate::segment::Segment).
pub const KIND_SEGMENT: u8 = 2;

/// The number of bytes before the contents.
pub const HEAD_BYTES: usize = 10;

/// The number of bytes of the checksum at the end.
pub const CHECKSUM_BYTES: usize = 4;

/// Bytes are not a `.gcs` file, or a damaged one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// The version is not [`VERSION`].
    Version(u8),
    /// The checksum does not match.
    Checksum {
        /// The checksum in the file.
        stored: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
}

impl fmt::Display for GcsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Magic => f.write_str("not a .gcs file: it does not begin with the magic bytes"),
            Self::LineEnds => {
                f.write_str("damaged .gcs header: a transfer changed its line endings")
            }
            Self::TooShort { bytes } => write!(
                f,
                "truncated .gcs file: {bytes} bytes, but header and checksum take at least {}",
                HEAD_BYTES + CHECKSUM_BYTES
            ),
            Self::Version(version) => write!(
                f,
                "unsupported .gcs version {version}; this program reads version {VERSION}"
            ),
            Self::Checksum { stored, computed } => write!(
                f,
                "damaged or truncated .gcs file: checksum {stored:08x}, computed {computed:08x}"
            ),
        }
    }
}

impl Error for GcsError {}

/// Returns whether the bytes begin like a `.gcs` file.
#[must_use]
pub fn is_gcs(head: &[u8]) -> bool {
    head.starts_with(SHORT_MAGIC)
}

/// The first bytes of a file of this kind.
#[must_use]
pub fn head(kind: u8) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(&MAGIC);
    head[8] = VERSION;
    head[9] = kind;
    head
}

/// Returns the kind and the contents of a file.
///
/// # Errors
///
/// Magic, length, version and checksum, in this order.
pub fn open(file: &[u8]) -> Result<(u8, &[u8]), GcsError> {
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
    let Some((&[.., version, kind], contents)) = checked.split_first_chunk::<HEAD_BYTES>() else {
        return Err(too_short);
    };
    if version != VERSION {
        return Err(GcsError::Version(version));
    }
    let (stored, computed) = (u32::from_le_bytes(*checksum), crc32fast::hash(checked));
    if stored != computed {
        return Err(GcsError::Checksum { stored, computed });
    }
    Ok((kind, contents))
}

/// Appends the checksum to a head and its contents.
pub fn seal(file: &mut Vec<u8>) {
    file.extend_from_slice(&crc32fast::hash(file).to_le_bytes());
}
