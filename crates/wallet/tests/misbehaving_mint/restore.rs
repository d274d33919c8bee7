//! NUT-09: what a mint is asked, and how its answers are validated.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use serde_json::{Value, json as value};

use crate::conversation::*;
use crate::*;
use nutfilter_wallet::{BlindSignature, Dleq, QueryError, Restored};

const KEYSET: &str = "009a1f293253e41e";

/// The output and signature of each signed message. The amount depends on the last byte of `B_`.
fn honest_pairs(asked: &[String]) -> (Vec<Value>, Vec<Value>) {
    let signed: BTreeSet<_> = (0..SPENT).map(|i| hex(&note(i))).collect();
    let pair = |b: &String| {
        let amount = u64::from_str_radix(&b[64..], 16).expect("hex");
        (
            value!({"amount": 0, "id": KEYSET, "B_": b, "witness": null}),
            value!({"amount": amount, "id": KEYSET, "C_": hex(&signature_of(b)), "dleq": null}),
        )
    };
    asked
        .iter()
        .filter(|b| signed.contains(*b))
        .map(pair)
        .unzip()
}

/// Any point will do, as long as it is unique for the message.
fn signature_of(blinded: &str) -> [u8; 33] {
    let number = (0..SPENT).position(|i| hex(&note(i)) == blinded);
    let mut point = note(number.expect("one of the notes") + SPENT);
    point[0] = 3;
    point
}

fn pairs((outputs, signatures): (Vec<Value>, Vec<Value>)) -> Vec<u8> {
    json(value!({ "outputs": outputs, "signatures": signatures }).to_string())
}

fn restore_by(
    mint: &Loopback,
    policy: Policy,
    items: &[[u8; 33]],
) -> Result<Vec<Restored>, QueryError> {
    let (client, matches) = matches_of(mint, NoteKind::Issued, policy, items);
    client.restore(&keyset(), &matches)
}

#[test]
fn each_match_gets_its_own_signature_in_any_order() {
    let mint = mint(|asked| {
        let (mut outputs, mut signatures) = honest_pairs(&asked);
        outputs.reverse();
        signatures.reverse();
        pairs((outputs, signatures))
    });
    let items: Vec<_> = (0..70).flat_map(|i| [note(i), note(i + SPENT)]).collect();
    let (client, matches) = matches_of(&mint, NoteKind::Issued, Policy::default(), &items);
    let restored = client.restore(&keyset(), &matches).expect("signatures");
    assert_eq!(restored.len(), items.len());
    for (item, restored) in items.iter().zip(&restored) {
        let b = hex(item);
        match restored {
            Restored::Absent { as_of } => {
                assert!(notes(SPENT..SPENT + 70).contains(item));
                assert_eq!(*as_of, matches.as_of());
            }
            Restored::Signed(signature) => assert_eq!(
                *signature,
                BlindSignature {
                    amount: u64::from(item[32]),
                    keyset: keyset(),
                    c: signature_of(&b).to_vec(),
                    dleq: None,
                }
            ),
            Restored::Unsigned => panic!("{b}"),
        }
    }
}

#[test]
fn requests_hold_only_matches_shuffled_without_amounts() {
    let mint = mint(|asked| pairs(honest_pairs(&asked)));
    let items = notes(SPENT - 100..SPENT + 100);
    let matching: Vec<_> = (SPENT - 100..SPENT).map(|i| hex(&note(i))).collect();
    restore_by(&mint, Policy::default(), &items).expect("signatures");
    let posts = posts(&mint);
    let sizes: Vec<_> = posts.iter().map(|post| asked(post).len()).collect();
    assert_eq!(sizes, [64, 36]);
    let sent: Vec<_> = posts.iter().flat_map(|post| asked(post)).collect();
    for post in &posts {
        assert_mixed(&asked(post), &matching);
    }
    assert!(sent.iter().collect::<BTreeSet<_>>() == matching.iter().collect());
    let (head, body) = posts[0].split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("POST /v1/restore HTTP/1.1\r\n"));
    let body: Value = serde_json::from_str(body).expect("JSON");
    for output in body["outputs"].as_array().expect("outputs") {
        assert_eq!(output["amount"], 0);
        assert_eq!(output["id"], KEYSET);
        assert_eq!(output.as_object().expect("an object").len(), 3);
    }
}

#[test]
fn chance_matches_are_unsigned_and_too_many_are_an_error() {
    let without = |missing: usize| {
        let mint = mint(move |asked| {
            let left_out: Vec<_> = (0..missing).map(|i| hex(&note(i))).collect();
            let mut signed = asked;
            signed.retain(|b| !left_out.contains(b));
            pairs(honest_pairs(&signed))
        });
        let restored = restore_by(&mint, Policy::default(), &notes(0..200));
        (restored, posts(&mint).len())
    };
    let (restored, _) = without(2);
    let restored = restored.expect("two are believable");
    assert_eq!(restored.len(), 200);
    assert_eq!(restored[..2], [Restored::Unsigned, Restored::Unsigned]);
    assert!(
        restored[2..]
            .iter()
            .all(|one| matches!(one, Restored::Signed(_)))
    );

    let (error, requests) = without(200);
    assert_failed!(
        error,
        QueryError::Contradicted {
            not_in_set: 64,
            asked: 64,
            ..
        }
    );
    assert_eq!(requests, 1);
}

#[test]
fn dleq_is_returned_and_keyset_spelling_may_differ() {
    let mint = mint(|asked| {
        let (outputs, mut signatures) = honest_pairs(&asked);
        for signature in &mut signatures {
            signature["dleq"] = value!({"e": "01".repeat(32), "s": "ab".repeat(32)});
            signature["id"] = KEYSET.to_uppercase().into();
        }
        // Some mints add this for older wallets.
        let all = value!({ "outputs": outputs, "signatures": signatures, "promises": signatures });
        json(all.to_string())
    });
    let restored = restore_by(&mint, Policy::default(), &notes(0..3)).expect("signatures");
    for restored in restored {
        let Restored::Signed(signature) = restored else {
            panic!("{restored:?}")
        };
        let wanted = Dleq {
            e: [0x01; 32],
            s: [0xab; 32],
        };
        assert_eq!(signature.dleq, Some(wanted));
    }
}

#[test]
fn matches_of_other_filters_are_not_sent() {
    let mint = mint(|asked| pairs(honest_pairs(&asked)));
    let items = notes(0..10);
    // The `Y`s of spent notes are not outputs, and outputs belong to one keyset.
    let (client, matches) = matches_of(&mint, NoteKind::Spent, Policy::default(), &items);
    let error = client
        .restore(&keyset(), &matches)
        .expect_err("spent notes");
    assert!(matches!(error, QueryError::OtherSource(_)), "{error}");
    let (client, matches) = matches_of(&mint, NoteKind::Issued, Policy::default(), &items);
    let other = KeysetId::parse("00ffd48b8f5ecf80").expect("a keyset id");
    let error = client
        .restore(&other, &matches)
        .expect_err("another keyset");
    assert!(matches!(error, QueryError::OtherSource(_)), "{error}");
    assert_eq!(posts(&mint), [] as [&str; 0]);
    // A batch may hold a single output.
    let one = policy!(batch: NonZeroUsize::MIN);
    restore_by(&mint, one, &items).expect("signatures");
    assert_eq!(posts(&mint).len(), 10);
}
