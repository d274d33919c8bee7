//! A keyset with version `02`: a restore with the points that another implementation made.

use nutfilter_testing::{signatures, states};
use nutfilter_wallet::Outcome;
use serde_json::{Value, json as value};

use crate::conversation::{CONFIRM, asked, posts};
use crate::*;

/// The notes of the vectors that the mint signed, and those that are spent.
const SIGNED: usize = 6;
const SPENT: usize = 2;

pub(crate) fn vectors() -> Value {
    serde_json::from_str(include_str!("../../../../tests/vectors/points.json")).expect("JSON")
}

pub(crate) fn from_hex(text: &Value) -> Vec<u8> {
    let text = text.as_str().expect("text");
    const_hex::decode(text).expect("hex")
}

#[test]
fn restore_gives_the_signatures_of_the_vectors() {
    let vectors = vectors();
    let notes = vectors["notes"].as_array().expect("notes").clone();
    let points = |field: &str| -> Vec<_> {
        let notes = notes.iter();
        notes.map(|note| from_hex(&note[field])).collect()
    };
    let (blinded, ys, wanted) = (points("B_"), points("Y"), points("C_"));
    let [issued, spent] = [&blinded[..SIGNED], &ys[..SPENT]]
        .map(|items| json(filter_of(items, Params::CASHU, now()).to_json()));
    let keyset = vectors["keyset"].as_str().expect("text");
    let keyset: KeysetId = keyset.parse().expect("an ID");
    let id = keyset.clone();
    let mint = start(move |request, stream| {
        if request.starts_with("GET ") {
            let is_issued = request.contains("/issued/");
            return stream.write_all(if is_issued { &issued } else { &spent });
        }
        let (_, body) = request.split_once("\r\n\r\n").expect("a head");
        let body = serde_json::from_str(body).expect("JSON");
        let answer = match request.starts_with("POST /v1/checkstate") {
            true => states(&body, |_| "SPENT"),
            // It fills the place of the proof, which its signatures do not have.
            false => signatures(&body, |message, _| {
                let note = notes.iter().find(|note| note["B_"] == *message);
                let dleq = value!({"e": format!("{:064x}", 1), "s": format!("{:064x}", 1)});
                let c = &note.expect("a note of the vectors")["C_"];
                Some(value!({"amount": 8, "id": id.as_str(), "C_": c, "dleq": dleq}))
            }),
        };
        stream.write_all(&json(answer.to_string()))
    })
    .checked(eavesdrop::matches_in_posts);

    // A point of the other curve would be absent.
    let filter = client(&mint).fetch(&keyset, NoteKind::Spent);
    let filter = filter.expect("a filter");
    let found = filter.matches(&ys, None).expect("points").answers;
    let is_spent = found.iter().map(|&answer| answer == Answer::MaybePresent);
    assert!(is_spent.eq((0..ys.len()).map(|number| number < SPENT)));
    let refused = filter.matches(&[item(0)], None);
    assert_failed!(refused, CheckError::NotAPoint { bytes: 33, .. });

    let pairs: Vec<_> = blinded.into_iter().zip(ys).collect();
    let restored = client(&mint).restore(&keyset, &pairs[..], &CONFIRM);
    let restored = restored.expect("signatures");
    for (number, (outcome, c)) in restored.outcomes.iter().zip(wanted).enumerate() {
        match outcome {
            Outcome::Spent => assert!(number < SPENT),
            Outcome::Live(signature) => {
                assert!((SPENT..SIGNED).contains(&number) && signature.dleq.is_none());
                assert_eq!(signature.c, c);
            }
            other => assert_eq!((other, number >= SIGNED), (&Outcome::Unused, true)),
        }
    }
    assert_eq!(restored.next_counter(), SIGNED as u32 + 40);
    let sent: Vec<_> = posts(&mint).iter().map(|post| asked(post).len()).collect();
    assert_eq!(sent, [SIGNED - SPENT, SPENT]);
}
