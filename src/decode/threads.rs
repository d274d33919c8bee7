//! Decodes one filter on all threads: each thread finds its own start.
//!
//! This applies the method of lanes to the whole filter, which is cut into one range per thread. Each thread
//! starts to read before its cut. It decodes, in its own lanes, from the first boundary at or after its cut to
//! the first one at or after the next cut. A range is valid if it starts where the true items before it end.
//! Otherwise it is decoded again from there.

use alloc::vec::Vec;
use core::ops::ControlFlow;

use rayon::prelude::*;

use super::lanes::{Decoder, Odd};
use super::sync::{Coded, Driver, Place};
use super::visitors::Check;
use crate::arch::lanes::Simd;
use crate::cost;
use crate::error::DecodeError;

/// From this many items on threads are worth it: a range then takes at least a hundred microseconds.
pub(super) const MIN_ITEMS: u32 = 1 << 20;

/// A decoded range with its start and end. The place at its end is relative to its start.
struct Range {
    start: u64,
    end: Place,
}

/// [`validate`](super::validate) on all threads.
///
/// # Errors
///
/// Errors of the serial scan.
pub(super) fn validate<const N: usize>(
    coded: Coded<'_>,
    simd: impl Simd<N> + Sync,
    lane_items: u64,
) -> Result<u64, DecodeError> {
    let threads = rayon::current_num_threads().max(1) as u64;
    let Some(decoder) = coded.decoder(simd).filter(|_| threads > 1) else {
        return super::validate(coded);
    };
    let bits = coded.lanes_end();
    let cut = |range: u64| bits / threads * range;
    let decode = |range: u64| -> Option<Range> {
        let start = find_start(&coded, &decoder, cut(range))?;
        let place = Place {
            position: start,
            ..Place::START
        };
        let mut driver = Driver::new(coded, place);
        // An error here can come from a wrong start; decoding the range again detects true errors.
        let flow = driver
            .to(&decoder, cut(range + 1), lane_items, &mut Check)
            .ok()?;
        flow.is_continue().then_some(Range {
            start,
            end: driver.place,
        })
    };
    let ranges: Vec<(Option<Range>, u64)> = (0..threads)
        .into_par_iter()
        .map(|range| cost::counted(|| decode(range)))
        .collect();

    let mut driver = Driver::new(coded, Place::START);
    for (number, (range, bits)) in (0..).zip(ranges) {
        cost::count(|| bits);
        if range.is_some_and(|range| driver.accept(range.start, range.end)) {
            continue;
        }
        // This visitor never breaks.
        let _ = driver.to(&decoder, cut(number + 1), lane_items, &mut Check)?;
    }
    match driver.rest::<N>(&mut Check)? {
        ControlFlow::Continue(end) => Ok(end),
        ControlFlow::Break(()) => coded.scanner(Place::START).finish(),
    }
}

/// Guesses the first boundary at or after `cut`. The reading starts far enough before it that a wrong guess is
/// rare.
fn find_start<S>(coded: &Coded<'_>, decoder: &Decoder<'_, S>, cut: u64) -> Option<u64> {
    let before = coded.bits_of(8 * coded.warm_up());
    let mut position = cut.saturating_sub(before);
    while position < cut {
        position = match decoder.one(position) {
            Ok((_, next)) => next,
            Err(Odd) => return None,
        };
    }
    Some(position)
}
