//! Pseudorandom numbers and items, for the tests and benchmarks of all crates.

/// SplitMix64, from G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", 2014.
///
/// The field is the state; any seed will do.
#[derive(Clone, Copy, Debug)]
pub struct Noise(pub u64);

impl Noise {
    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
}

/// Numbers without end.
impl Iterator for Noise {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        Some(self.number())
    }
}

/// `count` items of 33 bytes that look like compressed points, by the rule described in `filters-large.json`: five
/// outputs of SplitMix64 each, the first one only for the leading 02 or 03.
pub fn generate_items(count: u64, seed: u64) -> Vec<[u8; 33]> {
    let mut noise = Noise(seed);
    let item = |_| {
        let mut item = [0; 33];
        item[0] = 2 + (noise.number() & 1) as u8;
        for place in item[1..].chunks_mut(8) {
            place.copy_from_slice(&noise.number().to_le_bytes());
        }
        item
    };
    (0..count).map(item).collect()
}
