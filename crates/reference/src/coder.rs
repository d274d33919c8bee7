//! Encodes sorted values as bits and decodes them: Golomb-Rice codes of the differences, one bit at a time.
//!
//! The first value is coded as its difference from 0, every other one as its difference from the previous value.
//! The code of a difference `d` is the quotient `d >> P` in unary (that many one-bits and a zero-bit), then the
//! remainder (the low `P` bits of `d`), most significant bit first. With `P = 2` the values 3, 3, 12 are
//!
//! ```text
//! value   difference   quotient   remainder   code
//!     3            3          0           3   0 11
//!     3            0          0           0   0 00
//!    12            9          2           1   110 01
//!
//! bits    01100011 001          bytes  63 20   (five zero-bits of padding)
//! ```
//!
//! The stream fills every byte from its most significant bit down, and pads the last byte with zero-bits. It
//! contains neither the number of values nor `P` nor `M`: these are transferred separately.

/// Why a filter is invalid. If there are several reasons, [`decode`] returns the first that it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// `P` is above 32, `M` is 0, or `M` or `N` does not fit in 32 bits.
    BadParameter,
    /// The bytes end before the last value does, or every set of `N` values is longer.
    TooShort,
    /// Every set of `N` values below `F` is shorter.
    TooLong,
    /// A difference or a value is `F` or more.
    OutOfRange,
    /// At least one whole byte follows the last value.
    TrailingData,
    /// At least one of the (up to seven) padding bits of the last byte is not zero.
    Padding,
}

/// Encodes values that are sorted in ascending order. Equal neighbours are allowed, with a difference of 0.
///
/// # Cost
///
/// One bit of output per `2^p` of the largest value, for any number of values: only memory limits it.
pub fn encode_values(values: &[u64], p: u32) -> Vec<u8> {
    // Filters have at most 32, segments 55.
    assert!(p <= 63, "P = {p} is above 63");
    let mut bits = BitSink::default();
    let mut last = 0;
    for &value in values {
        assert!(value >= last, "values are not sorted: {value} after {last}");
        let difference = value - last;
        for _ in 0..difference >> p {
            bits.push(true);
        }
        bits.push(false);
        for position in (0..p).rev() {
            bits.push(difference >> position & 1 == 1);
        }
        last = value;
    }
    bits.bytes
}

/// Decodes the `n` values of a filter, in ascending order, and makes all checks.
///
/// `bytes` is the bit stream alone. `n` is the number of values, including duplicates. Every value is below `F = n
/// * m`.
///
/// # Errors
///
/// In this order:
///
/// 1. [`BadParameter`](Error::BadParameter).
/// 2. Before a bit is read, [`TooShort`](Error::TooShort) or [`TooLong`](Error::TooLong) if no set of `n` values
///    can have this length.
/// 3. For each value, [`OutOfRange`](Error::OutOfRange) for a unary run above `(F - 1) >> p`, even if the end of
///    the stream cuts it; [`TooShort`](Error::TooShort) for a code that the end cuts; and
///    [`OutOfRange`](Error::OutOfRange) for a value of `F` or more.
/// 4. After the last value, [`TrailingData`](Error::TrailingData), then [`Padding`](Error::Padding).
///
/// # Cost
///
/// Time linear in the bits of `bytes`, and 8 bytes of memory per decoded value. A large `n` alone costs nothing.
pub fn decode(bytes: &[u8], n: u64, p: u32, m: u64) -> Result<Vec<u64>, Error> {
    if p > 32 || m == 0 || m >= 1 << 32 || n >= 1 << 32 {
        return Err(Error::BadParameter);
    }
    if n == 0 {
        return if bytes.is_empty() { Ok(Vec::new()) } else { Err(Error::TooLong) };
    }
    let f = u128::from(n) * u128::from(m);
    let largest_quotient = (f - 1) >> p;
    check_length(bytes, n, p, largest_quotient)?;

    let mut bits = BitSource::new(bytes);
    let mut values = Vec::new(); // grown as values are found: `n` is only a claim
    let mut last = 0_u128;
    for _ in 0..n {
        let mut quotient = 0_u128;
        let mut end_of_run = bits.next();
        while end_of_run == Some(true) {
            quotient += 1;
            end_of_run = bits.next();
        }
        if quotient > largest_quotient {
            return Err(Error::OutOfRange);
        }
        if end_of_run.is_none() || bits.left() < u64::from(p) {
            return Err(Error::TooShort);
        }
        let mut remainder = 0_u128;
        for bit in bits.by_ref().take(p as usize) {
            remainder = remainder << 1 | u128::from(bit);
        }
        // This cannot overflow: the quotient has at most 64 bits and is shifted by at most 32.
        let value = last + (quotient << p | remainder);
        if value >= f {
            return Err(Error::OutOfRange);
        }
        values.push(value as u64); // below f, which is below 2^64
        last = value;
    }

    if bits.left() >= 8 {
        return Err(Error::TrailingData);
    }
    if bits.any(|bit| bit) {
        return Err(Error::Padding);
    }
    Ok(values)
}

/// The length check: whether `n >= 1` values can have this many bytes.
///
/// Each value takes `p + 1` bits plus its quotient. The differences add up to the largest value, so their
/// quotients add up to at most the quotient of the largest value.
fn check_length(bytes: &[u8], n: u64, p: u32, largest_quotient: u128) -> Result<(), Error> {
    let length = bytes.len() as u128;
    let fewest_bits = u128::from(n) * u128::from(p + 1);
    let most_bits = fewest_bits + largest_quotient;
    if length < fewest_bits.div_ceil(8) {
        return Err(Error::TooShort);
    }
    if length > most_bits.div_ceil(8) {
        return Err(Error::TooLong);
    }
    Ok(())
}

/// A writer that fills every byte from its most significant bit down.
#[derive(Default)]
struct BitSink {
    /// The bits so far. Unused bits in the last byte are zero: they are the padding.
    bytes: Vec<u8>,
    /// Number of used bits in the last byte, modulo 8; 0 means that a new byte is needed.
    used: u32,
}

impl BitSink {
    fn push(&mut self, bit: bool) {
        if self.used == 0 {
            self.bytes.push(0);
        }
        if let Some(byte) = self.bytes.last_mut() {
            *byte |= u8::from(bit) << (7 - self.used);
        }
        self.used = (self.used + 1) % 8;
    }
}

/// A reader of the bits of a byte string, from the most significant bit of each byte down.
struct BitSource<'a> {
    bytes: &'a [u8],
    /// Number of bits read; at most `8 * bytes.len()`.
    position: u64,
}

impl<'a> BitSource<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        BitSource { bytes, position: 0 }
    }

    fn left(&self) -> u64 {
        self.bytes.len() as u64 * 8 - self.position
    }
}

impl Iterator for BitSource<'_> {
    type Item = bool;

    fn next(&mut self) -> Option<bool> {
        let byte = self.bytes.get((self.position / 8) as usize)?;
        let bit = byte >> (7 - self.position % 8) & 1;
        self.position += 1;
        Some(bit == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every set has exactly one encoding, and every other byte string is rejected. So the number of accepted byte
    /// strings is the number of ways to choose N values below F in ascending order: the binomial coefficient (F +
    /// N - 1 over N). Encoding the decoded values must give the same bytes.
    #[test]
    fn decode_accepts_exactly_the_short_encodings() {
        let one = (0..=0xff_u8).map(|byte| vec![byte]);
        let two = (0..=0xffff_u16).map(|bytes| bytes.to_be_bytes().to_vec());
        let strings: Vec<Vec<u8>> = [vec![]].into_iter().chain(one).chain(two).collect();
        // No set with these parameters has more than 16 bits.
        for (n, p, m) in [
            (0, 1, 3),
            (1, 0, 1),
            (1, 0, 16),
            (1, 3, 90),
            (2, 0, 7),
            (2, 1, 4),
            (2, 2, 20),
            (3, 0, 4),
            (3, 1, 4),
            (4, 0, 3),
            (4, 2, 4),
            (5, 1, 2),
            (8, 0, 1),
            (2, 6, 60),
            (1, 15, 30_000),
        ] {
            let mut accepted = 0;
            for bytes in &strings {
                if let Ok(values) = decode(bytes, n, p, m) {
                    assert_eq!(encode_values(&values, p), *bytes, "N = {n}, P = {p}, M = {m}");
                    accepted += 1;
                }
            }
            let sets = (0..n).fold(1, |sets, i| sets * (n * m + i) / (i + 1));
            assert_eq!(accepted, sets, "N = {n}, P = {p}, M = {m}");
        }
    }

    #[test]
    #[should_panic(expected = "not sorted")]
    fn unsorted_values_panic() {
        encode_values(&[2, 1], 3);
    }
}
