//! The three hashes, and which profile uses which.
//!
//! All three hashes read the item in little-endian words, and treat the rest (too short for a word) as one more
//! word padded with zero bytes. So one loop handles whole and partial words. Note that an item of an exact number
//! of words has an empty rest: for both Murmur hashes, mixing in a zero word changes nothing. SipHash always has a
//! last word, because its top byte holds the length.

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
    /// The BIP158 profile for a key of 16 bytes: the first 16 bytes of the block hash in internal order, which is
    /// the reverse of the displayed order.
    pub fn bip158(key: [u8; 16]) -> Self {
        Profile::Bip158 {
            k0: little_endian(&key[..8]),
            k1: little_endian(&key[8..]),
        }
    }

    /// The 64-bit hash of one item, given as raw bytes of any length, including 0.
    pub fn hash(&self, item: &[u8]) -> u64 {
        match *self {
            Profile::Nut25 => {
                let h1 = murmur3_x86_32(item, 0);
                let h2 = murmur3_x86_32(item, h1);
                u64::from(h1) << 32 | u64::from(h2)
            }
            Profile::Nut23 => murmur3_x64_128(item, 0)[0],
            Profile::Bip158 { k0, k1 } => siphash_2_4(item, k0, k1),
        }
    }
}

/// Murmur3, the variant with 32-bit words and a 32-bit result.
pub fn murmur3_x86_32(item: &[u8], seed: u32) -> u32 {
    let mut state = seed;
    for chunk in item.chunks(4) {
        let word = little_endian(chunk) as u32; // at most 4 bytes: nothing is cut off
        state ^= word
            .wrapping_mul(0xcc9e_2d51)
            .rotate_left(15)
            .wrapping_mul(0x1b87_3593);
        if chunk.len() == 4 {
            state = state
                .rotate_left(13)
                .wrapping_mul(5)
                .wrapping_add(0xe654_6b64);
        }
    }
    state ^= item.len() as u32; // by definition the length modulo 2^32
    state ^= state >> 16;
    state = state.wrapping_mul(0x85eb_ca6b);
    state ^= state >> 13;
    state = state.wrapping_mul(0xc2b2_ae35);
    state ^ state >> 16
}

/// Murmur3, the variant with 64-bit words and a 128-bit result, as its two 64-bit output words in order.
///
/// NUT-23 takes the first word. `mmh3.hash128` on PyPI returns both as one number, with the first word in the
/// *low* 64 bits.
pub fn murmur3_x64_128(item: &[u8], seed: u32) -> [u64; 2] {
    const C1: u64 = 0x87c3_7b91_1142_53d5;
    const C2: u64 = 0x4cf5_ad43_2745_937f;

    let mut h1 = u64::from(seed);
    let mut h2 = u64::from(seed);
    for block in item.chunks(16) {
        let (low, high) = block.split_at(block.len().min(8));
        let k1 = little_endian(low)
            .wrapping_mul(C1)
            .rotate_left(31)
            .wrapping_mul(C2);
        let k2 = little_endian(high)
            .wrapping_mul(C2)
            .rotate_left(33)
            .wrapping_mul(C1);
        h1 ^= k1;
        if block.len() == 16 {
            h1 = h1
                .rotate_left(27)
                .wrapping_add(h2)
                .wrapping_mul(5)
                .wrapping_add(0x52dc_e729);
        }
        h2 ^= k2;
        if block.len() == 16 {
            h2 = h2
                .rotate_left(31)
                .wrapping_add(h1)
                .wrapping_mul(5)
                .wrapping_add(0x3849_5ab5);
        }
    }
    h1 ^= item.len() as u64;
    h2 ^= item.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    h1 = murmur3_finish_64(h1);
    h2 = murmur3_finish_64(h2);
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    [h1, h2]
}

/// The final mixing of each half of the 128-bit Murmur3 hash.
fn murmur3_finish_64(mut half: u64) -> u64 {
    half ^= half >> 33;
    half = half.wrapping_mul(0xff51_afd7_ed55_8ccd);
    half ^= half >> 33;
    half = half.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    half ^ half >> 33
}

/// SipHash with two rounds per word and four at the end, with the key `(k0, k1)`.
pub fn siphash_2_4(item: &[u8], k0: u64, k1: u64) -> u64 {
    // The four constants are the ASCII text "somepseudorandomlygeneratedbytes".
    let mut state = [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ];
    let whole = item.len() / 8 * 8;
    for chunk in item[..whole].chunks(8) {
        sip_absorb(&mut state, little_endian(chunk));
    }
    let length = item.len() as u64 & 0xff; // by definition modulo 256
    sip_absorb(&mut state, length << 56 | little_endian(&item[whole..]));

    state[2] ^= 0xff;
    for _ in 0..4 {
        sip_round(&mut state);
    }
    state[0] ^ state[1] ^ state[2] ^ state[3]
}

fn sip_absorb(state: &mut [u64; 4], word: u64) {
    state[3] ^= word;
    sip_round(state);
    sip_round(state);
    state[0] ^= word;
}

fn sip_round(state: &mut [u64; 4]) {
    let [mut a, mut b, mut c, mut d] = *state;
    a = a.wrapping_add(b);
    b = b.rotate_left(13) ^ a;
    a = a.rotate_left(32);
    c = c.wrapping_add(d);
    d = d.rotate_left(16) ^ c;
    a = a.wrapping_add(d);
    d = d.rotate_left(21) ^ a;
    c = c.wrapping_add(b);
    b = b.rotate_left(17) ^ c;
    c = c.rotate_left(32);
    *state = [a, b, c, d];
}

/// Reads up to 8 bytes as a little-endian number; no bytes give 0.
fn little_endian(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |number, &byte| number << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The self-test published by Murmur3's author. Hash the 256 strings "", 00, 00 01, ..., with the seeds 256,
    /// 255, ..., 1. Hash all results together with seed 0, and take the first four bytes. It covers every length
    /// of the rest, and seeds other than 0.
    fn smhasher_verification(hash: impl Fn(&[u8], u32) -> Vec<u8>) -> u32 {
        let mut results = Vec::new();
        for length in 0..256_u32 {
            let key: Vec<u8> = (0..length).map(|byte| byte as u8).collect();
            results.extend(hash(&key, 256 - length));
        }
        little_endian(&hash(&results, 0)[..4]) as u32
    }

    #[test]
    fn murmur3_x86_32_passes_the_authors_self_test() {
        let code =
            smhasher_verification(|key, seed| murmur3_x86_32(key, seed).to_le_bytes().to_vec());
        assert_eq!(code, 0xb0f5_7ee3, "{code:08x}");
    }

    #[test]
    fn murmur3_x64_128_passes_the_authors_self_test() {
        let code = smhasher_verification(|key, seed| {
            murmur3_x64_128(key, seed)
                .iter()
                .flat_map(|word| word.to_le_bytes())
                .collect()
        });
        assert_eq!(code, 0x6384_ba69, "{code:08x}");
    }

    #[test]
    fn siphash_gives_the_authors_values() {
        // Key 00 01 .. 0f and messages 00 01 .., as in the paper (15 bytes) and its test program.
        let (k0, k1) = (0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);
        let key: Vec<u8> = (0..16).collect();
        assert_eq!(
            Profile::bip158(key.clone().try_into().unwrap()),
            Profile::Bip158 { k0, k1 }
        );
        assert_eq!(siphash_2_4(&[], k0, k1), 0x726f_db47_dd0e_0e31);
        assert_eq!(siphash_2_4(&key[..1], k0, k1), 0x74f8_39c5_93dc_67fd);
        assert_eq!(siphash_2_4(&key[..8], k0, k1), 0x93f5_f579_9a93_2462);
        assert_eq!(siphash_2_4(&key[..15], k0, k1), 0xa129_ca61_49be_45e5);
    }
}
