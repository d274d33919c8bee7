//! Holds the instructions of the main paths against a baseline: `cargo bench --bench gate`.
//!
//! Exits with 1 where a row counts more than 2 % above `benches/gate.baseline.json`;
//! `cargo bench --bench gate -- --accept` writes the baseline anew, `-- --output FILE` writes the counts as a record has
//! them and compares nothing, and `-- --history [COMMIT]...` makes records of older commits.
//! docs/benchmarking.md says more.
//!
//! The program starts itself under callgrind, which counts only while [`counted`] runs and writes a file
//! for each of its calls. What prepares a call, and what asserts its answer, is not in the count.
//!
//! Refusals ([`refusals`]) are not held against a baseline: a byte of a large input may cost no more than one of a
//! small input, whatever the compiler.

mod refusals;

use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, ExitCode};

use nutfilter_benchmarks::baseline::Baseline;
use nutfilter_benchmarks::history;
use nutfilter_benchmarks::machine::Build;
use nutfilter_benchmarks::record::Instructions;
use nutfilter_benchmarks::{Fixture, Selection, Who, rows};

const REPOSITORY: &str = env!("CARGO_MANIFEST_DIR");
/// Where older commits are built.
const HISTORY: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/history");
/// From the repository's root.
const BASELINE_FILE: &str = "benches/gate.baseline.json";
const BASELINE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/gate.baseline.json");
const RECORDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/record");

/// Enough for every kernel to be in its main loop, and little enough for valgrind.
const SIZE: &str = "100k";

/// The main paths.
const PATHS: [&str; 14] = [
    "decode/plain/",
    "decode/sum/",
    "decode/serial/",
    "decode/to-vec/",
    "decode/hostile-equal-deltas/",
    "index/64/",
    "hash/",
    "sort/uniform/",
    "encode/plain/",
    "build/nut25/",
    "increment/10k-new/",
    "match/1k-absent/",
    "match/1k-absent-indexed/",
    "lookup/throughput/",
];

/// What valgrind can run; there are CPUs without the second.
const LEVELS: [&str; 2] = ["portable", "avx2"];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let place = |flag: &str| arguments.iter().position(|argument| argument == flag);
    let given = |flag: &str| place(flag).is_some();
    let value = |flag: &str| {
        let value = arguments.get(place(flag)? + 1);
        Some(value.unwrap_or_else(|| panic!("{flag} needs a value")))
    };
    if given("--count") {
        count();
        return ExitCode::SUCCESS;
    }
    let Some(valgrind) = valgrind_version() else {
        eprintln!("there is no valgrind (Debian's package `valgrind`)");
        return ExitCode::from(2);
    };
    if let Some(at) = place("--history") {
        let named = arguments[at + 1..].iter();
        let named: Vec<&String> = named.filter(|name| !name.starts_with("--")).collect();
        return write_history(&named, &valgrind);
    }
    let mut instructions = run_under_valgrind();
    let (report, not_linear) = refusals::judge(&mut instructions);
    print!("{report}");
    let counted = Baseline {
        rustc: Build::this().rustc,
        instructions,
    };
    if let Some(path) = value("--output") {
        let counts = Instructions::new(&counted, &valgrind);
        write(path, serde_json::to_string_pretty(&counts));
        println!("{} counts: {path}", counted.instructions.len());
    }
    if given("--accept") {
        write(BASELINE, serde_json::to_string_pretty(&counted));
        println!("{} counts accepted: {BASELINE}", counted.instructions.len());
    }
    if given("--output") || given("--accept") {
        return ExitCode::SUCCESS;
    }
    let text = fs::read_to_string(BASELINE).expect("a baseline: make one with --accept");
    let baseline: Baseline = serde_json::from_str(&text).expect("a baseline");
    // What the program detects outside of valgrind is what it detects inside, but for AVX-512.
    let levels = nutfilter::Level::available().map(|level| level.name());
    let comparison = baseline.compare(&counted, &levels.collect::<Vec<_>>());
    print!("{}", comparison.report);
    ExitCode::from(u8::from(comparison.failed || not_linear))
}

fn write(path: &str, text: serde_json::Result<String>) {
    let text = text.expect("numbers and texts");
    let written = fs::write(path, text + "\n");
    written.unwrap_or_else(|error| panic!("{path}: {error}"));
}

/// Counts these commits, or all that changed the baseline, and writes a record of each that has none yet.
fn write_history(named: &[&String], valgrind: &str) -> ExitCode {
    let (repository, work) = (Path::new(REPOSITORY), Path::new(HISTORY));
    let commits = match named {
        [] => history::changed(repository, BASELINE_FILE),
        named => named
            .iter()
            .map(|name| history::named(repository, name))
            .collect(),
    };
    let mut failed = false;
    for commit in commits.unwrap_or_else(|error| panic!("{error}")) {
        let path = Path::new(RECORDS).join(commit.record_path());
        if path.exists() {
            println!("{}: there already", path.display());
            continue;
        }
        let kept = history::count(repository, &commit, BASELINE_FILE, work)
            .and_then(|counted| history::keep(&commit.record(&counted, valgrind), &path));
        match kept {
            Ok(()) => println!("{}", path.display()),
            Err(error) => {
                // A commit that does not build is no reason to know nothing of the others.
                eprintln!("{}: {error}", commit.hash);
                failed = true;
            }
        }
    }
    ExitCode::from(u8::from(failed))
}

/// valgrind's name for itself, if it is there.
fn valgrind_version() -> Option<String> {
    let output = Command::new("valgrind").arg("--version").output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// callgrind counts while this runs.
#[inline(never)]
fn counted(call: &mut dyn FnMut()) {
    call();
    // Something after the call, or it would be a jump, and callgrind would see no return.
    black_box(());
}

/// Makes each call once, and prints its row's name.
fn count() {
    let fixture = Fixture::new(SIZE.parse().expect("a size"));
    let selection = Selection::new(PATHS.map(str::to_owned).to_vec());
    rows::each(&fixture, &selection, &mut |mut group| {
        let path = group.path();
        for row in &mut group.rows {
            let name = row.who.name();
            if matches!(row.who, Who::Ours(_)) && LEVELS.contains(&name) {
                row.measure(&mut |call| counted(call));
                println!("{path}/{name}");
            }
        }
    });
    refusals::count(&LEVELS, counted);
}

/// The counts, by the name of the row.
fn run_under_valgrind() -> BTreeMap<String, u64> {
    let program = std::env::current_exe().expect("its own path");
    let folder = std::env::temp_dir().join(format!("nutfilter-gate-{}", std::process::id()));
    let file = |name: &str| folder.join(name);
    fs::create_dir_all(&folder).expect("a folder for the counts");
    let output = Command::new("valgrind")
        .args(["--quiet", "--tool=callgrind", "--collect-atstart=no"])
        .arg("--toggle-collect=gate::counted")
        .arg("--dump-before=gate::counted")
        .arg(format!("--callgrind-out-file={}", file("count").display()))
        .arg(program)
        .arg("--count")
        // What other threads do would not be counted.
        .env("RAYON_NUM_THREADS", "1")
        .output()
        .expect("valgrind (Debian's package `valgrind`)");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{}\n{said}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    // Written as a call begins, so the first file is empty, and what the last call counts is in the file
    // that callgrind writes at the end.
    let names: Vec<&str> = said.lines().collect();
    let count = |(i, name): (usize, &&str)| {
        let part = match i + 1 {
            next if next == names.len() => file("count"),
            next => file(&format!("count.{}", next + 1)),
        };
        ((*name).to_owned(), total(&part))
    };
    let counts = names.iter().enumerate().map(count).collect();
    fs::remove_dir_all(&folder).expect("the folder was its own");
    counts
}

/// The total of a callgrind file.
fn total(path: &Path) -> u64 {
    let text =
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut totals = text
        .lines()
        .filter_map(|line| line.strip_prefix("totals: "));
    let total = totals.next().and_then(|total| total.trim().parse().ok());
    total.unwrap_or_else(|| panic!("{}: no total", path.display()))
}
