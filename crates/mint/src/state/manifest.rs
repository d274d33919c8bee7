//! The state file: what a data directory holds of one kind.
//!
//! ```text
//! nutfilter state 2\n
//! {"profile":"nut25","kind":"spent","as_of":1700000000,"sets":[..],"lost":[],"keysets":[..],"watermark":1234}\n
//! the 1,234 bytes of the watermark
//! the SHA-256 of all that is before (32 bytes)
//! ```
//!
//! The file is replaced by renaming, so it is either complete or absent. The sets that it names are on disk before
//! it.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::NoteKind;
use crate::source::{KeysetInfo, Watermark};

const FIRST_LINE: &[u8] = b"nutfilter state 2\n";

/// The item hash. A set with another hash would answer "absent" to everything.
const PROFILE: &str = "nut25";

const SUM_BYTES: usize = 32;

/// Maximum length of a state file, in bytes.
pub(super) const MAX_BYTES: u64 = 2 * Watermark::MAX_BYTES as u64;

/// The recorded state of a kind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Recorded {
    pub(crate) as_of: u64,
    pub(crate) watermark: Option<Watermark>,
    pub(crate) sets: Vec<RecordedSet>,
    /// Keysets without a set whose notes are unknown. They must not be treated as empty.
    pub(crate) lost: Vec<String>,
    /// The keysets that the mint listed.
    pub(crate) keysets: Vec<KeysetInfo>,
}

/// One set in the directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecordedSet {
    pub(crate) keyset: String,
    /// The name of its file; `None` for an empty set, which has no file.
    pub(crate) file: Option<String>,
    /// The Unix second up to which it is complete.
    pub(crate) as_of: u64,
    /// Its number of items. A crash between two writes leaves more items, which is valid. Fewer items mean damage.
    pub(crate) items: u64,
}

#[derive(Serialize, Deserialize)]
struct Line {
    profile: String,
    kind: String,
    as_of: u64,
    sets: Vec<RecordedSet>,
    lost: Vec<String>,
    keysets: Vec<ListedKeyset>,
    /// Length of the watermark that follows, in bytes; `None` if there is no watermark, which differs from an empty
    /// one.
    watermark: Option<usize>,
}

#[derive(Serialize, Deserialize)]
struct ListedKeyset {
    id: String,
    unit: Option<String>,
    active: bool,
    input_fee_ppk: u64,
}

impl Recorded {
    pub(super) fn to_bytes(&self, kind: NoteKind) -> Vec<u8> {
        let keysets = self.keysets.iter().map(|info| ListedKeyset {
            id: info.id.as_str().to_owned(),
            unit: info.unit.clone(),
            active: info.active,
            input_fee_ppk: info.input_fee_ppk,
        });
        let watermark = self.watermark.as_ref().map(Watermark::as_bytes);
        let line = Line {
            profile: PROFILE.to_owned(),
            kind: kind.to_string(),
            as_of: self.as_of,
            sets: self.sets.clone(),
            lost: self.lost.clone(),
            keysets: keysets.collect(),
            watermark: watermark.map(<[u8]>::len),
        };
        let mut bytes = FIRST_LINE.to_vec();
        // The line contains only strings and numbers, so serialization cannot fail.
        bytes.extend(serde_json::to_vec(&line).unwrap_or_default());
        bytes.push(b'\n');
        bytes.extend_from_slice(watermark.unwrap_or_default());
        let sum = Sha256::digest(&bytes);
        bytes.extend_from_slice(&sum);
        bytes
    }

    /// Parses a state file, or returns what is wrong with it.
    pub(super) fn from_bytes(bytes: &[u8], kind: NoteKind) -> Result<Self, &'static str> {
        if !bytes.starts_with(FIRST_LINE) {
            return Err("not a state file of this version");
        }
        let (said, sum) = bytes.split_last_chunk::<SUM_BYTES>().ok_or("truncated")?;
        if Sha256::digest(said).as_slice() != sum {
            return Err("wrong checksum");
        }
        let said = said.get(FIRST_LINE.len()..).ok_or("truncated")?;
        let end = said
            .iter()
            .position(|&byte| byte == b'\n')
            .ok_or("missing description")?;
        let line: Line = serde_json::from_slice(&said[..end]).map_err(|_| "invalid description")?;
        if line.profile != PROFILE {
            return Err("made with another hash");
        }
        if line.kind != kind.as_str() {
            return Err("of another kind");
        }
        let rest = &said[end + 1..];
        let watermark = match line.watermark {
            None if rest.is_empty() => None,
            Some(length) if rest.len() == length => Some(Watermark::new(rest.to_vec())),
            _ => return Err("wrong watermark length"),
        };
        let keysets = line.keysets.into_iter().map(|listed| {
            Ok(KeysetInfo {
                id: listed.id.parse().map_err(|_| "invalid keyset id")?,
                unit: listed.unit,
                active: listed.active,
                input_fee_ppk: listed.input_fee_ppk,
            })
        });
        Ok(Self {
            as_of: line.as_of,
            watermark,
            sets: line.sets,
            lost: line.lost,
            keysets: keysets.collect::<Result<_, &'static str>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(watermark: Option<&[u8]>) -> Recorded {
        let set = |keyset: &str, file: Option<&str>, items| RecordedSet {
            keyset: keyset.to_owned(),
            file: file.map(str::to_owned),
            as_of: 1_699_999_999,
            items,
        };
        Recorded {
            as_of: 1_700_000_000,
            watermark: watermark.map(|bytes| Watermark::new(bytes.to_vec())),
            sets: vec![
                set("009a1f293253e41e", Some("spent-a-0"), 7),
                set("I2yN+iR/fkzT", None, 0),
            ],
            lost: vec!["00ad268c4d1f5826".to_owned()],
            keysets: vec![KeysetInfo::new("009a1f293253e41e".parse().unwrap())],
        }
    }

    #[test]
    fn state_roundtrips_and_damage_is_detected() {
        for watermark in [None, Some(&b""[..]), Some(b"{\"row\":7}\n\0\xff")] {
            let recorded = recorded(watermark);
            let bytes = recorded.to_bytes(NoteKind::Spent);
            assert_eq!(
                Recorded::from_bytes(&bytes, NoteKind::Spent).as_ref(),
                Ok(&recorded)
            );
            assert!(Recorded::from_bytes(&bytes, NoteKind::Issued).is_err());
            for end in 0..bytes.len() {
                assert!(Recorded::from_bytes(&bytes[..end], NoteKind::Spent).is_err());
            }
            for at in 0..bytes.len() {
                for bit in 0..8 {
                    let mut bytes = bytes.clone();
                    bytes[at] ^= 1 << bit;
                    assert!(Recorded::from_bytes(&bytes, NoteKind::Spent).is_err());
                }
            }
        }
    }
}
