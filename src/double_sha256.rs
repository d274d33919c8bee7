//! The double SHA-256 of many messages, several side by side.
//!
//! A message is compressed in parts: its whole blocks, the padded rest, and the digest as a message of its own. Each
//! lane has a part, and all lanes advance by as many blocks as the shortest part has. A lane that has finished its
//! message takes the next one.

use alloc::vec;
use alloc::vec::Vec;

use sha2::block_api::compress256;

use crate::arch::sha256::{Sha256Block, Sha256State};
use crate::arch::{Kind, SimdLevel};

#[cfg(target_arch = "x86_64")]
use crate::arch::x86_64::sha256_kernels::{LANES, Sha, WIDE};
#[cfg(target_arch = "x86_64")]
use crate::arch::x86_64::{Avx2, Avx512};

pub(crate) type Digest = [u8; 32];

/// The fractional parts of the square roots of the first eight primes.
const START: Sha256State = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// What compresses blocks. It never changes a digest.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sha256 {
    /// The crate `sha2`, which has kernels for one message on Arm and others.
    Single,
    /// Eight messages at once.
    #[cfg(target_arch = "x86_64")]
    Lanes(Avx2),
    /// Two messages at once: they keep the unit busy. Four need more registers than there are, and took a fifth more on a Zen 4.
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

    /// The double SHA-256 of each message.
    pub(crate) fn hash_twice<'a>(self, messages: impl Iterator<Item = &'a [u8]>) -> Vec<Digest> {
        // One copy of the code for all callers.
        self.hash_all_twice(messages.enumerate().collect())
    }

    fn hash_all_twice(self, messages: Vec<(usize, &[u8])>) -> Vec<Digest> {
        match self {
            Self::Single => side_by_side(
                |[state]: &mut [Sha256State; 1], [blocks]| compress256(state, blocks),
                messages,
            ),
            #[cfg(target_arch = "x86_64")]
            Self::Lanes(avx2) => side_by_side::<LANES>(
                |states, blocks| avx2.sha256_compress(states, blocks),
                messages,
            ),
            #[cfg(target_arch = "x86_64")]
            Self::WideLanes(avx512) => side_by_side::<WIDE>(
                |states, blocks| avx512.sha256_compress(states, blocks),
                messages,
            ),
            #[cfg(target_arch = "x86_64")]
            Self::Instructions(sha) => {
                side_by_side::<2>(|states, blocks| sha.compress(states, blocks), messages)
            }
        }
    }
}

/// A message that is being hashed.
struct Lane<'a> {
    index: usize,
    /// The whole blocks that are left.
    blocks: &'a [Sha256Block],
    /// The last blocks, padded; then the digest, padded.
    tail: [Sha256Block; 2],
    /// The blocks of the tail that are left.
    left: core::ops::Range<usize>,
    /// Whether the digest is being hashed.
    again: bool,
}

impl<'a> Lane<'a> {
    fn new((index, message): (usize, &'a [u8])) -> Self {
        let (blocks, rest) = message.as_chunks::<64>();
        let mut lane = Self { index, blocks, tail: [[0; 64]; 2], left: 0..0, again: false };
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
    fn next(&self) -> &[Sha256Block] {
        if self.blocks.is_empty() { &self.tail[self.left.clone()] } else { self.blocks }
    }

    /// Skips blocks that were compressed. Returns the digest after the last one.
    fn skip(&mut self, count: usize, state: &mut Sha256State) -> Option<Digest> {
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
fn side_by_side<const N: usize>(
    mut compress: impl FnMut(&mut [Sha256State; N], [&[Sha256Block]; N]),
    mut messages: Vec<(usize, &[u8])>,
) -> Vec<Digest> {
    let mut digests = vec![[0; 32]; messages.len()];
    // The longest first, so that the lanes have work for about as long as each other.
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
            return digests;
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
            let digest = lane.as_mut().and_then(|lane| lane.skip(count, state));
            if let (Some(digest), Some(finished)) = (digest, &*lane) {
                digests[finished.index] = digest;
                *lane = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Noise;
    use sha2::Digest as _;

    fn check(messages: &[Vec<u8>], kind: Sha256) {
        let found = kind.hash_twice(messages.iter().map(Vec::as_slice));
        assert_eq!(found.len(), messages.len());
        for (message, found) in messages.iter().zip(found) {
            let expected: Digest = sha2::Sha256::digest(sha2::Sha256::digest(message)).into();
            assert_eq!(found, expected, "{kind:?}, {} bytes", message.len());
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
        let mut random = Noise::of(7);
        for kind in Sha256::available() {
            for _ in 0..40 {
                let count = random.number() % 20;
                let messages = (0..count).map(|_| {
                    let most = [1, 64, 129, 5000, 70_000][random.number() as usize % 5];
                    let len = random.number() % most;
                    (0..len).map(|_| random.number() as u8).collect()
                });
                check(&messages.collect::<Vec<_>>(), kind);
            }
        }
    }
}
