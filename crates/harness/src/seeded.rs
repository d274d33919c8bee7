//! Seeded numbers, so that a few bytes of a case can describe a large set.

/// Uniform numbers that depend on `seed`.
///
/// G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", 2014: SplitMix64.
pub fn numbers(seed: u64) -> impl Iterator<Item = u64> {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut state = seed.wrapping_mul(0x2545_f491_4f6c_dd1d);
    core::iter::repeat_with(move || {
        state = state.wrapping_add(STEP);
        let z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    })
}

/// `len` bytes that depend on `seed`.
#[must_use]
pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    for (place, number) in bytes.chunks_mut(8).zip(numbers(seed)) {
        place.copy_from_slice(&number.to_le_bytes()[..place.len()]);
    }
    bytes
}
