//! Segments that were coded apart become one stream.
//!
//! A segment starts at the top bit of its first byte, and has its place in the stream wherever the one before
//! it ends. [`Layout`] cuts the stream's bytes among the segments, so that each can be moved to its place
//! by whoever has time, in any order: a segment owns the bytes that begin within it. What it has in a byte
//! that begins before it is at most 7 bits, and is put there last.

use core::ops::Range;

/// A coded segment: bytes, whose last is filled up with zero-bits, and the number of bits without those.
pub(crate) type Segment = (alloc::vec::Vec<u8>, u64);

/// Where segments lie in the stream.
pub(crate) struct Layout {
    /// The bit position where the next segment starts.
    bits: u64,
}

/// The place of one segment.
pub(crate) struct Place {
    /// The bytes of the stream that it owns.
    pub(crate) owned: Range<u64>,
    /// How many of its bits come before those: 0 to 7.
    before: u32,
}

impl Layout {
    pub(crate) fn new() -> Self {
        Self { bits: 0 }
    }

    /// The place of the next segment, of so many bits.
    pub(crate) fn place(&mut self, bits: u64) -> Place {
        let start = self.bits;
        self.bits += bits;
        Place {
            owned: start.div_ceil(8)..self.bits.div_ceil(8),
            before: (start.wrapping_neg() % 8) as u32,
        }
    }

    /// The number of bits of all segments.
    pub(crate) fn bits(&self) -> u64 {
        self.bits
    }
}

impl Place {
    /// Writes what a segment has in the bytes that it owns.
    #[inline(always)]
    pub(crate) fn fill(&self, segment: &[u8], owned: &mut [u8]) {
        if self.before == 0 {
            owned.copy_from_slice(&segment[..owned.len()]);
            return;
        }
        // A byte of the stream takes bits of two bytes of the segment; the last may have no second.
        let shift = self.before;
        if let Some((last, all)) = owned.split_last_mut() {
            for (byte, pair) in all.iter_mut().zip(segment.windows(2)) {
                *byte = pair[0] << shift | pair[1] >> (8 - shift);
            }
            let rest = &segment[all.len()..];
            *last = rest[0] << shift | rest.get(1).map_or(0, |next| next >> (8 - shift));
        }
    }

    /// Adds what it has in the byte before.
    pub(crate) fn join(&self, segment: &[u8], stream: &mut [u8]) {
        if let Some(first) = segment.first()
            && self.before > 0
            && let Ok(owned) = usize::try_from(self.owned.start)
        {
            stream[owned - 1] |= first >> (8 - self.before);
        }
    }
}
