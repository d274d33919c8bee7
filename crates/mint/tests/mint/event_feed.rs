//! Events that a mint reports: what is published of them, and what a wallet sees.

use std::path::Path;

use nutfilter_cashu::state_filters::{Block, BlockInfo, Event, SequencePath};
use nutfilter_mint::{
    EventFeed, FilterService, Refresher, RefresherOptions, ReportError, StateFilterOptions,
};
use nutfilter_wallet::follow::{Follower, Progress, SequenceFormat};
use nutfilter_wallet::{MintClient, Policy};

use crate::state_filters::{clock, elements, get, manifest, union};
use crate::support::{Clock, FakeMint, Server, items, no_notes, on_disk, one_keyset};

fn options() -> StateFilterOptions {
    let mut options = StateFilterOptions::new(&[Event::ProofState]);
    options.reported = Event::ALL.to_vec();
    options.block_width = 10;
    options
}

fn refresher(data: &Path, clock: &Clock) -> (Refresher, EventFeed) {
    let source = FakeMint(one_keyset, no_notes);
    let options = RefresherOptions {
        state_filters: Some(options()),
        clock: clock.options().clock,
        ..on_disk(data)
    };
    let refresher = Refresher::with_options(source, FilterService::default(), options).unwrap();
    let events = refresher.event_feed();
    (refresher, events)
}

fn ids(event: Event) -> Vec<Vec<u8>> {
    match event.has_point() {
        true => items(1, 40, 33),
        false => (0..40).map(|i| format!("quote-{i}").into_bytes()).collect(),
    }
}

#[test]
fn every_reported_transition_is_in_a_block_and_a_segment() {
    let (data, clock) = (tempfile::tempdir().unwrap(), clock());
    let (mut refresher_, events) = refresher(data.path(), &clock);
    for event in Event::ALL {
        for state in event.states() {
            events.report(event, state, &ids(event)).unwrap();
        }
        assert_eq!(events.waiting(event), 40 * event.states().len() as u64);
    }
    // The process ends before the refresh.
    drop((refresher_, events));
    let events;
    (refresher_, events) = refresher(data.path(), &clock);
    // The first refresh serves the open block as it is then.
    let report = refresher_.refresh().unwrap();
    assert!(report.is_complete(), "{report:?}");
    let server = Server::start(refresher_.service().clone());
    for event in Event::ALL {
        assert_eq!(events.waiting(event), 0);
        let ids = ids(event);
        let all = event.states().iter();
        let all: Vec<_> = all.flat_map(|state| elements(event, state, &ids)).collect();
        let union = union(&server, event);
        assert_eq!(union.n() as usize, all.len());
        assert_eq!(union.matches_elements(&all), vec![true; all.len()]);
        let info = get(&server, SequencePath::BlockInfo(event)).body;
        let info = BlockInfo::from_json(&info).unwrap();
        let heights = 0..info.blocks.len() as u64;
        let blocks = heights.map(|height| get(&server, SequencePath::Block(event, height)).body);
        let blocks: Vec<_> = blocks
            .map(|body| Block::from_bytes(body).unwrap())
            .collect();
        let is_there = |element| blocks.iter().any(|block| block.may_contain(element));
        assert!(all.iter().all(is_there), "{event}");
    }
    assert_eq!(manifest(&server, Event::ProofState).states.len(), 3);
    assert!(manifest(&server, Event::MintQuote).states.is_empty());
}

#[test]
fn proof_that_comes_back_is_seen_at_each_refresh() {
    for format in [SequenceFormat::Segments, SequenceFormat::Blocks] {
        let (data, clock) = (tempfile::tempdir().unwrap(), clock());
        let (mut refresher, events) = refresher(data.path(), &clock);
        let server = Server::start(refresher.service().clone());
        let url = format!("http://{}", server.address);
        let client = MintClient::new(&url, Policy::default()).unwrap();
        let event = Event::ProofState;
        let y = items(7, 1, 33);
        let follower = Follower::new(client, event, event.states(), &y).unwrap();
        let (mut progress, mut seen) = (Progress::default(), vec![]);
        let states = ["UNSPENT", "PENDING", "UNSPENT", "SPENT"];
        for (i, state) in states.into_iter().enumerate() {
            events.report(event, state, &y).unwrap();
            if format == SequenceFormat::Blocks {
                // The rest of the block.
                events
                    .report(event, "SPENT", &items(i as u64, 43, 33))
                    .unwrap();
            }
            clock.set(1_700_000_000 + 600 * i as u64);
            refresher.refresh().unwrap();
            let plan = follower.plan(Some(format), None, progress.bookmark.as_ref());
            progress = follower
                .run(&plan.unwrap(), progress, None, &mut |found| {
                    seen.push(found.state)
                })
                .unwrap();
        }
        assert_eq!(seen, states, "{format:?}");
    }
}

#[test]
fn invalid_events_are_refused_and_nothing_is_taken() {
    let (data, clock) = (tempfile::tempdir().unwrap(), clock());
    let (refresher, events) = refresher(data.path(), &clock);
    use Event::{BlindSignature, MeltQuote, MintQuote, ProofState};
    let (point, short, quote, none) = (&[2; 33][..], &[2; 32][..], &b"q"[..], &b""[..]);
    let (binary, long) = (&[0xff][..], &[b'q'; 4097][..]);
    for (event, state, ids, expected) in [
        (ProofState, "ISSUED", vec![point], "'ISSUED' of proof_state"),
        (MeltQuote, "SPENT", vec![quote], "'SPENT' of melt_quote"),
        (MintQuote, "PAID", vec![quote], "mint_quote has no states"),
        (ProofState, "SPENT", vec![point, short], "not 32 that begin"),
        (BlindSignature, "", vec![point, none], "80 to bf; not 0"),
        (MintQuote, "", vec![quote, none], "empty mint_quote ID"),
        (MeltQuote, "PAID", vec![binary], "ID is not UTF-8"),
        (MintQuote, "", vec![long], "4097 bytes is too long"),
    ] {
        let error = events.report(event, state, &ids).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!matches!(error, ReportError::Inbox(_)));
        assert_eq!(events.waiting(event), 0);
    }
    drop(refresher);
    // A feed of a refresher without state filters.
    let source = FakeMint(one_keyset, no_notes);
    let none = Refresher::new(source, FilterService::default());
    let error = none
        .event_feed()
        .report(Event::ProofState, "SPENT", &[point]);
    let error = error.unwrap_err().to_string();
    assert_eq!(error, "proof_state is not a kind that the mint reports");
}

#[test]
fn info_names_kinds_and_states() {
    let polled = StateFilterOptions::new(&[Event::ProofState, Event::BlindSignature]);
    let draft = r#"{"kinds":["blind_signature"],"supported":true}"#;
    assert_eq!(polled.draft_info().as_deref(), Some(draft));
    let segments = r#"{"kinds":[{"kind":"proof_state","states":["SPENT"]},{"kind":"blind_signature"}],"supported":true,"w":36}"#;
    assert_eq!(polled.segments_info().as_deref(), Some(segments));
    let draft =
        r#"{"kinds":["proof_state","mint_quote","melt_quote","blind_signature"],"supported":true}"#;
    assert_eq!(options().draft_info().as_deref(), Some(draft));
    let info = options().segments_info().unwrap();
    assert!(
        info.contains(r#"{"kind":"proof_state","states":["UNSPENT","PENDING","SPENT"]}"#),
        "{info}"
    );
    let spent = StateFilterOptions::new(&[Event::ProofState]);
    assert_eq!(spent.draft_info(), None);
    assert_eq!(StateFilterOptions::new(&[]).segments_info(), None);
}
