//! The same checks for a wallet with its own HTTP client: headers and bytes, no network.

use std::io;

use nutfilter::{Nut25, Params, SortedHashes};
use nutfilter_cashu::FilterResponse;
use nutfilter_wallet::{
    Answer, CheckError, Confirmation, Confirmed, FetchContext, FetchError, KeysetId, Policy,
    QueryError, RejectReason, Restoration, Restored,
};
use serde_json::{Value, json};

const NOW: u64 = 1_767_225_600;

fn body(timestamp: u64) -> Vec<u8> {
    let hashes = SortedHashes::from_items(["spent"]);
    let filter = hashes.encode(Params::CASHU).expect("a filter");
    FilterResponse::new(&filter, timestamp)
        .to_json()
        .into_bytes()
}

fn at(last_seen: Option<u64>) -> FetchContext {
    FetchContext {
        now: NOW,
        last_seen,
    }
}

#[test]
fn response_passes_head_body_and_acceptance_checks() {
    let policy = Policy::default();
    let sent = body(NOW);
    policy
        .admit_head(200, Some(sent.len() as u64), [])
        .expect("a good head");
    let read = policy
        .read_body(200, None, sent.as_slice())
        .expect("no I/O error");
    let filter = policy.accept::<Nut25>(200, read.expect("a short body"), at(None));
    let answers = filter.expect("a good filter").check(&["spent", "other"]);
    assert_eq!(
        answers,
        Ok(vec![Answer::MaybePresent, Answer::Absent { as_of: NOW }])
    );
}

#[test]
fn accept_checks_the_body_size_too() {
    let sent = body(NOW);
    let policy = Policy {
        max_bytes: sent.len() as u64 - 1,
        ..Policy::default()
    };
    let refused = policy.accept::<Nut25>(200, sent, at(None));
    assert!(
        matches!(refused, Err(RejectReason::TooLarge { declared: None, .. })),
        "{refused:?}"
    );
}

#[test]
fn body_is_read_one_byte_past_the_limit() {
    let policy = Policy {
        max_bytes: 1_000,
        ..Policy::default()
    };
    let mut endless = Counted { read: 0 };
    let read = policy
        .read_body(200, Some(u64::MAX), &mut endless)
        .expect("no I/O error");
    assert!(
        matches!(
            read,
            Err(RejectReason::TooLarge {
                declared: None,
                max: 1_000
            })
        ),
        "{read:?}"
    );
    assert_eq!(endless.read, 1_001);

    // Of an error body, only the maximum size of an error object is read.
    let policy = Policy::default();
    let mut endless = Counted { read: 0 };
    let read = policy
        .read_body(500, None, &mut endless)
        .expect("no I/O error");
    assert_eq!(read.expect("cut, not refused").len() as u64, endless.read);
    assert!(endless.read < 1 << 20);
}

/// Endless zeros; counts how many were read.
struct Counted {
    read: u64,
}

impl io::Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        buffer.fill(0);
        self.read += buffer.len() as u64;
        Ok(buffer.len())
    }
}

#[test]
fn time_is_checked_against_the_given_context() {
    let policy = Policy::default();
    let accept = |timestamp, last_seen| policy.accept::<Nut25>(200, body(timestamp), at(last_seen));
    assert!(accept(NOW + 300, None).is_ok());
    let future = accept(NOW + 301, None);
    assert!(
        matches!(future, Err(RejectReason::Future { timestamp, now: NOW }) if timestamp == NOW + 301)
    );
    let old = accept(NOW - 1, Some(NOW)).expect("a filter, with a warning");
    assert_eq!(
        old.check(&["spent"]),
        Err(CheckError::RolledBack {
            timestamp: NOW - 1,
            last_seen: NOW
        })
    );
}

/// The test vector of NUT-00 for 32 zero bytes, a point on the curve.
const POINT: &str = "024cce997d3b518f739663b757deaec95bcd9473c30a14ac2fd04023a739d1a725";

fn point() -> [u8; 33] {
    let byte = |i| u8::from_str_radix(&POINT[2 * i..2 * i + 2], 16).expect("hex");
    std::array::from_fn(byte)
}

#[test]
fn matches_are_confirmed_without_the_crates_transport() {
    let policy = Policy::default();
    let hashes = SortedHashes::from_items([point()]);
    let filter = hashes.encode(Params::CASHU).expect("a filter");
    let body = FilterResponse::new(&filter, NOW).to_json();
    let filter = policy.accept::<Nut25>(200, body.into_bytes(), at(None));
    let filter = filter.expect("a good filter");
    let items = [point(), [2; 33]];
    let matches = filter.matches(&items, Some(1)).expect("one match");
    assert!(matches.source().is_none());
    assert_eq!(matches.items(), [&point()[..]]);

    let mut confirmation = Confirmation::new(&matches, &policy).expect("one match");
    let request = confirmation.request().expect("a request");
    let request: Value = serde_json::from_str(&request).expect("JSON");
    let state = |y: &Value| {
        let state = if y == POINT { "SPENT" } else { "UNSPENT" };
        json!({ "Y": y, "state": state })
    };
    let ys = request["Ys"].as_array().expect("a list");
    let states: Vec<_> = ys.iter().map(state).collect();
    let states = json!({ "states": states }).to_string();
    confirmation
        .answer(200, states.as_bytes())
        .expect("a good answer");
    assert_eq!(confirmation.request(), None);
    let wanted = [Confirmed::Spent, Confirmed::Absent { as_of: NOW }];
    assert_eq!(confirmation.finish().expect("all answered"), wanted);

    let keyset = KeysetId::parse("009a1f293253e41e").expect("a keyset id");
    let mut restoration = Restoration::new(&matches, &keyset, &policy).expect("one match");
    let request = restoration.request().expect("a request");
    assert!(request.contains(POINT), "{request}");
    // No signature: the match was by chance.
    restoration
        .answer(200, br#"{"outputs":[],"signatures":[]}"#)
        .expect("a good answer");
    let wanted = [Restored::Unsigned, Restored::Absent { as_of: NOW }];
    assert_eq!(restoration.finish().expect("all answered"), wanted);

    // The limit on answers also applies when the wallet did not check it during the transfer.
    for (max_answer_bytes, is_accepted) in [(states.len() as u64, true), (10, false)] {
        let policy = Policy {
            max_answer_bytes,
            ..Policy::default()
        };
        let mut confirmation = Confirmation::new(&matches, &policy).expect("one match");
        match confirmation.answer(200, states.as_bytes()) {
            Err(QueryError::Fetch(FetchError::Refused(RejectReason::TooLarge {
                max: 10, ..
            }))) => assert!(!is_accepted),
            answered => assert!(is_accepted, "{answered:?}"),
        }
        assert_eq!(policy.for_answers().max_bytes, max_answer_bytes);
    }
}
