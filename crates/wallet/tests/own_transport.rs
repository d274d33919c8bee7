//! The same checks for a wallet with its own HTTP client: headers and bytes, no network.

use nutfilter::{Nut25, Params, SortedHashes};
use nutfilter_cashu::FilterResponse;
use nutfilter_wallet::{Answer, FetchContext, Policy};

const NOW: u64 = 1_767_225_600;

/// Only their form is looked at, since the filter's keyset is not known.
const SPENT: [u8; 33] = [2; 33];
const OTHER: [u8; 33] = [3; 33];

fn body(timestamp: u64) -> Vec<u8> {
    let hashes = SortedHashes::from_items([SPENT]);
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
    let filter = filter.expect("a good filter");
    let found = filter.matches(&[SPENT, OTHER], None).expect("answers");
    let wanted = [Answer::MaybePresent, Answer::Absent { as_of: NOW }];
    assert_eq!(found.answers, wanted);
    let refused = filter.matches(&[&SPENT[..], b"secret"], None).err();
    let error = refused.expect("not a point").to_string();
    assert!(error.contains("item 2 (6 bytes)"), "{error}");
}
