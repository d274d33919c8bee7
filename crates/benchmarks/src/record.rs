//! [`Record`]: one run as one JSON document. docs/benchmarking.md describes every field, and
//! [`schema::check`](crate::schema::check) holds a document against that description.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::machine::{Build, Machine, Source};
use crate::schedule::{Effort, Series, median, minimum};
use crate::{Group, Who};

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
}

/// How much was measured.
#[derive(Clone, Debug, Deserialize, Serialize)]
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
    /// `ours`, `naive` or `peer`.
    pub kind: String,
    /// Of ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// How many.
    pub threads: usize,
    /// Whether it reads or makes the bits of this format.
    pub same_format: bool,
    /// Units a call.
    pub n: u64,
    /// Of the two times.
    pub unit: String,
    /// Over all samples.
    pub minimum: f64,
    /// Over all samples.
    pub median: f64,
    /// How many.
    pub samples: usize,
    /// Of a structure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bits_per_item: Option<f64>,
    /// Of a structure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub false_positive_rate: Option<f64>,
}

/// One of our rows against another row.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Ratio {
    /// Our row.
    pub name: String,
    /// The other one.
    pub against: String,
    /// What the other one is.
    pub role: String,
    /// Its time by ours.
    pub ratio_of_minima: f64,
    /// Its time by ours.
    pub ratio_of_medians: f64,
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
        }
    }

    /// Adds the rows of a group and what they are against one another.
    pub fn add(&mut self, group: &Group<'_>, measured: &[Series]) {
        let added = self.rows.len();
        let rows = measured.iter().map(|series| RowRecord::of(group, series));
        self.rows.extend(rows);
        self.ratios.extend(ratios(&self.rows[added..]));
    }

    /// Writes the date: the run is over.
    pub fn finish(&mut self) {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH);
        self.date = date(seconds.map_or(0, |since| since.as_secs()));
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
        };
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
            same_format: !matches!(
                row.who,
                Who::Peer {
                    same_format: false,
                    ..
                }
            ),
            n: group.n,
            unit: format!("ns/{}", group.per),
            minimum: minimum(&series.nanoseconds) / n,
            median: median(&series.nanoseconds) / n,
            samples: series.nanoseconds.len(),
            bits_per_item: row.bits_per_item,
            false_positive_rate: row.false_positive_rate,
        }
    }
}

/// Each of our rows against the naive one, the one put together, and the best peers.
fn ratios(rows: &[RowRecord]) -> Vec<Ratio> {
    let best = |same_format: bool| {
        let peers = rows.iter().filter(|row| row.kind == "peer");
        let peers = peers.filter(|row| row.same_format == same_format);
        peers.min_by(|a, b| a.minimum.total_cmp(&b.minimum))
    };
    let others = [
        ("naive", rows.iter().find(|row| row.kind == "naive")),
        (
            "put-together",
            rows.iter().find(|row| row.who == PUT_TOGETHER),
        ),
        ("best-peer", best(true)),
        ("best-other-format", best(false)),
    ];
    let mut ratios = Vec::new();
    for ours in rows.iter().filter(|row| row.kind == "ours") {
        for (role, other) in others {
            let Some(other) = other else { continue };
            ratios.push(Ratio {
                name: ours.name.clone(),
                against: other.name.clone(),
                role: role.to_owned(),
                ratio_of_minima: other.minimum / ours.minimum,
                ratio_of_medians: other.median / ours.median,
            });
        }
    }
    ratios
}

/// Seconds since 1970 as `2026-01-31T23:59:59Z`.
fn date(seconds: u64) -> String {
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    let (mut year, mut left) = (1970, days);
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    while left >= 365 + u64::from(is_leap(year)) {
        left -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if left < days {
            break;
        }
        left -= days;
        month += 1;
    }
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let day = left + 1;
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_leap_years_and_of_year_ends() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (1_735_689_600, "2025-01-01T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(date(seconds), expected);
        }
    }

    fn row(who: &str, kind: &str, same_format: bool, minimum: f64) -> RowRecord {
        RowRecord {
            name: format!("decode/sum/1m/{who}"),
            stage: "decode".into(),
            task: "sum".into(),
            size: "1m".into(),
            who: who.into(),
            kind: kind.into(),
            level: None,
            threads: 1,
            same_format,
            n: 1,
            unit: "ns/item".into(),
            minimum,
            median: minimum * 2.0,
            samples: 3,
            bits_per_item: None,
            false_positive_rate: None,
        }
    }

    #[test]
    fn each_of_our_rows_is_held_against_each_role_that_is_there() {
        let rows = [
            row("naive", "naive", true, 30.0),
            row("avx2", "ours", true, 2.0),
            row("slow", "peer", true, 20.0),
            row(PUT_TOGETHER, "peer", true, 4.0),
            row("other", "peer", false, 1.0),
        ];
        let ratios = ratios(&rows);
        let of = |role| {
            let mut found = ratios.iter().filter(|ratio| ratio.role == role);
            let ratio = found.next().unwrap();
            assert!(found.next().is_none() && ratio.name == "decode/sum/1m/avx2");
            (
                ratio.against.rsplit('/').next().unwrap(),
                ratio.ratio_of_minima,
            )
        };
        assert_eq!(of("naive"), ("naive", 15.0));
        assert_eq!(of("put-together"), (PUT_TOGETHER, 2.0));
        assert_eq!(of("best-peer"), (PUT_TOGETHER, 2.0));
        assert_eq!(of("best-other-format"), ("other", 0.5));
        assert_eq!(super::ratios(&rows[1..2]).len(), 0);
    }
}
