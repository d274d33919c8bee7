//! [`Stage`]: sorts a bucket by dealing it to smaller ones or, at the last step, to a leaf.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::leaf::Leaf;
use super::scatter::{Run, Split, room, runs, scatter};
use super::{Plan, Work};
use crate::arch::SimdLevel;

/// A pass and those below it, with their memory, which is reused for every bucket.
pub(super) enum Stage {
    Pass(Box<Pass>),
    Leaf { level: SimdLevel, leaf: Box<Leaf> },
}

pub(super) struct Pass {
    /// The total number of runs over all buckets, and the number per bucket.
    factor: u64,
    parts: u64,
    /// The current bucket.
    bucket: u64,
    slots: Vec<u64>,
    runs: Vec<Run>,
    room: usize,
    next: Stage,
}

impl Stage {
    /// A stage that sorts buckets of up to `len` hashes made by the first pass.
    pub(super) fn new(level: SimdLevel, plan: Plan, len: usize) -> Self {
        Self::after(level, plan.parts[0], &plan.parts[1..], len)
    }

    fn after(level: SimdLevel, buckets: u64, parts: &[u64], len: usize) -> Self {
        let Some((&parts, rest)) = parts.split_first().filter(|(parts, _)| **parts > 1) else {
            return Self::Leaf { level, leaf: Box::new(Leaf::new(buckets)) };
        };
        let room = room(len, parts);
        let factor = buckets * parts;
        Self::Pass(Box::new(Pass {
            factor,
            parts,
            bucket: 0,
            slots: vec![0; parts as usize * room],
            runs: Vec::with_capacity(parts as usize),
            room,
            next: Self::after(level, factor, rest, room),
        }))
    }

    /// Sorts the hashes of a bucket, given in pieces, to the start of `out`, and returns their number. `out`
    /// must have room for them; the part after them may be overwritten.
    pub(super) fn sort(
        &mut self,
        bucket: u64,
        pieces: &[&[u64]],
        out: &mut [u64],
        work: &mut Work,
    ) -> usize {
        if self.fill(bucket, pieces, work) {
            return self.drain(out, work);
        }
        let mut len = 0;
        for piece in pieces {
            out[len..len + piece.len()].copy_from_slice(piece);
            len += piece.len();
        }
        out[..len].sort_unstable();
        work.general += len;
        len
    }

    /// Takes the hashes of a bucket, given in pieces. Returns `false`, and keeps nothing, if they are not
    /// uniform.
    #[must_use]
    pub(super) fn fill(&mut self, bucket: u64, pieces: &[&[u64]], work: &mut Work) -> bool {
        work.dealt += pieces.iter().map(|piece| piece.len()).sum::<usize>();
        match self {
            Self::Pass(pass) => pass.fill(bucket, pieces),
            Self::Leaf { level, leaf } => leaf.fill(*level, bucket, pieces),
        }
    }

    /// Writes the taken hashes, sorted, to the start of `out`, and returns their number. `out` must have room
    /// for them; the part after them may be overwritten.
    pub(super) fn drain(&mut self, out: &mut [u64], work: &mut Work) -> usize {
        match self {
            Self::Pass(pass) => pass.drain(out, work),
            Self::Leaf { level, leaf, .. } => leaf.drain(*level, out),
        }
    }
}

impl Pass {
    fn fill(&mut self, bucket: u64, pieces: &[&[u64]]) -> bool {
        self.bucket = bucket;
        self.runs.clear();
        self.runs.extend(runs(self.parts, self.room));
        let (slots, runs) = (&mut self.slots[..], &mut self.runs[..]);
        let split = Split { factor: self.factor, base: bucket * self.parts };
        pieces.iter().all(|piece| scatter(slots, runs, split, piece, |_| false))
    }

    fn drain(&mut self, out: &mut [u64], work: &mut Work) -> usize {
        let mut sorted = 0;
        for (part, run) in (self.bucket * self.parts..).zip(&self.runs) {
            let hashes = &self.slots[run.end - self.room..run.next];
            sorted += self.next.sort(part, &[hashes], &mut out[sorted..], work);
        }
        sorted
    }
}
