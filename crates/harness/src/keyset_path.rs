//! Any text as a keyset ID: an error, or an ID whose path leads only to itself.

use core::cmp::Ordering;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use arbitrary::Arbitrary;
use nutfilter_cashu::{KeysetId, NoteKind, endpoint_path};

/// A text, and how to derive a second one from it.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Case<'a> {
    /// The kind of the filter: the lowest bit.
    pub kind: u8,
    /// Which characters of the second text have the other spelling: one bit each, repeated.
    pub respelled: u16,
    /// A character of the second text to replace: its place, and the new character.
    pub changed: Option<(u8, u8)>,
    /// The text.
    pub text: &'a str,
}

impl Case<'_> {
    /// Parses and compares the texts, builds the path, and parses it.
    ///
    /// # Panics
    ///
    /// If an invalid ID is accepted, a valid one is rejected, or the path is that of another ID.
    pub fn check(&self) {
        let parsed = KeysetId::parse(self.text);
        assert_eq!(parsed.is_ok(), is_id(self.text), "{self:?}");
        let second = self.second();
        let other = KeysetId::parse(&second);
        assert_eq!(other.is_ok(), is_id(&second), "{self:?}");
        let id = match (parsed, self.text.parse::<KeysetId>()) {
            (Ok(id), Ok(again)) => {
                assert_eq!((&id, id.as_str()), (&again, again.as_str()), "{self:?}");
                id
            }
            (Err(error), Err(again)) => {
                assert_eq!(error, again, "{self:?}");
                // The error text has bounded length, however long the ID was.
                assert!(error.to_string().len() < 200, "{self:?}");
                return;
            }
            (parsed, again) => panic!("{parsed:?} and {again:?}: {self:?}"),
        };
        assert_eq!((id.as_str(), &*id.to_string()), (self.text, self.text));
        let kind = NoteKind::ALL[usize::from(self.kind & 1)];
        check_path(&id, kind);
        if let Ok(other) = other {
            check_pair(&id, &other);
            check_path(&other, kind);
        }
    }

    /// The same text in another spelling, with or without a changed character.
    fn second(&self) -> String {
        let spelled = |(at, character): (usize, char)| match character {
            _ if self.respelled >> (at % 16) & 1 == 0 => character,
            '+' => '-',
            '-' => '+',
            '/' => '_',
            '_' => '/',
            _ if character.is_ascii_lowercase() => character.to_ascii_uppercase(),
            _ => character.to_ascii_lowercase(),
        };
        let mut text: Vec<char> = self.text.chars().enumerate().map(spelled).collect();
        if let Some((at, to)) = self.changed
            && !text.is_empty()
        {
            let at = usize::from(at) % text.len();
            text[at] = char::from(to);
        }
        text.into_iter().collect()
    }
}

/// Whether this is an ID, according to its documentation.
fn is_id(text: &str) -> bool {
    let hex = || text.chars().all(|c| c.is_ascii_hexdigit());
    let base64 = |c| matches!(c, '0'..='9' | 'a'..='z' | 'A'..='Z' | '+' | '/' | '-' | '_');
    match (text.chars().count(), text.get(..2)) {
        (16, Some("00")) | (66, Some("01" | "02")) => hex(),
        (12, _) => text.chars().all(base64),
        _ => false,
    }
}

/// The common form of all spellings of an ID.
fn canonical(id: &KeysetId) -> String {
    let text = id.as_str();
    match text.len() {
        12 => text.replace('+', "-").replace('/', "_"),
        _ => text.to_ascii_lowercase(),
    }
}

fn check_pair(a: &KeysetId, b: &KeysetId) {
    let expected = canonical(a).as_bytes().cmp(canonical(b).as_bytes());
    assert_eq!(a.cmp(b), expected, "{a} and {b}");
    assert_eq!(b.cmp(a), expected.reverse(), "{a} and {b}");
    assert_eq!(a.partial_cmp(b), Some(expected), "{a} and {b}");
    assert_eq!(a == b, expected == Ordering::Equal, "{a} and {b}");
    let hash = |id: &KeysetId| {
        let mut hasher = DefaultHasher::new();
        id.hash(&mut hasher);
        hasher.finish()
    };
    // Different IDs could collide, but none that a case can produce will.
    assert_eq!(hash(a) == hash(b), a == b, "{a} and {b}");
    // The path keeps the spelling.
    let same = endpoint_path(a, NoteKind::Spent) == endpoint_path(b, NoteKind::Spent);
    assert_eq!(same, a.as_str() == b.as_str(), "{a} and {b}");
}

/// Checks that the path is the fixed prefix and one segment that decodes to the ID.
fn check_path(id: &KeysetId, kind: NoteKind) {
    let path = endpoint_path(id, kind);
    let segments: Vec<&str> = path.split('/').collect();
    let &["", "v1", "filter", word, segment] = segments.as_slice() else {
        panic!("{path}");
    };
    assert_eq!(word, kind.to_string());
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '%' | '-' | '_');
    assert!(segment.chars().all(plain), "{path}");
    let decoded = percent_decoded(segment);
    assert_eq!(decoded, id.as_str(), "{path}");
    // A server that decodes before it splits still gets the characters of the id, and no way up.
    assert!(!decoded.contains('.'), "{path}");
}

fn percent_decoded(segment: &str) -> String {
    let mut parts = segment.split('%');
    let mut decoded = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (digits, rest) = part.split_at(2);
        let code = u8::from_str_radix(digits, 16).expect("two hex digits");
        decoded.push(char::from(code));
        decoded.push_str(rest);
    }
    decoded
}
