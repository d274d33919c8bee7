//! Answers with invalid framing: transfer codings, chunks, trailers, duplicate headers, a missing head.

use crate::*;

fn fetch_within(answer: Vec<u8>, deadline: Duration) -> Fetched {
    let policy = policy!(deadline);
    fetch_by(&Loopback::saying(answer), policy)
}

fn assert_whole_or_error(fetched: Fetched) {
    assert!(fetched.is_err() || fetched.is_ok_and(|filter| filter.n() == ITEMS));
}

/// A head with chunked encoding, followed by `body`.
fn chunked(body: &str) -> Vec<u8> {
    let mut answer = head("200 OK", &[("Transfer-Encoding", "chunked")]);
    answer.extend_from_slice(body.as_bytes());
    answer
}

#[test]
fn chunks_with_wrong_lengths_are_errors() {
    let body = honest(now()).to_json();
    let len = body.len();
    let sizes = [
        "xyz".to_owned(),
        format!("-{len:x}"),
        String::new(),
        format!("{:x}", len - 1),
        format!("{:x}", len + 1),
        "ffffffff".to_owned(),
        "f".repeat(16),
        "f".repeat(17),
        format!("{}{len:x}", "0".repeat(1 << 20)),
    ];
    let of_sizes = sizes.map(|size| format!("{size}\r\n{body}\r\n0\r\n\r\n"));
    let others = [
        format!("{len:x};{}\r\n", "x".repeat(1 << 20)),
        // No end, an end first, and nothing.
        format!("{len:x}\r\n{body}\r\n"),
        format!("0\r\n\r\n{len:x}\r\n{body}\r\n0\r\n\r\n"),
        String::new(),
    ];
    for text in of_sizes.into_iter().chain(others) {
        let what: String = text.chars().take(20).collect();
        let fetched = fetch_answer(chunked(&text));
        assert!(fetched.is_err(), "{what:?}: {fetched:?}");
    }
    // The same body with correct chunk lengths.
    let (one, other) = body.split_at(len / 2);
    let whole = format!(
        "{:x}\r\n{one}\r\n{:X};x=y\r\n{other}\r\n0\r\n\r\n",
        one.len(),
        other.len()
    );
    assert_eq!(fetch_answer(chunked(&whole)).expect("a filter").n(), ITEMS);
}

#[test]
fn trailers_are_ignored_and_cannot_prevent_the_end() {
    let body = honest(now()).to_json();
    let whole = format!("{:x}\r\n{body}\r\n0\r\n", body.len());
    // A trailer comes too late to describe the body.
    for trailer in [
        "Content-Encoding: gzip\r\n",
        "Content-Length: 1\r\n",
        "Location: /\r\n",
    ] {
        let fetched = fetch_answer(chunked(&format!("{whole}{trailer}\r\n")));
        match fetched {
            Ok(filter) => assert_eq!(filter.n(), ITEMS),
            Err(error) => assert!(matches!(error, FetchError::Transport(_)), "{error:?}"),
        }
    }
    let endless = chunked(&whole);
    let mint = Loopback::start(move |_, stream| {
        stream.write_all(&endless)?;
        loop {
            stream.write_all(b"X-More: and more\r\n")?;
        }
    });
    let policy = policy!(max_bytes: 1 << 20);
    // The body is complete, so the filter may be accepted. What matters is that the fetch ends.
    match fetch_by(&mint, policy) {
        Ok(filter) => assert_eq!(filter.n(), ITEMS),
        Err(error) => assert!(!matches!(error, FetchError::Refused(_)), "{error:?}"),
    }
}

#[test]
fn unrequested_transfer_codings_are_never_decoded() {
    let body = honest(now()).to_json();
    for coding in [
        "gzip",
        "gzip, chunked",
        "deflate, chunked",
        "chunked, gzip",
        "chunked, chunked",
    ] {
        let mut answer = head("200 OK", &[("Transfer-Encoding", coding)]);
        // The first bytes of a gzip stream.
        answer.extend_from_slice(b"a\r\n\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\r\n0\r\n\r\n");
        let fetched = fetch_within(answer, Duration::from_secs(2));
        assert!(fetched.is_err(), "{coding}: {fetched:?}");
    }
    // Compressed but without Content-Encoding: not a filter response.
    let mut stream = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03".to_vec();
    stream.extend_from_slice(body.as_bytes());
    assert_refused!(fetch_answer(json(&stream)), RejectReason::Response(_));
    // The first bytes of a zstd stream.
    let stream = [b"\x28\xb5\x2f\xfd", body.as_bytes()].concat();
    assert_refused!(fetch_answer(json(&stream)), RejectReason::Response(_));
}

#[test]
fn worst_value_of_a_duplicate_header_counts() {
    let body = honest(now()).to_json();
    let len = body.len().to_string();
    let shorter = (body.len() - 1).to_string();
    // The limit is checked against the largest declared length. The transport decides which of them ends the body.
    for lengths in [["1073741824", &len], [&len, "1073741824"]] {
        let mut answer = head("200 OK", &lengths.map(|length| ("Content-Length", length)));
        answer.extend_from_slice(body.as_bytes());
        let fetched = fetch_answer(answer);
        assert_failed!(
            fetched,
            FetchError::Transport(_) | FetchError::Refused(RejectReason::TooLarge { .. })
        );
    }
    for lengths in [[&shorter, &len], [&len, &shorter]] {
        let mut answer = head(
            "200 OK",
            &lengths.map(|length| ("Content-Length", length.as_str())),
        );
        answer.extend_from_slice(body.as_bytes());
        assert_whole_or_error(fetch_answer(answer));
    }
    // Content-Length and chunked encoding that contradict each other.
    let mut answer = head(
        "200 OK",
        &[("Content-Length", "5"), ("Transfer-Encoding", "chunked")],
    );
    answer.extend_from_slice(format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len()).as_bytes());
    assert_whole_or_error(fetch_answer(answer));
    for length in ["-1", "1e3", "0x10", "18446744073709551616", ""] {
        let mut answer = head("200 OK", &[("Content-Length", length)]);
        answer.extend_from_slice(body.as_bytes());
        assert_whole_or_error(fetch_within(answer, Duration::from_secs(2)));
    }
}

#[test]
fn body_without_a_head_is_an_error() {
    let body = honest(now()).to_json();
    // Bodies without a head as in HTTP/0.9, with the first line of another protocol, and of HTTP/2.
    for answer in [
        body.clone(),
        format!("\r\n\r\n{body}"),
        format!("HTTP/0.9 200 OK\r\n\r\n{body}"),
        format!("ICY 200 OK\r\n\r\n{body}"),
        format!("HTTP/2.0 200 OK\r\n\r\n{body}"),
        format!("HTTP/1.1 200 OK\n{body}"),
        format!("HTTP/1.1 2000 OK\r\n\r\n{body}"),
        format!("HTTP/1.1\r\n\r\n{body}"),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
    ] {
        let first: String = answer.chars().take(20).collect();
        let fetched = fetch_within(answer.into_bytes(), Duration::from_secs(2));
        assert!(
            matches!(
                fetched,
                Err(FetchError::Transport(_)
                    | FetchError::Cut { .. }
                    | FetchError::LargeHead { .. }
                    | FetchError::Deadline { .. })
            ),
            "{first:?}: {fetched:?}"
        );
    }
}

#[test]
fn answer_without_a_body_is_an_error() {
    for (status, number) in [("204 None", 204), ("205 Reset", 205), ("304 Same", 304)] {
        let fetched = fetch_answer(response(status, &[], ""));
        assert_refused!(fetched, RejectReason::Status { status } if status == number);
    }
    assert_refused!(
        fetch_answer(response("200 OK", &[], "")),
        RejectReason::Response(_)
    );
    assert_refused!(fetch_answer(head("200 OK", &[])), RejectReason::Response(_));
    // An interim response, and then nothing.
    let fetched = fetch_within(
        b"HTTP/1.1 100 Continue\r\n\r\n".to_vec(),
        Duration::from_secs(2),
    );
    assert_failed!(fetched, FetchError::Cut { .. } | FetchError::Transport(_));
    // The client never requested another protocol.
    let fetched = fetch_within(
        response(
            "101 Switching",
            &[("Upgrade", "h2c"), ("Connection", "upgrade")],
            "",
        ),
        Duration::from_secs(2),
    );
    assert!(fetched.is_err(), "{fetched:?}");
}
