//! Compares the cost model of matching with the clock, for a grid of N items and T targets, with an index and
//! without. Prints which strategy the model chooses, the time of each, and how much slower the chosen one is than
//! the best. Fails if that is more than [`ALLOWED`] after several measurements.
//!
//!     cargo bench --bench cost_model            # the best level of this CPU
//!     cargo bench --bench cost_model -- all     # every level

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use nutfilter::internals::{SimdLevel, Strategy};
use nutfilter::{IndexInterval, Params, RawValues, SortedHashes, map_to_range};
use nutfilter_reference::Noise;

const ITEMS: [u32; 4] = [1_000, 10_000, 100_000, 1_000_000];
const TARGETS: [usize; 6] = [1, 10, 100, 1_000, 10_000, 100_000];
const STRATEGIES: [Strategy; 3] = [Strategy::Lookup, Strategy::Merge, Strategy::Bitmap];
/// With more items the model chooses no bitmap, even if it is faster: it takes too much memory.
const MOST_IN_BITMAP: u32 = 1 << 17;
/// How much slower than the best strategy the chosen one may be.
const ALLOWED: f64 = 1.3;
/// The time for each strategy per round, and the maximum number of rounds if the choice looks wrong.
const BUDGET: Duration = Duration::from_millis(40);
const ROUNDS: usize = 4;

fn main() -> ExitCode {
    let all = std::env::args().any(|argument| argument == "all");
    let mut wrong = 0;
    for level in SimdLevel::available().filter(|&level| all || level == SimdLevel::detect()) {
        for n in ITEMS {
            wrong += check_items(level, n);
        }
    }
    if wrong > 0 {
        eprintln!("{wrong} choices cost more than {ALLOWED} times the best strategy");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Prints a table for filters of `n` items, and returns the number of wrong choices.
fn check_items(level: SimdLevel, n: u32) -> usize {
    let hashes = Noise(1).take(n as usize).collect();
    let filter = SortedHashes::from_hashes(hashes)
        .encode(Params::default())
        .expect("a set of numbers");
    let filter = filter.with_hasher(RawValues).with_level(level);
    let indexed = filter.clone().into_indexed(IndexInterval::default());
    let range = filter.range();
    println!(
        "\n{level}, {n} items     targets  chosen     lookup ns   merge ns  bitmap ns   ratio"
    );
    let mut wrong = 0;
    for count in TARGETS {
        let hashes = Noise(2).take(count);
        let mut targets: Vec<u64> = hashes.map(|hash| map_to_range(hash, range)).collect();
        if let [target] = &mut *targets {
            // A merge stops there. The model knows only the average.
            *target = range / 2;
        }
        let plain = |strategy| drop(black_box(filter.matches_values_by(strategy, &targets)));
        let by_index = |strategy| drop(black_box(indexed.matches_values_by(strategy, &targets)));
        let expected = filter.matches_values_by(Strategy::Merge, &targets);
        for strategy in STRATEGIES.into_iter().chain([Strategy::Cheapest]) {
            assert_eq!(filter.matches_values_by(strategy, &targets), expected);
            assert_eq!(indexed.matches_values_by(strategy, &targets), expected);
        }
        wrong += usize::from(!holds(n, "plain", count, filter.planned(count), &plain));
        let chosen = indexed.planned(count);
        wrong += usize::from(!holds(n, "indexed", count, chosen, &by_index));
    }
    wrong
}

/// Whether the chosen strategy takes nearly as little time as the best one, in one of a few rounds.
fn holds(n: u32, what: &str, count: usize, chosen: Strategy, run: &dyn Fn(Strategy)) -> bool {
    let mut times = STRATEGIES.map(|_| f64::INFINITY);
    let mut ratio = f64::INFINITY;
    for _ in 0..ROUNDS {
        // In turns, so that whatever else the machine does falls on all.
        let start = Instant::now();
        while start.elapsed() < STRATEGIES.len() as u32 * BUDGET {
            for (best, strategy) in times.iter_mut().zip(STRATEGIES) {
                *best = best.min(time(|| run(strategy)));
            }
        }
        let [lookup, merge, bitmap] = times;
        let best = match n <= MOST_IN_BITMAP {
            true => lookup.min(merge).min(bitmap),
            false => lookup.min(merge),
        };
        let taken = times.iter().zip(STRATEGIES).find(|(_, way)| *way == chosen);
        ratio = taken.map_or(f64::INFINITY, |(taken, _)| taken / best);
        if ratio <= ALLOWED {
            break;
        }
    }
    let mark = if ratio > ALLOWED { "  <-- wrong" } else { "" };
    let [lookup, merge, bitmap] = times;
    println!(
        "{what:>24} {count:>9}  {chosen:<8?} {lookup:>11.0} {merge:>10.0} {bitmap:>10.0} {ratio:>7.2}{mark}"
    );
    ratio <= ALLOWED
}

/// In nanoseconds.
fn time(run: impl FnOnce()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_secs_f64() * 1e9
}
