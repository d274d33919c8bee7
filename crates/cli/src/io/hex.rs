//! Hex decoding, with errors that name the fault and its column.

use std::fmt;

/// Why a text is not valid hex. Columns are counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum HexError {
    /// The number of digits is odd.
    #[error("odd number of hex digits ({digits})")]
    Odd { digits: usize },
    /// The text begins with `0x`.
    #[error("begins with 0x; give the hex digits alone")]
    Prefix,
    /// The text contains a character that is not a hex digit.
    #[error("{} in column {column} is not a hex digit", Shown(*byte))]
    Digit { byte: u8, column: usize },
}

/// Displays a byte in a message: as a character if printable, otherwise as a number.
pub(crate) struct Shown(pub(crate) u8);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_ascii_graphic() {
            write!(f, "'{}'", char::from(self.0))
        } else {
            write!(f, "byte 0x{:02x}", self.0)
        }
    }
}

/// Decodes `text` and appends the bytes to `out`. After an error, `out` may hold some of them.
pub(crate) fn decode_into(text: &[u8], out: &mut Vec<u8>) -> Result<(), HexError> {
    let start = out.len();
    out.resize(start + text.len() / 2, 0);
    decode(text, &mut out[start..])
}

/// Decodes `text` to `out`, which has half its length.
pub(crate) fn decode(text: &[u8], out: &mut [u8]) -> Result<(), HexError> {
    // This ignores a prefix 0x, but then it finds too few bytes.
    const_hex::decode_to_slice(text, out).map_err(|_| explain(text))
}

/// What to say about the text of a token, or of proofs in JSON, in the place of a point.
pub(crate) fn about_token(text: &[u8]) -> Option<&'static str> {
    let begins: [&[u8]; 4] = [b"cashuA", b"cashuB", b"[", b"{"];
    let is_token = begins.iter().any(|begin| text.starts_with(begin));
    is_token.then_some(
        "a token or proofs, not a point; derive `Y` by hash_to_curve from each proof's secret",
    )
}

/// Decodes exactly `N` bytes.
pub(crate) fn decode_array<const N: usize>(text: &str) -> Result<[u8; N], String> {
    let mut bytes = Vec::new();
    decode_into(text.as_bytes(), &mut bytes).map_err(|error| error.to_string())?;
    let digits = text.len();
    bytes.try_into().map_err(|_| format!("expected {} hex digits, not {digits}", N * 2))
}

/// Finds the fault in an invalid text.
fn explain(text: &[u8]) -> HexError {
    if text.starts_with(b"0x") || text.starts_with(b"0X") {
        return HexError::Prefix;
    }
    match text.iter().position(|byte| !byte.is_ascii_hexdigit()) {
        Some(at) => HexError::Digit { byte: text[at], column: at + 1 },
        None => HexError::Odd { digits: text.len() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(text: &str) -> Result<Vec<u8>, HexError> {
        let mut out = vec![7];
        decode_into(text.as_bytes(), &mut out).map(|()| out.split_off(1))
    }

    #[test]
    fn hex_of_either_case_is_decoded() {
        let bytes: Vec<u8> = (0..=255).collect();
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(decode(&text), Ok(bytes.clone()));
        assert_eq!(decode(&text.to_uppercase()), Ok(bytes));
        assert_eq!(decode(""), Ok(vec![]));
    }

    #[test]
    fn errors_name_the_digit_and_its_column() {
        let digit = |byte, column| Err(HexError::Digit { byte, column });
        assert_eq!(decode("00g0"), digit(b'g', 3));
        assert_eq!(decode("000g"), digit(b'g', 4));
        assert_eq!(decode("00 "), digit(b' ', 3));
        assert_eq!(decode("\u{e9}"), digit(0xc3, 1));
        assert_eq!(decode("000"), Err(HexError::Odd { digits: 3 }));
        for text in ["0x", "0x00", "0X00", "0x0"] {
            assert_eq!(decode(text), Err(HexError::Prefix), "{text}");
        }
        // Every byte at every place of the vectors and of what they leave.
        for at in 0..140 {
            for byte in (0..=255).filter(|byte: &u8| !byte.is_ascii_hexdigit()) {
                let mut text = vec![b'a'; 140];
                text[at] = byte;
                let result = decode_into(&text, &mut vec![]);
                assert_eq!(result, digit(byte, at + 1).map(drop));
            }
        }
    }
}
