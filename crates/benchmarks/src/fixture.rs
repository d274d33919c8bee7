//! [`Fixture`]: a set of items, its filter, and non-members to look up.
//!
//! Hashes, values and bytes come from the reference and the standard library's sort, never from the code that is
//! measured.

use std::num::ParseIntError;

use nutfilter::internals::SimdLevel;
use nutfilter::{Filter, Nut25, Params};
use nutfilter_reference::{self as reference, generate_items};

/// The seed of the set's items.
pub const SEED: u64 = 20_250_101;

/// Number of non-members: enough that look-ups meet cold parts of the filter.
pub const NON_MEMBERS: usize = 1 << 17;

/// Above this size only `sort` and `build` are measured, to save memory.
pub const LARGEST_FOR_ALL: u64 = 10_000_000;

/// A number of items, and how names write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Size {
    /// As in names: `1m`.
    pub name: String,
    /// The number of items.
    pub n: u64,
}

impl std::str::FromStr for Size {
    type Err = ParseIntError;

    /// Digits, then nothing, `k` or `m`.
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let (digits, unit) = match name.strip_suffix('k') {
            Some(digits) => (digits, 1000),
            None => name.strip_suffix('m').map_or((name, 1), |digits| (digits, 1_000_000)),
        };
        // A u32 of millions fits a u64.
        let n = u64::from(digits.parse::<u32>()?) * unit;
        let name = name.to_owned();
        Ok(Self { name, n })
    }
}

/// A set of items, its filter, and items that are not in it.
pub struct Fixture {
    /// Number of items.
    pub size: Size,
    /// The members, 33 bytes each, unsorted.
    pub items: Vec<[u8; 33]>,
    /// [`NON_MEMBERS`] items that are not in the set.
    pub non_members: Vec<[u8; 33]>,
    /// The NUT-25 hashes of the members, sorted.
    pub hashes: Vec<u64>,
    /// The hashes mapped to the range of the filter.
    pub values: Vec<u64>,
    /// The filter.
    pub bytes: Vec<u8>,
    /// The same filter for each level of this CPU.
    pub filters: Vec<(SimdLevel, Filter<Vec<u8>, Nut25>)>,
}

impl Fixture {
    /// The fixture of this size, always the same.
    pub fn new(size: Size) -> Self {
        let mut items = generate_items(size.n + NON_MEMBERS as u64, SEED);
        let non_members = items.split_off(size.n as usize);
        let params = Params::default();
        let profile = reference::Profile::Nut25;
        let mut hashes: Vec<u64> = items.iter().map(|item| profile.hash(item)).collect();
        hashes.sort_unstable();
        let range = size.n * params.m();
        let values: Vec<u64> = hashes.iter().map(|&hash| reference::map(hash, range)).collect();
        let bytes = reference::encode_values(&values, params.p());
        let filter = Filter::parse(bytes.clone(), size.n, params).expect("a valid filter");
        let at = |level| (level, filter.clone().with_level(level));
        let filters = SimdLevel::available().map(at).collect();
        Self { size, items, non_members, hashes, values, bytes, filters }
    }

    /// The number of items.
    pub fn n(&self) -> u64 {
        self.size.n
    }

    /// The items as one slice of bytes.
    pub fn records(&self) -> &[u8] {
        self.items.as_flattened()
    }

    /// The sum of the values: the expected answer of rows that do not keep the values.
    pub fn sum(&self) -> u64 {
        self.values.iter().copied().fold(0, u64::wrapping_add)
    }

    /// Size of the filter.
    pub fn bits_per_item(&self) -> f64 {
        self.bytes.len() as f64 * 8.0 / self.n() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_digits_and_an_optional_unit() {
        for (name, n) in [("7", 7), ("100k", 100_000), ("10m", 10_000_000)] {
            let size: Size = name.parse().unwrap();
            assert_eq!((size.n, size.name.as_str()), (n, name));
        }
        for name in ["", "k", "1g", "1.5m", "-1"] {
            assert!(name.parse::<Size>().is_err(), "{name}");
        }
    }
}
