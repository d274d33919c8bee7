//! Counts decoded bits, for tests. A limit on decoded bits is a limit on time that does not depend on the
//! machine's load.
//!
//! Only the tests of this repository count, in builds with debug assertions. Others have no overhead.

#[cfg(all(debug_assertions, feature = "__internals"))]
mod counted {
    use core::cell::Cell;

    std::thread_local! {
        static BITS: Cell<u64> = const { Cell::new(0) };
    }

    pub(super) fn get() -> u64 {
        BITS.get()
    }

    pub(super) fn add(bits: u64) {
        BITS.set(BITS.get().wrapping_add(bits));
    }
}

/// The number of bits that this thread has decoded, if they are counted. For tests.
#[cfg(feature = "__internals")]
#[must_use]
pub fn decoded_bits() -> Option<u64> {
    #[cfg(all(debug_assertions, feature = "__internals"))]
    return Some(counted::get());
    #[cfg(not(all(debug_assertions, feature = "__internals")))]
    return None;
}

/// Counts these bits.
#[inline(always)]
pub(crate) fn count(bits: impl FnOnce() -> u64) {
    #[cfg(all(debug_assertions, feature = "__internals"))]
    counted::add(bits());
    #[cfg(not(all(debug_assertions, feature = "__internals")))]
    let _ = bits;
}
