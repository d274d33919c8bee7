//! The item count before a BIP158 filter, as a CompactSize.
//!
//! ```text
//! 0 .. 252            1 byte: the number
//! 253 .. 2^16 - 1     fd, then 2 bytes, least significant first
//! 2^16 .. 2^32 - 1    fe, then 4 bytes
//! 2^32 .. 2^64 - 1    ff, then 8 bytes
//! ```
//!
//! A number in a longer form than necessary is an error, so that each filter has one serialisation and one hash.

use core::fmt;

/// Why the item count of a serialised filter is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bip158Error {
    /// The bytes end within the count, or are empty.
    TooShort,
    /// The count fits in a shorter form.
    NonCanonical,
    /// The count does not fit in 32 bits.
    BadParameter,
}

impl fmt::Display for Bip158Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Bip158Error::TooShort => "item count is cut short",
            Bip158Error::NonCanonical => "item count is not in its shortest form",
            Bip158Error::BadParameter => "item count does not fit in 32 bits",
        })
    }
}

impl core::error::Error for Bip158Error {}

/// Prepends the number of items to the bytes of a filter.
///
/// Accepts any `n`, even one that [`parse_bip158`] rejects.
pub fn serialize_bip158(n: u64, bytes: &[u8]) -> Vec<u8> {
    let (marker, width) = match n {
        0..=0xfc => (None, 1),
        0xfd..=0xffff => (Some(0xfd), 2),
        0x1_0000..=0xffff_ffff => (Some(0xfe), 4),
        _ => (Some(0xff), 8),
    };
    let mut serialized = Vec::from_iter(marker);
    serialized.extend(&n.to_le_bytes()[..width]);
    serialized.extend(bytes);
    serialized
}

/// Splits a serialised filter into the number of items and its bytes, which are not checked.
///
/// # Errors
///
/// See [`Bip158Error`]; if several apply, the first one in the order listed there.
pub fn parse_bip158(serialized: &[u8]) -> Result<(u64, &[u8]), Bip158Error> {
    let (&first, rest) = serialized.split_first().ok_or(Bip158Error::TooShort)?;
    // The number of bytes that hold the number, and the smallest number that needs so many.
    let (width, smallest) = match first {
        0xfd => (2, 0xfd),
        0xfe => (4, 0x1_0000),
        0xff => (8, 0x1_0000_0000),
        small => return Ok((u64::from(small), rest)),
    };
    if rest.len() < width {
        return Err(Bip158Error::TooShort);
    }
    let (number, filter) = rest.split_at(width);
    let n = number
        .iter()
        .rev()
        .fold(0, |n, &byte| n << 8 | u64::from(byte));
    if n < smallest {
        return Err(Bip158Error::NonCanonical);
    }
    if n >= 1 << 32 {
        return Err(Bip158Error::BadParameter);
    }
    Ok((n, filter))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Profile, build};

    #[test]
    fn counts_round_trip_at_every_change_of_width() {
        for (n, length) in [
            (0, 1),
            (1, 1),
            (252, 1),
            (253, 3),
            (65_535, 3),
            (65_536, 5),
            (u64::from(u32::MAX), 5),
        ] {
            let serialized = serialize_bip158(n, b"filter");
            assert_eq!(serialized.len(), length + 6, "N = {n}");
            assert_eq!(
                parse_bip158(&serialized),
                Ok((n, b"filter".as_slice())),
                "N = {n}"
            );
            for cut in 0..length {
                assert_eq!(
                    parse_bip158(&serialized[..cut]),
                    Err(Bip158Error::TooShort),
                    "N = {n}, {cut}"
                );
            }
        }
    }

    #[test]
    fn non_minimal_forms_are_rejected() {
        for bytes in [
            &[0xfd, 0xfc, 0][..],
            &[0xfe, 0xff, 0xff, 0, 0],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0],
            &[0xff, 0, 0, 0, 0, 0, 0, 0, 0],
        ] {
            assert_eq!(
                parse_bip158(bytes),
                Err(Bip158Error::NonCanonical),
                "{bytes:02x?}"
            );
        }
    }

    #[test]
    fn counts_above_32_bits_are_rejected() {
        for n in [1 << 32, u64::MAX] {
            let serialized = serialize_bip158(n, &[]);
            assert_eq!(
                parse_bip158(&serialized),
                Err(Bip158Error::BadParameter),
                "N = {n}"
            );
            assert_eq!(
                parse_bip158(&serialized[..8]),
                Err(Bip158Error::TooShort),
                "N = {n}"
            );
        }
    }

    /// The first block of testnet: one output script, a public key and OP_CHECKSIG.
    #[test]
    fn testnet_genesis_block_has_its_published_filter() {
        let block_hash = hex("000000000933ea01ad0ee984209779baaec3ced90fa3f408719526f8d77f4943");
        let script = hex(concat!(
            "4104678afdb0fe5548271967f1a67130b7105cd6a828e03909a67962e0ea1f61deb6",
            "49f6bc3f4cef38c4f35504e51ec112de5c384df7ba0b8d578a4c702b6bf11d5fac",
        ));
        let mut key: Vec<u8> = block_hash.into_iter().rev().collect(); // displayed order to internal
        key.truncate(16);
        let profile = Profile::bip158(key.try_into().unwrap());
        let filter = build(profile, &[script], 19, 784_931);
        assert_eq!(serialize_bip158(1, &filter), hex("019dfca8"));
    }

    fn hex(text: &str) -> Vec<u8> {
        let digit = |byte: u8| (byte as char).to_digit(16).unwrap() as u8;
        text.as_bytes()
            .chunks(2)
            .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
            .collect()
    }
}
