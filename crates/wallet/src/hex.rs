//! Points as JSON has them: hex text.

/// Lower case, as every mint writes it.
pub(crate) fn encode(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value)]);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

/// Digits in either case; `None` for anything else.
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
    fn every_byte_comes_back_in_either_case_and_nothing_else_does() {
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
