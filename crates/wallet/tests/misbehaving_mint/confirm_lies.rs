//! NUT-07 with a dishonest mint: each lie gives its error, and nothing is sent after it.

use std::num::NonZeroUsize;

use serde_json::{Value, json as value};

use crate::cases::name_of_lie;
use crate::conversation::*;
use crate::*;
use nutfilter_wallet::{AnswerFault, Confirmed, QueryError};

/// An honest mint would get two requests.
const MATCHES: usize = 100;

fn confirm_by(mint: &Loopback, policy: Policy) -> Result<Vec<Confirmed>, QueryError> {
    let items = notes(0..MATCHES);
    let (client, matches) = matches_of(mint, NoteKind::Spent, policy, &items);
    client.confirm(&matches)
}

/// The name of the error for this answer to the first request. Checks that its message contains `text` and no note, and
/// that there is no second request.
#[track_caller]
fn assert_lie<A: Fn(Vec<String>) -> Vec<u8> + Send + Sync + 'static>(
    text: &str,
    answer: A,
) -> String {
    let mint = mint(answer);
    let error = confirm_by(&mint, Policy::default()).expect_err("a lie");
    assert!(error.to_string().contains(text), "{error:?}");
    name_of_lie(&mint, &error)
}

#[test]
fn deep_answer_is_an_error() {
    assert_lie("malformed mint response", |_| json("[".repeat(100_000)));
}

#[test]
fn only_status_200_is_accepted_and_redirects_are_errors() {
    let elsewhere = Loopback::saying(states(Vec::<Value>::new()));
    let location = elsewhere.url();
    for status in [
        "204 None",
        "301 Moved",
        "302 Found",
        "303 See",
        "304 Same",
        "307 There",
        "308 There",
        "404 Not Found",
    ] {
        for to in [location.clone(), "/v1/checkstate".to_owned()] {
            let code = &status[..3];
            let text = match code {
                "204" | "304" | "404" => format!("HTTP status {code}"),
                _ => format!("redirect (HTTP {code}) to "),
            };
            assert_lie(&text, move |ys| {
                // A valid body with the wrong status.
                let body = match status {
                    "204 None" | "304 Same" => String::new(),
                    _ => value!({ "states": honest_states(&ys) }).to_string(),
                };
                response(status, &[("Location", &to)], body)
            });
        }
    }
    assert_eq!(elsewhere.requests(), [] as [&str; 0]);
}

#[test]
fn answer_beyond_the_limit_is_rejected() {
    // The length is declared in the first case, and found by counting in the second.
    let text = "declares 1073741824 bytes, at most 4194304";
    assert_lie(text, |_| {
        head("200 OK", &[("Content-Length", "1073741824")])
    });
    let padded = |ys: Vec<String>| {
        let mut all = honest_states(&ys);
        all[0]["witness"] = "x".repeat(64 << 10).into();
        let mut answer = head("200 OK", &[]);
        answer.extend(value!({ "states": all }).to_string().into_bytes());
        answer
    };
    let small = policy!(max_answer_bytes: 64 << 10);
    let error = confirm_by(&mint(padded), small).expect_err("too large");
    assert_eq!(error.to_string(), "response longer than 65536 bytes");
    assert!(confirm_by(&mint(padded), Policy::default()).is_ok());
    assert_lie("unexpected content encoding", |_| {
        response("200 OK", &[("Content-Encoding", "gzip")], "{}")
    });
}

#[test]
fn silence_slow_answers_and_truncation_are_errors() {
    let short = policy!(deadline: Duration::from_secs(1));
    let filter = json(spent_filter(now()).to_json());
    let drip = Loopback::start(move |request, stream| {
        if request.starts_with("GET ") {
            return stream.write_all(&filter);
        }
        stream.write_all(&head("200 OK", &[]))?;
        loop {
            stream.write_all(b" ")?;
            thread::sleep(Duration::from_millis(20));
        }
    })
    .asked_about_matches();
    let error = confirm_by(&drip, short).expect_err("a drip");
    assert!(
        matches!(error, QueryError::Fetch(FetchError::Deadline { .. })),
        "{error:?}"
    );
    assert_eq!(posts(&drip).len(), 1);

    assert_lie("connection closed after", |ys| {
        let mut answer = states(honest_states(&ys));
        answer.truncate(answer.len() - 10);
        answer
    });
    assert_eq!(assert_lie("", |_| Vec::new()), "Fetch");
}

#[test]
fn a_million_states_are_rejected_within_the_size_limit() {
    // As many states as fit into 4 MiB: of other points, of the same point, of invalid points.
    let of = |state: String| {
        let many = vec![state.as_str(); (4 << 20) / (state.len() + 1) - 1].join(",");
        json(format!(r#"{{"states":[{many}]}}"#))
    };
    let unrelated = format!(r#"{{"Y":"{}","state":"UNSPENT"}}"#, hex(&note(SPENT)));
    for state in [unrelated, r#"{"Y":"","state":""}"#.to_owned()] {
        assert_lie("a point that was not asked about", move |_| {
            of(state.clone())
        });
    }
    assert_lie("a point twice", move |ys| {
        of(format!(r#"{{"Y":"{}","state":"SPENT"}}"#, ys[0]))
    });
    assert_lie("at most 4194304 are accepted", |_| {
        json("[".repeat((4 << 20) + 1))
    });
}

#[test]
fn lie_in_a_later_answer_ends_the_conversation() {
    let posted = Arc::new(AtomicU64::new(0));
    let counter = posted.clone();
    let mint = mint(move |ys| {
        let mut all = honest_states(&ys);
        if counter.fetch_add(1, Ordering::SeqCst) == 2 {
            all.pop();
        }
        states(all)
    });
    let policy = policy!(batch: NonZeroUsize::new(11).expect("not 0"));
    let error = confirm_by(&mint, policy).expect_err("a lie");
    assert!(matches!(
        error,
        QueryError::Answer(AnswerFault::Missing { missing: 1, .. })
    ));
    assert_eq!(posted.load(Ordering::SeqCst), 3);
}

#[test]
fn no_y_is_sent_after_an_error_of_fetch_or_look_up() {
    let items = notes(0..10);
    let good = spent_filter(now());
    let low = SortedHashes::from_items(notes(0..10))
        .encode(Params::new(0, 1).expect("parameters"))
        .expect("a filter");
    let mut with_n_17 = good.clone();
    with_n_17.n = 17;
    let answers: Vec<(Vec<u8>, Option<u64>)> = vec![
        (response("500 Oops", &[], "{}"), None),
        (json("<html>"), None),
        (json(FilterResponse::new(&low, now()).to_json()), None),
        (json(spent_filter(now() + 1_000).to_json()), None),
        (json(with_n_17.to_json()), None),
        (json(&good.to_json()[..100]), None),
        (Vec::new(), None),
        // Rolled back: the error comes from the look-up.
        (json(good.to_json()), Some(now() + 100)),
    ];
    for (answer, last_seen) in answers {
        let mint = Loopback::saying(answer.clone());
        let client = MintClient::new(&mint.url(), Policy::default()).expect("a good URL");
        let fetched = client.fetch_as::<Nut25>(&keyset(), NoteKind::Spent, last_seen);
        let matches = fetched.as_ref().map(|filter| filter.matches(&items, None));
        assert!(!matches!(matches, Ok(Ok(_))), "{matches:?}");
        for request in mint.requests() {
            assert!(request.starts_with("GET "), "{request}");
            assert!(items.iter().all(|item| !request.contains(&hex(item))));
        }
    }
}
