//! Seeded numbers, so that a few bytes of a case can describe a large set.

use nutfilter_reference::Noise;

/// Uniform numbers that depend on `seed`.
pub fn numbers(seed: u64) -> impl Iterator<Item = u64> {
    Noise(seed.wrapping_mul(0x2545_f491_4f6c_dd1d))
}

/// `len` bytes that depend on `seed`.
pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    for (place, number) in bytes.chunks_mut(8).zip(numbers(seed)) {
        place.copy_from_slice(&number.to_le_bytes()[..place.len()]);
    }
    bytes
}
