//! A mint for `check --mint` and `restore`: filters, states and signatures, and a record of all requests.

use std::ops::{Deref, Range};
use std::sync::OnceLock;

use nutfilter::Params;
use nutfilter_cashu::NoteKind;
use nutfilter_testing::loopback::Loopback;
pub(crate) use nutfilter_testing::loopback::Request;
use nutfilter_testing::{filter_of, on_curve, signatures, states};
use serde_json::json;

use crate::nutfilter::{Place, Ran, hex};

pub(crate) const TIMESTAMP: u64 = 1_000_000;
pub(crate) const KEYSET: &str = "009a1f293253e41e";

/// Candidates: the first ones are spent, then come live ones up to the number of issued ones, then unused ones.
pub(crate) const SPENT: usize = 60;
pub(crate) const ISSUED: usize = 100;
const CANDIDATES: usize = 200;

/// The first candidate is pending for the mint, and the second unspent. It has no signature on the last but one and refuses
/// the last issued one.
pub(crate) const UNSIGNED: usize = 98;
pub(crate) const REFUSED: usize = 99;

/// A point on the curve, different for each number: those below 200 are the messages of the candidates, the next 200
/// their notes.
pub(crate) fn point(number: usize) -> [u8; 33] {
    static POINTS: OnceLock<Vec<[u8; 33]>> = OnceLock::new();
    POINTS.get_or_init(|| on_curve(2).take(10_000).collect())[number]
}

/// One hex line for each point of a range.
pub(crate) fn points(numbers: Range<usize>) -> String {
    numbers.map(|number| hex(&point(number)) + "\n").collect()
}

/// The lines of candidates for `restore`.
pub(crate) fn pairs(numbers: Range<usize>) -> String {
    let pair = |i| format!("{}\t{}\n", hex(&point(i)), hex(&point(CANDIDATES + i)));
    numbers.map(pair).collect()
}

/// A mint, until it is dropped.
pub(crate) struct Mint(Loopback);

impl Deref for Mint {
    type Target = Loopback;

    fn deref(&self) -> &Loopback {
        &self.0
    }
}

impl Mint {
    /// `answer` returns the status and body for each request.
    pub(crate) fn answering<B: AsRef<[u8]>>(
        answer: impl Fn(&Request) -> (&'static str, B) + Send + Sync + 'static,
    ) -> Self {
        Self(Loopback::answering(0, answer).expect("a free port"))
    }

    pub(crate) fn honest() -> Self {
        Self::answering(honest)
    }

    /// The POST requests so far.
    pub(crate) fn posts(&self) -> Vec<Request> {
        let mut seen = self.seen();
        seen.retain(|request| request.line.starts_with("POST "));
        seen
    }

    /// Runs a subcommand against this mint in a directory of its own, with these lines as its items.
    pub(crate) fn run(&self, subcommand: &str, items: &str, args: &str) -> Ran {
        self.run_in(&Place::new(), subcommand, items, args)
    }

    pub(crate) fn run_in(&self, place: &Place, subcommand: &str, items: &str, args: &str) -> Ran {
        let line = format!("{subcommand} --mint {} --keyset {KEYSET} - {args}", self.url);
        place.run_with(line, items.as_bytes())
    }
}

pub(crate) fn filter(kind: NoteKind) -> String {
    let points = match kind {
        NoteKind::Issued => 0..ISSUED,
        NoteKind::Spent => CANDIDATES..CANDIDATES + SPENT,
    };
    filter_of(points.map(point), Params::CASHU, TIMESTAMP).to_json()
}

pub(crate) fn honest(request: &Request) -> (&'static str, String) {
    // The number of a candidate, from the first point of its kind on.
    let number = |in_hex: &str, from: usize| {
        let is_it = |&number: &usize| in_hex == hex(&point(number));
        (from..from + CANDIDATES).find(is_it).expect("a candidate") - from
    };
    let body = match request.path() {
        "/v1/checkstate" => states(&request.body, |y| match number(y, CANDIDATES) {
            0 => "PENDING",
            1 => "UNSPENT",
            _ => "SPENT",
        }),
        "/v1/restore" => {
            let outputs = request.body["outputs"].as_array().expect("a list");
            if outputs.iter().any(|output| output["B_"] == *hex(&point(REFUSED))) {
                return ("400 No", r#"{"detail":"amount 0","code":11006}"#.to_owned());
            }
            signatures(&request.body, |message, output| {
                let dleq = json!({"e": "11".repeat(32), "s": "22".repeat(32)});
                let c = hex(&point(ISSUED));
                let signature = json!({"amount": 8, "id": output["id"], "C_": c, "dleq": dleq});
                (number(message, 0) != UNSIGNED).then_some(signature)
            })
        }
        path if path.contains("/issued/") => return ("200 OK", filter(NoteKind::Issued)),
        path if path.contains("/spent/") => return ("200 OK", filter(NoteKind::Spent)),
        _ => return ("404 Not Found", String::new()),
    };
    ("200 OK", body.to_string())
}
