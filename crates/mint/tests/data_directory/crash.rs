//! kill -9 at any moment: after the restart, the served filters are exactly right for the time that they name.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use nutfilter::segment::Segment;
use nutfilter_cashu::state_filters::ElementHash;
use nutfilter_mint::{
    DataDirectory, Event, FilterService, KeysetId, NoteKind, Refresher, RefresherOptions,
    StateFilterOptions,
};
use nutfilter_sequence::{BlockOptions, Options, Sequence};

use crate::fake_mint::{FakeMint, KEYSETS, State};
use crate::observer::Observer;
use crate::open;
use crate::victim::{self, random};

/// Default number of kills.
const KILLS: u64 = 60;

pub(crate) fn refresher(directory: &Path) -> Refresher {
    with(directory, None)
}

fn with(directory: &Path, state_filters: Option<StateFilterOptions>) -> Refresher {
    let mint = FakeMint::in_directory(directory);
    let clock = mint.clone();
    let clock = move || std::time::UNIX_EPOCH + Duration::from_secs(clock.now());
    let options = RefresherOptions {
        data_directory: Some(open(|| DataDirectory::open(directory.join("data")))),
        state_filters,
        restamp_after: Duration::from_secs(3),
        clock: Some(Box::new(clock)),
        ..RefresherOptions::default()
    };
    Refresher::with_options(mint, FilterService::default(), options).unwrap()
}

fn with_state_filters(directory: &Path) -> Refresher {
    with(directory, Some(state_filters()))
}

fn state_filters() -> StateFilterOptions {
    let mut options = StateFilterOptions::new(&[Event::ProofState, Event::BlindSignature]);
    // Many blocks.
    options.block_width = 8;
    options
}

/// Compares what the sequences publish with what they published before. Returns the union of each.
fn observe(directory: &Path, observers: &mut [Observer; 2]) -> [Segment; 2] {
    let given = state_filters();
    let proofs = Options::new(Event::ProofState, &["SPENT"], given.universe);
    let mut signatures = Options::new(Event::BlindSignature, &[], given.universe);
    signatures.blocks = Some(BlockOptions {
        width: given.block_width,
        timeout: given.block_timeout,
    });
    let mut observed = [proofs, signatures].into_iter().zip(observers);
    core::array::from_fn(|_| {
        let (options, observer) = observed.next().expect("both kinds");
        let data = directory
            .join("data/state-filters")
            .join(options.kind.as_str());
        let sequence = open(|| Sequence::open(&data, options.clone(), 0));
        match observer.observe(&sequence.view()) {
            Some(manifest) => observer.union(&manifest),
            None => Segment::from_hashes(given.universe, vec![]).unwrap(),
        }
    })
}

fn timestamps(service: &FilterService) -> BTreeMap<(String, &'static str), u64> {
    let snapshot = service.snapshot().unwrap();
    let filters = snapshot.keysets().flat_map(|entry| {
        NoteKind::ALL.map(|kind| {
            let what = (entry.info.id.to_string(), kind.as_str());
            Some((what, entry.filter(kind)?.timestamp()))
        })
    });
    filters.flatten().collect()
}

/// Continues from the existing state, checks it, and refreshes until it is killed.
pub(crate) fn child_if_asked() {
    let Some(directory) = victim::directory() else {
        return;
    };
    let mut seed = u64::from(std::process::id()) << 20 | 1;
    let mut refresher = with_state_filters(&directory);
    let mint = FakeMint::in_directory(&directory);
    let seen = directory.join("seen");
    let service = refresher.service().clone();
    if refresher.restore() {
        mint.assert_right(&service, "restored");
        let floor: u64 = std::fs::read_to_string(&seen)
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(0);
        for (what, as_of) in timestamps(&service) {
            // The last change has the last date. Other filters may be older, by at most the restamp interval.
            assert!(
                as_of + 4 >= floor,
                "{what:?} went back to {as_of}, {floor} was seen"
            );
        }
        // Printed only after the check.
        println!("restored");
    }
    println!("ready");
    loop {
        let mut state = mint.states().last().copied().unwrap_or_default();
        if random(&mut seed).is_multiple_of(11) {
            state = State {
                epoch: state.epoch + 1,
                ..state
            };
        }
        for count in state.counts.as_flattened_mut() {
            *count += random(&mut seed) % 3 * (random(&mut seed) % 50);
            if state.epoch % 2 == 1 {
                *count = *count * 3 / 4;
            }
        }
        // Fewer notes than before belong to another epoch.
        state.epoch = (state.epoch + 1) & !1;
        mint.push(state);
        let report = refresher.refresh().unwrap();
        assert!(report.failures.is_empty(), "{:?}", report.failures);
        mint.assert_right(&service, "refreshed");
        let latest = timestamps(&service).into_values().max().unwrap_or(0);
        let new = directory.join("seen.new");
        std::fs::write(&new, latest.to_string()).unwrap();
        std::fs::rename(&new, &seen).unwrap();
        println!("refreshed");
    }
}

#[test]
fn service_killed_at_any_moment_recovers_exactly() {
    if victim::directory().is_some() {
        return;
    }
    let kills = victim::kills(KILLS);
    let directory = tempfile::tempdir().unwrap();
    let mut seed = 88_172_645_463_325_252;
    let mut restored = 0;
    let mut observers: [Observer; 2] = Default::default();
    for _ in 0..kills {
        let said = victim::kill(directory.path(), None, &mut seed);
        restored += u64::from(said.contains("restored"));
        observe(directory.path(), &mut observers);
    }
    assert!(restored > kills / 3, "{restored} of {kills} came so far");

    // Once more, without a kill.
    let mut refresher = with_state_filters(directory.path());
    let mint = FakeMint::in_directory(directory.path());
    assert!(refresher.restore());
    mint.assert_right(refresher.service(), "");
    let report = refresher.refresh().unwrap();
    assert!(report.failures.is_empty());
    mint.assert_right(refresher.service(), "");
    let keyset: KeysetId = KEYSETS[0].parse().unwrap();
    let snapshot = refresher.service().snapshot().unwrap();
    assert!(snapshot.keyset(&keyset).is_some());
    drop(refresher);
    // Every note of the mint is published.
    let unions = observe(directory.path(), &mut observers);
    let state = mint.states().last().copied().unwrap();
    let kinds = [
        (NoteKind::Spent, Event::ProofState, "SPENT"),
        (NoteKind::Issued, Event::BlindSignature, ""),
    ];
    for ((kind, event, state_name), union) in kinds.into_iter().zip(unions) {
        let hash = ElementHash::new(event, state_name).unwrap();
        for keyset in 0..KEYSETS.len() {
            let notes: Vec<_> = state.notes(keyset, kind).collect();
            let elements = hash.elements(&notes).unwrap();
            assert!(
                union.matches_elements(&elements).iter().all(|&found| found),
                "{event}"
            );
        }
    }
}
