//! A mint with keysets of both curves: no note is missing from the filters, and a wallet of each restores.

use std::iter;
use std::path::Path;

use bls12_381::{G1Affine, G1Projective};
use nutfilter_mint::NoteKind;
use nutfilter_sample::Sample;
use serde_json::{Value, json};

use crate::asking_mint::{Mint, point};
use crate::nutfilter::{Place, hex};
use crate::support::{Server, serve_from};

/// Of each keyset: spent notes, and issued ones.
const SPENT: usize = 500;
const ISSUED: usize = 800;
const CANDIDATES: usize = 1_000;

#[test]
fn notes_of_both_curves_are_served_checked_and_restored() {
    let place = Place::new();
    let mut sample = Sample::new(2 * SPENT as u64, 2 * ISSUED as u64);
    let bls = "02".to_owned() + &"ab".repeat(32);
    sample.second_keyset = Some(bls.parse().unwrap());
    let database = place.path("cdk-mintd.sqlite");
    sample.write(&database, &mut |_| ()).unwrap();
    let generator = G1Projective::generator();
    let of_bls = iter::successors(Some(generator), |point| Some(point + generator));
    let of_bls = of_bls.map(|point| G1Affine::from(point).to_compressed().to_vec());
    let of_bls = of_bls.take(2 * CANDIDATES).collect();
    let of_secp = (0..2 * CANDIDATES)
        .map(|number| point(number).to_vec())
        .collect();
    // Messages, then notes.
    let points: [Vec<Vec<u8>>; 2] = [of_secp, of_bls];
    for (kind, update) in [
        (
            NoteKind::Issued,
            "UPDATE blind_signature SET blinded_message = ? WHERE blinded_message = ?",
        ),
        (NoteKind::Spent, "UPDATE proof SET y = ? WHERE y = ?"),
    ] {
        replace(&database, &sample, kind, update, &points);
    }
    let server = Server::start(serve_from(&database, ""));
    for (keyset, points) in [sample.keyset.as_str(), &bls].into_iter().zip(&points) {
        let (messages, ys) = points.split_at(CANDIDATES);
        for (kind, items, known) in [("issued", messages, ISSUED), ("spent", ys, SPENT)] {
            let url = &server.base;
            let check = format!("check --mint {url} --keyset {keyset} --kind {kind} --count -");
            let lines: String = items.iter().map(|item| hex(item) + "\n").collect();
            let counts = place.run_with(check, lines.as_bytes()).text();
            let wanted = format!("maybe\t{known}\nabsent\t{}\n", CANDIDATES - known);
            assert_eq!(counts, wanted, "{kind} {keyset}");
        }
        let pairs = messages.iter().zip(ys);
        let pairs: String = pairs
            .map(|(b, y)| format!("{}\t{}\n", hex(b), hex(y)))
            .collect();
        let text = restored(&server, keyset, &pairs);
        for (number, (line, message)) in text.lines().zip(messages).enumerate() {
            let word = match number {
                ..SPENT => "spent",
                SPENT..ISSUED => "live",
                _ => "unused",
            };
            assert!(
                line.starts_with(&format!("{word}\t{}", hex(message))),
                "{line}"
            );
        }
        assert_eq!(text.lines().count(), CANDIDATES);
    }
}

/// Puts points of the curves in the place of the sample's notes of a kind.
fn replace(
    database: &Path,
    sample: &Sample,
    kind: NoteKind,
    update: &str,
    points: &[Vec<Vec<u8>>; 2],
) {
    let mut database = rusqlite::Connection::open(database).unwrap();
    let change = database.transaction().unwrap();
    let first = if kind == NoteKind::Issued {
        0
    } else {
        CANDIDATES
    };
    for index in 0..sample.count(kind) as usize {
        let new = &points[index % 2][first + index / 2];
        let old = sample.note(kind, index as u64);
        assert_eq!(change.execute(update, (new, old)).unwrap(), 1);
    }
    change.commit().unwrap();
}

/// What `restore` prints at a mint that has signed everything, with the service's filters.
fn restored(server: &Server, keyset: &str, pairs: &str) -> String {
    let [spent, issued] =
        NoteKind::ALL.map(|kind| server.get(&format!("/v1/filter/{kind}/{keyset}")).1);
    let mint = Mint::answering(move |request| {
        if request.line.starts_with("GET ") {
            let is_issued = request.line.contains("/issued/");
            return (
                "200 OK",
                if is_issued {
                    issued.clone()
                } else {
                    spent.clone()
                },
            );
        }
        let outputs = request.body["outputs"].as_array().unwrap();
        let sign = |output: &Value| json!({"amount": 8, "id": output["id"], "C_": output["B_"]});
        let signatures: Vec<_> = outputs.iter().map(sign).collect();
        (
            "200 OK",
            json!({"outputs": outputs, "signatures": signatures}).to_string(),
        )
    });
    let restore = format!("restore --mint {} --keyset {keyset} --quiet -", mint.url);
    Place::new().run_with(restore, pairs.as_bytes()).text()
}
