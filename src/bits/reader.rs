//! [`BitReader`]: refills its buffer by whole words and consumes it by shifts.

use super::MAX_BITS;

/// Reads bits from a byte slice, most significant first.
#[derive(Clone, Debug)]
pub(crate) struct BitReader<'a> {
    bytes: &'a [u8],
    /// The next byte that is not yet counted in `available`.
    next: usize,
    /// The next bits, **inverted**, with the first at the top. In the inverted buffer a run of ones is a run of
    /// zeros, which `leading_zeros` counts directly. That saves a negation in the dependency chain from one
    /// code to the next. Below the `available` bits there are zeros or further inverted bits of the stream. A
    /// refill may therefore OR them in again without harm. A count of zeros may run into them, so every count
    /// is compared with `available`.
    buffer: u64,
    /// How many bits of `buffer` are valid, 0 to 64.
    available: u32,
}

impl<'a> BitReader<'a> {
    /// A reader that starts at the first bit of `bytes`.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, next: 0, buffer: 0, available: 0 }
    }

    /// A reader that starts at bit `position`. A position beyond the end is treated as the end.
    pub(crate) fn at(bytes: &'a [u8], position: u64) -> Self {
        let next = usize::try_from(position / 8).map_or(bytes.len(), |byte| byte.min(bytes.len()));
        let mut reader = Self { next, ..Self::new(bytes) };
        if next < bytes.len() {
            reader.refill();
            // At most 7 bits, and a refill before an existing byte gives at least 8.
            reader.consume((position % 8) as u32);
        }
        reader
    }

    /// The number of bits consumed so far.
    #[inline]
    pub(crate) fn position(&self) -> u64 {
        self.next as u64 * 8 - u64::from(self.available)
    }

    /// Reads the next `count` bits as a number. Returns `None`, and consumes no bits, if fewer remain.
    ///
    /// # Panics
    ///
    /// If `count` is above [`MAX_BITS`].
    #[inline]
    pub(crate) fn read_bits(&mut self, count: u32) -> Option<u64> {
        assert!(count <= MAX_BITS, "{count} bits in one read");
        if self.available < count {
            self.refill();
            if self.available < count {
                return None;
            }
        }
        // Two shifts, because a shift by 64 (count = 0) would overflow.
        let bits = !self.buffer >> 1 >> (63 - count);
        self.consume(count);
        Some(bits)
    }

    /// Reads a run of ones and the zero bit after it, and returns the number of ones. If the bits end first, or more
    /// than `most` ones were seen, returns their number as an error. Reads at most one buffer beyond `most`.
    #[inline]
    pub(crate) fn read_unary_up_to(&mut self, most: u64) -> Result<u64, u64> {
        let mut run = 0;
        loop {
            let ones = self.buffer.leading_zeros();
            if ones < self.available {
                self.consume(ones);
                self.consume(1);
                return Ok(run + u64::from(ones));
            }
            run += u64::from(self.available);
            self.buffer = 0;
            self.available = 0;
            self.refill();
            if self.available == 0 || run > most {
                return Err(run);
            }
        }
    }

    /// Fills the buffer to at least [`MAX_BITS`] bits, or with all remaining bits.
    #[inline]
    pub(crate) fn refill(&mut self) {
        if self.refill_by_word() {
            return;
        }
        while self.available <= MAX_BITS && self.next < self.bytes.len() {
            // The shift is 0 to 56.
            self.buffer |= u64::from(!self.bytes[self.next]) << (56 - self.available);
            self.available += 8;
            self.next += 1;
        }
    }

    /// Fills the buffer to at least [`MAX_BITS`] bits with one load and no branch on its state. Within 8 bytes
    /// of the end it does nothing and returns false.
    #[inline(always)]
    pub(crate) fn refill_by_word(&mut self) -> bool {
        let Some(word) = self.bytes.get(self.next..).and_then(|rest| rest.first_chunk::<8>())
        else {
            return false;
        };
        // `available` is at most 63. Only the byte-wise refill makes it 64, and after that refill was needed,
        // fewer than 8 bytes remain.
        debug_assert!(self.available < 64);
        self.buffer |= !u64::from_be_bytes(*word) >> self.available;
        self.next += ((63 - self.available) >> 3) as usize;
        self.available |= 56;
        true
    }

    /// The buffer (see the field) and the number of its valid bits.
    #[inline(always)]
    pub(crate) fn peek(&self) -> (u64, u32) {
        (self.buffer, self.available)
    }

    /// Drops `count` valid bits: at most `available`, and at most 63.
    #[inline(always)]
    pub(crate) fn consume(&mut self, count: u32) {
        debug_assert!(count <= self.available && count < 64);
        self.buffer <<= count;
        self.available -= count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    fn bit(bytes: &[u8], position: usize) -> u64 {
        u64::from(bytes[position / 8] >> (7 - position % 8) & 1)
    }

    #[test]
    fn read_bits_is_correct_at_every_offset_and_width() {
        let bytes: Vec<u8> = (0..40_u32).map(|i| (i * 97 % 251) as u8).collect();
        let total = bytes.len() * 8;
        for offset in 0..=total {
            for width in 0..=MAX_BITS {
                let mut reader = BitReader::at(&bytes, offset as u64);
                assert_eq!(reader.position(), offset as u64);
                let end = offset + width as usize;
                let expected = (end <= total)
                    .then(|| (offset..end).fold(0, |value, at| value << 1 | bit(&bytes, at)));
                assert_eq!(reader.read_bits(width), expected, "{width} bits at bit {offset}");
                let consumed = expected.map_or(0, |_| u64::from(width));
                assert_eq!(reader.position(), offset as u64 + consumed);
            }
        }
    }

    #[test]
    fn unterminated_run_gives_none_and_its_length() {
        for len in 0..20 {
            let bytes = vec![0xff; len];
            let mut reader = BitReader::new(&bytes);
            assert_eq!(reader.read_unary_up_to(u64::MAX), Err(len as u64 * 8));
            assert_eq!(reader.position(), len as u64 * 8);
            assert!(reader.read_unary_up_to(u64::MAX).is_err());
        }
    }

    #[test]
    fn run_is_not_read_beyond_its_limit() {
        let bytes = vec![0xff; 1000];
        for most in 0..300 {
            let mut reader = BitReader::new(&bytes);
            let seen = reader.read_unary_up_to(most).unwrap_err();
            assert!(seen > most && seen <= most + 64, "{seen} for {most}");
            assert!(reader.position() <= seen + 64);
        }
    }

    #[test]
    fn position_beyond_the_end_is_treated_as_the_end() {
        for position in [24, 25, 1 << 40, u64::MAX] {
            let mut reader = BitReader::at(&[1, 2, 3], position);
            assert_eq!(reader.position(), 24);
            assert_eq!(reader.read_bits(1), None);
            assert_eq!(reader.read_bits(0), Some(0));
        }
    }
}
