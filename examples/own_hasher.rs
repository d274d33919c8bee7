//! A hasher of your own, and a false-positive rate of one in a billion: `cargo run --example own_hasher`.

use std::hash::Hasher;

use nutfilter::{Filter, ItemHash, Params, SortedHashes};
use siphasher::sip::SipHasher13;

/// SipHash-1-3: two thirds of the work of [`nutfilter::SipHash`].
#[derive(Clone, Debug, PartialEq)]
struct Sip13 {
    key: [u8; 16],
}

impl ItemHash for Sip13 {
    fn hash(&self, item: &[u8]) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        hasher.write(item);
        hasher.finish()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let hasher = Sip13 {
        key: *b"not a secret key",
    };
    let params = Params::for_rate(1e-9)?;
    let names = (0..50_000).map(|i| format!("user-{i}@example.com"));
    let filter = SortedHashes::builder(hasher.clone())
        .hash_items(names)
        .encode(params)?;
    println!(
        "{:.1} bits per item",
        filter.bytes().len() as f64 * 8.0 / 50_000.0
    );

    let received = Filter::parse_with(hasher, filter.bytes(), 50_000, params)?;
    let answers = received.matches(&["user-7@example.com", "nobody@example.com"]);
    assert_eq!(answers, [true, false]);
    Ok(())
}
