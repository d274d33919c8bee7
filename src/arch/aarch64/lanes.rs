//! Three lanes a vector: two in a NEON register and one in a scalar register.
//!
//! NEON has two 64-bit lanes, and no CPU has many units that shift them. The scalar registers do a third of the work
//! meanwhile. docs/decisions/0028-neon-lanes.md compares this with other divisions.
//!
//! NEON counts zeros in 32-bit lanes only, so a run of 32 or more counts as 32.

use core::arch::aarch64::*;

use crate::arch::lanes::{GROUP, Simd, Vectors};

/// This target has NEON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Neon(());

impl Neon {
    pub(super) fn new() -> Self {
        Self(())
    }
}

/// Lanes 0 and 1, and lane 2.
#[derive(Clone, Copy)]
pub(crate) struct Three(uint64x2_t, u64);

// SAFETY: each operation is that of its instructions.
unsafe impl Vectors for Neon {
    type Vector = Three;

    #[inline(always)]
    fn compiled<R>(self, f: impl FnOnce() -> R) -> R {
        f()
    }

    token_methods! { "neon",
        fn splat(number: u64) -> Three { Three(vdupq_n_u64(number), number) }
        fn load(numbers: &[u64]) -> Three { Three(pair(numbers[0], numbers[1]), numbers[2]) }
        fn add(a: Three, b: Three) -> Three { Three(vaddq_u64(a.0, b.0), a.1.wrapping_add(b.1)) }
        fn or(a: Three, b: Three) -> Three { Three(vorrq_u64(a.0, b.0), a.1 | b.1) }
    }

    #[inline(always)]
    fn store(self, vector: Three, numbers: &mut [u64]) {
        // SAFETY: the token proves that the target has NEON.
        [numbers[0], numbers[1]] = unsafe { halves(vector.0) };
        numbers[2] = vector.1;
    }
}

// SAFETY: operations on lanes do what their instructions do. A run has the leading zeros of 32 or 64 bits: at most 64.
unsafe impl Simd<12> for Neon {
    const ROWS: usize = 2;
    // That of lane 2.
    const LONGEST_RUN: u64 = 64;
    const EXACT_RUN: u64 = 31;
    // An odd lane is rare, and the lanes are few.
    const SLACKS: usize = 1;

    token_methods! { "neon",
        fn sub(a: Three, b: Three) -> Three { Three(vsubq_u64(a.0, b.0), a.1.wrapping_sub(b.1)) }
        fn shl(vector: Three, counts: Three) -> Three {
            let pair = vshlq_u64(vector.0, vreinterpretq_s64_u64(counts.0));
            Three(pair, vector.1.wrapping_shl(counts.1 as u32))
        }
        fn shr(vector: Three, counts: Three) -> Three {
            // NEON shifts to the right by a negative count to the left.
            let counts_left = vnegq_s64(vreinterpretq_s64_u64(counts.0));
            let pair = vshlq_u64(vector.0, counts_left);
            Three(pair, vector.1.wrapping_shr(counts.1 as u32))
        }
        fn run(window: Three) -> (Three, Three) { run(window) }
        fn negative(vector: Three) -> u32 {
            let [a, b] = halves(vector.0);
            (a >> 63 | b >> 63 << 1 | vector.1 >> 63 << 2) as u32
        }
        fn select(condition: Three, a: Three, b: Three) -> Three {
            let negative = vcltzq_s64(vreinterpretq_s64_u64(condition.0));
            let single = if condition.1 >> 63 == 1 { a.1 } else { b.1 };
            Three(vbslq_u64(negative, a.0, b.0), single)
        }
    }

    #[inline(always)]
    unsafe fn window(self, bytes: &[u8], positions: Three) -> Three {
        // SAFETY: the token proves that the target has NEON; the rest is the contract of the method.
        unsafe { window(bytes.as_ptr(), positions) }
    }

    #[inline(always)]
    unsafe fn store_columns(
        self,
        rows: &[Three; GROUP],
        out: &mut [u64],
        at: impl Fn(usize) -> usize,
    ) {
        // SAFETY: the token proves that the target has NEON.
        let columns = unsafe { transposed(rows) };
        for (lane, column) in columns.into_iter().enumerate() {
            // SAFETY: the same; the rest is the contract of the method.
            unsafe { vst1q_u64(out.as_mut_ptr().add(at(lane)), column) };
        }
    }
}

/// # Safety
///
/// For each lane, the 8 bytes from `position / 8` on are within the bytes that `bytes` points to.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn window(bytes: *const u8, positions: Three) -> Three {
    let load = |position: u64| {
        // SAFETY: by the contract of this function.
        unsafe { bytes.add((position / 8) as usize).cast::<u64>().read_unaligned() }
    };
    let [a, b] = halves(positions.0).map(load);
    let swapped = vrev64q_u8(vreinterpretq_u8_u64(pair(a, b)));
    let inverted = vreinterpretq_u64_u8(vmvnq_u8(swapped));
    let counts = vandq_u64(positions.0, vdupq_n_u64(7));
    Three(
        vshlq_u64(inverted, vreinterpretq_s64_u64(counts)),
        !load(positions.1).swap_bytes() << (positions.1 % 8),
    )
}

/// The number of leading ones, and the window after them.
#[inline]
#[target_feature(enable = "neon")]
fn run(window: Three) -> (Three, Three) {
    let zeros = vclzq_u32(vreinterpretq_u32_u64(window.0));
    // Those of the upper half.
    let zeros = vshrq_n_u64::<32>(vreinterpretq_u64_u32(zeros));
    let rest = vshlq_u64(window.0, vreinterpretq_s64_u64(zeros));
    let single = window.1.leading_zeros();
    // All bits may be zeros. The shift by 64 is then one by 0, of no bits.
    let run = Three(zeros, single.into());
    (run, Three(rest, window.1.wrapping_shl(single)))
}

#[inline]
#[target_feature(enable = "neon")]
fn transposed(rows: &[Three; GROUP]) -> [uint64x2_t; 3] {
    let [Three(a, c), Three(b, d), ..] = *rows;
    [vzip1q_u64(a, b), vzip2q_u64(a, b), pair(c, d)]
}

#[inline]
#[target_feature(enable = "neon")]
fn pair(a: u64, b: u64) -> uint64x2_t {
    vcombine_u64(vcreate_u64(a), vcreate_u64(b))
}

#[inline]
#[target_feature(enable = "neon")]
fn halves(pair: uint64x2_t) -> [u64; 2] {
    [vgetq_lane_u64::<0>(pair), vgetq_lane_u64::<1>(pair)]
}
