//! A mint for `check --mint` and `restore`: filters, states and signatures, and a record of all requests.

use std::ops::Range;
use std::sync::OnceLock;

use nutfilter::{Params, SortedHashes};
use nutfilter_cashu::{FilterResponse, NoteKind};
use serde_json::{Value, json};

use crate::nutfilter::{Place, Ran, hex};
pub(crate) use crate::seeded_mint::Request;
use crate::seeded_mint::{Seen, serve};

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
    POINTS.get_or_init(|| {
        let on_curve = |x: u32| {
            let mut point = [2; 33];
            point[29..].copy_from_slice(&x.to_be_bytes());
            let is_point = secp256k1::PublicKey::from_slice(&point).is_ok();
            is_point.then_some(point)
        };
        (0..).filter_map(on_curve).take(10_000).collect()
    })[number]
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

/// A mint whose thread ends with the test process.
pub(crate) struct Mint {
    pub(crate) url: String,
    seen: Seen,
}

impl Mint {
    /// `answer` returns the status and body for each request.
    pub(crate) fn answering<B: AsRef<[u8]>>(
        answer: impl Fn(&Request) -> (&'static str, B) + Send + 'static,
    ) -> Self {
        let (url, seen) = serve(0, answer).expect("a free port");
        Self { url, seen }
    }

    pub(crate) fn honest() -> Self {
        Self::answering(honest)
    }

    pub(crate) fn seen(&self) -> Vec<Request> {
        self.seen.lock().expect("a log").clone()
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
    let filter = SortedHashes::from_items(points.map(point)).encode(Params::CASHU);
    FilterResponse::new(&filter.expect("a filter"), TIMESTAMP).to_json()
}

pub(crate) fn honest(request: &Request) -> (&'static str, String) {
    let path = request.path();
    let list = |name: &str| request.body[name].as_array().expect("a list").clone();
    let number = |point: &Value, from: usize| {
        let is_it = |&number: &usize| *point == *hex(&self::point(number)).as_str();
        (from..from + CANDIDATES).find(is_it).expect("a candidate") - from
    };
    let body = match path {
        "/v1/checkstate" => {
            let state = |y: &Value| {
                let state = match number(y, CANDIDATES) {
                    0 => "PENDING",
                    1 => "UNSPENT",
                    _ => "SPENT",
                };
                json!({"Y": y, "state": state})
            };
            json!({ "states": list("Ys").iter().map(state).collect::<Value>() })
        }
        "/v1/restore" => {
            let mut outputs = list("outputs");
            let is = |wanted: usize| move |output: &Value| number(&output["B_"], 0) == wanted;
            if outputs.iter().any(is(REFUSED)) {
                return ("400 No", r#"{"detail":"amount 0","code":11006}"#.to_owned());
            }
            outputs.retain(|output| !is(UNSIGNED)(output));
            let signature = |output: &Value| {
                let c = hex(&point(ISSUED));
                let dleq = json!({"e": "11".repeat(32), "s": "22".repeat(32)});
                json!({"amount": 8, "id": output["id"], "C_": c, "dleq": dleq})
            };
            let signatures = outputs.iter().map(signature).collect::<Value>();
            json!({ "outputs": outputs, "signatures": signatures })
        }
        path if path.contains("/issued/") => return ("200 OK", filter(NoteKind::Issued)),
        path if path.contains("/spent/") => return ("200 OK", filter(NoteKind::Spent)),
        _ => return ("404 Not Found", String::new()),
    };
    ("200 OK", body.to_string())
}
