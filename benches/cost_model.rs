//! Holds the cost model of matching against the clock: for a grid of N items and T targets, with an index and
//! without, which way the model takes, what both ways take, and how much slower the one it took is than the
//! better one. Fails where that is more than [`ALLOWED`], after measuring again.
//!
//!     cargo bench --bench cost_model            # the best level of this CPU
//!     cargo bench --bench cost_model -- all     # every level

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use nutfilter::{
    IndexInterval, Level, Nut25, Params, RawValues, SortedHashes, Strategy, map_to_range,
};

const ITEMS: [u32; 4] = [1_000, 10_000, 100_000, 1_000_000];
const TARGETS: [usize; 6] = [1, 10, 100, 1_000, 10_000, 100_000];
/// How much slower than the better way the chosen one may be.
const ALLOWED: f64 = 1.3;
/// What one way may take in all before the best of its times is believed, and how often that is repeated where
/// the choice looks wrong.
const BUDGET: Duration = Duration::from_millis(40);
const ROUNDS: usize = 4;

fn main() -> ExitCode {
    let all = std::env::args().any(|argument| argument == "all");
    let mut wrong = 0;
    for level in Level::available().filter(|&level| all || level == Level::detect()) {
        for n in ITEMS {
            wrong += check_items(level, n);
        }
    }
    if wrong > 0 {
        eprintln!("{wrong} choices cost more than {ALLOWED} times the better way");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Prints a table for filters of `n` items; gives how many choices are wrong.
fn check_items(level: Level, n: u32) -> usize {
    let hashes = (0..u64::from(n)).map(spread).collect();
    let filter = SortedHashes::<Nut25>::from_hashes(hashes)
        .encode(Params::default())
        .expect("a set of numbers");
    let filter = filter.with_hasher(RawValues).with_level(level);
    let indexed = filter.clone().into_indexed(IndexInterval::Items(64));
    let range = filter.range();
    println!("\n{level}, {n} items     targets  chosen     points ns   merge ns   ratio");
    let mut wrong = 0;
    for count in TARGETS {
        let targets: Vec<u64> = (0..count as u64)
            .map(|i| map_to_range(spread(i ^ 1 << 40), range))
            .collect();
        let plain = |strategy| drop(black_box(filter.matches_values_by(strategy, &targets)));
        let by_index = |strategy| drop(black_box(indexed.matches_values_by(strategy, &targets)));
        let expected = filter.matches_values_by(Strategy::Merge, &targets);
        for strategy in [Strategy::Lookup, Strategy::Merge, Strategy::Cheapest] {
            assert_eq!(filter.matches_values_by(strategy, &targets), expected);
            assert_eq!(indexed.matches_values_by(strategy, &targets), expected);
        }
        wrong += usize::from(!holds("plain", count, filter.planned(count), &plain));
        let chosen = indexed.planned(count);
        wrong += usize::from(!holds("indexed", count, chosen, &by_index));
    }
    wrong
}

/// Whether the chosen way is nearly as quick as the other, in one of a few rounds.
fn holds(what: &str, count: usize, chosen: Strategy, run: &dyn Fn(Strategy)) -> bool {
    let (mut points, mut merge) = (f64::INFINITY, f64::INFINITY);
    let mut ratio = f64::INFINITY;
    for _ in 0..ROUNDS {
        // Side by side, so that whatever else the machine does falls on both.
        let start = Instant::now();
        while start.elapsed() < 2 * BUDGET {
            points = points.min(time(|| run(Strategy::Lookup)));
            merge = merge.min(time(|| run(Strategy::Merge)));
        }
        let taken = if chosen == Strategy::Lookup {
            points
        } else {
            merge
        };
        ratio = taken / points.min(merge);
        if ratio <= ALLOWED {
            break;
        }
    }
    let mark = if ratio > ALLOWED { "  <-- wrong" } else { "" };
    println!("{what:>24} {count:>9}  {chosen:<8?} {points:>11.0} {merge:>10.0} {ratio:>7.2}{mark}");
    ratio <= ALLOWED
}

/// In nanoseconds.
fn time(run: impl FnOnce()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_secs_f64() * 1e9
}

/// Numbers that look random.
fn spread(i: u64) -> u64 {
    let i = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let i = (i ^ i >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let i = (i ^ i >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    i ^ i >> 31
}
