//! A mint that signed notes of a seed, for docs/tutorial-wallet.md and the tests to restore from:
//!
//! ```sh
//! cargo run -p nutfilter-testing --features mint --example seeded_mint
//! ```

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

use cashu::dhke::{hash_to_curve, sign_message};
use cashu::{BlindSignature, Id, SecretKey};
use nutfilter::Params;
use nutfilter_wallet::cashu::{Seed, SeedPoints};
use serde_json::{Value, json};

use crate::loopback::{Loopback, Request};
use crate::{filter_of, signatures, states};

type Error = Box<dyn std::error::Error>;

/// The keysets with notes: the ids of their keys.
pub const KEYSETS: [&str; 3] = [
    "0049c41fb72a472f",
    "01fcdc3bc5910548439b66048d77354e56ae4b8fb930b3a8dfdd7c41539a5d733a",
    "F87AqWquk/+C",
];

/// The id of other keys, of the same number in the path of BIP32 as the first one.
pub const TWIN: &str = "00e7cd42b5ee34e9";

/// The mint answers 400 to every question about this keyset.
pub const BROKEN: &str = "00ffffffffffffff";

/// A keyset of a version whose notes the crate `cashu` does not derive.
pub const DRAFT: &str = "02abababababababababababababababababababababababababababababababab";

/// The counters that the mint signed, in each keyset with notes. A payment's blanks lie between.
pub const SIGNED: [u32; 11] = [0, 1, 2, 3, 4, 120, 121, 122, 123, 124, 125];

/// As many of them are spent.
pub const SPENT: usize = 7;

/// What a mint knows of a keyset.
struct Keyset {
    id: String,
    signatures: BTreeMap<String, Value>,
    /// Of the signed notes, in the order of their counters.
    ys: Vec<String>,
}

/// The mint, and the requests so far.
pub struct Mint {
    /// Whether it answers about the states of notes.
    pub has_states: bool,
    /// How many notes behind the spent ones are in a payment.
    pub pending: usize,
    /// Whether it has filters.
    pub has_filters: bool,
    /// Whether it announces them.
    pub announces: bool,
    /// The parameters of its filters.
    pub params: Params,
    /// Its keysets without notes.
    pub others: Vec<&'static str>,
    /// Its keyset of unit `usd`, if any.
    pub usd: &'static str,
    /// The keyset for which it gives the keys of another one.
    pub forged: &'static str,
    /// The paths, or parts of them, that it does not answer at all.
    pub silent: &'static str,
    /// After so many answers about messages it has no further ones.
    pub restores: AtomicUsize,
    /// A change of each signature that it gives.
    pub change: fn(&mut Value),
    keysets: Vec<Keyset>,
}

impl Mint {
    /// Starts a mint that signed the notes of this seed, at this port; `change` comes before.
    ///
    /// # Errors
    ///
    /// If the port is taken.
    pub fn start(
        seed: &Seed,
        port: u16,
        change: impl FnOnce(&mut Self),
    ) -> Result<Loopback, Error> {
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
        let answer = move |request: &Request| match mint.reply(request.path(), &request.body) {
            Ok(Some(answer)) => ("200 OK", answer),
            _ => {
                let detail = format!("invalid request: {}", request.body);
                ("400 Bad Request", json!({ "detail": detail }).to_string())
            }
        };
        Ok(Loopback::answering(port, answer)?)
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
        let mut outputs = request["outputs"].as_array().into_iter().flatten();
        if outputs.any(|output| output["id"] == BROKEN) {
            return None;
        }
        let answer = signatures(request, |message, _| {
            let mut keysets = self.keysets.iter();
            let mut signature = keysets.find_map(|one| one.signatures.get(message))?.clone();
            (self.change)(&mut signature);
            Some(signature)
        });
        Some(answer.to_string())
    }

    fn states(&self, request: &Value) -> Value {
        let place = |y: &str| {
            self.keysets.iter().find_map(|keyset| keyset.ys.iter().position(|one| *one == y))
        };
        states(request, |y| match place(y) {
            Some(at) if at < SPENT => "SPENT",
            Some(at) if at < SPENT + self.pending => "PENDING",
            _ => "UNSPENT",
        })
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
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    Ok(filter_of(items, params, now).to_json())
}
