//! A mint that serves both filters of a wallet's candidates, and answers questions about them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::OnceLock;

use nutfilter_testing::{signatures, states};
use serde_json::{Value, json as value};

use crate::*;
use nutfilter_wallet::{
    FetchContext, FilterSource, Outcome, Restore, RestoreError, RestoreOptions, Restored,
};

pub(crate) const KEYSET: &str = "009a1f293253e41e";

/// The candidates of the wallet. The first ones are spent, then come live ones, then unused ones.
pub(crate) const SPENT: Range<usize> = 0..120;
pub(crate) const LIVE: Range<usize> = 120..300;
pub(crate) const UNUSED: Range<usize> = 300..400;
pub(crate) const ALL: Range<usize> = 0..400;

/// A pair of `B_` and `Y`.
pub(crate) type Candidate = ([u8; 33], [u8; 33]);

/// 33 bytes on the curve, different for each number, the same in every test: the messages of all candidates, and then
/// their notes.
pub(crate) fn point(number: usize) -> [u8; 33] {
    static POINTS: OnceLock<Vec<[u8; 33]>> = OnceLock::new();
    POINTS.get_or_init(|| on_curve(0x5a).take(2 * ALL.end).collect())[number]
}

pub(crate) fn candidates(numbers: Range<usize>) -> Vec<Candidate> {
    let pair = |i| (point(i), point(ALL.end + i));
    numbers.map(pair).collect()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    const_hex::encode(bytes)
}

/// The number of a candidate, by the hex of its message or of its note.
pub(crate) fn number(point_in_hex: &str) -> usize {
    static NUMBERS: OnceLock<BTreeMap<String, usize>> = OnceLock::new();
    let numbers = NUMBERS.get_or_init(|| {
        let numbers = 0..2 * ALL.end;
        numbers.map(|i| (hex(&point(i)), i % ALL.end)).collect()
    });
    numbers[point_in_hex]
}

pub(crate) fn filter(kind: NoteKind, timestamp: u64) -> FilterResponse {
    match kind {
        NoteKind::Issued => filter_of((0..LIVE.end).map(point), Params::CASHU, timestamp),
        NoteKind::Spent => filter_of(SPENT.map(|i| point(ALL.end + i)), Params::CASHU, timestamp),
    }
}

/// The points in the body of a request.
pub(crate) fn asked(request: &str) -> Vec<String> {
    let (_, body) = request.split_once("\r\n\r\n").expect("a head");
    let body: Value = serde_json::from_str(body).expect("a JSON body");
    let outputs = body["outputs"].as_array().into_iter().flatten();
    let ys = body["Ys"].as_array().into_iter().flatten();
    let points = ys.chain(outputs.map(|output| &output["B_"]));
    let text = |point: &Value| point.as_str().expect("text").to_owned();
    points.map(text).collect()
}

/// What an honest mint answers. The amount is the candidate's number, `C_` its message with another y.
pub(crate) fn honest_answer(request: &str) -> Value {
    honest_until(request, SPENT.end, LIVE.end)
}

/// The same of a mint for which candidates up to these numbers are spent, and issued.
pub(crate) fn honest_until(request: &str, spent: usize, issued: usize) -> Value {
    let (_, body) = request.split_once("\r\n\r\n").expect("a head");
    let body = serde_json::from_str(body).expect("a JSON body");
    if request.starts_with("POST /v1/checkstate") {
        return states(&body, |y| if number(y) < spent { "SPENT" } else { "UNSPENT" });
    }
    signatures(&body, |message, _| {
        let number = number(message);
        let c = format!("03{}", &message[2..]);
        let signature = value!({"amount": number, "id": KEYSET, "C_": c, "dleq": null});
        (number < issued).then_some(signature)
    })
}

/// What an honest mint sends.
pub(crate) fn honest_reply(request: &str) -> Vec<u8> {
    json(match request {
        _ if request.starts_with("POST ") => honest_answer(request).to_string(),
        _ if request.contains("/issued/") => filter(NoteKind::Issued, now()).to_json(),
        _ if request.contains("/spent/") => filter(NoteKind::Spent, now()).to_json(),
        _ => r#"{"max_array_length":100}"#.to_owned(),
    })
}

/// Answers a GET honestly, and a POST with `answer`.
pub(crate) fn mint(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Loopback {
    start(move |request, stream| match request.starts_with("POST ") {
        true => stream.write_all(&answer(request)),
        false => stream.write_all(&honest_reply(request)),
    })
    .checked(eavesdrop::matches_in_posts)
}

pub(crate) fn honest_mint() -> Loopback {
    mint(honest_reply)
}

/// All POST requests so far.
pub(crate) fn posts(mint: &Loopback) -> Vec<String> {
    let mut requests = mint.requests();
    requests.retain(|request| request.starts_with("POST "));
    requests
}

pub(crate) const PLAIN: RestoreOptions = RestoreOptions::DEFAULT;

pub(crate) const CONFIRM: RestoreOptions = RestoreOptions { confirm: true, ..PLAIN };

pub(crate) fn restore(
    mint: &Loopback,
    numbers: Range<usize>,
    options: &RestoreOptions,
) -> Result<Restored, RestoreError> {
    client(mint).restore(&keyset(), &candidates(numbers)[..], options)
}

pub(crate) fn resume(mint: &Loopback, restore: Restore) -> Result<Restored, RestoreError> {
    client(mint).resume(restore, &candidates(ALL)[..])
}

/// A validated filter that did not come from a client.
pub(crate) fn accepted(response: &FilterResponse, kind: NoteKind, no_cache: bool) -> MintFilter {
    accepted_by(Policy::default(), response, kind, no_cache)
}

pub(crate) fn accepted_by(
    policy: Policy,
    response: &FilterResponse,
    kind: NoteKind,
    no_cache: bool,
) -> MintFilter {
    let source = FilterSource { mint: "https://mint.example".to_owned(), keyset: keyset(), kind };
    let context = FetchContext { no_cache, ..FetchContext::now(None) };
    let body = response.to_json().into_bytes();
    let filter = policy.accept(200, body, source, context);
    filter.expect("a filter")
}

/// The number of each outcome, by its word.
pub(crate) fn counts(restored: &Restored) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for outcome in &restored.outcomes {
        *counts.entry(outcome.word()).or_insert(0) += 1;
    }
    counts
}

/// Checks each outcome of all candidates at an honest mint.
pub(crate) fn assert_honest(restored: &Restored) {
    for (number, outcome) in restored.outcomes.iter().enumerate() {
        match outcome {
            Outcome::Spent => assert!(SPENT.contains(&number)),
            Outcome::Live(signature) => {
                assert_eq!(signature.amount, number as u64);
                assert_eq!(signature.c, [&[3], &point(number)[1..]].concat());
            }
            Outcome::Unused => assert!(UNUSED.contains(&number)),
            other => panic!("{number}: {other:?}"),
        }
    }
    assert_eq!(counts(restored)["live"], LIVE.len());
}

/// Checks that the points are neither in the wallet's order nor a contiguous part of its list. By chance a contiguous
/// part occurs once in 10^17 for 30 of 60 points.
pub(crate) fn assert_mixed(sent: &[String]) {
    let places: Vec<_> = sent.iter().map(|point| number(point)).collect();
    assert!(!places.is_sorted(), "{places:?}");
    let (first, last) = (places.iter().min(), places.iter().max());
    assert!(last.expect("one") - first.expect("one") >= places.len(), "{places:?}");
}
