//! One file of the cache: the last good body of one filter, and what it is of.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | magic, the version in its last byte |
//! | 32 | SHA-256 of everything that follows |
//! | 8 | length of what follows this, little-endian, as all numbers here |
//! | 32 | SHA-256 of what it is of: mint, keyset, kind, hash |
//! | 8 | the filter's time, in Unix seconds |
//! | the rest | the body, as the mint sent it |

use std::fmt;
use std::io::{self, Read};

use sha2::{Digest, Sha256};

const MAGIC: [u8; 8] = *b"nutcach\x01";

/// Everything before the body.
const HEAD_BYTES: usize = 8 + 32 + 8 + 32 + 8;

/// Where the part begins whose length is written down.
const COVERED_FROM: u64 = 8 + 32 + 8;

/// Why a file of the cache was thrown away.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Damage {
    /// It is no cache file, or one of another version.
    Magic,
    /// Its length is not the one it was written with: it was cut, or something was added.
    Cut,
    /// Its bytes are not the ones that were written.
    Checksum,
    /// It is of another mint, keyset, kind or hash than its name says.
    Misplaced,
    /// There is something else in its place, such as a directory or a link.
    NotAFile,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Damage::Magic => "no cached filter of this version",
            Damage::Cut => "its length is not what it was",
            Damage::Checksum => "its bytes are not what they were",
            Damage::Misplaced => "it is of another filter than its name says",
            Damage::NotAFile => "it is no file",
        })
    }
}

impl std::error::Error for Damage {}

/// What is remembered of the newest good answer.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) timestamp: u64,
    pub(crate) body: Vec<u8>,
}

pub(crate) type Id = [u8; 32];

/// The bytes of the file.
pub(crate) fn write(id: &Id, timestamp: u64, body: &[u8]) -> Vec<u8> {
    let rest = [id.as_slice(), &timestamp.to_le_bytes()].concat();
    let length = ((rest.len() + body.len()) as u64).to_le_bytes();
    let checksum = Sha256::new()
        .chain_update(length)
        .chain_update(&rest)
        .chain_update(body)
        .finalize();
    [&MAGIC, checksum.as_slice(), &length, &rest, body].concat()
}

/// Reads a file of `length` bytes back. Whatever is not exactly what [`write`] wrote for this `id` is damage;
/// nothing is buffered before the length is known to be right.
pub(crate) fn read(id: &Id, mut file: impl Read, length: u64) -> io::Result<Result<Kept, Damage>> {
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
    if declared != follows.to_le_bytes() {
        return Ok(Err(Damage::Cut));
    }
    let mut body = Vec::new();
    file.take(length).read_to_end(&mut body)?;
    let digest = Sha256::new()
        .chain_update(covered)
        .chain_update(&body)
        .finalize();
    if digest.as_slice() != checksum {
        return Ok(Err(Damage::Checksum));
    }
    if of != id {
        return Ok(Err(Damage::Misplaced));
    }
    let timestamp = timestamp.iter().rev();
    Ok(Ok(Kept {
        timestamp: timestamp.fold(0, |all, &byte| all << 8 | u64::from(byte)),
        body,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF: Id = [7; 32];

    fn read_back(bytes: &[u8]) -> Result<Kept, Damage> {
        read(&OF, bytes, bytes.len() as u64).expect("memory does not fail")
    }

    #[test]
    fn what_was_written_comes_back_and_nothing_else_does() {
        for body in [&b""[..], b"{}", &[b'x'; 300]] {
            let good = write(&OF, 0x0102_0304_0506_0708, body);
            let kept = read_back(&good).expect("what was written");
            assert_eq!(kept.timestamp, 0x0102_0304_0506_0708);
            assert_eq!(kept.body, body);
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
    fn a_file_that_changes_while_it_is_read_is_damaged() {
        let good = write(&OF, 1, b"the body");
        let longer = [good.as_slice(), b"more"].concat();
        let length = good.len() as u64;
        // Its length was taken before it grew, or before it was cut.
        for bytes in [&longer[..], &good[..good.len() - 1]] {
            let read = read(&OF, bytes, length).expect("memory does not fail");
            assert!(matches!(read, Err(Damage::Checksum)), "{read:?}");
        }
    }
}
