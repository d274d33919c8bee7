//! Murmur3 by Austin Appleby: the 32-bit variant, and the 128-bit variant for 64-bit machines.
//!
//! Both split the input into blocks (of 4 and 16 bytes). They scramble each block separately, fold it into a
//! running state, and finish with an avalanche over state and length. The length counts modulo 2^32 (2^64), as
//! in other implementations.
//!
//! Neither has a key. Anyone can construct equal hashes, so no code may rely on distinct or uniform hashes.

use super::{AHEAD, last_bytes};
use crate::arch::memory::{map, prefetch};

/// NUT-25: the upper half is the hash with seed 0, the lower half the hash seeded with the upper.
///
/// The scrambling of a block does not depend on the seed, so the two hashes could share it. That gained nothing
/// (15.2 against 15.4 ns per point, for the hash alone), because the two chains of folds take the time.
#[inline(always)]
pub(super) fn nut25(item: &[u8]) -> u64 {
    nut25_in_halves(item, |_| ())
}

/// [`nut25`] that calls `upper` with the upper half as soon as it is known.
#[inline(always)]
pub(super) fn nut25_in_halves(item: &[u8], upper: impl FnOnce(u64)) -> u64 {
    let first = x86_32(item, 0);
    upper(join(first, 0));
    join(first, x86_32(item, first))
}

/// The number of records that the scalar code hashes in parallel: two vectors of four, if the compiler
/// vectorizes.
const LANES: usize = 8;

/// The number of scrambled words of a record that the second hash reuses from the first.
const WORDS: usize = 16;

/// NUT-25 of each of `out.len()` records of `width` bytes.
///
/// Eight records in parallel wait less for the chain of folds, and share the scrambling: 15.8 instead of 18.3
/// ns per point.
pub(super) fn nut25_records(records: &[u8], width: usize, out: &mut [u64]) {
    if width == 33 {
        nut25_lanes::<33>(records, width, out);
    } else if width == 48 {
        nut25_lanes::<48>(records, width, out);
    } else if width <= 4 * WORDS {
        nut25_lanes::<0>(records, width, out);
    } else {
        for (out, record) in out.iter_mut().zip(records.chunks_exact(width)) {
            *out = nut25(record);
        }
    }
}

#[inline(always)]
fn nut25_lanes<const WIDTH: usize>(records: &[u8], width: usize, out: &mut [u64]) {
    let width = if WIDTH == 0 { width } else { WIDTH };
    let (groups, rest) = out.as_chunks_mut::<LANES>();
    let mut words = [[0; LANES]; WORDS];
    let mut records_of_groups = records.chunks_exact(LANES * width);
    let mut ahead = (AHEAD * width..records.len()).step_by(64);
    for (out, group) in groups.iter_mut().zip(&mut records_of_groups) {
        for at in ahead.by_ref().take(group.len().div_ceil(64)) {
            prefetch(&records[at]);
        }
        for (lane, record) in group.chunks_exact(width).enumerate() {
            let (blocks, tail) = record.as_chunks::<4>();
            for (word, block) in blocks.iter().enumerate().take(WORDS) {
                words[word][lane] = u32::from_le_bytes(*block);
            }
            if !tail.is_empty() {
                words[width / 4][lane] = last_bytes(record, tail.len()) as u32;
            }
        }
        for word in &mut words[..width.div_ceil(4)] {
            *word = map(*word, scramble_32);
        }
        let upper = fold_lanes([0; LANES], &words, width);
        let lower = fold_lanes(upper, &words, width);
        for (lane, out) in out.iter_mut().enumerate() {
            *out = join(upper[lane], lower[lane]);
        }
    }
    let rest_of_records = records_of_groups.remainder().chunks_exact(width);
    for (out, record) in rest.iter_mut().zip(rest_of_records) {
        *out = nut25(record);
    }
}

#[inline(always)]
fn fold_lanes(
    mut states: [u32; LANES],
    words: &[[u32; LANES]; WORDS],
    width: usize,
) -> [u32; LANES] {
    for word in &words[..width / 4] {
        for (lane, state) in states.iter_mut().enumerate() {
            *state = fold_32(*state, word[lane]);
        }
    }
    if !width.is_multiple_of(4) {
        let word = &words[width / 4];
        for (lane, state) in states.iter_mut().enumerate() {
            *state ^= word[lane];
        }
    }
    map(states, |state| avalanche_32(state ^ width as u32))
}

fn join(upper: u32, lower: u32) -> u64 {
    u64::from(upper) << 32 | u64::from(lower)
}

#[inline(always)]
fn x86_32(item: &[u8], seed: u32) -> u32 {
    let (blocks, tail) = item.as_chunks::<4>();
    let mut state = seed;
    for block in blocks {
        state = fold_32(state, scramble_32(u32::from_le_bytes(*block)));
    }
    if !tail.is_empty() {
        state ^= scramble_32(last_bytes(item, tail.len()) as u32);
    }
    avalanche_32(state ^ item.len() as u32)
}

#[inline(always)]
fn scramble_32(block: u32) -> u32 {
    block.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593)
}

#[inline(always)]
fn fold_32(state: u32, scrambled: u32) -> u32 {
    (state ^ scrambled).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
}

#[inline(always)]
fn avalanche_32(mut x: u32) -> u32 {
    x = (x ^ x >> 16).wrapping_mul(0x85eb_ca6b);
    x = (x ^ x >> 13).wrapping_mul(0xc2b2_ae35);
    x ^ x >> 16
}

/// The first output word of the 128-bit hash for 64-bit machines, seed 0.
#[inline(always)]
pub(super) fn x64_128_first(item: &[u8]) -> u64 {
    let (blocks, tail) = item.as_chunks::<16>();
    let (mut a, mut b) = (0_u64, 0_u64);
    for block in blocks {
        let (first, second) = halves(block);
        a = (a ^ scramble_first(first))
            .rotate_left(27)
            .wrapping_add(b)
            .wrapping_mul(5)
            .wrapping_add(0x52dc_e729);
        b = (b ^ scramble_second(second))
            .rotate_left(31)
            .wrapping_add(a)
            .wrapping_mul(5)
            .wrapping_add(0x3849_5ab5);
    }
    if !tail.is_empty() {
        // Missing bytes count as zero, and a zero word scrambles to zero, so no case distinction by length is
        // needed.
        match tail.split_first_chunk::<8>() {
            Some((first, rest)) => {
                a ^= scramble_first(u64::from_le_bytes(*first));
                b ^= scramble_second(last_bytes(item, rest.len()));
            }
            None => a ^= scramble_first(last_bytes(item, tail.len())),
        }
    }
    a ^= item.len() as u64;
    b ^= item.len() as u64;
    a = a.wrapping_add(b);
    b = b.wrapping_add(a);
    avalanche_64(a).wrapping_add(avalanche_64(b))
}

#[inline(always)]
fn halves(block: &[u8; 16]) -> (u64, u64) {
    let words = u128::from_le_bytes(*block);
    (words as u64, (words >> 64) as u64)
}

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

#[inline(always)]
fn scramble_first(word: u64) -> u64 {
    word.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

#[inline(always)]
fn scramble_second(word: u64) -> u64 {
    word.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

#[inline(always)]
fn avalanche_64(mut x: u64) -> u64 {
    x = (x ^ x >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    x = (x ^ x >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ x >> 33
}
