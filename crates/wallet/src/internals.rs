//! For the fuzz targets; not part of the API.

use sha2::{Digest, Sha256};

use crate::cache_file::{self, Damage, Kept, Limits};

/// The bytes of a cache file.
#[must_use]
pub fn cache_file(id: &[u8; 32], timestamp: u64, body: &[u8]) -> Vec<u8> {
    let digest = Sha256::digest(body).into();
    let trailer = cache_file::trailer(id, Kept { timestamp, digest });
    [body, &trailer].concat()
}

/// Timestamp and body of a cache file.
///
/// # Errors
///
/// When the file would not be used.
pub fn read_cache_file(
    id: &[u8; 32],
    file: &[u8],
    max_bytes: u64,
) -> Result<(u64, Vec<u8>), Damage> {
    let latest = u64::MAX;
    let limits = Limits { max_bytes, latest };
    let mut body = Vec::new();
    let read = cache_file::read(id, file, file.len() as u64, limits, &mut body);
    let kept = read.expect("memory does not fail")?;
    Ok((kept.timestamp, body))
}
