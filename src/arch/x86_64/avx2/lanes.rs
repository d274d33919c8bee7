//! Decoding in 16 lanes: four vectors of 4 in flight.
//!
//! Like `avx512::lanes`, which explains more, but AVX2 cannot count leading zeros in lanes. The exponent of a
//! floating-point number gives them instead. 52 bits of the window fit the mantissa. A longer run counts as
//! [`LONGEST_RUN`]: it does not fit a step, and the caller reads its code in another way.
//!
//! Memory safety must not depend on the rounding mode, which is outside state and decides the sign of x - x. The
//! lowest bit of the mantissa is therefore always set. The difference is then a whole number from 1 to 2^52 - 1,
//! which is exact, positive and normal in every mode. Its exponent is at least that of 1, which bounds the run.
//! Counting with integers alone (nibbles looked up in a table, then the first byte that is not zero) takes 14
//! operations instead of 6.
//!
//! Rows `decode/plain`, `decode/sum` and `index/64` in docs/benchmarking.md.

use core::arch::x86_64::*;

use crate::arch::lanes::{Advanced, GROUP, Lanes, WINDOW, groups_within};
use crate::arch::x86_64::Avx2;

/// The number of lanes that a call decodes.
pub(crate) const LANES: usize = 16;
const VECTORS: usize = LANES / 4;

type Vectors = [__m256i; VECTORS];

impl Avx2 {
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

    /// [`Avx2::advance_lanes`] that stores the values of lane `i` from `out[places[i]]` on. For a lane that stopped
    /// early, the last eight of them are meaningless.
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

/// The maximum run. It stands for longer runs as well, so such a code does not fit a step.
const LONGEST_RUN: u64 = 51;

/// [`groups_within`] for steps that move a lane by at most [`LONGEST_RUN`] + 33 bits a code.
fn groups_inside(bytes: &[u8], lanes: &Lanes<LANES>, groups: usize, steps: usize) -> usize {
    groups_within(bytes.len(), &lanes.positions, groups, steps, LONGEST_RUN)
}

/// The constants of one P: see `avx512::step`.
#[derive(Clone, Copy)]
struct Code {
    width: __m256i,
    down: __m256i,
    swap: __m256i,
    shift: __m128i,
    p: u32,
}

impl Code {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(p: u32) -> Self {
        let p_wide = i64::from(p);
        let swap = _mm_set_epi64x(0x0809_0a0b_0c0d_0e0f, 0x0001_0203_0405_0607);
        Self {
            width: _mm256_set1_epi64x(p_wide + 1),
            down: _mm256_set1_epi64x(63 - p_wide),
            swap: _mm256_broadcastsi128_si256(swap),
            shift: _mm_cvtsi32_si128(p as i32),
            p,
        }
    }

    /// # Safety
    ///
    /// For each lane, the 8 bytes from `position / 8` on are within the bytes that `bytes` points to.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn window(&self, bytes: *const u8, position: __m256i) -> __m256i {
        let index = _mm256_srli_epi64::<3>(position);
        // SAFETY: by the contract of this function. The scale is 1, so an index is a byte offset.
        let words = unsafe { _mm256_i64gather_epi64::<1>(bytes.cast(), index) };
        let swapped = _mm256_shuffle_epi8(words, self.swap);
        let inverted = _mm256_xor_si256(swapped, _mm256_set1_epi64x(-1));
        _mm256_sllv_epi64(inverted, _mm256_and_si256(position, _mm256_set1_epi64x(7)))
    }

    /// The run and the top of the first code, and the window after it.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn one(&self, window: __m256i) -> (__m256i, __m256i, __m256i) {
        // 2^52 + m as a float is m in the mantissa; minus 2^52 it is m, and its exponent gives the first one. The
        // lowest bit of m is set: see above.
        const TWO_TO_52: i64 = 0x4330_0000_0000_0000;
        let high = _mm256_srli_epi64::<12>(window);
        let biased = _mm256_or_si256(high, _mm256_set1_epi64x(TWO_TO_52 | 1));
        let float = _mm256_sub_pd(
            _mm256_castsi256_pd(biased),
            _mm256_castsi256_pd(_mm256_set1_epi64x(TWO_TO_52)),
        );
        let exponent = _mm256_srli_epi64::<52>(_mm256_castpd_si256(float));
        // The bias of an exponent is 1,023. The exponent of m is 0 to 51.
        let run = _mm256_sub_epi64(_mm256_set1_epi64x(1023 + LONGEST_RUN as i64), exponent);
        let end_of_run = _mm256_sllv_epi64(window, run);
        let top = _mm256_srlv_epi64(end_of_run, self.down);
        (run, top, _mm256_sllv_epi64(end_of_run, self.width))
    }

    /// Negative in lanes where `codes` codes with `runs` ones in total do not fit in a window.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn slack(&self, codes: u32, runs: __m256i) -> __m256i {
        let room = i64::from(WINDOW) - i64::from(codes * (self.p + 1));
        // A run that may be longer than it counts never fits.
        let room = room.min(LONGEST_RUN as i64 - 1);
        _mm256_sub_epi64(_mm256_set1_epi64x(room), runs)
    }

    /// The position after `codes` codes with `runs` ones in total.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn behind(&self, position: __m256i, codes: u32, runs: __m256i) -> __m256i {
        let fixed = _mm256_set1_epi64x(i64::from(codes * (self.p + 1)));
        _mm256_add_epi64(_mm256_add_epi64(position, fixed), runs)
    }

    /// The value of the code after `value`.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn value(&self, value: __m256i, run: __m256i, top: __m256i) -> __m256i {
        let ones = _mm256_set1_epi64x((2 << self.p) - 1);
        let quotient = _mm256_sll_epi64(run, self.shift);
        _mm256_add_epi64(
            _mm256_add_epi64(value, quotient),
            _mm256_sub_epi64(ones, top),
        )
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(numbers: &[u64; LANES]) -> Vectors {
    let mut vectors = [_mm256_setzero_si256(); VECTORS];
    for (vector, four) in vectors.iter_mut().zip(numbers.as_chunks::<4>().0) {
        // SAFETY: `four` is 32 bytes.
        *vector = unsafe { _mm256_loadu_si256(four.as_ptr().cast()) };
    }
    vectors
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(vectors: &Vectors, numbers: &mut [u64; LANES]) {
    for (vector, four) in vectors.iter().zip(numbers.as_chunks_mut::<4>().0) {
        // SAFETY: `four` is 32 bytes.
        unsafe { _mm256_storeu_si256(four.as_mut_ptr().cast(), *vector) };
    }
}

/// The signs of all lanes, one bit each.
#[inline]
#[target_feature(enable = "avx2")]
fn negative(slack: &Vectors) -> u32 {
    let mut bits = 0;
    for (vector, &slack) in (0..).zip(slack) {
        bits |= (_mm256_movemask_pd(_mm256_castsi256_pd(slack)) as u32) << (4 * vector);
    }
    bits
}

/// Restores `before` in the lanes where `slack` is negative.
#[inline]
#[target_feature(enable = "avx2")]
fn unless_odd(now: &mut Vectors, before: &Vectors, slack: &Vectors) {
    for v in 0..VECTORS {
        now[v] = _mm256_castpd_si256(_mm256_blendv_pd(
            _mm256_castsi256_pd(now[v]),
            _mm256_castsi256_pd(before[v]),
            _mm256_castsi256_pd(slack[v]),
        ));
    }
}

#[target_feature(enable = "avx2")]
fn advance<const PAIRS: bool>(
    bytes: &[u8],
    p: u32,
    lanes: &mut Lanes<LANES>,
    groups: usize,
) -> Advanced {
    let steps = if PAIRS { GROUP / 2 } else { GROUP };
    let groups = groups_inside(bytes, lanes, groups, steps);
    let code = Code::new(p);
    let start = lanes.positions;
    let mut position = load(&start);
    let mut tops = [_mm256_setzero_si256(); VECTORS];
    let mut done = 0;
    let mut odd = 0;
    while done < groups && odd == 0 {
        let before = (position, tops);
        let mut slack = [_mm256_setzero_si256(); VECTORS];
        for _ in 0..steps {
            for v in 0..VECTORS {
                // SAFETY: `groups_inside` guarantees that all gathers are within `bytes`.
                let window = unsafe { code.window(bytes.as_ptr(), position[v]) };
                let (mut runs, mut top, rest) = code.one(window);
                let mut codes = 1;
                if PAIRS {
                    let (second_run, second_top, _) = code.one(rest);
                    runs = _mm256_add_epi64(runs, second_run);
                    top = _mm256_add_epi64(top, second_top);
                    codes = 2;
                }
                slack[v] = _mm256_or_si256(slack[v], code.slack(codes, runs));
                position[v] = code.behind(position[v], codes, runs);
                tops[v] = _mm256_add_epi64(tops[v], top);
            }
        }
        done += 1;
        odd = negative(&slack);
        if odd != 0 {
            unless_odd(&mut position, &before.0, &slack);
            unless_odd(&mut tops, &before.1, &slack);
        }
    }
    let mut top_sums = [0; LANES];
    store(&tops, &mut top_sums);
    store(&position, &mut lanes.positions);
    for lane in 0..LANES {
        let codes = ((done - (odd >> lane & 1) as usize) * GROUP) as u64;
        let runs = lanes.positions[lane] - start[lane] - codes * u64::from(p + 1);
        let ones = codes * ((2 << p) - 1);
        let total = (runs << p).wrapping_add(ones.wrapping_sub(top_sums[lane]));
        lanes.values[lane] = lanes.values[lane].wrapping_add(total);
    }
    Advanced {
        groups: done,
        behind: odd,
    }
}

/// # Safety
///
/// `8 * groups` values from each place on are within `out`.
#[target_feature(enable = "avx2")]
unsafe fn advance_into<const PAIRS: bool>(
    bytes: &[u8],
    p: u32,
    lanes: &mut Lanes<LANES>,
    groups: usize,
    out: &mut [u64],
    places: &[usize; LANES],
) -> Advanced {
    let steps = if PAIRS { GROUP / 2 } else { GROUP };
    let groups = groups_inside(bytes, lanes, groups, steps);
    let code = Code::new(p);
    let mut position = load(&lanes.positions);
    let mut value = load(&lanes.values);
    let mut rows = [[_mm256_setzero_si256(); GROUP]; VECTORS];
    let mut done = 0;
    let mut odd = 0;
    while done < groups && odd == 0 {
        let before = (position, value);
        let mut slack = [_mm256_setzero_si256(); VECTORS];
        for step in 0..steps {
            for v in 0..VECTORS {
                // SAFETY: `groups_inside` guarantees that all gathers are within `bytes`.
                let window = unsafe { code.window(bytes.as_ptr(), position[v]) };
                let (mut runs, top, rest) = code.one(window);
                value[v] = code.value(value[v], runs, top);
                let mut codes = 1;
                if PAIRS {
                    rows[v][2 * step] = value[v];
                    let (second_run, second_top, _) = code.one(rest);
                    value[v] = code.value(value[v], second_run, second_top);
                    rows[v][2 * step + 1] = value[v];
                    runs = _mm256_add_epi64(runs, second_run);
                    codes = 2;
                } else {
                    rows[v][step] = value[v];
                }
                slack[v] = _mm256_or_si256(slack[v], code.slack(codes, runs));
                position[v] = code.behind(position[v], codes, runs);
            }
        }
        for v in 0..VECTORS {
            for (half, rows) in rows[v].as_chunks::<4>().0.iter().enumerate() {
                for (lane, column) in (0..4).zip(transposed(rows)) {
                    let at = places[4 * v + lane] + done * GROUP + 4 * half;
                    // SAFETY: by the contract of this function.
                    unsafe { _mm256_storeu_si256(out.as_mut_ptr().add(at).cast(), column) };
                }
            }
        }
        done += 1;
        odd = negative(&slack);
        if odd != 0 {
            unless_odd(&mut position, &before.0, &slack);
            unless_odd(&mut value, &before.1, &slack);
        }
    }
    store(&position, &mut lanes.positions);
    store(&value, &mut lanes.values);
    Advanced {
        groups: done,
        behind: odd,
    }
}

/// Transposes rows of 4 lanes into 4 runs of values, one per lane.
#[inline]
#[target_feature(enable = "avx2")]
fn transposed(rows: &[__m256i; 4]) -> [__m256i; 4] {
    let [a, b, c, d] = *rows;
    let (ab0, ab1) = (_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
    let (cd0, cd1) = (_mm256_unpacklo_epi64(c, d), _mm256_unpackhi_epi64(c, d));
    [
        _mm256_permute2x128_si256::<0x20>(ab0, cd0),
        _mm256_permute2x128_si256::<0x20>(ab1, cd1),
        _mm256_permute2x128_si256::<0x31>(ab0, cd0),
        _mm256_permute2x128_si256::<0x31>(ab1, cd1),
    ]
}
