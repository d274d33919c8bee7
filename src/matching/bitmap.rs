//! The values of a filter with a bitmap of their high bits.
//!
//! A target is tested with one load: where the set has no value with its high bits, it is absent. Only one target in
//! about twenty needs a search, over the few values that share a word of the bitmap. Targets need no order.

use alloc::vec::Vec;
use core::hint::select_unpredictable;
use core::ops::ControlFlow;

use super::{Coded, merge::first_at_least};
use crate::decode;
use crate::error::DecodeError;
use crate::params::Params;

/// The bitmap has between this many bits per item and twice as many. Half as many cost more searches, and twice as
/// many more cache misses.
const BITS_PER_ITEM: u32 = 16;

/// The number of targets that are tested before the rest of them is searched.
const BATCH: usize = 512;

/// The values of one filter. Keeps its memory for the next filter.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bitmap {
    /// The number of low bits of a value that the bitmap ignores.
    shift: u32,
    /// One bit for each `2^shift` values of the range.
    words: Vec<u64>,
    /// For each word that is not zero, the index in `values` of its first value. The others are meaningless.
    firsts: Vec<u32>,
    /// All values, in order.
    values: Vec<u64>,
    /// The memory of the decoder.
    lanes: Vec<u64>,
}

impl Bitmap {
    /// Decodes and validates a filter, and replaces the values by its values.
    ///
    /// # Errors
    ///
    /// As [`decode::validate`]. The values are then meaningless.
    pub(crate) fn load(&mut self, coded: &Coded<'_>) -> Result<(), DecodeError> {
        let Coded {
            level,
            bytes,
            n,
            params,
        } = *coded;
        self.shift = shift(params);
        let words = (params.range(n) >> self.shift) / 64 + 1;
        self.words.clear();
        self.words.resize(words as usize, 0);
        self.firsts.resize(words as usize, 0);
        self.values.clear();
        let mut lanes = core::mem::take(&mut self.lanes);
        let visited = decode::visit_using(&mut lanes, level, bytes, n, params, |values| {
            level.compiled(
                #[inline(always)]
                || self.append(values),
            );
            ControlFlow::Continue(())
        });
        self.lanes = lanes;
        visited.map(drop)
    }

    /// Adds values that follow those that are there.
    #[inline(always)]
    fn append(&mut self, values: &[u64]) {
        let shift = self.shift;
        let words = &mut self.words[..];
        // Of equal length, so that one check of an index is enough.
        let firsts = &mut self.firsts[..words.len()];
        // No word has the number before the first value.
        let (mut last, mut word, mut first) = (usize::MAX, 0, 0);
        if let Some(value) = self.values.last() {
            last = (value >> shift) as usize / 64;
            (word, first) = (words[last], firsts[last]);
        }
        for (index, value) in (self.values.len() as u32..).zip(values) {
            let bucket = value >> shift;
            let at = bucket as usize / 64;
            // Without branches: whether two values share a word is a matter of chance.
            word = select_unpredictable(at == last, word, 0) | 1 << (bucket % 64);
            first = select_unpredictable(at == last, first, index);
            words[at] = word;
            firsts[at] = first;
            last = at;
        }
        self.values.extend_from_slice(values);
    }

    /// Calls `visit` with the index in `targets` of each value of the set, in order, until `visit` returns false.
    /// Returns whether it never did.
    pub(crate) fn visit_matches(
        &self,
        level: crate::arch::SimdLevel,
        targets: &[u64],
        mut visit: impl FnMut(usize) -> bool,
    ) -> bool {
        let mut places = [0; BATCH];
        for (start, targets) in (0..).step_by(BATCH).zip(targets.chunks(BATCH)) {
            let count = level.compiled(
                #[inline(always)]
                || self.test(targets, &mut places),
            );
            for &place in &places[..count] {
                let place = usize::from(place);
                if self.contains(targets[place]) && !visit(start + place) {
                    return false;
                }
            }
        }
        true
    }

    /// Writes the indexes of the targets whose bit is set to `places`, and returns their number.
    #[inline(always)]
    fn test(&self, targets: &[u64], places: &mut [u16; BATCH]) -> usize {
        let mut count = 0;
        for (place, target) in (0..).zip(targets) {
            let bucket = target >> self.shift;
            let word = self.words.get((bucket / 64) as usize);
            // The mask has no effect on the index; it saves the bounds check.
            places[count % BATCH] = place;
            count += (word.copied().unwrap_or_default() >> (bucket % 64) & 1) as usize;
        }
        count
    }

    /// Returns whether a target whose bit is set is in the set.
    fn contains(&self, target: u64) -> bool {
        let word = (target >> self.shift) as usize / 64;
        let first = self.firsts.get(word).copied().unwrap_or_default() as usize;
        let values = self.values.get(first..).unwrap_or_default();
        values.get(first_at_least(values, target)) == Some(&target)
    }
}

/// The number of low bits that the bitmap ignores: gaps are M on average.
fn shift(params: Params) -> u32 {
    (params.m() / u64::from(BITS_PER_ITEM))
        .checked_ilog2()
        .unwrap_or(0)
}
