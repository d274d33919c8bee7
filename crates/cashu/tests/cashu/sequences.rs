//! Manifests and info documents: what is accepted, and the error of everything else.

use nutfilter::segment::{Segment, Universe};
use nutfilter_cashu::state_filters::manifest::{hash, segment_lengths};
use nutfilter_cashu::state_filters::{
    BlockInfo, BlockInterval, Event, Manifest, ManifestSegment, SequenceErrorKind, SequencePath,
};
use serde_json::{Value, json};

const WIDTH: u32 = 36;

fn segment(start: u64, end: u64) -> ManifestSegment {
    let n = (end - start) as u32 % 1_000;
    let length = *segment_lengths(Universe::new(WIDTH).unwrap(), n).start();
    ManifestSegment {
        start,
        end,
        n,
        length,
        sha256: hash(&start.to_le_bytes()),
    }
}

fn manifest(intervals: &[(u64, u64)]) -> Manifest {
    Manifest {
        kind: Event::ProofState,
        states: vec!["SPENT"],
        universe: Universe::new(WIDTH).unwrap(),
        number: 7,
        previous: Some([0xab; 32]),
        time: 1_767_225_600,
        segments: intervals.iter().map(|&(a, b)| segment(a, b)).collect(),
    }
}

fn manifest_json() -> Value {
    let listed = [(0, 100), (100, 200), (100, 150), (150, 200), (200, 260)];
    serde_json::from_slice(&manifest(&listed).to_json()).unwrap()
}

fn refused(document: &Value) -> String {
    let text = document.to_string();
    let error = Manifest::from_json(text.as_bytes())
        .map(|_| ())
        .or_else(|error| match document.get("b") {
            Some(_) => BlockInfo::from_json(text.as_bytes()).map(|_| ()),
            None => Err(error),
        });
    let error = error.expect_err(&text).to_string();
    assert!(!error.contains('\n') && !error.ends_with('.'), "{error}");
    error
}

/// Changes a document as each line says, `pointer value => word; word`. The error contains the words.
fn refuse_each(document: &Value, table: &str) {
    for row in table.lines().filter(|row| !row.trim().is_empty()) {
        let (change, words) = row.trim().split_once(" => ").expect(row);
        let (pointer, value) = change.split_once(' ').expect(row);
        let mut changed = document.clone();
        *changed.pointer_mut(pointer).expect(row) = serde_json::from_str(value).expect(row);
        let error = refused(&changed);
        let has_all = words.split("; ").all(|word| error.contains(word));
        assert!(has_all, "{row}: {error}");
    }
}

#[test]
fn manifest_is_read_back_and_its_cover_has_no_parts() {
    let listed = [
        (0, 100),
        (100, 200),
        (100, 150),
        (100, 110),
        (110, 150),
        (150, 200),
        (200, 260),
    ];
    let manifest = manifest(&listed);
    let json = manifest.to_json();
    assert_eq!(Manifest::from_json(&json).unwrap(), manifest);
    let cover = manifest.cover().map(|one| (one.start, one.end));
    assert!(cover.eq([(0, 100), (100, 200), (200, 260)]));
    assert_eq!(manifest.end(), 260);

    let mut with_more: Value = serde_json::from_slice(&json).unwrap();
    with_more["later"] = json!({"x": 1});
    with_more["segments"][0]["later"] = json!(1);
    assert_eq!(
        Manifest::from_json(with_more.to_string().as_bytes()).unwrap(),
        manifest
    );
}

#[test]
fn manifest_of_the_specification_is_read_and_written() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/format-segments.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (_, json) = page.split_once("```json").unwrap();
    let (json, _) = json.split_once("```").unwrap();
    let json: String = json.split_whitespace().collect();
    let manifest = Manifest::from_json(json.as_bytes()).unwrap();
    assert_eq!(String::from_utf8(manifest.to_json()).unwrap(), json);
    // Of the manifest before, and of the example of a segment.
    let mut first = manifest.clone();
    first.segments.truncate(1);
    (first.number, first.previous, first.time) = (0, None, 1_767_225_600);
    assert_eq!(manifest.previous, Some(hash(&first.to_json())));
    let (_, file) = page.split_once("\nfile: ").unwrap();
    let bytes = file.lines().next().unwrap().split(' ');
    let bytes: Result<Vec<_>, _> = bytes.map(|byte| u8::from_str_radix(byte, 16)).collect();
    assert_eq!(manifest.segments[0].sha256, hash(&bytes.unwrap()));
}

#[test]
fn invalid_manifests_are_refused_with_their_numbers() {
    let document = manifest_json();
    refuse_each(
        &document,
        r#"
        /version 2 => version 2
        /version "1" => line 1
        /kind "proof" => unknown kind
        /kind "blind_signature" => states
        /states null => proof_state; SPENT
        /states [] => proof_state; SPENT
        /states ["PAID"] => proof_state
        /states ["SPENT", "SPENT"] => states
        /w 57 => 57; 8 to 56
        /number 0 => manifest 0
        /number -1 => line 1
        /number 9007199254740992 => 9007199254740992
        /previous null => manifest 7
        /previous "ABABABABABABABABABABABABABABABABABABABABABABABABABABABABABABABAB" => previous
        /previous "ababababababababababababababababababababababababababababababab" => previous
        /time 1.5 => line 1
        /segments [] => no segments
        /segments/0/start 1 => 0 to 1
        /segments/0/end 0 => 0-0
        /segments/1/start 101 => 100 to 101
        /segments/4/start 199 => 199-260; 200
        /segments/3/end 201 => 150-201; 200
        /segments/3/start 140 => 140-200; 150
        /segments/2/length 20 => from 100; 20 bytes
        /segments/2/length 1099511627776 => from 100; 1099511627776
        /segments/2/sha256 "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz" => sha256"#,
    );
    let mut repeated = document.clone();
    repeated["segments"][2] = repeated["segments"][1].clone();
    let error = refused(&repeated);
    assert!(error.contains("100-200") && error.contains("repeated"));
    let mut narrow = document;
    narrow["w"] = json!(8);
    narrow["segments"][0]["n"] = json!(257);
    assert!(refused(&narrow).contains("257 values"));
}

#[test]
fn lengths_of_real_segments_are_possible() {
    for (width, n) in [
        (8, 0),
        (8, 256),
        (36, 1),
        (36, 3_600),
        (56, 1),
        (20, 70_000),
    ] {
        let universe = Universe::new(width).unwrap();
        // Values at both ends of the universe, and close together.
        for hashes in [
            (0..n).collect::<Vec<u64>>(),
            (0..n).map(|i| u64::MAX - (i << (64 - width))).collect(),
            (0..n).map(|i| i << (64 - width)).collect(),
        ] {
            let segment = Segment::from_hashes(universe, hashes).unwrap();
            let lengths = segment_lengths(universe, segment.n());
            let length = segment.file_bytes() as u64;
            assert!(lengths.contains(&length), "{length} of {lengths:?}");
        }
    }
}

#[test]
fn invalid_info_documents_are_refused_with_their_numbers() {
    let open = BlockInterval {
        start: 5_000,
        end: None,
    };
    let good = BlockInfo {
        b: 21,
        timeout: 604_800,
        open_interval: Some(60),
        blocks: vec![
            BlockInterval {
                start: 10,
                end: Some(5_000),
            },
            open,
        ],
    };
    assert_eq!(BlockInfo::from_json(&good.to_json()).unwrap(), good);
    assert_eq!(good.open_height(), 1);
    refuse_each(
        &serde_json::from_slice(&good.to_json()).unwrap(),
        "
        /b 27 => 27; 2^5
        /timeout 3599 => 3599; 3600
        /open_interval 0 => open_interval
        /blocks [] => no blocks
        /blocks/0/end 4999 => height 0; 4999; 5000
        /blocks/0/end null => height 0; open
        /blocks/1/end 9999 => height 1; 9999
        /blocks/0/start 5001 => 5001-5000",
    );
}

#[test]
fn paths_are_those_of_the_draft_and_the_manifest() {
    let paths = [
        SequencePath::BlockInfo(Event::MintQuote),
        SequencePath::Block(Event::MeltQuote, 3),
        SequencePath::Manifest(Event::ProofState),
        SequencePath::OldManifest(Event::ProofState, 12),
        SequencePath::Segment(Event::BlindSignature, 0, 60),
    ];
    let expected = [
        "/v1/filters/info/mint_quote",
        "/v1/filters/blocks/melt_quote/3",
        "/v1/filters/manifest/proof_state",
        "/v1/filters/manifests/proof_state/12",
        "/v1/filters/segments/blind_signature/0-60",
    ];
    assert_eq!(paths.map(|path| path.to_string()), expected);
}

#[test]
fn errors_tell_what_is_newer_from_what_is_wrong() {
    type Change = fn(&mut Value);
    let cases: [(Change, _); 4] = [
        (|m| m["version"] = json!(2), SequenceErrorKind::Unknown),
        (|m| m["kind"] = json!("proof"), SequenceErrorKind::Unknown),
        (|m| m["version"] = json!("1"), SequenceErrorKind::Json),
        (|m| m["segments"] = json!([]), SequenceErrorKind::Invalid),
    ];
    for (change, kind) in cases {
        let mut document = manifest_json();
        change(&mut document);
        let error = Manifest::from_json(document.to_string().as_bytes()).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
}
