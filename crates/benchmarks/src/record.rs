//! [`Record`]: one run as a JSON document. The types below are the schema; unknown fields are refused.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::machine;
use crate::schedule::{Effort, Series, median, minimum, quartiles};
use crate::{Contender, Group};

/// The version of the documents written here. It changes when a field changes its meaning.
pub const SCHEMA: u32 = 2;

/// The name of the peer that is assembled from the fastest crates.
pub const BEST_OF_CRATES: &str = "best-of-crates";

/// One run.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
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
    /// How much was measured.
    pub settings: RecordedEffort,
    /// SIMD levels of the CPU, the plainest first.
    pub levels: Vec<String>,
    /// Features of the library.
    pub features: Vec<String>,
    /// One per measurement.
    pub rows: Vec<RowRecord>,
}

/// How much was measured.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedEffort {
    /// Seconds per group, shared by its rows.
    pub seconds_per_group: f64,
    /// Every row has at least this many samples.
    pub least_samples: u32,
    /// Every row has at most this many samples.
    pub most_samples: u32,
}

/// One measurement. Times are per unit of [`n`](Self::n).
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RowRecord {
    /// `stage/task/size/who`.
    pub name: String,
    /// `ours`, `reference` or `peer`.
    pub kind: String,
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
    /// The middle sample. Published figures are medians.
    pub median: f64,
    /// A quarter of the samples are faster.
    pub lower_quartile: f64,
    /// A quarter of the samples are slower.
    pub upper_quartile: f64,
    /// Number of samples.
    pub samples: usize,
    /// Size of the structure, its index included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bits_per_item: Option<f64>,
    /// Designed false-positive rate of the structure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub false_positive_rate: Option<f64>,
}

impl Record {
    /// A record without rows.
    pub fn new(effort: Effort, levels: Vec<String>, features: Vec<String>) -> Self {
        Self {
            schema: SCHEMA,
            date: String::new(),
            source: machine::source(),
            build: machine::build(),
            machine: machine::machine(),
            settings: RecordedEffort {
                seconds_per_group: effort.per_group.as_secs_f64(),
                least_samples: effort.least_samples,
                most_samples: effort.most_samples,
            },
            levels,
            features,
            rows: Vec::new(),
        }
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
            kind: kind.to_owned(),
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::schedule::interleave;
    use crate::{Fixture, Selection, rows};

    /// A record of two small groups, as JSON.
    fn written() -> serde_json::Value {
        let fixture = Fixture::new("2k".parse().unwrap());
        let selection = Selection::new(vec!["decode/plain".into(), "lookup/batched".into()]);
        let effort = Effort { per_group: Duration::ZERO, most_samples: 1, least_samples: 1 };
        let levels =
            nutfilter::internals::SimdLevel::available().map(|level| level.name().to_owned());
        let mut record = Record::new(effort, levels.collect(), vec!["std".to_owned()]);
        rows::each(&fixture, &selection, &mut |mut group| {
            let series = interleave(&mut group, effort);
            record.add(&group, &series);
        });
        record.finish();
        serde_json::to_value(&record).unwrap()
    }

    #[test]
    fn a_written_record_reads_back_and_an_unknown_field_is_refused() {
        let mut value = written();
        let record: Record = serde_json::from_value(value.clone()).unwrap();
        assert!(record.rows.iter().any(|row| row.bits_per_item.is_some()));
        assert!(record.date.ends_with('Z') && record.date.len() == 20);
        value["rows"][0]["mean"] = 1.0.into();
        let error = serde_json::from_value::<Record>(value).unwrap_err();
        assert!(error.to_string().contains("unknown field `mean`"), "{error}");
    }

    #[test]
    fn every_committed_record_has_this_schema() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/record");
        let mut found = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                // Records of other programs.
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let record: Record = serde_json::from_str(&text)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert_eq!(record.schema, SCHEMA, "{}", path.display());
            found += 1;
        }
        assert!(found > 0, "no records in {folder}");
    }
}
