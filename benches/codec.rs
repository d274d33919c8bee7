//! Time by stage: `cargo bench --bench codec`.
//!
//! Names are paths: stage, profile or task, size, and who does it (`naive` is the bit-by-bit reference,
//! the rest are levels of this crate). Every routine's answer is asserted before it is timed. Throughput
//! is in notes; criterion prints it beside the time.

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{
    BatchSize, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main,
};
use nutfilter::{
    Filter, ItemHash, Level, Nut23, Nut25, Params, SeekIndex, SipHash, SortedHashes, Step,
    map_all_to_range,
};
use nutfilter_harness::vectors::generate_items;
use nutfilter_reference as reference;

const SIZES: [(&str, u64); 2] = [("1m", 1_000_000), ("10m", 10_000_000)];
const SEED: u64 = 20_250_101;

/// A set of points and its filter.
struct Fixture {
    items: Vec<[u8; 33]>,
    set: SortedHashes<Nut25>,
    filter: Filter<'static, Nut25>,
    /// As many points that are not in the set as a large wallet has notes.
    strangers: Vec<[u8; 33]>,
}

impl Fixture {
    fn new(n: u64) -> Self {
        let mut items = generate_items(n + 1000, SEED);
        let strangers = items.split_off(n as usize);
        let set = SortedHashes::<Nut25>::from_items(&items);
        let filter = set.encode(Params::default()).expect("a filter of points");
        Self {
            items,
            set,
            filter,
            strangers,
        }
    }
}

fn group<'c>(criterion: &'c mut Criterion, name: &str, n: u64) -> BenchmarkGroup<'c, WallTime> {
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(n));
    group.sample_size(10);
    group.warm_up_time(Duration::from_millis(500));
    group.measurement_time(Duration::from_secs(3));
    group
}

fn stages(criterion: &mut Criterion) {
    for (size, n) in SIZES {
        let fixture = Fixture::new(n);
        decode(criterion, size, n, &fixture);
        encode(criterion, size, n, &fixture);
        sort(criterion, size, n, &fixture);
        build(criterion, size, n, &fixture);
        merge(criterion, size, n, &fixture);
        matching(criterion, size, &fixture);
    }
    hash(criterion);
}

fn decode(criterion: &mut Criterion, size: &str, n: u64, fixture: &Fixture) {
    let (bytes, params) = (fixture.filter.bytes(), fixture.filter.params());
    let (p, m) = (params.p(), params.m());
    let values = reference::decode(bytes, n, p, m).expect("a valid filter");
    let sum = values.iter().copied().fold(0, u64::wrapping_add);

    let mut group = group(criterion, &format!("decode/plain/{size}"), n);
    if n <= 1_000_000 {
        group.bench_function("naive", |bench| {
            bench.iter(|| reference::decode(bytes, n, p, m))
        });
    }
    for level in Level::available() {
        let validate = || {
            let received = Filter::<Nut25>::admit(black_box(bytes), n, params);
            received.and_then(|received| received.with_level(level).validate())
        };
        let filter = fixture.filter.clone().with_level(level);
        let sum_up = || black_box(&filter).values().fold(0, u64::wrapping_add);
        assert_eq!(validate().as_ref(), Ok(&fixture.filter));
        assert!(filter.values().eq(values.iter().copied()), "{level}");
        assert_eq!(sum_up(), sum, "{level}");
        group.bench_function(format!("{level}-validate"), |bench| bench.iter(validate));
        group.bench_function(format!("{level}-sum"), |bench| bench.iter(sum_up));
    }
}

fn encode(criterion: &mut Criterion, size: &str, n: u64, fixture: &Fixture) {
    let values: Vec<u64> = fixture.filter.values().collect();
    assert_eq!(
        reference::encode_values(&values, 19),
        fixture.filter.bytes()
    );
    let mut group = group(criterion, &format!("encode/{size}"), n);
    if n <= 1_000_000 {
        group.bench_function("naive", |bench| {
            bench.iter(|| reference::encode_values(&values, 19));
        });
    }
    for level in Level::available() {
        let set = fixture.set.clone().with_level(level);
        assert_eq!(set.encode(Params::default()).as_ref(), Ok(&fixture.filter));
        group.bench_function(level.name(), |bench| {
            bench.iter(|| set.encode(Params::default()));
        });
    }
}

fn sort(criterion: &mut Criterion, size: &str, n: u64, fixture: &Fixture) {
    let hashes: Vec<u64> = fixture.items.iter().map(|item| Nut25.hash(item)).collect();
    let mut expected = hashes.clone();
    expected.sort();
    assert_eq!(
        SortedHashes::<Nut25>::from_hashes(hashes.clone()).as_slice(),
        expected
    );
    group(criterion, &format!("sort/uniform/{size}"), n).bench_function("portable", |bench| {
        bench.iter_batched(
            || hashes.clone(),
            SortedHashes::<Nut25>::from_hashes,
            BatchSize::LargeInput,
        );
    });
}

fn build(criterion: &mut Criterion, size: &str, n: u64, fixture: &Fixture) {
    let records = fixture.items.as_flattened();
    let ours = || {
        let set = SortedHashes::<Nut25>::from_records(black_box(records), 33);
        set.and_then(|set| set.encode(Params::default()))
            .expect("whole records")
    };
    assert_eq!(ours(), fixture.filter);
    let mut group = group(criterion, &format!("build/nut25/{size}"), n);
    if n <= 1_000_000 {
        let naive = || reference::build(reference::Profile::Nut25, &fixture.items, 19, 784_931);
        assert_eq!(naive(), fixture.filter.bytes());
        group.bench_function("naive", |bench| bench.iter(naive));
    }
    group.bench_function("portable", |bench| bench.iter(ours));
}

fn merge(criterion: &mut Criterion, size: &str, n: u64, fixture: &Fixture) {
    let new: Vec<u64> = generate_items(10_000, SEED + 1)
        .iter()
        .map(|item| Nut25.hash(item))
        .collect();
    let mut all = [fixture.set.as_slice(), &new].concat();
    all.sort();
    let increment = |set: SortedHashes<Nut25>, new| {
        let set = set
            .merge(SortedHashes::from_hashes(new))
            .expect("one hasher");
        let filter = set.encode(Params::default());
        (set, filter)
    };
    let (set, filter) = increment(fixture.set.clone(), new.clone());
    assert_eq!(set.as_slice(), all);
    let at_once = SortedHashes::<Nut25>::from_hashes(all).encode(Params::default());
    assert_eq!(filter, at_once);
    let mut group = group(criterion, &format!("increment/10k-new/{size}"), n);
    group.bench_function("portable", |bench| {
        bench.iter_batched(
            || (fixture.set.clone(), new.clone()),
            |(set, new)| increment(set, new),
            BatchSize::LargeInput,
        );
    });
}

fn matching(criterion: &mut Criterion, size: &str, fixture: &Fixture) {
    let Fixture {
        filter, strangers, ..
    } = fixture;
    let index = SeekIndex::build(filter, Step::Items(128));
    let indexed = filter.with_index(&index).expect("its own index");
    let params = filter.params();
    let expected = reference::matches(
        filter.bytes(),
        u64::from(filter.n()),
        params.p(),
        params.m(),
        reference::Profile::Nut25,
        strangers,
    )
    .expect("a valid filter");
    let count = expected.iter().filter(|&&found| found).count();
    // One in 784,931 matches by chance; more than a few of a thousand would be a fault.
    assert!(count < 3);

    let plain = || {
        let n = u64::from(filter.n());
        let received = Filter::<Nut25>::admit(black_box(filter.bytes()), n, params);
        received.and_then(|received| received.matches(strangers))
    };
    let batched = || indexed.matches(strangers);
    let one_by_one = || {
        strangers
            .iter()
            .filter(|item| indexed.contains(item))
            .count()
    };
    assert_eq!(plain().as_ref(), Ok(&expected));
    assert_eq!(batched(), expected);
    assert_eq!(one_by_one(), count);
    let mut group = group(criterion, &format!("match/{size}-items/1k-absent"), 1000);
    group.bench_function("portable-plain", |bench| bench.iter(plain));
    group.bench_function("portable-indexed", |bench| bench.iter(batched));
    group.bench_function("portable-indexed-one-by-one", |bench| {
        bench.iter(one_by_one)
    });
}

fn hash(criterion: &mut Criterion) {
    let (size, n) = ("100k", 100_000);
    let items = generate_items(n, SEED);
    let range = Params::default().range(n as u32);
    let sip_hash = SipHash::new(1, 2);
    one(
        criterion,
        "nut25",
        &items,
        range,
        Nut25,
        reference::Profile::Nut25,
    );
    one(
        criterion,
        "nut23",
        &items,
        range,
        Nut23,
        reference::Profile::Nut23,
    );
    let profile = reference::Profile::Bip158 { k0: 1, k1: 2 };
    one(criterion, "bip158", &items, range, sip_hash, profile);
    murmur3_crate(criterion, size, n, &items);

    fn one<H: ItemHash>(
        criterion: &mut Criterion,
        name: &str,
        items: &[[u8; 33]],
        range: u64,
        hasher: H,
        profile: reference::Profile,
    ) {
        let width = NonZeroUsize::new(33).expect("not zero");
        // Every row stores its values, and in the same place.
        let run = |level, values: &mut [u64]| {
            hasher.hash_records(level, black_box(items.as_flattened()), width, values);
            map_all_to_range(level, values, range);
        };
        let naive = |values: &mut [u64]| {
            for (value, item) in values.iter_mut().zip(black_box(items)) {
                *value = reference::map(profile.hash(item), range);
            }
        };
        let mut values = vec![0; items.len()];
        let mut expected = values.clone();
        naive(&mut expected);
        for level in Level::available() {
            run(level, &mut values);
            assert_eq!(values, expected, "{level}");
        }
        let mut group = group(criterion, &format!("hash/{name}/100k"), items.len() as u64);
        group.bench_function("naive", |bench| bench.iter(|| naive(&mut values)));
        for level in Level::available() {
            group.bench_function(level.name(), |bench| {
                bench.iter(|| run(level, &mut values));
            });
        }
    }
}

/// What a mint in Rust uses today.
fn murmur3_crate(criterion: &mut Criterion, size: &str, n: u64, items: &[[u8; 33]]) {
    let hash = |item: &[u8; 33]| {
        let seeded = |seed| murmur3::murmur3_32(&mut item.as_slice(), seed).expect("in memory");
        let upper = seeded(0);
        u64::from(upper) << 32 | u64::from(seeded(upper))
    };
    assert!(items.iter().all(|item| hash(item) == Nut25.hash(item)));
    let mut hashes = vec![0; items.len()];
    group(criterion, &format!("hash/nut25/{size}"), n).bench_function("murmur3-crate", |bench| {
        bench.iter(|| {
            for (place, item) in hashes.iter_mut().zip(black_box(items)) {
                *place = hash(item);
            }
        });
    });
}

criterion_group!(benches, stages);
criterion_main!(benches);
