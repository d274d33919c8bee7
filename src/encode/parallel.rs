//! Encodes large sets on all threads: counts the bits of each segment, then encodes each one at its place.
//!
//! A segment is a run of the sorted hashes, encoded with the value before its first hash. Segment k starts at
//! bit `starts[k]`, usually in the middle of a byte. It owns the whole bytes from there to the byte in which
//! the next segment starts. Its first byte begins with zeros in place of its neighbour's bits. Its bits in the
//! next segment's first byte stay in its carry, and are combined by OR at the end. Counting first means reading
//! the hashes twice. The alternative is to encode segments into separate vectors and shift them into place.
//! That reads them once, needs the memory of the filter twice, and was equally slow on two threads.

use alloc::vec;
use alloc::vec::Vec;

use rayon::prelude::*;

use super::coder::{Carry, Coder, Output};
use super::{LEAST_FREE, bytes_for};
use crate::error::{BuildError, BuildFault};

/// Smaller segments are not worth the hand-over: this many items are encoded in 50 microseconds.
const LEAST_SEGMENT: usize = 1 << 16;

/// Several segments per thread, so that a thread that starts late or runs slowly does not delay the others.
const SEGMENTS_PER_THREAD: usize = 4;

/// Fewer threads are no faster than one, because counting takes nearly as long as the vector kernel takes to
/// encode. (With two threads 1.2 against 0.6 ns per item at a million items, on a machine with other load.)
const LEAST_THREADS: usize = 4;

/// The number of items per segment. `None` if one thread does all the work: for a small set or a small pool.
pub(super) fn segment_items(n: usize) -> Option<usize> {
    // Checked first: querying the number of threads starts the global pool if there is no other.
    if n < 2 * LEAST_SEGMENT {
        return None;
    }
    let threads = rayon::current_num_threads();
    if threads < LEAST_THREADS {
        return None;
    }
    Some(n.div_ceil(threads * SEGMENTS_PER_THREAD).max(LEAST_SEGMENT))
}

/// Encodes all items of a set in segments of `segment_items`. Returns the bytes and the number of bits.
pub(super) fn encode(
    coder: Coder,
    sorted: &[u64],
    n: u32,
    segment_items: usize,
) -> Result<(Vec<u8>, u64), BuildError> {
    let before = |k: usize| match (k * segment_items).checked_sub(1) {
        Some(item) => coder.value_of(sorted[item]),
        None => 0,
    };
    let bits: Vec<u128> = sorted
        .par_chunks(segment_items)
        .enumerate()
        .map(|(k, items)| coder.bits(items, before(k)))
        .collect();
    let all_bits = bits.iter().sum();
    let mut stream = zeros(bytes_for(all_bits, n)?)?;

    let mut segments = Vec::with_capacity(bits.len());
    let mut rest = stream.as_mut_slice();
    let mut start = 0;
    for bits in bits {
        let end = start + bits;
        // The vector exists, so its lengths fit.
        let (bytes, after) = rest.split_at_mut((end / 8 - start / 8) as usize);
        segments.push((bytes, (start % 8) as u32, end));
        rest = after;
        start = end;
    }
    let ends: Vec<(u128, Carry)> = segments
        .into_par_iter()
        .zip(sorted.par_chunks(segment_items))
        .enumerate()
        .map(|(k, ((bytes, filled, end), items))| {
            let mut carry = Carry {
                filled,
                ..Carry::after(before(k))
            };
            coder.push(&mut carry, items, &mut Exact::new(bytes))?;
            Ok((end, carry))
        })
        .collect::<Result<_, BuildError>>()?;
    for (end, carry) in ends {
        if carry.filled > 0 {
            stream[(end / 8) as usize] |= carry.last_byte();
        }
    }
    Ok((stream, all_bits as u64))
}

/// Allocates zeroed bytes, whose pages are first touched by all threads.
fn zeros(bytes: usize) -> Result<Vec<u8>, BuildError> {
    // `vec!` gets untouched zeros, but aborts if it cannot allocate; so reserve first.
    Vec::<u8>::new().try_reserve_exact(bytes).map_err(|_| {
        let bytes = bytes as u64;
        BuildError(BuildFault::OutOfMemory { bytes })
    })?;
    Ok(vec![0; bytes])
}

/// Bytes that a stream fills completely. Stores near the end that need more room use a separate buffer.
struct Exact<'a> {
    bytes: &'a mut [u8],
    used: usize,
    beside: Vec<u8>,
}

impl<'a> Exact<'a> {
    fn new(bytes: &'a mut [u8]) -> Self {
        Self {
            bytes,
            used: 0,
            beside: vec![0; LEAST_FREE],
        }
    }

    /// Returns whether the next stores may extend beyond the end.
    fn is_near_end(&self) -> bool {
        self.bytes.len() - self.used < LEAST_FREE
    }
}

impl Output for Exact<'_> {
    type Error = BuildError;

    fn room(&mut self) -> Result<&mut [u8], BuildError> {
        if self.is_near_end() {
            return Ok(&mut self.beside);
        }
        Ok(&mut self.bytes[self.used..])
    }

    fn advance(&mut self, bytes: usize) {
        if self.is_near_end() {
            self.bytes[self.used..][..bytes].copy_from_slice(&self.beside[..bytes]);
        }
        self.used += bytes;
    }
}
