//! The same checks for a wallet that brings its own HTTP client: headers and bytes, no network.

use std::io;

use nutfilter::{FilterResponse, Nut25, Params, SortedHashes};
use nutfilter_wallet::{Answer, CheckError, Moment, Policy, Refusal};

const NOW: u64 = 1_767_225_600;

fn body(timestamp: u64) -> Vec<u8> {
    let hashes = SortedHashes::<Nut25>::from_items(["spent"]);
    let filter = hashes.encode(Params::CASHU).expect("a filter");
    FilterResponse::new(&filter, timestamp)
        .to_json()
        .into_bytes()
}

fn at(last_seen: Option<u64>) -> Moment {
    Moment {
        now: NOW,
        last_seen,
    }
}

#[test]
fn a_response_goes_through_head_body_and_acceptance() {
    let policy = Policy::default();
    let sent = body(NOW);
    policy
        .admit_head(Some(sent.len() as u64), [])
        .expect("a good head");
    let read = policy
        .read_body(200, None, sent.as_slice())
        .expect("no I/O error");
    let filter = policy.accept::<Nut25>(200, &read.expect("a short body"), at(None));
    let answers = filter.expect("a good filter").check(&["spent", "other"]);
    assert_eq!(
        answers,
        Ok(vec![Answer::Maybe, Answer::Absent { as_of: NOW }])
    );
}

#[test]
fn acceptance_alone_still_measures_the_body() {
    let sent = body(NOW);
    let policy = Policy {
        max_bytes: sent.len() as u64 - 1,
        ..Policy::default()
    };
    let refused = policy.accept::<Nut25>(200, &sent, at(None));
    assert!(
        matches!(refused, Err(Refusal::TooLarge { declared: None, .. })),
        "{refused:?}"
    );
}

#[test]
fn a_body_is_read_one_byte_past_the_cap_and_no_further() {
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
            Err(Refusal::TooLarge {
                declared: None,
                max: 1_000
            })
        ),
        "{read:?}"
    );
    assert_eq!(endless.read, 1_001);

    // Of an error, as much as an error object could be.
    let policy = Policy::default();
    let mut endless = Counted { read: 0 };
    let read = policy
        .read_body(500, None, &mut endless)
        .expect("no I/O error");
    assert_eq!(read.expect("cut, not refused").len() as u64, endless.read);
    assert!(endless.read < 1 << 20);
}

/// Zeros without end, and how many of them were wanted.
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
fn time_is_judged_by_the_moment_that_is_given() {
    let policy = Policy::default();
    let accept =
        |timestamp, last_seen| policy.accept::<Nut25>(200, &body(timestamp), at(last_seen));
    assert!(accept(NOW + 300, None).is_ok());
    let future = accept(NOW + 301, None);
    assert!(
        matches!(future, Err(Refusal::Future { timestamp, now: NOW }) if timestamp == NOW + 301)
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
