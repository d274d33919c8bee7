//! Murmur3: sixteen records at a time in lanes of 32 bits, eight in lanes of 64.

use core::arch::x86_64::*;

use super::{ask_ahead, store_32, store_64, tail_32, tail_64, two_groups, words_32, words_64};

/// The number of scrambled words of a record that are kept from the loads to the folds, and from the first hash to
/// the second. They go through memory, in the first-level cache. The folds are then a loop of their own, in which
/// the chains of several groups are interleaved. With words in registers, the compiler put one group after the
/// other, and waiting for the chains took 1.5 times as long.
const WORDS: usize = 16;

/// The maximum length of a record in bytes. Offsets within a group then fit in 32 bits.
pub(super) const MAX_WIDTH: usize = 1 << 20;

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
pub(super) fn nut25(records: &[u8], width: usize, out: &mut [u64]) -> bool {
    if out.len() < 16 || width > MAX_WIDTH {
        return false;
    }
    if width == 33 {
        let done = nut25_groups::<33, 9, 8>(records, width, out, 0);
        nut25_groups::<33, 9, 1>(records, width, out, done);
    } else if width == 48 {
        let done = nut25_groups::<48, 12, 8>(records, width, out, 0);
        nut25_groups::<48, 12, 1>(records, width, out, done);
    } else {
        let done = nut25_groups::<0, WORDS, 8>(records, width, out, 0);
        nut25_groups::<0, WORDS, 1>(records, width, out, done);
    }
    true
}

/// Hashes from record `done` on, as long as the records fill `GROUPS` interleaved groups of sixteen; with one group,
/// to the end. Returns the number of hashed records.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
fn nut25_groups<const WIDTH: usize, const WORDS: usize, const GROUPS: usize>(
    records: &[u8],
    width: usize,
    out: &mut [u64],
    mut done: usize,
) -> usize {
    let width = if WIDTH == 0 { width } else { WIDTH };
    let count = 16 * GROUPS;
    let enough = if GROUPS == 1 { 1 } else { count };
    if out.len() - done < enough {
        return done;
    }
    let zero = [_mm512_setzero_si512(); GROUPS];
    let mut words = [zero; WORDS];
    while out.len() - done >= enough {
        let start = done.min(out.len() - count);
        let records = &records[start * width..][..count * width];
        let mut upper = zero;
        let mut lower = zero;
        if width <= 4 * WORDS {
            scramble_words::<WIDTH, WORDS, GROUPS>(records, width, 0, &mut words);
            fold_words(&words, width, &mut upper);
            avalanche(width, &mut upper);
            lower = upper;
            fold_words(&words, width, &mut lower);
            avalanche(width, &mut lower);
        } else {
            for pass in 0..2 {
                for at in (0..width).step_by(4 * WORDS) {
                    scramble_words::<WIDTH, WORDS, GROUPS>(records, width, at, &mut words);
                    fold_words(&words, (4 * WORDS).min(width - at), &mut lower);
                }
                avalanche(width, &mut lower);
                if pass == 0 {
                    // The upper half is the seed of the lower half.
                    upper = lower;
                }
            }
        }
        let (out, _) = out[start..].as_chunks_mut();
        for (group, &upper) in upper.iter().enumerate() {
            store_32(&mut out[group], upper, lower[group]);
        }
        done = start + count;
    }
    done
}

/// The scrambled words from byte `at` on, as many as have room. Zeros fill up the last one.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
fn scramble_words<const WIDTH: usize, const WORDS: usize, const GROUPS: usize>(
    records: &[u8],
    width: usize,
    at: usize,
    words: &mut [[__m512i; GROUPS]; WORDS],
) {
    let width = if WIDTH == 0 { width } else { WIDTH };
    for (number, group) in records.chunks_exact(16 * width).take(GROUPS).enumerate() {
        if at == 0 {
            ask_ahead(group);
        }
        for (eight, words) in words.chunks_mut(8).enumerate() {
            let at = at + 32 * eight;
            if at >= width {
                break;
            }
            let left = width - at;
            if left <= 4 && width >= 4 {
                words[0][number] = scramble_32(tail_32(group, width, left));
            } else {
                let loaded = words_32::<WIDTH>(group, width, at);
                for (word, &loaded) in loaded.iter().enumerate().take(left.div_ceil(4)) {
                    words[word][number] = scramble_32(loaded);
                }
            }
        }
    }
}

/// Folds `len` bytes into the states. Not inlined: with a known length the compiler would unroll the loop and put
/// one group after the other.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
fn fold_words<const GROUPS: usize>(
    words: &[[__m512i; GROUPS]],
    len: usize,
    states: &mut [__m512i; GROUPS],
) {
    let mut folded = *states;
    for word in &words[..len / 4] {
        for (group, state) in folded.iter_mut().enumerate() {
            *state = fold_32(*state, word[group]);
        }
    }
    if !len.is_multiple_of(4) {
        let word = &words[len / 4];
        for (group, state) in folded.iter_mut().enumerate() {
            *state = _mm512_xor_si512(*state, word[group]);
        }
    }
    *states = folded;
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
fn avalanche<const GROUPS: usize>(width: usize, states: &mut [__m512i; GROUPS]) {
    for state in states {
        *state = avalanche_32(_mm512_xor_si512(*state, _mm512_set1_epi32(width as i32)));
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
fn scramble_32(word: __m512i) -> __m512i {
    let word = _mm512_mullo_epi32(word, _mm512_set1_epi32(0xcc9e_2d51_u32 as i32));
    _mm512_mullo_epi32(_mm512_rol_epi32::<15>(word), _mm512_set1_epi32(0x1b87_3593))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
fn fold_32(state: __m512i, word: __m512i) -> __m512i {
    let state = _mm512_rol_epi32::<13>(_mm512_xor_si512(state, word));
    // Multiplies by five with a shift and an addition. A multiplication takes five times as long.
    let moved = _mm512_add_epi32(state, _mm512_set1_epi32(0xe654_6b64_u32 as i32));
    _mm512_add_epi32(_mm512_slli_epi32::<2>(state), moved)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
fn avalanche_32(x: __m512i) -> __m512i {
    let x = _mm512_xor_si512(x, _mm512_srli_epi32::<16>(x));
    let x = _mm512_mullo_epi32(x, _mm512_set1_epi32(0x85eb_ca6b_u32 as i32));
    let x = _mm512_xor_si512(x, _mm512_srli_epi32::<13>(x));
    let x = _mm512_mullo_epi32(x, _mm512_set1_epi32(0xc2b2_ae35_u32 as i32));
    _mm512_xor_si512(x, _mm512_srli_epi32::<16>(x))
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
pub(super) fn nut23(records: &[u8], width: usize, out: &mut [u64]) -> bool {
    match width {
        33 => nut23_groups::<33>(records, width, out),
        48 => nut23_groups::<48>(records, width, out),
        _ => nut23_groups::<0>(records, width, out),
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
fn nut23_groups<const WIDTH: usize>(records: &[u8], width: usize, out: &mut [u64]) -> bool {
    let width = if WIDTH == 0 { width } else { WIDTH };
    let count = out.len();
    let mut start = 0;
    while let Some(starts) = two_groups::<8>(start, count) {
        let groups = [
            &records[starts[0] * width..][..8 * width],
            &records[starts[1] * width..][..8 * width],
        ];
        let hashes = nut23_two::<WIDTH>(groups, width);
        for (group, start) in starts.into_iter().enumerate() {
            if let Some(out) = out[start..].first_chunk_mut() {
                store_64(out, hashes[group]);
            }
        }
        start += 16;
    }
    count >= 8
}

/// The hashes of two groups of eight.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
fn nut23_two<const WIDTH: usize>(groups: [&[u8]; 2], width: usize) -> [__m512i; 2] {
    let width = if WIDTH == 0 { width } else { WIDTH };
    let zero = _mm512_setzero_si512();
    let mut states = [Pair { a: zero, b: zero }; 2];
    for at in (0..width).step_by(32) {
        let left = width - at;
        let mut words = [[zero; 2]; 4];
        for (number, group) in groups.into_iter().enumerate() {
            if at == 0 {
                ask_ahead(group);
            }
            if left <= 8 && width >= 8 {
                words[0][number] = tail_64(group, width, left);
            } else {
                let loaded = words_64::<WIDTH>(group, width, at);
                for (word, loaded) in loaded.into_iter().enumerate() {
                    words[word][number] = loaded;
                }
            }
        }
        for (number, words) in words.chunks_exact(2).enumerate() {
            let (first, second) = (words[0], words[1]);
            let left = left.saturating_sub(16 * number);
            for (group, state) in states.iter_mut().enumerate() {
                let (first, second) = (first[group], second[group]);
                if left >= 16 {
                    *state = fold_64(*state, first, second);
                } else if left > 0 {
                    // Absent bytes count as zero, and a zero word scrambles to zero.
                    state.a = _mm512_xor_si512(state.a, scramble_first(first));
                    if left > 8 {
                        state.b = _mm512_xor_si512(state.b, scramble_second(second));
                    }
                }
            }
        }
    }
    let len = _mm512_set1_epi64(width as i64);
    let mut hashes = [zero; 2];
    for (group, hashes) in hashes.iter_mut().enumerate() {
        let Pair { a, b } = states[group];
        let (a, b) = (_mm512_xor_si512(a, len), _mm512_xor_si512(b, len));
        let a = _mm512_add_epi64(a, b);
        let b = _mm512_add_epi64(b, a);
        *hashes = _mm512_add_epi64(avalanche_64(a), avalanche_64(b));
    }
    hashes
}

#[derive(Clone, Copy)]
struct Pair {
    a: __m512i,
    b: __m512i,
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
fn fold_64(Pair { a, b }: Pair, first: __m512i, second: __m512i) -> Pair {
    let a = _mm512_rol_epi64::<27>(_mm512_xor_si512(a, scramble_first(first)));
    let a = five_times_plus(_mm512_add_epi64(a, b), 0x52dc_e729);
    let b = _mm512_rol_epi64::<31>(_mm512_xor_si512(b, scramble_second(second)));
    let b = five_times_plus(_mm512_add_epi64(b, a), 0x3849_5ab5);
    Pair { a, b }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
fn five_times_plus(x: __m512i, constant: i64) -> __m512i {
    let moved = _mm512_add_epi64(x, _mm512_set1_epi64(constant));
    _mm512_add_epi64(_mm512_slli_epi64::<2>(x), moved)
}

const C1: i64 = 0x87c3_7b91_1142_53d5_u64 as i64;
const C2: i64 = 0x4cf5_ad43_2745_937f;

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
fn scramble_first(word: __m512i) -> __m512i {
    let word = _mm512_mullo_epi64(word, _mm512_set1_epi64(C1));
    _mm512_mullo_epi64(_mm512_rol_epi64::<31>(word), _mm512_set1_epi64(C2))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
fn scramble_second(word: __m512i) -> __m512i {
    let word = _mm512_mullo_epi64(word, _mm512_set1_epi64(C2));
    _mm512_mullo_epi64(_mm512_rol_epi64::<33>(word), _mm512_set1_epi64(C1))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
fn avalanche_64(x: __m512i) -> __m512i {
    let x = _mm512_xor_si512(x, _mm512_srli_epi64::<33>(x));
    let x = _mm512_mullo_epi64(x, _mm512_set1_epi64(0xff51_afd7_ed55_8ccd_u64 as i64));
    let x = _mm512_xor_si512(x, _mm512_srli_epi64::<33>(x));
    let x = _mm512_mullo_epi64(x, _mm512_set1_epi64(0xc4ce_b9fe_1a85_ec53_u64 as i64));
    _mm512_xor_si512(x, _mm512_srli_epi64::<33>(x))
}
