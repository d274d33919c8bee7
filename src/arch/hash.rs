//! Hashes records of one length side by side, and maps hashes to the range of a filter.
//!
//! A lane is a record. The vectors of an instruction set ([`Words`]) load some bytes of each record of a group and
//! transpose them to vectors of one word of each. Several groups are interleaved, because the chain of each is long.
//!
//! Words go through memory, in the first-level cache, from the loads to the folds, which are a loop of their own. With
//! words in registers, the compiler put one group after the other, and waiting for the chains took 1.5 times as long.
//!
//! Nothing is read past a record. The last group ends with the last record and overlaps the group before it; records
//! that are hashed twice get the same hash.
//!
//! Rows `hash/*/100k` in docs/benchmarking.md.

use core::hint::black_box;

use super::x86_64::ask_ahead;

/// Vectors of words of one instruction set, implemented for its token: 64-bit lanes, or twice as many 32-bit lanes.
pub(crate) trait Words: Copy {
    type Vector: Copy;

    /// The number of 64-bit lanes.
    const LANES: usize;
    /// The number of 64-bit words that are loaded together of each record: 2 or 4.
    const LOADED: usize;
    /// Shorter records cannot be loaded.
    const SHORTEST: usize;

    /// Runs `f`, which must be `#[inline(always)]`, compiled for the instruction set.
    fn compiled<R>(self, f: impl FnOnce() -> R) -> R;

    fn splat_32(self, number: u32) -> Self::Vector;
    fn splat_64(self, number: u64) -> Self::Vector;
    fn load(self, numbers: &[u64]) -> Self::Vector;
    fn store(self, vector: Self::Vector, numbers: &mut [u64]);
    fn xor(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn or(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn add_32(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn add_64(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Counts are constants.
    fn shl_32(self, vector: Self::Vector, count: u32) -> Self::Vector;
    fn shr_32(self, vector: Self::Vector, count: u32) -> Self::Vector;
    fn shl_64(self, vector: Self::Vector, count: u32) -> Self::Vector;
    fn shr_64(self, vector: Self::Vector, count: u32) -> Self::Vector;

    #[inline(always)]
    fn rotate_32(self, vector: Self::Vector, count: u32) -> Self::Vector {
        self.or(self.shl_32(vector, count), self.shr_32(vector, 32 - count))
    }

    #[inline(always)]
    fn rotate_64(self, vector: Self::Vector, count: u32) -> Self::Vector {
        self.or(self.shl_64(vector, count), self.shr_64(vector, 64 - count))
    }

    fn mul_32(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// The low 64 bits of the products.
    fn mul_64(self, vector: Self::Vector, by: u64) -> Self::Vector;
    /// Rotates 64-bit lanes by 32.
    fn swap_halves(self, vector: Self::Vector) -> Self::Vector;
    /// What [`Words::rotate_16`] needs.
    fn by_16(self) -> Self::Vector;
    /// Rotates 64-bit lanes left by 16.
    fn rotate_16(self, vector: Self::Vector, by_16: Self::Vector) -> Self::Vector;
    /// `hash * f >> 64` in each lane.
    fn map(self, hashes: Self::Vector, f: u64) -> Self::Vector;

    /// The 64-bit words from byte `at` on of [`Words::LANES`] records of `width` bytes: [`Words::LOADED`] of each.
    /// Zeros fill up the last one. `WIDTH` is the width or 0.
    fn words_64<const WIDTH: usize>(
        self,
        group: &[u8],
        width: usize,
        at: usize,
    ) -> [Self::Vector; 4];
    /// The 32-bit words of twice as many records, twice as many of each, with the records in the order of
    /// [`Words::store_halves`].
    fn words_32<const WIDTH: usize>(
        self,
        group: &[u8],
        width: usize,
        at: usize,
    ) -> [Self::Vector; 8];
    /// Stores hashes from their halves.
    fn store_halves(self, upper: Self::Vector, lower: Self::Vector, out: &mut [u64]);
}

/// The maximum length of a record in bytes. Offsets within a group then fit in 32 bits.
pub(crate) const LONGEST: usize = 1 << 20;

/// The number of words of a record of any length that are kept from the loads to the folds.
const KEPT: usize = 16;

fn check(records: &[u8], width: usize, out: &[u64]) {
    assert_eq!(Some(records.len()), width.checked_mul(out.len()));
}

/// NUT-25 of each of `out.len()` records of `width` bytes, in `GROUPS` interleaved groups. Returns false, and does
/// nothing, if they are too few, too short or too long.
///
/// # Panics
///
/// `records` are not `out.len()` records. So do the other functions.
pub(crate) fn nut25<S: Words, const GROUPS: usize>(
    simd: S,
    records: &[u8],
    width: usize,
    out: &mut [u64],
) -> bool {
    check(records, width, out);
    if out.len() < 2 * S::LANES || !(S::SHORTEST..=LONGEST).contains(&width) {
        return false;
    }
    simd.compiled(
        #[inline(always)]
        || match width {
            33 => nut25_all::<S, 33, 12, GROUPS>(simd, records, width, out),
            48 => nut25_all::<S, 48, 12, GROUPS>(simd, records, width, out),
            _ => nut25_all::<S, 0, { 2 * KEPT }, GROUPS>(simd, records, width, out),
        },
    );
    true
}

#[inline(always)]
fn nut25_all<S: Words, const WIDTH: usize, const WORDS: usize, const GROUPS: usize>(
    simd: S,
    records: &[u8],
    width: usize,
    out: &mut [u64],
) {
    let done = nut25_groups::<S, WIDTH, WORDS, GROUPS>(simd, records, width, out, 0);
    nut25_groups::<S, WIDTH, WORDS, 1>(simd, records, width, out, done);
}

/// Hashes from record `done` on, as long as the records fill `GROUPS` groups; with one group, to the end. Returns the
/// number of hashed records.
#[inline(always)]
fn nut25_groups<S: Words, const WIDTH: usize, const WORDS: usize, const GROUPS: usize>(
    simd: S,
    records: &[u8],
    width: usize,
    out: &mut [u64],
    mut done: usize,
) -> usize {
    let width = if WIDTH == 0 { width } else { WIDTH };
    let count = 2 * S::LANES * GROUPS;
    let enough = if GROUPS == 1 { 1 } else { count };
    if out.len() - done < enough {
        return done;
    }
    let zero = [simd.splat_64(0); GROUPS];
    let mut words = [zero; WORDS];
    while out.len() - done >= enough {
        let start = done.min(out.len() - count);
        done = start + count;
        let records = &records[start * width..][..count * width];
        let (mut upper, mut lower) = (zero, zero);
        if width <= 4 * WORDS {
            scramble_words::<S, WIDTH, WORDS, GROUPS>(simd, records, width, 0, &mut words);
            fold_words(simd, &words, width, &mut upper);
            avalanche_32(simd, width, &mut upper);
            // The upper half is the seed of the lower half.
            lower = upper;
            fold_words(simd, &words, width, &mut lower);
            avalanche_32(simd, width, &mut lower);
        } else {
            for pass in 0..2 {
                for at in (0..width).step_by(4 * WORDS) {
                    scramble_words::<S, WIDTH, WORDS, GROUPS>(simd, records, width, at, &mut words);
                    fold_words(simd, &words, (4 * WORDS).min(width - at), &mut lower);
                }
                avalanche_32(simd, width, &mut lower);
                if pass == 0 {
                    upper = lower;
                }
            }
        }
        let out = out[start..].chunks_exact_mut(2 * S::LANES);
        for (group, out) in out.take(GROUPS).enumerate() {
            simd.store_halves(upper[group], lower[group], out);
        }
    }
    done
}

/// The scrambled words from byte `at` on, as many as have room. Zeros fill up the last one.
#[inline(always)]
fn scramble_words<S: Words, const WIDTH: usize, const WORDS: usize, const GROUPS: usize>(
    simd: S,
    records: &[u8],
    width: usize,
    at: usize,
    words: &mut [[S::Vector; GROUPS]; WORDS],
) {
    let groups = records.chunks_exact(2 * S::LANES * width);
    for (number, group) in groups.take(GROUPS).enumerate() {
        if at == 0 {
            ask_ahead(group);
        }
        for (load, words) in words.chunks_mut(2 * S::LOADED).enumerate() {
            let at = at + 8 * S::LOADED * load;
            if at >= width {
                break;
            }
            let loaded = simd.words_32::<WIDTH>(group, width, at);
            let len = (width - at).div_ceil(4);
            for (word, &loaded) in loaded.iter().enumerate().take(len.min(2 * S::LOADED)) {
                words[word][number] = scramble_32(simd, loaded);
            }
        }
    }
}

/// Folds `len` bytes into the states.
#[inline(always)]
fn fold_words<S: Words, const GROUPS: usize>(
    simd: S,
    words: &[[S::Vector; GROUPS]],
    len: usize,
    states: &mut [S::Vector; GROUPS],
) {
    // With a known length the compiler would unroll the loop and put one group after the other.
    let len = black_box(len);
    let mut folded = *states;
    for word in &words[..len / 4] {
        for (group, state) in folded.iter_mut().enumerate() {
            *state = fold_32(simd, *state, word[group]);
        }
    }
    if !len.is_multiple_of(4) {
        let word = &words[len / 4];
        for (group, state) in folded.iter_mut().enumerate() {
            *state = simd.xor(*state, word[group]);
        }
    }
    *states = folded;
}

#[inline(always)]
fn scramble_32<S: Words>(simd: S, word: S::Vector) -> S::Vector {
    let word = simd.mul_32(word, simd.splat_32(0xcc9e_2d51));
    simd.mul_32(simd.rotate_32(word, 15), simd.splat_32(0x1b87_3593))
}

#[inline(always)]
fn fold_32<S: Words>(simd: S, state: S::Vector, word: S::Vector) -> S::Vector {
    let state = simd.rotate_32(simd.xor(state, word), 13);
    // Multiplies by five with a shift and an addition. A multiplication takes five times as long.
    let moved = simd.add_32(state, simd.splat_32(0xe654_6b64));
    simd.add_32(simd.shl_32(state, 2), moved)
}

#[inline(always)]
fn avalanche_32<S: Words, const GROUPS: usize>(
    simd: S,
    width: usize,
    states: &mut [S::Vector; GROUPS],
) {
    for state in states {
        let x = simd.xor(*state, simd.splat_32(width as u32));
        let x = simd.xor(x, simd.shr_32(x, 16));
        let x = simd.mul_32(x, simd.splat_32(0x85eb_ca6b));
        let x = simd.xor(x, simd.shr_32(x, 13));
        let x = simd.mul_32(x, simd.splat_32(0xc2b2_ae35));
        *state = simd.xor(x, simd.shr_32(x, 16));
    }
}

/// NUT-23: see [`nut25`]. `scalar` hashes `POINT_SCALARS` points, or `SCALARS` other records, next to two groups. It
/// uses other execution units, and AVX2 has no multiplication of 64 bits, so scalar code is nearly as fast there.
pub(crate) fn nut23<S: Words, const POINT_SCALARS: usize, const SCALARS: usize>(
    simd: S,
    records: &[u8],
    width: usize,
    out: &mut [u64],
    scalar: impl Fn(&[u8]) -> u64 + Copy,
) -> bool {
    check(records, width, out);
    if out.len() < S::LANES || width < S::SHORTEST {
        return false;
    }
    simd.compiled(
        #[inline(always)]
        || match width {
            33 => nut23_all::<S, 33, POINT_SCALARS>(simd, records, width, out, scalar),
            48 => nut23_all::<S, 48, SCALARS>(simd, records, width, out, scalar),
            _ => nut23_all::<S, 0, SCALARS>(simd, records, width, out, scalar),
        },
    );
    true
}

#[inline(always)]
fn nut23_all<S: Words, const WIDTH: usize, const SCALARS: usize>(
    simd: S,
    records: &[u8],
    width: usize,
    out: &mut [u64],
    scalar: impl Fn(&[u8]) -> u64 + Copy,
) {
    let done = nut23_groups::<S, WIDTH, 2, SCALARS>(simd, records, width, out, scalar, 0);
    nut23_groups::<S, WIDTH, 1, 0>(simd, records, width, out, scalar, done);
}

/// As [`nut25_groups`].
#[inline(always)]
fn nut23_groups<S: Words, const WIDTH: usize, const GROUPS: usize, const SCALARS: usize>(
    simd: S,
    records: &[u8],
    width: usize,
    out: &mut [u64],
    scalar: impl Fn(&[u8]) -> u64,
    mut done: usize,
) -> usize {
    let width = if WIDTH == 0 { width } else { WIDTH };
    let count = S::LANES * GROUPS + SCALARS;
    let enough = if GROUPS == 1 { 1 } else { count };
    let zero = simd.splat_64(0);
    while out.len() - done >= enough {
        let start = done.min(out.len() - count);
        done = start + count;
        let records = &records[start * width..][..count * width];
        ask_ahead(records);
        let mut states = [Pair { a: zero, b: zero }; GROUPS];
        for at in (0..width).step_by(8 * S::LOADED) {
            let groups = records.chunks_exact(S::LANES * width);
            for (group, state) in groups.zip(&mut states) {
                let words = simd.words_64::<WIDTH>(group, width, at);
                for (number, words) in words.chunks_exact(2).enumerate().take(S::LOADED / 2) {
                    let left = (width - at).saturating_sub(16 * number);
                    if left >= 16 {
                        *state = fold_64(simd, *state, words[0], words[1]);
                    } else if left > 0 {
                        // Absent bytes count as zero, and a zero word scrambles to zero.
                        state.a = simd.xor(state.a, scramble_first(simd, words[0]));
                        if left > 8 {
                            state.b = simd.xor(state.b, scramble_second(simd, words[1]));
                        }
                    }
                }
            }
        }
        let length = simd.splat_64(width as u64);
        let (vectors, scalars) = out[start..][..count].split_at_mut(S::LANES * GROUPS);
        for (at, out) in (S::LANES * GROUPS..).zip(scalars) {
            *out = scalar(&records[at * width..][..width]);
        }
        for (group, out) in vectors.chunks_exact_mut(S::LANES).enumerate() {
            let Pair { a, b } = states[group];
            let (a, b) = (simd.xor(a, length), simd.xor(b, length));
            let a = simd.add_64(a, b);
            let b = simd.add_64(b, a);
            let (a, b) = (avalanche_64(simd, a), avalanche_64(simd, b));
            simd.store(simd.add_64(a, b), out);
        }
    }
    done
}

/// The two words of state of a group.
#[derive(Clone, Copy)]
struct Pair<V> {
    a: V,
    b: V,
}

#[inline(always)]
fn fold_64<S: Words>(
    simd: S,
    Pair { a, b }: Pair<S::Vector>,
    first: S::Vector,
    second: S::Vector,
) -> Pair<S::Vector> {
    let five_times_plus = |x, constant| {
        let moved = simd.add_64(x, simd.splat_64(constant));
        simd.add_64(simd.shl_64(x, 2), moved)
    };
    let a = simd.rotate_64(simd.xor(a, scramble_first(simd, first)), 27);
    let a = five_times_plus(simd.add_64(a, b), 0x52dc_e729);
    let b = simd.rotate_64(simd.xor(b, scramble_second(simd, second)), 31);
    let b = five_times_plus(simd.add_64(b, a), 0x3849_5ab5);
    Pair { a, b }
}

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

#[inline(always)]
fn scramble_first<S: Words>(simd: S, word: S::Vector) -> S::Vector {
    simd.mul_64(simd.rotate_64(simd.mul_64(word, C1), 31), C2)
}

#[inline(always)]
fn scramble_second<S: Words>(simd: S, word: S::Vector) -> S::Vector {
    simd.mul_64(simd.rotate_64(simd.mul_64(word, C2), 33), C1)
}

#[inline(always)]
fn avalanche_64<S: Words>(simd: S, x: S::Vector) -> S::Vector {
    let x = simd.xor(x, simd.shr_64(x, 33));
    let x = simd.mul_64(x, 0xff51_afd7_ed55_8ccd);
    let x = simd.xor(x, simd.shr_64(x, 33));
    let x = simd.mul_64(x, 0xc4ce_b9fe_1a85_ec53);
    simd.xor(x, simd.shr_64(x, 33))
}

/// SipHash-2-4 from the initial state of the key: see [`nut25`]. Scalar code hashes `SCALARS` records next to `GROUPS`
/// groups. Records of more than 160 bytes take `LONG` groups.
pub(crate) fn siphash<S: Words, const GROUPS: usize, const SCALARS: usize, const LONG: usize>(
    simd: S,
    key: [u64; 4],
    records: &[u8],
    width: usize,
    out: &mut [u64],
) -> bool {
    check(records, width, out);
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

/// As [`nut25_groups`].
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
    let zero = Side {
        vectors: [simd.splat_64(0); GROUPS],
        scalars: [0; SCALARS],
    };
    let mut words = [zero; WORDS];
    let unset = States::new(simd, [0; 4]);
    while out.len() - done >= enough {
        let start = done.min(out.len() - count);
        done = start + count;
        let records = &records[start * width..][..count * width];
        ask_ahead(records);
        let mut states = unset;
        let rest = width % (8 * WORDS);
        let whole = width - rest;
        for at in (0..whole).step_by(8 * WORDS) {
            load_words::<S, WIDTH, WORDS, GROUPS, SCALARS>(simd, records, width, at, &mut words);
            absorb_words(simd, &words, (at == 0).then_some(&key), &mut states, false);
        }
        // The last word holds the remaining bytes, perhaps none, and the length.
        if rest.is_multiple_of(16) {
            words[rest / 8] = zero;
        }
        load_words::<S, WIDTH, WORDS, GROUPS, SCALARS>(simd, records, width, whole, &mut words);
        let length = simd.splat_64((width as u64) << 56);
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
fn load_words<
    S: Words,
    const WIDTH: usize,
    const WORDS: usize,
    const GROUPS: usize,
    const SCALARS: usize,
>(
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
            let loaded = simd.words_64::<WIDTH>(group, width, at);
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
        let vector = [
            simd.splat_64(a),
            simd.splat_64(b),
            simd.splat_64(c),
            simd.splat_64(d),
        ];
        Self {
            vectors: [vector; GROUPS],
            scalars: [key; SCALARS],
        }
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
            *c = simd.xor(*c, simd.splat_64(0xff));
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
                *a = simd.add_64(*a, *b);
                *b = simd.xor(simd.rotate_64(*b, 13), *a);
                *a = simd.swap_halves(*a);
                *c = simd.add_64(*c, *d);
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
                *a = simd.add_64(*a, *d);
                *d = simd.xor(simd.rotate_64(*d, 21), *a);
                *c = simd.add_64(*c, *b);
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
    for (columns, out) in columns
        .chunks_exact(side * words)
        .zip(out.chunks_exact_mut(side))
    {
        let mut states = States::<_, GROUPS, 0>::new(simd, key);
        for word in 0..words {
            let mut vectors = [simd.splat_64(0); GROUPS];
            for (group, vector) in vectors.iter_mut().enumerate() {
                let first = group * S::LANES;
                *vector = simd.load(&columns[first / 8 * words + word][first % 8..]);
            }
            let words = Side {
                vectors,
                scalars: [],
            };
            states.absorb(simd, &words, by_16);
        }
        states.finish(simd, by_16);
        let out = out.as_flattened_mut().chunks_exact_mut(S::LANES);
        for (group, out) in out.enumerate() {
            simd.store(states.vectors[group][0], out);
        }
    }
}

/// `hash * f >> 64` for each, in place.
pub(crate) fn map_to_range<S: Words>(simd: S, hashes: &mut [u64], f: u64) {
    simd.compiled(
        #[inline(always)]
        || {
            let mut groups = hashes.chunks_exact_mut(S::LANES);
            for group in &mut groups {
                simd.store(simd.map(simd.load(group), f), group);
            }
            for hash in groups.into_remainder() {
                *hash = ((u128::from(*hash) * u128::from(f)) >> 64) as u64;
            }
        },
    );
}
