//! The format of one cache file: the last valid body of one filter, and what proves that it is whole and of that filter.
//!
//! | bytes | content |
//! |---|---|
//! | all but the last 40 | the body, as sent by the mint |
//! | 8 | the filter's timestamp, in Unix seconds, little-endian |
//! | 32 | SHA-256 of the identity (mint, keyset, kind, hash), the timestamp and the SHA-256 of the body |
//!
//! The body is written before its timestamp is known.

use std::io::{self, Read, Write};

use sha2::{Digest, Sha256};
use thiserror::Error;

/// Length of everything behind the body, in bytes.
const TRAILER_BYTES: u64 = 8 + 32;

/// Why a cache file is not used.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Error)]
#[non_exhaustive]
pub enum Damage {
    /// The checksum is wrong: the file was changed, or is of another filter or version.
    #[error("wrong checksum")]
    Checksum,
    /// Not a regular file, but for example a directory or a link.
    #[error("not a regular file")]
    NotAFile,
    /// The body is larger than [`Policy::max_bytes`](crate::Policy::max_bytes). It was not read. The file stays
    /// until a newer filter replaces it.
    #[error("{bytes} bytes, at most {max} are accepted")]
    TooLarge {
        /// Length of the body, in bytes.
        bytes: u64,
        /// The limit, in bytes.
        max: u64,
    },
    /// The timestamp is further in the future than [`Policy::max_future`](crate::Policy::max_future) allows. The
    /// file stays until a filter with a valid timestamp replaces it.
    #[error("dated {timestamp}, at most {latest} is accepted")]
    Future {
        /// The timestamp, in Unix seconds.
        timestamp: u64,
        /// The latest accepted timestamp, in Unix seconds.
        latest: u64,
    },
}

/// What is known of a stored answer beside its body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    pub(crate) timestamp: u64,
    /// SHA-256 of the body.
    pub(crate) digest: [u8; 32],
}

pub(crate) type Id = [u8; 32];

/// The policy's limits for a cached body, the same as for a mint's response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Largest body, in bytes.
    pub(crate) max_bytes: u64,
    /// Latest timestamp, in Unix seconds.
    pub(crate) latest: u64,
}

/// What a file has behind its body.
pub(crate) fn trailer(id: &Id, kept: Kept) -> Vec<u8> {
    let timestamp = kept.timestamp.to_le_bytes();
    let checksum = Sha256::new().chain_update(id).chain_update(timestamp);
    let checksum = checksum.chain_update(kept.digest).finalize();
    [&timestamp[..], &checksum].concat()
}

/// Decodes a file of `length` bytes, and copies its body to `body`. Anything other than a body and the [`trailer`] of this
/// `id` is damage. Nothing is copied before the length has been checked.
pub(crate) fn read(
    id: &Id,
    mut file: impl Read,
    length: u64,
    limits: Limits,
    body: impl Write,
) -> io::Result<Result<Kept, Damage>> {
    let Some(bytes) = length.checked_sub(TRAILER_BYTES) else {
        return Ok(Err(Damage::Checksum));
    };
    let max = limits.max_bytes;
    if bytes > max {
        return Ok(Err(Damage::TooLarge { bytes, max }));
    }
    let mut body = Digested {
        inner: body,
        digest: Sha256::new(),
    };
    io::copy(&mut file.by_ref().take(bytes), &mut body)?;
    // One byte more shows a file that has grown.
    let mut rest = Vec::new();
    file.take(TRAILER_BYTES + 1).read_to_end(&mut rest)?;
    let kept = Kept {
        timestamp: u64::from_le_bytes(rest.first_chunk().copied().unwrap_or_default()),
        digest: body.digest.finalize().into(),
    };
    let Kept { timestamp, .. } = kept;
    let latest = limits.latest;
    Ok(match rest == trailer(id, kept) {
        false => Err(Damage::Checksum),
        true if timestamp > latest => Err(Damage::Future { timestamp, latest }),
        true => Ok(kept),
    })
}

/// Hashes what it writes.
struct Digested<W> {
    inner: W,
    digest: Sha256,
}

impl<W: Write> Write for Digested<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.digest.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF: Id = [7; 32];

    fn cache_file(id: &Id, timestamp: u64, body: &[u8]) -> Vec<u8> {
        let digest = Sha256::digest(body).into();
        [body, &trailer(id, Kept { timestamp, digest })].concat()
    }

    #[test]
    fn read_accepts_only_the_exact_output_of_write() {
        let read_back = |bytes: &[u8]| {
            let (mut body, latest) = (Vec::new(), u64::MAX);
            let limits = Limits {
                max_bytes: 1 << 20,
                latest,
            };
            let read = read(&OF, bytes, bytes.len() as u64, limits, &mut body);
            read.expect("no I/O error")
                .map(|kept| (kept.timestamp, body))
        };
        for body in [&b""[..], b"{}", &[b'x'; 300]] {
            let good = cache_file(&OF, 0x0102_0304_0506_0708, body);
            let kept = read_back(&good).expect("what was written");
            assert_eq!(kept, (0x0102_0304_0506_0708, body.to_vec()));
            for cut in 0..good.len() {
                assert!(read_back(&good[..cut]).is_err(), "cut at {cut}");
            }
            for bit in 0..8 * good.len() {
                let mut bytes = good.clone();
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert!(read_back(&bytes).is_err(), "bit {bit}");
            }
            let other = cache_file(&[8; 32], 1, body);
            assert_eq!(read_back(&other).err(), Some(Damage::Checksum));
        }
    }

    #[test]
    fn file_that_changes_during_the_read_is_damaged() {
        let good = cache_file(&OF, 1, b"the body");
        let longer = [good.as_slice(), b"more"].concat();
        let any = Limits {
            max_bytes: 1 << 20,
            latest: u64::MAX,
        };
        // The length was taken before the file grew, or before it was truncated.
        for bytes in [&longer[..], &good[..good.len() - 1], &good[..2]] {
            let read = read(&OF, bytes, good.len() as u64, any, io::sink());
            assert_eq!(read.expect("no I/O error").err(), Some(Damage::Checksum));
        }
    }

    #[test]
    fn limits_are_inclusive() {
        let good = cache_file(&OF, 5, b"the body");
        for (max_bytes, latest, accepted) in [
            (8, 5, true),
            // A rejected body is not read.
            (7, 5, false),
            (8, 4, false),
        ] {
            let limits = Limits { max_bytes, latest };
            let mut body = Vec::new();
            let read = read(&OF, &good[..], good.len() as u64, limits, &mut body);
            assert_eq!(read.expect("no I/O error").is_ok(), accepted);
            assert_eq!(body.is_empty(), max_bytes < 8);
        }
    }
}
