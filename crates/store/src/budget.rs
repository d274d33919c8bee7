//! Divides a memory limit: lengths of runs and buffers, and the number of runs read at once.
//!
//! The collected hashes and the buffers of a merge are never held at the same time. Each may use seven eighths
//! of the limit. The rest is for small items: bytes on their way to a file, hashing batches, the list of runs.

use crate::run::{BLOCK_BYTES, BLOCK_ITEMS};

/// The maximum number of open runs. It is below the default limit of every system (macOS: 256 files). From 768
/// MiB on, it is enough for 2^32 - 1 items in one pass.
const MAX_FAN_IN: usize = 128;

/// A shorter read is dominated by its fixed cost.
const WORTH_READING: usize = 32 << 10;

/// A longer read gains nothing, and would evict the data that is being merged.
const MAX_CHUNK: usize = 256 << 10;

/// The maximum number of hashes in a window. Together with its twin, it takes half of a second-level cache of 1
/// MiB.
const MAX_WINDOW: usize = 32 << 10;

/// The bytes per hash during a sort: the hash, and up to 10 bytes of the sort.
const SORT_BYTES: usize = 18;

/// The division of a limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// The number of hashes that are sorted in memory and written as one run.
    pub(crate) run_items: usize,
    /// The number of bytes read or written at once.
    pub(crate) chunk: usize,
    /// The number of runs that are merged at once.
    pub(crate) fan_in: usize,
    /// The number of hashes that are merged at once.
    pub(crate) window: usize,
    /// The bytes for read-ahead of all runs.
    read_ahead: usize,
}

impl Budget {
    pub(crate) fn of(memory: usize) -> Self {
        let chunk = (memory / 16).clamp(BLOCK_BYTES, MAX_CHUNK) / BLOCK_BYTES * BLOCK_BYTES;
        let read_ahead = memory / 8 * 3;
        Self {
            run_items: (memory / 8 * 7 / SORT_BYTES).max(BLOCK_ITEMS),
            chunk,
            fan_in: (read_ahead / WORTH_READING).clamp(4, MAX_FAN_IN),
            // Two lists of 8 bytes per hash, plus half of that if runs are many and short.
            window: (memory / 128).clamp(64, MAX_WINDOW),
            read_ahead,
        }
    }

    /// The number of hashes to hold per run. At least two blocks, because a reach has to end within one.
    pub(crate) fn read_ahead_items(&self, runs: usize) -> usize {
        let blocks = self.read_ahead / runs.max(1) / (BLOCK_ITEMS * 8);
        // More than a few chunks per run gains nothing.
        blocks.clamp(2, 8 * MAX_CHUNK / BLOCK_BYTES) * BLOCK_ITEMS
    }
}

#[cfg(test)]
mod tests {
    use super::super::MIN_MEMORY;
    use super::*;

    /// The maximum memory that a merge allocates.
    fn merge_bytes(memory: usize) -> usize {
        let budget = Budget::of(memory);
        let runs = budget.fan_in;
        // Sums of square roots are largest if all are equal.
        let each = budget.window / runs;
        let reaches = budget.window + runs * (3 * each.isqrt() + 17);
        let coder = 64 << 10;
        budget.read_ahead_items(runs) * runs * 8 + 2 * reaches * 8 + 2 * budget.chunk + coder
    }

    #[test]
    fn limits_hold_and_the_largest_set_takes_few_passes() {
        for shift in 0..20 {
            let memory = MIN_MEMORY << shift;
            let budget = Budget::of(memory);
            assert!(
                budget.run_items * SORT_BYTES + 2 * budget.chunk <= memory,
                "{memory}"
            );
            assert!(merge_bytes(memory) <= memory, "{memory}: {budget:?}");
            assert!(budget.read_ahead_items(budget.fan_in) > 2 * BLOCK_ITEMS - 1);
        }
        let runs = |memory| (u32::MAX as usize).div_ceil(Budget::of(memory).run_items);
        assert!(runs(2 << 30) <= 42);
        assert!(runs(768 << 20) <= MAX_FAN_IN);
    }
}
