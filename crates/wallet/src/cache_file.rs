//! The format of one cache file: the last valid body of one filter, and the identity of that filter.
//!
//! | bytes | content |
//! |---|---|
//! | 8 | magic; the last byte is the version |
//! | 32 | SHA-256 of the fields that follow and of the body's SHA-256 |
//! | 8 | length of everything after this field; all numbers are little-endian |
//! | 32 | SHA-256 of the identity: mint, keyset, kind, hash |
//! | 8 | the filter's timestamp, in Unix seconds |
//! | the rest | the body, as sent by the mint |
//!
//! The body is written before its timestamp is known, and the head last.

use std::io::{self, Read, Write};

use sha2::{Digest, Sha256};
use thiserror::Error;

const MAGIC: [u8; 8] = *b"nutcach\x02";

/// Length of everything before the body, in bytes.
pub(crate) const HEAD_BYTES: usize = 8 + 32 + 8 + 32 + 8;

/// A file is read in parts of this many bytes.
const PART: usize = 64 << 10;

/// Offset of the part that the length field covers.
const COVERED_FROM: u64 = 8 + 32 + 8;

/// Why a cache file is not used.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Error)]
#[non_exhaustive]
pub enum Damage {
    /// Not a cache file, or a cache file of another version.
    #[error("not a cached filter of this version")]
    Magic,
    /// The length differs from the recorded one: the file was truncated or extended.
    #[error("wrong length")]
    Cut,
    /// The checksum is wrong.
    #[error("wrong checksum")]
    Checksum,
    /// The file belongs to another mint, keyset, kind or hash than its name says.
    #[error("belongs to another filter than its name says")]
    Misplaced,
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

/// What a file has before its body, of `length` bytes.
pub(crate) fn head(id: &Id, kept: Kept, length: u64) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(&MAGIC);
    let length = length + HEAD_BYTES as u64 - COVERED_FROM;
    head[40..48].copy_from_slice(&length.to_le_bytes());
    head[48..80].copy_from_slice(id);
    head[80..].copy_from_slice(&kept.timestamp.to_le_bytes());
    let checksum = checksum(&head[40..], kept.digest);
    head[8..40].copy_from_slice(&checksum);
    head
}

fn checksum(covered: &[u8], digest: [u8; 32]) -> [u8; 32] {
    let covered = Sha256::new().chain_update(covered);
    covered.chain_update(digest).finalize().into()
}

/// Decodes a file of `length` bytes, and copies its body to `body`. Anything other than [`head`] and body of this `id` is
/// damage. Nothing is copied before the length has been checked against the head and the limit.
pub(crate) fn read(
    id: &Id,
    mut file: impl Read,
    length: u64,
    limits: Limits,
    mut body: impl Write,
) -> io::Result<Result<Kept, Damage>> {
    let mut head = [0; HEAD_BYTES];
    match file.read_exact(&mut head) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Err(Damage::Cut)),
        read => read?,
    }
    let (magic, rest) = head.split_at(8);
    let (checksum, covered) = rest.split_at(32);
    let (declared, rest) = covered.split_at(8);
    let (of, timestamp) = rest.split_at(32);
    if magic != MAGIC {
        return Ok(Err(Damage::Magic));
    }
    let follows = length.saturating_sub(COVERED_FROM);
    if length < HEAD_BYTES as u64 || declared != follows.to_le_bytes() {
        return Ok(Err(Damage::Cut));
    }
    let bytes = length - HEAD_BYTES as u64;
    if bytes > limits.max_bytes {
        return Ok(Err(Damage::TooLarge {
            bytes,
            max: limits.max_bytes,
        }));
    }
    // Read one byte more, to detect a file that has grown.
    let mut file = file.take(bytes + 1);
    let (mut digest, mut part) = (Sha256::new(), vec![0; PART]);
    loop {
        match file.read(&mut part) {
            Ok(0) => break,
            Ok(read) => {
                digest.update(&part[..read]);
                body.write_all(&part[..read])?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let digest = digest.finalize().into();
    if self::checksum(covered, digest) != checksum {
        return Ok(Err(Damage::Checksum));
    }
    if of != id {
        return Ok(Err(Damage::Misplaced));
    }
    let timestamp = timestamp.iter().rev();
    let timestamp = timestamp.fold(0, |all, &byte| all << 8 | u64::from(byte));
    let latest = limits.latest;
    if timestamp > latest {
        return Ok(Err(Damage::Future { timestamp, latest }));
    }
    Ok(Ok(Kept { timestamp, digest }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(id: &Id, timestamp: u64, body: &[u8]) -> Vec<u8> {
        let digest = Sha256::digest(body).into();
        let head = head(id, Kept { timestamp, digest }, body.len() as u64);
        [&head, body].concat()
    }

    const OF: Id = [7; 32];
    const ANY: Limits = Limits {
        max_bytes: 1 << 20,
        latest: u64::MAX,
    };

    fn read_back(bytes: &[u8]) -> Result<(u64, Vec<u8>), Damage> {
        let mut body = Vec::new();
        let read = read(&OF, bytes, bytes.len() as u64, ANY, &mut body);
        let kept = read.expect("memory does not fail")?;
        assert_eq!(kept.digest, *Sha256::digest(&body));
        Ok((kept.timestamp, body))
    }

    #[test]
    fn read_accepts_only_the_exact_output_of_write() {
        for body in [&b""[..], b"{}", &[b'x'; 300]] {
            let good = write(&OF, 0x0102_0304_0506_0708, body);
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
            let other = write(&[8; 32], 1, body);
            assert_eq!(read_back(&other).err(), Some(Damage::Misplaced));
        }
    }

    #[test]
    fn file_that_changes_during_the_read_is_damaged() {
        let good = write(&OF, 1, b"the body");
        let longer = [good.as_slice(), b"more"].concat();
        let length = good.len() as u64;
        // The length was taken before the file grew, or before it was truncated.
        for bytes in [&longer[..], &good[..good.len() - 1]] {
            let read = read(&OF, bytes, length, ANY, io::sink()).expect("memory does not fail");
            assert!(matches!(read, Err(Damage::Checksum)), "{read:?}");
        }
    }

    #[test]
    fn body_above_the_limit_is_not_read() {
        let good = write(&OF, 1, b"the body");
        let length = good.len() as u64;
        for (max_bytes, accepted) in [(8, true), (7, false)] {
            let limits = Limits { max_bytes, ..ANY };
            // For a rejected body, a read beyond the head fails.
            let mut rest: &[u8] = &good[HEAD_BYTES..];
            let rest: &mut dyn Read = if accepted { &mut rest } else { &mut Broken };
            let file = good[..HEAD_BYTES].chain(rest);
            let read = read(&OF, file, length, limits, io::sink())
                .expect("nothing past the limit is read");
            assert_eq!(read.is_ok(), accepted, "{read:?}");
        }
    }

    struct Broken;

    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("read too far"))
        }
    }

    #[test]
    fn timestamp_above_the_limit_is_damage() {
        let limits = Limits { latest: 5, ..ANY };
        for (timestamp, accepted) in [(5, true), (6, false), (1 << 63, false)] {
            let good = write(&OF, timestamp, b"");
            let length = good.len() as u64;
            let read = read(&OF, &good[..], length, limits, io::sink()).expect("no I/O error");
            assert_eq!(read.is_ok(), accepted, "{read:?}");
        }
    }
}
