//! Pseudorandom numbers and items, for the tests and benchmarks of all crates.

/// What the state of [`Noise`] grows by.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A number for each `i`.
pub fn spread(i: u64) -> u64 {
    Noise(i.wrapping_sub(1).wrapping_mul(STEP)).number()
}

/// The first `n` of `numbers`, sorted.
pub fn sorted(numbers: impl Iterator<Item = u64>, n: usize) -> Vec<u64> {
    let mut numbers: Vec<u64> = numbers.take(n).collect();
    numbers.sort_unstable();
    numbers
}

/// SplitMix64, from G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", 2014.
///
/// The field is the state; any seed will do.
#[derive(Clone, Copy, Debug)]
pub struct Noise(pub u64);

impl Noise {
    /// Other numbers for each `seed` below 2^32.
    pub fn of(seed: u64) -> Self {
        Self((seed << 32).wrapping_mul(STEP))
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// The next number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.number()) * u128::from(bound)) >> 64) as u64
    }

    /// `n` sorted numbers below `range`.
    pub fn sorted(&mut self, n: u32, range: u64) -> Vec<u64> {
        sorted(std::iter::repeat_with(|| self.below(range)), n as usize)
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
