//! Ten years at one event per second, through every level of compaction, within a bound of memory.
//!
//! Old years come by the month, because a look-up in a billion bytes of known hashes takes the time. The last days
//! come by the day, hour and minute, on top of all the others.

#![cfg(target_os = "linux")]

use nutfilter::segment::Universe;
use nutfilter_cashu::state_filters::{Element, Event};
use nutfilter_files::faults;
use nutfilter_sequence::{Options, Sequence};

const DAY: u64 = 86_400;

/// In KiB. `docs/operating.md` states it.
const MOST_MEMORY: u64 = 120 << 10;

/// Event number `i`: a bijection whose outputs look random.
fn element(i: u64) -> Element {
    let mut z = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    let mut element = [0; 32];
    element[..8].copy_from_slice(&(z ^ z >> 31).to_be_bytes());
    element
}

/// The peak of the resident memory since the last call, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    number.unwrap().parse().unwrap()
}

#[test]
#[ignore = "takes minutes and 5 GB of disk"]
fn ten_years_stay_within_the_memory_bound() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options::new(Event::ProofState, &["SPENT"], Universe::new(36).unwrap());
    // No faults, and no waiting for the disk.
    faults::after(u64::MAX);
    let mut sequence = Sequence::open(directory.path(), options, 0).unwrap();
    let mut time = 0;
    for (step, end) in [
        (30 * DAY, 3_600 * DAY),
        (DAY, 3_648 * DAY),
        (3_600, 3_650 * DAY - 7_200),
        (60, 3_650 * DAY),
    ] {
        let (mut adding, mut merging) = (0, 0);
        while time < end {
            let mut batch = sequence.batch();
            for first in (time..time + step).step_by(60) {
                let elements: Vec<_> = (first..first + 60).map(element).collect();
                batch.push(&elements).unwrap();
            }
            // Its segment ends with the second that is given.
            time += step;
            assert_eq!(sequence.add(batch, time - 1).unwrap().new, step);
            adding = adding.max(peak());
            sequence.compact(time - 1).unwrap();
            merging = merging.max(peak());
        }
        let days = end / DAY;
        println!("{days} days, steps of {step} s: {adding} KiB to add, {merging} KiB to merge");
        assert!(adding.max(merging) <= MOST_MEMORY);
    }
    assert_eq!(sequence.elements(), 3_650 * DAY);
    let view = sequence.view();
    let (manifest, ..) = view.manifest().unwrap();
    let years = manifest
        .cover()
        .filter(|one| one.end - one.start == 360 * DAY);
    let bytes: u64 = manifest.cover().map(|one| one.length).sum();
    println!("{} segments, {bytes} bytes", manifest.cover().count());
    assert_eq!(years.count(), 10);
}
