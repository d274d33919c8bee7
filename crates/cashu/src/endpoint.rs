//! Identifies a filter of a mint: [`KeysetId`], [`NoteKind`], and the URL path of both.
//!
//! IDs are parsed once, on input, so the rest of the code never sees a hostile one.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::str::FromStr;

/// Which notes of a keyset a filter contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NoteKind {
    /// Spent notes, by their `Y`.
    Spent,
    /// Signed notes, by their blinded message `B_`.
    Issued,
}

impl NoteKind {
    /// Both kinds, in the order in which they are built and listed.
    pub const ALL: [NoteKind; 2] = [NoteKind::Spent, NoteKind::Issued];

    /// The name in the URL.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            NoteKind::Spent => "spent",
            NoteKind::Issued => "issued",
        }
    }
}

impl fmt::Display for NoteKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The path of a filter below the mint's base URL, with a leading slash.
///
/// ```
/// use nutfilter_cashu::{KeysetId, NoteKind, endpoint_path};
///
/// let old: KeysetId = "I2yN+iRYfk/T".parse()?;
/// assert_eq!(endpoint_path(&old, NoteKind::Spent), "/v1/filter/spent/I2yN%2BiRYfk%2FT");
/// # Ok::<(), nutfilter_cashu::KeysetIdError>(())
/// ```
#[must_use]
pub fn endpoint_path(keyset: &KeysetId, kind: NoteKind) -> String {
    let mut path = alloc::format!("/v1/filter/{kind}/");
    for character in keyset.as_str().chars() {
        // These characters of an ID have a meaning in a path, or are rewritten by some servers.
        match character {
            '+' => path.push_str("%2B"),
            '/' => path.push_str("%2F"),
            _ => path.push(character),
        }
    }
    path
}

/// Version 1 (`00`): the version byte and 7 bytes of a hash, in hex.
const V1_LENGTH: usize = 16;
/// Versions 2 and 3 (`01`, `02`): the version byte and 32 bytes of a hash, in hex.
const V2_LENGTH: usize = 66;
/// IDs from before versions existed: the first 12 characters of a hash in base64.
const LEGACY_LENGTH: usize = 12;

/// A keyset ID with a valid form.
///
/// Three forms exist: 16 hex digits that start with `00`, 66 hex digits that start with `01` or `02`, and 12
/// characters of base64. The spelling is kept, because queries on the mint's database need it. Two IDs are
/// *equal* if they denote the same keyset. Hex digits compare without case. In base64, `/` and `+` equal the
/// `_` and `-` that wallets write into URLs.
///
/// ```
/// use nutfilter_cashu::KeysetId;
///
/// let stored: KeysetId = "I2yN+iRYf/zT".parse()?;
/// let asked: KeysetId = "I2yN-iRYf_zT".parse()?;
/// assert_eq!(stored, asked);
/// assert_eq!(asked.as_str(), "I2yN-iRYf_zT");
/// assert!("../../etc/passwd".parse::<KeysetId>().is_err());
/// # Ok::<(), nutfilter_cashu::KeysetIdError>(())
/// ```
#[derive(Clone)]
pub struct KeysetId {
    /// ASCII, in one of the three forms.
    text: Box<str>,
}

impl KeysetId {
    /// Parses an ID that is already percent-decoded.
    ///
    /// # Errors
    ///
    /// The text has none of the three forms. The cost is limited by the longest form, for text of any length.
    pub fn parse(text: &str) -> Result<Self, KeysetIdError> {
        let bytes = text.as_bytes();
        let hex = || bytes.iter().all(u8::is_ascii_hexdigit);
        let valid = match bytes.len() {
            V1_LENGTH => bytes.starts_with(b"00") && hex(),
            V2_LENGTH => (bytes.starts_with(b"01") || bytes.starts_with(b"02")) && hex(),
            LEGACY_LENGTH => bytes.iter().all(|&byte| is_base64(byte)),
            _ => false,
        };
        if valid {
            Ok(Self { text: text.into() })
        } else {
            Err(KeysetIdError { length: bytes.len() })
        }
    }

    /// The ID in its original spelling.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The spelling that is compared for equality: hex in lower case, and base64 with `-` and `_`, so that it is one segment of a
    /// path and the name of a file.
    #[must_use]
    pub fn canonical(&self) -> String {
        self.characters().map(char::from).collect()
    }

    fn characters(&self) -> impl Iterator<Item = u8> + '_ {
        let legacy = self.text.len() == LEGACY_LENGTH;
        self.text.bytes().map(move |byte| match byte {
            b'+' => b'-',
            b'/' => b'_',
            // In base64 the case of a letter is significant; in hex it is not.
            _ if legacy => byte,
            _ => byte.to_ascii_lowercase(),
        })
    }
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte)
}

impl PartialEq for KeysetId {
    fn eq(&self, other: &Self) -> bool {
        self.characters().eq(other.characters())
    }
}

impl Eq for KeysetId {}

impl PartialOrd for KeysetId {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for KeysetId {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.characters().cmp(other.characters())
    }
}

impl Hash for KeysetId {
    fn hash<S: Hasher>(&self, state: &mut S) {
        // No terminator is needed, because only three lengths exist.
        self.characters().for_each(|byte| state.write_u8(byte));
    }
}

impl FromStr for KeysetId {
    type Err = KeysetIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl fmt::Display for KeysetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for KeysetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeysetId({})", self.text)
    }
}

/// The text is not a keyset ID. The error holds only the length: untrusted text does not belong in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid keyset ID of {length} bytes; expected {V1_LENGTH} hex digits that start with 00, {V2_LENGTH} that start \
     with 01 or 02, or {LEGACY_LENGTH} characters of base64"
)]
pub struct KeysetIdError {
    length: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::ToString;

    const V1: &str = "009a1f293253e41e";

    fn v2(version: &str) -> String {
        format!("{version}{}", "aB".repeat(32))
    }

    #[test]
    fn the_three_forms_are_accepted() {
        for id in [V1, &v2("01"), &v2("02"), "I2yN+iRYfkzT", "////++++____", "0NI3TUAs1Sfy"] {
            assert_eq!(KeysetId::parse(id).unwrap().as_str(), id);
        }
    }

    #[test]
    fn other_forms_are_rejected() {
        let long = "0".repeat(10_000);
        let nul = "00\0a1f293253e41e";
        for id in [
            "",
            "00",
            "..",
            "../",
            "..%2f",
            nul,
            &long,
            &v2("00"),
            &v2("03"),
            "019a1f293253e41e",
            "009a1f293253e41",
            "009a1f293253e41g",
            "I2yN+iRYfkz=",
            "I2yN+iRYfk%2F",
            "I2yN+iRYfkz",
            "I2yN iRYfkzT",
            "009a1f293253e4é",
        ] {
            assert!(KeysetId::parse(id).is_err(), "{id:?}");
        }
    }

    #[test]
    fn error_does_not_contain_the_untrusted_text() {
        let error = KeysetId::parse("<script>").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("script"));
        assert!(error.to_string().contains("8 bytes"));
    }

    #[test]
    fn reserved_path_characters_are_percent_encoded() {
        let id = KeysetId::parse("a/b+c3d_e-f1").unwrap();
        assert_eq!(endpoint_path(&id, NoteKind::Issued), "/v1/filter/issued/a%2Fb%2Bc3d_e-f1");
    }
}
