//! Large sets on all threads: a segment each, then every segment to its place.

use alloc::vec;
use alloc::vec::Vec;

use rayon::prelude::*;

use super::coder::Coder;
use super::encode_run;
use super::stitch::{Layout, Segment};
use crate::error::{BuildError, BuildFault};

/// Below this many items a segment is not worth the hand-over: it is coded in 50 microseconds.
const LEAST_SEGMENT: usize = 1 << 16;

/// Segments for each thread: some, so that a thread that starts late or runs slowly holds nobody up.
const SEGMENTS_PER_THREAD: usize = 4;

/// How many items a segment should have; nothing where one thread does it all: a small set, or a pool of one.
pub(super) fn segment_items(n: usize) -> Option<usize> {
    let threads = rayon::current_num_threads();
    if threads == 1 || n < 2 * LEAST_SEGMENT {
        return None;
    }
    Some(n.div_ceil(threads * SEGMENTS_PER_THREAD).max(LEAST_SEGMENT))
}

/// The codes of all items of a set, coded in segments of `segment_items`: bytes, and the number of bits.
pub(super) fn encode(
    coder: Coder,
    sorted: &[u64],
    n: u32,
    segment_items: usize,
) -> Result<(Vec<u8>, u64), BuildError> {
    let segments: Vec<Segment> = sorted
        .par_chunks(segment_items)
        .enumerate()
        .map(|(k, items)| {
            let before = (k * segment_items).checked_sub(1).map(|item| sorted[item]);
            encode_run(
                coder,
                items,
                before.map_or(0, |item| coder.value_of(item)),
                n,
            )
        })
        .collect::<Result<_, _>>()?;

    let mut layout = Layout::new();
    let places: Vec<_> = segments
        .iter()
        .map(|(_, bits)| layout.place(*bits))
        .collect();
    let mut stream = zeros(layout.bits().div_ceil(8))?;
    let mut rest = stream.as_mut_slice();
    let mut parts = Vec::with_capacity(places.len());
    for place in &places {
        // All lengths are those of vectors that exist, so that they fit.
        let (owned, after) = rest.split_at_mut((place.owned.end - place.owned.start) as usize);
        parts.push(owned);
        rest = after;
    }
    segments
        .par_iter()
        .zip(&places)
        .zip(parts)
        .for_each(|(((segment, _), place), owned)| place.fill(segment, owned));
    for ((segment, _), place) in segments.iter().zip(&places) {
        place.join(segment, &mut stream);
    }
    Ok((stream, layout.bits()))
}

/// So many zero bytes, in memory that the system makes when it is first touched: on all threads.
fn zeros(bytes: u64) -> Result<Vec<u8>, BuildError> {
    let error = BuildError(BuildFault::OutOfMemory { bytes });
    let len = usize::try_from(bytes).map_err(|_| error)?;
    // `vec!` alone can have zeros untouched, and ends the program where it cannot; so ask first.
    Vec::<u8>::new().try_reserve_exact(len).map_err(|_| error)?;
    Ok(vec![0; len])
}
