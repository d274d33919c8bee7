//! Counts the instructions of the main paths with gungraun, over rows of `crates/benchmarks`.
//!
//!     cargo bench --bench instructions                   # prints the counts and the change since the last run
//!     cargo bench --bench instructions -- '*decode_plain*'
//!     just instructions [--accept]                       # compares them with instructions.txt
//!
//! Callgrind counts only while [`counted`] runs. Preparing a call and asserting its answer are not counted. Valgrind
//! does not know AVX-512.

// Of what the macros make.
#![allow(missing_docs)]

use std::hint::black_box;

use gungraun::prelude::*;
use gungraun::{Callgrind, EntryPoint};
use nutfilter_benchmarks::{Fixture, Row, Selection, rows};
use nutfilter_cashu::FilterResponse;

/// Large enough for every kernel to be in its main loop, small enough for valgrind.
const SIZE: &str = "100k";

/// One row, or nothing if this CPU lacks the level.
fn row(task: &str, level: &str) -> Option<Row<'static>> {
    let name = format!("{task}/{SIZE}/{level}");
    let fixture: &Fixture = Box::leak(Box::new(Fixture::new(SIZE.parse().expect("a size"))));
    let selection: &Selection = Box::leak(Box::new(Selection::new(vec![name])));
    let mut found = None;
    rows::each(fixture, selection, &mut |group| found = group.rows.into_iter().next());
    found
}

#[inline(never)]
fn counted(call: &mut dyn FnMut()) {
    call();
    // Without a statement after the call it would be a jump, and callgrind would see no return.
    black_box(());
}

macro_rules! rows {
    ($($name:ident = $task:literal)*) => {
        $(
            #[library_benchmark(setup = row)]
            #[bench::portable($task, "portable")]
            #[bench::avx2($task, "avx2")]
            fn $name(row: Option<Row<'static>>) -> Option<Row<'static>> {
                row.map(|mut row| {
                    row.measure(&mut |call| counted(call));
                    row
                })
            }
        )*
        library_benchmark_group!(name = paths, benchmarks = [$($name),*]);
    };
}

rows! {
    decode_plain = "decode/plain"
    decode_fold = "decode/fold"
    decode_serial = "decode/serial"
    decode_to_vec = "decode/to-vec"
    decode_hostile_equal_deltas = "decode/hostile-equal-deltas"
    index_16 = "index/16"
    hash_nut25 = "hash/nut25"
    hash_nut23 = "hash/nut23"
    hash_bip158 = "hash/bip158"
    sort_uniform = "sort/uniform"
    encode_plain = "encode/plain"
    build_nut25 = "build/nut25"
    increment_10k_new = "increment/10k-new"
    match_1k_absent = "match/1k-absent"
    match_1k_absent_indexed = "match/1k-absent-indexed"
    lookup_throughput = "lookup/throughput"
    index_resident = "index/resident"
    match_1k_absent_resident = "match/1k-absent-resident"
    lookup_throughput_resident = "lookup/throughput-resident"
}

/// A response of about `len` bytes whose error is at its end.
fn invalid(what: &str, len: usize) -> String {
    let response = |content: &str| {
        let n = len * 3;
        format!(r#"{{"n":{n},"p":0,"m":16,"content":"{content}-","timestamp":1}}"#)
    };
    match what {
        "depth" => format!(r#"{{"x":{}"#, "[".repeat(len)),
        "members" => format!(r#"{{{}"n":1,"n":1}}"#, r#""x":1,"#.repeat(len / 6)),
        "content" => response(&"A".repeat(len)),
        _ => response(&r"\/\u0041".repeat(len / 8)),
    }
}

#[library_benchmark(setup = invalid)]
#[bench::depth_64k("depth", 64 << 10)]
#[bench::depth_1m("depth", 1 << 20)]
#[bench::members_64k("members", 64 << 10)]
#[bench::members_1m("members", 1 << 20)]
#[bench::content_64k("content", 64 << 10)]
#[bench::content_1m("content", 1 << 20)]
#[bench::escapes_64k("escapes", 64 << 10)]
#[bench::escapes_1m("escapes", 1 << 20)]
fn refuse(json: String) -> String {
    counted(&mut || assert!(FilterResponse::from_json(json.as_bytes()).is_err()));
    json
}

library_benchmark_group!(name = invalid_responses, benchmarks = refuse);

main!(
    config = LibraryBenchmarkConfig::default().tool(
        Callgrind::with_args(["--cache-sim=no"])
            .entry_point(EntryPoint::Custom("*::counted".to_owned()))
    ),
    library_benchmark_groups = [paths, invalid_responses]
);
