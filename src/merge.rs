//! Merges two sorted lists block by block, so that the consumer reads each block while it is in cache.
//!
//! A mint's set is large and the new part is small. The new hashes are merged into the kept ones in place, from
//! front to back. Hashes that a block will overwrite first move to a queue. The queue holds as many hashes as
//! were inserted so far, plus one block while a block is made. A second vector would need 8 more bytes per
//! item, which the system would have to clear. With the queue, the block copies stay in cache.
//!
//! Lists of similar sizes are merged into a new vector, item by item and without branches.

use alloc::vec::Vec;

use crate::error::{BuildError, BuildFault};

/// Items per block if nothing reads the blocks: enough for streaming copies.
pub(crate) const LARGE_BLOCK: usize = 2048;

/// The new hashes are merged in place if there are at least this many kept ones for each. With fewer, a new
/// hash would interrupt most of the steps that copy kept ones.
const SPARSE: usize = 8;

/// The number of kept hashes that are compared with a new one, and copied, at once.
const STEP: usize = 16;

/// Reserves room for `more` hashes. If the vector has to move anyway, it also reserves an eighth for later.
///
/// # Errors
///
/// Memory cannot be allocated.
pub(crate) fn reserve(hashes: &mut Vec<u64>, more: usize) -> Result<(), BuildError> {
    if hashes.capacity() - hashes.len() >= more {
        return Ok(());
    }
    let items = hashes.len() as u64 + more as u64;
    hashes
        .try_reserve_exact(more.saturating_add(hashes.len() / 8))
        .or_else(|_| hashes.try_reserve_exact(more))
        .map_err(|_| BuildError(BuildFault::NoRoomForHashes { items }))
}

/// Merges `more` into `kept`, both sorted. Passes every block of the result to `each`, in order and with at
/// most `block` items.
///
/// # Errors
///
/// Memory cannot be allocated; then nothing has changed.
pub(crate) fn merge_into(
    kept: &mut Vec<u64>,
    more: &[u64],
    block: usize,
    each: impl FnMut(&[u64]),
) -> Result<(), BuildError> {
    if more.len() <= kept.len() / SPARSE {
        reserve(kept, more.len())?;
        let mut queue = Vec::new();
        reserve(&mut queue, queue_items(more.len(), block))?;
        in_place(kept, more, queue, block, each);
    } else {
        let mut merged = Vec::new();
        let items = (kept.len() as u64).saturating_add(more.len() as u64);
        merged
            .try_reserve_exact(kept.len().saturating_add(more.len()))
            .map_err(|_| BuildError(BuildFault::NoRoomForHashes { items }))?;
        side_by_side(kept, more, &mut merged, block, each);
        *kept = merged;
    }
    Ok(())
}

/// The maximum contents of the queue, doubled. The queue then moves to the front of its buffer only once per as
/// many items as it holds.
fn queue_items(more: usize, block: usize) -> usize {
    2 * (more + block)
}

fn in_place(
    kept: &mut Vec<u64>,
    mut more: &[u64],
    mut queue: Vec<u64>,
    block: usize,
    mut each: impl FnMut(&[u64]),
) {
    let old_items = kept.len();
    kept.resize(old_items + more.len(), 0);
    // The start of the queue.
    let mut front = 0;
    let mut start = 0;
    while start < kept.len() {
        let end = kept.len().min(start + block);
        let moving = &kept[start.min(old_items)..end.min(old_items)];
        if queue.len() + moving.len() > queue.capacity() {
            queue.drain(..front);
            front = 0;
        }
        queue.extend_from_slice(moving);
        let merged = &mut kept[start..end];
        let (old_used, more_used) = merge_sparse(&queue[front..], more, merged);
        front += old_used;
        more = &more[more_used..];
        each(merged);
        start = end;
    }
}

/// Fills `block` with the smallest items of both lists, which must have enough. Returns how many came from
/// each. For few items of `more` among many of `kept`.
fn merge_sparse(kept: &[u64], more: &[u64], block: &mut [u64]) -> (usize, usize) {
    let (mut kept_used, mut more_used, mut filled) = (0, 0, 0);
    while filled < block.len() {
        let Some(&next) = more.get(more_used) else {
            let left = block.len() - filled;
            block[filled..].copy_from_slice(&kept[kept_used..][..left]);
            return (kept_used + left, more_used);
        };
        if let Some(step) = kept[kept_used..].first_chunk::<STEP>()
            && let Some(place) = block[filled..].first_chunk_mut::<STEP>()
        {
            *place = *step;
            if step[STEP - 1] <= next {
                kept_used += STEP;
                filled += STEP;
            } else {
                // Hashes after the new one were copied too early and are copied again.
                let before: usize = step.iter().map(|&hash| usize::from(hash <= next)).sum();
                place[before] = next;
                kept_used += before;
                filled += before + 1;
                more_used += 1;
            }
        } else {
            match kept.get(kept_used) {
                Some(&hash) if hash <= next => {
                    block[filled] = hash;
                    kept_used += 1;
                }
                _ => {
                    block[filled] = next;
                    more_used += 1;
                }
            }
            filled += 1;
        }
    }
    (kept_used, more_used)
}

fn side_by_side(
    a: &[u64],
    b: &[u64],
    merged: &mut Vec<u64>,
    block: usize,
    mut each: impl FnMut(&[u64]),
) {
    let (mut a_next, mut b_next) = (0, 0);
    loop {
        let start = merged.len();
        // The order is random and cannot be predicted, so select without a branch and advance by the
        // comparison's bit.
        while let (Some(&left), Some(&right)) = (a.get(a_next), b.get(b_next))
            && merged.len() < start + block
        {
            let take_right = right < left;
            merged.push(if take_right { right } else { left });
            b_next += usize::from(take_right);
            a_next += usize::from(!take_right);
        }
        if merged.len() == start {
            break;
        }
        each(&merged[start..]);
    }
    for rest in [&a[a_next..], &b[b_next..]] {
        for part in rest.chunks(block) {
            merged.extend_from_slice(part);
            each(part);
        }
    }
}
