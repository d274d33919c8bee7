//! The answers of a look-up, and the reasons to doubt them.

use std::fmt;

use nutfilter_cashu::{KeysetId, NoteKind};

use crate::dialect::OtherDialect;
use crate::mint_filter::Answer;

/// The origin of a filter: mint, keyset and kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilterSource {
    /// The mint's base URL, without a slash at the end.
    pub mint: String,
    /// The keyset.
    pub keyset: KeysetId,
    /// Spent notes or issued ones.
    pub kind: NoteKind,
}

/// A warning about a look-up that the wallet's user should see. The answers are returned nevertheless.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Warning {
    /// The filter may have been made with another hash, but it is not certain.
    PossibleOtherDialect(OtherDialect),
    /// The filter is more than a day old: what was spent since then is missing.
    OldFilter {
        /// The filter's time, in Unix seconds.
        as_of: u64,
        /// Its age by the wallet's clock, in seconds.
        age: u64,
    },
    /// The `spent` filter is more than an hour older than the `issued` one: notes spent in between count as live.
    StaleSpent {
        /// By how many seconds it is older.
        by: u64,
    },
    /// Fewer than half of the expected items match. A filter has no false negatives. Either the wallet's records
    /// are wrong, or the filter is old, incomplete, or made with an unknown hash.
    FewMatches {
        /// Items that matched.
        matches: u64,
        /// Items that were looked up.
        lookups: u64,
        /// Items that are in the set according to the wallet's records.
        expected: u64,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::PossibleOtherDialect(other) => other.fmt(f),
            Warning::OldFilter { as_of, age } => write!(
                f,
                "the filter is {} days old (as of {as_of}): notes spent since then are missing",
                age / 86_400
            ),
            Warning::StaleSpent { by } => write!(
                f,
                "the filter of spent notes is {by} s older than that of issued notes: notes spent in between count as live"
            ),
            Warning::FewMatches {
                matches,
                lookups,
                expected,
            } => write!(
                f,
                "only {matches} of {lookups} items match, expected {expected}: the filter may be \
                 old, incomplete, or made with an unknown hash"
            ),
        }
    }
}

impl Warning {
    pub(crate) fn is_about_the_hash(&self) -> bool {
        matches!(self, Warning::PossibleOtherDialect(_))
    }
}

/// The answers of a look-up.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Matches {
    /// One for each item, in order.
    pub answers: Vec<Answer>,
    /// Reasons to doubt the answers; usually empty.
    pub warnings: Vec<Warning>,
}
