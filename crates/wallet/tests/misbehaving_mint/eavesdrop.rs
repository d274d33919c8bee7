//! Finds notes in what a wallet sent.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::conversation::{ALL, LIVE, SPENT, hex, point};
use crate::{ITEMS, item};

/// This many characters at the end of a note in hex identify it.
const TELLING: usize = 24;

/// All points of these tests, with whether [`conversation::mint`](crate::conversation::mint) may be shown them: a live
/// message, or a spent note.
fn notes() -> impl Iterator<Item = ([u8; 33], bool)> {
    let items = (0..2 * ITEMS).map(|number| (item(number), false));
    let may_tell = |number: usize| match number.checked_sub(ALL.end) {
        // A mint may call the first three unspent.
        None => LIVE.contains(&number) || number < 3,
        Some(number) => SPENT.contains(&number),
    };
    items.chain((0..2 * ALL.end).map(move |number| (point(number), may_tell(number))))
}

/// Where the first note of these ends, whose argument is whether it may be shown.
pub(crate) fn find(text: &str, is_told: impl Fn(bool) -> bool) -> Option<usize> {
    static ENDS: OnceLock<HashMap<String, bool>> = OnceLock::new();
    let ends = ENDS.get_or_init(|| {
        let end = |note: [u8; 33]| hex(&note).split_off(66 - TELLING);
        notes().map(|(note, is_match)| (end(note), is_match)).collect()
    });
    let text = text.to_ascii_lowercase();
    let found = |at: &usize| {
        let note = text.get(at - TELLING..*at).and_then(|end| ends.get(end));
        note.is_some_and(|&is_match| is_told(is_match))
    };
    (TELLING..=text.len()).find(found)
}

#[test]
fn find_detects_a_note_wherever_it_is() {
    for (note, is_match) in [(point(LIVE.start), true), (point(7), false), (item(ITEMS), false)] {
        for text in [hex(&note), hex(&note).to_uppercase()] {
            let sent = format!("GET /x?y={text} HTTP/1.1");
            assert_eq!(find(&sent, |told| told == is_match), Some(75));
            assert_eq!(find(&sent, |told| told != is_match), None);
        }
    }
    let path = "GET /v1/filter/spent/009a1f293253e41e HTTP/1.1";
    assert_eq!(find(path, |_| true), None);
}
