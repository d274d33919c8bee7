//! What a limit on memory becomes: lengths of runs, of buffers, and the number of runs read at once.
//!
//! Two things are never held at the same time: the hashes that are being gathered, and the buffers of a
//! merge. Each may take seven eighths of the limit; the rest is for what is small (the bytes on their way to
//! a file, hashing batches, the list of runs).

use super::run::{BLOCK_BYTES, BLOCK_ITEMS};

/// Runs that are open at once, at most: below what any system allows by default (macOS: 256 files), and
/// enough for 2^32 - 1 items in one pass from 768 MiB on.
const MAX_FAN_IN: usize = 128;

/// A read shorter than this costs more to begin than to do.
const WORTH_READING: usize = 32 << 10;

/// A read longer than this gains nothing, and would evict what is being merged.
const MAX_CHUNK: usize = 256 << 10;

/// Hashes in a window, at most: with its twin, half of a second-level cache of 1 MiB.
const MAX_WINDOW: usize = 32 << 10;

/// A hash that is being sorted: its place, and up to 10 bytes of the sort's.
const SORT_BYTES: usize = 18;

/// How a limit is spent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    /// Hashes that are sorted in memory and written as one run.
    pub(super) run_items: usize,
    /// Bytes read or written at once.
    pub(super) chunk: usize,
    /// Runs that are merged at once.
    pub(super) fan_in: usize,
    /// Hashes that are merged at once.
    pub(super) window: usize,
    /// Bytes for what is read ahead of all runs.
    read_ahead: usize,
}

impl Budget {
    pub(super) fn of(memory: usize) -> Self {
        let chunk = (memory / 16).clamp(BLOCK_BYTES, MAX_CHUNK) / BLOCK_BYTES * BLOCK_BYTES;
        let read_ahead = memory / 8 * 3;
        Self {
            run_items: (memory / 8 * 7 / SORT_BYTES).max(BLOCK_ITEMS),
            chunk,
            fan_in: (read_ahead / WORTH_READING).clamp(4, MAX_FAN_IN),
            // Two lists of 8 bytes a hash, and half as much again where runs are many and short.
            window: (memory / 128).clamp(64, MAX_WINDOW),
            read_ahead,
        }
    }

    /// Hashes to hold of each of `runs` runs: two blocks at least, as a reach has to end within one.
    pub(super) fn read_ahead_items(&self, runs: usize) -> usize {
        let blocks = self.read_ahead / runs.max(1) / (BLOCK_ITEMS * 8);
        // More than a few chunks of a run gains nothing.
        blocks.clamp(2, 8 * MAX_CHUNK / BLOCK_BYTES) * BLOCK_ITEMS
    }
}

#[cfg(test)]
mod tests {
    use super::super::MIN_MEMORY;
    use super::*;

    /// What a merge allocates, at most.
    fn merge_bytes(memory: usize) -> usize {
        let budget = Budget::of(memory);
        let runs = budget.fan_in;
        // Sums of square roots are largest where all are equal.
        let each = budget.window / runs;
        let reaches = budget.window + runs * (3 * each.isqrt() + 17);
        let coder = 64 << 10;
        budget.read_ahead_items(runs) * runs * 8 + 2 * reaches * 8 + 2 * budget.chunk + coder
    }

    #[test]
    fn every_limit_is_kept_and_four_thousand_million_items_take_few_passes() {
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
