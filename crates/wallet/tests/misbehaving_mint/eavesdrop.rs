//! Finds notes in what a wallet sent: every server of these tests checks that it was sent none without a reason.

use std::collections::HashMap;
use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::OnceLock;

use nutfilter_testing::loopback::Loopback;

use crate::conversation::{ALL, LIVE, SPENT, hex, point};
use crate::{ITEMS, item};

/// A server that may be sent neither a POST request nor a note, unless its check is replaced by one of those below.
pub(crate) fn start(
    reply: impl Fn(&str, &mut TcpStream) -> io::Result<()> + Send + Sync + 'static,
) -> Loopback {
    let server = Loopback::start(0, reply).expect("a free port");
    server.checked(|request| {
        assert!(!request.starts_with("POST "), "{request}");
        assert_finds_only(request, |_| false);
    })
}

/// Sends the same answer to every request.
pub(crate) fn saying(answer: impl Into<Vec<u8>>) -> Loopback {
    let answer = answer.into();
    start(move |_, stream| stream.write_all(&answer))
}

/// Allows requests about the candidates of `conversation` that may be shown.
pub(crate) fn matches_in_posts(request: &str) {
    assert_finds_only(request, |is_match| is_match);
}

/// Allows any candidate in the body of a POST.
pub(crate) fn anything_in_posts(request: &str) {
    assert_finds_only(request, |_| true);
}

/// Checks that the request contains no note, except such ones in the body of a POST.
fn assert_finds_only(request: &str, may_be_shown: fn(bool) -> bool) {
    let asks = request.starts_with("POST ");
    let (head, body) = request.split_once("\r\n\r\n").unwrap_or((request, ""));
    let in_body = || find(body, |is_match| !(asks && may_be_shown(is_match)));
    let found = find(head, |_| true).or_else(in_body);
    assert!(found.is_none(), "{found:?} in {request}");
}

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
