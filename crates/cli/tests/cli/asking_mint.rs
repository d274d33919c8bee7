//! A mint for `check --confirm` and `restore`: filters, states and signatures, and a record of all requests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use nutfilter::{Params, SortedHashes};
use nutfilter_cashu::FilterResponse;
use serde_json::{Value, json};

use crate::nutfilter::{Place, Ran, hex};

pub(crate) const TIMESTAMP: u64 = 1_000_000;
pub(crate) const KEYSET: &str = "009a1f293253e41e";

/// Number of points in both filters; as many more are not in them.
pub(crate) const KNOWN: usize = 100;

/// A point on the curve, different for each number.
pub(crate) fn point(number: usize) -> [u8; 33] {
    static POINTS: OnceLock<Vec<[u8; 33]>> = OnceLock::new();
    POINTS.get_or_init(|| {
        let on_curve = |x: u32| {
            let mut point = [2; 33];
            point[29..].copy_from_slice(&x.to_be_bytes());
            let is_point = secp256k1::PublicKey::from_slice(&point).is_ok();
            is_point.then_some(point)
        };
        (0..).filter_map(on_curve).take(2 * KNOWN).collect()
    })[number]
}

pub(crate) fn points(numbers: std::ops::Range<usize>) -> String {
    numbers.map(|number| hex(&point(number)) + "\n").collect()
}

/// A request: its first line, its condition (`If-None-Match`), and its body.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) line: String,
    pub(crate) if_none_match: Option<String>,
    pub(crate) body: Value,
}

/// A mint whose thread ends with the test process.
pub(crate) struct Mint {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<Request>>>,
}

impl Mint {
    /// `answer` returns the status and body for each request.
    pub(crate) fn answering<B: AsRef<[u8]>>(
        answer: impl Fn(&Request) -> (&'static str, B) + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("its address"));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = seen.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mut reader = BufReader::new(&stream);
                let mut lines = (&mut reader).lines().map_while(Result::ok);
                let line = lines.next().unwrap_or_default();
                let headers: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
                let value = |name: &str| {
                    headers.iter().find_map(|header| {
                        let (other, value) = header.split_once(':')?;
                        let is_it = other.eq_ignore_ascii_case(name);
                        is_it.then(|| value.trim().to_owned())
                    })
                };
                let length =
                    value("content-length").map_or(0, |length| length.parse().expect("a length"));
                let mut body = vec![0; length];
                reader.read_exact(&mut body).expect("a body");
                let request = Request {
                    line,
                    if_none_match: value("if-none-match"),
                    body: serde_json::from_slice(&body).unwrap_or(Value::Null),
                };
                log.lock().expect("a log").push(request.clone());
                let (status, body) = answer(&request);
                let body = body.as_ref();
                let length = body.len();
                let head = format!(
                    "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
                );
                // Ignore clients that hang up.
                let _ = (&stream).write_all(&[head.as_bytes(), body].concat());
            }
        });
        Self { url, seen }
    }

    /// All known points are spent and signed, except that the first is pending and the second is neither.
    pub(crate) fn honest() -> Self {
        Self::answering(|request| ("200 OK", honest(request)))
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
        let line = format!(
            "{subcommand} --mint {} --keyset {KEYSET} - {args}",
            self.url
        );
        place.run_with(line, items.as_bytes())
    }
}

pub(crate) fn filter() -> String {
    let hashes = SortedHashes::from_items((0..KNOWN).map(point));
    let filter = hashes.encode(Params::CASHU).expect("a filter");
    FilterResponse::new(&filter, TIMESTAMP).to_json()
}

pub(crate) fn honest(request: &Request) -> String {
    let known: Vec<_> = (0..KNOWN).map(|number| hex(&point(number))).collect();
    let path = request.line.split(' ').nth(1).expect("a path");
    let list = |name: &str| request.body[name].as_array().expect("a list").clone();
    match path {
        "/v1/checkstate" => {
            let state = |y: &Value| match known.iter().position(|known| y == known) {
                Some(0) => json!({"Y": y, "state": "PENDING"}),
                None | Some(1) => json!({"Y": y, "state": "UNSPENT"}),
                Some(_) => json!({"Y": y, "state": "SPENT", "witness": ""}),
            };
            let states: Vec<_> = list("Ys").iter().map(state).collect();
            json!({ "states": states }).to_string()
        }
        "/v1/restore" => {
            let mut outputs = list("outputs");
            outputs.retain(|output| known.iter().skip(2).any(|known| output["B_"] == *known));
            let signature = |output: &Value| {
                let c = hex(&point(KNOWN));
                let dleq = json!({"e": "11".repeat(32), "s": "22".repeat(32)});
                json!({"amount": 8, "id": output["id"], "C_": c, "dleq": dleq})
            };
            let signatures: Vec<_> = outputs.iter().map(signature).collect();
            json!({ "outputs": outputs, "signatures": signatures }).to_string()
        }
        _ => filter(),
    }
}
