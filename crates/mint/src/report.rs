//! What a refresh has to tell: while it runs, and when it is over.

use std::time::Duration;

use crate::error::PublishError;
use crate::{KeysetId, Kind};

/// How far a refresh has come.
#[derive(Clone, Copy, Debug)]
pub struct RefreshProgress<'a> {
    /// The keyset that is being read.
    pub keyset: &'a KeysetId,
    /// The kind that is being read.
    pub kind: Kind,
    /// How many of its items were read so far.
    pub items: u64,
}

/// What was read of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadingReport {
    /// The kind.
    pub kind: Kind,
    /// Whether everything was read, and not what is new alone.
    pub whole: bool,
    /// How many items were read, of all keysets.
    pub items: u64,
    /// How many items that were held before are no longer in the database. Only reading everything can tell: `None`
    /// after any other reading, after the first one, and if the earlier state was damaged.
    pub lost: Option<u64>,
    /// The time that reading the rows took.
    pub read: Duration,
    /// The time that hashing took.
    pub hash: Duration,
    /// The time that sorting took, and putting the new hashes among the old.
    pub sort: Duration,
}

/// The time that each stage of making a filter took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageTimes {
    /// Mapping, differences, Golomb-Rice coding.
    pub encode: Duration,
    /// Base64, JSON, compression.
    pub publish: Duration,
}

/// A filter that was built.
#[derive(Clone, Debug)]
pub struct FilterReport {
    /// The keyset.
    pub keyset: KeysetId,
    /// The kind.
    pub kind: Kind,
    /// The number of items.
    pub n: u32,
    /// The length of the filter, in bytes.
    pub filter_bytes: usize,
    /// The length of the response, in bytes.
    pub body_bytes: usize,
    /// The timestamp in the response, in Unix seconds.
    pub timestamp: u64,
    /// What took how long.
    pub times: StageTimes,
}

/// A filter that could not be built. The one before it, if there is one, goes on being served.
#[derive(Debug)]
pub struct FilterFailure {
    /// The keyset; `None` if it is all of them.
    pub keyset: Option<KeysetId>,
    /// The kind.
    pub kind: Kind,
    /// What happened.
    pub error: PublishError,
}

/// What a refresh did.
#[derive(Debug, Default)]
pub struct RefreshReport {
    /// How long it took to list the keysets.
    pub list: Duration,
    /// How long everything took, until the new snapshot was being served.
    pub total: Duration,
    /// What was read.
    pub readings: Vec<ReadingReport>,
    /// What was built. A filter that nothing was added to is not built again, unless it is due for a new timestamp.
    pub filters: Vec<FilterReport>,
    /// What was not.
    pub failures: Vec<FilterFailure>,
}
