//! The history of instruction counts: commits, counted anew.
//!
//! Baselines that were accepted before are no such history. Whoever accepts one counts the tree that is there; the commit
//! may then be put on top of others, and nothing notices: a gate fails where counts rise, and these fell. Of the first
//! three, one was its commit's; another was off by 84 %.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::baseline::Baseline;
use crate::machine::{Build, Machine, Source};
use crate::record::{Instructions, Record, SCHEMA, Settings, date};

/// A commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its hash.
    pub hash: String,
    /// When it was made, in seconds since 1970.
    pub seconds: u64,
}

impl Commit {
    /// A record of its counts alone, made on this machine by the valgrind with this name. How the counted program was
    /// compiled is not known but for the compiler.
    #[must_use]
    pub fn record(&self, counted: &Baseline, valgrind: &str) -> Record {
        let unknown = || "unknown".to_owned();
        Record {
            schema: SCHEMA,
            date: date(self.seconds),
            source: Source {
                commit: self.hash.clone(),
                dirty: false,
            },
            build: Build {
                rustc: counted.rustc.clone(),
                target: unknown(),
                opt_level: unknown(),
                rustflags: unknown(),
                debug_assertions: None,
            },
            machine: Machine::this(),
            settings: Settings::default(),
            levels: Vec::new(),
            features: Vec::new(),
            rows: Vec::new(),
            ratios: Vec::new(),
            instructions: Some(Instructions::new(counted, valgrind)),
            space: Vec::new(),
            names: None,
        }
    }

    /// Where that record is kept, below `benches/record`.
    #[must_use]
    pub fn record_path(&self) -> PathBuf {
        let nothing = Baseline {
            rustc: String::new(),
            instructions: BTreeMap::new(),
        };
        self.record(&nothing, "").path()
    }
}

/// What git answers.
fn git(repository: &Path, arguments: &[&str]) -> io::Result<String> {
    let mut command = Command::new("git");
    let command = command.arg("-C").arg(repository).args(arguments);
    let output = command.output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!("git {arguments:?}: {said}")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What git says of commits with a line `hash seconds` each.
fn commits(repository: &Path, arguments: &[&str]) -> io::Result<Vec<Commit>> {
    let said = git(repository, arguments)?;
    let commit = |line: &str| {
        let (hash, seconds) = line.split_once(' ')?;
        let (hash, seconds) = (hash.to_owned(), seconds.parse().ok()?);
        Some(Commit { hash, seconds })
    };
    let fault = || io::Error::other(format!("git {arguments:?}: {said}"));
    let commits: Option<Vec<Commit>> = said.lines().map(commit).collect();
    commits.ok_or_else(fault)
}

/// The commit with this name.
///
/// # Errors
///
/// Where git knows none, or fails.
pub fn named(repository: &Path, revision: &str) -> io::Result<Commit> {
    let revision = format!("{revision}^{{commit}}");
    let arguments = ["log", "-1", "--format=%H %ct", &revision];
    let found = commits(repository, &arguments)?.pop();
    found.ok_or_else(|| io::Error::other(format!("git does not know {revision}")))
}

/// Every commit that changed the file at `path`, from the repository's root, the newest first.
///
/// # Errors
///
/// Where git fails, and where the repository does not have all of its history: the oldest commit that it has would seem
/// to have made the file.
pub fn changed(repository: &Path, path: &str) -> io::Result<Vec<Commit>> {
    if git(repository, &["rev-parse", "--is-shallow-repository"])?.trim() != "false" {
        let fault = "a part of its history is all that this repository has: name the commits";
        return Err(io::Error::other(fault));
    }
    commits(repository, &["log", "--format=%H %ct", "--", path])
}

/// Writes the files of `commit` into `folder`, which must not be there yet. They are as old as this moment: cargo takes a
/// file that is older than what it built from another commit for one that it has seen.
fn unpack(repository: &Path, commit: &Commit, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder.parent().unwrap_or(folder))?;
    fs::create_dir(folder)?;
    let index = folder.with_extension("index");
    let with_index = |arguments: &[&str]| {
        let mut command = Command::new("git");
        let command = command.env("GIT_INDEX_FILE", &index).arg("-C");
        let status = command.arg(repository).args(arguments).status()?;
        let fault = || io::Error::other(format!("git {arguments:?}: {status}"));
        status.success().then_some(()).ok_or_else(fault)
    };
    with_index(&["read-tree", &commit.hash])?;
    let prefix = format!("--prefix={}/", folder.display());
    with_index(&["checkout-index", "--all", &prefix])?;
    fs::remove_file(&index)
}

/// Builds the gate of `commit` and has it count, in a folder below `work`, where builds of several commits share what
/// they can; its own `--accept` says what it counted.
///
/// # Errors
///
/// Where git or cargo fails, or what the gate of that commit writes is no baseline.
pub fn count(
    repository: &Path,
    commit: &Commit,
    baseline: &str,
    work: &Path,
) -> io::Result<Baseline> {
    let folder = work.join("tree");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    unpack(repository, commit, &folder)?;
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(cargo);
    let command = command.args(["bench", "--quiet", "--bench", "gate", "--", "--accept"]);
    // Not the target folder of the tree that asks: it would take what is built here for its own.
    let command = command
        .current_dir(&folder)
        .env("CARGO_TARGET_DIR", work.join("target"));
    let status = command.status()?;
    if !status.success() {
        return Err(io::Error::other(format!(
            "the gate of {}: {status}",
            commit.hash
        )));
    }
    let text = fs::read_to_string(folder.join(baseline))?;
    fs::remove_dir_all(&folder)?;
    Ok(serde_json::from_str(&text)?)
}

/// Writes `record` to a file that must not be there yet.
///
/// # Errors
///
/// Where the file is there, or the file system fails.
pub fn keep(record: &Record, path: &Path) -> io::Result<()> {
    if let Some(machine) = path.parent() {
        fs::create_dir_all(machine)?;
    }
    let text = serde_json::to_string_pretty(record)?;
    let mut file = fs::File::create_new(path)?;
    file.write_all((text + "\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{DOCUMENTATION, check};

    const PATH: &str = "benches/gate.baseline.json";

    fn baseline(count: u64) -> String {
        format!(r#"{{"rustc": "rustc 1", "instructions": {{"hash/nut23/1k/portable": {count}}}}}"#)
    }

    /// A repository with two commits of a baseline and one between them; none where there is no git.
    fn repository(name: &str) -> Option<PathBuf> {
        if Command::new("git").arg("--version").output().is_err() {
            eprintln!("not tested: there is no git");
            return None;
        }
        let folder = std::env::temp_dir().join(format!("nutfilter-{name}-{}", std::process::id()));
        fs::create_dir_all(folder.join("benches")).unwrap();
        git(&folder, &["init", "--quiet"]).unwrap();
        for (seconds, file, text) in [
            (1_000_000_000, PATH, baseline(7)),
            (1_100_000_000, "README", String::new()),
            (1_200_000_000, PATH, baseline(8)),
        ] {
            fs::write(folder.join(file), text).unwrap();
            git(&folder, &["add", "."]).unwrap();
            let date = format!("{seconds} +0100");
            let mut command = Command::new("git");
            let command = command.env("GIT_COMMITTER_DATE", &date).arg("-C");
            let settings = ["-c", "user.name=A", "-c", "user.email=a@a.example"];
            let commit = command.arg(&folder).args(settings);
            let commit = commit.args(["commit", "--quiet", "--no-gpg-sign", "-m", "x"]);
            assert!(commit.status().unwrap().success());
        }
        Some(folder)
    }

    #[test]
    fn commits_that_changed_the_baseline_are_found_and_unpacked_as_they_were() {
        let Some(repository) = repository("history") else {
            return;
        };
        let found = changed(&repository, PATH).unwrap();
        let times: Vec<u64> = found.iter().map(|commit| commit.seconds).collect();
        assert_eq!(times, [1_200_000_000, 1_000_000_000]);
        assert_eq!(named(&repository, "HEAD~2").unwrap(), found[1]);
        assert!(named(&repository, "nothing").is_err());

        let before = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
        let folder = repository.join("work/tree");
        unpack(&repository, &found[1], &folder).unwrap();
        assert_eq!(fs::read_to_string(folder.join(PATH)).unwrap(), baseline(7));
        assert!(!folder.join("README").exists(), "of a later commit");
        let file = fs::metadata(folder.join(PATH)).unwrap();
        assert!(
            file.modified().unwrap() > before,
            "cargo would take it for an old one"
        );
        // Nothing of the repository's own changed.
        assert_eq!(
            git(&repository, &["diff", "--cached", "--name-only"]).unwrap(),
            ""
        );
        fs::remove_dir_all(repository).unwrap();
    }

    #[test]
    fn counts_of_a_commit_are_a_record_that_conforms_and_is_never_written_over() {
        let commit = Commit {
            hash: "0123456789abcdef".to_owned(),
            seconds: 1_000_000_000,
        };
        let counted: Baseline = serde_json::from_str(&baseline(7)).unwrap();
        let record = commit.record(&counted, "valgrind-3");
        assert_eq!(record.date, "2001-09-09T01:46:40Z");
        let value = serde_json::to_value(&record).unwrap();
        assert_eq!(check(&value, DOCUMENTATION), Ok(()));

        let folder = std::env::temp_dir().join(format!("nutfilter-keep-{}", std::process::id()));
        let path = folder.join(commit.record_path());
        keep(&record, &path).unwrap();
        let name = format!("{}/2001-09-09-0123456.json", record.machine_name());
        assert!(folder.join(name).exists());
        assert!(keep(&record, &path).is_err(), "written over");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_repository_without_all_of_its_history_is_refused() {
        let Some(whole) = repository("whole") else {
            return;
        };
        let part = whole.join("part");
        let url = format!("file://{}", whole.display());
        let clone = ["clone", "--quiet", "--depth=1", &url, "part"];
        git(&whole, &clone).unwrap();
        let error = changed(&part, PATH).unwrap_err();
        assert!(
            error.to_string().contains("a part of its history"),
            "{error}"
        );
        assert!(named(&part, "HEAD").is_ok());
        fs::remove_dir_all(whole).unwrap();
    }
}
