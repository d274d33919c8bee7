//! The values of a filter with a bitmap of their high bits.
//!
//! A target is tested with one load: where the set has no value with its high bits, it is absent. Only one target in
//! about twenty needs a search, over the few values that share a word of the bitmap. Targets need no order.

use alloc::vec::Vec;
use core::ops::ControlFlow;

use super::search;
use crate::decode::{self, Coded};
use crate::error::DecodeError;

/// The bitmap has between this many bits per item and twice as many. Half as many cost more searches, and twice as
/// many more cache misses.
const BITS_PER_ITEM: u32 = 16;

/// The number of targets that are tested before the rest of them is searched.
const BATCH: usize = 512;

/// The values of one filter. Keeps its memory for the next filter.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bitmap {
    /// The number of low bits of a value that the bitmap ignores, and the other bits that it does not.
    shift: u32,
    mask: u64,
    /// One bit for each bucket of values.
    words: Vec<u64>,
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
        self.clear(coded.range(), shift(coded.params.m()));
        let (lanes, values) = (&mut self.lanes, &mut self.values);
        values.clear();
        decode::append_values(lanes, values, *coded)?;
        coded.level.compiled(
            #[inline(always)]
            || self.fill(),
        );
        Ok(())
    }

    /// [`Bitmap::load`] for these targets alone: keeps the values that share a bit of a bitmap with one of them.
    ///
    /// A bitmap of the targets needs no order either, and decoding goes through it from front to back.
    ///
    /// # Errors
    ///
    /// As [`decode::validate`].
    pub(crate) fn load_near(
        &mut self,
        coded: &Coded<'_>,
        targets: &[u64],
    ) -> Result<(), DecodeError> {
        self.clear(coded.range(), shift(coded.range() / targets.len() as u64));
        let (shift, words, values) = (self.shift, &mut self.words[..], &mut self.values);
        for target in targets {
            let bucket = target >> shift;
            // Targets beyond the range are in no filter.
            if let Some(word) = words.get_mut((bucket / 64) as usize) {
                *word |= 1 << (bucket % 64);
            }
        }
        let mut kept = 0;
        let decoded = decode::visit(*coded, |block| {
            if values.len() - kept < block.len() {
                values.resize(2 * kept + block.len(), 0);
            }
            let free = &mut values[kept..];
            kept += coded.level.compiled(
                #[inline(always)]
                || {
                    let mut kept = 0;
                    for &value in block {
                        let bucket = value >> shift;
                        free[kept] = value;
                        kept += (words[(bucket / 64) as usize] >> (bucket % 64) & 1) as usize;
                    }
                    kept
                },
            );
            ControlFlow::Continue(())
        });
        decoded.map(drop)?;
        values.truncate(kept);
        // Each of them shares its high bits with a target, so only their low bits tell them from the others.
        self.shift = 0;
        self.mask = (words.len() as u64 * 32 + 1).next_power_of_two() - 1;
        words.fill(0);
        self.fill();
        Ok(())
    }

    /// Makes an empty bitmap for values below `range`.
    fn clear(&mut self, range: u64, shift: u32) {
        (self.shift, self.mask) = (shift, u64::MAX);
        self.words.clear();
        self.words.resize(((range >> shift) / 64 + 1) as usize, 0);
    }

    /// Sets the bits of all values.
    #[inline(always)]
    fn fill(&mut self) {
        let (shift, mask, words) = (self.shift, self.mask, &mut self.words[..]);
        let mut set = |value: u64| {
            let bucket = value >> shift & mask;
            words[(bucket / 64) as usize] |= 1 << (bucket % 64);
        };
        // Neighbours often share a word, and wait for each other. Values from four places rarely do.
        let (first, second) = self.values.split_at(self.values.len() / 2);
        let ((a, b), (c, d)) = (first.split_at(first.len() / 2), second.split_at(second.len() / 2));
        for (((&a, &b), &c), &d) in a.iter().zip(b).zip(c).zip(d) {
            set(a);
            set(b);
            set(c);
            set(d);
        }
        for rest in [b, c, d] {
            rest[a.len()..].iter().copied().for_each(&mut set);
        }
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
            let mut found = [0; BATCH];
            let count = level.compiled(
                #[inline(always)]
                || self.test(targets, &mut places, &mut found),
            );
            for (&place, &found) in places[..count].iter().zip(&found) {
                let place = usize::from(place);
                let near = self.values.iter().skip(found as usize).take(2);
                if near.copied().any(|value| value == targets[place]) && !visit(start + place) {
                    return false;
                }
            }
        }
        true
    }

    /// Writes the indexes of the targets whose bit is set to `places`, and for each of them where it was searched to
    /// `found`, which is 0: it is this value, the next one, or absent. Returns their number.
    #[inline(always)]
    fn test(&self, targets: &[u64], places: &mut [u16; BATCH], found: &mut [u32; BATCH]) -> usize {
        let mut count = 0;
        for (place, target) in (0..).zip(targets) {
            let bucket = target >> self.shift & self.mask;
            let word = self.words.get((bucket / 64) as usize);
            // The mask has no effect on the index; it saves the bounds check.
            places[count % BATCH] = place;
            count += (word.copied().unwrap_or_default() >> (bucket % 64) & 1) as usize;
        }
        let target = |i: usize| targets[usize::from(places[i])];
        search(&self.values, target, &mut found[..count]);
        count
    }
}

/// The number of low bits that a bitmap ignores, given the average gap.
fn shift(gap: u64) -> u32 {
    (gap / u64::from(BITS_PER_ITEM)).checked_ilog2().unwrap_or(0)
}
