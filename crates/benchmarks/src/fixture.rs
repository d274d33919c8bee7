//! [`Fixture`]: one set of points and all that is asked of it, by the reference alone.
//!
//! Nothing here comes from code under measurement, so that rows are held against an answer of somebody
//! else's: hashes, values and bytes are the reference's, sorted by the standard library.

use std::num::ParseIntError;

use nutfilter::{Filter, Level, Nut25, Params, SeekIndex, Step};
use nutfilter_harness::vectors::generate_items;
use nutfilter_reference as reference;

/// The seed of the set's items.
pub const SEED: u64 = 20_250_101;

/// How many points there are that are in no set: enough that a look-up meets a cold part of the filter.
pub const STRANGERS: usize = 1 << 17;

/// The size above which only `sort` and `build` are measured, for want of memory.
pub const LARGEST_FOR_ALL: u64 = 10_000_000;

/// How many items, and how a name writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Size {
    /// As it stands in names: `1m`.
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
            None => name
                .strip_suffix('m')
                .map_or((name, 1), |digits| (digits, 1_000_000)),
        };
        // A u32 of millions fits a u64.
        let n = u64::from(digits.parse::<u32>()?) * unit;
        let name = name.to_owned();
        Ok(Self { name, n })
    }
}

/// A set of points, its filter, and points that are not in it.
pub struct Fixture {
    /// How many items.
    pub size: Size,
    /// The members, 33 bytes each, in no order.
    pub items: Vec<[u8; 33]>,
    /// Not members; [`STRANGERS`] of them.
    pub strangers: Vec<[u8; 33]>,
    /// The NUT-25 hashes of the members, sorted.
    pub hashes: Vec<u64>,
    /// The same mapped to the range of the filter.
    pub values: Vec<u64>,
    /// The filter of them.
    pub bytes: Vec<u8>,
    /// The same filter for each level of this CPU.
    pub filters: Vec<(Level, Filter<'static, Nut25>)>,
    /// An index of it, one bit an item.
    pub index: SeekIndex,
}

impl Fixture {
    /// The set of that many points: always the same one.
    ///
    /// # Panics
    ///
    /// Where the library does not take the reference's filter.
    #[must_use]
    pub fn new(size: Size) -> Self {
        let mut items = generate_items(size.n + STRANGERS as u64, SEED);
        let strangers = items.split_off(size.n as usize);
        let params = Params::default();
        let profile = reference::Profile::Nut25;
        let mut hashes: Vec<u64> = items.iter().map(|item| profile.hash(item)).collect();
        hashes.sort_unstable();
        let range = size.n * params.m();
        let values: Vec<u64> = hashes
            .iter()
            .map(|&hash| reference::map(hash, range))
            .collect();
        let bytes = reference::encode_values(&values, params.p());
        let filter = Filter::<Nut25>::parse(bytes.clone(), size.n, params).expect("a valid filter");
        let index = SeekIndex::build(&filter, Step::Items(64));
        let at = |level| (level, filter.clone().with_level(level));
        let filters = Level::available().map(at).collect();
        Self {
            size,
            items,
            strangers,
            hashes,
            values,
            bytes,
            filters,
            index,
        }
    }

    /// The number of items.
    #[must_use]
    pub fn n(&self) -> u64 {
        self.size.n
    }

    /// The items without what separates them.
    #[must_use]
    pub fn records(&self) -> &[u8] {
        self.items.as_flattened()
    }

    /// The sum of the values, which stands for all of them where they are not kept.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.values.iter().copied().fold(0, u64::wrapping_add)
    }

    /// Bits an item of the filter.
    #[must_use]
    pub fn bits_per_item(&self) -> f64 {
        self.bytes.len() as f64 * 8.0 / self.n() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_digits_and_a_unit() {
        for (name, n) in [("7", 7), ("100k", 100_000), ("10m", 10_000_000)] {
            let size: Size = name.parse().unwrap();
            assert_eq!((size.n, size.name.as_str()), (n, name));
        }
        for name in ["", "k", "1g", "1.5m", "-1"] {
            assert!(name.parse::<Size>().is_err(), "{name}");
        }
    }
}
