//! Bodies and heads that are too large, truncated, or of another length than declared, and what is not HTTP.

use crate::*;

#[test]
fn body_size_limit_is_inclusive() {
    let body = honest(now()).to_json();
    let length = body.len() as u64;
    // Neither length is declared, so counting decides.
    let mut answer = head("200 OK", &[]);
    answer.extend_from_slice(body.as_bytes());
    let mint = saying(answer);
    let policy = |max_bytes| policy!(max_bytes);
    assert!(fetch_by(&mint, policy(length)).is_ok());
    assert_refused!(
        fetch_by(&mint, policy(length - 1)),
        RejectReason::TooLarge { declared: None, .. }
    );
}

#[test]
fn a_declared_length_above_the_cap_is_refused_before_the_body() {
    let mint = start(|_, stream| {
        stream.write_all(&head("200 OK", &[("Content-Length", "2147483648")]))?;
        // Not one byte of the body is sent: a client that waits for it fails with a deadline error.
        stream.read_exact(&mut [0])
    });
    let declared = Some(1 << 31);
    assert_refused!(fetch(&mint), RejectReason::TooLarge { declared: d, .. } if d == declared);
}

#[test]
fn body_shorter_than_declared_is_a_cut_body() {
    let body = honest(now()).to_json();
    let length = (body.len() + 1).to_string();
    let mut answer = head("200 OK", &[("Content-Length", &length)]);
    answer.extend_from_slice(body.as_bytes());
    let received = body.len() as u64;
    assert_failed!(fetch_answer(answer), FetchError::Cut { received: r } if r == received);
}

#[test]
fn chunked_body_is_read_to_its_last_chunk() {
    let body = honest(now()).to_json();
    let mut answer = head("200 OK", &[("Transfer-Encoding", "chunked")]);
    answer.extend(format!("{:x}\r\n{body}\r\n", body.len()).into_bytes());
    let fetched = fetch_answer(answer.clone());
    assert_failed!(fetched, FetchError::Cut { .. } | FetchError::Transport(_));
    answer.extend(b"0\r\n\r\n");
    assert_eq!(fetch_answer(answer).expect("a filter").n(), ITEMS);
}

#[test]
fn largest_of_several_declared_lengths_counts() {
    let body = honest(now()).to_json();
    let len = body.len().to_string();
    for lengths in [["1073741825", &len], [&len, "1073741825"]] {
        let mut answer = head("200 OK", &lengths.map(|length| ("Content-Length", length)));
        answer.extend_from_slice(body.as_bytes());
        assert_failed!(
            fetch_answer(answer),
            FetchError::Transport(_) | FetchError::Refused(RejectReason::TooLarge { .. })
        );
    }
}

#[test]
fn answer_without_a_body_is_an_error() {
    for (status, number) in [("204 None", 204), ("205 Reset", 205), ("304 Same", 304)] {
        let fetched = fetch_answer(response(status, &[], ""));
        assert_refused!(fetched, RejectReason::Status { status } if status == number);
    }
    let fetched = fetch_answer(response("200 OK", &[], ""));
    assert_refused!(fetched, RejectReason::Response(_));
    // An interim response, and then nothing.
    let fetched = fetch_answer("HTTP/1.1 100 Continue\r\n\r\n");
    assert_failed!(fetched, FetchError::Cut { .. } | FetchError::Transport(_));
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(body).expect("memory");
    encoder.finish().expect("memory")
}

#[test]
fn gzip_body_is_limited_like_a_plain_one() {
    let body = honest(now()).to_json();
    let compressed = gzip(body.as_bytes());
    let headers = [("Content-Encoding", "gzip")];
    let answer = response("200 OK", &headers, &compressed);
    assert_eq!(fetch_answer(answer.clone()).expect("a filter").n(), ITEMS);
    let limit = |max_bytes| fetch_by(&saying(answer.clone()), policy!(max_bytes));
    let length = body.len() as u64;
    assert!(limit(length).is_ok());
    assert_refused!(limit(length - 1), RejectReason::TooLarge { .. });
    // 1 MB that becomes 1 GB: neither its own numbers nor the limit without numbers justify that.
    for (begin, most) in [(&body[..40], 64 << 10), ("", 64 << 20)] {
        let bomb = [begin.as_bytes(), &vec![b'x'; 65 << 20]].concat();
        let answer = response("200 OK", &headers, gzip(&bomb));
        let limit = match fetch_answer(answer) {
            Err(FetchError::Refused(RejectReason::TooLarge { max, .. })) => max,
            other => panic!("{other:?}"),
        };
        assert!(limit >= most && limit < most + 2 * length, "{limit}");
    }
    let (begin, end) = body.split_at(50);
    let members = [gzip(begin.as_bytes()), gzip(end.as_bytes())].concat();
    let answer = response("200 OK", &headers, &members);
    assert_eq!(fetch_answer(answer).expect("a filter").n(), ITEMS);
    let longer = response("200 OK", &headers, [&members[..], b"and more"].concat());
    assert_failed!(fetch_answer(longer), FetchError::Transport(_) | FetchError::Cut { .. });
    let cut = &compressed[..compressed.len() - 20];
    assert_failed!(fetch_answer(response("200 OK", &headers, cut)), FetchError::Cut { .. });
    let plain = response("200 OK", &headers, body);
    assert_failed!(fetch_answer(plain), FetchError::Transport(_));
}

#[test]
fn other_encodings_are_rejected_by_their_header() {
    for encoding in ["br", "zstd", "deflate", "identity, gzip", "gzip, gzip, gzip", "nonsense"] {
        let headers = [("Content-Encoding", encoding)];
        let answer = response("200 OK", &headers, honest(now()).to_json());
        assert_refused!(fetch_answer(answer), RejectReason::Encoded { encoding: e } if e == encoding);
    }
    let twice = [("Content-Encoding", "gzip"), ("Content-Encoding", "gzip")];
    let answer = response("200 OK", &twice, honest(now()).to_json());
    assert_refused!(fetch_answer(answer), RejectReason::Encoded { .. });
    let none = [("Content-Encoding", "identity")];
    assert!(fetch_answer(response("200 OK", &none, honest(now()).to_json())).is_ok());
}

#[test]
fn huge_head_is_rejected() {
    let long = "x".repeat(1 << 20);
    let answer = response("200 OK", &[("X-Long", &long)], honest(now()).to_json());
    assert_failed!(fetch_answer(answer), FetchError::LargeHead { .. });
}

#[test]
fn error_texts_are_cut_and_made_printable() {
    let body = format!(r#"{{"detail": "\u001b[2J{}"}}"#, "x".repeat(10_000));
    let error = match fetch_answer(response("422 No", &[], body)) {
        Err(FetchError::Refused(RejectReason::Mint(error))) => error,
        other => panic!("{other:?}"),
    };
    assert!(!error.to_string().contains('\u{1b}') && error.detail.chars().count() <= 301);
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
    let nobody = saying("");
    let url = nobody.url.clone();
    drop(nobody);
    let client = MintClient::new(&url, Policy::default()).expect("a good URL");
    let fetched = client.fetch(&keyset(), NoteKind::Spent);
    assert_failed!(fetched, FetchError::Transport(_) | FetchError::Cut { .. });
}
