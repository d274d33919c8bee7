//! [`Record`]: one run as one JSON document. docs/benchmarking.md describes every field, and
//! [`schema::check`](crate::schema::check) holds a document against that description.

mod date;
mod instructions;
mod ratio;
mod space;

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::machine::{Build, Machine, Source};
use crate::schedule::{Effort, Series, median, minimum, quartiles};
use crate::{Group, Who};

pub(crate) use date::date;
pub use instructions::{Count, Instructions};
pub use ratio::Ratio;
pub use space::{Names, Space};

/// The version of the documents written here.
pub const SCHEMA: u32 = 1;

/// The name of the peer that is made of the best parts of several libraries.
pub const PUT_TOGETHER: &str = "put-together";

/// One run.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Record {
    /// [`SCHEMA`].
    pub schema: u32,
    /// When the run ended, UTC.
    pub date: String,
    /// What was measured.
    pub source: Source,
    /// How it was compiled.
    pub build: Build,
    /// Where it ran.
    pub machine: Machine,
    /// How much was measured.
    pub settings: Settings,
    /// Levels that the CPU has, the plainest first.
    pub levels: Vec<String>,
    /// Features of the library.
    pub features: Vec<String>,
    /// One a measurement.
    pub rows: Vec<RowRecord>,
    /// Our rows against others of their group.
    pub ratios: Vec<Ratio>,
    /// Counts of instructions, where they were taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<Instructions>,
    /// What structures take, where that was measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub space: Vec<Space>,
    /// The Bloom filter of names, where it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<Names>,
}

/// How much was measured; all 0 where nothing was timed.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Settings {
    /// Seconds for a group.
    pub seconds_per_group: f64,
    /// Bounds on the samples of a row.
    pub least_samples: u32,
    /// The other bound.
    pub most_samples: u32,
}

/// One row.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct RowRecord {
    /// `stage/task/size/who`.
    pub name: String,
    /// What is done.
    pub stage: String,
    /// To what.
    pub task: String,
    /// How much of it.
    pub size: String,
    /// By whom.
    pub who: String,
    /// `ours`, `naive`, `peer` or `limit`.
    pub kind: String,
    /// Of ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// How many.
    pub threads: usize,
    /// Whether it reads or makes the bits of this format.
    pub same_format: bool,
    /// Units a call.
    pub n: u64,
    /// Of the times.
    pub unit: String,
    /// Over all samples.
    pub minimum: f64,
    /// Over all samples.
    pub median: f64,
    /// Over all samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower_quartile: Option<f64>,
    /// Over all samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upper_quartile: Option<f64>,
    /// How many.
    pub samples: usize,
    /// Of a structure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bits_per_item: Option<f64>,
    /// Of a structure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub false_positive_rate: Option<f64>,
}

impl Record {
    /// A record without rows.
    #[must_use]
    pub fn new(effort: Effort, levels: Vec<String>, features: Vec<String>) -> Self {
        Self {
            schema: SCHEMA,
            date: String::new(),
            source: Source::now(),
            build: Build::this(),
            machine: Machine::this(),
            settings: Settings {
                seconds_per_group: effort.per_group.as_secs_f64(),
                least_samples: effort.least_samples,
                most_samples: effort.most_samples,
            },
            levels,
            features,
            rows: Vec::new(),
            ratios: Vec::new(),
            instructions: None,
            space: Vec::new(),
            names: None,
        }
    }

    /// Adds the rows of a group and what they are against one another.
    pub fn add(&mut self, group: &Group<'_>, measured: &[Series]) {
        let added = self.rows.len();
        let rows = measured.iter().map(|series| RowRecord::of(group, series));
        self.rows.extend(rows);
        self.ratios.extend(ratio::ratios(&self.rows[added..]));
    }

    /// Writes the date: the run is over.
    pub fn finish(&mut self) {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH);
        self.date = date(seconds.map_or(0, |since| since.as_secs()));
    }

    /// The machine's folder among the kept records, as in `xeon-2-cpus`: the CPU's name without what its vendor
    /// adds to all of them, and how many of its CPUs the program might use.
    #[must_use]
    pub fn machine_name(&self) -> String {
        self.machine.name()
    }

    /// Where it is kept below `benches/record`: `<machine>/<date>-<commit>.json`, the day and seven digits.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        let day = self.date.split('T').next().unwrap_or_default();
        let commit: String = self.source.commit.chars().take(7).collect();
        Path::new(&self.machine_name()).join(format!("{day}-{commit}.json"))
    }
}

impl RowRecord {
    fn of(group: &Group<'_>, series: &Series) -> Self {
        let row = &group.rows[series.row];
        let mut who = row.who.name().to_owned();
        if series.threads > 1 {
            who = format!("{who}-{}-threads", series.threads);
        }
        let (kind, level) = match row.who {
            Who::Naive => ("naive", None),
            Who::Ours(level) => ("ours", Some(level.name().to_owned())),
            Who::Peer { .. } => ("peer", None),
            Who::Limit => ("limit", None),
        };
        let (lower, upper) = quartiles(&series.nanoseconds);
        let n = group.n as f64;
        Self {
            name: format!("{}/{who}", group.path()),
            stage: group.stage.to_owned(),
            task: group.task.clone(),
            size: group.size.clone(),
            who,
            kind: kind.to_owned(),
            level,
            threads: series.threads,
            same_format: row.who.same_format(),
            n: group.n,
            unit: format!("ns/{}", group.per),
            minimum: minimum(&series.nanoseconds) / n,
            median: median(&series.nanoseconds) / n,
            lower_quartile: Some(lower / n),
            upper_quartile: Some(upper / n),
            samples: series.nanoseconds.len(),
            bits_per_item: row.bits_per_item,
            false_positive_rate: row.false_positive_rate,
        }
    }
}
