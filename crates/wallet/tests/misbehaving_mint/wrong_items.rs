//! Items that are not points of the keyset's curve are refused: no filter has them, so they would all be absent.

use crate::conversation::*;
use crate::*;
use nutfilter_wallet::QueryError;

/// Ten kinds of wrong items, for a keyset on secp256k1.
fn wrong_items() -> Vec<(&'static str, Vec<u8>)> {
    let mut off_curve = point(0);
    while secp256k1::PublicKey::from_slice(&off_curve).is_ok() {
        off_curve[32] += 1;
    }
    let x = &point(0)[1..];
    vec![
        ("nothing", vec![]),
        ("a secret", hex(&[7; 32]).into_bytes()),
        ("a secret, decoded", vec![7; 32]),
        ("an x-only key", x.to_vec()),
        ("two bytes", vec![0xaa, 0xbb]),
        ("an uncompressed point", [&[4], x, x].concat()),
        ("off the curve", off_curve.to_vec()),
        ("another prefix", [&[5], x].concat()),
        ("a point in hex as text", hex(&point(0)).into_bytes()),
        ("a point of the other curve", bls::from_hex(&bls::vectors()["notes"][0]["Y"])),
        ("a token", b"cashuBo2F0gaJhaUgA".to_vec()),
    ]
}

#[test]
fn wrong_items_are_refused_with_their_place_and_length() {
    let mint = honest_mint();
    let client = client(&mint);
    let spent = client.fetch(&keyset(), NoteKind::Spent).expect("a filter");
    for (name, wrong) in wrong_items() {
        let good: Vec<_> =
            candidates(0..3).into_iter().map(|(b, y)| (b.to_vec(), y.to_vec())).collect();
        let mut items: Vec<_> = good.iter().map(|(_, y)| y.clone()).collect();
        items.insert(2, wrong.clone());
        let error = spent.matches(&items, None).expect_err(name);
        let bytes = wrong.len();
        let text = format!(
            "item 3 ({bytes} bytes) is not a point of the keyset's curve (33 bytes); give `Y` for spent notes, `B_` for \
             issued ones"
        );
        assert_eq!(error.to_string(), text, "{name}");
        for (what, is_y) in [("B_", false), ("Y", true)] {
            let mut pairs = good.clone();
            *(if is_y { &mut pairs[1].1 } else { &mut pairs[1].0 }) = wrong.clone();
            let error = client.restore(&keyset(), &pairs[..], &PLAIN);
            let error = error.expect_err(name);
            assert!(error.to_string().starts_with(&format!("{what} 2 ({bytes} bytes)")), "{error}");
            assert_failed!(
                Err::<(), _>(error.cause),
                QueryError::Check(CheckError::NotAPoint { place: 1, .. })
            );
        }
    }
    let none: [Candidate; 0] = [];
    let error = client.restore(&keyset(), &none[..], &PLAIN);
    assert_eq!(error.expect_err("nothing").to_string(), "no items");
    assert_eq!(spent.matches::<[u8; 33]>(&[], None).err(), Some(CheckError::NoItems));
    assert_eq!(posts(&mint).len(), 0);
}
