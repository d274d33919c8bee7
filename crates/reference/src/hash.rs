//! Which profile uses which hash. The hashes are those of crates that others wrote.

use std::hash::Hasher as _;

/// The hash of a filter. All profiles share the same coder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// NUT-25 as implemented by cashu-ts and nutshell: two 32-bit Murmur3 hashes, the second one seeded with the
    /// first.
    Nut25,
    /// The text of NUT-23: the first word of the 128-bit Murmur3 hash.
    Nut23,
    /// BIP158: SipHash-2-4 under a 128-bit key taken from the block hash.
    Bip158 {
        /// Bytes 0 to 8 of the key, read as a little-endian number.
        k0: u64,
        /// Bytes 8 to 16 of the key, read as a little-endian number.
        k1: u64,
    },
}

impl Profile {
    /// The 64-bit hash of one item, given as raw bytes of any length, including 0.
    pub fn hash(&self, mut item: &[u8]) -> u64 {
        match *self {
            Profile::Nut25 => {
                let upper = murmur3_32(item, 0);
                u64::from(upper) << 32 | u64::from(murmur3_32(item, upper))
            }
            Profile::Nut23 => murmur3::murmur3_x64_128(&mut item, 0).expect("memory reads") as u64,
            Profile::Bip158 { k0, k1 } => {
                let mut hasher = siphasher::sip::SipHasher24::new_with_keys(k0, k1);
                hasher.write(item);
                hasher.finish()
            }
        }
    }
}

/// Murmur3, the variant with 32-bit words and a 32-bit result.
pub fn murmur3_32(mut item: &[u8], seed: u32) -> u32 {
    murmur3::murmur3_32(&mut item, seed).expect("memory reads")
}
