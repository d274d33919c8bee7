//! A keyset with version `02`: a mint that signs with BLS, and a restore from a seed.

use std::collections::BTreeSet;

use bls12_381::hash_to_curve::{ExpandMsgXmd, HashToCurve};
use bls12_381::{G1Affine, G1Projective, G2Affine, G2Projective, Scalar, pairing};
use nutfilter_wallet::{BlindSignature, Outcome, RestoreOptions};
use serde_json::{Value, json as value};
use sha2_for_bls12_381::{Digest, Sha256};

use crate::conversation::{asked, hex, posts};
use crate::*;

/// The counters of the seed that the mint signed, and of those that were spent.
const SIGNED: usize = 25;
const SPENT: usize = 2;

pub(crate) fn vectors() -> Value {
    serde_json::from_str(include_str!("../../../../tests/vectors/points.json")).expect("JSON")
}

pub(crate) fn from_hex(text: &Value) -> Vec<u8> {
    let text = text.as_str().expect("text");
    const_hex::decode(text).expect("hex")
}

/// A scalar from 32 big-endian bytes.
fn scalar(bytes: &[u8]) -> Option<Scalar> {
    let mut bytes: [u8; 32] = bytes.try_into().expect("32 bytes");
    bytes.reverse();
    Scalar::from_bytes(&bytes).into_option()
}

fn hmac(key: &[u8; 64], message: &[u8]) -> Vec<u8> {
    let padded = |by: u8| key.map(|byte| byte ^ by);
    let inner = Sha256::new()
        .chain_update(padded(0x36))
        .chain_update(message);
    let outer = Sha256::new().chain_update(padded(0x5c));
    outer.chain_update(inner.finalize()).finalize().to_vec()
}

/// What a wallet derives for one counter (NUT-13).
struct Candidate {
    secret: String,
    r: Scalar,
    y: G1Affine,
    blinded: G1Affine,
}

impl Candidate {
    fn new(seed: &[u8; 64], keyset: &[u8], counter: u64) -> Self {
        let derive = |end: &[u8]| {
            let parts = [
                b"Cashu_KDF_HMAC_SHA256",
                keyset,
                &counter.to_be_bytes(),
                end,
            ];
            hmac(seed, &parts.concat())
        };
        let secret = hex(&derive(&[0]));
        let attempt = |attempt: u32| scalar(&derive(&[&[1], &attempt.to_be_bytes()[..]].concat()));
        let r = (0..).find_map(attempt).expect("every second number is one");
        let y = hash_to_curve(&secret);
        let blinded = G1Affine::from(y * r);
        Self {
            secret,
            r,
            y,
            blinded,
        }
    }
}

fn hash_to_curve(secret: &str) -> G1Affine {
    let dst = b"CASHU_BLS12_381_G1_XMD:SHA-256_SSWU_RO_";
    let point = <G1Projective as HashToCurve<ExpandMsgXmd<Sha256>>>::hash_to_curve([secret], dst);
    point.into()
}

fn point(text: &str) -> G1Affine {
    let bytes = from_hex(&text.into()).try_into().expect("48 bytes");
    G1Affine::from_compressed(&bytes).expect("a point of the subgroup")
}

/// The wallet's candidates, the mint's key, and the keyset, from the vectors.
fn wallet() -> (Vec<Candidate>, Scalar, KeysetId) {
    let vectors = vectors();
    let seed = from_hex(&vectors["seed"]).try_into().expect("64 bytes");
    let id = from_hex(&vectors["keyset"]);
    let candidates = (0..40).map(|counter| Candidate::new(&seed, &id, counter));
    let key = scalar(&from_hex(&vectors["a"])).expect("a scalar");
    (candidates.collect(), key, hex(&id).parse().expect("an ID"))
}

/// Unblinds a signature and verifies it.
fn unblind(candidate: &Candidate, signature: &BlindSignature, key: &G2Affine) -> G1Affine {
    let c = point(&hex(&signature.c)) * candidate.r.invert().expect("not zero");
    let c = G1Affine::from(c);
    let y = hash_to_curve(&candidate.secret);
    assert_eq!(pairing(&c, &G2Affine::generator()), pairing(&y, key));
    c
}

#[test]
fn restore_from_a_seed_gives_signatures_that_verify() {
    let (candidates, key, keyset) = wallet();
    let bytes = |points: Vec<G1Affine>| -> Vec<[u8; 48]> {
        points.iter().map(G1Affine::to_compressed).collect()
    };
    let blinded = bytes(candidates.iter().map(|one| one.blinded).collect());
    let ys = bytes(candidates.iter().map(|one| one.y).collect());
    let [issued, spent] =
        [&blinded[..SIGNED], &ys[..SPENT]].map(|items| json(filter_of(items, now()).to_json()));
    let signed: BTreeSet<_> = blinded[..SIGNED].iter().map(|one| hex(one)).collect();
    let gone: BTreeSet<_> = ys[..SPENT].iter().map(|one| hex(one)).collect();
    let id = keyset.clone();
    let mint = Loopback::start(move |request, stream| {
        if request.starts_with("GET ") {
            let is_issued = request.contains("/issued/");
            return stream.write_all(if is_issued { &issued } else { &spent });
        }
        let asked = asked(request);
        if request.starts_with("POST /v1/checkstate") {
            let state = |y: &String| {
                let state = if gone.contains(y) { "SPENT" } else { "UNSPENT" };
                value!({"Y": y, "state": state})
            };
            let states = asked.iter().map(state).collect::<Value>();
            return stream.write_all(&json(value!({"states": states}).to_string()));
        }
        let known = asked.iter().filter(|one| signed.contains(*one));
        let (outputs, signatures): (Vec<_>, Vec<_>) = known
            .map(|one| {
                let c = G1Affine::from(point(one) * key);
                // A mint may fill the place of the proof.
                let dleq = value!({"e": format!("{:064x}", 1), "s": format!("{:064x}", 1)});
                let id = id.as_str();
                (
                    value!({"amount": 0, "id": id, "B_": one}),
                    value!({"amount": 8, "id": id, "C_": hex(&c.to_compressed()), "dleq": dleq}),
                )
            })
            .unzip();
        let answer = value!({"outputs": outputs, "signatures": signatures});
        stream.write_all(&json(answer.to_string()))
    })
    .asked_about_matches();

    let client = client(&mint);
    let pairs: Vec<_> = blinded.iter().copied().zip(ys).collect();
    let options = RestoreOptions {
        confirm: true,
        ..RestoreOptions::default()
    };
    let restored = client.restore(&keyset, &pairs, &options);
    let restored = restored.expect("signatures");
    let public = G2Affine::from(G2Projective::generator() * key);
    let vectors = vectors();
    assert_eq!(from_hex(&vectors["K"]), public.to_compressed());
    for (number, (candidate, outcome)) in candidates.iter().zip(&restored.outcomes).enumerate() {
        let signature = match outcome {
            Outcome::Live(signature) => signature,
            Outcome::Spent => {
                assert!(number < SPENT);
                continue;
            }
            other => {
                assert!(number >= SIGNED, "{number}: {other:?}");
                continue;
            }
        };
        assert!((SPENT..SIGNED).contains(&number) && signature.dleq.is_none());
        let c = unblind(candidate, signature, &public);
        // The first ones were computed by another implementation.
        if let Some(note) = vectors["notes"].get(number) {
            let ours = [candidate.y, candidate.blinded, point(&hex(&signature.c)), c];
            for (ours, field) in ours.iter().zip(["Y", "B_", "C_", "C"]) {
                assert_eq!(ours.to_compressed().to_vec(), from_hex(&note[field]));
            }
            assert_eq!(note["secret"], candidate.secret);
        }
    }
    assert_eq!(restored.next_counter(), SIGNED);
    let sent: Vec<_> = posts(&mint).iter().map(|post| asked(post).len()).collect();
    assert_eq!(sent, [SPENT, SIGNED - SPENT]);
}
