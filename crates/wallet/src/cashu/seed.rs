//! The seed of a wallet, as words or digits.

use std::fmt;
use std::str::FromStr;

use bip39::{Language, Mnemonic};
use thiserror::Error;

/// The 64 bytes from which a wallet derives its notes (NUT-13). Its text is BIP39 words in English, or 128 hex digits.
///
/// ```
/// use nutfilter_wallet::cashu::Seed;
///
/// let words = "half depart obvious quality work element tank gorilla view sugar picture humble";
/// let seed: Seed = words.parse()?;
/// assert_eq!(seed.as_bytes()[..4], [0xdd, 0x44, 0xee, 0x51]);
/// # Ok::<(), nutfilter_wallet::cashu::SeedError>(())
/// ```
#[derive(Clone)]
pub struct Seed([u8; 64]);

/// Why a text does not give a seed. Does not contain the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum SeedError {
    /// The number of words is not one that BIP39 has.
    #[error("expected 12, 15, 18, 21 or 24 words, or 128 hex digits; found {0} words")]
    WordCount(usize),
    /// Hex digits, but not 64 bytes.
    #[error("expected 128 hex digits; found {0}")]
    DigitCount(usize),
    /// A word that is not in BIP39's English list.
    #[error("word {0} is not in the English list of BIP39")]
    UnknownWord(usize),
    /// The last word holds a checksum of all. A word is wrong, or the order.
    #[error("the checksum of the words is wrong: check each word, and their order")]
    Checksum,
}

impl Seed {
    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 64] {
        &self.0
    }
}

impl From<[u8; 64]> for Seed {
    fn from(bytes: [u8; 64]) -> Self {
        Self(bytes)
    }
}

impl FromStr for Seed {
    type Err = SeedError;

    /// White space, a byte-order mark, and the case of letters do not matter. Words have no passphrase: no Cashu wallet asks for one.
    fn from_str(text: &str) -> Result<Self, SeedError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let words: Vec<_> = text.split_whitespace().map(str::to_lowercase).collect();
        let digits = words.concat();
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        // Several may be words, such as `decade`.
        if is_hex && (words.len() == 1 || digits.len() == 128) {
            let bytes = const_hex::decode_to_array(&digits);
            return bytes.map(Self).map_err(|_| SeedError::DigitCount(digits.len()));
        }
        let phrase = Mnemonic::parse_in_normalized(Language::English, &words.join(" "));
        match phrase {
            Ok(phrase) => Ok(Self(phrase.to_seed_normalized(""))),
            Err(bip39::Error::UnknownWord(index)) => Err(SeedError::UnknownWord(index + 1)),
            Err(bip39::Error::InvalidChecksum) => Err(SeedError::Checksum),
            Err(_) => Err(SeedError::WordCount(words.len())),
        }
    }
}

/// Without the bytes.
impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: &str =
        "half depart obvious quality work element tank gorilla view sugar picture humble";

    #[test]
    fn texts_give_the_seed_or_an_error_without_the_text() {
        let seed = Seed::from_str(WORDS).expect("words");
        let digits = const_hex::encode(seed.as_bytes());
        for text in [
            format!("\n  {}\r\n", WORDS.to_uppercase().replace(' ', "\n")),
            format!("{}\n", digits.to_uppercase()),
            // As text editors write it, and `xxd -p`.
            format!("\u{feff}{}\r\n", WORDS.replace(' ', "\u{3000}")),
            format!("\u{feff}{}\n{}\n{}\n", &digits[..60], &digits[60..120], &digits[120..]),
        ] {
            assert_eq!(Seed::from_str(&text).expect("a seed").0, seed.0);
        }
        for (text, error) in [
            (String::new(), SeedError::WordCount(0)),
            (WORDS.replace("half ", ""), SeedError::WordCount(11)),
            (WORDS.replace("view", "vieux"), SeedError::UnknownWord(9)),
            (WORDS.replace("half", "depart"), SeedError::Checksum),
            (digits[2..].to_owned(), SeedError::DigitCount(126)),
            (digits[1..].to_owned(), SeedError::DigitCount(127)),
            (format!("{} {}", &digits[..64], &digits[..63]), SeedError::WordCount(2)),
            // Hex digits, but words.
            ("decade face fade dad add ".repeat(3), SeedError::Checksum),
            ("decade face".to_owned(), SeedError::WordCount(2)),
            (format!("\u{feff}\u{feff}{WORDS}"), SeedError::UnknownWord(1)),
            (format!("0x{digits}"), SeedError::WordCount(1)),
        ] {
            assert_eq!(Seed::from_str(&text).expect_err("no seed"), error);
        }
        assert_eq!(format!("{seed:?}"), "Seed");
    }
}
