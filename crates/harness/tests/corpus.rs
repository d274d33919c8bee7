//! What the fuzzers found, once more: every seed and every member of a corpus, with overflow checks and without a
//! fuzzer.

use std::any::Any;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::num::NonZero;
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use nutfilter_harness::{TARGETS, Target};
use zip::ZipArchive;

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// An input and how to run it alone.
struct Input {
    target: Target,
    bytes: Vec<u8>,
    /// Shell, from the root of the repository.
    reproduction: String,
}

/// What is in a folder, sorted by name; nothing where there is no such folder.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    paths
}

fn stem(path: &Path) -> String {
    let stem = path.file_stem().expect("a name");
    stem.to_str().expect("UTF-8").to_owned()
}

fn seeds(target: Target) -> Vec<Input> {
    let input = |path: PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.expect("UTF-8");
        Input {
            target,
            bytes: fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())),
            reproduction: format!(
                "cargo +nightly fuzz run {0} fuzz/seeds/{0}/{name}",
                target.name
            ),
        }
    };
    let folder = fuzz().join("seeds").join(target.name);
    entries(&folder).into_iter().map(input).collect()
}

fn corpus(target: Target) -> Vec<Input> {
    let path = fuzz().join("corpora").join(format!("{}.zip", target.name));
    if !path.exists() {
        return Vec::new();
    }
    let fail = |error: &dyn std::fmt::Display| -> ! { panic!("{}: {error}", path.display()) };
    let file = File::open(&path).unwrap_or_else(|error| fail(&error));
    let mut archive = ZipArchive::new(file).unwrap_or_else(|error| fail(&error));
    let mut inputs = Vec::new();
    for at in 0..archive.len() {
        let mut member = archive.by_index(at).unwrap_or_else(|error| fail(&error));
        let mut bytes = Vec::new();
        let read = member.read_to_end(&mut bytes);
        read.unwrap_or_else(|error| fail(&error));
        let member = member.name().unwrap_or_else(|error| fail(&error));
        let target_name = target.name;
        let reproduction = format!(
            "unzip -p fuzz/corpora/{target_name}.zip {member} > {member} && \
             cargo +nightly fuzz run {target_name} {member}"
        );
        inputs.push(Input {
            target,
            bytes,
            reproduction,
        });
    }
    assert!(!inputs.is_empty(), "{}: is empty", path.display());
    inputs
}

#[test]
fn seeds_and_corpora_pass_without_the_fuzzer() {
    let inputs: Vec<Input> = TARGETS
        .iter()
        .flat_map(|&target| seeds(target).into_iter().chain(corpus(target)))
        .collect();
    // Threads of their own: a case that needs a pool makes one of the thread that it is in.
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(|| {
                while let Some(input) = inputs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = panic::catch_unwind(|| (input.target.replay)(&input.bytes));
                    let Err(panic) = outcome else { continue };
                    let (name, what) = (input.target.name, said(panic.as_ref()));
                    let failure = format!("{name}: {what}\n  {}", input.reproduction);
                    failures.lock().expect("no panic").push(failure);
                }
            });
        }
    });
    let mut failures = failures.into_inner().expect("no panic");
    failures.sort();
    let (failed, all) = (failures.len(), inputs.len());
    assert!(
        failed == 0,
        "{failed} of {all} inputs fail:\n{}",
        failures.join("\n")
    );
}

/// The words of a panic.
fn said(panic: &(dyn Any + Send)) -> String {
    let words = panic.downcast_ref::<String>().map(String::as_str);
    let words = words.or_else(|| panic.downcast_ref::<&str>().copied());
    words.unwrap_or("a panic without words").to_owned()
}

#[test]
fn every_target_has_a_file_and_something_to_replay() {
    let targets: BTreeSet<String> = TARGETS
        .iter()
        .map(|target| target.name.to_owned())
        .collect();
    assert_eq!(targets.len(), TARGETS.len(), "a name that is there twice");
    let files = entries(&fuzz().join("fuzz_targets"));
    let files: BTreeSet<String> = files.iter().map(|path| stem(path)).collect();
    assert_eq!(
        files, targets,
        "the files of fuzz/fuzz_targets, and TARGETS"
    );
    for target in TARGETS {
        let seeds = entries(&fuzz().join("seeds").join(target.name)).len();
        let corpus = fuzz().join("corpora").join(format!("{}.zip", target.name));
        assert!(seeds > 0 || corpus.exists(), "{} has no input", target.name);
    }
}

#[test]
fn what_belongs_to_a_target_has_the_name_of_one() {
    for (folder, extension) in [
        ("seeds", None),
        ("corpora", Some("zip")),
        ("dictionaries", Some("dict")),
        ("options", Some("options")),
    ] {
        for path in entries(&fuzz().join(folder)) {
            let known = TARGETS.iter().any(|target| target.name == stem(&path));
            let right = path.extension().and_then(|found| found.to_str()) == extension;
            assert!(known && right, "{}: of no target", path.display());
        }
    }
}
