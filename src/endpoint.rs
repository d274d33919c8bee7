//! Which filter of a mint: [`KeysetId`], [`Kind`], and the path of both.
//!
//! Ids are parsed once at the door, so that nothing further in ever sees a hostile one.

use alloc::boxed::Box;
use alloc::string::String;
use core::error::Error;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::str::FromStr;

/// Which notes of a keyset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Notes that were spent, by their `Y`.
    Spent,
    /// Notes that were signed, by their blinded message `B_`.
    Issued,
}

impl Kind {
    /// Both, in the order in which they are built and shown.
    pub const ALL: [Kind; 2] = [Kind::Spent, Kind::Issued];

    /// The word in the URL.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Spent => "spent",
            Kind::Issued => "issued",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The path of a filter below the mint's base URL, with a slash in front.
///
/// ```
/// use nutfilter::{KeysetId, Kind, endpoint_path};
///
/// let old: KeysetId = "I2yN+iRYfk/T".parse()?;
/// assert_eq!(endpoint_path(&old, Kind::Spent), "/v1/filter/spent/I2yN%2BiRYfk%2FT");
/// # Ok::<(), nutfilter::KeysetIdError>(())
/// ```
#[must_use]
pub fn endpoint_path(keyset: &KeysetId, kind: Kind) -> String {
    let mut path = alloc::format!("/v1/filter/{kind}/");
    for character in keyset.as_str().chars() {
        // Those of an id's characters that mean something in a path, or that servers like to rewrite.
        match character {
            '+' => path.push_str("%2B"),
            '/' => path.push_str("%2F"),
            _ => path.push(character),
        }
    }
    path
}

/// Version 1 (`00`): 7 bytes of a hash and the version byte, in hex.
const V1_LENGTH: usize = 16;
/// Versions 2 and 3 (`01`, `02`): 32 bytes of a hash and the version byte, in hex.
const V2_LENGTH: usize = 66;
/// Ids older than the versions: the first 12 characters of a hash in base64.
const LEGACY_LENGTH: usize = 12;

/// The id of a keyset, known to have the shape of one.
///
/// Three shapes exist: 16 hex digits beginning `00`, 66 hex digits beginning `01` or `02`, and 12
/// characters of base64. The spelling is kept, because the mint's database has to be asked in its own;
/// two ids are *equal* when they mean the same keyset: hex digits in either case, base64 with `/` and
/// `+` or with the `_` and `-` that wallets write into URLs.
///
/// ```
/// use nutfilter::KeysetId;
///
/// let stored: KeysetId = "I2yN+iRYf/zT".parse()?;
/// let asked: KeysetId = "I2yN-iRYf_zT".parse()?;
/// assert_eq!(stored, asked);
/// assert_eq!(asked.as_str(), "I2yN-iRYf_zT");
/// assert!("../../etc/passwd".parse::<KeysetId>().is_err());
/// # Ok::<(), nutfilter::KeysetIdError>(())
/// ```
#[derive(Clone)]
pub struct KeysetId {
    /// ASCII, of one of the three shapes.
    text: Box<str>,
}

impl KeysetId {
    /// Reads an id, percent-decoded already.
    ///
    /// # Errors
    ///
    /// If the text has none of the three shapes. The cost is bounded by the longest shape, whatever the
    /// length of the text.
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
            Err(KeysetIdError {
                length: bytes.len(),
            })
        }
    }

    /// The id as it was spelled where it came from.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The characters by which ids are compared.
    fn canonical(&self) -> impl Iterator<Item = u8> + '_ {
        let legacy = self.text.len() == LEGACY_LENGTH;
        self.text.bytes().map(move |byte| match byte {
            b'-' => b'+',
            b'_' => b'/',
            // In base64 the case carries bits; in hex it does not.
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
        self.canonical().eq(other.canonical())
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
        self.canonical().cmp(other.canonical())
    }
}

impl Hash for KeysetId {
    fn hash<S: Hasher>(&self, state: &mut S) {
        // Without a terminator, as the length is one of three.
        self.canonical().for_each(|byte| state.write_u8(byte));
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

/// A text that is no keyset id. It holds the length alone: the text came from a stranger and does not
/// belong in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeysetIdError {
    length: usize,
}

impl fmt::Display for KeysetIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a text of {} bytes is no keyset id: {V1_LENGTH} hex digits beginning 00, {V2_LENGTH} \
             beginning 01 or 02, or {LEGACY_LENGTH} characters of base64",
            self.length
        )
    }
}

impl Error for KeysetIdError {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use alloc::format;
    use alloc::string::ToString;

    const V1: &str = "009a1f293253e41e";

    fn v2(version: &str) -> String {
        format!("{version}{}", "aB".repeat(32))
    }

    #[test]
    fn the_three_shapes_are_accepted() {
        for id in [
            V1,
            &v2("01"),
            &v2("02"),
            "I2yN+iRYfkzT",
            "////++++____",
            "0NI3TUAs1Sfy",
        ] {
            assert_eq!(KeysetId::parse(id).unwrap().as_str(), id);
        }
    }

    #[test]
    fn everything_else_is_refused() {
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
    fn an_error_does_not_repeat_what_a_stranger_sent() {
        let error = KeysetId::parse("<script>").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("script"));
        assert!(error.to_string().contains("8 bytes"));
    }

    #[test]
    fn spellings_of_one_keyset_are_equal_and_find_each_other() {
        let id = |text: &str| KeysetId::parse(text).unwrap();
        let mut map = BTreeMap::new();
        map.insert(id("ab+/cd+/ef+/"), 1);
        map.insert(id("00abcdefabcdef00"), 2);
        assert_eq!(map.get(&id("ab-_cd-_ef-_")), Some(&1));
        assert_eq!(map.get(&id("00ABCDEFabcdef00")), Some(&2));
        assert_eq!(map.get(&id("AB+/cd+/ef+/")), None);
        assert_ne!(id("00abcdefabcdef00"), id("00abcdefabcdef01"));
    }

    #[test]
    fn what_means_something_in_a_path_is_percent_encoded() {
        let id = KeysetId::parse("a/b+c3d_e-f1").unwrap();
        assert_eq!(
            endpoint_path(&id, Kind::Issued),
            "/v1/filter/issued/a%2Fb%2Bc3d_e-f1"
        );
    }
}
