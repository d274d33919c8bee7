//! `check --confirm`: its output, its exit code, and what it reveals.

use nutfilter::{Params, SortedHashes};
use nutfilter_cashu::FilterResponse;
use serde_json::Value;

use crate::asking_mint::*;
use crate::nutfilter::{Place, hex};

fn ys(request: &Request) -> Vec<String> {
    let ys = request.body["Ys"].as_array().expect("a list");
    ys.iter()
        .map(|y| y.as_str().expect("text").to_owned())
        .collect()
}

#[test]
fn items_get_the_mints_answer_in_order_and_as_given() {
    let mint = Mint::honest();
    let upper = hex(&point(5)).to_uppercase();
    let items = format!(
        "{}{upper}\n{}{upper}\n",
        points(0..3),
        points(KNOWN..KNOWN + 1)
    );
    let wanted = format!(
        "pending\t{}unspent\t{}spent\t{}spent\t{upper}\nabsent\t{}spent\t{upper}\n",
        points(0..1),
        points(1..2),
        points(2..3),
        points(KNOWN..KNOWN + 1)
    );
    let ran = mint.run("check", &items, "--confirm");
    assert!(ran.stderr.contains("filter of 100 items, as of 1000000"));
    assert_eq!(ran.text(), wanted);
}

#[test]
fn only_matches_and_decoys_are_sent_at_equal_size() {
    let mint = Mint::honest();
    let items = points(60..160);
    mint.run("check", &items, "--confirm --batch 30").ok();
    let posts = mint.posts();
    assert_eq!(posts.len(), 2);
    let matching: Vec<_> = (60..KNOWN).map(|number| hex(&point(number))).collect();
    let mut decoys = 0;
    for post in &posts {
        assert_eq!(post.line, "POST /v1/checkstate HTTP/1.1");
        assert_eq!(ys(post).len(), 30);
        for y in ys(post) {
            decoys += usize::from(!matching.contains(&y));
            assert!(matching.contains(&y) || !items.contains(&y));
        }
    }
    assert_eq!(decoys, 20);
    let plain = "--confirm --batch 30 --no-decoys";
    mint.run("check", &items, plain).ok();
    let sizes: Vec<_> = mint.posts()[2..]
        .iter()
        .map(|post| ys(post).len())
        .collect();
    assert_eq!(sizes, [20, 20]);
}

#[test]
fn exit_code_says_whether_any_is_spent_or_pending() {
    let mint = Mint::honest();
    for (number, code) in [(0, 0), (1, 1), (2, 0), (KNOWN, 1)] {
        let ran = mint.run("check", &points(number..number + 1), "--confirm");
        assert_eq!(ran.code, Some(code), "{number}: {}", ran.stderr);
    }
}

#[test]
fn counts_and_json_use_the_four_states() {
    let mint = Mint::honest();
    let items = points(0..110);
    let counts = mint.run("check", &items, "--confirm --count").text();
    assert_eq!(counts, "spent\t98\npending\t1\nunspent\t1\nabsent\t10\n");
    let all = mint.run("check", &items, "--confirm --json").json();
    assert_eq!(
        (
            &all["spent"],
            &all["pending"],
            &all["unspent"],
            &all["absent"]
        ),
        (&98.into(), &1.into(), &1.into(), &10.into())
    );
    assert!(all.get("maybe").is_none());
    let answers = all["answers"].as_array().expect("answers");
    assert_eq!(answers.len(), 110);
    assert_eq!(answers[1]["item"], hex(&point(1)));
    assert_eq!(answers[1]["answer"], "unspent");
    assert_eq!((&all["n"], &all["as_of"]), (&100.into(), &TIMESTAMP.into()));
}

#[test]
fn mint_is_not_asked_without_a_match() {
    let mint = Mint::honest();
    let ran = mint.run("check", &points(KNOWN..200), "--confirm --count");
    assert_eq!(ran.code, Some(1));
    assert_eq!(mint.posts().len(), 0);
}

#[test]
fn items_that_must_stay_private_are_not_sent() {
    let mint = Mint::honest();
    let items = points(0..50);
    for (args, wanted) in [
        ("--max-revealed 49", "50 items match; at most 49"),
        ("--expected 4", "50 of 50 items match; expected 4"),
        (
            "--last-seen 1000001",
            "older than the last one seen (1000001)",
        ),
        ("--min-m 784932", "rate of 1 in 784931; at most 1 in 784932"),
        ("--kind issued", "nutfilter restore"),
    ] {
        mint.run("check", &items, &format!("--confirm {args}"))
            .error_with(wanted);
    }
    assert_eq!(mint.posts().len(), 0);
    assert_eq!(
        mint.run("check", &items, "--confirm --max-revealed 50")
            .code,
        Some(0)
    );
}

#[test]
fn lie_of_the_mint_is_exit_code_2_without_output() {
    for (lie, wanted) in [
        (r#"{"states":[]}"#, "mint response lacks 64 of 64 points"),
        ("<html>", "malformed mint response"),
        (r#"{"detail":"no such path","code":1}"#, "no such path"),
    ] {
        let mint = Mint::answering(move |request| match request.body {
            Value::Null => ("200 OK", filter()),
            _ => ("200 OK", lie.to_owned()),
        });
        let error = mint.run("check", &points(0..70), "--confirm").error();
        assert!(
            error.contains(&mint.url) && error.contains(wanted),
            "{error}"
        );
        assert!((0..70).all(|number| !error.contains(&hex(&point(number)))));
        assert_eq!(mint.posts().len(), 1);
    }
    let missing = Mint::answering(|request| match request.body {
        Value::Null => ("200 OK", filter()),
        _ => ("404 Not Found", String::new()),
    });
    missing
        .run("check", &points(0..3), "--confirm")
        .error_with("HTTP status 404");
}

#[test]
fn lying_filter_is_exit_code_2_and_no_note_is_sent() {
    let good = || FilterResponse::from_json(filter().as_bytes()).expect("a response");
    let matches_all = Params::new(0, 1).expect("parameters");
    let hashes = SortedHashes::from_items((0..KNOWN).map(point));
    let matches_all = hashes.encode(matches_all).expect("a filter");
    let with = |n, timestamp| {
        let mut response = good();
        (response.n, response.timestamp) = (n, timestamp);
        response.to_json()
    };
    let text = filter();
    for (status, body, wanted) in [
        ("200 OK", String::new(), "not a filter response"),
        (
            "200 OK",
            text[..text.len() / 2].to_owned(),
            "not a filter response",
        ),
        ("200 OK", "[".repeat(100_000), "not a filter response"),
        (
            "200 OK",
            FilterResponse::new(&matches_all, TIMESTAMP).to_json(),
            "rate of 1 in 1;",
        ),
        ("200 OK", with(KNOWN as u32, u64::MAX), "in the future"),
        (
            "200 OK",
            with(KNOWN as u32, TIMESTAMP - 1),
            "older than the last one seen",
        ),
        (
            "200 OK",
            with(KNOWN as u32 - 1, TIMESTAMP),
            "damaged filter",
        ),
        ("200 OK", with(u32::MAX, TIMESTAMP), "damaged filter"),
        (
            "200 OK",
            r#"{"detail":"no","code":12001}"#.to_owned(),
            "12001",
        ),
        ("500 Oops", text.clone(), "HTTP status 500"),
        ("302 Found", text.clone(), "without a usable location"),
        ("204 None", String::new(), "HTTP status 204"),
    ] {
        let mint = Mint::answering(move |_| (status, body.clone()));
        let args = "--confirm --last-seen 1000000";
        let error = mint.run("check", &points(0..70), args).error_with(wanted);
        assert!((0..70).all(|number| !error.contains(&hex(&point(number))[2..])));
        let seen = mint.seen();
        assert_eq!(seen.len(), 1, "{wanted}");
        assert_eq!(
            seen[0].line,
            format!("GET /v1/filter/spent/{KEYSET} HTTP/1.1")
        );
        assert_eq!(seen[0].body, Value::Null);
    }
}

#[test]
fn options_without_their_required_option_are_errors() {
    let place = Place::new();
    place.write("mine.hex", points(0..1));
    for args in [
        "check f.json mine.hex --confirm",
        "check f.json mine.hex --batch 5",
        "check f.json mine.hex --cache c",
        &format!("check --mint http://127.0.0.1:9 --keyset {KEYSET} mine.hex --no-conditional"),
        &format!("check --mint http://127.0.0.1:9 --keyset {KEYSET} mine.hex --no-decoys"),
        &format!("check --mint http://127.0.0.1:9 --keyset {KEYSET} mine.hex --batch 5"),
        &format!("check --mint http://127.0.0.1:9 --keyset {KEYSET} mine.hex --confirm --batch 0"),
        &format!(
            "check --mint http://127.0.0.1:9 --keyset {KEYSET} mine.hex --confirm --batch 1001"
        ),
    ] {
        let error = place.run(args).error();
        assert!(!error.contains("refused"), "{args:?}: {error}");
    }
}
