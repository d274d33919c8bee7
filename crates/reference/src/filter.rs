//! Builds filters from items, and looks up items in filters.

use crate::coder::{Error, decode, encode_values};
use crate::hash::Profile;

/// Maps a 64-bit hash to `[0, f)`: the upper half of the 128-bit product. For `f = 0` the result is 0.
///
/// Ascending hashes give ascending values. It therefore does not matter whether hashes are sorted before this step
/// or values after it.
pub fn map(h: u64, f: u64) -> u64 {
    ((u128::from(h) * u128::from(f)) >> 64) as u64
}

/// The values of a filter of `items` in ascending order, one per item, including duplicates.
pub fn mapped_values<T: AsRef<[u8]>>(profile: Profile, items: &[T], m: u64) -> Vec<u64> {
    let f = range(items.len() as u64, m);
    let mut values: Vec<u64> =
        items.iter().map(|item| map(profile.hash(item.as_ref()), f)).collect();
    values.sort_unstable();
    values
}

/// Builds the filter of `items`, as bare bytes. `N` is the number of items and is transferred separately.
///
/// Nothing is removed: the NUTs count duplicate items. For BIP158, remove duplicate and empty items first.
pub fn build<T: AsRef<[u8]>>(profile: Profile, items: &[T], p: u32, m: u64) -> Vec<u8> {
    encode_values(&mapped_values(profile, items, m), p)
}

/// Whether each of `targets` may be in the filter: one answer per position, in the given order.
///
/// Every duplicate target gets an answer, and so does every one of several targets with the same value. (The
/// pseudocode in the NUTs loses one of two targets that share a value. This function deliberately differs.)
///
/// # Errors
///
/// Those of [`decode`], even when `targets` is empty.
pub fn matches<T: AsRef<[u8]>>(
    filter: &[u8],
    n: u64,
    p: u32,
    m: u64,
    profile: Profile,
    targets: &[T],
) -> Result<Vec<bool>, Error> {
    let values = decode(filter, n, p, m)?;
    let f = range(n, m);
    // `decode` returns sorted values. With n = 0 the target maps to 0, and there are no values.
    let found = |target: &T| values.binary_search(&map(profile.hash(target.as_ref()), f)).is_ok();
    Ok(targets.iter().map(found).collect())
}

/// Whether at least one of `targets` may be in the filter.
///
/// # Errors
///
/// Those of [`decode`], even when `targets` is empty.
pub fn match_any<T: AsRef<[u8]>>(
    filter: &[u8],
    n: u64,
    p: u32,
    m: u64,
    profile: Profile,
    targets: &[T],
) -> Result<bool, Error> {
    Ok(matches(filter, n, p, m, profile, targets)?.contains(&true))
}

/// `F = n * m`, which cannot overflow because both factors fit in 32 bits.
fn range(n: u64, m: u64) -> u64 {
    assert!(n < 1 << 32, "N = {n} does not fit in 32 bits");
    assert!((1..1 << 32).contains(&m), "M = {m} is not between 1 and 2^32 - 1");
    n * m
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_zero_bytes_map_to_the_value_in_the_nut() {
        let h = Profile::Nut25.hash(&[0; 4]);
        assert_eq!(map(h, 784_931 * 1000), 108_500_230);
    }

    #[test]
    fn map_covers_its_range_and_keeps_the_order() {
        assert_eq!(map(u64::MAX, 0), 0);
        assert_eq!(map(0, u64::MAX), 0);
        assert_eq!(map(u64::MAX, u64::MAX), u64::MAX - 1);
        assert_eq!(map(u64::MAX, 1), 0);
        assert_eq!(map(1 << 63, 10), 5);
        assert_eq!(map((1 << 63) - 1, 10), 4);
    }

    #[test]
    fn invalid_filter_gives_no_answer() {
        let mut filter = build(Profile::Nut25, &["a", "b"], 19, 784_931);
        filter.push(0);
        let nobody: [&[u8]; 0] = [];
        assert!(matches(&filter, 2, 19, 784_931, Profile::Nut25, &nobody).is_err());
        assert_eq!(
            match_any(&filter, 2, 40, 784_931, Profile::Nut25, &["a"]),
            Err(Error::BadParameter)
        );
    }
}
