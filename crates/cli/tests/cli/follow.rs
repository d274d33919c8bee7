//! `follow` and `restore --state-filters`: tests of their output. The wallet crate tests what a mint may do.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use nutfilter::segment::{Segment, Universe};
use nutfilter_cashu::state_filters::manifest::hash;
use nutfilter_cashu::state_filters::{
    Block, BlockInfo, BlockInterval, ElementHash, Event, Manifest, ManifestSegment, SequencePath,
};

use crate::asking_mint::*;
use crate::nutfilter::{Place, assert_contains, hex};

type Files = Arc<Mutex<HashMap<String, Vec<u8>>>>;

/// A mint that serves these files, and answers requests about notes honestly.
fn mint(files: &Files) -> Mint {
    let files = files.clone();
    Mint::answering(move |request| {
        let path = request.line.split(' ').nth(1).expect("a path");
        let is_broken = files.lock().expect("the files").contains_key("broken");
        if request.line.starts_with("POST") && is_broken {
            return ("503 Service Unavailable", vec![]);
        }
        if request.line.starts_with("POST") {
            return ("200 OK", honest(request).into_bytes());
        }
        match files.lock().expect("the files").get(path) {
            Some(file) => ("200 OK", file.clone()),
            None => ("404 Not Found", br#"{"detail":"no","code":40002}"#.to_vec()),
        }
    })
}

fn put(files: &Files, path: impl ToString, bytes: impl Into<Vec<u8>>) {
    let mut files = files.lock().expect("the files");
    files.insert(path.to_string(), bytes.into());
}

/// Publishes manifest `number` of segments of a hundred points or less.
fn publish(files: &Files, kind: Event, state: &str, intervals: &[(u64, u64)]) {
    let universe = Universe::new(36).expect("a width");
    let elements = ElementHash::new(kind, state).expect("a state");
    let mut files = files.lock().expect("the files");
    let path = SequencePath::Manifest(kind).to_string();
    let last = files.get(&path).cloned();
    let number = |json| Manifest::from_json(json).expect("a manifest").number;
    let states = kind.states().iter().copied();
    let states = states.filter(|&known| !state.is_empty() && known == state);
    let mut manifest = Manifest {
        kind,
        states: states.collect(),
        universe,
        number: last.as_deref().map_or(0, |last| number(last) + 1),
        previous: last.as_deref().map(hash),
        time: 1_000,
        segments: Vec::new(),
    };
    for &(start, end) in intervals {
        let numbers = start as usize..end as usize;
        let elements = numbers.map(|number| elements.element(&point(number)).expect("a point"));
        let segment = Segment::from_elements(universe, &Vec::from_iter(elements));
        let file = segment.expect("a segment").to_bytes();
        manifest.segments.push(ManifestSegment {
            start,
            end,
            n: (end - start) as u32,
            length: file.len() as u64,
            sha256: hash(&file),
        });
        files.insert(SequencePath::Segment(kind, start, end).to_string(), file);
    }
    files.insert(path, manifest.to_json());
}

#[test]
fn follow_prints_matches_and_continues_from_its_bookmark() {
    let files = Files::default();
    publish(&files, Event::ProofState, "SPENT", &[(0, 40), (40, 60)]);
    let mint = mint(&files);
    let place = Place::new();
    place.write("ys", points(45..47) + &points(70..71));
    let args = format!("follow --mint {} --kind proof_state --once ys", mint.url);
    let ran = place.run(&args);
    assert_contains(&ran.stderr, "2 segments from the beginning on");
    assert_contains(&ran.stderr, "false matches expected");
    let lines = |numbers: &[usize], interval: &str| -> String {
        let line = |number: &usize| format!("SPENT\t{}\t{interval}\n", hex(&point(*number)));
        numbers.iter().map(line).collect()
    };
    // It was written long ago.
    let old = "last manifest is of 1970-01-01 00:16:40 UTC";
    assert_eq!(ran.stderr.matches(old).count(), 1, "{}", ran.stderr);
    assert_eq!(ran.text(), lines(&[45, 46], "40-60"));
    let since = place.run(format!("{args} --since 60 --quiet"));
    assert_eq!(
        (since.code, since.stdout.len(), &*since.stderr),
        (Some(1), 0, "")
    );

    let three = [(0, 40), (40, 60), (60, 80)];
    let kept = format!("{args} --data-dir bookmarks");
    assert_eq!(place.run(&kept).text(), lines(&[45, 46], "40-60"));
    assert_eq!(place.run(&kept).code, Some(1), "nothing is new");
    publish(&files, Event::ProofState, "SPENT", &three);
    assert_eq!(place.run(&kept).text(), lines(&[70], "60-80"));
    place.write("ys", points(45..48));
    let ran = place.run(&kept);
    assert_contains(&ran.stderr, "the candidates have changed");

    // A changed segment is an error, and the bookmark stays.
    let four = [&three[..], &[(80, 81)]].concat();
    publish(&files, Event::ProofState, "SPENT", &four);
    let path = SequencePath::Manifest(Event::ProofState).to_string();
    let changed = String::from_utf8(files.lock().expect("files")[&path].clone()).expect("JSON");
    let digest = changed.split("sha256\":\"").nth(1).expect("a hash")[..64].to_owned();
    let changed = changed.replace(&digest, &"ab".repeat(32));
    put(&files, path, changed);
    place.fails(kept, "sealed segment 0-40 has changed");

    // Nothing is printed of a look that fails at its last segment. `error` checks that.
    publish(&files, Event::ProofState, "SPENT", &three);
    put(
        &files,
        SequencePath::Segment(Event::ProofState, 60, 80),
        "other",
    );
    place.fails(args, "segment from 60");
}

#[test]
fn follow_waits_for_more() {
    let files = Files::default();
    publish(&files, Event::BlindSignature, "", &[(0, 40)]);
    let mint = mint(&files);
    let place = Place::new();
    place.write("blinded", points(5..6) + &points(50..51));
    let mut child = place
        .command(format!(
            "follow --mint {} --kind blind_signature --interval 0.05 blinded",
            mint.url
        ))
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut line = || lines.next().expect("a line").expect("text");
    assert_eq!(line(), format!("blind_signature\t{}\t0-40", hex(&point(5))));
    publish(&files, Event::BlindSignature, "", &[(0, 40), (40, 60)]);
    assert_eq!(
        line(),
        format!("blind_signature\t{}\t40-60", hex(&point(50)))
    );
    child.kill().expect("running");
    child.wait().expect("an end");
}

#[test]
fn follow_reads_the_blocks_of_the_draft() {
    let files = Files::default();
    let info = BlockInfo {
        b: 10,
        timeout: 3_600,
        open_interval: Some(10),
        blocks: vec![
            BlockInterval {
                start: 0,
                end: Some(3_600),
            },
            BlockInterval {
                start: 3_600,
                end: None,
            },
        ],
    };
    let hash = ElementHash::new(Event::MeltQuote, "PAID").expect("a state");
    for (height, quotes) in [["quote 1", "quote 2"], ["quote 3", "quote 4"]]
        .iter()
        .enumerate()
    {
        let mut block = Block::new(10).expect("a width");
        for quote in quotes {
            block.insert(&hash.element(quote.as_bytes()).expect("a quote"));
        }
        let path = SequencePath::Block(Event::MeltQuote, height as u64);
        put(&files, path, block.as_bytes());
    }
    put(
        &files,
        SequencePath::BlockInfo(Event::MeltQuote),
        info.to_json(),
    );
    let mint = mint(&files);
    let place = Place::new();
    place.write("quotes", "quote 2\nquote 3\nquote 5\n");
    let args = format!("follow --mint {} --kind melt_quote --once quotes", mint.url);
    let ran = place.run(&args);
    assert_contains(&ran.stderr, "2 blocks from");
    assert_eq!(
        ran.text(),
        "PAID\tquote 2\t0-3600\nPAID\tquote 3\t3600-open\n"
    );
    let segments = place.run(format!("{args} --format segments")).error();
    assert_contains(&segments, "40002");
}

#[test]
fn invalid_uses_of_follow_are_errors() {
    let mint = mint(&Files::default());
    let place = Place::new();
    place.write("ys", points(1..2));
    place.write("empty", "\n");
    place.fail_each(
        &format!("follow --mint {}", mint.url),
        "
        --kind proof_state --once ys => 40002
        --kind proof_state --state PAID ys => 'PAID'
        --kind blind_signature --once empty => no candidates
        --kind blind_signature --audit ys => --data-dir
        --kind other ys => proof_state
        --kind mint_quote --confirm ys => mint_quote
        --kind blind_signature --confirm ys => --keyset
        --kind proof_state --state PENDING --confirm ys => SPENT only
        --kind proof_state --batch 3 ys => require --confirm
        --kind proof_state --since -1 ys => below zero",
    );
}

#[test]
fn restore_uses_state_filters_and_reveals_only_matches() {
    let files = Files::default();
    publish(&files, Event::BlindSignature, "", &[(0, 40), (40, 60)]);
    let mint = mint(&files);
    let items = points(50..51) + &points(80..81);
    let ran = mint.run("restore", &items, "--state-filters");
    let text = ran.text();
    let lines: Vec<_> = text.lines().collect();
    assert!(
        lines[0].starts_with(&format!("signed\t{}\t{{", hex(&point(50)))),
        "{text}"
    );
    assert_eq!(lines[1], format!("absent\t{}", hex(&point(80))));
    let posts = mint.posts();
    assert_eq!(posts.len(), 1);
    assert_eq!(
        posts[0].body["outputs"].as_array().expect("outputs").len(),
        1
    );
}

#[test]
fn follow_confirms_matches_before_the_bookmark_moves() {
    let files = Files::default();
    publish(&files, Event::ProofState, "SPENT", &[(0, 40), (40, 60)]);
    publish(&files, Event::BlindSignature, "", &[(0, 40)]);
    let mint = mint(&files);
    let place = Place::new();
    place.write("ys", points(0..3) + &points(80..81));
    let args = |kind| {
        let url = &mint.url;
        format!("follow --mint {url} --kind {kind} --once --confirm --data-dir bookmarks ys")
    };
    // Without an answer, nothing is printed and the bookmark stays.
    put(&files, "broken", "");
    place.fails(args("proof_state"), "503");
    files.lock().expect("files").remove("broken");
    let lines: String = ["pending", "unspent", "spent"]
        .iter()
        .enumerate()
        .map(|(number, word)| format!("SPENT\t{}\t0-40\t{word}\n", hex(&point(number))))
        .collect();
    assert_eq!(place.run(args("proof_state")).text(), lines);
    let asked = mint.posts()[1].body["Ys"].as_array().expect("Ys").len();
    assert_eq!(asked, 64, "matches and decoys");
    assert_eq!(
        place.run(args("proof_state")).code,
        Some(1),
        "nothing is new"
    );

    place.write("ys", points(1..3) + &points(80..81));
    let signatures = format!("{} --keyset {KEYSET}", args("blind_signature"));
    let text = place.run(signatures).text();
    let lines: Vec<_> = text.lines().collect();
    let unsigned = format!("blind_signature\t{}\t0-40\tunsigned", hex(&point(1)));
    assert_eq!(lines[0], unsigned);
    assert!(lines[1].contains("\t0-40\tsigned\t{"), "{text}");
    assert_eq!(lines.len(), 2);
}

#[test]
fn restore_looks_up_which_restored_proofs_are_spent() {
    let files = Files::default();
    publish(&files, Event::BlindSignature, "", &[(0, 60)]);
    publish(&files, Event::ProofState, "SPENT", &[(0, 40)]);
    let mint = mint(&files);
    let place = Place::new();
    // The proofs of the first three messages: spent, not in the filter, and a match by chance.
    place.write(
        "ys",
        points(5..6) + &points(50..51) + &points(1..2) + &points(6..7),
    );
    let ys = place.path("ys").display().to_string();
    let args = format!("--state-filters --ys {ys}");
    let items = points(10..13) + &points(80..81);
    let text = mint.run("restore", &items, &args).text();
    let ends: Vec<_> = text.lines().map(|line| line.rsplit('\t').next()).collect();
    let absent = hex(&point(80));
    let expected = ["spent", "absent", "unspent", &absent].map(Some);
    assert_eq!(ends, expected, "{text}");
    let json = mint.run("restore", &items, &format!("{args} --json"));
    assert_eq!(json.json()["answers"][0]["state"], "spent");
    mint.run("restore", &points(10..12), &args)
        .error_with("4 points for 2 items");
}
