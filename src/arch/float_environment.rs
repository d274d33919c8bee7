//! Tests under unusual floating-point environments.
//!
//! The whole program shares a thread's rounding mode. C code that calls `fesetround`, or an audio library that
//! flushes denormals to zero, changes it for this crate too. No result and no address may depend on it.

use core::arch::asm;
use core::hint::black_box;

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
