//! SHA-256 of several messages side by side.
//!
//! One message leaves the units idle: each pair of rounds waits for the previous one. With the SHA instructions, two
//! messages hide that. Without them, each of eight messages has a lane of AVX2. With AVX-512, which rotates and combines three
//! operands in one instruction, sixteen lanes are the fastest on Intel's CPUs.

use core::arch::x86_64::*;

use super::{Avx2, Avx512};
use crate::arch::sha256::{K, Sha256Block, Sha256State};

/// This CPU has the SHA instructions, SSSE3 and SSE4.1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sha(());

impl Sha {
    /// The token, if this CPU has the features.
    pub(crate) fn detect() -> Option<Self> {
        all_detected!("sha", "ssse3", "sse4.1").then_some(Self(()))
    }

    /// Compresses as many blocks of each message as the shortest slice has.
    #[inline]
    pub(crate) fn compress<const N: usize>(
        self,
        states: &mut [Sha256State; N],
        blocks: [&[Sha256Block]; N],
    ) {
        // SAFETY: the token proves that the CPU has the features.
        unsafe { compress_with_sha(states, blocks) }
    }
}

impl Avx2 {
    /// As [`Sha::compress`].
    #[inline]
    pub(crate) fn sha256_compress(
        self,
        states: &mut [Sha256State; LANES],
        blocks: [&[Sha256Block]; LANES],
    ) {
        // SAFETY: the token proves that the CPU has the features.
        unsafe { compress_in_lanes(states, blocks) }
    }
}

impl Avx512 {
    /// As [`Sha::compress`].
    #[inline]
    pub(crate) fn sha256_compress(
        self,
        states: &mut [Sha256State; WIDE],
        blocks: [&[Sha256Block]; WIDE],
    ) {
        // SAFETY: the token proves that the CPU has the features.
        unsafe { compress_in_wide_lanes(states, blocks) }
    }
}

/// The number of messages of AVX2.
pub(crate) const LANES: usize = 8;

/// The number of messages of AVX-512.
pub(crate) const WIDE: usize = 16;

// Loops here and below: a closure is not always inlined, and then passes vectors through memory.
#[target_feature(enable = "sha,ssse3,sse4.1")]
fn compress_with_sha<const N: usize>(states: &mut [Sha256State; N], blocks: [&[Sha256Block]; N]) {
    let count = blocks.iter().map(|blocks| blocks.len()).min().unwrap_or(0);
    let blocks = blocks.map(|blocks| &blocks[..count]);
    let big_endian = _mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12);
    // The instructions want the words a, b, e, f of the state in one vector, and c, d, g, h in another.
    let mut abef = [_mm_setzero_si128(); N];
    let mut cdgh = abef;
    for (i, state) in states.iter().enumerate() {
        let [abcd, efgh] = load(state);
        let cdab = _mm_shuffle_epi32::<0xb1>(abcd);
        let hgfe = _mm_shuffle_epi32::<0x1b>(efgh);
        abef[i] = _mm_alignr_epi8::<8>(cdab, hgfe);
        cdgh[i] = _mm_blend_epi16::<0xf0>(hgfe, cdab);
    }
    for block in 0..count {
        let (abef_before, cdgh_before) = (abef, cdgh);
        let mut words = [[_mm_setzero_si128(); 4]; N];
        for (words, blocks) in words.iter_mut().zip(blocks) {
            for (word, loaded) in words.iter_mut().zip(load::<_, 64, 4>(&blocks[block])) {
                *word = _mm_shuffle_epi8(loaded, big_endian);
            }
        }
        for (step, constants) in K.as_chunks::<16>().0.iter().enumerate() {
            let constants: [__m128i; 4] = load(constants);
            for (at, constants) in constants.into_iter().enumerate() {
                for i in 0..N {
                    let sum = _mm_add_epi32(words[i][at], constants);
                    cdgh[i] = _mm_sha256rnds2_epu32(cdgh[i], abef[i], sum);
                    let sum = _mm_shuffle_epi32::<0x0e>(sum);
                    abef[i] = _mm_sha256rnds2_epu32(abef[i], cdgh[i], sum);
                }
                if step < 3 {
                    for words in &mut words {
                        let next = [words[(at + 1) % 4], words[(at + 2) % 4], words[(at + 3) % 4]];
                        let shifted = _mm_alignr_epi8::<4>(next[2], next[1]);
                        let sum = _mm_add_epi32(_mm_sha256msg1_epu32(words[at], next[0]), shifted);
                        words[at] = _mm_sha256msg2_epu32(sum, next[2]);
                    }
                }
            }
        }
        for i in 0..N {
            abef[i] = _mm_add_epi32(abef[i], abef_before[i]);
            cdgh[i] = _mm_add_epi32(cdgh[i], cdgh_before[i]);
        }
    }
    for (i, state) in states.iter_mut().enumerate() {
        let feba = _mm_shuffle_epi32::<0x1b>(abef[i]);
        let dchg = _mm_shuffle_epi32::<0xb1>(cdgh[i]);
        let halves = [_mm_blend_epi16::<0xf0>(feba, dchg), _mm_alignr_epi8::<8>(dchg, feba)];
        // SAFETY: two vectors have the size of the state, and any bits are numbers.
        *state = unsafe { core::mem::transmute::<[__m128i; 2], Sha256State>(halves) };
    }
}

/// Any array of four-byte words or of bytes.
#[inline]
#[target_feature(enable = "sse2")]
fn load<T, const LEN: usize, const VECTORS: usize>(source: &[T; LEN]) -> [__m128i; VECTORS] {
    const { assert!(size_of::<[T; LEN]>() == VECTORS * 16) };
    let mut vectors = [_mm_setzero_si128(); VECTORS];
    for (i, vector) in vectors.iter_mut().enumerate() {
        // SAFETY: the array has this many vectors, and the load needs no alignment.
        *vector = unsafe { _mm_loadu_si128(source.as_ptr().cast::<__m128i>().add(i)) };
    }
    vectors
}

/// Rotates each word to the right.
macro_rules! rotate {
    ($words:expr, $right:literal) => {
        _mm256_or_si256(
            _mm256_srli_epi32::<$right>($words),
            _mm256_slli_epi32::<{ 32 - $right }>($words),
        )
    };
}

macro_rules! xor3 {
    ($a:expr, $b:expr, $c:expr) => {
        _mm256_xor_si256($a, _mm256_xor_si256($b, $c))
    };
}

#[target_feature(enable = "avx2")]
fn compress_in_lanes(states: &mut [Sha256State; LANES], blocks: [&[Sha256Block]; LANES]) {
    let count = blocks.iter().map(|blocks| blocks.len()).min().unwrap_or(0);
    let blocks = blocks.map(|blocks| &blocks[..count]);
    let big_endian = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12,
    ));
    let mut state = transpose(states.each_ref().map(
        #[inline(always)]
        |state| load_eight(state),
    ));
    for block in 0..count {
        let before = state;
        let mut words = [_mm256_setzero_si256(); 16];
        for half in 0..2 {
            let rows = blocks.map(
                #[inline(always)]
                |blocks| load_eight(&blocks[block].as_chunks::<32>().0[half]),
            );
            for (at, row) in transpose(rows).into_iter().enumerate() {
                words[half * 8 + at] = _mm256_shuffle_epi8(row, big_endian);
            }
        }
        for (step, constants) in K.as_chunks::<16>().0.iter().enumerate() {
            for (at, &constant) in constants.iter().enumerate() {
                if step > 0 {
                    let (w15, w2) = (words[(at + 1) % 16], words[(at + 14) % 16]);
                    let s0 = xor3!(rotate!(w15, 7), rotate!(w15, 18), _mm256_srli_epi32::<3>(w15));
                    let s1 = xor3!(rotate!(w2, 17), rotate!(w2, 19), _mm256_srli_epi32::<10>(w2));
                    let sum = _mm256_add_epi32(words[at], words[(at + 9) % 16]);
                    words[at] = _mm256_add_epi32(sum, _mm256_add_epi32(s0, s1));
                }
                let [a, b, c, d, e, f, g, h] = state;
                let s1 = xor3!(rotate!(e, 6), rotate!(e, 11), rotate!(e, 25));
                let choice = _mm256_xor_si256(g, _mm256_and_si256(e, _mm256_xor_si256(f, g)));
                let word = _mm256_add_epi32(words[at], _mm256_set1_epi32(constant as i32));
                let t1 = _mm256_add_epi32(_mm256_add_epi32(h, word), _mm256_add_epi32(s1, choice));
                let s0 = xor3!(rotate!(a, 2), rotate!(a, 13), rotate!(a, 22));
                let differ = _mm256_and_si256(_mm256_xor_si256(a, b), _mm256_xor_si256(b, c));
                let majority = _mm256_xor_si256(b, differ);
                let t2 = _mm256_add_epi32(s0, majority);
                let (next_a, next_e) = (_mm256_add_epi32(t1, t2), _mm256_add_epi32(d, t1));
                state = [next_a, a, b, c, next_e, e, f, g];
            }
        }
        for (state, before) in state.iter_mut().zip(before) {
            *state = _mm256_add_epi32(*state, before);
        }
    }
    for (state, row) in states.iter_mut().zip(transpose(state)) {
        // SAFETY: a vector has the size of a state, and any bits are numbers.
        *state = unsafe { core::mem::transmute::<__m256i, Sha256State>(row) };
    }
}

/// As [`load`], one vector.
#[inline]
#[target_feature(enable = "avx2")]
fn load_eight<T, const LEN: usize>(source: &[T; LEN]) -> __m256i {
    const { assert!(size_of::<[T; LEN]>() == 32) };
    // SAFETY: the array has the size of a vector, and the load needs no alignment.
    unsafe { _mm256_loadu_si256(source.as_ptr().cast()) }
}

/// Word `i` of row `j` becomes word `j` of row `i`.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose(rows: [__m256i; 8]) -> [__m256i; 8] {
    let [a, b, c, d, e, f, g, h] = rows;
    let pairs = |a, b, c, d| {
        let (ab, cd) = (_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d));
        let (ab_high, cd_high) = (_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));
        [
            _mm256_unpacklo_epi64(ab, cd),
            _mm256_unpackhi_epi64(ab, cd),
            _mm256_unpacklo_epi64(ab_high, cd_high),
            _mm256_unpackhi_epi64(ab_high, cd_high),
        ]
    };
    let (first, second) = (pairs(a, b, c, d), pairs(e, f, g, h));
    core::array::from_fn(
        #[inline(always)]
        |i| {
            let (first, second) = (first[i % 4], second[i % 4]);
            if i < 4 {
                _mm256_permute2x128_si256::<0x20>(first, second)
            } else {
                _mm256_permute2x128_si256::<0x31>(first, second)
            }
        },
    )
}

#[target_feature(enable = "avx512f,avx512bw")]
fn compress_in_wide_lanes(states: &mut [Sha256State; WIDE], blocks: [&[Sha256Block]; WIDE]) {
    const XOR: i32 = 0x96;
    const CHOICE: i32 = 0xca;
    const MAJORITY: i32 = 0xe8;
    let count = blocks.iter().map(|blocks| blocks.len()).min().unwrap_or(0);
    let blocks = blocks.map(|blocks| &blocks[..count]);
    let big_endian =
        _mm512_broadcast_i32x4(_mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12));
    let word: [[u32; WIDE]; 8] =
        core::array::from_fn(|word| states.each_ref().map(|state| state[word]));
    let mut state = [_mm512_setzero_si512(); 8];
    for (state, words) in state.iter_mut().zip(&word) {
        *state = load_sixteen(words);
    }
    for block in 0..count {
        let before = state;
        let mut rows = [_mm512_setzero_si512(); WIDE];
        for (row, blocks) in rows.iter_mut().zip(blocks) {
            *row = load_sixteen(&blocks[block]);
        }
        let mut words = transpose_wide(rows);
        for words in &mut words {
            *words = _mm512_shuffle_epi8(*words, big_endian);
        }
        for (step, constants) in K.as_chunks::<16>().0.iter().enumerate() {
            for (at, &constant) in constants.iter().enumerate() {
                if step > 0 {
                    let (w15, w2) = (words[(at + 1) % 16], words[(at + 14) % 16]);
                    let (a, b) = (_mm512_ror_epi32::<7>(w15), _mm512_ror_epi32::<18>(w15));
                    let s0 = _mm512_ternarylogic_epi32::<XOR>(a, b, _mm512_srli_epi32::<3>(w15));
                    let (a, b) = (_mm512_ror_epi32::<17>(w2), _mm512_ror_epi32::<19>(w2));
                    let s1 = _mm512_ternarylogic_epi32::<XOR>(a, b, _mm512_srli_epi32::<10>(w2));
                    let sum = _mm512_add_epi32(words[at], words[(at + 9) % 16]);
                    words[at] = _mm512_add_epi32(sum, _mm512_add_epi32(s0, s1));
                }
                let [a, b, c, d, e, f, g, h] = state;
                let (x, y) = (_mm512_ror_epi32::<6>(e), _mm512_ror_epi32::<11>(e));
                let s1 = _mm512_ternarylogic_epi32::<XOR>(x, y, _mm512_ror_epi32::<25>(e));
                let choice = _mm512_ternarylogic_epi32::<CHOICE>(e, f, g);
                let word = _mm512_add_epi32(words[at], _mm512_set1_epi32(constant as i32));
                let t1 = _mm512_add_epi32(_mm512_add_epi32(h, word), _mm512_add_epi32(s1, choice));
                let (x, y) = (_mm512_ror_epi32::<2>(a), _mm512_ror_epi32::<13>(a));
                let s0 = _mm512_ternarylogic_epi32::<XOR>(x, y, _mm512_ror_epi32::<22>(a));
                let majority = _mm512_ternarylogic_epi32::<MAJORITY>(a, b, c);
                let t2 = _mm512_add_epi32(s0, majority);
                let (next_a, next_e) = (_mm512_add_epi32(t1, t2), _mm512_add_epi32(d, t1));
                state = [next_a, a, b, c, next_e, e, f, g];
            }
        }
        for (state, before) in state.iter_mut().zip(before) {
            *state = _mm512_add_epi32(*state, before);
        }
    }
    // SAFETY: the vectors have the size of the words, and any bits are numbers.
    let words = unsafe { core::mem::transmute::<[__m512i; 8], [[u32; WIDE]; 8]>(state) };
    for (lane, state) in states.iter_mut().enumerate() {
        *state = words.map(|words| words[lane]);
    }
}

/// As [`load`], one vector.
#[inline]
#[target_feature(enable = "avx512f")]
fn load_sixteen<T, const LEN: usize>(source: &[T; LEN]) -> __m512i {
    const { assert!(size_of::<[T; LEN]>() == 64) };
    // SAFETY: the array has the size of a vector, and the load needs no alignment.
    unsafe { _mm512_loadu_si512(source.as_ptr().cast()) }
}

/// Word `i` of row `j` becomes word `j` of row `i`.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose_wide(rows: [__m512i; WIDE]) -> [__m512i; WIDE] {
    // Four words of four rows, in each quarter of a vector: row `4 * i + k` has the words `4 * quarter + k`.
    let mut fours = rows;
    for i in (0..WIDE).step_by(4) {
        let [a, b, c, d] = [rows[i], rows[i + 1], rows[i + 2], rows[i + 3]];
        let (ab, cd) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
        let (ab_high, cd_high) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
        fours[i] = _mm512_unpacklo_epi64(ab, cd);
        fours[i + 1] = _mm512_unpackhi_epi64(ab, cd);
        fours[i + 2] = _mm512_unpacklo_epi64(ab_high, cd_high);
        fours[i + 3] = _mm512_unpackhi_epi64(ab_high, cd_high);
    }
    let mut columns = rows;
    for k in 0..4 {
        let [a, b, c, d] = [fours[k], fours[4 + k], fours[8 + k], fours[12 + k]];
        // Quarters 0 and 1 of two, then 2 and 3.
        let (ab, cd) = (_mm512_shuffle_i32x4::<0x44>(a, b), _mm512_shuffle_i32x4::<0x44>(c, d));
        let (ab_high, cd_high) =
            (_mm512_shuffle_i32x4::<0xee>(a, b), _mm512_shuffle_i32x4::<0xee>(c, d));
        columns[k] = _mm512_shuffle_i32x4::<0x88>(ab, cd);
        columns[4 + k] = _mm512_shuffle_i32x4::<0xdd>(ab, cd);
        columns[8 + k] = _mm512_shuffle_i32x4::<0x88>(ab_high, cd_high);
        columns[12 + k] = _mm512_shuffle_i32x4::<0xdd>(ab_high, cd_high);
    }
    columns
}
