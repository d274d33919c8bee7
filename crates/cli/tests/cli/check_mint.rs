//! `check --mint`: tests of the options. The wallet crate tests what a mint may do.

use nutfilter::{Nut23, Params, SortedHashes};
use nutfilter_cashu::FilterResponse;

use crate::asking_mint::{Mint, TIMESTAMP};
use crate::nutfilter::{Place, Ran, assert_contains, item, lines};

fn serving(status: &'static str, body: String) -> Mint {
    Mint::answering(move |_| (status, body.clone()))
}

/// Items 0..1000.
fn honest() -> Mint {
    serving("200 OK", response(Params::CASHU).to_json())
}

/// The requests so far.
fn asked(mint: &Mint) -> Vec<String> {
    mint.seen().into_iter().map(|seen| seen.line).collect()
}

fn response(params: Params) -> FilterResponse {
    let hashes = SortedHashes::from_items((0..1000).map(item));
    FilterResponse::new(&hashes.encode(params).expect("a filter"), TIMESTAMP)
}

fn check(mint: &Mint, args: &str) -> Ran {
    let place = Place::new();
    place.write("mine.hex", lines(995..1005));
    let url = &mint.url;
    place.run(format!(
        "check --mint {url} --keyset 009a1f293253e41e mine.hex {args}"
    ))
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
    place.write("mine.hex", lines(995..1005));
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
        assert!(
            error.contains(wanted) && !error.contains("hunter2"),
            "{error}"
        );
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
    let hashes = SortedHashes::builder(Nut23).hash_items((0..1000).map(item));
    let filter = hashes.encode(Params::CASHU).expect("a filter");
    let mint = serving("200 OK", FilterResponse::new(&filter, 0).to_json());
    let counts = check(&mint, "--profile nut23 --count").text();
    assert_eq!(counts, "maybe\t5\nabsent\t5\n");
    let block = "--profile bip158 --key 00112233445566778899aabbccddeeff";
    check(&mint, block).error_with("mints do not use this hash");
}

#[test]
fn default_limits_are_those_of_the_policy() {
    let weak = Params::new(6, 64).expect("good parameters");
    let mint = serving("200 OK", response(weak).to_json());
    check(&mint, "").error_with("rate of 1 in 64;");
    let counts = check(&mint, "--min-m 64 --count").text();
    assert!(counts.starts_with("maybe\t"), "{counts}");

    let mint = honest();
    check(&mint, "--max-bytes 100").error_with("at most 100 are accepted");
    check(&mint, "--timeout 0").error_with("must be greater than 0");
    assert!(check(&mint, "--timeout -1").code == Some(2));
    let rolled_back = check(&mint, "--last-seen 1000001").error();
    assert_contains(
        &rolled_back,
        "dated 1000000, older than the last one seen (1000001",
    );
    assert_eq!(check(&mint, "--last-seen 1000000").code, Some(0));
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
        error.contains(&unknown.url) && error.contains("keyset is not known"),
        "{error}"
    );
    assert_contains(&error, "12001");

    let page = serving("200 OK", "<html>".to_owned());
    check(&page, "").error_with("not a filter response");

    let place = Place::new();
    place.write("mine.hex", lines(0..1));
    place.fail_each(
        "check mine.hex",
        "
        --mint http://127.0.0.1:9 --keyset 009a1f293253e41e => Connection refused
        --mint mint.example --keyset 009a1f293253e41e => http:// or https://
        --mint http://127.0.0.1:9 --keyset .. => --keyset
        --mint http://127.0.0.1:9 => --keyset
        --mint http://127.0.0.1:9 --keyset=-2yN-iRYfk_T => Connection refused
        --mint http://127.0.0.1:9 --keyset -2yN-iRYfk_T => Connection refused
        --last-seen -1 => '--last-seen <SECONDS>': is below zero
        --timeout -1.5 => must be greater than 0
        --raw --n -1 => '--n <N>': is below zero
        --mint http://127.0.0.1:9 --keyset 009a1f293253e41e mine.hex => only file
        --mint http://127.0.0.1:9 --keyset 009a1f293253e41e --raw => --raw",
    );
}

#[test]
fn password_in_the_url_is_rejected_and_not_printed() {
    let place = Place::new();
    place.write("mine.hex", lines(0..1));
    let url = "http://user:hunter2@127.0.0.1:9";
    let args = format!("check mine.hex --mint {url} --keyset 009a1f293253e41e");
    let error = place.run(args).error();
    assert!(
        !error.contains("hunter2") && !error.contains("user:"),
        "{error}"
    );
}
