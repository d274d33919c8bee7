//! [`Baseline`]: accepted instruction counts, and a comparison with new counts.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

/// A row fails if its count rises by more than this many percent.
pub const ALLOWED: u64 = 2;

/// Instruction counts of a build.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Baseline {
    /// The compiler. Counts of different compilers cannot be compared.
    pub rustc: String,
    /// Instructions per call, by row name.
    pub instructions: BTreeMap<String, u64>,
}

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// One line per row, then what to do.
    pub report: String,
    /// Whether a count rose by more than [`ALLOWED`] percent or a row is missing.
    pub failed: bool,
}

impl Baseline {
    /// Compares `counted` with this baseline. Rows at levels outside `levels` cannot be counted and are skipped.
    #[must_use]
    pub fn compare(&self, counted: &Self, levels: &[&str]) -> Comparison {
        let mut report = format!("{:>12} {:>12} {:>8}\n", "accepted", "counted", "");
        let (mut rose, mut fell, mut unknown) = (0, 0, 0);
        for (name, &now) in &counted.instructions {
            let Some(&before) = self.instructions.get(name) else {
                unknown += 1;
                let _ = writeln!(report, "{:>12} {now:>12} {:>8} {name}  NEW", "-", "");
                continue;
            };
            let change = now as f64 / before.max(1) as f64 - 1.0;
            let mark = if now * 100 > before * (100 + ALLOWED) {
                rose += 1;
                "  ROSE"
            } else if now * 100 < before * (100 - ALLOWED) {
                fell += 1;
                "  fell"
            } else {
                ""
            };
            let percent = change * 100.0;
            let _ = writeln!(
                report,
                "{before:>12} {now:>12} {percent:>+7.2}% {name}{mark}"
            );
        }
        let mut gone = 0;
        for (name, before) in &self.instructions {
            if counted.instructions.contains_key(name) {
                continue;
            }
            let level = name.rsplit('/').next().unwrap_or_default();
            let mark = if levels.contains(&level) {
                gone += 1;
                "MISSING"
            } else {
                "level not on this machine"
            };
            let _ = writeln!(report, "{before:>12} {:>12} {:>8} {name}  {mark}", "-", "");
        }
        let _ = writeln!(
            report,
            "{rose} rose by more than {ALLOWED} %, {fell} fell, {unknown} new, {gone} missing"
        );
        let mut failed = rose + gone > 0;
        if self.rustc != counted.rustc {
            failed = false;
            let _ = writeln!(
                report,
                "warning: the baseline was made with {}, this is {}: counts cannot be compared. Make a new baseline \
                 with the compiler that CI uses.",
                self.rustc, counted.rustc
            );
        } else if failed || fell + unknown > 0 {
            report += "if this is intended, accept the counts and give the reason in the commit message:\n    \
                       just instructions --accept\n";
        }
        Comparison { report, failed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn baseline(counts: &[(&str, u64)]) -> Baseline {
        let counts = counts.iter().map(|&(name, count)| (name.to_owned(), count));
        Baseline {
            rustc: "rustc 1".to_owned(),
            instructions: counts.collect(),
        }
    }

    #[test]
    fn only_a_rise_above_the_allowance_fails() {
        let accepted = baseline(&[("decode/plain/20k/portable", 10_000)]);
        for (count, failed, mark) in [
            (0, false, "fell"),
            (9_799, false, "fell"),
            (9_801, false, ""),
            (10_200, false, ""),
            (10_201, true, "ROSE"),
        ] {
            let counted = baseline(&[("decode/plain/20k/portable", count)]);
            let comparison = accepted.compare(&counted, &["portable"]);
            assert_eq!(comparison.failed, failed, "{count}");
            assert!(comparison.report.contains(mark), "{}", comparison.report);
            assert_eq!(
                comparison.report.contains("--accept"),
                !mark.is_empty(),
                "{count}"
            );
        }
    }

    #[test]
    fn missing_rows_fail_unless_the_level_is_unavailable() {
        let accepted = baseline(&[("hash/nut23/20k/avx2", 5), ("hash/nut23/20k/portable", 9)]);
        let counted = baseline(&[("hash/nut23/20k/portable", 9)]);
        assert!(!accepted.compare(&counted, &["portable"]).failed);
        assert!(accepted.compare(&counted, &["portable", "avx2"]).failed);
        let comparison = counted.compare(&accepted, &["portable", "avx2"]);
        assert!(!comparison.failed && comparison.report.contains("NEW"));
    }

    #[test]
    fn counts_of_another_compiler_do_not_fail() {
        let accepted = baseline(&[("hash/nut23/20k/portable", 9)]);
        let mut counted = baseline(&[("hash/nut23/20k/portable", 90)]);
        assert!(accepted.compare(&counted, &["portable"]).failed);
        counted.rustc = "rustc 2".to_owned();
        let comparison = accepted.compare(&counted, &["portable"]);
        assert!(!comparison.failed && comparison.report.contains("warning"));
    }
}
