//! The Golomb-Rice code of one number.
//!
//! With P remainder bits, a number `d` has two parts. The quotient `d >> P` is written in unary: that many ones
//! and a zero. The remainder, the low P bits, is written as it is:
//!
//! ```text
//!   P = 6, d = 150 = 2 * 64 + 22      110 010110
//!   P = 6, d =  22                      0 010110
//!   P = 0, d =   3                   1110
//! ```
//!
//! A code is P + 1 + quotient bits long. P is 0 to 32. Numbers are below 2^64. The quotient has no limit here: with P = 0 and
//! large numbers, a single code can be longer than memory. Encoders therefore compute the total length first, and decoders stop
//! at the largest valid quotient.
//!
//! S. W. Golomb, "Run-length encodings", 1966. R. F. Rice, "Some practical universal noiseless coding
//! techniques", 1979, for divisors that are powers of two.

use crate::bits::BitReader;

/// The reason why a code could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// The bits end within the unary run.
    RunCut,
    /// The bits end within the remainder.
    RemainderCut,
    /// The quotient is above the given limit.
    QuotientTooLarge,
}

/// The code of `d` as a number, and its length in bits, at most 63. `quotient` is `d >> p`: callers already
/// computed it to check that the code is short.
#[inline(always)]
pub(crate) fn short_code(d: u64, quotient: u64, p: u32) -> (u64, u32) {
    let bits = quotient as u32 + 1 + p;
    debug_assert!(p <= 32 && quotient == d >> p && bits < 64);
    // All bits are ones, except those of the zero bit and the remainder; then add the remainder.
    ((1 << bits) - (2 << p) + (d & ((1 << p) - 1)), bits)
}

/// [`short_code`] of two consecutive numbers, at most 63 bits together.
///
/// If the second code has c bits, the result is `(2^(q+P+1) - (2^(P+1) - 1 - r)) * 2^c - 2^(P+1) + r'`. That
/// takes fewer operations than two codes and a shift. `2^(P+1) - 1 - r` is the inverted remainder with a one
/// above it. A remainder minus `2^(P+1)` is the remainder with ones above it.
#[inline(always)]
pub(crate) fn short_pair(d: (u64, u64), quotient: (u64, u64), p: u32) -> (u64, u32) {
    debug_assert!(quotient.0 == d.0 >> p && quotient.1 == d.1 >> p);
    let (above, remainder) = (2_u64 << p, (1_u64 << p) - 1);
    let second_bits = quotient.1 as u32 + 1 + p;
    let bits = quotient.0 as u32 + 1 + p + second_bits;
    debug_assert!(bits < 64);
    let first = (above << quotient.0) - (!d.0 & remainder | 1 << p);
    let second = d.1 & remainder | above.wrapping_neg();
    ((first << second_bits).wrapping_add(second), bits)
}

/// Reads a number with `p` remainder bits (0 to 32) and a quotient of at most `max_quotient`. Of a longer run,
/// it reads only as much as it needs to detect that.
///
/// # Errors
///
/// If a run shows both a quotient above the limit and the end of the bits, the quotient is reported.
#[inline]
pub(crate) fn read(
    reader: &mut BitReader<'_>,
    p: u32,
    max_quotient: u64,
) -> Result<u64, Unreadable> {
    debug_assert!(p <= 32);
    reader.refill();
    let run = reader.read_unary_up_to(max_quotient);
    let (Ok(quotient) | Err(quotient)) = run;
    if quotient > max_quotient {
        return Err(Unreadable::QuotientTooLarge);
    }
    if run.is_err() {
        return Err(Unreadable::RunCut);
    }
    let remainder = reader.read_bits(p).ok_or(Unreadable::RemainderCut)?;
    Ok(quotient << p | remainder)
}

/// Decodes one number from the bits of a refilled buffer, for the inner loop of a decoder. Returns the number
/// and the length of its code in bits. If the length exceeds the valid bits of `buffer`, the number is
/// meaningless.
///
/// `buffer` is inverted, as [`BitReader`] keeps it. The dependency chain from one code to the next has five
/// operations: count, shift by the count, shift by P + 1. Let `t` be the buffer after its run. The top P + 1
/// bits of `t` are a one (the inverted end of the run) and the inverted remainder. The remainder is therefore
/// `2^(P+1) - 1 - (t >> (63 - P))`, without a mask and without a case for P = 0.
#[inline(always)]
pub(crate) fn read_one(buffer: u64, p: u32) -> (u64, u32) {
    // An empty buffer gives 64, and so a length that no buffer has.
    let run = buffer.leading_zeros();
    let end_of_run = buffer.wrapping_shl(run);
    let ones = (2_u64 << p) - 1;
    let number = (u64::from(run) << p) + ones - (end_of_run >> (63 - p));
    (number, run + p + 1)
}

/// Decodes two numbers at once; both codes must lie within the valid bits. Returns the numbers and the total
/// length of both codes in bits.
#[inline(always)]
pub(crate) fn read_pair(buffer: u64, p: u32) -> (u64, u64, u32) {
    let (first, first_bits) = read_one(buffer, p);
    // The shift by P + 1 comes first, because it need not wait for the run.
    let rest = (buffer << (p + 1)).wrapping_shl(first_bits - p - 1);
    let (second, second_bits) = read_one(rest, p);
    (first, second, first_bits + second_bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documented_example_is_correct() {
        assert_eq!(short_code(150, 2, 6), (0b1_1001_0110, 9));
        assert_eq!(short_code(22, 0, 6), (0b001_0110, 7));
    }

    #[test]
    fn pair_decode_reports_too_many_bits_if_it_does_not_fit() {
        for p in 0..=32 {
            for buffer in [0, 1, 2, 1 << 20, 1 << (62 - p)] {
                let (_, _, bits) = read_pair(buffer, p);
                assert!(bits > 56, "P = {p}, buffer {buffer:#x}: {bits} bits");
            }
            for buffer in [0, 1] {
                let (_, bits) = read_one(buffer, p);
                assert!(bits > 63, "P = {p}, buffer {buffer:#x}: {bits} bits");
            }
        }
    }

    #[test]
    fn read_faults_are_distinguished() {
        let cut = |bytes: &[u8], p, max| read(&mut BitReader::new(bytes), p, max);
        assert_eq!(cut(&[0xff, 0xff], 3, 16), Err(Unreadable::RunCut));
        assert_eq!(cut(&[0xff, 0xff], 3, 15), Err(Unreadable::QuotientTooLarge));
        assert_eq!(cut(&[0xff, 0xfe], 3, 14), Err(Unreadable::QuotientTooLarge));
        assert_eq!(cut(&[0xff, 0xfe], 3, 15), Err(Unreadable::RemainderCut));
        assert_eq!(cut(&[0xff, 0xfe], 0, 15), Ok(15));
        assert_eq!(cut(&[], 0, 0), Err(Unreadable::RunCut));
    }
}
