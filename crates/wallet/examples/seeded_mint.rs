//! A mint that signed notes of one seed, on both curves, for docs/tutorial-wallet.md to restore from:
//!
//! ```sh
//! cargo run -p nutfilter-wallet --example seeded_mint
//! ```

use std::collections::BTreeMap;
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

/// The counters that the mint signed on secp256k1, and of those that were spent.
const SIGNED: u64 = 30;
const SPENT: u64 = 20;

/// Of the signed notes on BLS12-381, as many are spent.
const SPENT_OF_BLS: usize = 5;

struct Keyset {
    id: String,
    /// By amount.
    keys: Value,
    /// By `B_`, with its proof (NUT-12) if there is one.
    signatures: BTreeMap<String, Value>,
    spent: Vec<String>,
}

fn main() -> Result<(), Error> {
    let keysets = [on_secp256k1()?, on_bls12_381()?];
    let listener = TcpListener::bind(ADDRESS)?;
    println!("http://{ADDRESS}");
    for stream in listener.incoming() {
        if let Err(error) = answer(&keysets, stream?) {
            eprintln!("{error}");
        }
    }
    Ok(())
}

fn on_secp256k1() -> Result<Keyset, Error> {
    let (seed, id) = ([7; 64], [&[1][..], &[7; 32]].concat());
    let curve = Secp256k1::new();
    let key = |amount: u64| SecretKey::from_slice(&Sha256::digest(format!("key {amount}")));
    let mut keyset = Keyset {
        id: const_hex::encode(&id),
        keys: json!({}),
        signatures: BTreeMap::new(),
        spent: Vec::new(),
    };
    for counter in 0..SIGNED {
        let derive = |kind| {
            let counter = counter.to_be_bytes();
            let parts = [b"Cashu_KDF_HMAC_SHA256", &id[..], &counter, &[kind]];
            hmac(&seed, &parts.concat())
        };
        let y = hash_to_curve(const_hex::encode(derive(0)).as_bytes())?;
        let r = SecretKey::from_slice(&derive(1))?;
        let blinded = y.combine(&r.public_key(&curve))?;
        let amount = 1 << (counter % 8);
        let (c, e, s) = sign(&key(amount)?, &blinded)?;
        keyset.keys[amount.to_string()] = hex(&key(amount)?.public_key(&curve)).into();
        let dleq = json!({"e": e, "s": s});
        let signature = json!({"id": keyset.id, "amount": amount, "C_": hex(&c), "dleq": dleq});
        keyset.signatures.insert(hex(&blinded), signature);
        if counter < SPENT {
            keyset.spent.push(hex(&y));
        }
    }
    Ok(keyset)
}

/// The notes of the test vectors, which are of the same seed.
fn on_bls12_381() -> Result<Keyset, Error> {
    let file = include_str!("../../../tests/vectors/points.json");
    let vectors: Value = serde_json::from_str(file)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let id = text(&vectors["keyset"]);
    let notes = vectors["notes"].as_array().ok_or("no notes")?;
    let sign = |note: &Value| {
        let signature = json!({"id": id, "amount": 8, "C_": note["C_"]});
        (text(&note["B_"]), signature)
    };
    let spent = notes.iter().take(SPENT_OF_BLS);
    Ok(Keyset {
        keys: json!({ "8": vectors["K"] }),
        signatures: notes.iter().map(sign).collect(),
        spent: spent.map(|note| text(&note["Y"])).collect(),
        id,
    })
}

fn answer(keysets: &[Keyset], mut stream: TcpStream) -> Result<(), Error> {
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
    let named = keysets.iter().find(|keyset| path.ends_with(&keyset.id));
    let answer = match (path, named) {
        ("/v1/restore", _) => restore(keysets, &body).to_string(),
        ("/v1/keysets", _) => {
            let keyset = |one: &Keyset| json!({"id": one.id, "unit": "sat", "active": true});
            json!({"keysets": keysets.iter().map(keyset).collect::<Value>()}).to_string()
        }
        (_, Some(keyset)) if path.contains("/issued/") => filter(keyset.signatures.keys())?,
        (_, Some(keyset)) if path.contains("/spent/") => filter(&keyset.spent)?,
        (_, Some(Keyset { id, keys, .. })) => {
            json!({"keysets": [{"id": id, "unit": "sat", "keys": keys}]}).to_string()
        }
        _ => json!({"detail": "Not Found"}).to_string(),
    };
    let head = format!("Content-Length: {}\r\nConnection: close", answer.len());
    Ok(write!(stream, "HTTP/1.1 200 OK\r\n{head}\r\n\r\n{answer}")?)
}

fn restore(keysets: &[Keyset], request: &Value) -> Value {
    let (mut outputs, mut signatures) = (Vec::new(), Vec::new());
    for output in request["outputs"].as_array().into_iter().flatten() {
        let blinded = output["B_"].as_str().unwrap_or_default();
        let signature = keysets
            .iter()
            .find_map(|keyset| keyset.signatures.get(blinded));
        if let Some(signature) = signature {
            outputs.push(output);
            signatures.push(signature);
        }
    }
    json!({"outputs": outputs, "signatures": signatures})
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
