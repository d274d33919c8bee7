//! The item count before a BIP158 filter, as a CompactSize.
//!
//! ```text
//! 0 .. 252            1 byte: the number
//! 253 .. 2^16 - 1     fd, then 2 bytes, least significant first
//! 2^16 .. 2^32 - 1    fe, then 4 bytes
//! 2^32 .. 2^64 - 1    ff, then 8 bytes
//! ```

/// Prepends the number of items to the bytes of a filter. Accepts any `n`, even one that no filter has.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_the_shortest_form() {
        let forms: [(u64, &[u8]); 7] = [
            (0, &[0]),
            (252, &[252]),
            (253, &[0xfd, 253, 0]),
            (65_535, &[0xfd, 0xff, 0xff]),
            (65_536, &[0xfe, 0, 0, 1, 0]),
            (u64::from(u32::MAX), &[0xfe, 0xff, 0xff, 0xff, 0xff]),
            (1 << 32, &[0xff, 0, 0, 0, 0, 1, 0, 0, 0]),
        ];
        for (n, form) in forms {
            assert_eq!(serialize_bip158(n, b"filter"), [form, b"filter"].concat());
        }
    }
}
