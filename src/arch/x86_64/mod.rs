//! Kernels for x86-64, a folder for each instruction set.
//!
//! [`Avx2`] and [`Avx512`] are tokens: only detection makes one, so that holding one proves that the CPU has
//! the features its kernels are compiled for. Each kernel is a `#[target_feature]` function, private to its
//! file, over slices and arrays; a method of the token is the one gate to it.

pub(crate) mod avx2;
pub(crate) mod avx512;

pub(crate) use avx512::CodeStream;

/// This CPU has AVX2, BMI1, BMI2, LZCNT and POPCNT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Avx2(());

/// This CPU has what [`Avx2`] has, and AVX-512 with F, BW, CD, DQ, VL, IFMA, VBMI and VBMI2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Avx512(());

/// Asks for the cache line of the item `ahead` items after the first, if there is one: nothing is read, and
/// nothing waits. Encoding, hashing of sets that no cache holds: encode and hash in docs/benchmarking.md.
#[inline(always)]
pub(crate) fn prefetch<T>(items: &[T], ahead: usize) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    let address = items.as_ptr().wrapping_add(ahead).cast();
    // SAFETY: every x86-64 has the instruction, and the address may be any (as newer compilers know).
    #[allow(unused_unsafe)]
    unsafe {
        _mm_prefetch::<_MM_HINT_T0>(address)
    };
}

/// Whether each of the features is there: asked of the CPU with `std`, of the compiler without.
macro_rules! all_detected {
    ($($feature:tt),*) => {
        true $(&& {
            #[cfg(feature = "std")]
            let detected = std::arch::is_x86_feature_detected!($feature);
            #[cfg(not(feature = "std"))]
            let detected = cfg!(target_feature = $feature);
            detected
        })*
    };
}

impl Avx2 {
    /// The token, where this CPU has the features.
    pub(super) fn detect() -> Option<Self> {
        all_detected!("avx2", "bmi1", "bmi2", "lzcnt", "popcnt").then_some(Self(()))
    }

    /// Runs `f` compiled with these features: for plain Rust that the compiler makes better with them.
    ///
    /// `f` and all that it calls must be `#[inline(always)]`; what is not inlined is compiled for the
    /// baseline as ever, and is right all the same.
    #[inline(always)]
    pub(crate) fn compiled<R>(self, f: impl FnOnce() -> R) -> R {
        #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
        fn with_features<R>(f: impl FnOnce() -> R) -> R {
            f()
        }
        // SAFETY: the token says that the CPU has the features. Serial decode with them: decode/plain in
        // docs/benchmarking.md.
        unsafe { with_features(f) }
    }
}

impl Avx512 {
    /// The token, where this CPU has the features.
    pub(super) fn detect() -> Option<Self> {
        let avx512 = all_detected!(
            "avx512f",
            "avx512bw",
            "avx512cd",
            "avx512dq",
            "avx512vl",
            "avx512ifma",
            "avx512vbmi",
            "avx512vbmi2"
        );
        (avx512 && Avx2::detect().is_some()).then_some(Self(()))
    }

    /// What has AVX-512 has AVX2.
    pub(crate) fn avx2(self) -> Avx2 {
        Avx2(())
    }
}
