//! `check --mint`: tests of the options. The wallet crate tests what a mint may do.

use nutfilter::{Nut23, Params, SortedHashes};
use nutfilter_cashu::FilterResponse;
use nutfilter_testing::filter_of;

use crate::asking_mint::{Mint, TIMESTAMP, point, points};
use crate::nutfilter::{Place, Ran, assert_contains, hex};

fn serving(status: &'static str, body: String) -> Mint {
    Mint::answering(move |_| (status, body.clone()))
}

/// Points 0..1000.
fn honest() -> Mint {
    serving("200 OK", response(Params::CASHU).to_json())
}

/// The requests so far.
fn asked(mint: &Mint) -> Vec<String> {
    mint.seen().into_iter().map(|seen| seen.line).collect()
}

fn response(params: Params) -> FilterResponse {
    filter_of((0..1000).map(point), params, TIMESTAMP)
}

fn check(mint: &Mint, args: &str) -> Ran {
    mint.run("check", &points(995..1005), args)
}

#[test]
fn mint_is_asked_only_for_the_filter() {
    let mint = honest();
    assert_eq!(check(&mint, "--count").text(), "maybe\t5\nabsent\t5\n");
    assert!(check(&mint, "--kind issued --json").json()["as_of"] == TIMESTAMP);
    let wanted =
        ["spent", "issued"].map(|kind| format!("GET /v1/filter/{kind}/009a1f293253e41e HTTP/1.1"));
    assert_eq!(asked(&mint), wanted);
}

#[test]
fn proxy_option_precedes_the_environment() {
    let mint = honest();
    let place = Place::new();
    place.write("mine.hex", points(995..1005));
    let run = |args: &str, variables: &[(&str, &str)]| {
        let first = "check mine.hex --count --keyset 009a1f293253e41e --mint";
        let mut command = place.command(format!("{first} {} {args}", mint.url));
        command.envs(variables.iter().copied());
        Ran::from(command.output().expect("the binary"))
    };
    // Nothing listens there.
    let closed = "socks5h://alice:hunter2@127.0.0.1:9";
    for (args, variables) in [
        (&*format!("--proxy {closed}"), &[][..]),
        ("", &[("ALL_PROXY", closed)]),
        ("", &[("http_proxy", closed), ("no_proxy", "localhost")]),
        (&format!("--proxy {closed}"), &[("no_proxy", "*")]),
    ] {
        let error = run(args, variables).error();
        let wanted = "through proxy socks5h://127.0.0.1:9: Connection refused";
        assert!(error.contains(wanted) && !error.contains("hunter2"), "{error}");
    }
    // An invalid variable must not be ignored.
    run("", &[("all_proxy", "ftp://alice:hunter2@127.0.0.1:9")])
        .error_with("invalid proxy URL \"ftp://…@127.0.0.1:9\"");
    assert!(asked(&mint).is_empty());
    for (args, variables) in [
        ("--proxy none", &[("ALL_PROXY", closed)][..]),
        ("", &[("ALL_PROXY", closed), ("NO_PROXY", "127.0.0.1")]),
    ] {
        assert_eq!(run(args, variables).text(), "maybe\t5\nabsent\t5\n");
    }
}

#[test]
fn mint_profile_may_be_nut23_and_never_bip158() {
    let hashes = SortedHashes::builder(Nut23).hash_items((0..1000).map(point));
    let filter = hashes.encode(Params::CASHU).expect("a filter");
    let mint = serving("200 OK", FilterResponse::new(&filter, 0).to_json());
    let counts = check(&mint, "--profile nut23 --count").text();
    assert_eq!(counts, "maybe\t5\nabsent\t5\n");
    let block = "--profile bip158 --block-hash 00112233445566778899aabbccddeeff";
    check(&mint, block).error_with("mints do not use this hash");
}

#[test]
fn default_limits_are_those_of_the_policy() {
    let weak = Params::new(6, 64).expect("good parameters");
    let mint = serving("200 OK", response(weak).to_json());
    check(&mint, "").error_with("rate of 1 in 64;");
    let mint = honest();
    check(&mint, "--timeout 0").error_with("must be greater than 0");
    assert!(check(&mint, "--timeout -1").code == Some(2));
    let too_many = check(&mint, "--expected 0").error();
    assert_contains(&too_many, "5 of 10 items match");
    assert_eq!(check(&mint, "--expected 5").code, Some(0));
}

#[test]
fn error_of_the_mint_is_exit_code_2_and_never_absent() {
    let body = r#"{"detail": "keyset is not known", "code": 12001}"#.to_owned();
    let unknown = serving("400 Bad Request", body);
    let error = check(&unknown, "").error();
    assert!(
        error.contains(&unknown.url) && error.contains("the mint does not have this keyset"),
        "{error}"
    );

    let page = serving("200 OK", "<html>".to_owned());
    check(&page, "").error_with("not a filter response");

    let place = Place::new();
    place.write("mine.hex", points(0..1));
    place.fail_each(
        "check mine.hex",
        "
        --mint http://127.0.0.1:9 --keyset 009a1f293253e41e => Connection refused
        --mint mint.example --keyset 009a1f293253e41e => http:// or https://
        --mint http://127.0.0.1:9 --keyset .. => --keyset
        --mint http://127.0.0.1:9 => --keyset
        --mint http://127.0.0.1:9 --keyset=-2yN-iRYfk_T => Connection refused
        --mint http://127.0.0.1:9 --keyset -2yN-iRYfk_T => Connection refused
        --expected -1 => '--expected <COUNT>': invalid digit
        --timeout -1.5 => must be greater than 0
        --mint http://127.0.0.1:9 --keyset 009a1f293253e41e mine.hex => only file
        --mint http://127.0.0.1:9 --keyset 009a1f293253e41e --input text => --input",
    );
}

#[test]
fn items_that_are_not_points_are_refused_by_their_place() {
    let mint = honest();
    let place = Place::new();
    let run = |items: &str| {
        let args = format!("check --mint {} --keyset 009a1f293253e41e -", mint.url);
        place.run_with(args, items.as_bytes())
    };
    let good = points(0..2);
    let x_only = hex(&point(0)[1..]);
    for (wrong, wanted) in [
        (&*x_only, "item 3 (32 bytes) is not a point of the keyset's curve (33 bytes)"),
        ("cashuAeyJ0b2tlbiI6W10", "line 3: a token or proofs, not a point; derive `Y`"),
        ("not hex", "line 3: 'n' in column 1 is not a hex digit"),
    ] {
        let error = run(&format!("{good}{wrong}")).error_with(wanted);
        assert!(!error.contains("--input") && !error.contains(&x_only), "{error}");
    }
    run("\n").error_with("no items");
    assert_eq!(run("alice").error_with("'l' in column 2").lines().count(), 1);
    // The same for a response in a file, of which only the length is known.
    place.write("spent.json", response(Params::CASHU).to_json());
    let items = format!("{good}aabb");
    place
        .run_with("check spent.json -", items.as_bytes())
        .error_with("item 3 (2 bytes) is not a point of a curve of Cashu (33 or 48 bytes)");
    place
        .run_with("check spent.json - --input text", b"alice")
        .error_with("item 1 (5 bytes) is not a point");
}

#[test]
fn certificates_of_the_environment_are_read_or_an_error() {
    let place = Place::new();
    place.write("junk", "junk");
    for (file, wanted) in [
        ("missing", "SSL_CERT_FILE missing: No such file"),
        ("junk", "SSL_CERT_FILE junk: invalid root certificates: expected PEM text"),
        ("", "Connection refused"),
    ] {
        let mut command = place.command("inspect https://127.0.0.1:9");
        command.env("SSL_CERT_FILE", file);
        Ran::from(command.output().expect("the binary")).error_with(wanted);
    }
}
