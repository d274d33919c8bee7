//! Points, and filters of them.

use nutfilter::{Params, SortedHashes};
use nutfilter_cashu::FilterResponse;

/// All points of secp256k1 whose bytes are 2, these, and a number of 32 bits.
pub fn on_curve(fill: u8) -> impl Iterator<Item = [u8; 33]> {
    let point = move |x: u32| {
        let mut point = [fill; 33];
        point[0] = 2;
        point[29..].copy_from_slice(&x.to_be_bytes());
        secp256k1::PublicKey::from_slice(&point).is_ok().then_some(point)
    };
    (0..).filter_map(point)
}

/// A mint's filter of these items, as of a time.
///
/// # Panics
///
/// If the parameters are too large for the number of items.
pub fn filter_of<I: AsRef<[u8]>>(
    items: impl IntoIterator<Item = I>,
    params: Params,
    timestamp: u64,
) -> FilterResponse {
    let items: Vec<_> = items.into_iter().collect();
    let filter = SortedHashes::from_items(items).encode(params);
    FilterResponse::new(&filter.expect("a filter"), timestamp)
}
