//! A mint that signed notes of the seed `[7; 64]`, for docs/tutorial-wallet.md and the tests to restore from:
//!
//! ```sh
//! cargo run -p nutfilter-wallet --features cashu --example seeded_mint
//! ```

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use cashu::dhke::{hash_to_curve, sign_message};
use cashu::{BlindSignature, Id, SecretKey};
use nutfilter::{Params, SortedHashes};
use nutfilter_cashu::FilterResponse;
use nutfilter_wallet::cashu::{Seed, SeedPoints};
use serde_json::{Value, json};

type Error = Box<dyn std::error::Error>;

/// The keysets with notes.
pub(crate) const KEYSETS: [&str; 3] = [
    "009a1f293253e41e",
    "012e23479a0029432eaad0d2040c09be53bab592d5cbf1d55e0dd26c9495951b30",
    "I2yN+iRYfk/T",
];

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
    spent: Vec<String>,
}

/// The mint, and the paths and bodies of the requests so far.
pub(crate) struct Mint {
    /// Whether it has filters.
    pub(crate) has_filters: bool,
    /// Whether it announces them.
    pub(crate) announces: bool,
    /// Its keysets without notes.
    pub(crate) others: Vec<&'static str>,
    /// A change of each signature that it gives.
    pub(crate) change: fn(&mut Value),
    /// The requests so far.
    pub(crate) seen: Arc<Mutex<Vec<(String, Value)>>>,
    keysets: Vec<Keyset>,
}

#[allow(dead_code)]
fn main() -> Result<(), Error> {
    let listener = TcpListener::bind("127.0.0.1:3400")?;
    println!("http://{}", listener.local_addr()?);
    Mint::new(&Seed::from([7; 64]))?.serve(&listener)
}

impl Mint {
    /// A mint that signed the notes of this seed.
    pub(crate) fn new(seed: &Seed) -> Result<Self, Error> {
        let keysets = KEYSETS.map(|id| Keyset::new(seed, id));
        Ok(Self {
            has_filters: true,
            announces: true,
            others: vec![BROKEN, DRAFT],
            change: |_| {},
            seen: Arc::default(),
            keysets: keysets.into_iter().collect::<Result<_, _>>()?,
        })
    }

    /// Answers until the process ends.
    pub(crate) fn serve(&self, listener: &TcpListener) -> Result<(), Error> {
        for stream in listener.incoming() {
            if let Err(error) = self.answer(stream?) {
                eprintln!("{error}");
            }
        }
        Ok(())
    }

    fn answer(&self, mut stream: TcpStream) -> Result<(), Error> {
        let mut reader = BufReader::new(stream.try_clone()?);
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
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let path = first.split(' ').nth(1).unwrap_or_default();
        let seen = (path.to_owned(), body.clone());
        self.seen.lock().expect("no panic").push(seen);
        let (status, answer) = match self.reply(path, &body)? {
            Some(answer) => ("200 OK", answer),
            None => (
                "400 Bad Request",
                json!({"detail": format!("invalid request: {body}")}).to_string(),
            ),
        };
        let head = format!("Content-Length: {}\r\nConnection: close", answer.len());
        Ok(write!(
            stream,
            "HTTP/1.1 {status}\r\n{head}\r\n\r\n{answer}"
        )?)
    }

    fn reply(&self, path: &str, body: &Value) -> Result<Option<String>, Error> {
        let spelled = path.replace("%2F", "/").replace("%2B", "+");
        let named = self.keysets.iter().find(|one| {
            let url_safe = one.id.replace('+', "-").replace('/', "_");
            spelled.ends_with(&one.id) || spelled.ends_with(&url_safe)
        });
        Ok(Some(match (path, named) {
            ("/v1/restore", _) => return Ok(self.restore(body)),
            ("/v1/checkstate", _) => self.states(body).to_string(),
            ("/v1/info", _) => {
                json!({"filters": {"supported": self.has_filters && self.announces}}).to_string()
            }
            ("/v1/keysets", _) => {
                let ids = [&KEYSETS[..], &self.others].concat();
                let keyset = |id| json!({"id": id, "unit": "sat", "active": id == KEYSETS[1]});
                json!({"keysets": ids.into_iter().map(keyset).collect::<Value>()}).to_string()
            }
            (_, Some(Keyset { id, .. })) if path.starts_with("/v1/keys/") => {
                let keys =
                    (0..8).map(|bit| (format!("{}", 1 << bit), json!(key(1 << bit).public_key())));
                let keys: serde_json::Map<_, _> = keys.collect();
                json!({"keysets": [{"id": id, "unit": "sat", "keys": keys}]}).to_string()
            }
            (_, Some(one)) if self.has_filters && path.contains("/issued/") => {
                filter(one.signatures.keys())?
            }
            (_, Some(one)) if self.has_filters && path.contains("/spent/") => filter(&one.spent)?,
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
        let is_spent = |y: &Value| {
            let mut spent = self.keysets.iter().flat_map(|keyset| &keyset.spent);
            spent.any(|spent| *y == **spent)
        };
        let ys = request["Ys"].as_array().into_iter().flatten();
        let state = |y| json!({"Y": y, "state": if is_spent(y) { "SPENT" } else { "UNSPENT" }});
        json!({"states": ys.map(state).collect::<Value>()})
    }
}

impl Keyset {
    fn new(seed: &Seed, id: &str) -> Result<Self, Error> {
        let points = SeedPoints::new(seed, &id.parse()?)?;
        let (mut signatures, mut spent) = (BTreeMap::new(), Vec::new());
        for (number, &counter) in SIGNED.iter().enumerate() {
            let amount = 1 << (number % 8);
            let blinded = points.message(counter)?;
            let mut signature = BlindSignature {
                amount: amount.into(),
                keyset_id: Id::from_bytes(&[0; 8])?, // replaced below: the crate has no ids in base64
                c: sign_message(&key(amount), &blinded)?,
                dleq: None,
            };
            signature.add_dleq_proof(&blinded, &key(amount))?;
            let mut signature = json!(signature);
            signature["id"] = id.into();
            signatures.insert(blinded.to_hex(), signature);
            if number < SPENT {
                spent.push(hash_to_curve(points.secret(counter)?.as_bytes())?.to_hex());
            }
        }
        let id = id.to_owned();
        Ok(Self {
            id,
            signatures,
            spent,
        })
    }
}

/// The mint's key for an amount: nobody trusts this mint with money.
fn key(amount: u64) -> SecretKey {
    let mut bytes = [7; 32];
    bytes[24..].copy_from_slice(&amount.to_be_bytes());
    SecretKey::from_slice(&bytes).expect("below the order")
}

fn filter(items: impl IntoIterator<Item = impl AsRef<str>>) -> Result<String, Error> {
    let items = items
        .into_iter()
        .map(|item| const_hex::decode(item.as_ref()));
    let items = items.collect::<Result<Vec<_>, _>>()?;
    let filter = SortedHashes::from_items(items).encode(Params::CASHU)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    Ok(FilterResponse::new(&filter, now).to_json())
}
