//! Tests under unusual floating-point environments.
//!
//! The whole program shares a thread's rounding mode. C code that calls `fesetround`, or an audio library that
//! flushes denormals to zero, changes it for this crate too. No result and no address may depend on it.

use core::arch::asm;
use core::hint::black_box;

use alloc::vec::Vec;

use crate::arch::lanes::{Advanced, Lanes, Scalar, advance, advance_into};
use crate::arch::{Kind, SimdLevel};

/// All exceptions are masked.
const USUAL: u32 = 0x1f80;
/// Flushes results to zero and treats denormals as zero.
const FLUSH: u32 = 0x8040;

/// The four rounding modes, each with denormals and without.
pub(crate) fn environments() -> impl Iterator<Item = u32> {
    let rounding = (0..4).map(|mode| USUAL | mode << 13);
    rounding.flat_map(|usual| [usual, usual | FLUSH])
}

fn set_environment(mxcsr: u32) {
    // SAFETY: reads four valid bytes and sets no reserved bit. `under` restores the environment; until then only
    // the code under test runs.
    unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const mxcsr, options(nostack, readonly)) };
}

/// The result of `f` in this environment.
#[inline(never)]
pub(crate) fn under<R>(environment: u32, f: impl FnOnce() -> R) -> R {
    /// Restores the usual environment, even if `f` panics.
    struct Usual;
    impl Drop for Usual {
        fn drop(&mut self) {
            set_environment(USUAL);
        }
    }
    let _usual = Usual;
    set_environment(environment);
    black_box(black_box(f)())
}

/// Runs each lane kernel from the middle of `bytes`. Returns its progress and its lanes.
fn advance_once(level: SimdLevel, bytes: &[u8], p: u32) -> (Advanced, Vec<u64>) {
    macro_rules! advance {
        ($token:expr, $lanes:expr) => {{
            let start = bytes.len() as u64 * 4;
            let mut lanes = Lanes::<{ $lanes }> {
                positions: core::array::from_fn(|lane| start + lane as u64 * 7),
                values: [0; $lanes],
            };
            let advanced = advance($token, bytes, p, &mut lanes, 1);
            let mut state = [lanes.positions, lanes.values].concat();
            let mut out = [0; $lanes * 8];
            lanes.positions = core::array::from_fn(|lane| start + lane as u64 * 7);
            lanes.values = [0; $lanes];
            let places = core::array::from_fn(|lane| lane * 8);
            let again = advance_into($token, bytes, p, &mut lanes, 1, &mut out, &places);
            assert_eq!(advanced, again, "{level}, P = {p}");
            for lane in (0..$lanes).filter(|lane| advanced.behind >> lane & 1 == 0) {
                state.extend_from_slice(&out[lane * 8..][..8]);
            }
            (advanced, state)
        }};
    }
    match level.kind() {
        Kind::Baseline(_) => advance!(Scalar, 4),
        Kind::Avx2(avx2) => advance!(avx2, 16),
        Kind::Avx512(avx512) => advance!(avx512, 32),
    }
}

#[test]
fn lane_kernels_give_the_same_in_every_environment() {
    // The lanes start in the middle, far from both ends. A kernel that moves backwards thus fails this test before
    // it reads outside of the bytes.
    const LEN: usize = 1 << 17;
    let noise = |i: usize| crate::splitmix::spread(i as u64) as u8;
    let streams: [Vec<u8>; 4] = [
        alloc::vec![0xff; LEN],
        alloc::vec![0; LEN],
        (0..LEN).map(noise).collect(),
        // Runs of ones that are longer than a mantissa.
        (0..LEN)
            .map(|i| if i % 16 < 9 { 0xff } else { noise(i) })
            .collect(),
    ];
    for level in SimdLevel::available() {
        for bytes in &streams {
            for p in [0, 3, 19, 27, 32] {
                let expected = advance_once(level, bytes, p);
                for environment in environments() {
                    let got = under(environment, || advance_once(level, bytes, p));
                    assert!(
                        got == expected,
                        "{level}, P = {p}, MXCSR {environment:#x}: {:?}, not {:?}",
                        got.0,
                        expected.0
                    );
                }
            }
        }
    }
}
