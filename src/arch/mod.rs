//! [`SimdLevel`]: the instruction set of the batch functions, selected once per batch.
//!
//! A `SimdLevel` is made only by detection, so holding one proves that this CPU supports it. Kernels for an
//! instruction set are below this module, the only place where `unsafe` is allowed. The scalar code that runs
//! on every CPU is plain Rust and is part of its subject's module (`decode::scanner`, `hash`, `encode`).
//!
//! A batch function matches on [`SimdLevel::kind`]. All kinds but the scalar one carry a token whose methods are the
//! kernels. The token is the proof of support, so the methods are safe to call.

/// Methods with the instructions of a token.
#[allow(unused_macros)]
macro_rules! token_methods {
    ($features:tt, $(fn $name:ident($($arg:ident: $type:ty),*) -> $result:ty $body:block)*) => {$(
        #[inline(always)]
        fn $name(self, $($arg: $type),*) -> $result {
            #[inline]
            #[target_feature(enable = $features)]
            fn with_features($($arg: $type),*) -> $result $body
            // SAFETY: the token proves that the CPU has the features.
            unsafe { with_features($($arg),*) }
        }
    )*};
}

/// The method `with_level` of a type that has its level in this field.
macro_rules! level_setter {
    ($($field:ident).+) => {
        /// Sets the SIMD level of later calls, for tests and benchmarks.
        #[cfg(any(test, feature = "__internals"))]
        #[doc(hidden)]
        #[must_use]
        pub fn with_level(mut self, level: crate::arch::SimdLevel) -> Self {
            self.$($field).+ = level;
            self
        }
    };
}
pub(crate) use level_setter;

#[cfg(target_arch = "aarch64")]
#[allow(unsafe_code)]
mod aarch64;
#[cfg(all(test, target_arch = "x86_64", not(miri)))]
#[allow(unsafe_code)]
pub(crate) mod float_environment;
#[cfg(all(
    test,
    feature = "std",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_os = "linux",
    not(miri)
))]
#[allow(unsafe_code)]
pub(crate) mod guard_page;
#[cfg(target_arch = "x86_64")]
pub(crate) mod hash;
#[allow(unsafe_code)]
pub(crate) mod lanes;
#[allow(unsafe_code)]
pub(crate) mod line;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
pub(crate) mod lookup_lanes;
#[allow(unsafe_code)]
pub(crate) mod memory;
pub(crate) mod network;
#[cfg(feature = "verify")]
pub(crate) mod sha256;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
pub(crate) mod x86_64;

#[cfg(target_arch = "aarch64")]
use aarch64::Neon;
#[cfg(target_arch = "x86_64")]
use x86_64::{Avx2, Avx512};

/// A SIMD level supported by this CPU.
///
/// Sets and filters use [`SimdLevel::detect`]. Tests force each of [`SimdLevel::available`] in turn. The level
/// never changes an answer, nor a byte of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SimdLevel(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The baseline of the target.
    Baseline(Baseline),
    /// x86-64 with AVX2, BMI1, BMI2 and LZCNT: Intel since 2013, AMD since 2015.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// All of that and AVX-512 with F, BW, CD, DQ, VL, IFMA, VBMI and VBMI2: Intel servers since 2021, AMD
    /// since 2022.
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
}

/// What decodes in lanes on the baseline. Everything else is scalar code there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Baseline {
    Scalar,
    /// Arm 64 with NEON, which every usual target has.
    #[cfg(target_arch = "aarch64")]
    Neon(Neon),
}

impl SimdLevel {
    /// Scalar Rust for the baseline of the target: runs everywhere.
    pub const SCALAR: Self = Self(Kind::Baseline(Baseline::Scalar));

    /// The highest level of this CPU.
    ///
    /// Without the feature `std` it is the best level that the program was compiled for.
    #[must_use]
    pub fn detect() -> Self {
        // The levels ascend, so the last is the highest.
        Self::available().last().unwrap_or(Self::SCALAR)
    }

    /// All levels of this CPU, in ascending order.
    pub fn available() -> impl Iterator<Item = Self> {
        let portable = [Some(Self::SCALAR)].into_iter();
        #[cfg(target_arch = "x86_64")]
        let portable = portable.chain([
            Avx2::detect().map(|avx2| Self(Kind::Avx2(avx2))),
            Avx512::detect().map(|avx512| Self(Kind::Avx512(avx512))),
        ]);
        #[cfg(target_arch = "aarch64")]
        let portable = portable
            .chain([aarch64::detect().map(|neon| Self(Kind::Baseline(Baseline::Neon(neon))))]);
        portable.flatten()
    }

    /// The kind on which a batch function matches to choose its kernel.
    #[inline]
    pub(crate) fn kind(self) -> Kind {
        self.0
    }

    /// Runs `f` compiled for this level. This helps plain Rust: the compiler benefits from AVX2 and its
    /// companions, but hardly from AVX-512.
    ///
    /// `f` and everything that it calls must be `#[inline(always)]`; otherwise it is compiled for the baseline.
    #[inline(always)]
    pub(crate) fn compiled<R>(self, f: impl FnOnce() -> R) -> R {
        match self.0 {
            Kind::Baseline(_) => f(),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(avx2) => avx2.compiled(f),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512(avx512) => avx512.avx2().compiled(f),
        }
    }

    /// The name of the level in benchmark names and records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.0 {
            Kind::Baseline(Baseline::Scalar) => "portable",
            #[cfg(target_arch = "aarch64")]
            Kind::Baseline(Baseline::Neon(_)) => "neon",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512(_) => "avx512",
        }
    }
}

impl core::fmt::Display for SimdLevel {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn levels_ascend_and_detection_takes_the_last() {
        let levels: Vec<SimdLevel> = SimdLevel::available().collect();
        assert_eq!(levels[0], SimdLevel::SCALAR);
        assert!(levels.is_sorted());
        assert_eq!(levels.last(), Some(&SimdLevel::detect()));
        let mut names: Vec<&str> = levels.iter().map(|level| level.name()).collect();
        names.dedup();
        assert_eq!(names.len(), levels.len());
    }
}
