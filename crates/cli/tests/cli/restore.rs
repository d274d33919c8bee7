//! `restore`: tests of its output. The wallet crate tests what a mint may do.

use serde_json::Value;

use crate::asking_mint::*;
use crate::nutfilter::{Place, assert_contains, hex};

#[test]
fn each_item_gets_a_line_with_its_signature_if_any() {
    let mint = Mint::honest();
    let items = format!("{}{}", points(1..4), points(KNOWN..KNOWN + 1));
    let signature = format!(
        r#"{{"C_":"{}","amount":8,"dleq":{{"e":"{}","s":"{}"}},"id":"{KEYSET}"}}"#,
        hex(&point(KNOWN)),
        "11".repeat(32),
        "22".repeat(32)
    );
    let wanted = format!(
        "unsigned\t{}\nsigned\t{}\t{signature}\nsigned\t{}\t{signature}\nabsent\t{}\n",
        hex(&point(1)),
        hex(&point(2)),
        hex(&point(3)),
        hex(&point(KNOWN))
    );
    let ran = mint.run("restore", &items, "");
    assert!(ran.stderr.contains("filter of 100 items, as of 1000000"));
    assert_eq!(ran.text(), wanted);
    let lines: Vec<_> = mint
        .seen()
        .into_iter()
        .map(|request| request.line)
        .collect();
    let wanted = [
        format!("GET /v1/filter/issued/{KEYSET} HTTP/1.1"),
        "POST /v1/restore HTTP/1.1".to_owned(),
    ];
    assert_eq!(lines, wanted);
}

#[test]
fn only_matches_are_sent_in_batches_of_the_given_size() {
    let mint = Mint::honest();
    mint.run("restore", &points(60..160), "--batch 15").ok();
    let outputs = |post: Request| post.body["outputs"].as_array().expect("outputs").len();
    let sizes: Vec<_> = mint.posts().into_iter().map(outputs).collect();
    assert_eq!((sizes.len(), sizes.iter().sum()), (3, KNOWN - 60));

    mint.run("restore", &points(60..160), "--max-revealed 39")
        .error_with("40 items match; at most 39");
    assert_eq!(mint.posts().len(), 3);
}

#[test]
fn counts_json_and_exit_code_say_how_many_are_signed() {
    let mint = Mint::honest();
    let items = points(0..110);
    let counts = mint.run("restore", &items, "--count").text();
    assert_eq!(counts, "signed\t98\nunsigned\t2\nabsent\t10\n");
    let all = mint.run("restore", &items, "--json").json();
    assert_eq!(
        (&all["signed"], &all["unsigned"], &all["absent"]),
        (&98.into(), &2.into(), &10.into())
    );
    let answers = all["answers"].as_array().expect("answers");
    assert_eq!(answers[2]["answer"], "signed");
    assert_eq!(answers[2]["signature"]["amount"], 8);
    assert_eq!(answers[1]["answer"], "unsigned");
    assert!(answers[1].get("signature").is_none());
    assert_eq!(all["as_of"], TIMESTAMP);
    // One chance match is accepted, but has no signature.
    let none = mint.run("restore", &points(1..2), "--count");
    assert_eq!(none.code, Some(1), "{}", none.stderr);
    let two = mint.run("restore", &points(0..2), "").error();
    assert_contains(&two, "2 of 2 matches are not in its set");
    assert_eq!(mint.run("restore", &points(KNOWN..102), "").code, Some(1));
}

#[test]
fn errors_are_exit_code_2_without_output() {
    let liar = Mint::answering(|request| match request.body {
        Value::Null => ("200 OK", filter()),
        _ => ("200 OK", r#"{"outputs":[],"signatures":[7]}"#.to_owned()),
    });
    liar.run("restore", &points(2..5), "")
        .error_with("malformed mint response");
    // An item that is not a point is not sent: these 33 bytes are off the curve, and in the filter.
    let off_curve = format!("02{}", "00".repeat(32));
    let place = Place::new();
    place.write("items.hex", &off_curve);
    let body = place.run("build items.hex").text();
    let mint = Mint::answering(move |_| ("200 OK", body.clone()));
    mint.run("restore", &off_curve, "")
        .error_with("match 0 is not a point of");
    assert_eq!(mint.posts().len(), 0);

    for args in [
        "restore items.hex",
        "restore items.hex --mint http://127.0.0.1:9",
        &format!("restore items.hex --keyset {KEYSET}"),
        &format!("restore items.hex --mint mint.example --keyset {KEYSET}"),
        "restore items.hex --mint http://127.0.0.1:9 --keyset ..",
        &format!("restore no-such-file --mint http://127.0.0.1:9 --keyset {KEYSET}"),
        &format!("restore items.hex --mint http://127.0.0.1:9 --keyset {KEYSET}"),
    ] {
        place.run(args).error();
    }
}
