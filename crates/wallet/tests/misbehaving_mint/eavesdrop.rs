//! Finds notes in the bytes that a wallet sent, raw or in hex.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::conversation::{ALL, LIVE, SPENT, hex, point};
use crate::{ITEMS, item};

/// This many bytes at the end of a note identify it.
const TELLING: usize = 12;

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

/// The first note in these bytes.
pub(crate) fn find(bytes: &[u8], is_told: impl Fn(Told) -> bool) -> Option<(usize, Told)> {
    static ENDS: OnceLock<HashMap<[u8; TELLING], Told>> = OnceLock::new();
    let ends = ENDS.get_or_init(|| {
        let spellings = notes().flat_map(|(note, is_match)| {
            [(note.to_vec(), false), (hex(&note).into_bytes(), true)].map(|(text, is_hex)| {
                let end = *text.last_chunk().expect("longer than that");
                (end, Told { is_match, is_hex })
            })
        });
        spellings.collect()
    });
    let windows = bytes.windows(TELLING).enumerate();
    windows
        .filter_map(|(at, window)| Some((at, *ends.get(window)?)))
        .find(|&(_, told)| is_told(told))
}

#[test]
fn find_detects_a_note_wherever_it_is() {
    for (note, is_match) in [
        (point(LIVE.start), true),
        (point(7), false),
        (item(ITEMS), false),
    ] {
        for (text, is_hex) in [(note.to_vec(), false), (hex(&note).into_bytes(), true)] {
            let sent = [b"GET /x?y=", &text[..], b" HTTP/1.1"].concat();
            let (_, told) = find(&sent, |_| true).expect("a note");
            assert_eq!(told, Told { is_match, is_hex });
        }
    }
    let path = b"GET /v1/filter/spent/009a1f293253e41e HTTP/1.1";
    assert_eq!(find(path, |_| true), None);
}
