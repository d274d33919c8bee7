//! One pass over the filter and the targets, both sorted.

use alloc::vec::Vec;
use core::ops::ControlFlow;

use super::Coded;
use crate::decode;
use crate::error::DecodeError;

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
    let inside = || {
        targets
            .iter()
            .enumerate()
            .filter(|&(_, &target)| target < range)
    };
    if range.leading_zeros() >= place_bits {
        // The packed words have the order of the targets. Sorting words takes a third of the time of sorting
        // pairs.
        let packed = inside().map(|(place, &target)| target << place_bits | place as u64);
        let mut sorted: Vec<u64> = packed.collect();
        sorted.sort_unstable();
        let places = (1_u64 << place_bits) - 1;
        let unpack = |key: u64| (key >> place_bits, (key & places) as usize);
        merge(coded, &sorted, unpack, whole, &mut visit)
    } else {
        let mut sorted: Vec<(u64, usize)> =
            inside().map(|(place, &target)| (target, place)).collect();
        sorted.sort_unstable();
        merge(coded, &sorted, |pair| pair, whole, &mut visit)
    }
}

/// The pass. `unpack` returns a target and its index.
fn merge<T: Copy>(
    coded: &Coded<'_>,
    sorted: &[T],
    unpack: impl Fn(T) -> (u64, usize),
    whole: bool,
    visit: &mut impl FnMut(usize) -> bool,
) -> Result<(), DecodeError> {
    let mut rest = sorted;
    let used_up = |rest: &[T]| match rest.is_empty() && !whole {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    if used_up(rest).is_break() {
        return Ok(());
    }
    let (level, bytes, n, params) = (coded.level, coded.bytes, coded.n, coded.params);
    let visited = decode::visit(level, bytes, n, params, |block| {
        let mut values = block;
        let last = values.last().copied().unwrap_or_default();
        while let Some(&first) = rest.first() {
            let (target, place) = unpack(first);
            if last < target {
                break;
            }
            values = &values[first_at_least(values, target)..];
            rest = &rest[1..];
            if values.first() == Some(&target) && !visit(place) {
                rest = &[];
            }
        }
        used_up(rest)
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

    #[test]
    fn galloping_search_equals_linear_search() {
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
