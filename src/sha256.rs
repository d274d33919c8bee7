//! The double SHA-256 of many messages, several side by side.
//!
//! A message is compressed in parts: its whole blocks, the padded rest, and the digest as a message of its own. Each
//! lane has a part, and all lanes advance by as many blocks as the shortest part has. A lane that has finished its
//! message takes the next one.

use alloc::vec::Vec;

use sha2::block_api::compress256;

use crate::arch::{Kind, SimdLevel};

#[cfg(target_arch = "x86_64")]
use crate::arch::x86_64::sha256::{LANES, Sha, WIDE};
#[cfg(target_arch = "x86_64")]
use crate::arch::x86_64::{Avx2, Avx512};

/// Bytes that are compressed at once.
pub(crate) type Block = [u8; 64];
pub(crate) type State = [u32; 8];
pub(crate) type Digest = [u8; 32];

/// The fractional parts of the square roots of the first eight primes.
const START: State = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// The fractional parts of the cube roots of the first 64 primes.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
pub(crate) const K: [u32; 64] = [
    0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5,
    0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174,
    0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da,
    0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7, 0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967,
    0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85,
    0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070,
    0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
    0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2,
];

/// What compresses blocks. It never changes a digest.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sha256 {
    /// The crate `sha2`, which has kernels for one message on Arm and others.
    Single,
    /// Eight messages at once.
    #[cfg(target_arch = "x86_64")]
    Lanes(Avx2),
    /// Four messages at once: two already hide most of the latency, four take a tenth less.
    #[cfg(target_arch = "x86_64")]
    Instructions(Sha),
    /// Sixteen messages at once.
    #[cfg(target_arch = "x86_64")]
    WideLanes(Avx512),
}

impl Sha256 {
    /// The fastest one of this CPU.
    pub(crate) fn detect() -> Self {
        // The kinds ascend.
        Self::available().last().unwrap_or(Self::Single)
    }

    /// The fastest one for a level.
    pub(crate) fn of(level: SimdLevel) -> Self {
        match level.kind() {
            Kind::Baseline(_) => Self::Single,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(_) => Self::available()
                .filter(|kind| !matches!(kind, Self::WideLanes(_)))
                .last()
                .unwrap_or(Self::Single),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512(_) => Self::detect(),
        }
    }

    /// All that this CPU supports, in ascending order of speed.
    pub(crate) fn available() -> impl Iterator<Item = Self> {
        let kinds = [Some(Self::Single)].into_iter();
        #[cfg(target_arch = "x86_64")]
        let kinds = {
            let wide = Avx512::detect();
            let sha = Sha::detect().map(Self::Instructions);
            // AMD's CPUs have faster SHA instructions and, up to Zen 4, half as wide units.
            let is_last = wide.is_some_and(Avx512::is_intel);
            let wide = wide.map(Self::WideLanes);
            let [first, last] = if is_last { [sha, wide] } else { [wide, sha] };
            kinds.chain([Avx2::detect().map(Self::Lanes), first, last])
        };
        kinds.flatten()
    }

    /// Calls `done` with the index and the double SHA-256 of each message, in any order.
    pub(crate) fn hash_twice<'a>(
        self,
        messages: impl Iterator<Item = &'a [u8]>,
        done: impl FnMut(usize, Digest),
    ) {
        match self {
            Self::Single => side_by_side(
                |[state]: &mut [State; 1], [blocks]| compress256(state, blocks),
                messages,
                done,
            ),
            #[cfg(target_arch = "x86_64")]
            Self::Lanes(avx2) => side_by_side::<LANES>(
                |states, blocks| avx2.sha256_compress(states, blocks),
                messages,
                done,
            ),
            #[cfg(target_arch = "x86_64")]
            Self::WideLanes(avx512) => side_by_side::<WIDE>(
                |states, blocks| avx512.sha256_compress(states, blocks),
                messages,
                done,
            ),
            #[cfg(target_arch = "x86_64")]
            Self::Instructions(sha) => side_by_side::<4>(
                |states, blocks| sha.compress(states, blocks),
                messages,
                done,
            ),
        }
    }
}

/// A message that is being hashed.
struct Lane<'a> {
    index: usize,
    /// The whole blocks that are left.
    blocks: &'a [Block],
    /// The last blocks, padded; then the digest, padded.
    tail: [Block; 2],
    /// The blocks of the tail that are left.
    left: core::ops::Range<usize>,
    /// Whether the digest is being hashed.
    again: bool,
}

impl<'a> Lane<'a> {
    fn new((index, message): (usize, &'a [u8])) -> Self {
        let (blocks, rest) = message.as_chunks::<64>();
        let mut lane = Self {
            index,
            blocks,
            tail: [[0; 64]; 2],
            left: 0..0,
            again: false,
        };
        lane.pad(rest, message.len());
        lane
    }

    /// Sets the tail: `rest` is the end of a message of `len` bytes.
    fn pad(&mut self, rest: &[u8], len: usize) {
        let tail = self.tail.as_flattened_mut();
        tail.fill(0);
        tail[..rest.len()].copy_from_slice(rest);
        tail[rest.len()] = 0x80;
        // The padding has at least one byte and the length in bits.
        let end = (rest.len() + 9).next_multiple_of(64);
        tail[end - 8..end].copy_from_slice(&(len as u64 * 8).to_be_bytes());
        self.left = 0..end / 64;
    }

    /// The blocks that come next; at least one.
    fn next(&self) -> &[Block] {
        if self.blocks.is_empty() {
            &self.tail[self.left.clone()]
        } else {
            self.blocks
        }
    }

    /// Skips blocks that were compressed. Returns the digest after the last one.
    fn advance(&mut self, count: usize, state: &mut State) -> Option<Digest> {
        if !self.blocks.is_empty() {
            self.blocks = &self.blocks[count..];
            return None;
        }
        self.left.start += count;
        if !self.left.is_empty() {
            return None;
        }
        let mut digest = [0; 32];
        for (bytes, word) in digest.as_chunks_mut().0.iter_mut().zip(&*state) {
            *bytes = word.to_be_bytes();
        }
        if self.again {
            return Some(digest);
        }
        self.again = true;
        *state = START;
        self.pad(&digest, digest.len());
        None
    }
}

/// [`Sha256::hash_twice`] with a kernel for `N` messages, which compresses as many blocks as all of them have.
fn side_by_side<'a, const N: usize>(
    mut compress: impl FnMut(&mut [State; N], [&[Block]; N]),
    messages: impl Iterator<Item = &'a [u8]>,
    mut done: impl FnMut(usize, Digest),
) {
    // The longest first, so that the lanes have work for about as long as each other.
    let mut messages: Vec<_> = messages.enumerate().collect();
    messages.sort_by_key(|(_, message)| core::cmp::Reverse(message.len()));
    let mut messages = messages.into_iter();
    let mut states = [START; N];
    let mut lanes = [const { None }; N];
    loop {
        for (lane, state) in lanes.iter_mut().zip(&mut states) {
            if lane.is_none() {
                *lane = messages.next().map(Lane::new);
                *state = START;
            }
        }
        // A lane without a message repeats another's blocks.
        let Some(any) = lanes.iter().flatten().next() else {
            return;
        };
        let parts = lanes.each_ref();
        let parts = parts.map(|lane: &Option<Lane<'_>>| lane.as_ref().unwrap_or(any).next());
        let count = parts.iter().map(|part| part.len()).min().unwrap_or(0);
        let active = lanes.iter().flatten().count();
        if active * 3 < N {
            // Eight lanes take as long as about three messages one after another.
            for ((lane, state), part) in lanes.iter().zip(&mut states).zip(parts) {
                if lane.is_some() {
                    compress256(state, &part[..count]);
                }
            }
        } else {
            compress(&mut states, parts.map(|part| &part[..count]));
        }
        for (lane, state) in lanes.iter_mut().zip(&mut states) {
            let digest = lane.as_mut().and_then(|lane| lane.advance(count, state));
            if let (Some(digest), Some(finished)) = (digest, &*lane) {
                done(finished.index, digest);
                *lane = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::splitmix::Random;
    use alloc::vec;
    use sha2::Digest as _;

    fn check(messages: &[Vec<u8>], kind: Sha256) {
        let mut found = vec![None; messages.len()];
        kind.hash_twice(messages.iter().map(Vec::as_slice), |index, digest| {
            assert_eq!(found[index].replace(digest), None, "{kind:?}");
        });
        for (message, found) in messages.iter().zip(found) {
            let expected: Digest = sha2::Sha256::digest(sha2::Sha256::digest(message)).into();
            assert_eq!(found, Some(expected), "{kind:?}, {} bytes", message.len());
        }
    }

    #[test]
    fn digests_of_every_length_equal_the_reference() {
        let message = |len: usize| (0..len).map(|i| (i % 251) as u8).collect();
        for kind in Sha256::available() {
            check(&[], kind);
            // Each length alone, with its neighbours, and among all.
            let all: Vec<Vec<u8>> = (0..400).map(message).collect();
            for len in 0..all.len() {
                for count in 1..12 {
                    check(&all[len.saturating_sub(count)..len], kind);
                }
            }
            check(&all, kind);
        }
    }

    #[test]
    fn long_and_short_messages_in_any_order_equal_the_reference() {
        let mut random = Random::new(7);
        for kind in Sha256::available() {
            for _ in 0..40 {
                let count = random.next() % 20;
                let messages = (0..count).map(|_| {
                    let most = [1, 64, 129, 5000, 70_000][random.next() as usize % 5];
                    let len = random.next() % most;
                    (0..len).map(|_| random.next() as u8).collect()
                });
                check(&messages.collect::<Vec<_>>(), kind);
            }
        }
    }
}
