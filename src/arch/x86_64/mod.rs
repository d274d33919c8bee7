//! Kernels for x86-64, one folder per instruction set.
//!
//! [`Avx2`] and [`Avx512`] are tokens that only detection makes. Holding one proves that the CPU has the
//! features that its kernels are compiled for. Each kernel is a `#[target_feature]` function over slices and
//! arrays, private to its file. A method of the token is the only way to call it.

/// Whether all features are supported: detected at run time with `std`, at compile time without.
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

pub(crate) mod avx2;
pub(crate) mod avx512;
#[cfg(feature = "verify")]
pub(crate) mod sha256_kernels;
pub(crate) mod side_by_side;
pub(crate) mod targets;

/// This CPU has AVX2, BMI1, BMI2, LZCNT and POPCNT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Avx2(());

/// This CPU has the features of [`Avx2`], and AVX-512 with F, BW, CD, DQ, VL, IFMA, VBMI and VBMI2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Avx512 {
    /// Whether a gather is faster than eight loads.
    gathers: bool,
}

/// The upper half of a product: maps a hash to a range.
#[inline(always)]
pub(crate) fn map_to_range(hash: u64, range: u64) -> u64 {
    ((u128::from(hash) * u128::from(range)) >> 64) as u64
}

/// The state of a stream of codes between two groups of an encoder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CodeStream {
    /// The value of the previous item.
    pub(crate) previous: u64,
    /// The last bits of the stream, at the low end: at least those of the incomplete byte.
    pub(crate) bits: u64,
    /// The bit position in the room.
    pub(crate) position: u64,
}

/// The maximum length of the two codes of a lane of an encoder. With up to 7 earlier bits in the first byte, they
/// fit in a word.
const LANE_BITS: u32 = 57;

/// The maximum number of bytes that a group of so many lanes adds to the stream. Its last store starts in the byte
/// of bit `7 + (lanes - 1) * LANE_BITS` at most, and therefore ends at most one byte further.
const fn group_bytes(lanes: usize) -> usize {
    (lanes * LANE_BITS as usize).div_ceil(8)
}

/// How many items ahead an encoder prefetches the hashes: 8 KiB. With this distance, hashes from DRAM cost 0.2 ns per
/// item instead of 1.2 (AVX-512).
const AHEAD: usize = 1024;

/// Whether the encoders support `p` remainder bits: 3 to 24. Two codes must have at least 8 bits, because a store
/// holds bits of only one earlier lane, and must leave room for quotients.
pub(crate) fn encodes_pairs(p: u32) -> bool {
    (3..=24).contains(&p)
}

/// Prefetches the cache line of the item `ahead` items after the first. Reads nothing and never blocks. It pays
/// for sets larger than the caches: see encode and hash in docs/benchmarking.md.
#[inline(always)]
pub(crate) fn prefetch<T>(items: &[T], ahead: usize) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    let address = items.as_ptr().wrapping_add(ahead).cast();
    // SAFETY: every x86-64 CPU has the instruction, and any address is allowed.
    #[allow(unused_unsafe)]
    unsafe {
        _mm_prefetch::<_MM_HINT_T0>(address)
    };
}

/// How many bytes ahead hashing prefetches records. Anything from 2 to 24 KiB takes the same time, and so does
/// prefetching to the second-level cache.
const RECORDS_AHEAD: usize = 4096;

/// Prefetches `bytes` bytes, [`RECORDS_AHEAD`] of `group`. The CPU's own prefetching is too slow for the hashes.
#[inline(always)]
pub(crate) fn ask_ahead(group: &[u8], bytes: usize) {
    for line in (0..bytes).step_by(64) {
        prefetch(group, RECORDS_AHEAD + line);
    }
}

/// Whether this is an AMD CPU. On a Zen 5, decoding with AVX-512 takes a sixth less time with loads than with gathers.
fn is_amd() -> bool {
    use core::arch::x86_64::__cpuid;
    use core::sync::atomic::{AtomicU8, Ordering};
    /// 0, or 1 plus the answer: a hypervisor makes the instruction slow.
    static KNOWN: AtomicU8 = AtomicU8::new(0);
    let known = KNOWN.load(Ordering::Relaxed);
    if known != 0 {
        return known == 2;
    }
    // SAFETY: every x86-64 CPU has the instruction and the leaf.
    #[allow(unused_unsafe)]
    let vendor = unsafe { __cpuid(0) };
    let is_amd = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes)
        == [*b"Auth", *b"enti", *b"cAMD"];
    KNOWN.store(1 + u8::from(is_amd), Ordering::Relaxed);
    is_amd
}

impl Avx2 {
    /// The token, if this CPU has the features.
    pub(crate) fn detect() -> Option<Self> {
        all_detected!("avx2", "bmi1", "bmi2", "lzcnt", "popcnt").then_some(Self(()))
    }

    /// Runs `f` compiled with these features, for plain Rust that becomes faster with them.
    ///
    /// `f` and everything that it calls must be `#[inline(always)]`. Functions that are not inlined are compiled
    /// for the baseline, and still correct.
    #[inline(always)]
    pub(crate) fn compiled<R>(self, f: impl FnOnce() -> R) -> R {
        #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
        fn with_features<R>(f: impl FnOnce() -> R) -> R {
            f()
        }
        // SAFETY: the token says that the CPU has the features.
        unsafe { with_features(f) }
    }
}

impl Avx512 {
    /// The token, if this CPU has the features.
    pub(crate) fn detect() -> Option<Self> {
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
        (avx512 && Avx2::detect().is_some()).then(|| Self { gathers: !is_amd() })
    }

    /// [`Avx2::compiled`] with these features.
    #[inline(always)]
    pub(crate) fn compiled<R>(self, f: impl FnOnce() -> R) -> R {
        #[target_feature(
            enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512ifma,bmi1,bmi2,lzcnt,popcnt"
        )]
        fn with_features<R>(f: impl FnOnce() -> R) -> R {
            f()
        }
        // SAFETY: the token proves that the CPU has the features.
        unsafe { with_features(f) }
    }

    /// Whether this is not a CPU of AMD.
    #[cfg(feature = "verify")]
    pub(crate) fn is_intel(self) -> bool {
        self.gathers
    }

    /// A CPU with AVX-512 has AVX2.
    pub(crate) fn avx2(self) -> Avx2 {
        Avx2(())
    }
}
