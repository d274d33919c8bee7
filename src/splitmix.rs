//! Pseudorandom numbers for tests, the same in every run.
//!
//! SplitMix64, from G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", 2014.

use alloc::vec::Vec;

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A number for each `i`.
pub(crate) fn spread(i: u64) -> u64 {
    let i = i.wrapping_mul(STEP);
    let i = (i ^ i >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let i = (i ^ i >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    i ^ i >> 31
}

/// Uniform numbers, different for each `seed` (below 2^32).
pub(crate) fn noise(seed: u64) -> impl Iterator<Item = u64> {
    (seed << 32..).map(spread)
}

/// The first `n` of `numbers`, sorted.
pub(crate) fn sorted(numbers: impl Iterator<Item = u64>, n: usize) -> Vec<u64> {
    let mut numbers: Vec<u64> = numbers.take(n).collect();
    numbers.sort_unstable();
    numbers
}

/// A generator, for tests that draw numbers one by one.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed << 32)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 += 1;
        spread(self.0)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// `n` sorted numbers below `range`.
    pub(crate) fn sorted(&mut self, n: u32, range: u64) -> Vec<u64> {
        sorted(core::iter::repeat_with(|| self.below(range)), n as usize)
    }
}
