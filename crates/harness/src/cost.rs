//! How many bits matching may decode, whatever the filter is.

use std::fmt::Debug;

use nutfilter::{Filter, IndexedFilter, SeekIndex, decoded_bits};

/// How many times the filter's bits, and the bits of each look-up, may be decoded: see [`Budget::allowed`].
pub const FACTOR: u64 = 5;

/// What one filter allows.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// The bits of the filter.
    bits: u64,
    /// The bits of a look-up.
    look_up: u64,
}

impl Budget {
    /// For a filter of `n` items in `len` bytes, through an index of this many entries; 0 where there is none.
    #[must_use]
    pub fn new(n: u32, len: usize, entries: usize) -> Self {
        let (n, len) = (u64::from(n.max(1)), len as u64);
        let step = match entries {
            // What a batch makes for itself.
            0 => (n * 64 / len.max(1)).max(64),
            entries => n.div_ceil(entries as u64),
        };
        Self {
            bits: len * 8,
            look_up: (2 * step + 64) * (len * 8).div_ceil(n),
        }
    }

    /// For a filter without an index.
    #[must_use]
    pub fn of<H>(filter: &Filter<'_, H>) -> Self {
        Self::new(filter.n(), filter.bytes().len(), 0)
    }

    /// For a filter with this index.
    #[must_use]
    pub fn of_indexed<H>(indexed: &IndexedFilter<'_, H>, index: &SeekIndex) -> Self {
        let filter = indexed.filter();
        Self::new(filter.n(), filter.bytes().len(), index.len())
    }

    /// For `lookups` look-ups: `FACTOR * (B + lookups * x)`, where B are the bits of the filter and x those of
    /// twice a step and 64 items of average length.
    #[must_use]
    pub fn allowed(self, lookups: usize) -> u64 {
        FACTOR * (self.bits + lookups as u64 * self.look_up)
    }

    /// For one look-up through an index, which never reads the whole filter.
    #[must_use]
    pub fn allowed_once(self) -> u64 {
        FACTOR * self.look_up
    }
}

/// What `f` gives.
///
/// # Panics
///
/// Where it decodes more than `allowed` bits. Builds without debug assertions do not count.
pub fn within<R>(allowed: u64, context: &dyn Debug, f: impl FnOnce() -> R) -> R {
    let before = decoded_bits();
    let result = f();
    if let (Some(before), Some(after)) = (before, decoded_bits()) {
        let decoded = after - before;
        assert!(
            decoded <= allowed,
            "{decoded} bits decoded, {allowed} allowed: {context:?}"
        );
    }
    result
}
