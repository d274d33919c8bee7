//! Records of fuzzing campaigns: files of `fuzz/record`, written by scripts/fuzz/campaign.py; docs/fuzzing.md says what
//! they are. What is read here is what the page shows.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::error::Error;
use crate::files::{json_files, read};

/// What `campaign.py` writes into `what`.
const WHAT: &str = "fuzzing campaign";

/// The version of the documents read here.
const SCHEMA: u32 = 1;

/// One campaign.
#[derive(Clone, Debug, Deserialize)]
pub struct Campaign {
    /// The version of what is written, 1.
    pub schema: u32,
    /// What kind of record it is.
    pub what: String,
    /// When it was written, UTC.
    pub written: String,
    /// The machine.
    pub machine: Machine,
    /// Of the newest build.
    pub compiler: String,
    /// Of the newest build.
    pub revision: Option<String>,
    /// CPU time of the fuzzers in all.
    pub cpu_seconds: f64,
    /// In all.
    pub executions: u64,
    /// On the newest builds' sources.
    pub on_this_code: OnThisCode,
    /// What was found.
    pub finds: Vec<Find>,
    /// How many of them on the newest builds' sources, slow units not counted.
    pub finds_on_this_code: u64,
    /// By name.
    pub targets: BTreeMap<String, Target>,
    /// Of the corpora.
    pub coverage: Coverage,
}

/// Where it ran.
#[derive(Clone, Debug, Deserialize)]
pub struct Machine {
    /// Its own name.
    pub cpu: String,
    /// How many there are.
    pub cores: u64,
}

/// What ran on the sources of the newest build.
#[derive(Clone, Debug, Deserialize)]
pub struct OnThisCode {
    /// CPU time.
    pub cpu_seconds: f64,
    /// Executions.
    pub executions: u64,
}

/// What was found once or more often.
#[derive(Clone, Debug, Deserialize)]
pub struct Find {
    /// By which target.
    pub target: String,
    /// crash, leak, timeout, out of memory or slow unit.
    pub kind: String,
    /// On which sources.
    pub source: String,
}

/// One target.
#[derive(Clone, Debug, Deserialize)]
pub struct Target {
    /// The sources of its newest build.
    pub source: String,
    /// CPU time of its fuzzers.
    pub cpu_seconds: f64,
    /// In all.
    pub executions: u64,
    /// Over everything.
    pub executions_per_cpu_second: Option<u64>,
    /// libFuzzer's `cov`.
    pub edges: Option<u64>,
    /// libFuzzer's `ft`.
    pub features: Option<u64>,
    /// When fuzzing last found an edge.
    pub last_new_edge: Option<String>,
    /// CPU time of this target since then.
    pub cpu_seconds_since_last_new_edge: f64,
    /// As fuzzing left it.
    pub corpus: Corpus,
    /// The fewest bytes that keep every feature.
    pub minimised_corpus: Option<Corpus>,
}

/// Inputs.
#[derive(Clone, Debug, Deserialize)]
pub struct Corpus {
    /// How many.
    pub files: u64,
    /// All of them together.
    pub bytes: u64,
}

/// What the corpora reach.
#[derive(Clone, Debug, Deserialize)]
pub struct Coverage {
    /// Why there is none.
    pub missing: Option<String>,
    /// Of all targets together.
    #[serde(default)]
    pub total: Option<Counts>,
    /// Of each.
    #[serde(default)]
    pub by_target: BTreeMap<String, Counts>,
}

/// How many are reached, and how many there are.
#[derive(Clone, Debug, Deserialize)]
pub struct Counts {
    /// What llvm-cov calls regions.
    pub regions: (u64, u64),
    /// Of the sources.
    pub lines: (u64, u64),
}

impl Campaign {
    /// Crashes and the like of a target on its newest sources; slow units are no failures.
    #[must_use]
    pub fn failures(&self, target: &str) -> usize {
        let source = self
            .targets
            .get(target)
            .map(|target| target.source.as_str());
        let finds = self.finds.iter().filter(|find| find.target == target);
        let finds = finds.filter(|find| find.kind != "slow unit");
        finds
            .filter(|find| Some(find.source.as_str()) == source)
            .count()
    }
}

/// The campaigns below `folder`, the oldest first; none where there is no such folder.
///
/// # Errors
///
/// Where a file cannot be read or is no such record.
pub fn read_campaigns(folder: &Path) -> Result<Vec<Campaign>, Error> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut all = Vec::new();
    for path in json_files(folder)? {
        let parsed = serde_json::from_str(&read(&path)?);
        let campaign: Campaign = parsed.map_err(|error| Error::not_json(&path, error))?;
        if campaign.schema != SCHEMA || campaign.what != WHAT {
            let fault = format!("schema {} of a {:?}", campaign.schema, campaign.what);
            return Err(Error::not_a_record(&path, vec![fault]));
        }
        all.push(campaign);
    }
    all.sort_by(|a, b| a.written.cmp(&b.written));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made;
    use std::fs;

    #[test]
    fn campaigns_are_sorted_and_a_file_of_another_kind_is_named() {
        let folder = tempfile::tempdir().unwrap();
        assert!(
            read_campaigns(&folder.path().join("none"))
                .unwrap()
                .is_empty()
        );
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write(
            "a.json",
            &made::CAMPAIGN.replace("2026-11-22T01", "2026-11-23T01"),
        );
        write("b.json", made::CAMPAIGN);
        let written: Vec<String> = read_campaigns(folder.path())
            .unwrap()
            .into_iter()
            .map(|c| c.written)
            .collect();
        assert!(written.len() == 2 && written[0] < written[1], "{written:?}");
        write(
            "c.json",
            &made::CAMPAIGN.replace("fuzzing campaign", "soak"),
        );
        let error = read_campaigns(folder.path()).unwrap_err().to_string();
        assert!(
            error.contains("c.json") && error.contains("soak"),
            "{error}"
        );
    }

    #[test]
    fn failures_are_those_on_the_code_of_now() {
        let campaign: Campaign = serde_json::from_str(made::CAMPAIGN).unwrap();
        assert_eq!(
            campaign.failures("decode"),
            1,
            "one of three is older, one only slow"
        );
        assert_eq!(campaign.failures("encode"), 0);
    }
}
