//! `restore`: tests of its output. The wallet crate tests what a mint may do.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::asking_mint::*;
use crate::nutfilter::{Place, Ran, assert_contains, hex, lines};

/// The number of lines that begin with each word.
fn counts(ran: &Ran) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in String::from_utf8_lossy(&ran.stdout).lines() {
        let word = line.split('\t').next().unwrap_or_default();
        *counts.entry(word.to_owned()).or_insert(0) += 1;
    }
    counts
}

fn requests(mint: &Mint) -> Vec<String> {
    mint.seen().into_iter().map(|request| request.line).collect()
}

#[test]
fn each_candidate_gets_a_line_with_its_signature_if_live() {
    let mint = Mint::honest();
    let some = [1, SPENT, 97, UNSIGNED, ISSUED];
    let input: String = some.iter().map(|&i| pairs(i..i + 1)).collect();
    let signature = format!(
        r#"{{"C_":"{}","amount":8,"dleq":{{"e":"{}","s":"{}"}},"id":"{KEYSET}"}}"#,
        hex(&point(ISSUED)),
        "11".repeat(32),
        "22".repeat(32)
    );
    let [a, b, c, d, e] = some.map(|i| hex(&point(i)));
    let wanted = format!(
        "spent\t{a}\nlive\t{b}\t{signature}\nlive\t{c}\t{signature}\nunsigned\t{d}\nunused\t{e}\n"
    );
    let ran = mint.run("restore", &input, "");
    for said in [
        "as of 1000000 (Mon, 12 Jan 1970 13:46:40 GMT) for spent notes, 1000000 (Mon, 12 Jan 1970 13:46:40 GMT) for issued ones",
        "1 in 390,000 that one of 2 live notes was taken for spent; --confirm asks the mint",
        "next counter: 44, with a gap of 40",
        "warning: mint response has the same signature on several messages",
        "warning: issued by the filter, but the mint gave no signature: counter 3",
    ] {
        assert_contains(&ran.stderr, said);
    }
    assert_eq!(ran.text(), wanted);
    let wanted = [
        format!("GET /v1/filter/spent/{KEYSET} HTTP/1.1"),
        format!("GET /v1/filter/issued/{KEYSET} HTTP/1.1"),
        "GET /v1/info HTTP/1.1".to_owned(),
        "GET /v1/info HTTP/1.1".to_owned(),
        "GET /v1/keysets HTTP/1.1".to_owned(),
        "POST /v1/restore HTTP/1.1".to_owned(),
    ];
    assert_eq!(requests(&mint), wanted);
    let shown = mint.posts()[0].body["outputs"].as_array().expect("outputs").len();
    assert_eq!(shown, 3);
}

#[test]
fn filters_that_contradict_each_other_are_fetched_again() {
    let filters = AtomicUsize::new(0);
    let mint = Mint::answering(move |request| {
        let is_filter = request.path().contains("/filter/");
        // The first answer for issued notes has none.
        match is_filter && filters.fetch_add(1, Ordering::SeqCst) == 1 {
            true => {
                ("200 OK", r#"{"n":0,"p":19,"m":784931,"content":"","timestamp":1}"#.to_owned())
            }
            false => honest(request),
        }
    });
    let ran = mint.run("restore", &pairs(0..UNSIGNED), "");
    assert_eq!((ran.code, counts(&ran)["live"]), (Some(0), 38), "{}", ran.stderr);
    let fetched = requests(&mint).iter().filter(|line| line.contains("/filter/")).count();
    assert_eq!(fetched, 4);
}

#[test]
fn confirm_asks_about_the_spent_ones_too() {
    let mint = Mint::honest();
    let ran = mint.run("restore", &pairs(0..UNSIGNED), "--confirm");
    let [pending, unspent] = [0, 1].map(|i| hex(&point(i)));
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(text.starts_with(&format!("pending\t{pending}\nlive\t{unspent}\t{{")), "{text}");
    let wanted = [("live", 39), ("pending", 1), ("spent", 58)];
    assert_eq!(counts(&ran), wanted.map(|(word, number)| (word.to_owned(), number)).into());
    assert!(!ran.stderr.contains("by chance") && !ran.stderr.contains("1 in"), "{}", ran.stderr);
    // Signatures on live notes, states of spent ones, and a signature on the one that is unspent.
    assert_eq!(mint.posts().len(), 3);
}

#[test]
fn exit_code_says_whether_any_note_is_live() {
    let mint = Mint::honest();
    for (numbers, code) in [(SPENT - 1..SPENT + 1, 0), (0..SPENT, 1), (ISSUED..110, 1), (98..99, 1)]
    {
        let ran = mint.run("restore", &pairs(numbers.clone()), "");
        assert_eq!(ran.code, Some(code), "{numbers:?}: {}", ran.stderr);
    }
}

#[test]
fn what_is_known_is_printed_after_an_error() {
    // A refused message is skipped.
    let mint = Mint::honest();
    let ran = mint.run("restore", &pairs(SPENT..ISSUED), "");
    assert_eq!((ran.code, counts(&ran)["live"]), (Some(2), 38));
    for said in [
        r#"warning: candidate 40: the mint returned error "amount 0" (code 11006, HTTP 400)"#,
        "1 of 40 candidates have no result; rerun with only these",
    ] {
        assert_contains(&ran.stderr, said);
    }
    // The signatures are known when the mint fails. The rest has the notes whose states were asked.
    let posts = AtomicUsize::new(0);
    let mint = Mint::answering(move |request| {
        match request.line.starts_with("POST ") && posts.fetch_add(1, Ordering::SeqCst) == 1 {
            true => ("500 Oops", String::new()),
            false => honest(request),
        }
    });
    let input = pairs(0..UNSIGNED);
    let ran = mint.run("restore", &input, "--confirm");
    let wanted = [("live".to_owned(), 38)];
    assert_eq!((ran.code, counts(&ran)), (Some(2), wanted.into()));
    assert_contains(&ran.stderr, "HTTP status 500");
    let printed = String::from_utf8_lossy(&ran.stdout).into_owned();
    let has_line = |pair: &&str| printed.contains(pair.split('\t').next().expect("B_"));
    let rest: String =
        input.lines().filter(|pair| !has_line(pair)).map(|pair| format!("{pair}\n")).collect();
    assert_eq!(rest.lines().count(), 60);
    let ran = mint.run("restore", &rest, "--confirm");
    let wanted = [("live", 1), ("pending", 1), ("spent", 58)];
    let wanted = wanted.map(|(word, number)| (word.to_owned(), number));
    assert_eq!(counts(&ran), wanted.into(), "{}", ran.stderr);
}

#[test]
fn implausible_filters_and_wrong_items_show_the_mint_nothing() {
    let mint = Mint::honest();
    let input = pairs(0..ISSUED);
    let error = mint.run("restore", &input, "--expected 3").error();
    assert_contains(&error, "40 of 100 items match; expected 3, accepted up to 31");
    assert_contains(&error, "--expected");
    let warned = mint.run("restore", &pairs(0..UNSIGNED), "--expected 90");
    assert_contains(&warned.stderr, "only 38 of 98 items match, expected 90");
    let before = mint.posts().len();
    for (input, wanted) in [
        (String::new(), "no candidates"),
        (
            lines(0..2).replace('\n', "\t"),
            "B_ 1 (33 bytes) is not a point of the keyset's curve (33 bytes)",
        ),
        (format!("{}\t{}\n", hex(&point(0)), "07".repeat(32)), "Y 1 (32 bytes) is not a point"),
        (points(0..2), "line 1: expected B_ and Y in hex, found 1 fields"),
        ("\n00\t0g\n".to_owned(), "line 2: 'g' in column 2 is not a hex digit"),
        ("cashuBo2F0gaJhaUgA".to_owned(), "line 1: a token or proofs, not a point; derive `Y`"),
        ("[{\"id\":1}]".to_owned(), "line 1: a token or proofs, not a point; derive `Y`"),
    ] {
        let error = mint.run("restore", &input, "").error_with(wanted);
        assert!(!error.contains("--input"), "{error}");
    }
    assert_eq!(mint.posts().len(), before);
}

#[test]
fn invalid_arguments_are_errors() {
    let place = Place::new();
    place.write("pairs", pairs(0..2));
    place.fail_each(
        "restore",
        "
        --mint http://127.0.0.1:9 => expected --seed-file, or --keyset and PAIRS
        pairs => --mint <URL>
        pairs --mint http://127.0.0.1:9 => --keyset <ID>
        pairs --keyset 009a1f293253e41e => --mint <URL>
        pairs --mint mint.example --keyset 009a1f293253e41e => http:// or https://
        pairs --mint http://127.0.0.1:9 --keyset .. => --keyset
        none --mint http://127.0.0.1:9 --keyset 009a1f293253e41e => none: No such file
        pairs --mint http://127.0.0.1:9 --keyset 009a1f293253e41e => Connection refused
        pairs --mint http://127.0.0.1:9 --keyset 009a1f293253e41e --profile nut25 => --profile
        pairs --mint http://127.0.0.1:9 --keyset 009a1f293253e41e --time-limit 0 => greater than 0",
    );
}
