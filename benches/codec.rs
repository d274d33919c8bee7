//! Time by stage, measured by criterion: `cargo bench --bench codec`.
//!
//! The rows are those of `crates/benchmarks`; docs/benchmarking.md says what they mean. The variable
//! `NUTFILTER_BENCH_SIZES` says of how many items, as in `1m,100m`; of more than 10 million only `sort`
//! and `build`. Peers are measured elsewhere (`benches/peers`), in turns with these rows.

use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use nutfilter_benchmarks::fixture::Size;
use nutfilter_benchmarks::{Fixture, Group, Selection, rows};

const SIZES: &str = "100k,1m,10m";

fn main() {
    // The command line, which is built with this, asks for the feature `parallel`: here rows have one thread.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1);
    pool.build_global().expect("nobody made a pool before");
    let mut criterion = Criterion::default()
        .configure_from_args()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(3));
    let sizes = std::env::var("NUTFILTER_BENCH_SIZES");
    let selection = Selection::default();
    for size in sizes.as_deref().unwrap_or(SIZES).split(',') {
        let size: Size = size.parse().expect("a size such as 100k or 10m");
        let fixture = Fixture::new(size);
        rows::each(&fixture, &selection, &mut |group| {
            measure(&mut criterion, group);
        });
    }
    criterion.final_summary();
}

fn measure(criterion: &mut Criterion, mut group: Group<'_>) {
    let mut benches = criterion.benchmark_group(group.path());
    benches.throughput(Throughput::Elements(group.n));
    for row in &mut group.rows {
        benches.bench_function(row.who.name(), |bench| {
            bench.iter_custom(|calls| {
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
