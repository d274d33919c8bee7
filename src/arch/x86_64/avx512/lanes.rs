//! Decoding in 32 lanes: four vectors in flight.
//!
//! The caller passes 32 bit positions with their values, and the number of groups of 8 codes to decode in each
//! lane. If codes do not fit in the window of [`step`](super::step), that lane is left to the caller, and the
//! others continue. No position leaves the bytes, for any contents: [`groups_within`] limits the number of
//! groups by the room after the last lane.
//!
//! Rows `decode/plain`, `decode/sum` and `index/64` in docs/benchmarking.md.

use core::arch::x86_64::*;

use super::step::Code;
use crate::arch::lanes::{Advanced, GROUP, Lanes, groups_within};
use crate::arch::x86_64::Avx512;

/// The number of lanes that a call decodes.
pub(crate) const LANES: usize = 32;
const VECTORS: usize = LANES / 8;

type Vectors = [__m512i; VECTORS];

impl Avx512 {
    /// Decodes `groups` groups of 8 codes in each lane, or fewer: see [`Advanced`].
    pub(crate) fn advance_lanes(
        self,
        bytes: &[u8],
        (p, in_pairs): (u32, bool),
        lanes: &mut Lanes<LANES>,
        groups: usize,
    ) -> Advanced {
        assert!(p <= 32);
        // SAFETY: the token proves that the CPU has the features.
        unsafe {
            if in_pairs {
                advance::<true>(bytes, p, lanes, groups)
            } else {
                advance::<false>(bytes, p, lanes, groups)
            }
        }
    }

    /// [`Avx512::advance_lanes`] that stores the values of lane `i` from `out[places[i]]` on. For a lane that
    /// stopped early, the last eight of them are meaningless.
    ///
    /// # Panics
    ///
    /// The values of a lane do not fit in `out`.
    pub(crate) fn advance_lanes_into(
        self,
        bytes: &[u8],
        (p, in_pairs): (u32, bool),
        lanes: &mut Lanes<LANES>,
        groups: usize,
        out: &mut [u64],
        places: &[usize; LANES],
    ) -> Advanced {
        assert!(p <= 32);
        let last = out.len().checked_sub(groups.saturating_mul(GROUP));
        assert!(last.is_some_and(|last| places.iter().all(|&place| place <= last)));
        // SAFETY: the token proves that the CPU has the features, and the assertion that 8 * groups values from
        // each place on are within `out`.
        unsafe {
            if in_pairs {
                advance_into::<true>(bytes, p, lanes, groups, out, places)
            } else {
                advance_into::<false>(bytes, p, lanes, groups, out, places)
            }
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512ifma")]
fn load(numbers: &[u64; LANES]) -> Vectors {
    let mut vectors = [_mm512_setzero_si512(); VECTORS];
    for (vector, eight) in vectors.iter_mut().zip(numbers.as_chunks::<8>().0) {
        // SAFETY: `eight` is 64 bytes.
        *vector = unsafe { _mm512_loadu_si512(eight.as_ptr().cast()) };
    }
    vectors
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512ifma")]
fn store(vectors: &Vectors, numbers: &mut [u64; LANES]) {
    for (vector, eight) in vectors.iter().zip(numbers.as_chunks_mut::<8>().0) {
        // SAFETY: `eight` is 64 bytes.
        unsafe { _mm512_storeu_si512(eight.as_mut_ptr().cast(), *vector) };
    }
}

/// A mask of the negative lanes of each vector; `None` if no lane is negative.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512ifma")]
fn negative(slack: &Vectors) -> Option<[__mmask8; VECTORS]> {
    let any = _mm512_or_si512(
        _mm512_or_si512(slack[0], slack[1]),
        _mm512_or_si512(slack[2], slack[3]),
    );
    if _mm512_movepi64_mask(any) == 0 {
        return None;
    }
    let mut masks = [0; VECTORS];
    for (mask, &slack) in masks.iter_mut().zip(slack) {
        *mask = _mm512_movepi64_mask(slack);
    }
    Some(masks)
}

#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512ifma")]
fn advance<const PAIRS: bool>(
    bytes: &[u8],
    p: u32,
    lanes: &mut Lanes<LANES>,
    groups: usize,
) -> Advanced {
    let steps = if PAIRS { GROUP / 2 } else { GROUP };
    let groups = groups_within(bytes.len(), &lanes.positions, groups, steps, 64);
    let code = Code::new(p);
    let start = load(&lanes.positions);
    let mut position = start;
    let mut tops = [_mm512_setzero_si512(); VECTORS];
    let mut done = 0;
    let mut odd = None;
    while done < groups && odd.is_none() {
        let before = (position, tops);
        let mut slack = [_mm512_setzero_si512(); VECTORS];
        for _ in 0..steps {
            for v in 0..VECTORS {
                // SAFETY: `groups_within` guarantees that all gathers are within `bytes`.
                let window = unsafe { code.window(bytes.as_ptr(), position[v]) };
                let (codes, runs, top) = if PAIRS {
                    let pair = code.pair(window);
                    let runs = _mm512_add_epi64(pair.first_run, pair.second_run);
                    (2, runs, _mm512_add_epi64(pair.first_top, pair.second_top))
                } else {
                    let (run, top, _) = code.one(window);
                    (1, run, top)
                };
                slack[v] = _mm512_or_si512(slack[v], code.slack(codes, runs));
                position[v] = code.behind(position[v], codes, runs);
                tops[v] = _mm512_add_epi64(tops[v], top);
            }
        }
        done += 1;
        odd = negative(&slack);
        if let Some(masks) = odd {
            for v in 0..VECTORS {
                position[v] = _mm512_mask_mov_epi64(position[v], masks[v], before.0[v]);
                tops[v] = _mm512_mask_mov_epi64(tops[v], masks[v], before.1[v]);
            }
        }
    }
    let masks = odd.unwrap_or_default();
    let codes = (done * GROUP) as i64;
    let mut values = load(&lanes.values);
    for v in 0..VECTORS {
        let codes =
            _mm512_mask_set1_epi64(_mm512_set1_epi64(codes), masks[v], codes - GROUP as i64);
        let bits = _mm512_sub_epi64(position[v], start[v]);
        values[v] = _mm512_add_epi64(values[v], code.total(codes, bits, tops[v]));
    }
    store(&position, &mut lanes.positions);
    store(&values, &mut lanes.values);
    Advanced {
        groups: done,
        behind: u32::from_le_bytes(masks),
    }
}

/// # Safety
///
/// `8 * groups` values from each place on are within `out`.
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512ifma")]
unsafe fn advance_into<const PAIRS: bool>(
    bytes: &[u8],
    p: u32,
    lanes: &mut Lanes<LANES>,
    groups: usize,
    out: &mut [u64],
    places: &[usize; LANES],
) -> Advanced {
    let steps = if PAIRS { GROUP / 2 } else { GROUP };
    let groups = groups_within(bytes.len(), &lanes.positions, groups, steps, 64);
    let code = Code::new(p);
    let mut position = load(&lanes.positions);
    let mut value = load(&lanes.values);
    let mut rows = [[_mm512_setzero_si512(); GROUP]; VECTORS];
    let mut done = 0;
    let mut odd = None;
    while done < groups && odd.is_none() {
        let before = (position, value);
        let mut slack = [_mm512_setzero_si512(); VECTORS];
        for step in 0..steps {
            for v in 0..VECTORS {
                // SAFETY: `groups_within` guarantees that all gathers are within `bytes`.
                let window = unsafe { code.window(bytes.as_ptr(), position[v]) };
                let (codes, runs) = if PAIRS {
                    let pair = code.pair(window);
                    let first = code.value(value[v], pair.first_run, pair.first_top);
                    value[v] = code.value(first, pair.second_run, pair.second_top);
                    rows[v][2 * step] = first;
                    rows[v][2 * step + 1] = value[v];
                    (2, _mm512_add_epi64(pair.first_run, pair.second_run))
                } else {
                    let (run, top, _) = code.one(window);
                    value[v] = code.value(value[v], run, top);
                    rows[v][step] = value[v];
                    (1, run)
                };
                slack[v] = _mm512_or_si512(slack[v], code.slack(codes, runs));
                position[v] = code.behind(position[v], codes, runs);
            }
        }
        for v in 0..VECTORS {
            let columns = transposed(&rows[v]);
            for lane in 0..8 {
                let at = places[8 * v + lane] + done * GROUP;
                // SAFETY: by the contract of this function.
                unsafe { _mm512_storeu_si512(out.as_mut_ptr().add(at).cast(), columns[lane]) };
            }
        }
        done += 1;
        odd = negative(&slack);
        if let Some(masks) = odd {
            for v in 0..VECTORS {
                position[v] = _mm512_mask_mov_epi64(position[v], masks[v], before.0[v]);
                value[v] = _mm512_mask_mov_epi64(value[v], masks[v], before.1[v]);
            }
        }
    }
    store(&position, &mut lanes.positions);
    store(&value, &mut lanes.values);
    Advanced {
        groups: done,
        behind: u32::from_le_bytes(odd.unwrap_or_default()),
    }
}

/// Transposes rows of 8 lanes into 8 runs of values, one per lane. In registers, because 64 scattered stores take
/// twice as long as the steps that make the values.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512ifma")]
fn transposed(rows: &[__m512i; 8]) -> [__m512i; 8] {
    let [a, b, c, d, e, f, g, h] = *rows;
    // Pairs of rows: lanes 0 2 4 6 and 1 3 5 7.
    let (ab0, ab1) = (_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    let (cd0, cd1) = (_mm512_unpacklo_epi64(c, d), _mm512_unpackhi_epi64(c, d));
    let (ef0, ef1) = (_mm512_unpacklo_epi64(e, f), _mm512_unpackhi_epi64(e, f));
    let (gh0, gh1) = (_mm512_unpacklo_epi64(g, h), _mm512_unpackhi_epi64(g, h));
    // Rows a to d and e to h: lanes 0 and 4 (low), 2 and 6 (high) of the even ones, and so on.
    let low_0 = _mm512_shuffle_i64x2::<0b10_00_10_00>(ab0, cd0);
    let high_0 = _mm512_shuffle_i64x2::<0b11_01_11_01>(ab0, cd0);
    let low_1 = _mm512_shuffle_i64x2::<0b10_00_10_00>(ab1, cd1);
    let high_1 = _mm512_shuffle_i64x2::<0b11_01_11_01>(ab1, cd1);
    let low_4 = _mm512_shuffle_i64x2::<0b10_00_10_00>(ef0, gh0);
    let high_4 = _mm512_shuffle_i64x2::<0b11_01_11_01>(ef0, gh0);
    let low_5 = _mm512_shuffle_i64x2::<0b10_00_10_00>(ef1, gh1);
    let high_5 = _mm512_shuffle_i64x2::<0b11_01_11_01>(ef1, gh1);
    [
        _mm512_shuffle_i64x2::<0b10_00_10_00>(low_0, low_4),
        _mm512_shuffle_i64x2::<0b10_00_10_00>(low_1, low_5),
        _mm512_shuffle_i64x2::<0b10_00_10_00>(high_0, high_4),
        _mm512_shuffle_i64x2::<0b10_00_10_00>(high_1, high_5),
        _mm512_shuffle_i64x2::<0b11_01_11_01>(low_0, low_4),
        _mm512_shuffle_i64x2::<0b11_01_11_01>(low_1, low_5),
        _mm512_shuffle_i64x2::<0b11_01_11_01>(high_0, high_4),
        _mm512_shuffle_i64x2::<0b11_01_11_01>(high_1, high_5),
    ]
}
