//! Answers that are not filters.

use crate::*;

#[test]
fn long_error_text_is_cut_and_made_printable() {
    let body = format!(r#"{{"detail": "\u001b[2J{}"}}"#, "x".repeat(10_000));
    let error = match fetch_answer(response("422 No", &[], body)) {
        Err(FetchError::Refused(RejectReason::Mint(error))) => error,
        other => panic!("{other:?}"),
    };
    assert!(!error.to_string().contains('\u{1b}') && error.detail.chars().count() <= 301);
}

#[test]
fn parse_error_text_stays_short_for_any_response() {
    let body = format!(r#"{{"n":"{}\u001b","content":""}}"#, "x".repeat(1 << 20));
    let error = fetch_answer(json(body)).expect_err("not a response").to_string();
    assert!(error.len() < 1_000 && !error.contains('\u{1b}'), "{} bytes", error.len());
}

#[test]
fn garbage_and_hanging_up_are_transport_errors() {
    for answer in [
        "",
        "SSH-2.0-OpenSSH_9.6\r\n",
        "HTTP/1.1 999999 What\r\n\r\n",
        "HTTP/0.9 200 OK\r\n\r\n{}",
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
