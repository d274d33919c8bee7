//! Replays every seed and every input of the committed corpora, with overflow checks and without a fuzzer.

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
use proptest::collection::vec;
use proptest::prelude::*;
use zip::ZipArchive;

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// An input, and the command that runs it alone.
struct Input {
    target: Target,
    bytes: Vec<u8>,
    /// For a shell at the root of the repository.
    reproduction: String,
}

/// The files of a folder, sorted by name; empty if there is no such folder.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

fn stem(path: &Path) -> String {
    let stem = path.file_stem().expect("a name");
    stem.to_str().expect("UTF-8").to_owned()
}

/// The inputs in an archive of a target, `fuzz/seeds/NAME.zip` for example; none if there is no archive.
fn archived(kind: &str, target: Target) -> Vec<Input> {
    let name = target.name;
    let path = fuzz().join(kind).join(format!("{name}.zip"));
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
        let reproduction = format!(
            "unzip -p fuzz/{kind}/{name}.zip {member} > {member} && just fuzz input {name} {member}"
        );
        inputs.push(Input { target, bytes, reproduction });
    }
    assert!(!inputs.is_empty(), "{}: empty archive", path.display());
    inputs
}

#[test]
fn seeds_and_corpora_pass_without_the_fuzzer() {
    let inputs: Vec<Input> = TARGETS
        .iter()
        .flat_map(|&target| ["seeds", "corpora"].map(|kind| archived(kind, target)))
        .flatten()
        .collect();
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(|| {
                while let Some(input) = inputs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = panic::catch_unwind(|| (input.target.replay)(&input.bytes));
                    let Err(panic) = outcome else { continue };
                    let (name, what) = (input.target.name, message(panic.as_ref()));
                    let failure = format!("{name}: {what}\n  {}", input.reproduction);
                    failures.lock().expect("no panic").push(failure);
                }
            });
        }
    });
    let mut failures = failures.into_inner().expect("no panic");
    failures.sort();
    let (failed, all) = (failures.len(), inputs.len());
    assert!(failed == 0, "{failed} of {all} inputs fail:\n{}", failures.join("\n"));
}

/// The message of a panic.
fn message(panic: &(dyn Any + Send)) -> String {
    let message = panic.downcast_ref::<String>().map(String::as_str);
    let message = message.or_else(|| panic.downcast_ref::<&str>().copied());
    message.unwrap_or("panic without a message").to_owned()
}

#[test]
fn every_target_has_a_file_and_inputs() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    assert_eq!(targets.len(), TARGETS.len(), "duplicate name");
    let files = entries(&fuzz().join("fuzz_targets"));
    let files: BTreeSet<String> = files.iter().map(|path| stem(path)).collect();
    assert_eq!(files, targets, "the files of fuzz/fuzz_targets, and TARGETS");
    for target in TARGETS {
        let archive = |kind| fuzz().join(kind).join(format!("{}.zip", target.name));
        let exists = archive("seeds").exists() || archive("corpora").exists();
        assert!(exists, "{} has no input", target.name);
    }
}

#[test]
fn every_file_belongs_to_a_target() {
    for (folder, extension) in
        [("seeds", "zip"), ("corpora", "zip"), ("dictionaries", "dict"), ("options", "options")]
    {
        for path in entries(&fuzz().join(folder)) {
            let known = TARGETS.iter().any(|target| target.name == stem(&path));
            let right = path.extension().and_then(|found| found.to_str()) == Some(extension);
            assert!(known && right, "{}: not the name of a target", path.display());
        }
    }
}

#[test]
fn skipped_members_may_have_what_no_value_can() {
    for member in [r#""A":191e999784931"#, r#""A":["\ud800"]"#, r#""\ud800":1"#] {
        let text = format!(r#"{{"n":1,{member},"content":"AAAA","timestamp":1767225600}}"#);
        nutfilter_harness::response::Case(text.as_bytes()).check();
    }
}

proptest! {
    #[test]
    fn any_input_of_a_target_passes(
        bytes in vec(prop_oneof![any::<u8>(), Just(0xff), Just(0)], 0..300),
    ) {
        for target in TARGETS {
            (target.replay)(&bytes);
        }
    }
}
