//! Records of benchmarks and of fuzzing campaigns as one page that a person reads in a minute, and as what
//! benchmark services read.
//!
//! [`records`] and [`fuzzing`] read what was measured, [`page`] writes it as HTML with charts from [`chart`],
//! [`export`] as the files of github-action-benchmark and Bencher, [`compare`] says what changed between two
//! records, and [`run`] measures. docs/dashboard.md says how it is used, docs/benchmarking.md what a record is.

#![forbid(unsafe_code)]

pub mod chart;
pub mod compare;
pub mod error;
pub mod export;
pub mod files;
pub mod fuzzing;
#[cfg(test)]
mod made;
pub mod number;
pub mod page;
pub mod records;
pub mod run;
pub mod space;
pub mod standing;
