//! Many targets against one filter: both sides sorted, one pass over each.

use alloc::vec;
use alloc::vec::Vec;

use crate::arch::Level;
use crate::decode::{BLOCK, Scanner};
use crate::error::DecodeError;
use crate::hash::{ItemHash, map_all_to_range};

/// How many items are hashed, and then mapped.
const BATCH: usize = 512;

/// The mapped values of `items`, in their order.
pub(crate) fn map_items<H: ItemHash, I: AsRef<[u8]>>(
    level: Level,
    hasher: &H,
    items: &[I],
    range: u64,
) -> Vec<u64> {
    let mut values = vec![0; items.len()];
    // What was hashed is still in the first cache when it is mapped.
    for (items, values) in items.chunks(BATCH).zip(values.chunks_mut(BATCH)) {
        hasher.hash_items(level, items, values);
        map_all_to_range(level, values, range);
    }
    values
}

/// A mapped value to look for, and its position in the caller's order.
pub(crate) type Target = (u64, usize);

/// `values` in the order of the filter. Equal ones are all kept: every position gets its answer.
pub(crate) fn sort_targets(values: &[u64]) -> Vec<Target> {
    let mut sorted: Vec<Target> = values.iter().copied().zip(0..).collect();
    sorted.sort_unstable();
    sorted
}

/// Calls `visit` with the position of each of the sorted `targets` that is among the values, until it
/// gives false or the targets are used up; then the rest of the filter is not decoded.
///
/// # Errors
///
/// Those of the scan.
pub(crate) fn visit_matches(
    scanner: &mut Scanner<'_>,
    targets: &[Target],
    mut visit: impl FnMut(usize) -> bool,
) -> Result<(), DecodeError> {
    let mut rest = targets;
    let mut block = [0; BLOCK];
    while let Some(&(next_target, _)) = rest.first() {
        let filled = scanner.fill(&mut block)?;
        let Some(&last) = block[..filled].last() else {
            break;
        };
        if last < next_target {
            continue;
        }
        let mut values = &block[..filled];
        while let Some(&(target, position)) = rest.first() {
            values = &values[first_at_least(values, target)..];
            let Some(&value) = values.first() else {
                break;
            };
            rest = &rest[1..];
            if value == target && !visit(position) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The index of the first of the sorted `values` that is not below `target`.
///
/// Steps of 1, 2, 4, ... and then a binary search: one comparison where targets are dense, and few where
/// a block holds one target.
pub(crate) fn first_at_least(values: &[u64], target: u64) -> usize {
    let mut step = 1;
    while step < values.len() && values[step] < target {
        step *= 2;
    }
    // All before step / 2 + 1 were seen to be smaller; `step` was not, or is beyond the end.
    let from = if step == 1 { 0 } else { step / 2 + 1 };
    let to = values.len().min(step + 1);
    from + values[from..to].partition_point(|&value| value < target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_galloping_search_equals_the_plain_one() {
        for len in 0..40 {
            for equal in 1..4 {
                let values: Vec<u64> = (0..len).map(|i| i / equal * 2 + 1).collect();
                for target in 0..2 * len + 4 {
                    assert_eq!(
                        first_at_least(&values, target),
                        values.partition_point(|&value| value < target),
                        "{target} in {values:?}"
                    );
                }
            }
        }
    }
}
