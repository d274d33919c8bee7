//! Instructions by stage: `cargo bench --bench instructions` (needs valgrind, and the runner of
//! iai-callgrind in the version of the library: `cargo install iai-callgrind-runner --version 0.16.1`).
//!
//! Counts do not depend on what else the machine is doing, so they show small changes that times hide.
//! valgrind knows no AVX-512: what runs here is `portable` and, where the CPU has it, `avx2`. The gate of CI is
//! `benches/gate.rs`; this is for a closer look.

// The macros below make modules and constants without documentation.
#![allow(missing_docs)]

use std::hint::black_box;
use std::num::NonZeroUsize;

use iai_callgrind::{library_benchmark, library_benchmark_group, main};
use nutfilter::{
    Filter, ItemHash, Level, Nut23, Nut25, Params, SeekIndex, SipHash, SortedHashes, Step,
};
use nutfilter_harness::vectors::generate_items;
use nutfilter_reference as reference;

const N: u64 = 50_000;
const POINT: NonZeroUsize = NonZeroUsize::new(33).expect("not zero");

/// What runs at the level with this name, or at the plainest where there is none. The answer that it gives
/// is asserted here, before it is counted.
struct Prepared<T> {
    level: Level,
    data: T,
}

fn at<T>(name: &str, data: T, is_right: impl FnOnce(Level, &T) -> bool) -> Prepared<T> {
    let level = Level::available().find(|level| level.name() == name);
    let level = level.unwrap_or(Level::PORTABLE);
    assert!(is_right(level, &data), "a wrong answer");
    Prepared { level, data }
}

fn items() -> Vec<[u8; 33]> {
    generate_items(N, 1)
}

fn set() -> SortedHashes<Nut25> {
    SortedHashes::from_items(items())
}

/// By the reference.
fn bytes() -> Vec<u8> {
    let (p, m) = (Params::default().p(), Params::default().m());
    reference::build(reference::Profile::Nut25, &items(), p, m)
}

fn hash_all<H: ItemHash>(level: Level, hasher: &H, items: &[[u8; 33]]) -> Vec<u64> {
    let mut hashes = vec![0; items.len()];
    hasher.hash_records(level, black_box(items.as_flattened()), POINT, &mut hashes);
    hashes
}

fn to_hash<H: ItemHash>(
    name: &str,
    hasher: H,
    profile: reference::Profile,
) -> Prepared<(H, Vec<[u8; 33]>)> {
    at(name, (hasher, items()), |level, (hasher, items)| {
        let expected = items.iter().map(|item| profile.hash(item));
        expected.eq(hash_all(level, hasher, items))
    })
}

fn nut25(name: &str) -> Prepared<(Nut25, Vec<[u8; 33]>)> {
    to_hash(name, Nut25, reference::Profile::Nut25)
}

fn nut23(name: &str) -> Prepared<(Nut23, Vec<[u8; 33]>)> {
    to_hash(name, Nut23, reference::Profile::Nut23)
}

fn bip158(name: &str) -> Prepared<(SipHash, Vec<[u8; 33]>)> {
    let profile = reference::Profile::Bip158 { k0: 1, k1: 2 };
    to_hash(name, SipHash::new(1, 2), profile)
}

#[library_benchmark]
#[bench::nut25_portable(nut25("portable"))]
#[bench::nut25_avx2(nut25("avx2"))]
#[bench::nut23_portable(nut23("portable"))]
#[bench::nut23_avx2(nut23("avx2"))]
#[bench::bip158_portable(bip158("portable"))]
#[bench::bip158_avx2(bip158("avx2"))]
fn hash<H: ItemHash>(prepared: Prepared<(H, Vec<[u8; 33]>)>) -> Vec<u64> {
    let (hasher, items) = &prepared.data;
    hash_all(prepared.level, hasher, items)
}

fn validated(level: Level, bytes: &[u8]) -> bool {
    let admitted = Filter::<Nut25>::admit(black_box(bytes), N, Params::default());
    let read = admitted.and_then(|admitted| admitted.with_level(level).validate());
    black_box(read).is_ok()
}

fn to_decode(name: &str) -> Prepared<Vec<u8>> {
    at(name, bytes(), |level, bytes| {
        validated(level, bytes) && !validated(level, &bytes[..bytes.len() - 1])
    })
}

#[library_benchmark]
#[bench::portable(to_decode("portable"))]
#[bench::avx2(to_decode("avx2"))]
fn decode(prepared: Prepared<Vec<u8>>) -> bool {
    validated(prepared.level, &prepared.data)
}

fn encoded(level: Level, set: SortedHashes<Nut25>) -> Filter<'static, Nut25> {
    let set = set.with_level(level);
    set.encode(Params::default()).expect("a filter of points")
}

fn to_encode(name: &str) -> Prepared<SortedHashes<Nut25>> {
    at(name, set(), |level, set| {
        encoded(level, set.clone()).bytes() == bytes()
    })
}

#[library_benchmark]
#[bench::portable(to_encode("portable"))]
#[bench::avx2(to_encode("avx2"))]
fn encode(prepared: Prepared<SortedHashes<Nut25>>) -> Filter<'static, Nut25> {
    encoded(prepared.level, prepared.data)
}

type TwoSets = (SortedHashes<Nut25>, SortedHashes<Nut25>);

fn merged(level: Level, (set, new): TwoSets) -> SortedHashes<Nut25> {
    set.with_level(level).merge(new).expect("one hasher")
}

fn to_merge(name: &str) -> Prepared<TwoSets> {
    let new = SortedHashes::from_items(generate_items(1000, 2));
    at(name, (set(), new), |level, sets| {
        let mut all = [sets.0.as_slice(), sets.1.as_slice()].concat();
        all.sort();
        merged(level, sets.clone()).as_slice() == all
    })
}

#[library_benchmark]
#[bench::portable(to_merge("portable"))]
#[bench::avx2(to_merge("avx2"))]
fn merge(prepared: Prepared<TwoSets>) -> SortedHashes<Nut25> {
    merged(prepared.level, prepared.data)
}

type Asked = (Filter<'static, Nut25>, SeekIndex, Vec<[u8; 33]>);

fn answers((filter, index, targets): &Asked) -> Vec<bool> {
    let indexed = filter.with_index(index).expect("its own index");
    indexed.matches(targets)
}

fn to_match(name: &str) -> Prepared<Asked> {
    let filter = Filter::parse(bytes(), N, Params::default()).expect("a valid filter");
    let level = Level::available().find(|level| level.name() == name);
    let filter = filter.with_level(level.unwrap_or(Level::PORTABLE));
    let index = SeekIndex::build(&filter, Step::Items(64));
    let mut targets = generate_items(1000, 2);
    targets.extend(items().iter().step_by(100));
    at(name, (filter, index, targets), |_, asked| {
        let (p, m) = (Params::default().p(), Params::default().m());
        let profile = reference::Profile::Nut25;
        let expected = reference::matches(&bytes(), N, p, m, profile, &asked.2);
        expected == Ok(answers(asked))
    })
}

#[library_benchmark]
#[bench::portable(to_match("portable"))]
#[bench::avx2(to_match("avx2"))]
fn matches(prepared: Prepared<Asked>) -> Vec<bool> {
    answers(&prepared.data)
}

library_benchmark_group!(name = codec; benchmarks = hash, decode, encode, merge, matches);
main!(library_benchmark_groups = codec);
