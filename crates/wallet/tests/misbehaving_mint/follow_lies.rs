//! Sequences that are inconsistent, and the error of each.

use std::path::Path;

use nutfilter::segment::{Segment, Universe};
use nutfilter_cashu::state_filters::manifest::segment_lengths;
use nutfilter_cashu::state_filters::{BlockInterval, Event, ManifestSegment};
use nutfilter_wallet::follow::{Bookmark, FollowError, Progress, SequenceFormat, Unverified};

use crate::follow::*;
use crate::*;

macro_rules! assert_follow_error {
    ($followed:expr, $error:pat $(if $guard:expr)?) => {
        match $followed {
            Err($error) $(if $guard)? => {}
            other => panic!("expected {}, got {other:?}", stringify!($error $(if $guard)?)),
        }
    };
}

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

fn candidate(publisher: &Publisher) -> nutfilter_wallet::follow::Follower {
    follower(publisher, &[item(50), item(900)])
}

fn segment_of(width: u32, numbers: std::ops::Range<u32>) -> Vec<u8> {
    let universe = Universe::new(width).expect("a width");
    let segment = Segment::from_hashes(universe, numbers.map(spent_hash).collect());
    segment.expect("a segment").to_bytes()
}

/// Follows the changed sequence from the bookmark.
fn after(change: impl FnOnce(&Sequence) -> Sequence) -> Followed {
    let (publisher, sequence, progress) = followed();
    publisher.publish(&change(&sequence));
    follow(&candidate(&publisher), progress)
}

/// Follows the changed sequence from its beginning.
fn at_first(change: impl FnOnce(&Publisher, &mut Sequence)) -> Followed {
    let publisher = Publisher::new();
    let mut sequence = Sequence::new(&[(0, 100), (100, 160)]);
    publisher.publish(&sequence);
    change(&publisher, &mut sequence);
    publisher.put(MANIFEST, sequence.manifest.to_json());
    follow(&candidate(&publisher), Progress::default())
}

const LONGER: [(u64, u64); 4] = [(0, 100), (100, 160), (160, 200), (200, 230)];

#[test]
fn manifest_that_goes_back_is_an_error() {
    let (publisher, sequence, progress) = followed();
    let second = sequence.next(&LONGER);
    publisher.publish(&second);
    let (_, progress) = follow(&candidate(&publisher), progress).expect("honest");
    publisher.publish(&sequence);
    assert_invalid(
        follow(&candidate(&publisher), progress),
        "its manifest number is 0, and was 1",
    );
    assert_invalid(
        after(|sequence| sequence.next(&LONGER[..2])),
        "its end is 160, and was 200",
    );
}

#[test]
fn manifest_with_a_gap_is_an_error() {
    let followed = after(|sequence| sequence.next(&[(0, 100), (110, 160), (160, 230)]));
    assert_invalid(followed, "100 to 110");
}

#[test]
fn sealed_segment_that_changes_is_an_error() {
    let changed = after(|sequence| {
        let mut next = sequence.next(&LONGER);
        next.list(100, 160, &segment_of(40, 101..160));
        next
    });
    assert_invalid(changed, "sealed segment 100-160 has changed");
}

#[test]
fn manifest_that_forks_is_an_error() {
    // The same number with other bytes, and a successor of another manifest.
    let same = after(|sequence| {
        let mut same = sequence.clone();
        same.manifest.time += 1;
        same
    });
    assert_invalid(same, "manifest 0 has changed");
    let other = after(|sequence| {
        let mut other = sequence.clone();
        other.manifest.time += 1;
        other.next(&LONGER)
    });
    assert_invalid(other, "manifest 0 has changed");
    let wider = after(|sequence| {
        let mut next = sequence.next(&[]);
        next.manifest.universe = Universe::new(41).expect("a width");
        next.list(0, 230, &segment_of(41, 0..230));
        next
    });
    assert_invalid(wider, "manifest 0 has changed");
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
fn boundaries_that_move_behind_the_bookmark_are_an_error() {
    for moved in [
        &[(0, 100), (100, 180), (180, 230)][..],
        &[(0, 150), (150, 230)],
        &[(0, 230), (0, 150), (150, 230)],
    ] {
        assert_invalid(after(|sequence| sequence.next(moved)), "before 200");
    }
    after(|sequence| sequence.next(&[(0, 160), (160, 230)])).expect("a merge with new time");
    after(|sequence| sequence.next(&[(0, 250), (0, 200), (200, 250)])).expect("a merge");
}

#[test]
fn merge_with_new_time_must_have_what_was_seen() {
    let audited = |first: u32, keep: bool| {
        let directory = tempfile::tempdir().expect("a directory");
        let publisher = Publisher::new();
        let sequence = Sequence::new(&[(0, 100), (100, 160), (160, 200)]);
        publisher.publish(&sequence);
        let progress = audit(&publisher, directory.path(), Progress::default()).expect("honest");
        let mut next = sequence.next(&[(0, 100), (100, 230)]);
        next.list(100, 230, &segment_of(40, first..230));
        publisher.publish(&next);
        if !keep {
            std::fs::remove_dir_all(directory.path()).expect("removed");
        }
        audit(&publisher, directory.path(), progress).map(|after| after.unverified.merges)
    };
    assert_eq!(audited(100, true).expect("an honest merge"), 0);
    assert_invalid(
        audited(101, true),
        "segment 100-230 is not the union of its parts: they have 130 values, it has 129",
    );
    assert_eq!(audited(101, false).expect("no copies"), 1);
}

#[test]
fn empty_copy_accuses_nobody() {
    let directory = tempfile::tempdir().expect("a directory");
    let publisher = Publisher::new();
    let sequence = Sequence::new(&[(0, 100), (100, 160)]);
    publisher.publish(&sequence);
    let progress = audit(&publisher, directory.path(), Progress::default()).expect("honest");
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
    assert_follow_error!(
        status("404 Not Found", &[], body.clone()),
        FollowError::Gone { start: 0, end: 100 }
    );
    assert_follow_error!(
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
    let directory = tempfile::tempdir().expect("a directory");
    let publisher = Publisher::new();
    let mut sequence = Sequence::new(&[(0, 200), (0, 100), (100, 200), (200, 230)]);
    publisher.publish(&sequence);
    audit(&publisher, directory.path(), Progress::default()).expect("an honest merge");

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
        let directory = tempfile::tempdir().expect("a directory");
        let publisher = Publisher::new();
        let sequence = Sequence::new(&[(0, 100), (100, 160), (160, 200)]);
        publisher.publish(&sequence);
        let progress = audit(&publisher, directory.path(), Progress::default()).expect("honest");
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
fn segments_that_are_not_as_listed_are_errors() {
    let file = segment_of(40, 0..100);
    let mut flipped = file.clone();
    flipped[30] ^= 1;
    let served =
        |bytes: Vec<u8>| at_first(|publisher, _| publisher.put(&segment_path(0, 100), bytes));
    assert_invalid(served(flipped.clone()), "segment 0-100 has another SHA-256");
    assert_invalid(served(file[..60].to_vec()), "segment from 0 has 60 bytes");
    let longer = [&file[..], &[0]].concat();
    assert_follow_error!(
        served(longer),
        FollowError::Fetch(FetchError::Refused(RejectReason::TooLarge { .. }))
    );
    // The hash is right, and the bytes are not a segment, or not the one that is listed.
    let listed = |file: Vec<u8>, n: u32| {
        at_first(|publisher, sequence| {
            sequence.list(0, 100, &file);
            sequence.manifest.segments[0].n = n;
            publisher.put(&segment_path(0, 100), file);
        })
    };
    assert_invalid(listed(flipped, 100), "segment from 0: ");
    assert_invalid(
        listed(segment_of(41, 0..0), 0),
        "segment from 0 has width 41 and 0 values; the manifest lists 40 and 0",
    );
    assert_invalid(
        listed(file, 101),
        "segment from 0 has width 40 and 100 values; the manifest lists 40 and 101",
    );
    let gone = at_first(|publisher, _| publisher.remove(&segment_path(0, 100)));
    assert_follow_error!(gone, FollowError::Gone { start: 0, end: 100 });
}

#[test]
fn manifests_that_cannot_be_used_are_errors() {
    let narrow = at_first(|_, sequence| {
        sequence.manifest.universe = Universe::new(31).expect("a width");
        sequence.list(0, 100, &segment_of(31, 0..100));
        sequence.list(100, 160, &segment_of(31, 100..160));
    });
    assert_invalid(narrow, "a width of 31 bits");
    let pending = at_first(|_, sequence| sequence.manifest.states = vec!["PENDING"]);
    assert_invalid(pending, "do not cover SPENT");
    let other = at_first(|_, sequence| {
        sequence.manifest.kind = Event::BlindSignature;
        sequence.manifest.states.clear();
    });
    assert_invalid(other, "of another kind, blind_signature");
    // A bookmark in the future would hide everything until then.
    let time = now() + 3_600;
    let future = at_first(|_, sequence| sequence.manifest.segments[1].end = time);
    assert_invalid(future, "too far in the future");
    let large = at_first(|_, sequence| {
        let one = &mut sequence.manifest.segments[0];
        one.n = 1_000_000_000;
        one.length = *segment_lengths(sequence.manifest.universe, one.n).start();
    });
    assert_follow_error!(
        large,
        FollowError::Fetch(FetchError::Refused(RejectReason::TooLarge { declared: Some(bytes), .. }))
            if bytes > 1 << 30
    );
    at_first(|_, _| ()).expect("an unchanged sequence is followed");
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
    let directory = tempfile::tempdir().expect("a directory");
    let store = |progress: Progress| {
        progress
            .bookmark
            .expect("a bookmark")
            .store(directory.path())
            .expect("written");
    };
    store(progress);
    let again = || {
        let loaded = Bookmark::load(directory.path(), Event::ProofState).expect("read");
        follow(&follower, Progress::from(loaded.expect("a bookmark")))
    };
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
        assert_follow_error!(again(), FollowError::Stale { height: 2 });
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
    let directory = tempfile::tempdir().expect("a directory");
    progress
        .bookmark
        .expect("a bookmark")
        .store(directory.path())
        .expect("written");
    let loaded = Bookmark::load(directory.path(), Event::ProofState).expect("read");
    // The merge reaches behind the bookmark.
    publisher.publish(&sequence.next(&[(0, 230)]));
    let (found, progress) = run(Progress::from(loaded.expect("a bookmark")));
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
    assert_follow_error!(
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
    assert_follow_error!(other, FollowError::Bookmark(why) if why.contains("the bookmark is of format "));
    let elsewhere = Publisher::new();
    elsewhere.publish(&sequence);
    let other = candidate(&elsewhere).plan(None, None, bookmark);
    assert_follow_error!(other, FollowError::Bookmark(why) if why.contains("the bookmark is of mint "));

    let directory = tempfile::tempdir().expect("a directory");
    let load = || Bookmark::load(directory.path(), Event::ProofState);
    assert!(load().expect("none").is_none());
    let file = directory.path().join("proof_state.json");
    bookmark
        .expect("a bookmark")
        .store(directory.path())
        .expect("written");
    let good = std::fs::read_to_string(&file).expect("read");
    for damaged in [
        &good[..50],
        "{}",
        &good.replace("\"version\":1", "\"version\":2"),
    ] {
        std::fs::write(&file, damaged).expect("written");
        assert_follow_error!(load(), FollowError::Bookmark(why) if why.contains("delete it"));
    }
}
