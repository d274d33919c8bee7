//! Filters with their count in front.

use nutfilter::internals::SimdLevel;
use nutfilter::{SipHash, bip158};

use crate::allocations::{FIXED, peak_of};
use crate::rows::count_prefix_rows;

#[test]
fn count_prefix_rows_have_their_class_and_bound() {
    let hasher = SipHash::new(1, 2);
    for (cell, bytes, expected) in count_prefix_rows() {
        let what = format!("{cell}: {:02x?}", &bytes[..bytes.len().min(12)]);
        let (parsed, peak) = peak_of(|| bip158::parse(hasher, &bytes));
        let found = parsed.as_ref().map(|filter| filter.n());
        assert_eq!(found.map_err(|error| error.kind()), expected, "{what}");
        assert!(peak <= 2 * bytes.len() + FIXED, "{what}: {peak} bytes");
        assert!(parsed.is_ok() || peak == 0, "{what}: {peak} bytes");
        if let Ok(filter) = parsed {
            assert_eq!(bip158::serialize(&filter), bytes, "{what}");
            for level in SimdLevel::available() {
                let filter = filter.clone().with_level(level);
                // A value of 0 is in each of these, if it has any.
                assert_eq!(filter.contains_value(0), filter.n() > 0, "{what}, {level}");
            }
        }
    }
}
