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
    use crate::{Profile, build};

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
