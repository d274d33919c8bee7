//! [`Record`]: one run as a JSON document. The types below are the schema.

use serde::Serialize;
use serde_json::{Value, json};

use crate::machine;
use crate::schedule::{Effort, Series, median, minimum, quartiles};
use crate::{Contender, Group};

/// The version of the documents written here. It changes when a field changes its meaning.
pub const SCHEMA: u32 = 2;

/// The name of the peer that is assembled from the fastest crates.
pub const BEST_OF_CRATES: &str = "best-of-crates";

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    /// [`SCHEMA`].
    pub schema: u32,
    /// When the run ended, UTC, as in `2026-01-31T23:59:59Z`.
    pub date: String,
    /// The commit that was measured: [`machine::source`].
    pub source: Value,
    /// How it was compiled: [`machine::build`].
    pub build: Value,
    /// Where it ran: [`machine::machine`].
    pub machine: Value,
    /// How much was measured: seconds per group, shared by its rows, and the fewest and most samples of a row.
    pub settings: Value,
    /// SIMD levels of the CPU, the plainest first.
    pub levels: Vec<String>,
    /// Features of the library.
    pub features: Vec<String>,
    /// One per measurement.
    pub rows: Vec<RowRecord>,
}

/// One measurement. Times are per unit of [`n`](Self::n); published figures are medians.
#[derive(Clone, Debug, Serialize)]
pub struct RowRecord {
    /// `stage/task/size/who`.
    pub name: String,
    /// `ours`, `reference` or `peer`.
    pub kind: &'static str,
    /// Number of threads: 1 in new records.
    pub threads: usize,
    /// Whether it reads or writes the bits of this format.
    pub same_format: bool,
    /// Units per call.
    pub n: u64,
    /// `ns/item`, `ns/target` or `ns/call`.
    pub unit: String,
    /// The fastest sample.
    pub minimum: f64,
    /// The middle sample.
    pub median: f64,
    /// A quarter of the samples are faster.
    pub lower_quartile: f64,
    /// A quarter of the samples are slower.
    pub upper_quartile: f64,
    /// Number of samples.
    pub samples: usize,
    /// Size of the structure, its index included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bits_per_item: Option<f64>,
    /// Designed false-positive rate of the structure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub false_positive_rate: Option<f64>,
}

impl Record {
    /// A record without rows.
    pub fn new(effort: Effort, levels: Vec<String>, features: Vec<String>) -> Self {
        let settings = json!({
            "seconds_per_group": effort.per_group.as_secs_f64(),
            "least_samples": effort.least_samples,
            "most_samples": effort.most_samples,
        });
        let (source, build, machine) = (machine::source(), machine::build(), machine::machine());
        let (schema, date, rows) = (SCHEMA, String::new(), Vec::new());
        Self { schema, date, source, build, machine, settings, levels, features, rows }
    }

    /// Adds the rows of a group.
    pub fn add(&mut self, group: &Group<'_>, measured: &[Series]) {
        let rows = measured.iter().map(|series| RowRecord::new(group, series));
        self.rows.extend(rows);
    }

    /// Sets the date. Call it when the run is over.
    pub fn finish(&mut self) {
        let now = jiff::Timestamp::now();
        self.date = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    }
}

impl RowRecord {
    fn new(group: &Group<'_>, series: &Series) -> Self {
        let row = &group.rows[series.row];
        let kind = match row.who {
            Contender::Reference => "reference",
            Contender::Ours(_) => "ours",
            Contender::Peer { .. } => "peer",
        };
        let (lower, upper) = quartiles(&series.nanoseconds);
        let n = group.n as f64;
        Self {
            name: format!("{}/{}", group.path(), row.who.name()),
            kind,
            threads: 1,
            same_format: row.who.same_format(),
            n: group.n,
            unit: format!("ns/{}", group.per),
            minimum: minimum(&series.nanoseconds) / n,
            median: median(&series.nanoseconds) / n,
            lower_quartile: lower / n,
            upper_quartile: upper / n,
            samples: series.nanoseconds.len(),
            bits_per_item: row.bits_per_item,
            false_positive_rate: row.false_positive_rate,
        }
    }
}
