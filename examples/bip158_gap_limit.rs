//! A wallet with a gap limit of 20 scans 50,000 filters: `cargo run --release --example bip158_gap_limit`.
//!
//! A payment to an address reveals the addresses up to 20 after it, and these must be tested in the filters already scanned
//! too. Every coin is spent later. Counts how often a filter is decoded: with `ScanPlan`, and by a wallet that starts again
//! at each match.

use std::collections::BTreeSet;

use nutfilter::SipHash;
use nutfilter::bip158::{ScanPlan, ScanStep, build, serialize};

const GAP: usize = 20;
const FILTERS: u32 = 50_000;
const ADDRESSES: usize = 300;

/// The script of an address.
fn script(address: usize) -> [u8; 22] {
    let mut script = [0; 22];
    script[..8].copy_from_slice(&address.to_le_bytes());
    script
}

/// The height of the payment to an address. Some are paid long before those that come before them.
fn paid_at(address: usize) -> u32 {
    let height = (address as u32 + 1) * (FILTERS / (ADDRESSES as u32 + 1));
    height.saturating_sub(address as u32 * 7919 % 5 * 400)
}

/// The height where the payment is spent.
fn spent_at(address: usize) -> u32 {
    (paid_at(address) + 1 + address as u32 * 6007 % 3_000).min(FILTERS - 1)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut filters = Vec::new();
    let mut blocks = vec![(Vec::new(), Vec::new()); FILTERS as usize];
    for address in 0..ADDRESSES {
        blocks[paid_at(address) as usize].0.push(address);
        blocks[spent_at(address) as usize].1.push(address);
    }
    for (height, (paid, spent)) in (0_u64..).zip(&blocks) {
        let others = (0..30).map(|i| script(1_000_000 + height as usize * 30 + i));
        let mine = paid.iter().chain(spent).map(|&address| script(address));
        let filter = build(SipHash::new(height, 0), others.chain(mine))?;
        filters.push(serialize(&filter));
    }
    let filter = |height: u32| (SipHash::new(height.into(), 0), &filters[height as usize]);

    let mut plan = ScanPlan::new(0);
    let mut revealed = 0;
    let mut reveal = |plan: &mut ScanPlan, up_to: usize| {
        (revealed..up_to).for_each(|address| {
            plan.insert(script(address));
        });
        revealed = revealed.max(up_to);
    };
    reveal(&mut plan, GAP);
    let (mut decoded, mut tests, mut restarts) = (0_u64, 0_u64, 0_u64);
    let (mut received, mut unspent) = (0, BTreeSet::<usize>::new());
    while let Some(step) = plan.next(FILTERS) {
        match step {
            ScanStep::Test { heights, scripts } => {
                // Up to the first match, so that what it reveals joins at once.
                let mut next = heights.start;
                let mut matching = None;
                for height in heights {
                    let matches = scripts.scan([filter(height)]).next();
                    decoded += 1;
                    tests += scripts.len() as u64;
                    next = height + 1;
                    matching = matches.transpose().map_err(|error| error.fault)?;
                    if matching.is_some() {
                        break;
                    }
                }
                // The last address that this block pays, of those that were looked for. A false positive pays none.
                let last = matching.as_ref().and_then(|found| {
                    let paid = blocks[next as usize - 1].0.iter().copied();
                    paid.filter(|&address| found.scripts.contains(&&script(address)[..]))
                        .max()
                });
                let matching = matching.is_some().then(|| next - 1);
                plan.advance(next, matching);
                if let Some(last) = last {
                    restarts += u64::from(next);
                    reveal(&mut plan, last + 1 + GAP);
                }
            }
            ScanStep::Apply(height) => {
                let (paid, spent) = &blocks[height as usize];
                received += paid.len();
                unspent.extend(paid);
                for address in spent {
                    assert!(unspent.remove(address), "spent at {height}, not yet paid");
                }
                plan.applied(height);
            }
        }
    }
    assert_eq!(received, ADDRESSES, "every payment is found once");
    assert!(unspent.is_empty(), "every spending is found");
    let scripts = (ADDRESSES + GAP) as u64;
    assert_eq!(
        tests,
        scripts * u64::from(FILTERS),
        "each script is tested once per filter"
    );
    let again = u64::from(FILTERS) + restarts;
    println!(
        "{FILTERS} filters, {received} payments: decoded {decoded} filters and tested {tests} hashes; starting again at each \
         match decodes {again} filters"
    );
    Ok(())
}
