//! Hashes, maps and sorts the same scripts for 16 filters at once.
//!
//! A script has a row with its value in each filter. A bitonic network sorts the columns, without shuffles.

use super::side_by_side::Decodes;
use crate::arch::hash::siphash_broadcast;
use crate::arch::network::sort_16;

/// The number of filters.
pub(crate) const FILTERS: usize = 16;

/// The value of a script in each filter, less its dropped bits: two in each word.
pub(crate) type TargetRow = [u64; FILTERS / 2];

/// A row that is after all others.
pub(crate) const LAST: TargetRow = [u64::MAX; FILTERS / 2];

/// The keys and ranges of filters. Each two vectors of them make one of values.
#[derive(Debug, Default)]
pub(crate) struct Keyed {
    /// The words of the initial states of SipHash.
    states: [[u64; FILTERS]; 4],
    ranges: [u64; FILTERS],
    dropped: [u64; FILTERS],
}

impl Keyed {
    /// Sets a filter: the initial state of SipHash for its key, its range, which is less than 2^52, and the number of the last
    /// bits that values drop.
    pub(crate) fn set<S: Decodes>(
        &mut self,
        _: S,
        filter: usize,
        state: [u64; 4],
        range: u64,
        dropped: u64,
    ) {
        let (part, place) = (filter / (2 * S::LANES), filter % (2 * S::LANES));
        let at = (2 * part + place % 2) * S::LANES + place / 2;
        for (states, word) in self.states.iter_mut().zip(state) {
            states[at] = word;
        }
        (self.ranges[at], self.dropped[at]) = (range, dropped);
    }
}

/// Hashes scripts of `width` words with SipHash-2-4, and maps them.
pub(crate) fn hash_for_all<S: Decodes>(
    simd: S,
    keyed: &Keyed,
    words: &[u8],
    width: usize,
    rows: &mut [TargetRow],
) {
    simd.compiled(
        #[inline(always)]
        || {
            for first in (0..FILTERS).step_by(2 * S::LANES) {
                let mut states = [[simd.splat(0); 2]; 4];
                for (vectors, states) in states.iter_mut().zip(&keyed.states) {
                    *vectors = two(simd, states, first);
                }
                let ranges = two(simd, &keyed.ranges, first);
                let dropped = two(simd, &keyed.dropped, first);
                for (script, row) in words.chunks_exact(8 * width).zip(&mut *rows) {
                    let [a, b] = siphash_broadcast(simd, states, script.as_chunks().0);
                    let a = simd.map_each(a, ranges[0], dropped[0]);
                    let b = simd.map_each(b, ranges[1], dropped[1]);
                    simd.store(simd.or(a, simd.shl_64(b, 32)), &mut row[first / 2..]);
                }
            }
        },
    );
}

#[inline(always)]
fn two<S: Decodes>(simd: S, numbers: &[u64; FILTERS], first: usize) -> [S::Vector; 2] {
    [simd.load(&numbers[first..]), simd.load(&numbers[first + S::LANES..])]
}

/// Sorts each column.
///
/// # Panics
///
/// The number of rows is less than 16, or not a power of two.
pub(crate) fn sort_columns<S: Decodes>(simd: S, rows: &mut [TargetRow]) {
    assert!(rows.len() >= 16 && rows.len().is_power_of_two());
    simd.compiled(
        #[inline(always)]
        || {
            for part in (0..FILTERS / 2).step_by(S::LANES) {
                for block in 0..rows.len() / 16 {
                    // Every other in descending order: up, then down, is what a merge takes.
                    let sixteen = &mut rows[16 * block..][..16];
                    if block % 2 == 0 {
                        sort(
                            simd,
                            sixteen,
                            part,
                            #[inline(always)]
                            |a, b| order::<S, false>(simd, a, b),
                        )
                    } else {
                        sort(
                            simd,
                            sixteen,
                            part,
                            #[inline(always)]
                            |a, b| order::<S, true>(simd, a, b),
                        )
                    }
                    // Merged as soon as possible, while they are in the first-level cache.
                    let (mut block, mut len) = (block, 16);
                    while block % 2 == 1 {
                        (block, len) = (block / 2, 2 * len);
                        let both = &mut rows[block * len..][..len];
                        if block % 2 == 0 {
                            merge_all::<S, false>(simd, both, part)
                        } else {
                            merge_all::<S, true>(simd, both, part)
                        }
                    }
                }
            }
        },
    );
}

#[inline(always)]
fn sort<S: Decodes>(
    simd: S,
    rows: &mut [TargetRow],
    part: usize,
    exchange: impl Fn(S::Vector, S::Vector) -> (S::Vector, S::Vector),
) {
    let mut v = [simd.splat(0); 16];
    for (v, row) in v.iter_mut().zip(&*rows) {
        *v = simd.load(&row[part..]);
    }
    sort_16!(v, exchange);
    for (v, row) in v.into_iter().zip(rows) {
        simd.store(v, &mut row[part..]);
    }
}

/// Four levels at a time, the rest first.
#[inline(always)]
fn merge_all<S: Decodes, const DOWN: bool>(simd: S, rows: &mut [TargetRow], part: usize) {
    let levels = rows.len().ilog2();
    let mut stride = 1 << ((levels - 1) / 4 * 4);
    match rows.len() / stride {
        2 => merge::<S, 2, DOWN>(simd, rows, stride, part),
        4 => merge::<S, 4, DOWN>(simd, rows, stride, part),
        8 => merge::<S, 8, DOWN>(simd, rows, stride, part),
        _ => merge::<S, 16, DOWN>(simd, rows, stride, part),
    }
    while stride > 1 {
        stride /= 16;
        merge::<S, 16, DOWN>(simd, rows, stride, part);
    }
}

/// The levels of a bitonic merge that compare rows `N / 2 * stride` to `stride` apart.
#[inline(always)]
fn merge<S: Decodes, const N: usize, const DOWN: bool>(
    simd: S,
    rows: &mut [TargetRow],
    stride: usize,
    part: usize,
) {
    for block in rows.chunks_exact_mut(N * stride) {
        for first in 0..stride {
            let mut v = [simd.splat(0); N];
            for (i, v) in v.iter_mut().enumerate() {
                *v = simd.load(&block[first + i * stride][part..]);
            }
            let mut half = N / 2;
            while half > 0 {
                for i in 0..N {
                    if i & half == 0 {
                        (v[i], v[i | half]) = order::<S, DOWN>(simd, v[i], v[i | half]);
                    }
                }
                half /= 2;
            }
            for (i, v) in v.into_iter().enumerate() {
                simd.store(v, &mut block[first + i * stride][part..]);
            }
        }
    }
}

#[inline(always)]
fn order<S: Decodes, const DOWN: bool>(
    simd: S,
    a: S::Vector,
    b: S::Vector,
) -> (S::Vector, S::Vector) {
    let (least, most) = simd.order(a, b);
    if DOWN { (most, least) } else { (least, most) }
}

/// Writes the columns, one after another. `out` has an equal share for each; the rows that exceed it are left out.
pub(crate) fn write_columns(rows: &[TargetRow], out: &mut [u32]) {
    let share = out.len() / FILTERS;
    for (first, rows) in (0..share).step_by(16).zip(rows.as_chunks::<16>().0) {
        for (filter, out) in out.chunks_exact_mut(share).enumerate() {
            let out = &mut out[first..share.min(first + 16)];
            for (out, row) in out.iter_mut().zip(rows) {
                *out = (row[filter / 2] >> (32 * (filter % 2))) as u32;
            }
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::arch::x86_64::{Avx2, Avx512};
    use crate::hash::{ItemHash as _, SipHash};
    use crate::tests::Noise;
    use alloc::vec;
    use alloc::vec::Vec;

    #[test]
    fn columns_are_the_sorted_values_of_each_filter() {
        Avx2::detect().into_iter().for_each(check);
        Avx512::detect().into_iter().for_each(check);
    }

    fn check(simd: impl Decodes) {
        let mut random = Noise::of(3);
        for count in [0_usize, 1, 15, 16, 17, 33, 100, 128, 256, 700, 1024, 2048] {
            let scripts: Vec<[u64; 2]> = (0..count)
                .map(|_| [random.number(), random.number() & 0xff_ffff | 11 << 56])
                .collect();
            let words: Vec<u8> =
                scripts.as_flattened().iter().flat_map(|word| word.to_le_bytes()).collect();
            let filters: Vec<_> = (0..FILTERS as u64)
                .map(|lane| {
                    let key = SipHash::new(random.number(), random.number());
                    (key, random.below(1 << (20 + lane)) + 1, lane.saturating_sub(11))
                })
                .collect();
            let mut keyed = Keyed::default();
            for (filter, (key, range, dropped)) in filters.iter().enumerate() {
                keyed.set(simd, filter, key.state(), *range, *dropped);
            }
            let len = count.next_power_of_two().max(16);
            let mut rows = vec![LAST; len];
            hash_for_all(simd, &keyed, &words, 2, &mut rows[..count]);
            sort_columns(simd, &mut rows);
            let share = (count + 4).next_multiple_of(16);
            let mut out = vec![u32::MAX; share * FILTERS];
            write_columns(&rows, &mut out);
            for ((key, range, dropped), column) in filters.iter().zip(out.chunks(share)) {
                let value = |script: &[u8]| {
                    let product = u128::from(key.hash(script)) * u128::from(*range);
                    ((product >> 64) as u64 >> dropped) as u32
                };
                let mut expected: Vec<u32> =
                    words.chunks(16).map(|script| value(&script[..11])).collect();
                expected.sort_unstable();
                expected.resize(share, u32::MAX);
                assert_eq!(column, expected, "{count} scripts");
            }
        }
    }
}
