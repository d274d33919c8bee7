//! One pass over the filter and the targets, both sorted.

use alloc::vec::Vec;
use core::ops::ControlFlow;

use crate::decode::{self, Coded};
use crate::error::DecodeError;
use crate::sort::sort_hashes;

/// Calls `visit` with the index of each of `targets` that is among the values, until `visit` returns false. If
/// `whole` is set, decodes the filter to its end in any case.
///
/// # Errors
///
/// As [`decode::validate`].
pub(super) fn visit_matches(
    coded: &Coded<'_>,
    targets: &[u64],
    whole: bool,
    mut visit: impl FnMut(usize) -> bool,
) -> Result<(), DecodeError> {
    let range = coded.range();
    let place_bits = usize::BITS - targets.len().leading_zeros();
    let inside = || targets.iter().enumerate().filter(|&(_, &target)| target < range);
    // At least 2^place_bits if the range leaves as many bits.
    let spread = u64::MAX / range.max(1);
    if range.leading_zeros() >= place_bits {
        // These words have the order of the targets and are spread over all words, as the sort needs it.
        let packed = inside().map(|(place, &target)| target * spread + place as u64);
        let sorted = sort_hashes(coded.level, packed.collect());
        let inverse = u64::MAX / spread;
        let unpack = |word: u64| {
            // The quotient or one less, without a division.
            let target = ((u128::from(word) * u128::from(inverse)) >> 64) as u64;
            let place = word - target * spread;
            let less = u64::from(place >= spread);
            (target + less, (place - less * spread) as usize)
        };
        merge(coded, sorted.into_iter().map(unpack), whole, &mut visit)
    } else {
        let mut sorted: Vec<(u64, usize)> =
            inside().map(|(place, &target)| (target, place)).collect();
        sorted.sort_unstable();
        merge(coded, sorted.into_iter(), whole, &mut visit)
    }
}

/// The pass, with the sorted targets and the index of each.
fn merge(
    coded: &Coded<'_>,
    mut targets: impl Iterator<Item = (u64, usize)>,
    whole: bool,
    visit: &mut impl FnMut(usize) -> bool,
) -> Result<(), DecodeError> {
    let mut next = targets.next();
    if next.is_none() && !whole {
        return Ok(());
    }
    let visited = decode::visit(*coded, |block| {
        let mut values = block;
        let last = values.last().copied().unwrap_or_default();
        while let Some((target, place)) = next
            && target <= last
        {
            values = &values[first_at_least(values, target)..];
            next = targets.next();
            if values.first() == Some(&target) && !visit(place) {
                next = None;
            }
        }
        match next.is_none() && !whole {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    visited.map(drop)
}

/// The index of the first of the sorted `values` that is not below `target`.
///
/// Steps of 1, 2, 4, ... and then a binary search. This takes one comparison if targets are dense, and few if a
/// block has only one target.
pub(super) fn first_at_least(values: &[u64], target: u64) -> usize {
    let mut step = 1;
    while step < values.len() && values[step] < target {
        step *= 2;
    }
    // Every item before step / 2 + 1 is smaller; the one at `step` is not, or is beyond the end.
    let from = if step == 1 { 0 } else { step / 2 + 1 };
    let to = values.len().min(step + 1);
    from + values[from..to].partition_point(|&value| value < target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Params, SortedHashes};

    /// Targets are packed with their places into words, as long as both fit.
    #[test]
    fn places_fit_beside_targets_of_the_largest_ranges() {
        let params = Params::new(32, u64::from(u32::MAX)).unwrap();
        let set = SortedHashes::from_items((0..60_000_u32).map(u32::to_le_bytes));
        let filter = set.encode(params).unwrap();
        let values: Vec<u64> = filter.values().collect();
        for count in [32_767, 32_768, 40_000, 60_000, 65_535, 65_536, 65_600, 131_071, 131_072] {
            let targets: Vec<u64> = values.iter().rev().cycle().take(count).copied().collect();
            let mut found = 0;
            let visit = |place: usize| {
                assert!(place < count);
                found += 1;
                true
            };
            let coded =
                Coded { level: filter.level(), bytes: filter.bytes(), n: filter.n(), params };
            visit_matches(&coded, &targets, false, visit).unwrap();
            assert_eq!(found, count);
        }
    }
}
