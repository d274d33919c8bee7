//! Queries with many targets: by point look-ups ([`lookup`]), by one pass over both sorted sides ([`merge`]), or
//! by a bitmap of the values ([`bitmap`]). [`plan`] chooses; all give the same answers.

mod bitmap;
mod gaps;
mod lookup;
mod merge_join;
mod plan;
mod point_table;
mod prepared;

use alloc::vec;
use alloc::vec::Vec;
use core::hint::select_unpredictable;

use crate::arch::SimdLevel;
use crate::decode::{Coded, SeekTable};
use crate::error::DecodeError;
use crate::hash::{ItemHash, map_all_at};

pub(crate) use crate::arch::lanes::Point;
use bitmap::Bitmap;
pub(crate) use lookup::{OtherBytes, ValidatedBits};
pub use plan::Strategy;
#[cfg(test)]
pub(crate) use point_table::most_items;
pub(crate) use point_table::{PointTable, step};
pub(crate) use prepared::Prepared;

/// The number of items that are hashed before they are mapped.
pub(crate) const HASHED: usize = 512;

/// The mapped values of `items`, in the given order.
pub(crate) fn map_items<H: ItemHash, I: AsRef<[u8]>>(
    level: SimdLevel,
    hasher: &H,
    items: &[I],
    range: u64,
) -> Vec<u64> {
    let mut values = vec![0; items.len()];
    // The hashes are still in the first-level cache when they are mapped.
    for (items, values) in items.chunks(HASHED).zip(values.chunks_mut(HASHED)) {
        hasher.hash_items_at(level, items, values);
        map_all_at(level, values, range);
    }
    values
}

impl Coded<'_> {
    pub(crate) fn range(&self) -> u64 {
        self.params.range(self.n)
    }

    /// The strategy for so many targets that come in batches, in a filter that is decoded once: points or a bitmap.
    pub(crate) fn planned_in_batches(&self, targets: usize) -> Strategy {
        plan::in_batches(self.level, (self.n, self.bytes.len()), targets)
    }

    /// The strategy for so many targets. `whole` means that the whole filter must
    /// be decoded.
    pub(crate) fn planned(&self, targets: usize, whole: bool) -> Strategy {
        let size = (self.n, self.bytes.len());
        plan::unindexed(self.level, size, targets, whole)
    }

    /// Returns for each target whether it is in the set.
    ///
    /// # Errors
    ///
    /// As [`decode::validate`].
    pub(crate) fn matches(
        &self,
        strategy: Strategy,
        targets: &[u64],
        whole: bool,
    ) -> Result<Vec<bool>, DecodeError> {
        let mut found = vec![false; targets.len()];
        let mark = |place: usize| {
            found[place] = true;
            true
        };
        let strategy = strategy.unless_open(|| self.planned(targets.len(), whole));
        if strategy == Strategy::Merge && plan::is_dense(self.n, targets.len()) {
            let mut bitmap = Bitmap::default();
            bitmap.load_near(self, targets)?;
            bitmap.visit_matches(self.level, targets, mark);
        } else {
            self.visit_matches(strategy, targets, whole, mark)?;
        }
        Ok(found)
    }

    /// Calls `visit` with the index in `targets` of each member of the set, in any order, until `visit` returns
    /// false. If `whole` is set, the filter is validated completely. Otherwise only as much of it is read as
    /// necessary.
    ///
    /// # Errors
    ///
    /// As [`decode::validate`]. Indexes that were visited before the error are meaningless.
    pub(crate) fn visit_matches(
        &self,
        strategy: Strategy,
        targets: &[u64],
        whole: bool,
        visit: impl FnMut(usize) -> bool,
    ) -> Result<(), DecodeError> {
        let strategy = strategy.unless_open(|| self.planned(targets.len(), whole));
        if strategy == Strategy::Merge {
            return merge_join::visit_matches(self, targets, whole, visit);
        }
        let mut prepared = Prepared::default();
        prepared.load(self, strategy)?;
        prepared.visit_matches(self, targets, visit);
        Ok(())
    }
}

/// The number of parallel searches.
const SEARCHES: usize = 256;

/// The start point for each of `targets`: the last one of `table` with only smaller items before it, or the
/// answer if a gap gives it.
fn locate_all(level: SimdLevel, table: &SeekTable, targets: &[u64], points: &mut [Point]) {
    let mut places = [0_u32; SEARCHES];
    let batches = targets.chunks(SEARCHES);
    for (targets, points) in batches.zip(points.chunks_mut(SEARCHES)) {
        let places = &mut places[..targets.len()];
        places.fill(0);
        level.compiled(
            #[inline(always)]
            || search(&table.bases, |i| targets[i], places),
        );
        for (point, &place) in points.iter_mut().zip(&*places) {
            let place = place as usize;
            *point = table.point(place);
        }
    }
    if !table.gaps.is_empty() {
        for (point, &target) in points.iter_mut().zip(targets) {
            *point = gaps::beyond(&table.gaps, target, *point);
        }
    }
}

/// Moves each of `places`, all 0, to the last of the sorted `bases` that is smaller than its target, if there
/// is one.
///
/// The binary searches have no branches, and all advance one step at a time. The loads of one search do not
/// wait for those of another.
#[inline(always)]
fn search(bases: &[u64], target: impl Fn(usize) -> u64, places: &mut [u32]) {
    let Some(last) = bases.len().checked_sub(1) else {
        return;
    };
    let mut size = bases.len();
    while size > 1 {
        let half = size / 2;
        for (i, place) in places.iter_mut().enumerate() {
            // Of the `size` bases from here on, the result is the first, or the last smaller one. The minimum
            // only saves a bounds check: none of these is beyond the last.
            let middle = (*place as usize + half).min(last);
            *place += select_unpredictable(bases[middle] < target(i), half as u32, 0);
        }
        size -= half;
    }
}
