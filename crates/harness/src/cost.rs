//! The limit on the number of bits that matching may decode, for any filter.

use std::fmt::Debug;

use nutfilter::internals::decoded_bits;
use nutfilter::{Filter, IndexedFilter};

/// How often the filter's bits, and the bits of each look-up, may be decoded: see [`Budget::allowed`].
pub const FACTOR: u64 = 5;

/// The limits for one filter.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// The bits of the filter.
    bits: u64,
    /// The bits of one look-up.
    look_up: u64,
}

impl Budget {
    /// For a filter of `n` items in `len` bytes, with an index of this many entries; 0 means no index.
    pub fn new(n: u32, len: usize, entries: usize) -> Self {
        let (n, len) = (u64::from(n.max(1)), len as u64);
        let step = match entries {
            // The index that a batch builds for itself.
            0 => (n * 64 / len.max(1)).max(64),
            entries => n.div_ceil(entries as u64),
        };
        Self { bits: len * 8, look_up: (2 * step + 64) * (len * 8).div_ceil(n) }
    }

    /// For a filter without an index.
    pub fn of<H>(filter: &Filter<impl AsRef<[u8]>, H>) -> Self {
        Self::new(filter.n(), filter.bytes().len(), 0)
    }

    /// For a filter with its index.
    pub fn of_indexed<H>(indexed: &IndexedFilter<impl AsRef<[u8]>, H>) -> Self {
        let filter = indexed.filter();
        Self::new(filter.n(), filter.bytes().len(), indexed.entries())
    }

    /// The limit for `lookups` look-ups: `FACTOR * (B + lookups * x)`. `B` is the number of bits of the filter.
    /// `x` is the number of bits of two index intervals and of 64 items of average length.
    pub fn allowed(self, lookups: usize) -> u64 {
        FACTOR * (self.bits + lookups as u64 * self.look_up)
    }

    /// The limit for one look-up through an index, which never reads the whole filter.
    pub fn allowed_once(self) -> u64 {
        FACTOR * self.look_up
    }
}

/// Returns the result of `f`.
pub fn within<R>(allowed: u64, context: &dyn Debug, f: impl FnOnce() -> R) -> R {
    let before = decoded_bits();
    let result = f();
    if let (Some(before), Some(after)) = (before, decoded_bits()) {
        let decoded = after - before;
        assert!(decoded <= allowed, "{decoded} bits decoded, {allowed} allowed: {context:?}");
    }
    result
}
