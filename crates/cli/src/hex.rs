//! Hex text: what is wrong with it, and where.

use std::fmt;

/// Why a text is not hex. Columns are counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HexError {
    /// The digits do not pair up into bytes.
    Odd { digits: usize },
    /// Begins with `0x`, which items never do.
    Prefix,
    /// Something else than a digit.
    Digit { byte: u8, column: usize },
}

impl fmt::Display for HexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            HexError::Odd { digits } => {
                write!(f, "{digits} hex digits, an odd number, make no whole bytes")
            }
            HexError::Prefix => f.write_str("begins with 0x; plain hex digits are wanted"),
            HexError::Digit { byte, column } if byte.is_ascii_graphic() => {
                write!(
                    f,
                    "'{}' in column {column} is not a hex digit",
                    char::from(byte)
                )
            }
            HexError::Digit { byte, column } => {
                write!(f, "byte 0x{byte:02x} in column {column} is not a hex digit")
            }
        }
    }
}

impl std::error::Error for HexError {}

/// Appends the bytes that `text` stands for; on an error `out` may hold some of them.
pub(crate) fn decode_into(text: &[u8], out: &mut Vec<u8>) -> Result<(), HexError> {
    let (pairs, rest) = text.as_chunks::<2>();
    out.reserve(pairs.len());
    for (i, pair) in pairs.iter().enumerate() {
        match (VALUES[usize::from(pair[0])], VALUES[usize::from(pair[1])]) {
            (high @ 0..16, low @ 0..16) => out.push(high << 4 | low),
            _ => return Err(bad_digit(text, i * 2)),
        }
    }
    match rest {
        [] => Ok(()),
        [digit] if VALUES[usize::from(*digit)] < 16 => Err(HexError::Odd { digits: text.len() }),
        _ => Err(bad_digit(text, text.len() - 1)),
    }
}

/// Exactly `N` bytes, as a key has them.
pub(crate) fn decode_array<const N: usize>(text: &str) -> Result<[u8; N], String> {
    let mut bytes = Vec::new();
    decode_into(text.as_bytes(), &mut bytes).map_err(|error| error.to_string())?;
    let digits = text.len();
    bytes
        .try_into()
        .map_err(|_| format!("{digits} hex digits, {} are wanted", N * 2))
}

/// The first bad digit at or after `from`; there is one.
fn bad_digit(text: &[u8], from: usize) -> HexError {
    if text.starts_with(b"0x") || text.starts_with(b"0X") {
        return HexError::Prefix;
    }
    let bad = |byte: &u8| VALUES[usize::from(*byte)] == NONE;
    let at = from + text[from..].iter().position(bad).unwrap_or(0);
    HexError::Digit {
        byte: text[at],
        column: at + 1,
    }
}

/// Stands for "not a digit".
const NONE: u8 = u8::MAX;

/// The value of each digit, [`NONE`] elsewhere.
const VALUES: [u8; 256] = {
    let mut values = [NONE; 256];
    let mut digit = 0;
    while digit < 16 {
        values[b"0123456789abcdef"[digit] as usize] = digit as u8;
        values[b"0123456789ABCDEF"[digit] as usize] = digit as u8;
        digit += 1;
    }
    values
};

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(text: &str) -> Result<Vec<u8>, HexError> {
        let mut out = Vec::new();
        decode_into(text.as_bytes(), &mut out).map(|()| out)
    }

    #[test]
    fn every_byte_comes_back_in_either_case() {
        let bytes: Vec<u8> = (0..=255).collect();
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(decode(&text), Ok(bytes.clone()));
        assert_eq!(decode(&text.to_uppercase()), Ok(bytes));
        assert_eq!(decode(""), Ok(vec![]));
    }

    #[test]
    fn errors_name_the_digit_and_its_column() {
        assert_eq!(
            decode("00g0"),
            Err(HexError::Digit {
                byte: b'g',
                column: 3
            })
        );
        assert_eq!(
            decode("000g"),
            Err(HexError::Digit {
                byte: b'g',
                column: 4
            })
        );
        assert_eq!(
            decode("00 "),
            Err(HexError::Digit {
                byte: b' ',
                column: 3
            })
        );
        assert_eq!(decode("000"), Err(HexError::Odd { digits: 3 }));
        assert_eq!(decode("0x00"), Err(HexError::Prefix));
        assert_eq!(
            decode("\u{e9}"),
            Err(HexError::Digit {
                byte: 0xc3,
                column: 1
            })
        );
    }
}
