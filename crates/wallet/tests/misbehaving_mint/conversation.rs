//! A mint that serves filters and answers requests about matches.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use serde_json::{Value, json as value};

use crate::*;
use nutfilter_wallet::Matches;

/// Number of notes whose `Y` is in the filter of [`mint`]; as many more are not in it.
pub(crate) const SPENT: usize = 300;

/// 33 bytes on the curve, different for each number, the same in every test.
pub(crate) fn note(number: usize) -> [u8; 33] {
    static NOTES: OnceLock<Vec<[u8; 33]>> = OnceLock::new();
    NOTES.get_or_init(|| {
        let on_curve = |x: u32| {
            let mut point = [2; 33];
            point[1..29].fill(0x5a);
            point[29..].copy_from_slice(&x.to_be_bytes());
            secp256k1::PublicKey::from_slice(&point)
                .is_ok()
                .then_some(point)
        };
        (0..).filter_map(on_curve).take(2 * SPENT).collect()
    })[number]
}

pub(crate) fn notes(numbers: std::ops::Range<usize>) -> Vec<[u8; 33]> {
    numbers.map(note).collect()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The filter of the notes below [`SPENT`].
pub(crate) fn spent_filter(timestamp: u64) -> FilterResponse {
    let hashes = SortedHashes::from_items(notes(0..SPENT));
    FilterResponse::new(&hashes.encode(Params::CASHU).expect("a filter"), timestamp)
}

/// The points in the body of a request.
pub(crate) fn asked(request: &str) -> Vec<String> {
    let (_, body) = request.split_once("\r\n\r\n").expect("a head");
    let body: Value = serde_json::from_str(body).expect("a JSON body");
    let texts = |list: &Value, name: Option<&str>| -> Vec<String> {
        let text = |entry: &Value| match name {
            Some(name) => entry[name].as_str().expect("text").to_owned(),
            None => entry.as_str().expect("text").to_owned(),
        };
        list.as_array().expect("a list").iter().map(text).collect()
    };
    if body["Ys"].is_array() {
        texts(&body["Ys"], None)
    } else {
        texts(&body["outputs"], Some("B_"))
    }
}

/// Answers every GET with the filter, and every POST with `answer`.
pub(crate) fn mint(answer: impl Fn(Vec<String>) -> Vec<u8> + Send + Sync + 'static) -> Loopback {
    let filter = json(spent_filter(now()).to_json());
    Loopback::start(move |request, stream| {
        if request.starts_with("POST ") {
            stream.write_all(&answer(asked(request)))
        } else {
            stream.write_all(&filter)
        }
    })
    .asked_about_matches()
}

/// All POST requests so far.
pub(crate) fn posts(mint: &Loopback) -> Vec<String> {
    let mut requests = mint.requests();
    requests.retain(|request| request.starts_with("POST "));
    requests
}

/// The states of `ys` according to an honest mint: the notes in the filter are spent.
pub(crate) fn honest_states(ys: &[String]) -> Vec<Value> {
    static SPENT_YS: OnceLock<BTreeSet<String>> = OnceLock::new();
    let spent = SPENT_YS.get_or_init(|| (0..SPENT).map(|i| hex(&note(i))).collect());
    let state = |y: &String| {
        let state = if spent.contains(y) {
            "SPENT"
        } else {
            "UNSPENT"
        };
        value!({"Y": y, "state": state, "witness": null})
    };
    ys.iter().map(state).collect()
}

pub(crate) fn states(states: impl Into<Value>) -> Vec<u8> {
    json(value!({ "states": states.into() }).to_string())
}

/// A client of the mint, and the matches of these items in its filter of `kind`.
pub(crate) fn matches_of<'a>(
    mint: &Loopback,
    kind: NoteKind,
    policy: Policy,
    items: &'a [[u8; 33]],
) -> (MintClient, Matches<'a>) {
    let client = MintClient::new(&mint.url(), policy).expect("a good URL");
    let filter = client.fetch(&keyset(), kind).expect("a filter");
    let matches = filter.matches(items, None).expect("matches");
    (client, matches)
}

/// Checks that the points are neither in the wallet's order nor a contiguous part of its list. By chance a contiguous
/// part occurs once in 10^17 for 30 of 60 points.
pub(crate) fn assert_mixed(sent: &[String], in_order: &[String]) {
    let place = |point: &String| in_order.iter().position(|other| other == point);
    let places: Vec<_> = sent
        .iter()
        .map(|point| place(point).expect("a match"))
        .collect();
    assert!(!places.is_sorted(), "{places:?}");
    let (first, last) = (places.iter().min(), places.iter().max());
    assert!(
        last.expect("one") - first.expect("one") >= places.len(),
        "{places:?}"
    );
}
