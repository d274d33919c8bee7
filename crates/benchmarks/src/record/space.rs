//! [`Space`]: what structures take and how often they are wrong, both measured.

use serde::{Deserialize, Serialize};

/// One structure over a set, asked about strangers.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Space {
    /// `gcs`, `bloom`, `binary-fuse-8`, `binary-fuse-16`, `binary-fuse-32` or `elias-fano`.
    pub structure: String,
    /// As people write them: `P = 10, M = 1533`; `k = 7`.
    pub parameters: String,
    /// What it is here to be held against, where that is one thing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Items in the set.
    pub n: u64,
    /// The bytes that it takes, measured, as bits an item.
    pub bits_per_item: f64,
    /// How often it ought to say "maybe" of a stranger.
    pub designed_rate: f64,
    /// Strangers that it was asked about.
    pub asked: u64,
    /// How many of them it said "maybe" of.
    pub false_positives: u64,
}

impl Space {
    /// How often it said "maybe" of a stranger; 0 where it never did.
    #[must_use]
    pub fn measured_rate(&self) -> f64 {
        self.false_positives as f64 / self.asked.max(1) as f64
    }
}

/// The Bloom filter of an article about names in smart contracts, beside what else could hold them.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Names {
    /// Names in the set.
    pub n: u64,
    /// Bits of the Bloom filter.
    pub bits: u64,
    /// Bits that a name sets.
    pub k: u32,
    /// Other names that it was asked about.
    pub asked: u64,
    /// How many of them it said "maybe" of.
    pub false_positives: u64,
    /// `(1 - e^(-kn/m))^k`.
    pub formula_rate: f64,
    /// `m/n ln 2`.
    pub best_k: f64,
    /// What else could hold the names.
    pub others: Vec<Space>,
}

impl Names {
    /// How often the article's filter said "maybe" of a name that is not in it.
    #[must_use]
    pub fn measured_rate(&self) -> f64 {
        self.false_positives as f64 / self.asked.max(1) as f64
    }
}
