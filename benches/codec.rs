//! Times the rows of `crates/benchmarks` with criterion, at every level of this CPU.
//!
//!     cargo bench                                  # sets of 100,000 and a million items
//!     cargo bench -- decode/plain                  # rows whose names match the expression
//!     SIZES=10m cargo bench -- 'build/.*/avx2'
//!     cargo bench -- --save-baseline before        # then change the code
//!     cargo bench -- --baseline before
//!
//! Criterion measures one row after the other. Libraries are compared in turns instead, by `benches/peers`, because
//! a shared machine is faster in one minute than in the next.

use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nutfilter::internals::SimdLevel;
use nutfilter_benchmarks::fixture::Size;
use nutfilter_benchmarks::{Contender, Fixture, Selection, rows};

criterion_main!(benches);

criterion_group! {
    name = benches;
    // About 200 rows in five minutes.
    config = Criterion::default()
        .sample_size(10)
        .nresamples(10_000)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(500));
    targets = all
}

fn all(criterion: &mut Criterion) {
    let sizes = std::env::var("SIZES");
    match &sizes {
        Ok(sizes) => sizes.split(',').for_each(|size| measure(criterion, size, "")),
        Err(_) => {
            measure(criterion, "100k", "");
            measure(criterion, "1m", "");
            // Filters of Bitcoin blocks.
            measure(criterion, "10k", "scan/");
        }
    }
}

/// Offers criterion the rows of this size whose names begin with `prefix`. It prepares those that its own filter selects.
fn measure(criterion: &mut Criterion, size: &str, prefix: &str) {
    let size: Size = size.parse().expect("SIZES: numbers as in 100k,1m");
    let fixture = Fixture::new(size.clone());
    for task in rows::tasks(&size) {
        let path = task.path(&size);
        if !path.starts_with(prefix) {
            continue;
        }
        let name = |level: SimdLevel| format!("{path}/{level}");
        let selection = Selection::new(SimdLevel::available().map(name).collect());
        let mut timed = criterion.benchmark_group(&path);
        timed.throughput(Throughput::ElementsAndBytes {
            elements: task.units(&fixture).0,
            bytes: task.bytes(&fixture),
        });
        let mut rows = None;
        for level in SimdLevel::available() {
            timed.bench_function(level.name(), |bencher| {
                // Their answers are asserted here.
                let rows = rows.get_or_insert_with(|| task.group(&fixture, &selection).rows);
                let mut ours = rows.iter_mut();
                let row = ours.find(|row| row.who == Contender::Ours(level));
                let row = row.expect("a row per level");
                bencher.iter_custom(|calls| {
                    let mut taken = Duration::ZERO;
                    for _ in 0..calls {
                        row.measure(&mut |call| {
                            let start = Instant::now();
                            call();
                            taken += start.elapsed();
                        });
                    }
                    taken
                });
            });
        }
    }
}
