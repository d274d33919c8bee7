//! [`Buckets`]: deals incoming hashes to buckets.

use alloc::vec::Vec;

use super::scatter::{Run, Split, room, runs, scatter};
use super::stage::Stage;
use super::{Plan, Work, few, merge_tail};
use crate::arch::SimdLevel;
use crate::arch::memory::zeroed;

/// The number of hashes to deal at a time: they stay in the first-level cache between the hasher and this code.
pub(crate) const BLOCK: usize = 512;

/// Hashes in the buckets of the first pass.
pub(super) struct Buckets {
    pub(super) level: SimdLevel,
    pub(super) plan: Plan,
    slots: Vec<u64>,
    /// The buckets, each of `room` slots.
    runs: Vec<Run>,
    room: usize,
    /// Hashes that found no room in their buckets.
    surplus: Vec<u64>,
    /// The maximum surplus of sufficiently uniform hashes.
    limit: usize,
}

impl Buckets {
    /// Buckets for about `n` hashes of a set that is divided by `plan`. `None` if there are few hashes, or
    /// memory cannot be allocated.
    pub(super) fn new(level: SimdLevel, plan: Plan, n: usize) -> Option<Self> {
        if n < few(level) {
            return None;
        }
        let count = plan.parts[0];
        let room = room(n, count);
        let slots = zeroed(room.checked_mul(count as usize)?)?;
        Some(Self {
            level,
            plan,
            slots,
            runs: runs(count, room).collect(),
            room,
            surplus: Vec::new(),
            limit: n / 8,
        })
    }

    /// Adds `block`. Returns `false` if the hashes are so far from uniform that the general sort should be
    /// used.
    #[must_use]
    pub(super) fn scatter(&mut self, block: &[u64]) -> bool {
        let (slots, runs, surplus) = (&mut self.slots[..], &mut self.runs[..], &mut self.surplus);
        let split = Split { factor: self.plan.parts[0], base: 0 };
        let _ = scatter(slots, runs, split, block, |hash| {
            surplus.push(hash);
            true
        });
        self.surplus.len() <= self.limit
    }

    /// The number of hashes.
    pub(super) fn len(&self) -> usize {
        let len = |run: &Run| run.next + self.room - run.end;
        self.runs.iter().map(len).sum::<usize>() + self.surplus.len()
    }

    /// Returns all hashes unsorted, in the memory of the buckets.
    pub(super) fn into_unsorted(mut self) -> Vec<u64> {
        let mut len = 0;
        for run in &self.runs {
            let hashes = run.end - self.room..run.next;
            let end = len + hashes.len();
            self.slots.copy_within(hashes, len);
            len = end;
        }
        self.slots.truncate(len);
        self.slots.append(&mut self.surplus);
        self.slots
    }

    /// Returns all hashes sorted, in the memory of the buckets.
    pub(super) fn into_sorted(mut self) -> (Vec<u64>, Work) {
        let mut work = Work { dealt: self.len(), general: self.surplus.len() };
        let mut stage = Stage::new(self.level, self.plan, self.room);
        let mut sorted = 0;
        for (bucket, run) in (0..).zip(&self.runs) {
            let hashes = run.end - self.room..run.next;
            let len = hashes.len();
            // The sorted part has no gaps, so it has not reached this bucket yet, and will not exceed the
            // bucket's room.
            if stage.fill(bucket, &[&self.slots[hashes.clone()]], &mut work) {
                stage.drain(&mut self.slots[sorted..run.end], &mut work);
            } else {
                self.slots.copy_within(hashes, sorted);
                self.slots[sorted..sorted + len].sort_unstable();
                work.general += len;
            }
            sorted += len;
        }
        self.surplus.sort_unstable();
        self.slots.resize(sorted + self.surplus.len(), 0);
        merge_tail(&mut self.slots, &self.surplus);
        (self.slots, work)
    }
}
