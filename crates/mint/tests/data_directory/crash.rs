//! kill -9 at any moment: after the restart, the served filters are exactly right for the time that they name.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use nutfilter_mint::{
    DataDirectory, FilterService, KeysetId, NoteKind, Refresher, RefresherOptions,
};

use crate::fake_mint::{FakeMint, KEYSETS, State};
use crate::open;
use crate::victim::{self, random};

/// Default number of kills.
const KILLS: u64 = 60;

pub(crate) fn refresher(directory: &Path) -> Refresher {
    let mint = FakeMint::in_directory(directory);
    let clock = mint.clone();
    let clock = move || std::time::UNIX_EPOCH + Duration::from_secs(clock.now());
    let options = RefresherOptions {
        data_directory: Some(open(|| DataDirectory::open(directory.join("data")))),
        restamp_after: Duration::from_secs(3),
        clock: Some(Box::new(clock)),
        ..RefresherOptions::default()
    };
    Refresher::with_options(mint, FilterService::default(), options)
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
    let mut refresher = refresher(&directory);
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
    for _ in 0..kills {
        let said = victim::kill(directory.path(), &mut seed);
        restored += u64::from(said.contains("restored"));
    }
    assert!(restored > kills / 3, "{restored} of {kills} came so far");

    // Once more, without a kill.
    let mut refresher = refresher(directory.path());
    let mint = FakeMint::in_directory(directory.path());
    assert!(refresher.restore());
    mint.assert_right(refresher.service(), "");
    let report = refresher.refresh().unwrap();
    assert!(report.failures.is_empty());
    mint.assert_right(refresher.service(), "");
    let keyset: KeysetId = KEYSETS[0].parse().unwrap();
    let snapshot = refresher.service().snapshot().unwrap();
    assert!(snapshot.keyset(&keyset).is_some());
}
