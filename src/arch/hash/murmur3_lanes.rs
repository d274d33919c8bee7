//! Murmur3: NUT-25 in lanes of 32 bits, NUT-23 in lanes of 64.

use core::hint::black_box;

use super::{KEPT, LONGEST, Rows, Words};

/// NUT-25 of each of `out.len()` records, in `GROUPS` interleaved groups. Returns false, and does nothing, if they are too
/// few, too short or too long.
///
/// # Panics
///
/// There are more records or fewer. So do the other functions.
pub(crate) fn nut25<S: Words, const GROUPS: usize>(
    simd: S,
    records: impl Rows,
    out: &mut [u64],
) -> bool {
    assert!(records.are(out.len()));
    let width = records.width();
    if out.len() < 2 * S::LANES || !(S::SHORTEST..=LONGEST).contains(&width) {
        return false;
    }
    simd.compiled(
        #[inline(always)]
        || match width {
            33 => nut25_all::<S, _, 33, 12, GROUPS>(simd, records, out),
            48 => nut25_all::<S, _, 48, 12, GROUPS>(simd, records, out),
            _ => nut25_all::<S, _, 0, { 2 * KEPT }, GROUPS>(simd, records, out),
        },
    );
    true
}

#[inline(always)]
fn nut25_all<S: Words, R: Rows, const WIDTH: usize, const WORDS: usize, const GROUPS: usize>(
    simd: S,
    records: R,
    out: &mut [u64],
) {
    let done = nut25_groups::<S, R, WIDTH, WORDS, GROUPS>(simd, records, out, 0);
    nut25_groups::<S, R, WIDTH, WORDS, 1>(simd, records, out, done);
}

/// Hashes from record `done` on, as long as the records fill `GROUPS` groups; with one group, to the end. Returns the
/// number of hashed records.
#[inline(always)]
fn nut25_groups<S: Words, R: Rows, const WIDTH: usize, const WORDS: usize, const GROUPS: usize>(
    simd: S,
    records: R,
    out: &mut [u64],
    mut done: usize,
) -> usize {
    let width = if WIDTH == 0 { records.width() } else { WIDTH };
    let records = records.of_width(width);
    let count = 2 * S::LANES * GROUPS;
    let enough = if GROUPS == 1 { 1 } else { count };
    if out.len() - done < enough {
        return done;
    }
    let zero = [simd.splat(0); GROUPS];
    let mut words = [zero; WORDS];
    while out.len() - done >= enough {
        let start = done.min(out.len() - count);
        done = start + count;
        let records = records.part(start, count);
        let (mut upper, mut lower) = (zero, zero);
        if width <= 4 * WORDS {
            scramble_words(simd, records, width, 0, &mut words);
            fold_words(simd, &words, width, &mut upper);
            avalanche_32(simd, width, &mut upper);
            // The upper half is the seed of the lower half.
            lower = upper;
            fold_words(simd, &words, width, &mut lower);
            avalanche_32(simd, width, &mut lower);
        } else {
            for pass in 0..2 {
                for at in (0..width).step_by(4 * WORDS) {
                    scramble_words(simd, records, width, at, &mut words);
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
fn scramble_words<S: Words, const WORDS: usize, const GROUPS: usize>(
    simd: S,
    records: impl Rows,
    width: usize,
    at: usize,
    words: &mut [[S::Vector; GROUPS]; WORDS],
) {
    for number in 0..GROUPS {
        let group = records.part(2 * S::LANES * number, 2 * S::LANES);
        if at == 0 {
            group.ask_ahead();
        }
        for (load, words) in words.chunks_mut(2 * S::LOADED).enumerate() {
            let at = at + 8 * S::LOADED * load;
            if at >= width {
                break;
            }
            let loaded = simd.words_32(group, at);
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

/// NUT-23: see [`nut25`]. Scalar code is nearly as fast as AVX2, which has no multiplication of 64 bits.
pub(crate) fn nut23<S: Words>(simd: S, records: impl Rows, out: &mut [u64]) -> bool {
    assert!(records.are(out.len()));
    let width = records.width();
    if out.len() < S::LANES || width < S::SHORTEST {
        return false;
    }
    simd.compiled(
        #[inline(always)]
        || match width {
            33 => nut23_all::<S, _, 33>(simd, records, out),
            48 => nut23_all::<S, _, 48>(simd, records, out),
            _ => nut23_all::<S, _, 0>(simd, records, out),
        },
    );
    true
}

#[inline(always)]
fn nut23_all<S: Words, R: Rows, const WIDTH: usize>(simd: S, records: R, out: &mut [u64]) {
    let done = nut23_groups::<S, R, WIDTH, 2>(simd, records, out, 0);
    nut23_groups::<S, R, WIDTH, 1>(simd, records, out, done);
}

/// As [`nut25_groups`].
#[inline(always)]
fn nut23_groups<S: Words, R: Rows, const WIDTH: usize, const GROUPS: usize>(
    simd: S,
    records: R,
    out: &mut [u64],
    mut done: usize,
) -> usize {
    let width = if WIDTH == 0 { records.width() } else { WIDTH };
    let records = records.of_width(width);
    let count = S::LANES * GROUPS;
    let enough = if GROUPS == 1 { 1 } else { count };
    let zero = simd.splat(0);
    while out.len() - done >= enough {
        let start = done.min(out.len() - count);
        done = start + count;
        let records = records.part(start, count);
        records.ask_ahead();
        let mut states = [MurmurState { a: zero, b: zero }; GROUPS];
        // Not a loop over `step_by`, which the compiler does not unroll for points.
        for block in 0..width.div_ceil(8 * S::LOADED) {
            let at = 8 * S::LOADED * block;
            for (group, state) in states.iter_mut().enumerate() {
                let group = records.part(group * S::LANES, S::LANES);
                let words = simd.words_64(group, at);
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
        let length = simd.splat(width as u64);
        let out = out[start..][..count].chunks_exact_mut(S::LANES);
        for (group, out) in out.enumerate() {
            let MurmurState { a, b } = states[group];
            let (a, b) = (simd.xor(a, length), simd.xor(b, length));
            let a = simd.add(a, b);
            let b = simd.add(b, a);
            let (a, b) = (avalanche_64(simd, a), avalanche_64(simd, b));
            simd.store(simd.add(a, b), out);
        }
    }
    done
}

/// The two words of state of a group.
#[derive(Clone, Copy)]
struct MurmurState<V> {
    a: V,
    b: V,
}

#[inline(always)]
fn fold_64<S: Words>(
    simd: S,
    MurmurState { a, b }: MurmurState<S::Vector>,
    first: S::Vector,
    second: S::Vector,
) -> MurmurState<S::Vector> {
    let five_times_plus = |x, constant| {
        let moved = simd.add(x, simd.splat(constant));
        simd.add(simd.shl_64(x, 2), moved)
    };
    let a = simd.rotate_64(simd.xor(a, scramble_first(simd, first)), 27);
    let a = five_times_plus(simd.add(a, b), 0x52dc_e729);
    let b = simd.rotate_64(simd.xor(b, scramble_second(simd, second)), 31);
    let b = five_times_plus(simd.add(b, a), 0x3849_5ab5);
    MurmurState { a, b }
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
