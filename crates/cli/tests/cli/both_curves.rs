//! A mint with keysets of both curves: no note is missing from the filters.

use std::collections::HashSet;
use std::iter;
use std::path::Path;

use bls12_381::{G1Affine, G1Projective};
use nutfilter_mint::NoteKind;
use nutfilter_sample::Sample;
use serde_json::{Value, json};

use crate::asking_mint::Mint;
use crate::nutfilter::{Place, hex};
use crate::support::{Server, serve_from};

/// Of each keyset, spent and issued.
const NOTES: u64 = 10_000;

#[test]
fn notes_of_both_curves_are_served_checked_and_restored() {
    let place = Place::new();
    let mut sample = Sample::new(2 * NOTES, 2 * NOTES);
    let bls = "02".to_owned() + &"ab".repeat(32);
    sample.second_keyset = Some(bls.parse().unwrap());
    let database = place.path("cdk-mintd.sqlite");
    sample.write(&database, &mut |_| ()).unwrap();
    let messages = replace_messages(&database, &sample);
    let server = Server::start(serve_from(&database, ""));
    let url = &server.base;
    let lines = |args: String, items: &[Vec<u8>]| {
        let ran = place.run_with(
            format!("{args} --mint {url} --quiet -"),
            lines_of(items).as_bytes(),
        );
        assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
        let text = String::from_utf8(ran.stdout).unwrap();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    for kind in NoteKind::ALL {
        let all: Vec<_> = match kind {
            NoteKind::Spent => (0..2 * NOTES)
                .map(|index| sample.note(kind, index))
                .collect(),
            NoteKind::Issued => messages.clone(),
        };
        let keysets = [(sample.keyset.as_str(), 33), (&*bls, 48)];
        for (keyset, bytes) in keysets {
            let of_keyset = all.iter().filter(|note| note.len() == bytes);
            let notes: Vec<_> = of_keyset.cloned().collect();
            assert_eq!(notes.len() as u64, NOTES);
            let check = format!("check --keyset {keyset} --kind {kind} --expected 10000");
            let found = lines(check, &notes);
            let maybe = found.iter().filter(|line| line.starts_with("maybe"));
            assert_eq!(maybe.count() as u64, NOTES, "{kind} {keyset}");
            if kind == NoteKind::Issued {
                let signed = restored(&server, keyset, &notes);
                assert_eq!(signed, notes.iter().map(|note| hex(note)).collect());
            }
        }
    }
}

fn lines_of(notes: &[Vec<u8>]) -> String {
    notes.iter().map(|note| hex(note) + "\n").collect()
}

/// Puts points of the curves in the place of the sample's messages: a wallet refuses to ask about anything else.
fn replace_messages(database: &Path, sample: &Sample) -> Vec<Vec<u8>> {
    let secp256k1 = (0_u32..).filter_map(|number| {
        let mut point = vec![2; 33];
        point[29..].copy_from_slice(&number.to_be_bytes());
        secp256k1::PublicKey::from_slice(&point).ok().map(|_| point)
    });
    let generator = G1Projective::generator();
    let bls12381 = iter::successors(Some(generator), |point| Some(point + generator));
    let bls12381 = bls12381.map(|point| G1Affine::from(point).to_compressed().to_vec());
    let messages = secp256k1.zip(bls12381).take(NOTES as usize);
    let messages: Vec<_> = messages.flat_map(|(one, other)| [one, other]).collect();
    let mut database = rusqlite::Connection::open(database).unwrap();
    let change = database.transaction().unwrap();
    for (index, message) in messages.iter().enumerate() {
        let update = "UPDATE blind_signature SET blinded_message = ? WHERE blinded_message = ?";
        let old = sample.note(NoteKind::Issued, index as u64);
        assert_eq!(change.execute(update, (message, old)).unwrap(), 1);
    }
    change.commit().unwrap();
    messages
}

/// The messages for which `restore` prints signatures of a mint that signed all of them, with the service's filter.
fn restored(server: &Server, keyset: &str, notes: &[Vec<u8>]) -> HashSet<String> {
    let path = format!("/v1/filter/issued/{keyset}");
    let filter = server.get(&path).1;
    let known: HashSet<_> = notes.iter().map(|note| hex(note)).collect();
    let c = hex(&notes[0]);
    let mint = Mint::answering(move |request| {
        if request.line.starts_with("GET ") {
            return ("200 OK", filter.clone());
        }
        let mut outputs = request.body["outputs"].as_array().unwrap().clone();
        outputs.retain(|output| known.contains(output["B_"].as_str().unwrap()));
        let signature = |output: &Value| json!({"amount": 8, "id": output["id"], "C_": c});
        let signatures: Vec<_> = outputs.iter().map(signature).collect();
        let body = json!({"outputs": outputs, "signatures": signatures});
        ("200 OK", body.to_string())
    });
    let url = &mint.url;
    let restore = format!("restore --mint {url} --keyset {keyset} --quiet --max-revealed 10000 -");
    let text = Place::new()
        .run_with(restore, lines_of(notes).as_bytes())
        .text();
    let signed = text
        .lines()
        .filter_map(|line| line.strip_prefix("signed\t"));
    signed
        .map(|line| line.split('\t').next().unwrap().to_owned())
        .collect()
}
