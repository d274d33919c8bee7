//! Instructions by stage: `cargo bench --bench instructions` (needs valgrind, and the runner of
//! iai-callgrind in the version of the library: `cargo install iai-callgrind-runner --version 0.16.1`).
//!
//! Counts do not depend on what else the machine is doing, so they show small changes that times hide.
//! valgrind knows no AVX-512: what runs here is the best level that it lets the program detect.

// The macros below make modules and constants without documentation.
#![allow(missing_docs)]

use std::hint::black_box;
use std::num::NonZeroUsize;

use iai_callgrind::{library_benchmark, library_benchmark_group, main};
use nutfilter::{
    Filter, ItemHash, Level, Nut23, Nut25, Params, SeekIndex, SipHash, SortedHashes, Step,
};
use nutfilter_harness::vectors::generate_items;

const N: u64 = 50_000;

fn items() -> Vec<[u8; 33]> {
    generate_items(N, 1)
}

fn set() -> SortedHashes<Nut25> {
    SortedHashes::from_items(items())
}

fn filter() -> Filter<'static, Nut25> {
    set().encode(Params::default()).expect("a filter of points")
}

fn two_sets() -> (SortedHashes<Nut25>, SortedHashes<Nut25>) {
    (set(), SortedHashes::from_items(generate_items(1000, 2)))
}

fn filter_and_index() -> (Filter<'static, Nut25>, SeekIndex, Vec<[u8; 33]>) {
    let filter = filter();
    let index = SeekIndex::build(&filter, Step::Items(128));
    (filter, index, generate_items(1000, 2))
}

#[library_benchmark]
#[bench::nut25(Nut25, items())]
#[bench::nut23(Nut23, items())]
#[bench::bip158(SipHash::new(1, 2), items())]
fn hash<H: ItemHash>(hasher: H, items: Vec<[u8; 33]>) -> Vec<u64> {
    let mut hashes = vec![0; items.len()];
    let width = NonZeroUsize::new(33).expect("not zero");
    let records = black_box(items.as_flattened());
    hasher.hash_records(Level::detect(), records, width, &mut hashes);
    hashes
}

#[library_benchmark]
#[bench::plain(filter())]
fn decode(filter: Filter<'static, Nut25>) -> bool {
    let read = Filter::<Nut25>::parse(filter.bytes(), u64::from(filter.n()), filter.params());
    black_box(read).is_ok()
}

#[library_benchmark]
#[bench::cashu(set())]
fn encode(set: SortedHashes<Nut25>) -> Filter<'static, Nut25> {
    set.encode(Params::default()).expect("a filter of points")
}

#[library_benchmark]
#[bench::one_in_fifty_new(two_sets())]
fn merge((set, new): (SortedHashes<Nut25>, SortedHashes<Nut25>)) -> SortedHashes<Nut25> {
    set.merge(new).expect("one hasher")
}

#[library_benchmark]
#[bench::indexed(filter_and_index())]
fn matches(
    (filter, index, targets): (Filter<'static, Nut25>, SeekIndex, Vec<[u8; 33]>),
) -> Vec<bool> {
    filter
        .with_index(&index)
        .expect("its own index")
        .matches(&targets)
}

library_benchmark_group!(name = codec; benchmarks = hash, decode, encode, merge, matches);
main!(library_benchmark_groups = codec);
