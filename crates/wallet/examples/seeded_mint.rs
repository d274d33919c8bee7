//! A mint that signed notes of the seed `[7; 64]`, for docs/tutorial-wallet.md and the tests to restore from:
//!
//! ```sh
//! cargo run -p nutfilter-wallet --features cashu --example seeded_mint
//! ```

#![allow(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use cashu::dhke::{hash_to_curve, sign_message};
use cashu::{BlindSignature, Id, SecretKey};
use nutfilter::{Params, SortedHashes};
use nutfilter_cashu::FilterResponse;
use nutfilter_wallet::cashu::{Seed, SeedPoints};
use serde_json::{Value, json};

type Error = Box<dyn std::error::Error>;

/// The keysets with notes: the ids of their keys.
pub(crate) const KEYSETS: [&str; 3] = [
    "0049c41fb72a472f",
    "01fcdc3bc5910548439b66048d77354e56ae4b8fb930b3a8dfdd7c41539a5d733a",
    "F87AqWquk/+C",
];

/// The id of other keys, of the same number in the path of BIP32 as the first one.
pub(crate) const TWIN: &str = "00e7cd42b5ee34e9";

/// The mint answers 400 to every question about this keyset.
pub(crate) const BROKEN: &str = "00ffffffffffffff";

/// A keyset of a version whose notes the crate `cashu` does not derive.
pub(crate) const DRAFT: &str = "02abababababababababababababababababababababababababababababababab";

/// The counters that the mint signed, in each keyset with notes. A payment's blanks lie between.
pub(crate) const SIGNED: [u32; 11] = [0, 1, 2, 3, 4, 120, 121, 122, 123, 124, 125];

/// As many of them are spent.
pub(crate) const SPENT: usize = 7;

/// What a mint knows of a keyset.
struct Keyset {
    id: String,
    signatures: BTreeMap<String, Value>,
    /// Of the signed notes, in the order of their counters.
    ys: Vec<String>,
}

/// The mint, and the requests so far.
pub(crate) struct Mint {
    /// Whether it answers about the states of notes.
    pub(crate) has_states: bool,
    /// How many notes behind the spent ones are in a payment.
    pub(crate) pending: usize,
    /// Whether it has filters.
    pub(crate) has_filters: bool,
    /// Whether it announces them.
    pub(crate) announces: bool,
    /// The parameters of its filters.
    pub(crate) params: Params,
    /// Its keysets without notes.
    pub(crate) others: Vec<&'static str>,
    /// Its keyset of unit `usd`, if any.
    pub(crate) usd: &'static str,
    /// The keyset for which it gives the keys of another one.
    pub(crate) forged: &'static str,
    /// The paths, or parts of them, that it does not answer at all.
    pub(crate) silent: &'static str,
    /// After so many answers about messages it has no further ones.
    pub(crate) restores: AtomicUsize,
    /// A change of each signature that it gives.
    pub(crate) change: fn(&mut Value),
    keysets: Vec<Keyset>,
}

/// A request: its first line and its body.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) line: String,
    pub(crate) body: Value,
}

/// The requests so far.
pub(crate) type Seen = Arc<Mutex<Vec<Request>>>;

#[allow(dead_code)]
fn main() -> Result<(), Error> {
    println!("{}", Mint::start(&Seed::from([7; 64]), 3400, |_| {})?.0);
    loop {
        std::thread::park();
    }
}

/// Answers requests at this port with a status and a body, in a thread of its own, until the process ends. Returns the URL.
pub(crate) fn serve<B: AsRef<[u8]>>(
    port: u16,
    answer: impl Fn(&Request) -> (&'static str, B) + Send + 'static,
) -> Result<(String, Seen), Error> {
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    let (url, seen) = (format!("http://{}", listener.local_addr()?), Seen::default());
    let log = seen.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // Clients that hang up are ignored.
            let _ = converse(&stream, &log, &answer);
        }
    });
    Ok((url, seen))
}

fn converse<B: AsRef<[u8]>>(
    mut stream: &TcpStream,
    seen: &Seen,
    answer: &impl Fn(&Request) -> (&'static str, B),
) -> Result<(), Error> {
    let mut reader = BufReader::new(stream);
    let (mut first, mut line, mut length) = (String::new(), String::new(), 0);
    reader.read_line(&mut first)?;
    while reader.read_line(&mut line)? > 2 {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body = serde_json::from_slice(&body).unwrap_or_default();
    let line = first.trim_end().to_owned();
    let request = Request { line, body };
    seen.lock().expect("no panic").push(request.clone());
    let (status, body) = answer(&request);
    let length = body.as_ref().len();
    let head =
        format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    Ok(stream.write_all(&[head.as_bytes(), body.as_ref()].concat())?)
}

impl Request {
    pub(crate) fn path(&self) -> &str {
        self.line.split(' ').nth(1).unwrap_or_default()
    }
}

impl Mint {
    /// A mint that signed the notes of this seed, at this port; `change` comes before. Returns its URL, and the requests so far.
    pub(crate) fn start(
        seed: &Seed,
        port: u16,
        change: impl FnOnce(&mut Self),
    ) -> Result<(String, Seen), Error> {
        let keysets = KEYSETS.map(|id| Keyset::new(seed, id));
        let mut mint = Self {
            has_states: true,
            pending: 0,
            has_filters: true,
            announces: true,
            params: Params::CASHU,
            others: vec![BROKEN, DRAFT],
            usd: "",
            forged: "none",
            silent: "none",
            restores: AtomicUsize::new(usize::MAX),
            change: |_| {},
            keysets: keysets.into_iter().collect::<Result<_, _>>()?,
        };
        change(&mut mint);
        serve(port, move |request| match mint.reply(request.path(), &request.body) {
            Ok(Some(answer)) => ("200 OK", answer),
            _ => {
                let detail = format!("invalid request: {}", request.body);
                ("400 Bad Request", json!({ "detail": detail }).to_string())
            }
        })
    }

    fn reply(&self, path: &str, body: &Value) -> Result<Option<String>, Error> {
        if path.contains(self.silent) {
            std::thread::sleep(std::time::Duration::from_secs(20));
        }
        let spelled = path.replace("%2F", "/").replace("%2B", "+");
        let twin = spelled.contains(TWIN);
        let named = self.keysets.iter().find(|one| {
            if twin {
                return one.id == KEYSETS[0];
            }
            let url_safe = one.id.replace('+', "-").replace('/', "_");
            spelled.ends_with(&one.id) || spelled.ends_with(&url_safe)
        });
        Ok(Some(match (path, named) {
            ("/v1/restore", _)
                if self
                    .restores
                    .fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1))
                    .is_ok() =>
            {
                return Ok(self.restore(body));
            }
            ("/v1/checkstate", _) if self.has_states => self.states(body).to_string(),
            ("/v1/info", _) => {
                json!({"filters": {"supported": self.has_filters && self.announces}}).to_string()
            }
            ("/v1/keysets", _) => {
                let ids = [&KEYSETS[..], &self.others].concat();
                let unit = |id| if id == self.usd { "usd" } else { "sat" };
                let keyset = |id| json!({"id": id, "unit": unit(id), "active": id == KEYSETS[1]});
                json!({"keysets": ids.into_iter().map(keyset).collect::<Value>()}).to_string()
            }
            (_, Some(Keyset { id, .. })) if path.starts_with("/v1/keys/") => {
                let id = if twin { TWIN } else { id };
                let of = if id == self.forged { "forged" } else { id };
                let key =
                    |bit: u64| (format!("{}", 1 << bit), json!(key(of, 1 << bit).public_key()));
                let keys: serde_json::Map<_, _> = (0..8).map(key).collect();
                json!({"keysets": [{"id": id, "unit": "sat", "keys": keys}]}).to_string()
            }
            (_, Some(one)) if self.has_filters && path.contains("/issued/") => {
                filter(one.signatures.keys(), self.params)?
            }
            (_, Some(one)) if self.has_filters && path.contains("/spent/") => {
                filter(&one.ys[..SPENT], self.params)?
            }
            _ => return Ok(None),
        }))
    }

    fn restore(&self, request: &Value) -> Option<String> {
        let (mut outputs, mut signatures) = (Vec::new(), Vec::new());
        for output in request["outputs"].as_array().into_iter().flatten() {
            if output["id"] == BROKEN {
                return None;
            }
            let blinded = output["B_"].as_str().unwrap_or_default();
            let mut keysets = self.keysets.iter();
            if let Some(signature) = keysets.find_map(|keyset| keyset.signatures.get(blinded)) {
                outputs.push(output);
                let mut signature = signature.clone();
                (self.change)(&mut signature);
                signatures.push(signature);
            }
        }
        Some(json!({"outputs": outputs, "signatures": signatures}).to_string())
    }

    fn states(&self, request: &Value) -> Value {
        let place = |y: &Value| {
            self.keysets.iter().find_map(|keyset| keyset.ys.iter().position(|one| *y == **one))
        };
        let state = |y| match place(y) {
            Some(at) if at < SPENT => "SPENT",
            Some(at) if at < SPENT + self.pending => "PENDING",
            _ => "UNSPENT",
        };
        let ys = request["Ys"].as_array().into_iter().flatten();
        let state = |y| json!({"Y": y, "state": state(y)});
        json!({"states": ys.map(state).collect::<Value>()})
    }
}

impl Keyset {
    fn new(seed: &Seed, id: &str) -> Result<Self, Error> {
        let points = SeedPoints::new(seed, &id.parse()?)?;
        let (mut signatures, mut ys) = (BTreeMap::new(), Vec::new());
        for (number, &counter) in SIGNED.iter().enumerate() {
            let amount = 1 << (number % 8);
            let blinded = points.message(counter)?;
            let mut signature = BlindSignature {
                amount: amount.into(),
                keyset_id: Id::from_bytes(&[0; 8])?, // replaced below: the crate has no ids in base64
                c: sign_message(&key(id, amount), &blinded)?,
                dleq: None,
            };
            signature.add_dleq_proof(&blinded, &key(id, amount))?;
            let mut signature = json!(signature);
            signature["id"] = id.into();
            signatures.insert(blinded.to_hex(), signature);
            ys.push(hash_to_curve(points.secret(counter)?.as_bytes())?.to_hex());
        }
        let id = id.to_owned();
        Ok(Self { id, signatures, ys })
    }
}

/// The mint's key for an amount: nobody trusts this mint with money.
fn key(keyset: &str, amount: u64) -> SecretKey {
    let mut bytes = [7; 32];
    bytes[24..].copy_from_slice(&amount.to_be_bytes());
    if amount == 128 {
        let own: u64 = match keyset {
            "0049c41fb72a472f" => 5071,
            TWIN => 58_803,
            "forged" => 1,
            _ => 0,
        };
        bytes[16..24].copy_from_slice(&own.to_be_bytes());
    }
    SecretKey::from_slice(&bytes).expect("below the order")
}

fn filter(
    items: impl IntoIterator<Item = impl AsRef<str>>,
    params: Params,
) -> Result<String, Error> {
    let items = items.into_iter().map(|item| const_hex::decode(item.as_ref()));
    let items = items.collect::<Result<Vec<_>, _>>()?;
    let filter = SortedHashes::from_items(items).encode(params)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    Ok(FilterResponse::new(&filter, now).to_json())
}
