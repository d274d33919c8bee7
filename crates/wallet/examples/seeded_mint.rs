//! A mint that signed notes of one seed, for docs/tutorial-wallet.md to restore from:
//!
//! ```sh
//! cargo run -p nutfilter-wallet --example seeded_mint
//! ```

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{SystemTime, UNIX_EPOCH};

use nutfilter::{Params, SortedHashes};
use nutfilter_cashu::FilterResponse;
use secp256k1::{PublicKey, Scalar, Secp256k1, SecretKey};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

type Error = Box<dyn std::error::Error>;

const ADDRESS: &str = "127.0.0.1:3400";

/// The counters that the mint signed, and of those that were spent.
const SIGNED: u64 = 30;
const SPENT: u64 = 20;

struct Mint {
    keyset: String,
    keys: BTreeMap<u64, SecretKey>,
    /// By `B_`, the amount of each signed message.
    signed: HashMap<String, u64>,
    spent: Vec<String>,
}

fn main() -> Result<(), Error> {
    let (seed, id) = ([7; 64], [&[1][..], &[7; 32]].concat());
    let curve = Secp256k1::new();
    let mut mint = Mint {
        keyset: const_hex::encode(&id),
        keys: BTreeMap::new(),
        signed: HashMap::new(),
        spent: Vec::new(),
    };
    for amount in (0..8).map(|power| 1 << power) {
        let key = SecretKey::from_slice(&Sha256::digest(format!("key of amount {amount}")))?;
        mint.keys.insert(amount, key);
    }
    for counter in 0..SIGNED {
        let derive = |kind| {
            let counter = counter.to_be_bytes();
            let parts = [b"Cashu_KDF_HMAC_SHA256", &id[..], &counter, &[kind]];
            hmac(&seed, &parts.concat())
        };
        let y = hash_to_curve(const_hex::encode(derive(0)).as_bytes())?;
        let r = SecretKey::from_slice(&derive(1))?;
        let blinded = y.combine(&r.public_key(&curve))?;
        mint.signed.insert(hex(&blinded), 1 << (counter % 8));
        if counter < SPENT {
            mint.spent.push(hex(&y));
        }
    }
    let listener = TcpListener::bind(ADDRESS)?;
    let keyset = &mint.keyset;
    println!("http://{ADDRESS}, keyset {keyset}: {SIGNED} notes signed, {SPENT} spent");
    for stream in listener.incoming() {
        if let Err(error) = mint.answer(stream?) {
            eprintln!("{error}");
        }
    }
    Ok(())
}

impl Mint {
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
        let path = first.split(' ').nth(1).unwrap_or_default();
        let answer = match path {
            "/v1/restore" => self.restore(&serde_json::from_slice(&body)?)?,
            "/v1/checkstate" => self.states(&serde_json::from_slice(&body)?),
            _ if path.contains("/issued/") => filter(self.signed.keys())?,
            _ if path.contains("/spent/") => filter(&self.spent)?,
            _ => self.public_keys(),
        };
        let head = format!("Content-Length: {}\r\nConnection: close", answer.len());
        write!(stream, "HTTP/1.1 200 OK\r\n{head}\r\n\r\n{answer}")?;
        Ok(())
    }

    fn public_keys(&self) -> String {
        let curve = Secp256k1::new();
        let mut keys = serde_json::Map::new();
        for (amount, key) in &self.keys {
            keys.insert(amount.to_string(), hex(&key.public_key(&curve)).into());
        }
        json!({"keysets": [{"id": self.keyset, "unit": "sat", "keys": keys}]}).to_string()
    }

    fn states(&self, request: &Value) -> String {
        let ys = request["Ys"].as_array().into_iter().flatten();
        let state = |y: &Value| {
            let is_spent = self.spent.iter().any(|spent| *y == **spent);
            json!({"Y": y, "state": if is_spent { "SPENT" } else { "UNSPENT" }})
        };
        json!({"states": ys.map(state).collect::<Vec<_>>()}).to_string()
    }

    fn restore(&self, request: &Value) -> Result<String, Error> {
        let (mut outputs, mut signatures) = (Vec::new(), Vec::new());
        for output in request["outputs"].as_array().into_iter().flatten() {
            let text = output["B_"].as_str().unwrap_or_default();
            let Some(amount) = self.signed.get(text) else {
                continue;
            };
            let blinded = PublicKey::from_slice(&const_hex::decode(text)?)?;
            let (c, e, s) = sign(&self.keys[amount], &blinded)?;
            let dleq = json!({"e": e, "s": s});
            outputs.push(output);
            signatures
                .push(json!({"id": self.keyset, "amount": amount, "C_": hex(&c), "dleq": dleq}));
        }
        Ok(json!({"outputs": outputs, "signatures": signatures}).to_string())
    }
}

/// `C_ = a B_`, and the proof of that (NUT-12). The nonce is not random: nobody trusts this mint with money.
fn sign(key: &SecretKey, blinded: &PublicKey) -> Result<(PublicKey, String, String), Error> {
    let curve = Secp256k1::new();
    let c = blinded.mul_tweak(&curve, &Scalar::from(*key))?;
    let nonce = SecretKey::from_slice(&Sha256::digest(blinded.serialize()))?;
    let r2 = blinded.mul_tweak(&curve, &Scalar::from(nonce))?;
    let mut hash = Sha256::new();
    for point in [nonce.public_key(&curve), r2, key.public_key(&curve), c] {
        hash.update(const_hex::encode(point.serialize_uncompressed()));
    }
    let e = SecretKey::from_slice(&hash.finalize())?;
    let s = key.mul_tweak(&Scalar::from(e))?;
    let s = s.add_tweak(&Scalar::from(nonce))?;
    let text = |key: SecretKey| const_hex::encode(key.secret_bytes());
    Ok((c, text(e), text(s)))
}

fn filter<'a>(points: impl IntoIterator<Item = &'a String>) -> Result<String, Error> {
    let points = points.into_iter();
    let points: Result<Vec<_>, _> = points.map(const_hex::decode).collect();
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let filter = SortedHashes::from_items(points?).encode(Params::CASHU)?;
    Ok(FilterResponse::new(&filter, now).to_json())
}

fn hash_to_curve(message: &[u8]) -> Result<PublicKey, Error> {
    let hash = Sha256::new().chain_update(b"Secp256k1_HashToCurve_Cashu_");
    let hash = hash.chain_update(message).finalize();
    let point = |counter: u32| {
        let x = Sha256::new().chain_update(hash);
        let x = x.chain_update(counter.to_le_bytes()).finalize();
        PublicKey::from_slice(&[&[2], x.as_slice()].concat()).ok()
    };
    (0..1 << 16)
        .find_map(point)
        .ok_or("no point for this message".into())
}

fn hmac(key: &[u8; 64], message: &[u8]) -> [u8; 32] {
    let padded = |by: u8| Sha256::new().chain_update(key.map(|byte| byte ^ by));
    let inner = padded(0x36).chain_update(message).finalize();
    padded(0x5c).chain_update(inner).finalize().into()
}

fn hex(point: &PublicKey) -> String {
    const_hex::encode(point.serialize())
}
