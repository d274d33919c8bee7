//! The instruction gate: compares the instruction counts of the main paths with a baseline.
//!
//!     just instructions             # exits with 1 if a row counts more than 2 % above the baseline
//!     just instructions --accept    # writes gate.baseline.json
//!
//! The program starts itself under callgrind, which counts only while [`counted`] runs and writes a file
//! for each of its calls. Preparing a call and asserting its answer are not counted.
//!
//! Rejected inputs ([`refusals`]) have no baseline: the cost per byte must not grow with the size of the input.

mod refusals;

use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, ExitCode};

use nutfilter_benchmarks::baseline::Baseline;
use nutfilter_benchmarks::machine::Build;
use nutfilter_benchmarks::{Fixture, Selection, Who, rows};

const BASELINE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/gate.baseline.json");

/// Large enough for every kernel to be in its main loop, small enough for valgrind.
const SIZE: &str = "100k";

/// The main paths.
const PATHS: [&str; 14] = [
    "decode/plain/",
    "decode/fold/",
    "decode/serial/",
    "decode/to-vec/",
    "decode/hostile-equal-deltas/",
    "index/16/",
    "hash/",
    "sort/uniform/",
    "encode/plain/",
    "build/nut25/",
    "increment/10k-new/",
    "match/1k-absent/",
    "match/1k-absent-indexed/",
    "lookup/throughput/",
];

/// Levels that valgrind can run.
const LEVELS: [&str; 2] = ["portable", "avx2"];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let given = |flag: &str| arguments.iter().any(|argument| argument == flag);
    if given("--count") {
        count();
        return ExitCode::SUCCESS;
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("valgrind not found; install it, for example Debian's package `valgrind`");
        return ExitCode::from(2);
    }
    let mut instructions = run_under_valgrind();
    let (report, not_linear) = refusals::judge(&mut instructions);
    print!("{report}");
    let counted = Baseline {
        rustc: Build::this().rustc,
        instructions,
    };
    if given("--accept") {
        let text = serde_json::to_string_pretty(&counted).expect("numbers and texts");
        fs::write(BASELINE, text + "\n").expect("the baseline is writable");
        println!("{} counts accepted: {BASELINE}", counted.instructions.len());
        return ExitCode::SUCCESS;
    }
    let text = fs::read_to_string(BASELINE).expect("a baseline: make one with --accept");
    let baseline: Baseline = serde_json::from_str(&text).expect("a baseline");
    // Under valgrind the program detects the same levels, except AVX-512.
    let levels = nutfilter::internals::SimdLevel::available().map(|level| level.name());
    let comparison = baseline.compare(&counted, &levels.collect::<Vec<_>>());
    print!("{}", comparison.report);
    ExitCode::from(u8::from(comparison.failed || not_linear))
}

/// callgrind counts while this runs.
#[inline(never)]
fn counted(call: &mut dyn FnMut()) {
    call();
    // Without a statement after the call it would be a jump, and callgrind would see no return.
    black_box(());
}

/// Makes each call once and prints the name of its row.
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
