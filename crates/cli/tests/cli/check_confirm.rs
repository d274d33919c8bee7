//! `check --confirm`: its output, its exit code, and what it reveals.

use serde_json::Value;

use crate::asking_mint::*;
use crate::nutfilter::{Place, hex};

fn ys(request: &Request) -> &[Value] {
    request.body["Ys"].as_array().expect("a list")
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
fn only_matches_are_sent_in_batches_of_the_given_size() {
    let mint = Mint::honest();
    mint.run("check", &points(60..160), "--confirm --batch 30")
        .ok();
    let posts = mint.posts();
    assert_eq!(posts[0].line, "POST /v1/checkstate HTTP/1.1");
    let sizes: Vec<_> = posts.iter().map(|post| ys(post).len()).collect();
    assert_eq!(sizes, [30, 10]);
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
fn options_without_their_required_option_are_errors() {
    let place = Place::new();
    place.write("mine.hex", points(0..1));
    let mint = format!("check --mint http://127.0.0.1:9 --keyset {KEYSET} mine.hex");
    for args in [
        "check f.json mine.hex --confirm",
        "check f.json mine.hex --batch 5",
        "check f.json mine.hex --cache c",
        &format!("{mint} --no-conditional"),
        &format!("{mint} --batch 5"),
        &format!("{mint} --confirm --batch 0"),
        &format!("{mint} --confirm --batch 1001"),
    ] {
        let error = place.run(args).error();
        assert!(!error.contains("refused"), "{args:?}: {error}");
    }
}
