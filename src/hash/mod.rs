//! From an item to 64 bits, and from 64 bits to the range of a filter.
//!
//! A profile of the format is one implementation of [`ItemHash`]. All of them hash raw bytes of any
//! length (33 for a compressed secp256k1 point, 48 for BLS12-381); hexadecimal text is never hashed.
//!
//! ```
//! use nutfilter::{ItemHash, Nut25, map_to_range};
//!
//! let hash = Nut25.hash(&[0, 0, 0, 0]);
//! assert_eq!(map_to_range(hash, 784_931 * 1000), 108_500_230);
//! ```

mod murmur3;
mod siphash;

use core::fmt::Debug;
use core::num::NonZeroUsize;

use crate::arch::Level;

pub use siphash::SipHash;

/// A map from items to uniformly spread 64-bit numbers.
///
/// Implement it for a hash of your own; only [`ItemHash::hash`] is needed. Filters made with different
/// hashers (or with different keys) have nothing in common, which is why merging asks for equality.
///
/// ```
/// use nutfilter::{ItemHash, Params, SortedHashes};
///
/// /// FNV-1a, 64 bits.
/// #[derive(Clone, Debug, Default, PartialEq)]
/// struct Fnv;
///
/// impl ItemHash for Fnv {
///     fn hash(&self, item: &[u8]) -> u64 {
///         item.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
///             (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
///         })
///     }
/// }
///
/// let filter = SortedHashes::<Fnv>::from_items(["free", "taken"]).encode(Params::for_rate(1e-9)?)?;
/// assert_eq!(filter.matches(&["taken", "new"]), [true, false]);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub trait ItemHash: Clone + PartialEq + Debug + Send + Sync {
    /// The 64-bit hash of one item, given as raw bytes.
    fn hash(&self, item: &[u8]) -> u64;

    /// The hash of each item, in order, into the places of `out`; where there are more of the one than of
    /// the other, the rest is left alone.
    fn hash_items<I: AsRef<[u8]>>(&self, level: Level, items: &[I], out: &mut [u64]) {
        // Vectors have nothing to give to a hash that is known only by its name.
        let _ = level;
        for (hash, item) in out.iter_mut().zip(items) {
            *hash = self.hash(item.as_ref());
        }
    }

    /// The hash of each record of `record_bytes` bytes, in order, into the places of `out`; the records lie
    /// one after another, and what does not fill a record, or has no place, is left alone.
    fn hash_records(
        &self,
        level: Level,
        records: &[u8],
        record_bytes: NonZeroUsize,
        out: &mut [u64],
    ) {
        let _ = level;
        if record_bytes.get() == POINT_BYTES {
            // The length is then known within the loop, and not looked at for each record.
            let (points, _) = records.as_chunks::<POINT_BYTES>();
            for (hash, point) in out.iter_mut().zip(points) {
                *hash = self.hash(point);
            }
        } else {
            for (hash, record) in out.iter_mut().zip(records.chunks_exact(record_bytes.get())) {
                *hash = self.hash(record);
            }
        }
    }
}

/// The bytes of a compressed secp256k1 point: the length that is worth a code path of its own.
const POINT_BYTES: usize = 33;

/// The hash of NUT-25 as deployed (cashu-ts, nutshell): two 32-bit Murmur3 hashes, the second one seeded
/// with the first, which becomes the upper half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nut25;

impl ItemHash for Nut25 {
    #[inline]
    fn hash(&self, item: &[u8]) -> u64 {
        by_length(item, murmur3::nut25, murmur3::nut25)
    }
}

/// The hash of the NUT-23 text: the first word of the 128-bit Murmur3 for 64-bit machines, seed 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nut23;

impl ItemHash for Nut23 {
    #[inline]
    fn hash(&self, item: &[u8]) -> u64 {
        by_length(item, murmur3::x64_128_first, murmur3::x64_128_first)
    }
}

/// The hash of an item, with a copy of the code for points, whose loops a known length unrolls.
#[inline(always)]
fn by_length(item: &[u8], point: impl Fn(&[u8]) -> u64, other: impl Fn(&[u8]) -> u64) -> u64 {
    match <&[u8; POINT_BYTES]>::try_from(item) {
        Ok(item) => point(item),
        Err(_) => other(item),
    }
}

/// A known wrong reading of NUT-25, whose second half hashes the empty string instead of the item.
///
/// Here to recognise filters that were built so, never to build one: to everyone else they deny members
/// (2 % of them at N = 100, 95 % at N = 100,000).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WrongDialect;

impl ItemHash for WrongDialect {
    fn hash(&self, item: &[u8]) -> u64 {
        murmur3::nut25_drained(item)
    }
}

/// The marker of a filter whose values were mapped by the caller: it hashes nothing, so such a filter
/// offers the functions on values alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unhashed;

/// Maps a 64-bit hash to `[0, f)`: the upper 64 bits of the 128-bit product.
///
/// Never decreases as `hash` grows, so sorted hashes give sorted values.
#[inline]
#[must_use]
pub const fn map_to_range(hash: u64, f: u64) -> u64 {
    ((hash as u128 * f as u128) >> 64) as u64
}

/// [`map_to_range`] for each of `hashes`, in place.
pub fn map_all_to_range(level: Level, hashes: &mut [u64], f: u64) {
    let _ = level;
    for hash in hashes {
        *hash = map_to_range(*hash, f);
    }
}

/// A checksum of bytes that lie in the same machine: against accidents, not against attackers.
pub(crate) fn fingerprint(bytes: &[u8]) -> u64 {
    murmur3::x64_128_first(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    #[test]
    fn batches_equal_single_hashes_at_every_level_and_length() {
        let bytes: Vec<u8> = (0..4096_u32).map(|i| (i % 251) as u8).collect();
        for level in Level::available() {
            for record_bytes in 1..=100 {
                let width = NonZeroUsize::new(record_bytes).unwrap();
                let items: Vec<&[u8]> = bytes.chunks_exact(record_bytes).collect();
                check(&Nut25, level, &bytes, width, &items);
                check(&Nut23, level, &bytes, width, &items);
                check(&SipHash::new(1, 2), level, &bytes, width, &items);
            }
        }

        fn check<H: ItemHash>(
            hasher: &H,
            level: Level,
            records: &[u8],
            width: NonZeroUsize,
            items: &[&[u8]],
        ) {
            let single: Vec<u64> = items.iter().map(|item| hasher.hash(item)).collect();
            let (mut by_item, mut by_record) = (vec![7; single.len()], vec![7; single.len() + 1]);
            hasher.hash_items(level, items, &mut by_item);
            hasher.hash_records(level, records, width, &mut by_record);
            assert_eq!(by_item, single, "{hasher:?}, {level}, {width} bytes");
            assert_eq!(by_record.pop(), Some(7), "written beyond the last record");
            assert_eq!(by_record, single, "{hasher:?}, {level}, {width} bytes");
            let (few, rest) = by_item.split_at_mut(single.len() / 2);
            rest.fill(7);
            hasher.hash_records(level, records, width, few);
            assert!(
                rest.iter().all(|&hash| hash == 7),
                "written beyond the places"
            );
        }
    }

    #[test]
    fn map_stays_in_range_and_keeps_order() {
        let edges = [0, 1, 2, u64::MAX / 2, u64::MAX - 1, u64::MAX];
        for f in [1, 2, 784_931, (1 << 52) - 1, u64::MAX] {
            let mut values = edges;
            for level in Level::available() {
                values = edges;
                map_all_to_range(level, &mut values, f);
                assert_eq!(
                    values,
                    edges.map(|hash| map_to_range(hash, f)),
                    "F = {f}, {level}"
                );
            }
            assert!(values.is_sorted() && values[5] < f, "F = {f}");
        }
        assert_eq!(map_to_range(u64::MAX, u64::MAX), u64::MAX - 1);
    }
}
