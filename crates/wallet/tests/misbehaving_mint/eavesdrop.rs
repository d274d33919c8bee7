//! Finds notes in what a wallet sent, in whatever spelling.

use std::collections::HashMap;
use std::sync::OnceLock;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::conversation::{SPENT, hex, note};
use crate::{ITEMS, item};

/// So many bytes at the end of a spelling tell a note from all others.
const TELLING: usize = 12;

/// The last characters of each spelling, and which note they are of.
type Spellings = HashMap<[u8; TELLING], Told>;

/// A note that was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Told {
    /// Whether it is in the filter of [`conversation::mint`](crate::conversation::mint), so that it may be asked about.
    pub(crate) is_match: bool,
    /// Whether it is spelled in hex, as the requests about matches do.
    pub(crate) is_hex: bool,
}

/// All notes that these tests know, in the filter of some mint or in none.
fn notes() -> impl Iterator<Item = ([u8; 33], bool)> {
    let items = (0..2 * ITEMS).map(|number| (item(number), false));
    items.chain((0..2 * SPENT).map(|number| (note(number), number < SPENT)))
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
            // Three notes on end have every place in a group of three bytes; what follows one changes its last
            // letters, so these are left away.
            for before in 0..3 {
                let text = BASE64_STANDARD.encode([&note[..before], &note].concat());
                let whole = (33 + before) / 3 * 4;
                tell(&text.as_bytes()[..whole], false);
            }
        }
        spellings
    })
}

/// The first note in these bytes: as they are, in hex of either case, in base64 of either alphabet.
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
fn a_note_is_found_in_every_spelling_and_at_every_place() {
    let url_safe = base64::prelude::BASE64_URL_SAFE_NO_PAD;
    for (note, is_match) in [(note(7), true), (note(SPENT), false), (item(ITEMS), false)] {
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
                    // In base64 its last byte may be left away, and with it what tells a match.
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
