//! [`Scanner`]: serial decoding with validation in the same pass.

use crate::arch::{Kind, SimdLevel};
use crate::bits::{BitReader, MAX_BITS};
use crate::cost;
use crate::error::{DecodeError, DecodeFault};
use crate::params::Params;
use crate::rice::{self, Unreadable};

/// Decodes the values of a filter in order, and checks each.
///
/// For any bytes, the returned values are below F and in ascending order.
#[derive(Clone, Debug)]
pub(crate) struct Scanner<'a> {
    level: SimdLevel,
    reader: BitReader<'a>,
    bits: u64,
    p: u32,
    /// Whether two codes usually fit in a refilled buffer.
    in_pairs: bool,
    n: u32,
    /// The number of items read.
    item: u32,
    /// The value of the last item read, or 0 before the first.
    value: u64,
    /// The largest valid value: F - 1.
    largest: u64,
}

impl<'a> Scanner<'a> {
    /// A scanner at the first item of a filter of `n` items.
    pub(crate) fn new(level: SimdLevel, bytes: &'a [u8], n: u32, params: Params) -> Self {
        Self {
            level,
            reader: BitReader::new(bytes),
            bits: bytes.len() as u64 * 8,
            p: params.p(),
            in_pairs: in_pairs(params),
            n,
            item: 0,
            value: 0,
            // Without items F is 0, and this is never compared.
            largest: params.range(n).saturating_sub(1),
        }
    }

    /// A scanner that starts in the middle of a filter of `n` items: at bit `position`, after `item` items, the
    /// last of which has value `value`.
    pub(crate) fn at_item(
        level: SimdLevel,
        bytes: &'a [u8],
        (n, params): (u32, Params),
        (position, value, item): (u64, u64, u32),
    ) -> Self {
        Self {
            reader: BitReader::at(bytes, position),
            value,
            item,
            ..Self::new(level, bytes, n, params)
        }
    }

    /// The number of items, read or not.
    pub(super) fn n(&self) -> u32 {
        self.n
    }

    /// The bit position of the next item.
    pub(crate) fn position(&self) -> u64 {
        self.reader.position()
    }

    /// The value of the last item read, or 0 before the first.
    pub(crate) fn value(&self) -> u64 {
        self.value
    }

    /// The number of items that are not read yet.
    pub(crate) fn remaining(&self) -> u32 {
        self.n - self.item
    }

    /// Returns the next value, or nothing after the last item.
    ///
    /// # Errors
    ///
    /// Too short or out of range. Every later call returns the same error.
    #[inline]
    pub(crate) fn next_value(&mut self) -> Result<Option<u64>, DecodeError> {
        if self.item == self.n {
            return Ok(None);
        }
        let room = self.largest - self.value;
        let mut reader = self.reader.clone();
        let read = rice::read(&mut reader, self.p, self.largest >> self.p);
        cost::count(|| reader.position() - self.reader.position());
        let delta = match read {
            Ok(delta) if delta <= room => delta,
            Ok(_) => return Err(self.fault(Unreadable::QuotientTooLarge)),
            Err(reason) => return Err(self.fault(reason)),
        };
        self.reader = reader;
        self.item += 1;
        self.value += delta;
        Ok(Some(self.value))
    }

    /// Fills `out` with the next values and returns their number: the length of `out`, or the number of
    /// remaining items. It is 0 only at the end.
    ///
    /// # Errors
    ///
    /// As [`Scanner::next_value`]. The values before the invalid item are in `out`, but are not counted.
    #[inline]
    pub(crate) fn fill(&mut self, out: &mut [u64]) -> Result<usize, DecodeError> {
        let count = out.len().min(self.remaining() as usize);
        let mut filled = 0;
        while filled < count {
            let before = self.reader.position();
            filled += match self.level.kind() {
                Kind::Baseline(_) => self.fill_apart(&mut out[filled..count]),
                // There, counting zeros and shifting by a variable take one instruction each. A single stream
                // cannot be vectorized.
                #[cfg(target_arch = "x86_64")]
                Kind::Avx2(avx2) => avx2.compiled(
                    #[inline(always)]
                    || self.fill_short(&mut out[filled..count]),
                ),
                #[cfg(target_arch = "x86_64")]
                Kind::Avx512(avx512) => avx512.avx2().compiled(
                    #[inline(always)]
                    || self.fill_short(&mut out[filled..count]),
                ),
            };
            cost::count(|| self.reader.position() - before);
            if filled < count {
                // One code that is long, near the end of the bytes, or invalid.
                let Some(value) = self.next_value()? else {
                    break;
                };
                out[filled] = value;
                filled += 1;
            }
        }
        Ok(filled)
    }

    /// A separate function: within a larger one the loop has too few registers (3.8 against 3.0 ns per item).
    #[inline(never)]
    fn fill_apart(&mut self, out: &mut [u64]) -> usize {
        self.fill_short(out)
    }

    /// Fills `out` as long as codes are short and valid.
    #[inline(always)]
    fn fill_short(&mut self, out: &mut [u64]) -> usize {
        if self.in_pairs { self.fill_by_pairs(out) } else { self.fill_one_by_one(out) }
    }

    /// The inner loop: two codes per refill, as long as both are short and valid.
    ///
    /// The items end in the last byte. Neither this loop nor the next one reads a bit of it, because a word
    /// refill keeps back the last byte that it loads. They therefore never take padding for items.
    #[inline(always)]
    fn fill_by_pairs(&mut self, out: &mut [u64]) -> usize {
        let p = self.p;
        // A local copy keeps the reader in registers during the loop.
        let mut reader = self.reader.clone();
        let mut value = self.value;
        let mut filled = 0;
        let (pairs, _) = out.as_chunks_mut::<2>();
        for pair in pairs {
            if !reader.refill_by_word() {
                break;
            }
            let (buffer, available) = reader.peek();
            let (first, second, bits) = rice::read_pair(buffer, p);
            // Each difference is below 2^6 * 2^32, so the sum does not overflow. Neither difference is
            // negative, so one comparison of the sum checks both values.
            if bits > available || first + second > self.largest - value {
                break;
            }
            reader.consume(bits);
            pair[0] = value + first;
            value = pair[0] + second;
            pair[1] = value;
            filled += 2;
        }
        self.reader = reader;
        self.value = value;
        self.item += filled as u32;
        filled
    }

    /// The inner loop for codes of which two do not fit in one refill.
    #[inline(always)]
    fn fill_one_by_one(&mut self, out: &mut [u64]) -> usize {
        let p = self.p;
        let mut reader = self.reader.clone();
        let mut value = self.value;
        let mut filled = 0;
        for place in out {
            if !reader.refill_by_word() {
                break;
            }
            let (buffer, available) = reader.peek();
            let (delta, bits) = rice::read_one(buffer, p);
            if bits > available || delta > self.largest - value {
                break;
            }
            reader.consume(bits);
            value += delta;
            *place = value;
            filled += 1;
        }
        self.reader = reader;
        self.value = value;
        self.item += filled as u32;
        filled
    }

    /// Decodes the remaining items to find their faults. Checks that the last item ends in the last byte, and
    /// that the padding of that byte is zero. Returns the bit position where the items end.
    ///
    /// # Errors
    ///
    /// Too short, out of range, trailing data, or padding.
    pub(crate) fn finish(mut self) -> Result<u64, DecodeError> {
        let mut block = [0; super::BLOCK];
        while self.fill(&mut block)? > 0 {}
        let (n, bits, end_bit) = (self.n, self.bits, self.reader.position());
        let padding = bits - end_bit;
        if padding >= 8 {
            return Err(DecodeError(DecodeFault::TrailingData { n, end_bit, bits }));
        }
        if self.reader.read_bits(padding as u32) != Some(0) {
            return Err(DecodeError(DecodeFault::Padding { n, end_bit }));
        }
        Ok(end_bit)
    }

    #[cold]
    fn fault(&self, reason: Unreadable) -> DecodeError {
        let (item, n, bits) = (self.item, self.n, self.bits);
        DecodeError(match reason {
            Unreadable::RunCut => DecodeFault::RunCut { item, n, bits },
            Unreadable::RemainderCut => DecodeFault::RemainderCut { item, n, bits },
            Unreadable::QuotientTooLarge => DecodeFault::OutOfRange {
                item,
                // At most 2^64 - 2^33 + 1: the largest value is F - 1.
                range: self.largest + 1,
            },
        })
    }
}

/// Returns whether two codes of average length fit in a refilled buffer, with a few bits to spare.
pub(crate) fn in_pairs(params: Params) -> bool {
    let mean_quotient = params.m() >> params.p();
    2 * (u64::from(params.p()) + 1 + mean_quotient) + 4 <= u64::from(MAX_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::DecodeErrorKind;
    use alloc::vec::Vec;

    /// A scanner at a code after the second-largest value of the widest possible range.
    fn near_the_end_of_64_bits(quotient: u64, remainder: u64) -> Result<Vec<u64>, DecodeError> {
        let params = Params::new(32, u64::from(u32::MAX)).unwrap();
        let (n, range) = (u32::MAX, params.range(u32::MAX));
        // Four more items of the same value, so that the fast loop has enough bits to read.
        let bytes = nutfilter_reference::encode_values(&[quotient << 32 | remainder; 5], 32);
        let place = (0, range - 2, n - 5);
        let mut scanner = Scanner::at_item(SimdLevel::detect(), &bytes, (n, params), place);
        let mut block = [0; 8];
        let filled = scanner.fill(&mut block)?;
        Ok(block[..filled].to_vec())
    }

    #[test]
    fn sums_that_overflow_64_bits_are_out_of_range() {
        let range = u64::from(u32::MAX) * u64::from(u32::MAX);
        assert_eq!(near_the_end_of_64_bits(0, 0).unwrap(), [range - 2; 5]);
        assert_eq!(near_the_end_of_64_bits(0, 1).unwrap(), [range - 1; 5]);
        for (quotient, remainder) in [(0, 2), (0, (1 << 32) - 1), (1, 0), (2, 0), (22, 0), (40, 1)]
        {
            let error = near_the_end_of_64_bits(quotient, remainder).unwrap_err();
            assert_eq!(error.kind(), DecodeErrorKind::OutOfRange, "{quotient}, {remainder}");
        }
    }

    #[test]
    fn later_calls_return_the_same_error() {
        let params = Params::new(3, 20).unwrap();
        let mut scanner = Scanner::new(SimdLevel::detect(), &[0b0000_1111], 2, params);
        let mut block = [0; 8];
        let error = scanner.fill(&mut block).unwrap_err();
        assert_eq!(scanner.fill(&mut block), Err(error));
        assert_eq!(scanner.next_value(), Err(error));
        assert_eq!(scanner.finish(), Err(error));
    }
}
