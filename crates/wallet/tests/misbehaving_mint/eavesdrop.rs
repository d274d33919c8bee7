//! Finds notes, in any encoding, in the bytes that a wallet sent.

use std::collections::HashMap;
use std::sync::OnceLock;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::conversation::{ALL, LIVE, SPENT, hex, point};
use crate::{ITEMS, item};

/// This many characters at the end of an encoding identify a note.
const TELLING: usize = 12;

/// The last characters of each encoding, and the properties of its note.
type Spellings = HashMap<[u8; TELLING], Told>;

/// A note that was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Told {
    /// Whether [`conversation::mint`](crate::conversation::mint) may be shown it: a live message, or a spent note.
    pub(crate) is_match: bool,
    /// Whether it is in hex, as in the requests about matches.
    pub(crate) is_hex: bool,
}

/// All points of these tests, with whether they may be shown.
fn notes() -> impl Iterator<Item = ([u8; 33], bool)> {
    let items = (0..2 * ITEMS).map(|number| (item(number), false));
    let may_tell = |number: usize| match number.checked_sub(ALL.end) {
        // A mint may call the first two unspent.
        None => LIVE.contains(&number) || number < 2,
        Some(number) => SPENT.contains(&number),
    };
    items.chain((0..2 * ALL.end).map(move |number| (point(number), may_tell(number))))
}

fn spellings() -> &'static Spellings {
    static SPELLINGS: OnceLock<Spellings> = OnceLock::new();
    SPELLINGS.get_or_init(|| {
        let mut spellings = Spellings::new();
        for (note, is_match) in notes() {
            let mut tell = |spelling: &[u8], is_hex| {
                let end = spelling.last_chunk().expect("longer than that");
                spellings.insert(*end, Told { is_match, is_hex });
            };
            tell(&note, false);
            tell(hex(&note).as_bytes(), true);
            // A note can begin at three positions in a base64 group of three bytes. The data after a note changes
            // its last characters, so leave those out.
            for before in 0..3 {
                let text = BASE64_STANDARD.encode([&note[..before], &note].concat());
                let whole = (33 + before) / 3 * 4;
                tell(&text.as_bytes()[..whole], false);
            }
        }
        spellings
    })
}

/// The first note in these bytes: raw, in hex of either case, or in base64 of either alphabet.
pub(crate) fn find(bytes: &[u8], is_told: impl Fn(Told) -> bool) -> Option<(usize, Told)> {
    let lower = bytes.to_ascii_lowercase();
    let mut standard = bytes.to_vec();
    for byte in &mut standard {
        match byte {
            b'-' => *byte = b'+',
            b'_' => *byte = b'/',
            _ => {}
        }
    }
    [bytes, &lower, &standard].into_iter().find_map(|bytes| {
        let windows = bytes.windows(TELLING).enumerate();
        windows
            .filter_map(|(at, window)| {
                let window: [u8; TELLING] = window.try_into().ok()?;
                Some((at, *spellings().get(&window)?))
            })
            .find(|&(_, told)| is_told(told))
    })
}

#[test]
fn find_detects_a_note_in_every_encoding_and_position() {
    let url_safe = base64::prelude::BASE64_URL_SAFE_NO_PAD;
    for (note, is_match) in [
        (point(LIVE.start), true),
        (point(7), false),
        (item(ITEMS), false),
    ] {
        for before in 0..5 {
            for after in 0..5 {
                let bytes = [&b"abcde"[..before], &note, &b"fghij"[..after]].concat();
                let plain = hex(&bytes);
                for text in [
                    bytes.clone(),
                    plain.clone().into_bytes(),
                    plain.to_uppercase().into_bytes(),
                    BASE64_STANDARD.encode(&bytes).into_bytes(),
                    url_safe.encode(&bytes).into_bytes(),
                ] {
                    let sent = [b"GET /x?y=", &text[..], b" HTTP/1.1"].concat();
                    let found = find(&sent, |_| true);
                    let (_, told) = found.unwrap_or_else(|| panic!("{:?}", text.escape_ascii()));
                    // In base64 the last byte may be cut off, and with it the sign of a match.
                    assert!(!told.is_hex || told.is_match == is_match);
                }
            }
        }
    }
    assert_eq!(
        find(b"GET /v1/filter/spent/009a1f293253e41e HTTP/1.1", |_| true),
        None
    );
}
