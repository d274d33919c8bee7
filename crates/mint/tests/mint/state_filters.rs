//! State filters of both mints' databases: what is served, and what a restart or a restored backup changes.

use std::io::Read;
use std::path::Path;

use axum::Router;
use axum::routing::get as get_;
use nutfilter::segment::Segment;
use nutfilter_cashu::state_filters::manifest::hash;
use nutfilter_cashu::state_filters::{
    Block, BlockInfo, Element, ElementHash, Event, Manifest, SequencePath,
};
use nutfilter_mint::{
    FilterService, InfoFetcher, MintType, NoteKind, RefreshReport, Refresher, RefresherOptions,
    StateFilterOptions, verify,
};

use crate::support::{
    Clock, MintDatabase, Reply, Server, V1, V2, V3, assert_filter_of, assert_refused, items,
    on_disk,
};

pub(crate) fn clock() -> Clock {
    let clock = Clock::default();
    clock.set(1_700_000_000);
    clock
}

/// A database with a keyset, a directory for its state filters, and their clock.
fn mint(mint: MintType) -> (MintDatabase, tempfile::TempDir, Clock) {
    let directory = tempfile::tempdir().unwrap();
    (MintDatabase::with_keyset(mint), directory, clock())
}

fn options() -> StateFilterOptions {
    let mut options = StateFilterOptions::new(&[Event::ProofState, Event::BlindSignature]);
    options.block_width = 10;
    options
}

fn refresher(database: &MintDatabase, data: &Path, clock: &Clock) -> Refresher {
    database.refresher_with(RefresherOptions {
        state_filters: Some(options()),
        clock: clock.options().clock,
        ..on_disk(data)
    })
}

/// A refresher that has restored what is in the directory, and refreshed.
fn restarted(database: &MintDatabase, data: &Path, clock: &Clock) -> (Refresher, RefreshReport) {
    let mut refresher = refresher(database, data, clock);
    refresher.restore();
    let report = refresher.refresh().unwrap();
    (refresher, report)
}

pub(crate) fn elements(event: Event, state: &str, items: &[Vec<u8>]) -> Vec<Element> {
    let hash = ElementHash::new(event, state).unwrap();
    items
        .iter()
        .map(|item| hash.element(item).unwrap())
        .collect()
}

pub(crate) fn get(server: &Server, path: SequencePath) -> Reply {
    server.get(&path.to_string())
}

pub(crate) fn manifest(server: &Server, event: Event) -> Manifest {
    let reply = get(server, SequencePath::Manifest(event));
    assert_eq!(reply.status, 200, "{reply:?}");
    Manifest::from_json(&reply.body).unwrap()
}

/// The union of the segments that are served.
pub(crate) fn union(server: &Server, event: Event) -> Segment {
    let manifest = manifest(server, event);
    let parts: Vec<Segment> = manifest
        .cover()
        .map(|segment| {
            let reply = get(
                server,
                SequencePath::Segment(event, segment.start, segment.end),
            );
            assert_eq!((reply.status, hash(&reply.body)), (200, segment.sha256));
            Segment::parse(&reply.body).unwrap().into_owned()
        })
        .collect();
    Segment::merge(&parts).unwrap()
}

#[track_caller]
fn assert_followed(server: &Server, spent: &[Vec<u8>], issued: &[Vec<u8>]) {
    let universe = options().universe;
    let segment = |elements: &[Element]| Segment::from_elements(universe, elements).unwrap();
    let spent = elements(Event::ProofState, "SPENT", spent);
    assert_eq!(union(server, Event::ProofState), segment(&spent));
    let issued = elements(Event::BlindSignature, "", issued);
    assert_eq!(union(server, Event::BlindSignature), segment(&issued));
    // Every signature is in a sealed block, or in the open one.
    let event = Event::BlindSignature;
    let info = BlockInfo::from_json(&get(server, SequencePath::BlockInfo(event)).body).unwrap();
    let blocks = (0..info.blocks.len() as u64).map(|height| {
        let reply = get(server, SequencePath::Block(event, height));
        assert_eq!(reply.status, 200, "height {height}");
        Block::from_bytes(reply.body).unwrap()
    });
    let blocks: Vec<Block> = blocks.collect();
    for element in &issued {
        assert!(blocks.iter().any(|block| block.may_contain(element)));
    }
}

#[test]
fn removed_data_directory_begins_another_sequence() {
    let (database, place, clock) = mint(MintType::Cdk);
    let data = place.path().join("data");
    let [spent, issued] = [1, 2].map(|stream| items(stream, 30, 33));
    database.add_spent(V1, &spent[..10]);
    database.add_signed(V1, &issued[..10]);
    let mut refresher = refresher(&database, &data, &clock);
    refresher.refresh().unwrap();
    let server = Server::start(refresher.service().clone());
    for end in [20, 30] {
        clock.set(1_700_000_000 + 100 * end as u64);
        database.add_spent(V1, &spent[end - 10..end]);
        database.add_signed(V1, &issued[end - 10..end]);
        if end == 20 {
            std::fs::remove_dir_all(&data).unwrap();
        }
        let report = refresher.refresh().unwrap();
        assert!(report.failures.is_empty(), "{:?}", report.failures);
        assert_followed(&server, &spent[..end], &issued[..end]);
    }
    assert_eq!(manifest(&server, Event::ProofState).number, 1);
}

#[test]
fn new_rows_are_published_across_refreshes_and_restarts() {
    for mint in MintType::ALL {
        let (database, data, clock) = self::mint(mint);
        // Notes of both curves, in one sequence.
        let [spent, issued] = [1, 3].map(|stream| {
            let [mut all, bls] = [items(stream, 200, 33), items(stream + 1, 100, 48)];
            all.splice(100..100, bls);
            all
        });
        database.add_keyset(V2, "sat", true, 0);
        database.add_keyset(V3, "sat", true, 0);
        database.add_spent(V1, &spent[..100]);
        database.add_signed(V2, &issued[..100]);
        database.add_unsigned(V1, &issued[200..]);
        let mut refresher_ = refresher(&database, data.path(), &clock);
        refresher_.refresh().unwrap();
        let server = Server::start(refresher_.service().clone());
        assert_followed(&server, &spent[..100], &issued[..100]);
        // The first reading goes into one segment, and into as many blocks as it needs.
        let first = manifest(&server, Event::ProofState);
        assert_eq!(
            (first.number, first.segments[0].start, first.segments.len()),
            (0, 0, 1)
        );
        assert_eq!(first.states, ["SPENT"]);

        clock.set(1_700_000_060);
        refresher_.refresh().unwrap();
        let again = manifest(&server, Event::ProofState);
        assert_eq!(again, first, "nothing is new");
        database.add_spent(V3, &spent[100..200]);
        database.add_signed(V3, &issued[100..200]);
        clock.set(1_700_000_700);
        refresher_.refresh().unwrap();
        assert_followed(&server, &spent[..200], &issued[..200]);
        let second = manifest(&server, Event::ProofState);
        let old = get(&server, SequencePath::OldManifest(Event::ProofState, 0));
        assert_eq!(second.previous, Some(hash(&old.body)));

        drop((refresher_, server));
        let mut refresher_ = refresher(&database, data.path(), &clock);
        // Everything published is served before the first refresh.
        let server = Server::start(refresher_.service().clone());
        assert_eq!(manifest(&server, Event::ProofState), second);
        refresher_.restore();
        let report = refresher_.refresh().unwrap();
        assert!(
            report.readings.iter().all(|reading| !reading.whole),
            "{mint}"
        );
        assert_eq!(manifest(&server, Event::ProofState), second);
        database.add_spent(V1, &spent[200..]);
        clock.set(1_700_001_400);
        refresher_.refresh().unwrap();
        assert_followed(&server, &spent, &issued[..200]);
    }
}

#[test]
fn kind_that_lacks_notes_is_not_served_until_they_are_gone() {
    let (database, data, clock) = mint(MintType::Cdk);
    let (spent, odd) = (items(1, 10, 33), items(2, 1, 96));
    database.add_spent(V1, &spent);
    let status = |refresher: &Refresher| {
        let server = Server::start(refresher.service().clone());
        let kinds = [Event::ProofState, Event::BlindSignature];
        kinds.map(|event| get(&server, SequencePath::Manifest(event)).status)
    };
    let mut first = refresher(&database, data.path(), &clock);
    // The mint's info is fetched once only.
    let mint = Server::serve(Router::new().route("/v1/info", get_("{}")));
    let entries = |service: &FilterService| {
        let served = service.has_state_filters(Event::ProofState);
        vec![("served".to_owned(), served.to_string())]
    };
    let url = format!("http://{}", mint.address);
    let info = InfoFetcher::new(&url, first.service(), entries).unwrap();
    info.fetch().unwrap();
    let announced = |refresher: &Refresher| {
        let info = refresher.service().object("v1/info").unwrap();
        String::from_utf8(info.read().unwrap().to_vec()).unwrap()
    };
    first.refresh().unwrap();
    assert_eq!(status(&first), [200, 200]);
    assert_eq!(announced(&first), r#"{"nuts":{"served":true}}"#);
    database.add_spent(V1, &odd);
    first.refresh().unwrap();
    assert_eq!(status(&first), [400, 200], "a point of an unknown curve");
    assert_eq!(announced(&first), r#"{"nuts":{"served":false}}"#);
    database.add_spent(V1, &items(3, 1, 33));
    first.refresh().unwrap();
    assert_eq!(status(&first), [400, 200], "then only points are new");
    drop(first);
    let (again, _) = restarted(&database, data.path(), &clock);
    assert_eq!(status(&again), [400, 200], "a restart forgets nothing");
    drop(again);
    database.execute("DELETE FROM proof WHERE length(y) = 96");
    let (last, _) = restarted(&database, data.path(), &clock);
    assert_eq!(status(&last), [200, 200]);
}

#[test]
fn data_directory_without_sequences_is_read_whole_once() {
    let (database, data, clock) = mint(MintType::Cdk);
    let spent = items(1, 50, 33);
    database.add_spent(V1, &spent[..20]);
    let without = || {
        database.refresher_with(RefresherOptions {
            clock: clock.options().clock,
            ..on_disk(data.path())
        })
    };
    without().refresh().unwrap();
    for (known, whole) in [(20, true), (20, false), (30, true)] {
        if known == 30 {
            // A run without state filters takes items that the sequence then lacks.
            database.add_spent(V1, &spent[20..30]);
            let mut without = without();
            without.restore();
            without.refresh().unwrap();
        }
        let (refresher, report) = restarted(&database, data.path(), &clock);
        assert_eq!(report.readings[0].whole, whole, "{known} known");
        let server = Server::start(refresher.service().clone());
        assert_followed(&server, &spent[..known], &[]);
    }
}

#[test]
fn restored_backup_changes_nothing_published() {
    let (database, data, clock) = mint(MintType::Nutshell);
    let spent = items(1, 50, 33);
    database.add_spent(V1, &spent);
    let mut refresher = refresher(&database, data.path(), &clock);
    refresher.refresh().unwrap();
    let server = Server::start(refresher.service().clone());
    let before = manifest(&server, Event::ProofState);
    database.execute("DELETE FROM proofs_used WHERE rowid > 20;");
    clock.set(1_700_000_060);
    refresher.refresh().unwrap();
    assert_eq!(manifest(&server, Event::ProofState), before);
    // The same notes are spent again, and one that was never spent.
    let again = items(3, 1, 33);
    database.add_spent(V1, &spent[20..40]);
    database.add_spent(V1, &again);
    clock.set(1_700_000_120);
    refresher.refresh().unwrap();
    let after = manifest(&server, Event::ProofState);
    assert_eq!(after.segments.last().unwrap().n, 1);
    assert_followed(&server, &[spent, again].concat(), &[]);
}

fn served() -> (MintDatabase, tempfile::TempDir, Refresher, Clock, Server) {
    let (database, data, clock) = mint(MintType::Cdk);
    database.add_spent(V1, &items(1, 2_000, 33));
    database.add_signed(V1, &items(2, 100, 33));
    let mut refresher = refresher(&database, data.path(), &clock);
    refresher.refresh().unwrap();
    let server = Server::start(refresher.service().clone());
    (database, data, refresher, clock, server)
}

#[test]
fn answers_are_cached_conditional_partial_and_compressed() {
    let (_database, _data, _refresher, _clock, server) = served();
    use SequencePath::{Block, BlockInfo, Manifest, OldManifest, Segment};
    let listed = manifest(&server, Event::ProofState).segments[0];
    let (start, end) = (listed.start, listed.end);
    let (spent, signed) = (Event::ProofState, Event::BlindSignature);
    let (json, octets) = ("application/json", "application/octet-stream");
    let [refresh, interval] = ["60", "600"].map(|age| format!("public, max-age={age}"));
    let immutable = "public, max-age=31536000, immutable";
    for (path, media, cache) in [
        (Manifest(spent), json, refresh.as_str()),
        (OldManifest(spent, 0), json, immutable),
        (Segment(spent, start, end), octets, immutable),
        (BlockInfo(signed), json, &refresh),
        (Block(signed, 0), octets, immutable),
        (Block(signed, 2), octets, &interval),
    ] {
        let path = path.to_string();
        let whole = server.get(&path);
        assert_eq!(whole.status, 200, "{path}");
        assert_eq!(whole.header("content-type"), Some(media), "{path}");
        assert_eq!(whole.header("cache-control"), Some(cache), "{path}");
        let length = whole.body.len().to_string();
        let head = server.raw("HEAD", &path);
        assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
        let plain = server.ask("GET", &path, &[]);
        assert_eq!(
            plain.header("content-length"),
            Some(length.as_str()),
            "{path}"
        );
        assert!(plain.body == whole.body, "{path}");
        let tag = plain.header("etag").unwrap();
        let known = server.ask("GET", &path, &[("if-none-match", tag)]);
        assert_eq!((known.status, known.body.len()), (304, 0), "{path}");
        assert_eq!(known.header("cache-control"), Some(cache), "{path}");
        let part = server.ask("GET", &path, &[("range", "bytes=3-10")]);
        assert_eq!(
            (part.status, &part.body[..]),
            (206, &plain.body[3..11]),
            "{path}"
        );
        let beyond = format!("bytes={length}-");
        let beyond = server.ask("GET", &path, &[("range", &beyond)]);
        assert_eq!(beyond.status, 416, "{path}");
        let gzip = server.ask("GET", &path, &[("accept-encoding", "gzip")]);
        let mut decoded = vec![];
        match gzip.header("content-encoding") {
            Some("gzip") => {
                let mut decoder = flate2::read::GzDecoder::new(&gzip.body[..]);
                decoder.read_to_end(&mut decoded).unwrap();
            }
            _ => {
                assert!(!path.contains("/manifest/"), "a manifest is compressed");
                decoded = gzip.body;
            }
        }
        assert!(decoded == whole.body, "{path}");
    }
}

#[test]
fn unknown_objects_and_kinds_have_the_codes_of_the_draft() {
    let (_database, _data, _refresher, _clock, server) = served();
    for path in [
        "blocks/blind_signature/3",
        "blocks/blind_signature/00",
        "blocks/blind_signature/-1",
        "blocks/blind_signature/x",
        "segments/proof_state/0-5",
        "segments/proof_state/5",
        "manifests/proof_state/1",
        "manifests/proof_state/18446744073709551616",
    ] {
        assert_refused(&server.get(&format!("/v1/filters/{path}")), 400, 40_001);
    }
    for path in [
        "manifest/mint_quote",
        "manifest/nothing",
        "info/proof_state",
        "info/melt_quote",
        "blocks/proof_state/0",
        "segments/x/0-5",
    ] {
        assert_refused(&server.get(&format!("/v1/filters/{path}")), 400, 40_002);
    }
    let without = MintDatabase::new(MintType::Cdk).refresher();
    let server = Server::start(without.service().clone());
    assert_refused(&server.get("/v1/filters/manifest/proof_state"), 400, 40_002);
}

#[test]
fn open_block_changes_only_at_its_interval() {
    let (database, _data, mut refresher, clock, server) = served();
    let event = Event::BlindSignature;
    let open = |height| get(&server, SequencePath::Block(event, height)).body;
    let before = open(2);
    database.add_signed(V1, &items(3, 1, 33));
    clock.set(1_700_000_599);
    refresher.refresh().unwrap();
    assert!(open(2) == before, "not due");
    assert_eq!(manifest(&server, event).number, 1, "segments do not wait");
    clock.set(1_700_000_600);
    refresher.refresh().unwrap();
    assert!(open(2) != before, "due");
    // The week of the block is over: it is sealed with what it has, and the next one is open.
    clock.set(1_700_000_000 + 604_800);
    refresher.refresh().unwrap();
    let info = get(&server, SequencePath::BlockInfo(event));
    let info = BlockInfo::from_json(&info.body).unwrap();
    assert_eq!(info.blocks[2].end, Some(1_700_604_800));
    assert_eq!(open(2).len(), 64, "13 elements fit into 2^9 bits");
    assert_eq!(open(3), [0; 128]);
}

#[test]
fn state_filters_need_their_universe() {
    let (database, data, clock) = mint(MintType::Cdk);
    drop(refresher(&database, data.path(), &clock));
    let mut other = options();
    other.universe = nutfilter::segment::Universe::new(50).unwrap();
    for (directory, expected) in [
        (Some(data.path()), "has universe 36, not 50"),
        (None, "state filters need a data directory"),
    ] {
        let options = RefresherOptions {
            state_filters: Some(other.clone()),
            ..directory.map(on_disk).unwrap_or_default()
        };
        let source = database.source();
        let opened = Refresher::with_options(source, FilterService::default(), options);
        let error = opened.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn damaged_file_is_not_served_and_tags_depend_on_content() {
    let (_database, data, _refresher, _clock, server) = served();
    let event = Event::ProofState;
    let listed = manifest(&server, event).segments[0];
    let path = SequencePath::Segment(event, listed.start, listed.end);
    let file = data.path().join(format!(
        "state-filters/proof_state/segments/{}-{}",
        listed.start, listed.end
    ));
    let good = std::fs::read(&file).unwrap();
    let mut damaged = good.clone();
    damaged[30] ^= 1;
    std::fs::write(&file, damaged).unwrap();
    assert_eq!(get(&server, path).status, 500);
    // A file that is lost is not yet made again.
    std::fs::remove_file(&file).unwrap();
    assert_eq!(get(&server, path).status, 503);
    std::fs::write(&file, good).unwrap();
    assert_eq!(get(&server, path).status, 200);
    let blocks = data.path().join("state-filters/blind_signature/blocks");
    for entry in std::fs::read_dir(blocks).unwrap() {
        let path = entry.unwrap().path();
        if path.to_str().unwrap().contains("/00000000-") {
            std::fs::write(&path, "").unwrap();
        }
    }
    let signed = Event::BlindSignature;
    assert_eq!(get(&server, SequencePath::Block(signed, 0)).status, 500);
    assert_eq!(get(&server, SequencePath::Block(signed, 1)).status, 200);

    let old = get(&server, SequencePath::OldManifest(event, 0));
    let digest: String = hash(&old.body)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(old.header("etag"), Some(format!("\"{digest}\"").as_str()));
}

#[test]
fn damaged_state_filters_do_not_stop_the_filters() {
    let (database, data, first, clock, server) = served();
    drop((first, server));
    let known = data.path().join("state-filters/proof_state/known");
    let file = std::fs::read_dir(&known).unwrap().next().unwrap();
    let file = file.unwrap().path();
    let good = std::fs::read(&file).unwrap();
    std::fs::write(&file, &good[..good.len() - 1]).unwrap();
    let [damage] = &verify(data.path()).unwrap()[..] else {
        panic!("one file is damaged")
    };
    assert!(damage.contains("proof_state/known"), "{damage}");

    let (refresher_, report) = restarted(&database, data.path(), &clock);
    assert!(report.failures.is_empty() && !report.is_complete());
    assert_eq!(report.event_failures[0].0, Event::ProofState);
    let server = Server::start(refresher_.service().clone());
    assert_eq!(server.filter(NoteKind::Spent, V1).status, 200);
    assert_refused(&server.get("/v1/filters/manifest/proof_state"), 400, 40_002);
    manifest(&server, Event::BlindSignature);
    drop(refresher_);

    std::fs::write(&file, good).unwrap();
    let (refresher_, report) = restarted(&database, data.path(), &clock);
    assert!(report.is_complete());
    let server = Server::start(refresher_.service().clone());
    manifest(&server, Event::ProofState);
}

#[test]
fn events_that_could_not_be_added_come_with_a_later_refresh() {
    let (database, data, clock) = mint(MintType::Cdk);
    let mut spent = items(1, 30, 33);
    database.insert(NoteKind::Spent, V1, &spent);
    let mut refresher = refresher(&database, data.path(), &clock);
    assert!(refresher.refresh().unwrap().is_complete());
    let server = Server::start(refresher.service().clone());
    let known = data.path().join("state-filters/proof_state/known");
    let away = data.path().join("away");
    std::fs::rename(&known, &away).unwrap();
    let mut wholes = vec![];
    for round in 0..8 {
        spent.extend(items(2 + round, 5, 33));
        database.insert(NoteKind::Spent, V1, &items(2 + round, 5, 33));
        let report = refresher.refresh().unwrap();
        assert!(report.failures.is_empty(), "{:?}", report.failures);
        assert_filter_of(&server.filter(NoteKind::Spent, V1).body, &spent);
        wholes.push(report.readings[0].whole);
        assert_eq!(
            report.event_failures.is_empty(),
            !(round == 0 || wholes[round as usize])
        );
    }
    // Each failure doubles the time to the next attempt.
    assert_eq!(
        wholes,
        [false, true, false, true, false, false, false, true]
    );
    std::fs::rename(&away, &known).unwrap();
    let refreshes = (1..20).find(|_| refresher.refresh().unwrap().readings[0].whole);
    assert_eq!(refreshes, Some(8));
    let expected = elements(Event::ProofState, "SPENT", &spent);
    let expected = Segment::from_elements(options().universe, &expected).unwrap();
    assert_eq!(union(&server, Event::ProofState), expected);
}
