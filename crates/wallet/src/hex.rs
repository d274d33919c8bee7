//! Hex encoding of points in JSON.

/// Encodes in lower case, as every mint does.
pub(crate) fn encode(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value)]);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

/// Decodes digits of either case; `None` for any other text.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else {
        return None;
    };
    let value = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
    pairs
        .iter()
        .map(|&[high, low]| Some(value(high)? << 4 | value(low)?))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decode_accepts_hex_of_either_case_only() {
        let bytes: Vec<u8> = (0..=255).collect();
        let text = encode(&bytes);
        assert_eq!(decode(&text), Some(bytes.clone()));
        assert_eq!(decode(&text.to_uppercase()), Some(bytes));
        assert_eq!(decode(""), Some(Vec::new()));
        for bad in ["0", "0g", "0x", " 00", "+1", "é", "00\0"] {
            assert_eq!(decode(bad), None, "{bad:?}");
        }
    }
}
