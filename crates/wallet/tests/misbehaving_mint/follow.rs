//! A mint that publishes sequences, and an honest one followed.

use std::collections::HashMap;
use std::sync::Mutex;

use nutfilter::segment::{Segment, Universe};
use nutfilter_cashu::state_filters::manifest::hash;
use nutfilter_cashu::state_filters::{
    Block, BlockInfo, BlockInterval, ElementHash, Event, Manifest, ManifestSegment,
};
use nutfilter_wallet::follow::{Bookmark, FollowError, Follower, Found, Progress, SequenceFormat};

use crate::*;

/// Serves files by path, and 404 for all other paths.
pub(crate) struct Publisher {
    files: Arc<Mutex<HashMap<String, Vec<u8>>>>,
    mint: Loopback,
}

impl Publisher {
    pub(crate) fn new() -> Self {
        let files: Arc<Mutex<HashMap<String, Vec<u8>>>> = Arc::default();
        let served = files.clone();
        let mint = Loopback::start(move |request, stream| {
            let path = request.split(' ').nth(1).unwrap_or_default();
            let body = served.lock().expect("the files").get(path).cloned();
            let headers = [("Cache-Control", "public, max-age=60")];
            stream.write_all(&match body {
                Some(body) => response("200 OK", &headers, body),
                None => response("404 Not Found", &[], r#"{"detail":"unknown","code":40001}"#),
            })
        });
        Self { files, mint }
    }

    pub(crate) fn put(&self, path: &str, bytes: Vec<u8>) {
        let mut files = self.files.lock().expect("the files");
        files.insert(path.to_owned(), bytes);
    }

    pub(crate) fn remove(&self, path: &str) {
        self.files.lock().expect("the files").remove(path);
    }

    pub(crate) fn url(&self) -> String {
        self.mint.url()
    }

    /// The paths that were requested since the last call.
    pub(crate) fn paths(&self, before: &mut usize) -> Vec<String> {
        let requests = self.mint.requests();
        let new = requests[*before..].iter();
        *before = requests.len();
        new.map(|request| request.split(' ').nth(1).unwrap_or_default().to_owned())
            .collect()
    }

    /// Publishes a manifest and its segments.
    pub(crate) fn publish(&self, sequence: &Sequence) {
        let json = sequence.manifest.to_json();
        let number = sequence.manifest.number;
        self.put(MANIFEST, json.clone());
        self.put(&format!("/v1/filters/manifests/proof_state/{number}"), json);
        for (path, file) in &sequence.files {
            self.put(path, file.clone());
        }
    }
}

pub(crate) const MANIFEST: &str = "/v1/filters/manifest/proof_state";
pub(crate) const INFO: &str = "/v1/filters/info/proof_state";

pub(crate) fn segment_path(start: u64, end: u64) -> String {
    format!("/v1/filters/segments/proof_state/{start}-{end}")
}

pub(crate) fn block_path(height: usize) -> String {
    format!("/v1/filters/blocks/proof_state/{height}")
}

pub(crate) fn spent_hash(number: u32) -> u64 {
    let hash = ElementHash::new(Event::ProofState, "SPENT").expect("a state");
    let element = hash.element(&item(number)).expect("a point");
    nutfilter::segment::element_hash(&element)
}

/// A manifest with its segments. The elements of second t are the items t to `t + 1`, spent.
#[derive(Clone)]
pub(crate) struct Sequence {
    pub(crate) manifest: Manifest,
    pub(crate) files: HashMap<String, Vec<u8>>,
}

impl Sequence {
    /// The first manifest, of these intervals.
    pub(crate) fn new(intervals: &[(u64, u64)]) -> Self {
        let manifest = Manifest {
            kind: Event::ProofState,
            states: vec!["SPENT"],
            universe: Universe::new(40).expect("a width"),
            number: 0,
            previous: None,
            time: now(),
            segments: Vec::new(),
        };
        let files = HashMap::new();
        Self { manifest, files }.listing(intervals)
    }

    /// The next manifest, of these intervals.
    pub(crate) fn next(&self, intervals: &[(u64, u64)]) -> Self {
        let mut next = self.clone();
        next.manifest.previous = Some(hash(&self.manifest.to_json()));
        next.manifest.number += 1;
        next.listing(intervals)
    }

    pub(crate) fn listing(mut self, intervals: &[(u64, u64)]) -> Self {
        self.manifest.segments.clear();
        self.files.clear();
        for &(start, end) in intervals {
            let hashes = (start..end).map(|number| spent_hash(number as u32));
            let segment = Segment::from_hashes(self.manifest.universe, hashes.collect());
            self.list(start, end, &segment.expect("a segment").to_bytes());
        }
        self
    }

    /// Lists a file for an interval, instead of the one before.
    pub(crate) fn list(&mut self, start: u64, end: u64, file: &[u8]) {
        let n = u32::from_le_bytes(file[12..16].try_into().expect("4 bytes"));
        let listed = ManifestSegment {
            start,
            end,
            n,
            length: file.len() as u64,
            sha256: hash(file),
        };
        let segments = &mut self.manifest.segments;
        segments.retain(|one| (one.start, one.end) != (start, end));
        segments.push(listed);
        segments.sort_by_key(|one| (one.start, std::cmp::Reverse(one.end)));
        self.files.insert(segment_path(start, end), file.to_vec());
    }
}

pub(crate) fn follower(publisher: &Publisher, ids: &[[u8; 33]]) -> Follower {
    let client = MintClient::new(&publisher.url(), Policy::default()).expect("a good URL");
    Follower::new(client, Event::ProofState, &["SPENT"], ids).expect("points")
}

/// The candidates and ends of the matches, and the progress.
pub(crate) type Followed = Result<(Vec<(usize, Option<u64>)>, Progress), FollowError>;

/// Plans and runs.
pub(crate) fn follow(follower: &Follower, progress: Progress) -> Followed {
    let mut all = Vec::new();
    let plan = follower.plan(None, None, progress.bookmark.as_ref())?;
    let mut found = |found: Found| all.push((found.candidate, found.end));
    let progress = follower.run(&plan, progress, None, &mut found)?;
    Ok((all, progress))
}

#[test]
fn segments_are_followed_from_the_bookmark() {
    let publisher = Publisher::new();
    let first = Sequence::new(&[(0, 100), (100, 160)]);
    publisher.publish(&first);
    let ids = [50, 130, 170, 175, 900].map(item);
    let follower = follower(&publisher, &ids);
    let mut seen = 0;

    let plan = follower.plan(None, None, None).expect("a plan");
    assert_eq!((plan.format(), plan.from()), (SequenceFormat::Segments, 0));
    let files: usize = first.files.values().map(Vec::len).sum();
    assert_eq!((plan.objects(), plan.bytes()), (2, files as u64));
    assert_eq!(plan.max_age(), Some(60));
    let chance = 5.0 * 160.0 / (1_u64 << 40) as f64;
    assert!((plan.false_matches() / chance - 1.0).abs() < 1e-9);
    publisher.paths(&mut seen);

    let (found, progress) = follow(&follower, Progress::default()).expect("an honest mint");
    assert_eq!(found, [(0, Some(100)), (1, Some(160))]);
    let expected = [MANIFEST, &segment_path(0, 100), &segment_path(100, 160)];
    assert_eq!(publisher.paths(&mut seen), expected);

    // Two more, and a merge of which the bookmark needs only a part.
    let second = first.next(&[(0, 180), (0, 100), (100, 160), (160, 180), (180, 190)]);
    publisher.publish(&second);
    let (found, progress) = follow(&follower, progress).expect("an honest mint");
    assert_eq!(found, [(2, Some(180)), (3, Some(180))]);
    let expected = [MANIFEST, &segment_path(160, 180), &segment_path(180, 190)];
    assert_eq!(publisher.paths(&mut seen), expected);

    let (found, progress) = follow(&follower, progress).expect("nothing new");
    assert_eq!(found, []);
    assert_eq!(publisher.paths(&mut seen), [MANIFEST]);

    // The bookmark survives a restart, and notices other candidates.
    let directory = tempfile::tempdir().expect("a directory");
    let bookmark = progress.bookmark.expect("a bookmark");
    bookmark.store(directory.path()).expect("written");
    let loaded = Bookmark::load(directory.path(), Event::ProofState).expect("read");
    assert_eq!(loaded, Some(bookmark.clone()));
    assert!(!follower.has_other_candidates(&bookmark));
    let other = self::follower(&publisher, &ids[1..]);
    assert!(other.has_other_candidates(&bookmark));

    // An earlier start overrides the bookmark.
    let plan = follower
        .plan(None, Some(100), Some(&bookmark))
        .expect("a plan");
    // The merge and one more: two small parts would cost more requests than they save.
    assert_eq!((plan.from(), plan.objects()), (100, 2));
}

#[test]
fn requests_show_whole_hours_and_matches_are_not_repeated() {
    let publisher = Publisher::new();
    let first = Sequence::new(&[(0, 3_600), (3_600, 5_000)]);
    publisher.publish(&first);
    let follower = follower(&publisher, &[4_000, 5_100, 7_000].map(item));
    let mut seen = 0;
    let (found, progress) = follow(&follower, Progress::default()).expect("an honest mint");
    assert_eq!(found, [(0, Some(5_000))]);
    publisher.paths(&mut seen);
    // Ten minutes later at most, only what is new.
    let second = first.next(&[(0, 3_600), (3_600, 5_000), (5_000, 5_600)]);
    publisher.publish(&second);
    let (found, progress) = follow(&follower, progress).expect("an honest mint");
    assert_eq!(found, [(1, Some(5_600))]);
    assert_eq!(
        publisher.paths(&mut seen),
        [MANIFEST, &segment_path(5_000, 5_600)]
    );
    // Later, everything of the hour, as everybody who was here in that hour.
    let third = second.next(&[(0, 3_600), (3_600, 5_000), (5_000, 5_600), (5_600, 7_200)]);
    publisher.publish(&third);
    let (found, _) = follow(&follower, progress).expect("an honest mint");
    assert_eq!(found, [(2, Some(7_200))]);
    let all = [(3_600, 5_000), (5_000, 5_600), (5_600, 7_200)];
    let all = all.map(|(start, end)| segment_path(start, end));
    assert_eq!(
        publisher.paths(&mut seen),
        [&[MANIFEST.to_owned()], &all[..]].concat()
    );
}

#[test]
fn manifest_may_be_compressed_and_is_limited_by_its_own_length() {
    let sequence = Sequence::new(&[(0, 100)]);
    let json = sequence.manifest.to_json();
    let gzip = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Default::default());
        encoder.write_all(bytes).expect("memory");
        encoder.finish().expect("memory")
    };
    let mut long = json.clone();
    long.resize(5 << 20, b' ');
    let mut cut = gzip(&json);
    cut.truncate(cut.len() - 9);
    for (body, error) in [
        (gzip(&json), None),
        (gzip(&long), Some("longer than 4194304 bytes")),
        (cut, Some("connection closed")),
        (json, Some("")),
    ] {
        let mint = Loopback::start(move |request, stream| {
            assert!(request.to_lowercase().contains("accept-encoding: gzip"));
            stream.write_all(&response("200 OK", &[("Content-Encoding", "gzip")], &body))
        });
        let client = MintClient::new(&mint.url(), Policy::default()).expect("a good URL");
        let follower = Follower::new(client, Event::ProofState, &["SPENT"], &[item(1)]);
        let plan = follower.expect("points").plan(None, None, None);
        match (plan, error) {
            (Ok(plan), None) => assert_eq!(plan.objects(), 1),
            (Err(found), Some(error)) => assert!(found.to_string().contains(error), "{found}"),
            (plan, error) => panic!("{plan:?}, expected {error:?}"),
        }
    }
}

pub(crate) fn block(width: u32, numbers: std::ops::Range<u32>) -> Vec<u8> {
    let hash = ElementHash::new(Event::ProofState, "SPENT").expect("a state");
    let mut block = Block::new(width).expect("a width");
    for number in numbers {
        block.insert(&hash.element(&item(number)).expect("a point"));
    }
    block.as_bytes().to_vec()
}

/// Two sealed blocks and an open one of width 10, of the items 0 to 20, 20 to 40, and `open`.
pub(crate) fn publish_blocks(publisher: &Publisher, open: std::ops::Range<u32>) -> BlockInfo {
    let interval = |start, end| BlockInterval { start, end };
    let info = BlockInfo {
        b: 10,
        timeout: 3_600,
        open_interval: Some(30),
        blocks: vec![
            interval(1_000, Some(2_000)),
            interval(2_000, Some(5_600)),
            interval(5_600, None),
        ],
    };
    publisher.put(INFO, info.to_json());
    publisher.put(&block_path(0), block(10, 0..20));
    publisher.put(&block_path(1), block(9, 20..40));
    publisher.put(&block_path(2), block(10, open));
    info
}

#[test]
fn blocks_are_followed_and_the_open_one_is_read_again() {
    let publisher = Publisher::new();
    let mut info = publish_blocks(&publisher, 40..41);
    let ids = [5, 25, 40, 41, 900].map(item);
    let follower = follower(&publisher, &ids);
    let mut seen = 0;
    // Without a manifest, the default is the draft's blocks.
    let plan = follower.plan(None, None, None).expect("a plan");
    assert_eq!(
        (plan.format(), plan.from()),
        (SequenceFormat::Blocks, 1_000)
    );
    assert_eq!((plan.objects(), plan.bytes()), (3, 3 * 128));
    assert_eq!(plan.max_age(), Some(30));
    publisher.paths(&mut seen);

    let (found, progress) = follow(&follower, Progress::default()).expect("an honest mint");
    assert_eq!(found, [(0, Some(2_000)), (1, Some(5_600)), (2, None)]);
    publisher.paths(&mut seen);

    // Only the open block is read again. Its old match is not repeated, and the earlier miss did not count.
    publisher.put(&block_path(2), block(10, 40..42));
    let (found, progress) = follow(&follower, progress).expect("an honest mint");
    assert_eq!(found, [(3, None)]);
    assert_eq!(publisher.paths(&mut seen), [INFO, &block_path(2)]);

    info.blocks[2].end = Some(9_200);
    info.blocks.push(BlockInterval {
        start: 9_200,
        end: None,
    });
    publisher.put(INFO, info.to_json());
    publisher.put(&block_path(3), block(10, 0..0));
    let (found, progress) = follow(&follower, progress).expect("an honest mint");
    assert_eq!(found, [(2, Some(9_200)), (3, Some(9_200))]);
    let expected = [INFO, &block_path(2), &block_path(3)];
    assert_eq!(publisher.paths(&mut seen), expected);

    let plan = follower.plan(None, Some(5_600), progress.bookmark.as_ref());
    assert_eq!(plan.expect("a plan").objects(), 2);
}

#[test]
fn open_block_that_is_not_served_is_not_requested() {
    let publisher = Publisher::new();
    let mut info = publish_blocks(&publisher, 40..41);
    info.open_interval = None;
    publisher.put(INFO, info.to_json());
    publisher.remove(&block_path(2));
    let follower = follower(&publisher, &[item(25)]);
    let (found, _) = follow(&follower, Progress::default()).expect("an honest mint");
    assert_eq!(found, [(0, Some(5_600))]);
}

#[test]
fn matches_are_those_of_the_whole_sequence() {
    let publisher = Publisher::new();
    publisher.publish(&Sequence::new(&[(0, 100), (100, 160)]));
    let ids = [50, 900, 130].map(item);
    let follower = follower(&publisher, &ids);
    let plan = follower.plan(None, None, None).expect("a plan");
    let matches = follower.matches(&plan, &ids).expect("an honest mint");
    assert_eq!(matches.items(), [item(50), item(130)]);
    assert_eq!(matches.as_of(), 160);
}
