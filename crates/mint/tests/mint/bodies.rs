//! The forms of a filter, made once, in memory and on disk.

use std::io::Read;
use std::sync::Arc;

use nutfilter::{Params, SortedHashes};
use nutfilter_cashu::FilterResponse;
use nutfilter_mint::source::KeysetInfo;
use nutfilter_mint::{BodyPlace, FinishedFilter, KeysetEntry, NoteKind, Snapshot};

use crate::support::{V1, V2, items, keyset};

/// A filter of `n` items, and the expected JSON.
fn filter(n: usize, timestamp: u64, place: &BodyPlace) -> (FinishedFilter, Vec<u8>) {
    let filter = SortedHashes::from_items(items(1, n, 33));
    let filter = filter.encode(Params::CASHU).unwrap();
    let json = FilterResponse::new(&filter, timestamp).to_json();
    let (n, params) = (filter.n(), filter.params());
    let raw = filter.into_bytes().into();
    let finished = FinishedFilter::new(raw, n, params, timestamp, place).unwrap();
    (finished, json.into_bytes())
}

fn places() -> (tempfile::TempDir, [BodyPlace; 2]) {
    let directory = tempfile::tempdir().unwrap();
    let place = BodyPlace::Directory(directory.path().to_owned());
    (directory, [BodyPlace::Memory, place])
}

#[test]
fn every_form_holds_the_same_response() {
    let (_directory, places) = places();
    for place in &places {
        for n in [0, 1, 300, 400, 50_000] {
            let (finished, json) = filter(n, 1_767_225_600, place);
            assert_eq!(finished.json().bytes()[..], json[..], "n = {n}");
            assert_eq!(
                finished.json().gzip().is_some(),
                json.len() >= 1024,
                "n = {n}"
            );
            if let Some(gzip) = finished.json().gzip() {
                let mut text = vec![];
                let mut decoder = flate2::read::GzDecoder::new(&gzip[..]);
                decoder.read_to_end(&mut text).unwrap();
                assert_eq!(text, json, "n = {n}");
                assert!(n < 50_000 || gzip.len() * 1000 < json.len() * 755);
            }
        }
    }
}

#[test]
fn same_set_makes_the_same_bytes_in_any_place() {
    let (_directory, places) = places();
    let bodies = places.map(|place| {
        let (finished, _) = filter(5_000, 7, &place);
        let json = finished.json();
        [finished.raw(), json.bytes(), json.gzip().unwrap()].map(Clone::clone)
    });
    assert_eq!(bodies[0], bodies[1]);
}

#[test]
fn later_timestamp_changes_only_the_json() {
    let place = BodyPlace::Memory;
    let (first, _) = filter(1_000, 5, &place);
    let later = first.restamped(6, &place).unwrap();
    let (_, expected) = filter(1_000, 6, &place);
    assert_eq!(later.json().bytes()[..], expected[..]);
    assert_eq!((later.n(), later.timestamp()), (1_000, 6));
    assert_ne!(later.json().sha256(), first.json().sha256());
    // Shared, not copied.
    assert_eq!(later.raw().as_ptr(), first.raw().as_ptr());
}

#[test]
fn missing_place_is_an_error() {
    let (directory, [_, place]) = places();
    let (finished, _) = filter(1_000, 5, &place);
    directory.close().unwrap();
    assert!(finished.restamped(6, &place).is_err());
}

#[test]
fn snapshot_takes_one_filter_at_a_time() {
    let entry = KeysetEntry {
        info: KeysetInfo::new(keyset(V1)),
        spent: None,
        issued: None,
    };
    let empty = Snapshot::new(vec![entry], 1);
    let (finished, _) = filter(3, 5, &BodyPlace::Memory);
    let finished = Arc::new(finished);
    let spent = empty
        .with_filter(&keyset(V1), NoteKind::Spent, finished.clone())
        .unwrap();
    assert!(!empty.is_complete() && !spent.is_complete());
    assert_eq!(
        (spent.items(NoteKind::Spent), spent.items(NoteKind::Issued)),
        (3, 0)
    );
    let both = spent
        .with_filter(&keyset(V1), NoteKind::Issued, finished.clone())
        .unwrap();
    assert!(both.is_complete());
    assert!(
        both.with_filter(&keyset(V2), NoteKind::Spent, finished)
            .is_none()
    );
}
