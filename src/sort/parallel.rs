//! Sorts with the threads of the current rayon pool (feature `parallel`).
//!
//! Each thread deals a part of the set to its own buckets. A bucket of the set then consists of one piece per
//! thread. Its place in the result follows from the lengths of the buckets before it. Each idle thread sorts
//! the next bucket, and the result does not depend on which thread does.

use alloc::vec::Vec;
use core::mem;
use core::ops::Range;
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

use super::buckets::Buckets;
use super::stage::Stage;
use super::{Collector, Plan, State, Work, is_ordered, merge_tail};
use crate::arch::SimdLevel;
use crate::arch::memory::zeroed;

/// Smaller sets are sorted before a second thread has started.
const LARGE: usize = 1 << 17;

/// More threads would divide the set into parts too small for their buckets.
const MOST_THREADS: usize = 64;

/// The number of threads that sort a set of `n`.
fn threads(n: usize) -> usize {
    if n < LARGE {
        return 1;
    }
    rayon::current_num_threads().min(MOST_THREADS)
}

/// [`super::sort_hashes`] on the threads of the current pool, if the set is large.
pub(crate) fn sort_hashes(level: SimdLevel, mut hashes: Vec<u64>) -> Vec<u64> {
    if threads(hashes.len()) == 1 {
        return super::sort_hashes(level, hashes);
    }
    if is_ordered(&mut hashes) {
        return hashes;
    }
    let dealt = deal(level, hashes.len(), |range, collector| {
        for block in hashes[range].chunks(super::BLOCK) {
            collector.push(block);
        }
    });
    match dealt {
        // All hashes are in the buckets, so their vector can take the result.
        Ok((plan, parts)) => sort_parts(level, plan, &parts, hashes).0,
        Err(_) => general(hashes),
    }
}

/// [`super::sort_made`] on the threads of the current pool, if the set is large. `hash` is called from any
/// thread. Allocates twice as much.
pub(crate) fn sort_made(
    level: SimdLevel,
    n: usize,
    hash: impl Fn(usize, &mut [u64]) + Sync,
) -> Vec<u64> {
    if threads(n) == 1 {
        return super::sort_made(level, n, hash);
    }
    let dealt = deal(level, n, |range, collector| collector.make(range, &hash));
    let states = match dealt {
        Ok((plan, parts)) => match zeroed(n) {
            Some(out) => return sort_parts(level, plan, &parts, out).0,
            None => parts.into_iter().map(State::Dealt).collect(),
        },
        Err(states) => states,
    };
    let mut all = Vec::new();
    for state in states {
        let mut hashes = match state {
            State::Dealt(buckets) => buckets.into_unsorted(),
            State::Plain(hashes) => hashes,
        };
        if all.is_empty() {
            all = hashes;
        } else {
            all.append(&mut hashes);
        }
    }
    general(all)
}

/// [`Collector::into_sorted`] on the threads of the current pool, if the set is large.
pub(crate) fn into_sorted(collector: Collector) -> Vec<u64> {
    match collector.state {
        State::Dealt(buckets) if threads(buckets.len()) > 1 => match zeroed(buckets.len()) {
            Some(out) => sort_parts(buckets.level, buckets.plan, &[buckets], out).0,
            None => buckets.into_sorted().0,
        },
        State::Dealt(buckets) => buckets.into_sorted().0,
        State::Plain(hashes) => sort_hashes(collector.level, hashes),
    }
}

fn general(mut hashes: Vec<u64>) -> Vec<u64> {
    hashes.par_sort_unstable();
    hashes
}

/// Deals a set of `n` in parts. If a part could not be dealt, returns what became of the parts.
fn deal(
    level: SimdLevel,
    n: usize,
    fill: impl Fn(Range<usize>, &mut Collector) + Sync,
) -> Result<(Plan, Vec<Buckets>), Vec<State>> {
    let plan = Plan::new(n);
    let part = n.div_ceil(threads(n));
    let states: Vec<State> = (0..n)
        .step_by(part)
        .collect::<Vec<usize>>()
        .into_par_iter()
        .map(|start| {
            let range = start..n.min(start + part);
            let mut collector = Collector::of_part(level, plan, range.len());
            fill(range, &mut collector);
            collector.state
        })
        .collect();
    if states.iter().any(|state| matches!(state, State::Plain(_))) {
        return Err(states);
    }
    let dealt = |state| match state {
        State::Dealt(buckets) => Some(buckets),
        State::Plain(_) => None,
    };
    Ok((plan, states.into_iter().filter_map(dealt).collect()))
}

/// Sorts the dealt parts into `out`, which has their total length.
fn sort_parts(
    level: SimdLevel,
    plan: Plan,
    parts: &[Buckets],
    mut out: Vec<u64>,
) -> (Vec<u64>, Work) {
    let buckets = plan.parts[0] as usize;
    let pieces = |bucket| -> Vec<&[u64]> { parts.iter().map(|part| part.bucket(bucket)).collect() };
    let len = |pieces: &[&[u64]]| pieces.iter().map(|piece| piece.len()).sum::<usize>();
    let most = (0..buckets).map(|bucket| len(&pieces(bucket))).max();
    let most = most.unwrap_or(0);

    let mut surplus = Vec::new();
    for part in parts {
        surplus.extend_from_slice(part.surplus());
    }
    surplus.par_sort_unstable();
    let total = Mutex::new(Work {
        dealt: out.len(),
        general: surplus.len(),
    });

    let in_buckets = out.len() - surplus.len();
    let mut rest = &mut out[..in_buckets];
    let mut next = 0;
    let queue = Mutex::new(move || {
        let pieces = pieces((next < buckets).then_some(next)?);
        let (bucket, out) = (next as u64, rest.split_off_mut(..len(&pieces))?);
        next += 1;
        Some((bucket, pieces, out))
    });
    (0..threads(in_buckets)).into_par_iter().for_each(|_| {
        let mut stage = None;
        let mut work = Work::default();
        loop {
            let taken = (*queue.lock().unwrap_or_else(PoisonError::into_inner))();
            let Some((bucket, pieces, out)) = taken else {
                break;
            };
            stage
                .get_or_insert_with(|| Stage::new(level, plan, most))
                .sort(bucket, &pieces, out, &mut work);
        }
        let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
        total.dealt += work.dealt;
        total.general += work.general;
    });
    merge_tail(&mut out, &surplus);
    let total = mem::take(&mut *total.lock().unwrap_or_else(PoisonError::into_inner));
    (out, total)
}
