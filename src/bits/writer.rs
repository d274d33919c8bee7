//! [`BitWriter`]: collects codes at the top of a word and stores the word's whole bytes with every write.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;

use super::MAX_BITS;

/// Appends bits to a byte vector, most significant first.
///
/// ```
/// use nutfilter::internals::BitWriter;
///
/// let mut writer = BitWriter::new();
/// writer.write_bits(5, 3);
/// writer.write_unary(4);
/// writer.write_bits(2, 4);
/// assert_eq!(writer.position(), 12);
/// assert_eq!(writer.into_bytes(), [0xbe, 0x20]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct BitWriter {
    /// Whole bytes of the stream up to `next`; the bytes after that are room for stores.
    bytes: Vec<u8>,
    /// The byte that the top of `pending` belongs to.
    next: usize,
    /// Bits that do not fill a byte yet, at the top, with zeros below them.
    pending: u64,
    /// The number of bits in `pending`: 0 to 7.
    filled: u32,
}

impl BitWriter {
    /// Creates an empty stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty stream with room for `bits` bits. Writing that many bits allocates no more memory.
    ///
    /// # Errors
    ///
    /// The memory cannot be allocated.
    pub fn with_capacity(bits: u64) -> Result<Self, TryReserveError> {
        let mut writer = Self::new();
        // A number that does not fit an address becomes one that every allocator rejects.
        let bytes = usize::try_from(bits.div_ceil(8)).unwrap_or(usize::MAX);
        writer
            .bytes
            .try_reserve_exact(bytes.saturating_add(size_of::<u64>()))?;
        Ok(writer)
    }

    /// The number of bits written.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.next as u64 * 8 + u64::from(self.filled)
    }

    /// Writes the low `count` bits of `value`. The other bits of `value` must be zero.
    ///
    /// # Panics
    ///
    /// If `count` is above [`MAX_BITS`], or `value` has bits above it.
    #[inline]
    pub fn write_bits(&mut self, value: u64, count: u32) {
        assert!(
            count <= MAX_BITS && value >> count == 0,
            "{value} in {count} bits"
        );
        self.append(value, count);
    }

    /// Writes `run` ones and a zero bit.
    ///
    /// # Cost
    ///
    /// Memory and time are proportional to `run`: one bit each.
    pub fn write_unary(&mut self, mut run: u64) {
        while run >= u64::from(MAX_BITS) {
            self.append((1 << MAX_BITS) - 1, MAX_BITS);
            run -= u64::from(MAX_BITS);
        }
        // Fewer than 56 ones, and the zero after them.
        self.append((1 << (run + 1)) - 2, run as u32 + 1);
    }

    /// Returns the stream, with its last byte padded with zero bits.
    #[must_use]
    pub fn into_bytes(mut self) -> Vec<u8> {
        let end = self.next + usize::from(self.filled > 0);
        // Every store covered the byte of its last bit, so these bytes exist.
        self.bytes.truncate(end);
        self.bytes
    }

    /// [`BitWriter::write_bits`] without checks, for callers that know their bounds.
    #[inline(always)]
    pub(crate) fn append(&mut self, value: u64, count: u32) {
        debug_assert!(count <= MAX_BITS && value >> count == 0);
        // The word has at most 7 + 56 bits. The shift is 64 only if both are 0, and then value is 0.
        self.pending |= value.wrapping_shl(64 - self.filled - count);
        self.filled += count;
        if self.bytes.len() < self.next + size_of::<u64>() {
            self.grow();
        }
        if let Some(room) = self.bytes[self.next..].first_chunk_mut() {
            *room = self.pending.to_be_bytes();
        }
        // Without a branch: removes whole bytes and moves the rest to the top. The shift is 0 to 56.
        self.next += (self.filled >> 3) as usize;
        self.pending <<= self.filled & 0x38;
        self.filled &= 7;
    }

    /// Makes room for at least one more word: uses the whole capacity, or doubles it.
    #[cold]
    fn grow(&mut self) {
        let needed = self.next + size_of::<u64>();
        if needed > self.bytes.capacity() {
            self.bytes.reserve(needed.max(64));
        }
        // Room is made in steps, so that the following store finds it in the cache.
        let step = self.bytes.capacity().min(needed + 4096);
        self.bytes.resize(step.max(needed), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bits::BitReader;

    #[test]
    fn written_bits_read_back_at_every_offset_and_width() {
        for offset in 0..=MAX_BITS {
            for width in 0..=MAX_BITS {
                let value = 0xdead_beef_cafe_f00d_u64 & ((1 << width) - 1);
                let mut writer = BitWriter::new();
                writer.write_bits(0, offset);
                writer.write_bits(value, width);
                writer.write_bits(1, 1);
                assert_eq!(writer.position(), u64::from(offset + width + 1));
                let bytes = writer.into_bytes();
                assert_eq!(bytes.len() as u32, (offset + width + 1).div_ceil(8));
                let mut reader = BitReader::new(&bytes);
                assert_eq!(reader.read_bits(offset), Some(0));
                assert_eq!(
                    reader.read_bits(width),
                    Some(value),
                    "{width} bits at bit {offset}"
                );
                assert_eq!(reader.read_bits(1), Some(1));
                let padding = reader.remaining() as u32;
                assert_eq!(reader.read_bits(padding), Some(0));
            }
        }
    }

    #[test]
    fn runs_of_any_length_read_back_equal() {
        let mut writer = BitWriter::new();
        for run in 0..300 {
            writer.write_unary(run);
        }
        let bytes = writer.into_bytes();
        let mut reader = BitReader::new(&bytes);
        for run in 0..300 {
            assert_eq!(reader.read_unary_up_to(u64::MAX), Ok(run));
        }
    }

    #[test]
    fn requested_capacity_is_sufficient() {
        for bits in [0_u64, 1, 7, 8, 9, 56, 64, 65, 4096, 100_000] {
            let mut writer = BitWriter::with_capacity(bits).unwrap();
            let capacity = writer.bytes.capacity();
            for _ in 0..bits {
                writer.write_bits(1, 1);
            }
            assert_eq!(writer.bytes.capacity(), capacity, "{bits} bits");
        }
        assert!(BitWriter::with_capacity(u64::MAX).is_err());
    }
}
