//! The history of instruction counts: each baseline that was ever accepted is the count at its commit.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::baseline::Baseline;
use crate::machine::{Build, Machine, Source};
use crate::record::{Instructions, Record, SCHEMA, Settings, date};

/// A commit that changed the baseline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Its hash.
    pub commit: String,
    /// When it was made, in seconds since 1970.
    pub seconds: u64,
    /// The counts.
    pub baseline: Baseline,
}

impl Accepted {
    /// A record of the counts alone. What a baseline does not say is left out, `unknown`, or 0; `machine` is what is
    /// known of where they were counted.
    #[must_use]
    pub fn record(&self, machine: Machine) -> Record {
        let unknown = || "unknown".to_owned();
        Record {
            schema: SCHEMA,
            date: date(self.seconds),
            source: Source {
                commit: self.commit.clone(),
                dirty: false,
            },
            build: Build {
                rustc: self.baseline.rustc.clone(),
                target: unknown(),
                opt_level: unknown(),
                rustflags: unknown(),
                debug_assertions: None,
            },
            machine,
            settings: Settings::default(),
            levels: Vec::new(),
            features: Vec::new(),
            rows: Vec::new(),
            ratios: Vec::new(),
            instructions: Some(Instructions::new(&self.baseline, "unknown")),
            space: Vec::new(),
            names: None,
        }
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

/// Every commit that changed the file at `path`, from the repository's root, the newest first.
///
/// # Errors
///
/// Where git fails, where the repository does not have all of its history (the oldest commit that it has would seem to
/// have made the file), and where a version of the file is no baseline.
pub fn accepted(repository: &Path, path: &str) -> io::Result<Vec<Accepted>> {
    if git(repository, &["rev-parse", "--is-shallow-repository"])?.trim() != "false" {
        let fault = "a part of its history is all that this repository has";
        return Err(io::Error::other(fault));
    }
    let log = git(repository, &["log", "--format=%H %ct", "--", path])?;
    let commit = |line: &str| {
        let (commit, seconds) = line.split_once(' ')?;
        Some((commit.to_owned(), seconds.parse().ok()?))
    };
    let mut found = Vec::new();
    for line in log.lines() {
        let fault = || io::Error::other(format!("git log: {line}"));
        let (commit, seconds) = commit(line).ok_or_else(fault)?;
        let text = git(repository, &["show", &format!("{commit}:{path}")])?;
        let baseline = serde_json::from_str(&text)
            .map_err(|error| io::Error::other(format!("{commit}: {error}")))?;
        found.push(Accepted {
            commit,
            seconds,
            baseline,
        });
    }
    Ok(found)
}

/// Writes `record` below `folder`, where it belongs, unless there is a file already; its path, if it was written.
///
/// # Errors
///
/// Where the file system fails.
pub fn keep(record: &Record, folder: &Path) -> io::Result<Option<PathBuf>> {
    let path = folder.join(record.path());
    if path.exists() {
        return Ok(None);
    }
    if let Some(machine) = path.parent() {
        fs::create_dir_all(machine)?;
    }
    let text = serde_json::to_string_pretty(record)?;
    fs::write(&path, text + "\n")?;
    Ok(Some(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{DOCUMENTATION, check};

    const PATH: &str = "benches/gate.baseline.json";

    fn baseline(count: u64) -> String {
        format!(r#"{{"rustc": "rustc 1", "instructions": {{"hash/nut23/1k/portable": {count}}}}}"#)
    }

    /// A repository with two accepted baselines and a commit between them.
    fn repository(name: &str) -> PathBuf {
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
        folder
    }

    #[test]
    fn every_baseline_that_was_accepted_is_a_record_of_its_commit() {
        let repository = repository("history");
        let found = accepted(&repository, PATH).unwrap();
        let counts: Vec<(u64, u64)> = found
            .iter()
            .map(|one| {
                let count = one.baseline.instructions["hash/nut23/1k/portable"];
                (one.seconds, count)
            })
            .collect();
        assert_eq!(counts, [(1_200_000_000, 8), (1_000_000_000, 7)]);

        let record = found[1].record(Machine::unknown());
        assert_eq!(record.date, "2001-09-09T01:46:40Z");
        let value = serde_json::to_value(&record).unwrap();
        assert_eq!(check(&value, DOCUMENTATION), Ok(()));

        let folder = repository.join("record");
        let path = keep(&record, &folder).unwrap().expect("it was not there");
        let name = format!("unknown-0-cpus/2001-09-09-{}.json", &found[1].commit[..7]);
        assert_eq!(path, folder.join(name));
        assert_eq!(keep(&record, &folder).unwrap(), None, "written over");
        fs::remove_dir_all(repository).unwrap();
    }

    #[test]
    fn a_repository_without_all_of_its_history_is_refused() {
        let whole = repository("whole");
        let part = whole.join("part");
        let url = format!("file://{}", whole.display());
        let clone = ["clone", "--quiet", "--depth=1", &url, "part"];
        git(&whole, &clone).unwrap();
        let error = accepted(&part, PATH).unwrap_err();
        assert!(
            error.to_string().contains("a part of its history"),
            "{error}"
        );
        fs::remove_dir_all(whole).unwrap();
    }
}
