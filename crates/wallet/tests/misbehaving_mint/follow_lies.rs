//! Sequences that are inconsistent, and the error of each.

use std::path::Path;

use nutfilter::segment::{Segment, Universe};
use nutfilter_cashu::state_filters::{BlockInterval, Event, Manifest, ManifestSegment};
use nutfilter_wallet::follow::{Bookmark, FollowError, Progress, SequenceFormat, Unverified};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::bls::from_hex;
use crate::cases::*;
use crate::follow::*;
use crate::*;

/// The sequence is rejected, with an error that contains `text`.
#[track_caller]
fn assert_invalid<T: std::fmt::Debug>(followed: Result<T, FollowError>, text: &str) {
    match followed {
        Err(FollowError::Invalid(found)) if found.contains(text) => {}
        other => panic!("expected {text:?}, got {other:?}"),
    }
}

/// A sequence of three segments, and a bookmark at its end.
fn followed() -> (Publisher, Sequence, Progress) {
    let publisher = Publisher::new();
    let sequence = Sequence::new(&[(0, 100), (100, 160), (160, 200)]);
    publisher.publish(&sequence);
    let (_, progress) = follow(&candidate(&publisher), Progress::default()).expect("honest");
    (publisher, sequence, progress)
}

/// The progress after a restart.
fn stored(progress: Progress) -> Progress {
    let directory = tempfile::tempdir().expect("a directory");
    let bookmark = progress.bookmark.expect("a bookmark");
    bookmark.store(directory.path()).expect("written");
    let loaded = Bookmark::load(directory.path(), Event::ProofState);
    loaded.expect("read").expect("a bookmark").into()
}

fn candidate(publisher: &Publisher) -> nutfilter_wallet::follow::Follower {
    follower(publisher, &[item(50), item(900)])
}

fn segment_of(width: u32, numbers: std::ops::Range<u32>) -> Vec<u8> {
    let universe = Universe::new(width).expect("a width");
    let segment = Segment::from_hashes(universe, numbers.map(spent_hash).collect());
    segment.expect("a segment").to_bytes()
}

const LONGER: [(u64, u64); 4] = [(0, 100), (100, 160), (160, 200), (200, 230)];

/// A sequence whose manifest has these changes of a case.
fn changed(mut sequence: Sequence, changes: &Value) -> Sequence {
    sequence.manifest = Manifest::from_json(&changed_json(&sequence, changes)).expect("a manifest");
    sequence
}

fn changed_json(sequence: &Sequence, changes: &Value) -> Vec<u8> {
    let mut json = serde_json::from_slice(&sequence.manifest.to_json()).expect("JSON");
    for change in changes.as_array().into_iter().flatten() {
        apply(&mut json, change);
    }
    json.to_string().into_bytes()
}

/// A member of a case: numbers in lists.
fn numbers<T: DeserializeOwned>(member: &Value) -> Option<T> {
    serde_json::from_value(member.clone()).expect("numbers")
}

/// What the mint of a case serves after `first`, and the manifest in it.
fn next(first: &Sequence, case: &Value) -> (Sequence, Vec<u8>) {
    let mut next = changed(first.clone(), &case["before"]);
    if case["again"] != true {
        let width = numbers(&case["width"]).unwrap_or(40);
        next = next.next(&[]);
        next.manifest.universe = Universe::new(width).expect("a width");
        let then: Option<Vec<_>> = numbers(&case["then"]);
        next = next.listing(then.as_deref().unwrap_or(&LONGER));
    }
    if let Some(((start, end), (from, to))) = numbers(&case["segment"]) {
        next.list(start, end, &segment_of(40, from..to));
    }
    if let Some(file) = case["file"].as_object() {
        let of = |name: &str| file.get(name).and_then(Value::as_i64);
        let path = segment_path(200, 230);
        let mut bytes = file.get("hex").map_or(next.files[&path].clone(), from_hex);
        bytes.truncate(bytes.len() - of("cut").unwrap_or(0) as usize);
        bytes.extend(of("append").map(|byte| byte as u8));
        if let Some(at) = of("flip") {
            let at = at.rem_euclid(bytes.len() as i64);
            bytes[at as usize] ^= 1;
        }
        if file.contains_key("listed") {
            next.list(200, 230, &bytes);
        } else if file.contains_key("remove") {
            next.files.remove(&path);
        } else {
            next.files.insert(path, bytes);
        }
    }
    let json = match case["body"].as_str() {
        Some(body) => body.as_bytes().to_vec(),
        None => changed_json(&next, &case["change"]),
    };
    (next, json)
}

/// The code in the file of cases.
fn code(error: &FollowError) -> String {
    match error {
        FollowError::Gone { .. } => "Gone".into(),
        FollowError::Fetch(FetchError::Refused(reason)) => variant(reason),
        FollowError::Invalid(text) => [
            ("the sequence has restarted", "Restarted"),
            ("does not descend from", "Forked"),
            ("sealed segment ", "Changed"),
            ("the boundaries of segment ", "Boundary"),
            ("do not cover", "BadArgument"),
            ("too far in the future", "Future"),
            ("bytes; the manifest lists", "Length"),
            ("has another SHA-256", "Hash"),
            ("values; the manifest lists", "Segment"),
            ("segment from 200: ", "Segment"),
        ]
        .iter()
        .find(|(part, _)| text.contains(part))
        .map_or("List", |(_, code)| code)
        .into(),
        other => variant(other),
    }
}

#[test]
fn sequences_have_the_errors_in_the_file() {
    for (name, case) in cases("segments") {
        let publisher = Publisher::new();
        let first = changed(
            Sequence::new(&[(0, 100), (100, 160), (160, 200)]),
            &case["first"],
        );
        publisher.publish(&first);
        let follower = follower(&publisher, &[50, 150, 225, 900].map(item));
        let (_, progress) = follow(&follower, Progress::default()).expect("honest");
        let (next, json) = next(&first, &case);
        for path in first.files.keys() {
            publisher.remove(path);
        }
        publisher.publish(&next);
        publisher.put(MANIFEST, json);
        match follow(&follower, progress) {
            Ok((found, _)) => {
                let found = found.iter().map(|(candidate, _)| *candidate);
                assert_eq!(found.collect::<Value>(), case["found"], "{name}");
            }
            Err(error) => {
                assert_eq!(code(&error), case["error"], "{name}: {error}");
                for part in case["says"].as_array().into_iter().flatten() {
                    let part = part.as_str().expect("a text");
                    assert!(error.to_string().contains(part), "{name}: {error}");
                }
            }
        }
    }
}

fn audit(
    publisher: &Publisher,
    directory: &Path,
    progress: Progress,
) -> Result<Progress, FollowError> {
    let follower = candidate(publisher);
    let plan = follower.plan(None, None, progress.bookmark.as_ref())?;
    follower.run(&plan, progress, Some(directory), &mut |_| {})
}

/// A sequence that was followed with an audit, and the directory with its copies.
fn audited(intervals: &[(u64, u64)]) -> (tempfile::TempDir, Publisher, Sequence, Progress) {
    let directory = tempfile::tempdir().expect("a directory");
    let publisher = Publisher::new();
    let sequence = Sequence::new(intervals);
    publisher.publish(&sequence);
    let progress = audit(&publisher, directory.path(), Progress::default()).expect("honest");
    (directory, publisher, sequence, progress)
}

#[test]
fn audit_follows_the_chain_of_manifests() {
    let directory = tempfile::tempdir().expect("a directory");
    let (publisher, sequence, progress) = followed();
    let second = sequence.next(&LONGER);
    let third = second.next(&LONGER);
    let fourth = third.next(&LONGER);
    for next in [&second, &third, &fourth] {
        publisher.publish(next);
    }
    audit(&publisher, directory.path(), progress.clone()).expect("an honest chain");

    let mut forked = second.clone();
    forked.manifest.time += 1;
    publisher.put(
        "/v1/filters/manifests/proof_state/1",
        forked.manifest.to_json(),
    );
    assert_invalid(
        audit(&publisher, directory.path(), progress.clone()),
        "manifest 1 has changed",
    );
    // Another history that is consistent in itself.
    let mut other = sequence.clone();
    other.manifest.time += 1;
    let second = other.next(&LONGER);
    let third = second.next(&LONGER);
    for next in [&second, &third] {
        publisher.publish(next);
    }
    assert_invalid(
        audit(&publisher, directory.path(), progress.clone()),
        "manifest 0 has changed",
    );
    publisher.remove("/v1/filters/manifests/proof_state/1");
    let after = audit(&publisher, directory.path(), progress).expect("a missing manifest");
    assert_eq!(after.unverified.manifests, 1);
}

#[test]
fn audit_recovers_when_old_manifests_are_gone() {
    let directory = tempfile::tempdir().expect("a directory");
    let (publisher, sequence, progress) = followed();
    let mut latest = sequence.next(&LONGER);
    latest.manifest.number = 1_002;
    publisher.publish(&latest);
    let mut requests = 0;
    publisher.paths(&mut requests);
    let after = audit(&publisher, directory.path(), progress).expect("an honest mint");
    assert_eq!(
        after.unverified,
        Unverified {
            manifests: 1_002,
            merges: 0
        }
    );
    assert_eq!(
        publisher.paths(&mut requests),
        [MANIFEST, &segment_path(200, 230)]
    );
    let next = latest.next(&LONGER);
    publisher.publish(&next);
    let after = audit(&publisher, directory.path(), after).expect("an honest mint");
    assert_eq!(after.unverified, Unverified::default());
}

#[test]
fn merge_with_new_time_must_have_what_was_seen() {
    let merged = |first: u32, keep: bool| {
        let (directory, publisher, sequence, progress) =
            audited(&[(0, 100), (100, 160), (160, 200)]);
        let mut next = sequence.next(&[(0, 100), (100, 230)]);
        next.list(100, 230, &segment_of(40, first..230));
        publisher.publish(&next);
        if !keep {
            std::fs::remove_dir_all(directory.path()).expect("removed");
        }
        audit(&publisher, directory.path(), progress).map(|after| after.unverified.merges)
    };
    assert_eq!(merged(100, true).expect("an honest merge"), 0);
    assert_invalid(
        merged(101, true),
        "segment 100-230 is not the union of its parts: they have 130 values, it has 129",
    );
    assert_eq!(merged(101, false).expect("no copies"), 1);
}

#[test]
fn empty_copy_accuses_nobody() {
    let (directory, publisher, sequence, progress) = audited(&[(0, 100), (100, 160)]);
    let copy = directory.path().join("proof_state/0-100.gcs");
    std::fs::write(&copy, "").expect("written");
    publisher.publish(&sequence.next(&[(0, 160), (0, 100), (100, 160), (160, 230)]));
    audit(&publisher, directory.path(), progress).expect("downloaded again");
    assert!(copy.metadata().expect("a copy").len() > 0);
}

#[test]
fn deep_and_long_manifests_are_refused_on_a_small_stack() {
    let refused = |intervals: Vec<(u64, u64)>| {
        let sequence = Sequence::new(&[(0, 1)]);
        let one = sequence.manifest.segments[0];
        let mut manifest = sequence.manifest;
        manifest.segments = intervals
            .into_iter()
            .map(|(start, end)| ManifestSegment { start, end, ..one })
            .collect();
        let publisher = Publisher::new();
        publisher.put(MANIFEST, manifest.to_json());
        let follow = move || {
            let followed = follow(&candidate(&publisher), Progress::default());
            followed.map(drop).expect_err("too much").to_string()
        };
        let small = std::thread::Builder::new().stack_size(512 << 10);
        small
            .spawn(follow)
            .expect("a thread")
            .join()
            .expect("no overflow")
    };
    let nested = refused((1..=20_000).rev().map(|end| (0, end)).collect());
    assert!(nested.contains("20000 segments"), "{nested}");
    let nested = refused((1..=2_000).rev().map(|end| (0, end)).collect());
    assert!(nested.contains("nested more than 6 deep"), "{nested}");
    let long = refused((0..30_000).map(|at| (at, at + 1)).collect());
    assert!(
        long.contains("30000 segments; the maximum is 2000"),
        "{long}"
    );
}

#[test]
fn errors_are_judged_by_status_before_length() {
    let body = format!(r#"{{"detail":"{}","code":40001}}"#, "x".repeat(5_000));
    let status = |line: &'static str, headers: &'static [(&str, &str)], body: String| {
        let sequence = Sequence::new(&[(0, 100)]);
        let mint = Loopback::start(move |request, stream| {
            stream.write_all(&match request.contains(MANIFEST) {
                true => response("200 OK", &[], sequence.manifest.to_json()),
                false => response(line, headers, body.clone()),
            })
        });
        let client = MintClient::new(&mint.url(), Policy::default()).expect("a good URL");
        let ids = [item(1)];
        let follower =
            nutfilter_wallet::follow::Follower::new(client, Event::ProofState, &["SPENT"], &ids);
        follow(&follower.expect("a point"), Progress::default())
    };
    assert_failed!(
        status("404 Not Found", &[], body.clone()),
        FollowError::Gone { start: 0, end: 100 }
    );
    assert_failed!(
        status(
            "503 Service Unavailable",
            &[("Content-Encoding", "gzip")],
            "<html>".repeat(9)
        ),
        FollowError::Fetch(FetchError::Refused(RejectReason::Status { status: 503 }))
    );
}

#[test]
fn audit_computes_merges_from_listed_parts() {
    let (_, _, mut sequence, _) = audited(&[(0, 200), (0, 100), (100, 200), (200, 230)]);

    // The merge lacks a value, so a wallet that needs only the merge would miss an event.
    sequence.list(0, 200, &segment_of(40, 1..200));
    let publisher = Publisher::new();
    publisher.publish(&sequence);
    let directory = tempfile::tempdir().expect("a directory");
    assert_invalid(
        audit(&publisher, directory.path(), Progress::default()),
        "segment 0-200 is not the union of its parts: they have 200 values, it has 199",
    );
    follow(&candidate(&publisher), Progress::default()).expect("not seen without an audit");
}

#[test]
fn audit_computes_merges_from_own_copies() {
    let merged = |listed: &[u8]| {
        let (directory, publisher, sequence, progress) =
            audited(&[(0, 100), (100, 160), (160, 200)]);
        // The parts are neither listed nor served any more.
        let mut next = sequence.next(&[(0, 200), (200, 230)]);
        next.list(0, 200, listed);
        for (start, end) in [(0, 100), (100, 160), (160, 200)] {
            publisher.remove(&segment_path(start, end));
        }
        publisher.publish(&next);
        let audited = audit(&publisher, directory.path(), progress).map(|_| ());
        let copies = directory
            .path()
            .join("proof_state")
            .read_dir()
            .expect("copies");
        (audited, copies.count())
    };
    let (audited, copies) = merged(&segment_of(40, 0..200));
    audited.expect("an honest merge");
    assert_eq!(copies, 2, "the parts are replaced by the merge");
    let (audited, _) = merged(&segment_of(40, 0..199));
    assert_invalid(
        audited,
        "segment 0-200 is not the union of its parts: they have 200 values, it has 199",
    );
}

#[test]
fn blocks_that_change_or_restart_are_errors() {
    let publisher = Publisher::new();
    let info = publish_blocks(&publisher, 40..41);
    let follower = candidate(&publisher);
    let (_, progress) = follow(&follower, Progress::default()).expect("honest");
    let with = |info: &nutfilter_cashu::state_filters::BlockInfo| {
        publisher.put(INFO, info.to_json());
        follow(&follower, progress.clone())
    };
    let mut shorter = info.clone();
    shorter.blocks.pop();
    shorter.blocks[1].end = None;
    assert_invalid(
        with(&shorter),
        "its number of sealed blocks is 1, and was 2",
    );
    let mut moved = info.clone();
    (moved.blocks[0].end, moved.blocks[1].start) = (Some(2_001), 2_001);
    assert_invalid(with(&moved), "sealed block 1000-2000 has changed");
    let mut gap = info.clone();
    gap.blocks[1].start = 2_001;
    assert_invalid(
        with(&gap),
        "the end of height 0 is 2000, the next start is 2001",
    );
    let mut future = info.clone();
    future.blocks[1].end = Some(now() + 3_600);
    future.blocks[2].start = now() + 3_600;
    assert_invalid(with(&future), "too far in the future");

    // Other bytes of a sealed block are seen when it is read again.
    with(&info).expect("unchanged");
    publisher.put(&block_path(1), vec![0; 64]);
    with(&info).expect("not read again");
    let plan = follower.plan(None, Some(2_000), progress.bookmark.as_ref());
    let again = follower.run(&plan.expect("a plan"), progress.clone(), None, &mut |_| {});
    assert_invalid(again, "sealed block 2000-5600 has changed");
    let directory = tempfile::tempdir().expect("a directory");
    assert_invalid(
        audit(&publisher, directory.path(), progress.clone()),
        "sealed block ",
    );
}

#[test]
fn sealed_block_must_have_the_bits_of_the_open_one() {
    let publisher = Publisher::new();
    let mut info = publish_blocks(&publisher, 40..45);
    // The cache rules of a CDN say nothing about the protocol.
    info.open_interval = Some(60);
    publisher.put(INFO, info.to_json());
    let follower = candidate(&publisher);
    let (_, progress) = follow(&follower, Progress::default()).expect("equal rules for all");
    let restarted = stored(progress);
    let again = || follow(&follower, restarted.clone());
    info.blocks[2].end = Some(9_200);
    info.blocks.push(BlockInterval {
        start: 9_200,
        end: None,
    });
    info.b = 7;
    publisher.put(INFO, info.to_json());
    publisher.put(&block_path(3), block(7, 50..51));
    // An old copy, wider or narrower than the open one was.
    for old in [block(10, 40..44), block(8, 40..42), block(11, 0..0)] {
        publisher.put(&block_path(2), old);
        assert_failed!(again(), FollowError::Stale { height: 2 });
    }
    // The width may change when it is sealed, and that of the open block at any time.
    for sealed in [block(10, 40..46), block(9, 40..50), block(11, 40..45)] {
        publisher.put(&block_path(2), sealed);
        again().expect("all bits are there");
    }
}

#[test]
fn settled_matches_are_not_repeated() {
    let publisher = Publisher::new();
    let sequence = Sequence::new(&[(0, 100), (100, 160)]);
    publisher.publish(&sequence);
    let follower = follower(&publisher, &[50, 60].map(item));
    let run = |progress: Progress| {
        let mut all = Vec::new();
        let plan = follower
            .plan(None, None, progress.bookmark.as_ref())
            .expect("a plan");
        let run = follower.run(&plan, progress, None, &mut |found| all.push(found));
        (all, run.expect("an honest mint"))
    };
    let (found, mut progress) = run(Progress::default());
    assert_eq!(found.len(), 2);
    follower.settle(&mut progress, &found[0]);
    let restarted = stored(progress);
    // The merge reaches behind the bookmark.
    publisher.publish(&sequence.next(&[(0, 230)]));
    let (found, progress) = run(restarted);
    let candidates: Vec<_> = found.iter().map(|found| found.candidate).collect();
    assert_eq!(candidates, [1], "the other one may have become true");
    let (found, _) = run(progress);
    assert_eq!(found, []);
}

#[test]
fn invalid_blocks_are_errors() {
    let with = |height: usize, bytes: Vec<u8>| {
        let publisher = Publisher::new();
        publish_blocks(&publisher, 40..41);
        publisher.put(&block_path(height), bytes);
        follow(&candidate(&publisher), Progress::default())
    };
    assert_invalid(with(0, vec![0; 100]), "block 0: ");
    assert_failed!(
        with(0, vec![0; (8 << 20) + 1]),
        FollowError::Fetch(FetchError::Refused(RejectReason::TooLarge { .. }))
    );
    with(0, vec![0; 256]).expect("a block that was wider");
    with(2, vec![0; 64]).expect("a block that was sealed after the list was fetched");
    with(1, vec![0xff; 64]).expect("the draft allows dense blocks");
    let publisher = Publisher::new();
    let mut info = publish_blocks(&publisher, 40..41);
    info.blocks.push(BlockInterval {
        start: 1,
        end: None,
    });
    publisher.put(INFO, info.to_json());
    let followed = follow(&candidate(&publisher), Progress::default());
    assert_invalid(followed, "the end of height 2 is open");
}

#[test]
fn mint_without_sequences_is_an_error() {
    let publisher = Publisher::new();
    let error = follow(&candidate(&publisher), Progress::default()).expect_err("no lists");
    assert!(
        error.is_not_found() && error.to_string().contains("40001"),
        "{error}"
    );
}

#[test]
fn bookmarks_that_cannot_be_used_are_errors() {
    let (publisher, sequence, progress) = followed();
    let bookmark = progress.bookmark.as_ref();
    let format = Some(SequenceFormat::Blocks);
    let other = candidate(&publisher).plan(format, None, bookmark);
    assert_failed!(other, FollowError::Bookmark(why) if why.contains("the bookmark is of format "));
    let elsewhere = Publisher::new();
    elsewhere.publish(&sequence);
    let other = candidate(&elsewhere).plan(None, None, bookmark);
    assert_failed!(other, FollowError::Bookmark(why) if why.contains("the bookmark is of mint "));

    let directory = tempfile::tempdir().expect("a directory");
    let load = || Bookmark::load(directory.path(), Event::ProofState);
    assert!(load().expect("none").is_none());
    let file = directory.path().join("proof_state.json");
    let store = |bookmark: Option<&Bookmark>| {
        let stored = bookmark.expect("a bookmark").store(directory.path());
        stored.expect("written");
        std::fs::read_to_string(&file).expect("read")
    };
    let good = store(bookmark);
    let publisher = Publisher::new();
    publish_blocks(&publisher, 40..41);
    let (_, progress) = follow(&candidate(&publisher), Progress::default()).expect("honest");
    let blocks = store(progress.bookmark.as_ref());
    // The fuzz target of wallet files damages every byte.
    for damaged in [
        &good[..50],
        "{}",
        &good.replace("\"version\":1", "\"version\":2"),
        &blocks.replace(r#""bits":""#, r#""bits":"AAAA"#),
    ] {
        std::fs::write(&file, damaged).expect("written");
        assert_failed!(load(), FollowError::Bookmark(why) if why.contains("delete it"));
    }
}
