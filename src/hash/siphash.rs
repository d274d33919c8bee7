//! SipHash-2-4 (Aumasson and Bernstein): the keyed hash of BIP158.
//!
//! The state has four words. Each 8 bytes of the item take two rounds; the end takes four more. The last word
//! holds the remaining bytes and, in its top byte, the item's length modulo 256.

use core::num::NonZeroUsize;

#[cfg(target_arch = "x86_64")]
use super::hash_runs;
use super::{ItemHash, POINT_BYTES, by_length, hash_each, last_bytes, whole};
#[cfg(target_arch = "x86_64")]
use crate::arch::hash as kernels;
use crate::arch::{Kind, SimdLevel};

/// SipHash-2-4 with a 128-bit key.
///
/// BIP158 takes the key from the block. Nobody can therefore prepare an item that collides in every block's
/// filter.
///
/// ```
/// use nutfilter::{ItemHash, SipHash};
///
/// // The example of the SipHash paper: key 00..0f, item 00..0e.
/// let key = core::array::from_fn(|i| i as u8);
/// let item: [u8; 15] = core::array::from_fn(|i| i as u8);
/// assert_eq!(SipHash::from_key(key).hash(&item), 0xa129_ca61_49be_45e5);
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SipHash {
    k0: u64,
    k1: u64,
}

impl core::fmt::Debug for SipHash {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // The key is public in BIP158, but elsewhere it may protect against collisions.
        f.write_str("SipHash { .. }")
    }
}

impl SipHash {
    /// A hasher with the key (`k0`, `k1`).
    #[must_use]
    pub const fn new(k0: u64, k1: u64) -> Self {
        Self { k0, k1 }
    }

    /// A hasher with a key of 16 bytes: two little-endian words.
    #[must_use]
    pub const fn from_key(key: [u8; 16]) -> Self {
        let words = u128::from_le_bytes(key);
        Self::new(words as u64, (words >> 64) as u64)
    }

    /// The hasher of a block's basic filter. The key is the first 16 bytes of the block hash in internal order,
    /// the reverse of the order in which it is printed.
    #[must_use]
    pub fn from_block_hash(internal_order: &[u8; 32]) -> Self {
        Self::from_key(core::array::from_fn(|i| internal_order[i]))
    }
}

impl From<[u8; 32]> for SipHash {
    /// [`SipHash::from_block_hash`].
    fn from(block_hash: [u8; 32]) -> Self {
        Self::from_block_hash(&block_hash)
    }
}

#[cfg(feature = "bitcoin")]
impl From<bitcoin::BlockHash> for SipHash {
    /// [`SipHash::from_block_hash`].
    fn from(block_hash: bitcoin::BlockHash) -> Self {
        Self::from_block_hash(block_hash.as_ref())
    }
}

impl ItemHash for SipHash {
    #[inline]
    fn hash(&self, item: &[u8]) -> u64 {
        by_length(item, |item| self.hash_bytes(item), |item| self.hash_bytes(item))
    }

    at_best_level!();

    fn hash_items_at<I: AsRef<[u8]>>(&self, level: SimdLevel, items: &[I], out: &mut [u64]) {
        match level.kind() {
            Kind::Baseline(_) => hash_each(self, items, out),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(_) | Kind::Avx512(_) => hash_runs(self, level, items, out),
        }
    }

    fn hash_records_at(
        &self,
        level: SimdLevel,
        records: &[u8],
        record_bytes: NonZeroUsize,
        out: &mut [u64],
    ) {
        let (records, out) = whole(records, record_bytes, out);
        #[cfg(target_arch = "x86_64")]
        let SipState { a, b, c, d } = self.start();
        let done = match level.kind() {
            Kind::Baseline(_) => false,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(avx2) => {
                kernels::siphash::<_, 3, 2, 2>(avx2, [a, b, c, d], records, record_bytes.get(), out)
            }
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512(avx512) => kernels::siphash::<_, 4, 0, 4>(
                avx512,
                [a, b, c, d],
                records,
                record_bytes.get(),
                out,
            ),
        };
        if !done {
            self.hash_in_pairs(records, record_bytes.get(), out);
        }
    }
}

/// One word of each of eight items. The last word of an item holds its remaining bytes and its length.
pub(crate) type Column = [u64; COLUMN];
pub(crate) const COLUMN: usize = 8;

/// The words that are hashed for `item`, of which there are `item.len() / 8 + 1`.
pub(crate) fn words(item: &[u8]) -> impl Iterator<Item = u64> {
    let (words, tail) = item.as_chunks::<8>();
    let last = u64::from(item.len() as u8) << 56 | last_bytes(item, tail.len());
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    words.chain([last])
}

impl SipHash {
    /// Hashes items whose [`words`] lie in columns: `count` columns for each group of eight items. All items of a
    /// call have equally many words, but may differ in length. `out` has a column for each group.
    ///
    /// Items that are hashed with many keys are put into columns once. This saves the transposition that
    /// [`ItemHash::hash_records`] does each time, and short groups of each length.
    pub(crate) fn hash_columns(
        self,
        level: SimdLevel,
        columns: &[Column],
        count: usize,
        out: &mut [Column],
    ) {
        let state = self.start();
        match level.kind() {
            Kind::Baseline(_) => {
                for (columns, out) in columns.chunks_exact(count).zip(out) {
                    for (lane, out) in out.iter_mut().enumerate() {
                        let words = columns.iter().map(|column| column[lane]);
                        *out = words.fold(state, SipState::absorb).finish();
                    }
                }
            }
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(avx2) => {
                kernels::siphash_columns::<_, 2, 2>(avx2, self.state(), columns, count, out);
            }
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512(avx512) => {
                kernels::siphash_columns::<_, 4, 1>(avx512, self.state(), columns, count, out);
            }
        }
    }

    /// The words of the initial state for the key.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn state(self) -> [u64; 4] {
        let SipState { a, b, c, d } = self.start();
        [a, b, c, d]
    }

    /// The initial state for the key.
    #[inline(always)]
    fn start(self) -> SipState {
        SipState {
            a: self.k0 ^ 0x736f_6d65_7073_6575,
            b: self.k1 ^ 0x646f_7261_6e64_6f6d,
            c: self.k0 ^ 0x6c79_6765_6e65_7261,
            d: self.k1 ^ 0x7465_6462_7974_6573,
        }
    }

    /// The hash of each record. Two at a time wait less for each other's rounds: 16 instead of 21 ns per point.
    fn hash_in_pairs(self, records: &[u8], width: usize, out: &mut [u64]) {
        let (pairs, last) = out.as_chunks_mut::<2>();
        let mut records = records.chunks_exact(2 * width);
        for (out, pair) in pairs.iter_mut().zip(&mut records) {
            let (one, two) = pair.split_at(width);
            *out = match width {
                POINT_BYTES => self.hash_two(&one[..POINT_BYTES], &two[..POINT_BYTES]),
                _ => self.hash_two(one, two),
            };
        }
        for out in last {
            *out = self.hash_bytes(records.remainder());
        }
    }

    #[inline(always)]
    fn hash_two(self, one: &[u8], two: &[u8]) -> [u64; 2] {
        let (mut a, mut b) = (self.start(), self.start());
        for (one, two) in words(one).zip(words(two)) {
            (a, b) = (a.absorb(one), b.absorb(two));
        }
        [a.finish(), b.finish()]
    }

    #[inline(always)]
    fn hash_bytes(self, item: &[u8]) -> u64 {
        let mut state = self.start();
        let (words, tail) = item.as_chunks::<8>();
        for word in words {
            state = state.absorb(u64::from_le_bytes(*word));
        }
        let length = u64::from(item.len() as u8) << 56;
        state.absorb(length | last_bytes(item, tail.len())).finish()
    }
}

/// The four words of state, as named fields by value. An array would stay in vector registers, where rotations
/// are expensive.
#[derive(Clone, Copy)]
struct SipState {
    a: u64,
    b: u64,
    c: u64,
    d: u64,
}

impl SipState {
    #[inline(always)]
    fn absorb(mut self, word: u64) -> Self {
        self.d ^= word;
        self = self.round().round();
        self.a ^= word;
        self
    }

    #[inline(always)]
    fn finish(mut self) -> u64 {
        self.c ^= 0xff;
        let Self { a, b, c, d } = self.round().round().round().round();
        a ^ b ^ c ^ d
    }

    #[inline(always)]
    fn round(self) -> Self {
        let Self { a, b, c, d } = self;
        let a = a.wrapping_add(b);
        let b = b.rotate_left(13) ^ a;
        let a = a.rotate_left(32);
        let c = c.wrapping_add(d);
        let d = d.rotate_left(16) ^ c;
        let a = a.wrapping_add(d);
        let d = d.rotate_left(21) ^ a;
        let c = c.wrapping_add(b);
        let b = b.rotate_left(17) ^ c;
        let c = c.rotate_left(32);
        Self { a, b, c, d }
    }
}
