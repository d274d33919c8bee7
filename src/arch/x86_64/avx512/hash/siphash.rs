//! SipHash-2-4: eight records at a time.

use core::arch::x86_64::*;

use super::{ask_ahead, store_64, tail_64, words_64};

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
pub(super) fn siphash(key: [u64; 4], records: &[u8], width: usize, out: &mut [u64]) -> bool {
    if out.len() < 8 {
        return false;
    }
    if width == 33 {
        let done = siphash_groups::<33, 8, 4>(key, records, width, out, 0);
        siphash_groups::<33, 8, 1>(key, records, width, out, done);
    } else if width == 48 {
        let done = siphash_groups::<48, 8, 4>(key, records, width, out, 0);
        siphash_groups::<48, 8, 1>(key, records, width, out, done);
    } else {
        let done = siphash_groups::<0, 16, 4>(key, records, width, out, 0);
        siphash_groups::<0, 16, 1>(key, records, width, out, done);
    }
    true
}

/// Hashes from record `done` on, as long as the records fill `GROUPS` interleaved groups of eight; with one group, to
/// the end. Returns the number of hashed records.
///
/// A round has 14 operations, a point takes 14 rounds, and wide vectors have two ports: at least 12.3 cycles per
/// point. One group at a time took 14 % longer.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
fn siphash_groups<const WIDTH: usize, const WORDS: usize, const GROUPS: usize>(
    key: [u64; 4],
    records: &[u8],
    width: usize,
    out: &mut [u64],
    mut done: usize,
) -> usize {
    let width = if WIDTH == 0 { width } else { WIDTH };
    let count = 8 * GROUPS;
    let enough = if GROUPS == 1 { 1 } else { count };
    let zero = _mm512_setzero_si512();
    let mut words = [[zero; GROUPS]; WORDS];
    while out.len() - done >= enough {
        let start = done.min(out.len() - count);
        done = start + count;
        let records = &records[start * width..][..count * width];
        let mut states = [State::new(key); GROUPS];
        let mut last = [zero; GROUPS];
        for at in (0..width).step_by(8 * WORDS) {
            load_words::<WIDTH, WORDS, GROUPS>(records, width, at, &mut words);
            let len = (8 * WORDS).min(width - at);
            absorb_words(&words[..len / 8], &mut states);
            if !len.is_multiple_of(8) {
                last = words[len / 8];
            }
        }
        let length = _mm512_set1_epi64(((width & 0xff) << 56) as i64);
        for last in &mut last {
            *last = _mm512_or_si512(*last, length);
        }
        absorb_words(&[last], &mut states);
        for state in &mut states {
            state.c = _mm512_xor_si512(state.c, _mm512_set1_epi64(0xff));
        }
        // Absorbing zero is two rounds.
        absorb_words(&[[zero; GROUPS]; 2], &mut states);
        let (out, _) = out[start..].as_chunks_mut();
        for (group, &State { a, b, c, d }) in states.iter().enumerate() {
            store_64(
                &mut out[group],
                _mm512_xor_si512(_mm512_xor_si512(a, b), _mm512_xor_si512(c, d)),
            );
        }
    }
    done
}

/// The words from byte `at` on, as many as have room. Zeros fill up the last one.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
fn load_words<const WIDTH: usize, const WORDS: usize, const GROUPS: usize>(
    records: &[u8],
    width: usize,
    at: usize,
    words: &mut [[__m512i; GROUPS]; WORDS],
) {
    let width = if WIDTH == 0 { width } else { WIDTH };
    for (number, group) in records.chunks_exact(8 * width).take(GROUPS).enumerate() {
        if at == 0 {
            ask_ahead(group);
        }
        for (four, words) in words.chunks_exact_mut(4).enumerate() {
            let at = at + 32 * four;
            if at >= width {
                break;
            }
            let left = width - at;
            if left < 8 && width >= 8 {
                words[0][number] = tail_64(group, width, left);
                continue;
            }
            let loaded = words_64::<WIDTH>(group, width, at);
            for (word, loaded) in loaded.into_iter().enumerate() {
                words[word][number] = loaded;
            }
        }
    }
}

/// Not inlined: with a known number of words the compiler would unroll the loop and put one group after the other.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
fn absorb_words<const GROUPS: usize>(words: &[[__m512i; GROUPS]], states: &mut [State; GROUPS]) {
    let mut absorbed = *states;
    for words in words {
        for (group, state) in absorbed.iter_mut().enumerate() {
            *state = state.absorb(words[group]);
        }
    }
    *states = absorbed;
}

/// The number of interleaved groups of eight items in columns. The states of four groups and a word fill the
/// registers.
const SIDE_BY_SIDE: usize = 4;

/// SipHash-2-4 of items in columns: see `avx2::hash`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
pub(super) fn siphash_columns(
    key: [u64; 4],
    columns: &[[u64; 8]],
    words: usize,
    out: &mut [[u64; 8]],
) {
    let chunks = columns.chunks(SIDE_BY_SIDE * words);
    for (columns, out) in chunks.zip(out.chunks_mut(SIDE_BY_SIDE)) {
        match out.as_chunks_mut() {
            ([out], []) => groups_in_columns::<SIDE_BY_SIDE>(key, columns, words, out),
            _ => {
                for (columns, out) in columns.chunks(words).zip(out) {
                    groups_in_columns::<1>(key, columns, words, core::array::from_mut(out));
                }
            }
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
fn groups_in_columns<const GROUPS: usize>(
    key: [u64; 4],
    columns: &[[u64; 8]],
    words: usize,
    out: &mut [[u64; 8]; GROUPS],
) {
    assert_eq!(columns.len(), GROUPS * words);
    let mut states = [State::new(key); GROUPS];
    for word in 0..words {
        for (group, state) in states.iter_mut().enumerate() {
            *state = state.absorb(load_64(&columns[group * words + word]));
        }
    }
    for (group, out) in out.iter_mut().enumerate() {
        store_64(out, states[group].finish());
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
fn load_64(words: &[u64; 8]) -> __m512i {
    // SAFETY: the array has 64 bytes.
    unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
}

/// The four words of state of eight records.
#[derive(Clone, Copy)]
struct State {
    a: __m512i,
    b: __m512i,
    c: __m512i,
    d: __m512i,
}

impl State {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
    fn new([a, b, c, d]: [u64; 4]) -> Self {
        Self {
            a: _mm512_set1_epi64(a as i64),
            b: _mm512_set1_epi64(b as i64),
            c: _mm512_set1_epi64(c as i64),
            d: _mm512_set1_epi64(d as i64),
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
    fn absorb(mut self, word: __m512i) -> Self {
        self.d = _mm512_xor_si512(self.d, word);
        self = self.round().round();
        self.a = _mm512_xor_si512(self.a, word);
        self
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
    fn finish(mut self) -> __m512i {
        self.c = _mm512_xor_si512(self.c, _mm512_set1_epi64(0xff));
        let Self { a, b, c, d } = self.round().round().round().round();
        _mm512_xor_si512(_mm512_xor_si512(a, b), _mm512_xor_si512(c, d))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
    fn round(self) -> Self {
        let Self { a, b, c, d } = self;
        let a = _mm512_add_epi64(a, b);
        let b = _mm512_xor_si512(_mm512_rol_epi64::<13>(b), a);
        let a = _mm512_shuffle_epi32::<0b10_11_00_01>(a);
        let c = _mm512_add_epi64(c, d);
        let d = _mm512_xor_si512(_mm512_rol_epi64::<16>(d), c);
        let a = _mm512_add_epi64(a, d);
        let d = _mm512_xor_si512(_mm512_rol_epi64::<21>(d), a);
        let c = _mm512_add_epi64(c, b);
        let b = _mm512_xor_si512(_mm512_rol_epi64::<17>(b), c);
        let c = _mm512_shuffle_epi32::<0b10_11_00_01>(c);
        Self { a, b, c, d }
    }
}
