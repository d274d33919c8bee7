//! Measures everything in one go: the run with peers, then the counts of instructions, into one record.
//!
//! Both are programs of their own (docs/benchmarking.md says why the peers are) and are started by cargo; what they say
//! on stderr goes through. Their parts are put together, held against the schema and kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use nutfilter_benchmarks::record::{Instructions, Record};
use nutfilter_benchmarks::schema;

use crate::error::Error;
use crate::files::{read, write_whole};
use crate::records::read_record;

/// What to measure, and where the record goes.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The repository's root.
    pub repository: PathBuf,
    /// The folder of records.
    pub records: PathBuf,
    /// What the run with peers is told, as docs/benchmarking.md has it.
    pub arguments: Vec<String>,
    /// Whether instructions are counted.
    pub counts: bool,
}

/// The lines that say how far it is.
struct Progress {
    stages: usize,
    at: usize,
}

impl Progress {
    fn next(&mut self, what: &str) {
        self.at += 1;
        eprintln!("{} of {}: {what}", self.at, self.stages);
    }
}

/// Measures, and gives the path of the new record.
///
/// # Errors
///
/// Where a program cannot be started or fails, or what it writes is no record. Nothing is kept then.
///
/// # Cost
///
/// Half a minute for a quick run and six for a whole one on two cores, and minutes of CPU to build the peers at first.
pub fn run(plan: &Plan) -> Result<PathBuf, Error> {
    let work = std::env::temp_dir().join(format!("nutfilter-dashboard-{}", std::process::id()));
    fs::create_dir_all(&work).map_err(|error| Error::write(&work, error))?;
    let measured = measure(plan, &work);
    // What is left there is no reason to fail.
    let _ = fs::remove_dir_all(&work);
    let record = measured?;
    let path = free_path(&plan.records.join(record.path()));
    keep(&record, &path)?;
    Ok(path)
}

fn measure(plan: &Plan, work: &Path) -> Result<Record, Error> {
    let has_valgrind = plan.counts && runs("valgrind");
    let mut progress = Progress {
        stages: if has_valgrind { 3 } else { 2 },
        at: 0,
    };
    progress.next("times and sizes, with peers");
    let file = work.join("peers.json");
    let manifest = plan.repository.join("benches/peers/Cargo.toml");
    let mut peers = cargo(plan, "run");
    peers
        .args(["--release", "--locked", "--manifest-path"])
        .arg(manifest)
        .arg("--");
    peers.args(&plan.arguments).arg("--output").arg(&file);
    must_succeed(&mut peers)?;
    let mut record = read_record(&file)?;
    if has_valgrind {
        progress.next("instructions");
        record.instructions = Some(count(plan, &work.join("counts.json"))?);
    } else if plan.counts {
        eprintln!(
            "valgrind is not there (Debian's package `valgrind`): no instructions are counted"
        );
    }
    progress.next("the record");
    Ok(record)
}

fn count(plan: &Plan, file: &Path) -> Result<Instructions, Error> {
    let mut gate = cargo(plan, "bench");
    gate.args(["--bench", "gate", "--", "--output"]).arg(file);
    must_succeed(&mut gate)?;
    serde_json::from_str(&read(file)?).map_err(|error| Error::not_json(file, error))
}

/// `path`, or with `-2`, `-3` and so on where there is one already: a quick run replaces no whole one of the same
/// day and commit.
fn free_path(path: &Path) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let numbered = (2..).map(|number| path.with_file_name(format!("{stem}-{number}.json")));
    let mut paths = std::iter::once(path.to_owned()).chain(numbered);
    paths
        .find(|path| !path.exists())
        .expect("numbers do not end")
}

/// Holds a record against its description and writes it.
fn keep(record: &Record, path: &Path) -> Result<(), Error> {
    let value = serde_json::to_value(record).expect("numbers, texts and lists");
    schema::check(&value, schema::DOCUMENTATION).map_err(Error::not_described)?;
    let text = serde_json::to_string_pretty(record).expect("numbers, texts and lists") + "\n";
    write_whole(path, &text)
}

/// The cargo that started this program, or the one that is found.
fn cargo(plan: &Plan, command: &str) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut cargo = Command::new(cargo);
    // What is printed there is for people, and our own output is the record's path.
    cargo
        .arg(command)
        .current_dir(&plan.repository)
        .stdin(Stdio::null());
    cargo
}

fn must_succeed(command: &mut Command) -> Result<(), Error> {
    let said = said(command);
    let status: ExitStatus = command
        .stdout(std::io::stderr())
        .status()
        .map_err(|error| Error::not_started(&said, error))?;
    match status.success() {
        true => Ok(()),
        false => Err(Error::failed(&said, status)),
    }
}

/// The command as one would type it, near enough to find it.
fn said(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

fn runs(program: &str) -> bool {
    let mut command = Command::new(program);
    command
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made;

    #[test]
    fn a_record_is_kept_as_it_was_made_and_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let record = made::record();
        let path = folder.path().join(record.path());
        keep(&record, &path).unwrap();
        assert!(
            path.ends_with("xeon-2-cpus/2026-11-22-0123456.json"),
            "{}",
            path.display()
        );
        let again = read_record(&path).unwrap();
        assert_eq!(
            serde_json::to_value(again).unwrap(),
            serde_json::to_value(record).unwrap()
        );
    }

    #[test]
    fn a_record_of_the_same_day_and_commit_is_kept_beside_the_other() {
        let folder = tempfile::tempdir().unwrap();
        let record = made::record();
        let names = (0..3).map(|_| {
            let path = free_path(&folder.path().join(record.path()));
            keep(&record, &path).unwrap();
            path.file_name().unwrap().to_string_lossy().into_owned()
        });
        let names: Vec<String> = names.collect();
        let expected = [
            "2026-11-22-0123456.json",
            "2026-11-22-0123456-2.json",
            "2026-11-22-0123456-3.json",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn a_program_that_fails_or_is_not_there_is_named() {
        let mut fails = Command::new("false");
        let error = must_succeed(fails.arg("--loudly")).unwrap_err().to_string();
        assert!(error.contains("`false --loudly` ended with"), "{error}");
        let error = must_succeed(&mut Command::new("no-such-program"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("cannot start `no-such-program`"), "{error}");
        assert!(runs("cargo") && !runs("no-such-program"));
    }
}
