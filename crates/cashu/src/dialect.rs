//! Hashes of servers that deviate from the specification, to recognise their filters.

use nutfilter::{ItemHash, Nut25};

/// NUT-25 as an unmerged branch of CDK computes it: the second half hashes the empty string instead of the item.
///
/// It serves only to recognise such filters; nothing builds them. Every other NUT-25 wallet gets false
/// negatives from them: for 2 % of the members at N = 100, and for 95 % at N = 100,000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nut25EmptyTail;

impl ItemHash for Nut25EmptyTail {
    fn hash(&self, item: &[u8]) -> u64 {
        let upper = (Nut25.hash(item) >> 32) as u32;
        u64::from(upper) << 32 | u64::from(murmur3_of_nothing(upper))
    }
}

/// The 32-bit Murmur3 hash of the empty string: only its final mixing of the seed.
fn murmur3_of_nothing(seed: u32) -> u32 {
    let mut hash = seed;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}
