//! [`Standing`]: one of our rows beside another of its group.

use nutfilter_benchmarks::record::{PUT_TOGETHER, Record, RowRecord};

use crate::records::items;

/// What the other row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Bit by bit.
    Naive,
    /// The best parts of several libraries.
    PutTogether,
    /// The fastest library that reads or makes the same bits.
    Library,
    /// The fastest structure of another format.
    OtherFormat,
    /// What the hardware takes to move the bytes.
    Limit,
}

impl Role {
    /// All of them, as the page lists them.
    pub const ALL: [Self; 5] = [
        Self::Naive,
        Self::PutTogether,
        Self::Library,
        Self::OtherFormat,
        Self::Limit,
    ];

    /// The name of its series.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Naive => "naive",
            Self::PutTogether => "put-together",
            Self::Library => "library",
            Self::OtherFormat => "other-format",
            Self::Limit => "limit",
        }
    }

    fn has(self, row: &RowRecord) -> bool {
        let is_peer = row.kind == "peer";
        match self {
            Self::Naive => row.kind == "naive",
            Self::PutTogether => row.who == PUT_TOGETHER,
            Self::Library => is_peer && row.same_format && row.who != PUT_TOGETHER,
            Self::OtherFormat => is_peer && !row.same_format,
            Self::Limit => row.kind == "limit",
        }
    }
}

/// One of our rows, and another one of the same stage, task and size.
#[derive(Clone, Copy, Debug)]
pub struct Standing<'r> {
    /// What the other one is.
    pub role: Role,
    /// Ours, on one thread, at the best level.
    pub ours: &'r RowRecord,
    /// The other one.
    pub other: &'r RowRecord,
}

impl Standing<'_> {
    /// Its median by ours: above 1, we are faster.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.other.median / self.ours.median
    }

    /// Its minimum by ours.
    #[must_use]
    pub fn ratio_of_minima(&self) -> f64 {
        self.other.minimum / self.ours.minimum
    }

    /// Its lower quartile by our upper one, and its upper by our lower; nothing where a record has no quartiles.
    #[must_use]
    pub fn spread(&self) -> Option<(f64, f64)> {
        let quartiles = |row: &RowRecord| row.lower_quartile.zip(row.upper_quartile);
        Some(by(quartiles(self.other)?, quartiles(self.ours)?))
    }
}

/// From where to where a quotient lies of two figures that lie within these.
#[must_use]
pub fn by(above: (f64, f64), below: (f64, f64)) -> (f64, f64) {
    (above.0 / below.1, above.1 / below.0)
}

/// Our row of a task on one thread, at the best level that it has.
#[must_use]
pub fn best_ours<'r>(record: &'r Record, path: &str) -> Option<&'r RowRecord> {
    let rank = |row: &RowRecord| {
        let level = row.level.as_deref().unwrap_or_default();
        record.levels.iter().position(|known| known == level)
    };
    let ours = of_path(record, path).filter(|row| row.kind == "ours" && row.threads == 1);
    ours.max_by_key(|row| rank(row))
}

/// How our best row of `stage/task/size` stands beside the fastest row of a role.
#[must_use]
pub fn standing<'r>(record: &'r Record, path: &str, role: Role) -> Option<Standing<'r>> {
    let ours = best_ours(record, path)?;
    let others = of_path(record, path).filter(|row| role.has(row) && row.threads == 1);
    let other = others.min_by(|a, b| a.median.total_cmp(&b.median))?;
    Some(Standing { role, ours, other })
}

/// The same at the largest size at which both are there.
#[must_use]
pub fn largest<'r>(
    record: &'r Record,
    stage: &str,
    task: &str,
    role: Role,
) -> Option<Standing<'r>> {
    let sizes = sizes(record, stage, task).into_iter().rev();
    let mut found =
        sizes.filter_map(|size| standing(record, &format!("{stage}/{task}/{size}"), role));
    found.next()
}

/// The sizes at which a task was measured, as names write them, the smallest first.
#[must_use]
pub fn sizes<'r>(record: &'r Record, stage: &str, task: &str) -> Vec<&'r str> {
    let rows = record
        .rows
        .iter()
        .filter(|row| row.stage == stage && row.task == task);
    let mut sizes: Vec<(u64, &str)> = rows.map(|row| (items(row), row.size.as_str())).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes.into_iter().map(|(_, size)| size).collect()
}

fn of_path<'r>(record: &'r Record, path: &str) -> impl Iterator<Item = &'r RowRecord> {
    let prefix = format!("{path}/");
    record
        .rows
        .iter()
        .filter(move |row| row.name.starts_with(&prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made;

    #[test]
    fn ours_is_the_best_level_on_one_thread() {
        let record = made::record();
        let ours = best_ours(&record, "decode/plain/10m").unwrap();
        assert_eq!(ours.name, "decode/plain/10m/avx512");
        assert!(best_ours(&record, "decode/plain/1").is_none(), "1m is no 1");
    }

    #[test]
    fn each_role_is_held_at_the_largest_size_that_both_have() {
        let record = made::record();
        let of = |role| {
            let standing = largest(&record, "decode", "plain", role)?;
            Some((standing.other.name.clone(), standing.ratio()))
        };
        assert_eq!(
            of(Role::Naive),
            Some(("decode/plain/1m/naive".to_owned(), 40.0))
        );
        assert_eq!(
            of(Role::PutTogether),
            Some(("decode/plain/10m/put-together".to_owned(), 8.0))
        );
        assert_eq!(
            of(Role::Library),
            Some(("decode/plain/10m/rust-bitcoin".to_owned(), 20.0))
        );
        assert_eq!(
            of(Role::Limit),
            Some(("decode/plain/10m/memory".to_owned(), 0.25))
        );
        assert_eq!(of(Role::OtherFormat), None);
        let lookup = largest(&record, "lookup", "latency", Role::OtherFormat).unwrap();
        assert_eq!((lookup.ours.who.as_str(), lookup.ratio()), ("avx512", 0.5));
    }

    #[test]
    fn the_spread_is_of_opposite_quartiles_and_unknown_without_them() {
        let mut record = made::record();
        let found = standing(&record, "decode/plain/1m", Role::PutTogether).unwrap();
        let (lowest, highest) = found.spread().unwrap();
        assert!((lowest - 8.0 * 0.98 / 1.05).abs() < 1e-9, "{lowest}");
        assert!((highest - 8.0 * 1.05 / 0.98).abs() < 1e-9, "{highest}");
        for row in &mut record.rows {
            row.lower_quartile = None;
        }
        let found = standing(&record, "decode/plain/1m", Role::PutTogether).unwrap();
        assert_eq!(found.spread(), None);
    }
}
