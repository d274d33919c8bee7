//! Answers that are not filters.

use crate::*;

#[test]
fn odd_error_objects_are_parsed_and_made_printable() {
    let mint_error = |body: String| match fetch_answer(response("422 No", &[], body)) {
        Err(FetchError::Refused(RejectReason::Mint(error))) => error,
        other => panic!("{other:?}"),
    };
    let shouting = mint_error(format!(
        r#"{{"detail": "\u001b[2J{}"}}"#,
        "x".repeat(10_000)
    ));
    assert!(!shouting.to_string().contains('\u{1b}'));
    assert!(shouting.detail.chars().count() <= 301);
}

#[test]
fn other_statuses_are_errors_with_their_number() {
    let page = "<html>".repeat(100_000);
    for (status, number) in [
        ("403 No", 403),
        ("500 Oops", 500),
        ("429 Slow", 429),
        ("304 Same", 304),
    ] {
        let body = if number == 304 { "" } else { &page };
        let fetched = fetch_answer(response(status, &[], body));
        assert_refused!(fetched, RejectReason::Status { status } if status == number);
    }
}

#[test]
fn wrong_types_are_rejected() {
    // JavaScript cannot tell these from good ones.
    for body in [
        r#"{"n":0.0,"p":19,"m":784931,"content":"","timestamp":1}"#,
        r#"{"n":0,"n":0,"p":19,"m":784931,"content":"","timestamp":1}"#,
    ] {
        assert_refused!(fetch_answer(json(body)), RejectReason::Response(_));
    }
    let deep = "[".repeat(100_000);
    assert_refused!(fetch_answer(json(deep)), RejectReason::Response(_));
}

#[test]
fn parse_error_text_stays_short_for_any_response() {
    let body = format!(r#"{{"n":"{}\u001b","content":""}}"#, "x".repeat(1 << 20));
    let error = fetch_answer(json(body))
        .expect_err("not a response")
        .to_string();
    assert!(
        error.len() < 1_000 && !error.contains('\u{1b}'),
        "{} bytes",
        error.len()
    );
}

#[test]
fn garbage_and_hanging_up_are_transport_errors() {
    for answer in [
        "",
        "SSH-2.0-OpenSSH_9.6\r\n",
        "HTTP/1.1 999999 What\r\n\r\n",
        "\0\0\0\0\r\n\r\n",
    ] {
        let fetched = fetch_answer(answer);
        assert_failed!(fetched, FetchError::Cut { .. } | FetchError::Transport(_));
    }
    let nobody = Loopback::saying("");
    let url = nobody.url();
    drop(nobody);
    let client = MintClient::new(&url, Policy::default()).expect("a good URL");
    let fetched = client.fetch(&keyset(), NoteKind::Spent);
    assert_failed!(fetched, FetchError::Transport(_) | FetchError::Cut { .. });
}
