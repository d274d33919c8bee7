//! Keysets and items of tests.

use nutfilter_mint::KeysetId;

pub(crate) const V1: &str = "009a1f293253e41e";

pub(crate) fn keyset(id: &str) -> KeysetId {
    KeysetId::parse(id).unwrap()
}

/// `count` different items of a length; each `stream` gives different ones.
pub(crate) fn items(stream: u64, count: usize, length: usize) -> Vec<Vec<u8>> {
    (0..count as u64)
        .map(|index| item(stream, index, length))
        .collect()
}

fn item(stream: u64, index: u64, length: usize) -> Vec<u8> {
    // An xorshift generator. The index in front guarantees different items.
    let mut state = (stream << 40 | index).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = (stream << 40 | index).to_be_bytes().to_vec();
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_be_bytes());
    }
    bytes.truncate(length);
    // The first byte of a compressed point of either curve.
    bytes[0] = if length == 48 { 0x80 } else { 2 };
    bytes
}
