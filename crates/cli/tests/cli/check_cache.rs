//! `check --mint --cache`: tests of the options. The wallet crate tests what a mint may do.

use std::fs;

use nutfilter_cashu::NoteKind;

use crate::asking_mint::*;
use crate::nutfilter::{Place, assert_contains};

/// Returns 304 for any conditional request.
fn mint() -> Mint {
    Mint::answering(|request| match &request.if_none_match {
        Some(_) => ("304 Not Modified", String::new()),
        None => ("200 OK", filter(NoteKind::Issued)),
    })
}

#[test]
fn second_request_sends_only_the_hash_of_the_filter() {
    let (mint, place) = (mint(), Place::new());
    let items = points(95..105);
    let check = |args: &str| {
        let args = format!("--count --cache kept/here {args}");
        mint.run_in(&place, "check", &items, &args)
    };
    for (asked, said) in [(false, false), (true, true)] {
        let ran = check("");
        assert_eq!(
            ran.stderr.contains("no newer filter"),
            said,
            "{}",
            ran.stderr
        );
        assert_eq!(ran.text(), "maybe\t5\nabsent\t5\n");
        let last = mint.seen().pop().expect("a request");
        assert_eq!(last.if_none_match.is_some(), asked);
    }
    // The other kind has a file of its own.
    check("--kind issued").ok();
    assert_eq!(mint.seen().pop().expect("a request").if_none_match, None);
    // A damaged file is reported, and the filter is downloaded again.
    for file in fs::read_dir(place.path("kept/here")).expect("a directory") {
        fs::write(file.expect("a file").path(), "damaged").expect("a file");
    }
    let ran = check("");
    assert_contains(&ran.stderr, "cached filter discarded");
    assert_eq!(ran.text(), "maybe\t5\nabsent\t5\n");
    assert_eq!(mint.seen().pop().expect("a request").if_none_match, None);
}

#[test]
fn unusable_cache_is_an_error_before_any_request() {
    let (mint, place) = (mint(), Place::new());
    place.write("file", "");
    mint.run_in(&place, "check", &points(0..1), "--cache file")
        .error_with("file");
    assert_eq!(mint.seen().len(), 0);
}
