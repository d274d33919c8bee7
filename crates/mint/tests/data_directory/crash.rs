//! kill -9 at any moment: after the restart, the served filters are exactly right for the time that they name.

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use nutfilter::segment::Segment;
use nutfilter_cashu::state_filters::ElementHash;
use nutfilter_mint::{
    DataDirectory, Event, FilterService, KeysetId, NoteKind, Publisher, ServiceOptions,
    StateFilterOptions,
};
use nutfilter_sequence::{BlockOptions, Options, Sequence};

use crate::fake_mint::{FakeMint, KEYSETS, State};
use crate::observer::Observer;

/// Names the working directory of a child process that will be killed.
pub(crate) const VICTIM: &str = "NUTFILTER_TEST_VICTIM";

/// Default number of kills.
const KILLS: u64 = 60;

fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

pub(crate) fn publisher(directory: &Path) -> Publisher {
    let mint = FakeMint::in_directory(directory);
    let clock = mint.clone();
    let kept = DataDirectory::open(directory.join("data")).unwrap();
    Publisher::new(mint, FilterService::new(ServiceOptions::default()))
        .with_data_directory(kept)
        .restamp_after(Duration::from_secs(3))
        .with_clock(move || std::time::UNIX_EPOCH + Duration::from_secs(clock.now()))
}

fn with_state_filters(directory: &Path) -> Publisher {
    let publisher = publisher(directory);
    publisher.with_state_filters(&state_filters()).unwrap()
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
        let sequence = Sequence::open(data, options, 0).unwrap();
        match observer.observe(&sequence.view()) {
            Some(manifest) => observer.union(&manifest),
            None => Segment::from_hashes(given.universe, vec![]).unwrap(),
        }
    })
}

fn timestamps(service: &FilterService) -> BTreeMap<(String, &'static str), u64> {
    let snapshot = service.snapshot().unwrap();
    let mut times = BTreeMap::new();
    for entry in snapshot.keysets() {
        for kind in NoteKind::ALL {
            if let Some(filter) = entry.filter(kind) {
                times.insert(
                    (entry.info.id.to_string(), kind.as_str()),
                    filter.timestamp(),
                );
            }
        }
    }
    times
}

/// Continues from the existing state, checks it, and refreshes until it is killed.
pub(crate) fn child_if_asked() -> bool {
    let Some(directory) = env::var_os(VICTIM).map(PathBuf::from) else {
        return false;
    };
    let mut seed = u64::from(std::process::id()) << 20 | 1;
    let mut publisher = with_state_filters(&directory);
    let mint = FakeMint::in_directory(&directory);
    let seen = directory.join("seen");
    let service = publisher.service().clone();
    if publisher.restore() {
        assert_eq!(mint.lies_in(&service), Vec::<String>::new(), "restored");
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
        let report = publisher.refresh().unwrap();
        assert!(report.failures.is_empty(), "{:?}", report.failures);
        assert_eq!(mint.lies_in(&service), Vec::<String>::new(), "refreshed");
        let latest = timestamps(&service).into_values().max().unwrap_or(0);
        let new = directory.join("seen.new");
        std::fs::write(&new, latest.to_string()).unwrap();
        std::fs::rename(&new, &seen).unwrap();
        println!("refreshed");
    }
}

#[test]
fn service_killed_at_any_moment_recovers_exactly() {
    if env::var_os(VICTIM).is_some() {
        return;
    }
    let kills = env::var("NUTFILTER_KILLS").ok();
    let kills = kills.and_then(|kills| kills.parse().ok()).unwrap_or(KILLS);
    let directory = tempfile::tempdir().unwrap();
    let mut seed = 88_172_645_463_325_252;
    let mut restored = 0;
    let mut observers: [Observer; 2] = Default::default();
    for kill in 0..kills {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "a_victim_if_this_process_is_one", "--nocapture"])
            .env(VICTIM, directory.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        // Most kills happen during refreshes, the others during the start.
        if random(&mut seed).is_multiple_of(4) {
            thread::sleep(Duration::from_micros(random(&mut seed) % 60_000));
        } else {
            // Some refreshes must complete, even on a slow machine.
            let refreshes = random(&mut seed) % 3;
            let far_enough = |said: &str| {
                said.contains("ready") && said.matches("refreshed").count() as u64 >= refreshes
            };
            while !far_enough(&said) && stdout.read_line(&mut said).unwrap() > 0 {}
            thread::sleep(Duration::from_micros(random(&mut seed) % 40_000));
        }
        let died = child.try_wait().unwrap();
        child.kill().unwrap();
        stdout.read_to_string(&mut said).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(
            died.is_none(),
            "before kill {kill}: {said}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        restored += u64::from(said.contains("restored"));
        observe(directory.path(), &mut observers);
    }
    assert!(restored > kills / 3, "{restored} of {kills} came so far");

    // Once more, without a kill.
    let mut publisher = with_state_filters(directory.path());
    let mint = FakeMint::in_directory(directory.path());
    assert!(publisher.restore());
    assert_eq!(mint.lies_in(publisher.service()), Vec::<String>::new());
    let report = publisher.refresh().unwrap();
    assert!(report.failures.is_empty());
    assert_eq!(mint.lies_in(publisher.service()), Vec::<String>::new());
    let keyset: KeysetId = crate::fake_mint::KEYSETS[0].parse().unwrap();
    let snapshot = publisher.service().snapshot().unwrap();
    assert!(snapshot.keyset(&keyset).is_some());
    drop(publisher);
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
