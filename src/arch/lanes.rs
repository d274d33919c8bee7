//! The lane kernels: [`decode_groups`] and [`decode_groups_into`] decode many places of one stream in lock step.
//!
//! A lane is a bit position and the value before it. A step loads 8 bytes at the position of each lane and decodes
//! two codes from them. If the two take more than [`WINDOW`] bits, the lane is *odd*, and its group is left to the
//! caller; the other lanes continue. No position leaves the bytes, for any contents: [`groups_within`] limits the
//! number of groups by the room after the last lane.
//!
//! There is one body for all instruction sets. Each implements [`Simd`] for the token that proves its support.
//! [`VECTORS`] vectors are interleaved, because the chain of a step is long: 45 cycles with AVX-512.
//!
//! A code adds `(run << P) + remainder` to the value. After the run, the P + 1 bits `0, remainder` are shifted down.
//! If only sums are wanted, these are summed, and the runs follow from the distance of the positions. This saves two
//! operations per code.
//!
//! Where leading zeros can be counted, bits are inverted once per window ([`Simd::INVERTED`]). Then these bits are
//! `ones - remainder`, with `ones = 2^(P+1) - 1`.
//!
//! Rows `decode/plain`, `decode/fold` and `index/16` in docs/benchmarking.md.

use super::memory::align_frame;
use crate::params::Params;

/// The number of codes that a kernel decodes in every lane before it checks them.
pub(crate) const GROUP: usize = 8;

/// The number of valid bits after 8 bytes are loaded at a bit position and shifted into place.
pub(crate) const WINDOW: u32 = 57;

/// In scalar code each shift by a variable takes two operations, so this P is a constant there.
const USUAL_P: u32 = Params::CASHU.p();

/// The number of interleaved vectors. Two leave execution units idle; eight spill registers.
pub(super) const VECTORS: usize = 4;

/// A place in the bits from which items can be decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Point {
    /// The bit position of an item, or the end of the last one.
    pub(crate) position: u64,
    /// The value of the item before it, or 0 before the first item.
    pub(crate) base: u64,
}

/// Places that are decoded in parallel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lanes<const N: usize> {
    /// The bit position of the next code of each lane.
    pub(crate) positions: [u64; N],
    /// The value before it. Sums wrap, so callers must check values before they can overflow.
    pub(crate) values: [u64; N],
}

/// The progress of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Advanced {
    /// The number of groups of [`GROUP`] codes that every lane decoded. Fewer than requested near the end of
    /// the bytes, or if a lane is `behind`.
    pub(crate) groups: usize,
    /// A bit mask of the lanes that are one group behind the others, because two of their codes did not fit in
    /// a step.
    pub(crate) behind: u32,
}

/// Vectors of 64-bit lanes of one instruction set, implemented for its token. All sums wrap.
///
/// # Safety
///
/// Every operation does in each lane what it says: see [`Simd`].
pub(crate) unsafe trait Vectors: Copy {
    type Vector: Copy;

    /// Runs `f`, which must be `#[inline(always)]`, compiled for the instruction set.
    fn compiled<R>(self, f: impl FnOnce() -> R) -> R;

    fn splat(self, number: u64) -> Self::Vector;
    /// The first numbers, as many as a vector has lanes.
    fn load(self, numbers: &[u64]) -> Self::Vector;
    fn store(self, vector: Self::Vector, numbers: &mut [u64]);
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn or(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
}

/// What decoding needs in addition. A kernel has `LANES` lanes in [`VECTORS`] vectors.
///
/// # Safety
///
/// Every operation does in each lane what it says, and [`Self::run`] counts at most [`Self::LONGEST_RUN`] ones: this
/// module and `lookup` read at positions that they compute with them, and bound these by the longest run beforehand.
pub(crate) unsafe trait Simd<const LANES: usize>: Vectors {
    /// The lanes of a vector.
    const WIDTH: usize = LANES / VECTORS;
    /// The number of values of a lane that are stored together.
    const ROWS: usize = if Self::WIDTH > 2 { Self::WIDTH } else { 2 };
    /// [`Self::run`] counts no more ones than this.
    const LONGEST_RUN: u64;
    /// A run that is counted as longer may be longer still.
    const EXACT_RUN: u64 = Self::LONGEST_RUN - 1;
    /// The number of vectors that record odd lanes. With 1, all lanes wait for an odd one.
    const SLACKS: usize;
    /// The number of vectors that take each part of a step together. A processor waits for few vector operations at a
    /// time, so those that can begin should be near each other in the code.
    const AT_ONCE: usize = VECTORS;
    /// Whether windows hold inverted bits.
    const INVERTED: bool = true;

    fn sub(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Shifts each lane left by its count, which is below 64.
    fn shl(self, vector: Self::Vector, counts: Self::Vector) -> Self::Vector;
    /// Shifts each lane right by its count, which is below 64.
    fn shr(self, vector: Self::Vector, counts: Self::Vector) -> Self::Vector;
    /// The sign bits of the lanes.
    fn negative(self, vector: Self::Vector) -> u32;
    /// `a` in lanes where `condition` is negative, `b` in the others.
    fn select(self, condition: Self::Vector, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// The run of leading ones of the bits, and the window after it.
    fn run(self, window: Self::Vector) -> (Self::Vector, Self::Vector);

    /// `value + run * 2^p`, for runs that fit a window and P up to 32. `power` is 2^p in each lane.
    #[inline(always)]
    fn add_quotient(
        self,
        value: Self::Vector,
        run: Self::Vector,
        p: Self::Vector,
        _power: Self::Vector,
    ) -> Self::Vector {
        self.add(value, self.shl(run, p))
    }

    /// The remainder of a code from the bits after its run, shifted down: `ones` minus inverted bits.
    #[inline(always)]
    fn remainder(self, low: Self::Vector, ones: Self::Vector) -> Self::Vector {
        self.sub(ones, low)
    }

    /// The 8 bytes at each bit position, with the first bit at the top, inverted if [`Self::INVERTED`].
    ///
    /// # Safety
    ///
    /// For each lane, the 8 bytes from `position / 8` on are within `bytes`.
    unsafe fn window(self, bytes: &[u8], positions: Self::Vector) -> Self::Vector;

    /// Transposes the first [`Self::ROWS`] rows, and stores those of each lane from `out[at(lane)]` on.
    ///
    /// # Safety
    ///
    /// [`Self::ROWS`] numbers from each of these places on are within `out`.
    unsafe fn store_columns(
        self,
        rows: &[Self::Vector; GROUP],
        out: &mut [u64],
        at: impl Fn(usize) -> usize,
    );
}

/// Decodes `groups` groups of 8 codes in each lane, or fewer: see [`Advanced`].
#[inline(never)]
pub(crate) fn decode_groups<const N: usize, S: Simd<N>>(
    simd: S,
    bytes: &[u8],
    p: u32,
    lanes: &mut Lanes<N>,
    groups: usize,
) -> Advanced {
    simd.compiled(
        #[inline(always)]
        // SAFETY: nothing is stored.
        || unsafe {
            match p {
                USUAL_P if S::WIDTH == 1 => {
                    body::<N, S, false>(simd, bytes, USUAL_P, lanes, groups, &mut [], &[0; N])
                }
                _ => body::<N, S, false>(simd, bytes, p, lanes, groups, &mut [], &[0; N]),
            }
        },
    )
}

/// [`decode_groups`] that stores the values of lane `i` from `out[places[i]]` on. For a lane that stopped early, the
/// last eight of them are meaningless.
///
/// # Panics
///
/// The values of a lane do not fit in `out`.
#[inline(never)]
pub(crate) fn decode_groups_into<const N: usize, S: Simd<N>>(
    simd: S,
    bytes: &[u8],
    p: u32,
    lanes: &mut Lanes<N>,
    groups: usize,
    out: &mut [u64],
    places: &[usize; N],
) -> Advanced {
    let last = out.len().checked_sub(groups.saturating_mul(GROUP));
    assert!(last.is_some_and(|last| places.iter().all(|&place| place <= last)));
    simd.compiled(
        #[inline(always)]
        // SAFETY: by the assertion, 8 * groups values from each place on are within `out`.
        || unsafe {
            match p {
                USUAL_P if S::WIDTH == 1 => {
                    body::<N, S, true>(simd, bytes, USUAL_P, lanes, groups, out, places)
                }
                _ => body::<N, S, true>(simd, bytes, p, lanes, groups, out, places),
            }
        },
    )
}

/// # Safety
///
/// If `STORE`, 8 * `groups` values from each place on are within `out`.
#[inline(always)]
unsafe fn body<const N: usize, S: Simd<N>, const STORE: bool>(
    simd: S,
    bytes: &[u8],
    p: u32,
    lanes: &mut Lanes<N>,
    groups: usize,
    out: &mut [u64],
    places: &[usize; N],
) -> Advanced {
    assert!(p <= 32);
    if S::WIDTH > 1 {
        align_frame();
    }
    let groups = groups_within(bytes.len(), &lanes.positions, groups, S::LONGEST_RUN);
    let (width, ones) = (u64::from(p) + 1, (2 << p) - 1);
    let (shift, power) = (simd.splat(p.into()), simd.splat(1 << p));
    let (widths, downs) = (simd.splat(width), simd.splat(64 - width));
    let two_widths = simd.splat(2 * width);
    // A run that may be longer than it counts never fits.
    let room = (i64::from(WINDOW) - 2 * width as i64).min(S::EXACT_RUN as i64);
    let room = simd.splat(room as u64);
    let all_ones = simd.splat(ones);
    let zero = simd.splat(0);

    let mut position = [zero; VECTORS];
    // The values, or the sums of the low bits.
    let mut sum = [zero; VECTORS];
    for v in 0..VECTORS {
        position[v] = simd.load(&lanes.positions[v * S::WIDTH..]);
        if STORE {
            sum[v] = simd.load(&lanes.values[v * S::WIDTH..]);
        }
    }
    // Negative in odd lanes.
    let mut slack = [zero; VECTORS];
    let mut rows = [[zero; GROUP]; VECTORS];
    let (mut done, mut behind) = (0, 0);
    while done < groups && behind == 0 {
        let before = (position, sum);
        slack = [zero; VECTORS];
        for first_row in (0..GROUP).step_by(S::ROWS) {
            for row in (0..S::ROWS).step_by(2) {
                for first_vector in (0..VECTORS).step_by(S::AT_ONCE) {
                    let vectors = first_vector..first_vector + S::AT_ONCE;
                    let mut codes = [[(zero, zero); 2]; VECTORS];
                    for v in vectors.clone() {
                        // SAFETY: `groups_within` guarantees that all positions are within `bytes`.
                        codes[v][0].1 = unsafe { simd.window(bytes, position[v]) };
                    }
                    for v in vectors.clone() {
                        codes[v][0] = simd.run(codes[v][0].1);
                    }
                    for v in vectors.clone() {
                        codes[v][1] = simd.run(simd.shl(codes[v][0].1, widths));
                    }
                    for v in vectors {
                        let [(run, rest), (next_run, next_rest)] = codes[v];
                        let first = (run, simd.shr(rest, downs));
                        let second = (next_run, simd.shr(next_rest, downs));
                        if STORE {
                            for (row, (run, low)) in [(row, first), (row + 1, second)] {
                                let next = simd.add_quotient(sum[v], run, shift, power);
                                sum[v] = simd.add(next, simd.remainder(low, all_ones));
                                rows[v][row] = sum[v];
                            }
                        } else {
                            sum[v] = simd.add(sum[v], simd.add(first.1, second.1));
                        }
                        let runs = simd.add(first.0, second.0);
                        let odd = &mut slack[v % S::SLACKS];
                        *odd = simd.or(*odd, simd.sub(room, runs));
                        position[v] = simd.add(simd.add(position[v], two_widths), runs);
                    }
                }
            }
            if STORE {
                let first = done * GROUP + first_row;
                for (v, rows) in rows.iter().enumerate() {
                    let places = &places[v * S::WIDTH..][..S::WIDTH];
                    // SAFETY: by the contract of this function.
                    unsafe { simd.store_columns(rows, out, |lane| places[lane] + first) };
                }
            }
        }
        done += 1;
        let any = slack.into_iter().fold(zero, |any, slack| simd.or(any, slack));
        if simd.negative(any) != 0 {
            for v in 0..VECTORS {
                let slack = slack[v % S::SLACKS];
                behind |= simd.negative(slack) << (v * S::WIDTH);
                position[v] = simd.select(slack, before.0[v], position[v]);
                sum[v] = simd.select(slack, before.1[v], sum[v]);
            }
        }
    }

    // What a code adds, except for its low bits and for 2^P times its length.
    let each = if S::INVERTED { ones } else { 0 }.wrapping_sub(width << p);
    let codes = (done * GROUP) as u64;
    let most = simd.splat(codes.wrapping_mul(each));
    let least = simd.splat(codes.saturating_sub(GROUP as u64).wrapping_mul(each));
    for v in 0..VECTORS {
        let positions = &mut lanes.positions[v * S::WIDTH..];
        let values = &mut lanes.values[v * S::WIDTH..];
        if !STORE {
            let bits = simd.sub(position[v], simd.load(positions));
            let fixed = simd.select(slack[v % S::SLACKS], least, most);
            let fixed = simd.add(simd.shl(bits, shift), fixed);
            let total = match S::INVERTED {
                true => simd.sub(fixed, sum[v]),
                false => simd.add(fixed, sum[v]),
            };
            sum[v] = simd.add(simd.load(values), total);
        }
        simd.store(position[v], positions);
        simd.store(sum[v], values);
    }
    Advanced { groups: done, behind }
}

/// The number of groups, at most `groups`, that can be decoded from `positions` by loads of 8 bytes within
/// `len` bytes.
///
/// A step of two codes that fit in a window moves a lane by at most [`WINDOW`] bits. Other steps move it by at
/// most `worst_run` + 33 bits per code, and their group is the last. Room is reserved for one such group and for
/// the 71 bits of the last load.
fn groups_within(len: usize, positions: &[u64], groups: usize, worst_run: u64) -> usize {
    let spare = GROUP as u64 * (worst_run + 33) + 71;
    let bits = len as u64 * 8;
    let foremost = positions.iter().max().copied().unwrap_or(u64::MAX);
    let room = bits.saturating_sub(spare).saturating_sub(foremost);
    groups.min((room / LONGEST_GROUP) as usize)
}

/// The longest group without an odd lane, in bits.
pub(crate) const LONGEST_GROUP: u64 = (GROUP / 2) as u64 * WINDOW as u64;

/// Scalar code with four lanes: the processor overlaps their dependency chains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Scalar;

// SAFETY: plain integers.
unsafe impl Vectors for Scalar {
    type Vector = u64;

    #[inline(always)]
    fn compiled<R>(self, f: impl FnOnce() -> R) -> R {
        f()
    }

    #[inline(always)]
    fn splat(self, number: u64) -> u64 {
        number
    }

    #[inline(always)]
    fn load(self, numbers: &[u64]) -> u64 {
        numbers[0]
    }

    #[inline(always)]
    fn store(self, number: u64, numbers: &mut [u64]) {
        numbers[0] = number;
    }

    #[inline(always)]
    fn add(self, a: u64, b: u64) -> u64 {
        a.wrapping_add(b)
    }

    #[inline(always)]
    fn or(self, a: u64, b: u64) -> u64 {
        a | b
    }
}

// SAFETY: plain integers; `run` counts the leading ones of 64 bits.
unsafe impl Simd<VECTORS> for Scalar {
    const LONGEST_RUN: u64 = 63;
    // An odd lane is rare, and the lanes are few.
    const SLACKS: usize = 1;

    #[inline(always)]
    fn sub(self, a: u64, b: u64) -> u64 {
        a.wrapping_sub(b)
    }

    #[inline(always)]
    fn shl(self, number: u64, count: u64) -> u64 {
        number.wrapping_shl(count as u32)
    }

    #[inline(always)]
    fn shr(self, number: u64, count: u64) -> u64 {
        number.wrapping_shr(count as u32)
    }

    #[inline(always)]
    fn run(self, window: u64) -> (u64, u64) {
        // Below 64, for processors that cannot count the zeros of zero.
        let window = window | 1;
        let run = window.leading_zeros();
        (run.into(), window << run)
    }

    #[inline(always)]
    fn negative(self, number: u64) -> u32 {
        (number >> 63) as u32
    }

    #[inline(always)]
    fn select(self, condition: u64, a: u64, b: u64) -> u64 {
        if self.negative(condition) == 1 { a } else { b }
    }

    #[inline(always)]
    unsafe fn window(self, bytes: &[u8], position: u64) -> u64 {
        let at = (position / 8) as usize;
        // SAFETY: by the contract of the method.
        let word = unsafe { bytes.as_ptr().add(at).cast::<[u8; 8]>().read() };
        !u64::from_be_bytes(word) << (position % 8)
    }

    #[inline(always)]
    unsafe fn store_columns(
        self,
        rows: &[u64; GROUP],
        out: &mut [u64],
        at: impl Fn(usize) -> usize,
    ) {
        // SAFETY: by the contract of the method.
        let place = unsafe { out.as_mut_ptr().add(at(0)).cast::<[u64; 2]>() };
        // SAFETY: as above; it is aligned for numbers.
        unsafe { place.write([rows[0], rows[1]]) };
    }
}
