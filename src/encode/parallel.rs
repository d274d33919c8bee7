//! Large sets on all threads: the bits of each segment are counted, then each is coded where it belongs.
//!
//! A segment is a run of the sorted hashes, coded given the value before its first. Segment k starts at bit
//! `starts[k]`, in the middle of a byte as a rule, and has the whole bytes from there to the byte in which the
//! next one starts; the first of them begins with zeros in place of its neighbour's bits. The bits that it has in the
//! next one's first byte stay in its carry, and are or-ed in when all is coded. To count first reads the hashes
//! twice. Segments coded into vectors of their own, and moved to their bits by a shift, read them once, take
//! the memory of the filter twice, and were as slow on two threads.

use alloc::vec;
use alloc::vec::Vec;

use rayon::prelude::*;

use super::coder::{Carry, Coder, Output};
use super::{LEAST_FREE, bytes_for};
use crate::error::{BuildError, BuildFault};

/// Below this many items a segment is not worth the hand-over: it is coded in 50 microseconds.
const LEAST_SEGMENT: usize = 1 << 16;

/// Segments for each thread: some, so that a thread that starts late or runs slowly holds nobody up.
const SEGMENTS_PER_THREAD: usize = 4;

/// Fewer threads than this are no faster than one: counting takes nearly as long as the vector kernel takes to
/// code (1.2 against 0.6 ns an item with two threads at a million items, on a machine that had other work).
const LEAST_THREADS: usize = 4;

/// How many items a segment should have; nothing where one thread does it all: a small set or a small pool.
pub(super) fn segment_items(n: usize) -> Option<usize> {
    // First: to ask for the number of threads starts the global pool, if there is no other.
    if n < 2 * LEAST_SEGMENT {
        return None;
    }
    let threads = rayon::current_num_threads();
    if threads < LEAST_THREADS {
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

/// So many zero bytes, in memory that the system makes when it is first touched: on all threads.
fn zeros(bytes: usize) -> Result<Vec<u8>, BuildError> {
    // `vec!` alone can have zeros untouched, and ends the program where it cannot; so ask first.
    Vec::<u8>::new().try_reserve_exact(bytes).map_err(|_| {
        let bytes = bytes as u64;
        BuildError(BuildFault::OutOfMemory { bytes })
    })?;
    Ok(vec![0; bytes])
}

/// Bytes that a stream fills to the last one. What the stores near the end need beyond it is found in a
/// buffer beside.
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

    /// Whether the stores that come may reach beyond the end.
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
