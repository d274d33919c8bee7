//! A dishonest mint: each lie gives its error, nothing new is sent after it, and what it said before is kept.

use crate::cases::name_of_lie;
use crate::conversation::*;
use crate::*;
use nutfilter_wallet::QueryError;

/// The name of the error for this answer to the first request. Checks that its message contains `text` and no note, and
/// that nothing new is sent.
#[track_caller]
fn assert_lie<A: Fn(&str) -> Vec<u8> + Send + Sync + 'static>(text: &str, answer: A) -> String {
    let mint = mint(answer);
    let error = restore(&mint, LIVE, &PLAIN).expect_err("a lie");
    assert!(error.to_string().contains(text), "{error:?}");
    name_of_lie(&mint, &error.cause)
}

#[test]
fn redirect_of_a_request_is_not_followed() {
    let elsewhere = saying(json("{}"));
    let to = elsewhere.url.clone();
    assert_lie("redirect (HTTP 307) to ", move |request| {
        let body = honest_answer(request).to_string();
        response("307 There", &[("Location", &to)], body)
    });
    assert_eq!(elsewhere.requests(), [] as [&str; 0]);
}

#[test]
fn answer_beyond_the_limit_is_rejected() {
    // The length is declared in the first case, and found by counting in the second.
    let text = "declares 1073741824 bytes, at most 4194304";
    assert_lie(text, |_| head("200 OK", &[("Content-Length", "1073741824")]));
    let padded = |request: &str| {
        let mut all = honest_answer(request);
        all["witness"] = "x".repeat(64 << 10).into();
        let mut answer = head("200 OK", &[]);
        answer.extend(all.to_string().into_bytes());
        answer
    };
    let small = policy!(max_answer_bytes: 64 << 10);
    let by = |policy| {
        let mint = mint(padded);
        let client = client_by(&mint, policy);
        let restored = client.restore(&keyset(), &candidates(LIVE)[..], &PLAIN);
        restored.map_err(|error| error.to_string())
    };
    let error = by(small).expect_err("too large");
    assert_eq!(error, "response longer than 65536 bytes");
    assert!(by(Policy::default()).is_ok());
}

#[test]
fn slow_and_deep_answers_are_errors() {
    let drip = start(move |request, stream| {
        if request.starts_with("GET ") {
            return stream.write_all(&honest_reply(request));
        }
        stream.write_all(&head("200 OK", &[]))?;
        loop {
            stream.write_all(b" ")?;
            thread::sleep(Duration::from_millis(20));
        }
    })
    .checked(eavesdrop::matches_in_posts);
    let short = policy!(deadline: Duration::from_secs(1));
    let client = client_by(&drip, short);
    let error = client.restore(&keyset(), &candidates(LIVE)[..], &PLAIN);
    let error = error.expect_err("a drip").cause;
    assert_failed!(Err::<(), _>(error), QueryError::Fetch(FetchError::Deadline { .. }));
    assert_eq!(posts(&drip).len(), 1);

    assert_lie("malformed mint response", |_| json("[".repeat(100_000)));
}

#[test]
fn contradiction_ends_the_restore_for_good_and_keeps_what_was_signed() {
    // Of the first batch. More than chance explains is a warning, most is an error.
    for (missing, is_lie) in [(2, false), (3, false), (50, false), (51, true)] {
        let number = AtomicU64::new(0);
        let mint = mint(move |request| {
            let mut answer = honest_answer(request);
            if number.fetch_add(1, Ordering::SeqCst) == 0 {
                for list in ["outputs", "signatures"] {
                    let list = answer[list].as_array_mut().expect("a list");
                    list.truncate(list.len() - missing);
                }
            }
            json(answer.to_string())
        });
        let error = match restore(&mint, ALL, &PLAIN) {
            Ok(restored) => {
                assert!(!is_lie);
                assert_eq!(counts(&restored)["unsigned"], missing);
                assert_eq!(counts(&restored)["live"], LIVE.len() - missing);
                continue;
            }
            Err(error) => error,
        };
        assert!(is_lie);
        let limits = QueryError::Contradicted { not_in_set: 51, asked: 100, limit: 2 };
        assert_eq!(error.to_string(), limits.to_string());
        let unfinished = error.unfinished.expect("a restore");
        let found = counts(&unfinished.so_far());
        assert_eq!([found["live"], found["unsigned"], found["open"]], [49, 51, 80]);
        assert_eq!(unfinished.request(), None);
        let error = resume(&mint, *unfinished).expect_err("it is over");
        assert_failed!(Err::<(), _>(error.cause), QueryError::Unfinished { left: 80 });
        assert_eq!(posts(&mint).len(), 1);
    }
}
