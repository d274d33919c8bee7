//! Encodes sorted hashes, or sorted values, to the bytes of a filter.
//!
//! One linear pass maps, takes differences and writes codes ([`coder`]). The size is known before the first bit
//! is written, to within a quarter and without reading the set. A filter that does not fit in memory therefore
//! gives an error instead of an abort.

mod coder;
mod piece;
mod stitch;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use crate::arch::SimdLevel;
use crate::arch::memory::prefer_huge_pages;
use crate::error::{BuildError, BuildFault};
use crate::merge::merge_into;
use crate::params::Params;
use coder::{Carry, Coder, LEAST_ROOM, StreamOutput};

pub use piece::Piece;
pub use stitch::stitch;

/// The result of the encoder.
#[derive(Debug)]
pub(crate) struct Encoded {
    /// The filter.
    pub(crate) bytes: Vec<u8>,
    /// N.
    pub(crate) n: u32,
    /// The bit position where the last item ends.
    pub(crate) end: u64,
}

/// Encodes the filter of `hashes`, which must be sorted.
///
/// # Errors
///
/// There are more than 2^32 - 1 hashes, or memory for the bytes cannot be allocated.
pub(crate) fn encode_hashes(
    level: SimdLevel,
    hashes: &[u64],
    params: Params,
) -> Result<Encoded, BuildError> {
    let n = count(hashes.len())?;
    encode(Coder::of_hashes(level, params, params.range(n)), hashes, n)
}

/// The number of merged items that are coded at once. The kernel prefetches hashes this far ahead. While one
/// block is coded, the kept hashes for the next merged block are thus loaded.
const MERGED_BLOCK: usize = 1024;

/// Merges `more` into `kept`, both sorted, and returns the filter of the result.
///
/// # Errors
///
/// As [`encode_hashes`]; also if memory for the hashes cannot be allocated. `kept` is then unchanged.
pub(crate) fn merge_and_encode(
    level: SimdLevel,
    kept: &mut Vec<u64>,
    more: &[u64],
    params: Params,
) -> Result<Encoded, BuildError> {
    let items = kept.len().saturating_add(more.len());
    let n = count(items)?;
    let coder = Coder::of_hashes(level, params, params.range(n));
    let last = kept.last().max(more.last()).map_or(0, |&hash| coder.value_of(hash));
    let mut output = InMemory::for_bits(coder.bits_bound(items, 0, last), n)?;
    let mut carry = Carry::default();
    // The room is sufficient and the hashes are sorted, so errors cannot occur from here on. If one did, it
    // would still be returned.
    let mut pushed = Ok(());
    merge_into(kept, more, MERGED_BLOCK, |block| {
        if pushed.is_ok() {
            pushed = coder.push(&mut carry, block, &mut output);
        }
    })?;
    pushed?;
    let (bytes, end) = output.finish(carry);
    Ok(Encoded { bytes, n, end })
}

/// Encodes the filter of `values`, which must be sorted and below F.
///
/// # Errors
///
/// As [`encode_hashes`]; also if a value is out of order or out of range.
pub(crate) fn encode_values(values: &[u64], params: Params) -> Result<Encoded, BuildError> {
    let n = count(values.len())?;
    let range = params.range(n);
    let mut previous = 0;
    for (item, &value) in (0_u64..).zip(values) {
        if value < previous {
            return Err(BuildError(BuildFault::Unsorted { item }));
        }
        if value >= range {
            return Err(BuildError(BuildFault::ValueOutOfRange { item, value, range }));
        }
        previous = value;
    }
    encode(Coder::of_values(SimdLevel::detect(), params), values, n)
}

/// Returns N, or an error if the format has no room for it.
fn count(len: usize) -> Result<u32, BuildError> {
    let n = len as u64;
    u32::try_from(n).map_err(|_| BuildError(BuildFault::TooManyItems { n }))
}

fn encode(coder: Coder, sorted: &[u64], n: u32) -> Result<Encoded, BuildError> {
    let (bytes, end) = encode_run(coder, sorted, 0, n)?;
    Ok(Encoded { bytes, n, end })
}

/// Encodes a run of the items of a set of `n`, after an item with the value `previous`. Returns the bytes and
/// the number of bits.
fn encode_run(
    coder: Coder,
    sorted: &[u64],
    previous: u64,
    n: u32,
) -> Result<(Vec<u8>, u64), BuildError> {
    let last = sorted.last().map_or(previous, |&item| coder.value_of(item));
    let mut output = InMemory::for_bits(coder.bits_bound(sorted.len(), previous, last), n)?;
    let mut carry = Carry::after(previous);
    coder.push(&mut carry, sorted, &mut output)?;
    Ok(output.finish(carry))
}

/// The number of bytes for `bits` bits of a filter of `n` items, if a vector can hold them.
fn bytes_for(bits: u128, n: u32) -> Result<usize, BuildError> {
    let most = isize::MAX as usize - LEAST_ROOM;
    usize::try_from(bits.div_ceil(8))
        .ok()
        .filter(|&bytes| bytes <= most)
        .ok_or(BuildError(BuildFault::TooManyBits { n, bits }))
}

/// A stream in one vector, whose memory is allocated before the first bit.
struct InMemory {
    /// The stream up to `used`; the rest is room.
    bytes: Vec<u8>,
    used: usize,
}

impl InMemory {
    /// Room for `bits` bits of a filter of `n` items.
    fn for_bits(bits: u128, n: u32) -> Result<Self, BuildError> {
        let room = bytes_for(bits, n)?;
        let mut output = Self { bytes: Vec::new(), used: 0 };
        output.reserve(room.saturating_add(LEAST_ROOM))?;
        Ok(output)
    }

    fn reserve(&mut self, more: usize) -> Result<(), BuildError> {
        self.bytes.try_reserve_exact(more).map_err(|_| {
            let bytes = (self.used as u64).saturating_add(more as u64);
            BuildError(BuildFault::OutOfMemory { bytes })
        })?;
        prefer_huge_pages(&mut self.bytes);
        Ok(())
    }

    /// Returns the bytes, with the last one padded with zero bits, and the number of bits without padding.
    fn finish(mut self, carry: Carry) -> (Vec<u8>, u64) {
        let bits = self.used as u64 * 8 + u64::from(carry.filled);
        // Every store covered the byte of its last bit, so that byte exists.
        self.bytes.truncate(self.used + usize::from(carry.filled > 0));
        if let Some(last) = self.bytes.get_mut(self.used) {
            *last = carry.last_byte();
        }
        (self.bytes, bits)
    }
}

impl StreamOutput for InMemory {
    type Error = BuildError;

    fn room(&mut self) -> Result<&mut [u8], BuildError> {
        /// Room is made in steps, so that the following stores find it in the cache.
        const STEP: usize = 16 * 1024;
        if self.bytes.len() - self.used < LEAST_FREE {
            let capacity = self.bytes.capacity();
            if capacity < self.used + LEAST_ROOM {
                // Never happens with the requested room; correctness does not depend on that.
                self.reserve(capacity.max(STEP))?;
            }
            let len = self.bytes.capacity().min(self.used + STEP);
            self.bytes.resize(len.max(self.bytes.len()), 0);
        }
        Ok(&mut self.bytes[self.used..])
    }

    fn commit(&mut self, bytes: usize) {
        self.used += bytes;
    }
}

/// If less room than this is left, more is made if available: a few groups of the widest kernel.
const LEAST_FREE: usize = 1024;
