//! A wallet with a gap limit of 20 scans 50,000 filters: `cargo run --release --example bip158_gap_limit`.
//!
//! A payment to an address reveals the addresses up to 20 after it, and these must be tested in the filters already scanned
//! too. Counts how often a filter is decoded: with `ScanPlan`, and by a wallet that starts again at each match.

use nutfilter::SipHash;
use nutfilter::bip158::{ScanPlan, build, serialize};

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

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut filters = Vec::new();
    let mut payments = vec![Vec::new(); FILTERS as usize];
    for address in 0..ADDRESSES {
        payments[paid_at(address) as usize].push(address);
    }
    for (height, paid) in (0_u64..).zip(&payments) {
        let others = (0..30).map(|i| script(1_000_000 + height as usize * 30 + i));
        let filter = build(
            SipHash::new(height, 0),
            others.chain(paid.iter().map(|&a| script(a))),
        )?;
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
    let (mut decoded, mut tests, mut found, mut restarts) = (0_u64, 0_u64, 0, 0_u64);
    while let Some((heights, scripts)) = plan.next(FILTERS) {
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
        // The addresses that this block pays, and that were looked for: a false positive pays none.
        let paid: Vec<usize> = match &matching {
            Some(found) => payments[next as usize - 1]
                .iter()
                .copied()
                .filter(|&address| found.scripts.contains(&&script(address)[..]))
                .collect(),
            None => Vec::new(),
        };
        plan.advance(next);
        found += paid.len();
        if let Some(last) = paid.iter().max() {
            restarts += u64::from(next);
            reveal(&mut plan, last + 1 + GAP);
        }
    }
    assert_eq!(found, ADDRESSES, "every payment is found once");
    let scripts = (ADDRESSES + GAP) as u64;
    assert_eq!(
        tests,
        scripts * u64::from(FILTERS),
        "each script is tested once per filter"
    );
    let again = u64::from(FILTERS) + restarts;
    println!(
        "{FILTERS} filters, {found} payments: decoded {decoded} filters and tested {tests} hashes; starting again at each match \
         decodes {again} filters"
    );
    Ok(())
}
