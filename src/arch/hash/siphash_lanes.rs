//! SipHash-2-4.

use core::hint::black_box;

use super::{KEPT, Records, Words};
use crate::arch::x86_64::ask_ahead;

/// SipHash-2-4 from the initial state of the key: see [`nut25`](super::nut25). Scalar code hashes `SCALARS` records next to `GROUPS`
/// groups. Records of more than 160 bytes take `LONG` groups.
pub(crate) fn siphash<S: Words, const GROUPS: usize, const SCALARS: usize, const LONG: usize>(
    simd: S,
    key: [u64; 4],
    records: &[u8],
    width: usize,
    out: &mut [u64],
) -> bool {
    assert_eq!(Some(records.len()), width.checked_mul(out.len()));
    if out.len() < S::LANES || width < S::SHORTEST {
        return false;
    }
    simd.compiled(
        #[inline(always)]
        || {
            let done = match width {
                33 => {
                    siphash_groups::<S, 33, 8, GROUPS, SCALARS>(simd, key, records, width, out, 0)
                }
                48 => {
                    siphash_groups::<S, 48, 8, GROUPS, SCALARS>(simd, key, records, width, out, 0)
                }
                ..=160 => {
                    siphash_groups::<S, 0, KEPT, GROUPS, SCALARS>(simd, key, records, width, out, 0)
                }
                _ => siphash_groups::<S, 0, KEPT, LONG, 0>(simd, key, records, width, out, 0),
            };
            siphash_groups::<S, 0, KEPT, 1, 0>(simd, key, records, width, out, done);
        },
    );
    true
}

/// A word of each record of `GROUPS` groups, and of `SCALARS` records for scalar code.
#[derive(Clone, Copy)]
struct Side<V, const GROUPS: usize, const SCALARS: usize> {
    vectors: [V; GROUPS],
    scalars: [u64; SCALARS],
}

/// As `nut25_groups`.
#[inline(always)]
fn siphash_groups<
    S: Words,
    const WIDTH: usize,
    const WORDS: usize,
    const GROUPS: usize,
    const SCALARS: usize,
>(
    simd: S,
    key: [u64; 4],
    records: &[u8],
    width: usize,
    out: &mut [u64],
    mut done: usize,
) -> usize {
    let width = if WIDTH == 0 { width } else { WIDTH };
    let count = S::LANES * GROUPS + SCALARS;
    let enough = if GROUPS == 1 { 1 } else { count };
    if out.len() - done < enough {
        return done;
    }
    let zero = Side { vectors: [simd.splat(0); GROUPS], scalars: [0; SCALARS] };
    let mut words = [zero; WORDS];
    let unset = States::new(simd, [0; 4]);
    while out.len() - done >= enough {
        let start = done.min(out.len() - count);
        done = start + count;
        let records = &records[start * width..][..count * width];
        ask_ahead(records, records.len());
        let mut states = unset;
        let rest = width % (8 * WORDS);
        let whole = width - rest;
        for at in (0..whole).step_by(8 * WORDS) {
            load_words(simd, records, width, at, &mut words);
            absorb_words(simd, &words, (at == 0).then_some(&key), &mut states, false);
        }
        // The last word holds the remaining bytes, perhaps none, and the length.
        if rest.is_multiple_of(16) {
            words[rest / 8] = zero;
        }
        load_words(simd, records, width, whole, &mut words);
        let length = simd.splat((width as u64) << 56);
        for last in &mut words[rest / 8].vectors {
            *last = simd.or(*last, length);
        }
        let first = (whole == 0).then_some(&key);
        absorb_words(simd, &words[..=rest / 8], first, &mut states, true);
        let (vectors, scalars) = out[start..][..count].split_at_mut(S::LANES * GROUPS);
        for (group, out) in vectors.chunks_exact_mut(S::LANES).enumerate() {
            simd.store(states.vectors[group][0], out);
        }
        for (record, out) in scalars.iter_mut().enumerate() {
            *out = states.scalars[record][0];
        }
    }
    done
}

/// The words from byte `at` on, as many as have room. Zeros fill up the last one.
#[inline(always)]
fn load_words<S: Words, const WORDS: usize, const GROUPS: usize, const SCALARS: usize>(
    simd: S,
    records: &[u8],
    width: usize,
    at: usize,
    words: &mut [Side<S::Vector, GROUPS, SCALARS>; WORDS],
) {
    let (vectors, scalars) = records.split_at(S::LANES * GROUPS * width);
    for (number, group) in vectors.chunks_exact(S::LANES * width).enumerate() {
        for (load, words) in words.chunks_exact_mut(S::LOADED).enumerate() {
            let at = at + 8 * S::LOADED * load;
            if at >= width {
                break;
            }
            let loaded = simd.words_64(Records::new(group, width), at);
            for (word, words) in words.iter_mut().enumerate() {
                words.vectors[number] = loaded[word];
            }
        }
    }
    for (number, record) in scalars.chunks_exact(width).enumerate() {
        let (whole, tail) = record[at..].as_chunks();
        for (word, loaded) in whole.iter().enumerate().take(WORDS) {
            words[word].scalars[number] = u64::from_le_bytes(*loaded);
        }
        if let (Some(word), Some(last)) = (words.get_mut(whole.len()), record.last_chunk()) {
            // In two steps, because a shift by 64 is not possible.
            let tail = u64::from_le_bytes(*last) >> 8 >> (8 * (7 - tail.len()));
            word.scalars[number] = tail | (width as u64) << 56;
        }
    }
}

/// Absorbs words, from the initial state of the key if they are the first. After the last ones, the first word of each
/// state is the hash.
#[inline(always)]
fn absorb_words<S: Words, const GROUPS: usize, const SCALARS: usize>(
    simd: S,
    words: &[Side<S::Vector, GROUPS, SCALARS>],
    first: Option<&[u64; 4]>,
    states: &mut States<S::Vector, GROUPS, SCALARS>,
    last: bool,
) {
    let mut absorbed = match first {
        Some(key) => States::new(simd, *key),
        None => *states,
    };
    let by_16 = simd.by_16();
    // Of unknown length, as in `fold_words`.
    for words in black_box(words) {
        absorbed.absorb(simd, words, by_16);
    }
    if last {
        absorbed.finish(simd, by_16);
    }
    *states = absorbed;
}

/// The four words of state of each record.
#[derive(Clone, Copy)]
struct States<V, const GROUPS: usize, const SCALARS: usize> {
    vectors: [[V; 4]; GROUPS],
    scalars: [[u64; 4]; SCALARS],
}

impl<V: Copy, const GROUPS: usize, const SCALARS: usize> States<V, GROUPS, SCALARS> {
    #[inline(always)]
    fn new(simd: impl Words<Vector = V>, key: [u64; 4]) -> Self {
        let [a, b, c, d] = key;
        let vector = [simd.splat(a), simd.splat(b), simd.splat(c), simd.splat(d)];
        Self { vectors: [vector; GROUPS], scalars: [key; SCALARS] }
    }

    #[inline(always)]
    fn absorb(&mut self, simd: impl Words<Vector = V>, words: &Side<V, GROUPS, SCALARS>, by_16: V) {
        for (group, [_, _, _, d]) in self.vectors.iter_mut().enumerate() {
            *d = simd.xor(*d, words.vectors[group]);
        }
        for (record, [_, _, _, d]) in self.scalars.iter_mut().enumerate() {
            *d ^= words.scalars[record];
        }
        self.two_rounds(simd, by_16);
        // Read again: between, there are no registers to keep the words in.
        let words = black_box(words);
        for (group, [a, ..]) in self.vectors.iter_mut().enumerate() {
            *a = simd.xor(*a, words.vectors[group]);
        }
        for (record, [a, ..]) in self.scalars.iter_mut().enumerate() {
            *a ^= words.scalars[record];
        }
    }

    #[inline(always)]
    fn finish(&mut self, simd: impl Words<Vector = V>, by_16: V) {
        for [_, _, c, _] in &mut self.vectors {
            *c = simd.xor(*c, simd.splat(0xff));
        }
        for [_, _, c, _] in &mut self.scalars {
            *c ^= 0xff;
        }
        for _ in 0..2 {
            self.two_rounds(simd, by_16);
        }
        for [a, b, c, d] in &mut self.vectors {
            *a = simd.xor(simd.xor(*a, *b), simd.xor(*c, *d));
        }
        for [a, b, c, d] in &mut self.scalars {
            *a ^= *b ^ *c ^ *d;
        }
    }

    /// Takes half a round of each group in turn: a CPU with short queues for vector operations does not look ahead as
    /// far as the next group's rounds.
    #[inline(always)]
    fn two_rounds(&mut self, simd: impl Words<Vector = V>, by_16: V) {
        for _ in 0..2 {
            for [a, b, c, d] in &mut self.vectors {
                *a = simd.add(*a, *b);
                *b = simd.xor(simd.rotate_64(*b, 13), *a);
                *a = simd.swap_halves(*a);
                *c = simd.add(*c, *d);
                *d = simd.xor(simd.rotate_16(*d, by_16), *c);
            }
            for [a, b, c, d] in &mut self.scalars {
                *a = a.wrapping_add(*b);
                *b = b.rotate_left(13) ^ *a;
                *a = a.rotate_left(32);
                *c = c.wrapping_add(*d);
                *d = d.rotate_left(16) ^ *c;
            }
            for [a, b, c, d] in &mut self.vectors {
                *a = simd.add(*a, *d);
                *d = simd.xor(simd.rotate_64(*d, 21), *a);
                *c = simd.add(*c, *b);
                *b = simd.xor(simd.rotate_64(*b, 17), *c);
                *c = simd.swap_halves(*c);
            }
            for [a, b, c, d] in &mut self.scalars {
                *a = a.wrapping_add(*d);
                *d = d.rotate_left(21) ^ *a;
                *c = c.wrapping_add(*b);
                *b = b.rotate_left(17) ^ *c;
                *c = c.rotate_left(32);
            }
        }
    }
}

/// SipHash-2-4 from the initial state of the key, of items in columns: `words` columns for each of `out.len()` groups of
/// eight items. A column holds one word of each item; the last one also holds the lengths.
///
/// `MOST` vectors of items are interleaved, and `FEWEST` at the end: those of eight items.
///
/// # Panics
///
/// The number of columns differs.
pub(crate) fn siphash_columns<S: Words, const MOST: usize, const FEWEST: usize>(
    simd: S,
    key: [u64; 4],
    columns: &[[u64; 8]],
    words: usize,
    out: &mut [[u64; 8]],
) {
    assert_eq!(Some(columns.len()), words.checked_mul(out.len()));
    let side = MOST * S::LANES / 8;
    let whole = out.len() - out.len() % side;
    let (columns, last_columns) = columns.split_at(whole * words);
    let (out, last_out) = out.split_at_mut(whole);
    simd.compiled(
        #[inline(always)]
        || {
            siphash_sides::<S, MOST>(simd, key, columns, words, out);
            siphash_sides::<S, FEWEST>(simd, key, last_columns, words, last_out);
        },
    );
}

#[inline(always)]
fn siphash_sides<S: Words, const GROUPS: usize>(
    simd: S,
    key: [u64; 4],
    columns: &[[u64; 8]],
    words: usize,
    out: &mut [[u64; 8]],
) {
    let side = GROUPS * S::LANES / 8;
    let by_16 = simd.by_16();
    for (columns, out) in columns.chunks_exact(side * words).zip(out.chunks_exact_mut(side)) {
        let mut states = States::<_, GROUPS, 0>::new(simd, key);
        for word in 0..words {
            let mut vectors = [simd.splat(0); GROUPS];
            for (group, vector) in vectors.iter_mut().enumerate() {
                let first = group * S::LANES;
                *vector = simd.load(&columns[first / 8 * words + word][first % 8..]);
            }
            let words = Side { vectors, scalars: [] };
            states.absorb(simd, &words, by_16);
        }
        states.finish(simd, by_16);
        let out = out.as_flattened_mut().chunks_exact_mut(S::LANES);
        for (group, out) in out.enumerate() {
            simd.store(states.vectors[group][0], out);
        }
    }
}

/// SipHash-2-4 of one item, given as words, with a key in each lane.
#[inline(always)]
pub(crate) fn siphash_broadcast<S: Words>(
    simd: S,
    [a, b, c, d]: [[S::Vector; 2]; 4],
    words: &[[u8; 8]],
) -> [S::Vector; 2] {
    let by_16 = simd.by_16();
    let mut states = States::<_, 2, 0> {
        vectors: [[a[0], b[0], c[0], d[0]], [a[1], b[1], c[1], d[1]]],
        scalars: [],
    };
    for word in words {
        let word = simd.splat(u64::from_le_bytes(*word));
        for [_, _, _, d] in &mut states.vectors {
            *d = simd.xor(*d, word);
        }
        states.two_rounds(simd, by_16);
        for [a, ..] in &mut states.vectors {
            *a = simd.xor(*a, word);
        }
    }
    states.finish(simd, by_16);
    [states.vectors[0][0], states.vectors[1][0]]
}
