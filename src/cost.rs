//! How many bits were decoded, for tests: a bound on them is a bound on time that no machine's load changes.
//!
//! Builds without debug assertions count nothing, and pay nothing.

#[cfg(all(debug_assertions, feature = "std"))]
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

/// How many bits this thread has decoded; nothing where they are not counted. For tests.
#[doc(hidden)]
#[must_use]
pub fn decoded_bits() -> Option<u64> {
    #[cfg(all(debug_assertions, feature = "std"))]
    return Some(counted::get());
    #[cfg(not(all(debug_assertions, feature = "std")))]
    return None;
}

/// Counts these bits.
#[inline(always)]
pub(crate) fn count(bits: impl FnOnce() -> u64) {
    #[cfg(all(debug_assertions, feature = "std"))]
    counted::add(bits());
    #[cfg(not(all(debug_assertions, feature = "std")))]
    let _ = bits;
}

/// What `f` gives, and how many bits it decoded: for work that another thread does.
#[cfg(feature = "parallel")]
pub(crate) fn counted<R>(f: impl FnOnce() -> R) -> (R, u64) {
    let before = decoded_bits().unwrap_or_default();
    let result = f();
    let after = decoded_bits().unwrap_or_default();
    (result, after.wrapping_sub(before))
}
