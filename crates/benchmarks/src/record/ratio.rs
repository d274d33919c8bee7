//! [`Ratio`]: one row by another of its group.

use serde::{Deserialize, Serialize};

use super::{PUT_TOGETHER, RowRecord};

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
    /// Its lower quartile by our upper one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lowest: Option<f64>,
    /// Its upper quartile by our lower one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highest: Option<f64>,
}

impl Ratio {
    fn of(ours: &RowRecord, role: &str, other: &RowRecord) -> Self {
        let by = |other: Option<f64>, ours: Option<f64>| Some(other? / ours?);
        Self {
            name: ours.name.clone(),
            against: other.name.clone(),
            role: role.to_owned(),
            ratio_of_minima: other.minimum / ours.minimum,
            ratio_of_medians: other.median / ours.median,
            lowest: by(other.lower_quartile, ours.upper_quartile),
            highest: by(other.upper_quartile, ours.lower_quartile),
        }
    }
}

/// Each of our rows against the naive one, the one put together, the best peers, and what the hardware takes.
pub(super) fn ratios(rows: &[RowRecord]) -> Vec<Ratio> {
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
        ("limit", rows.iter().find(|row| row.kind == "limit")),
    ];
    let mut ratios = Vec::new();
    for ours in rows.iter().filter(|row| row.kind == "ours") {
        for (role, other) in others {
            let Some(other) = other else { continue };
            // Two threads move more bytes than one, so the limit of one is none for them.
            if role == "limit" && other.threads != ours.threads {
                continue;
            }
            ratios.push(Ratio::of(ours, role, other));
        }
    }
    ratios
}

#[cfg(test)]
mod tests {
    use super::*;

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
            lower_quartile: Some(minimum * 1.5),
            upper_quartile: Some(minimum * 3.0),
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
            row("memory", "limit", false, 0.5),
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
        assert_eq!(of("limit"), ("memory", 0.25));
        assert_eq!(super::ratios(&rows[1..2]).len(), 0);
    }

    #[test]
    fn the_spread_of_a_ratio_is_between_quartiles_that_are_farthest_apart() {
        let mut rows = [
            row("avx2", "ours", true, 2.0),
            row("naive", "naive", true, 30.0),
        ];
        let ratio = &ratios(&rows)[0];
        assert_eq!((ratio.lowest, ratio.highest), (Some(7.5), Some(30.0)));
        // Records that are older than quartiles.
        rows[1].lower_quartile = None;
        let ratio = &ratios(&rows)[0];
        assert_eq!((ratio.lowest, ratio.highest), (None, Some(30.0)));
    }

    #[test]
    fn a_row_of_several_threads_is_not_held_against_the_limit_of_one() {
        let mut rows = [
            row("avx2", "ours", true, 2.0),
            row("memory", "limit", false, 1.0),
        ];
        assert_eq!(ratios(&rows).len(), 1);
        rows[0].threads = 2;
        assert_eq!(ratios(&rows).len(), 0);
    }
}
