//! Reports of a refresh: its progress, its result and its errors.

use std::io;
use std::time::Duration;

use crate::source::{SourceError, Transient};
use crate::{KeysetId, NoteKind, StateError};

/// Progress of a refresh.
#[derive(Clone, Copy, Debug)]
pub struct RefreshProgress<'a> {
    /// The keyset being read.
    pub keyset: &'a KeysetId,
    /// The kind being read.
    pub kind: NoteKind,
    /// Number of its items read so far.
    pub items: u64,
}

/// One reading of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadingReport {
    /// The kind.
    pub kind: NoteKind,
    /// Whether everything was read, and not only the new items.
    pub whole: bool,
    /// Number of items read, over all keysets.
    pub items: u64,
    /// Number of earlier items that are no longer in the database. Only a full reading can tell: `None` after any
    /// other reading, after the first one, and if the earlier state was damaged.
    pub lost: Option<u64>,
    /// Time to read the rows.
    pub read: Duration,
    /// Time to hash the items.
    pub hash: Duration,
    /// Time to sort the new hashes and to merge them with the old ones.
    pub sort: Duration,
}

/// Time that each stage of building a filter took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageTimes {
    /// Mapping, differences, Golomb-Rice coding.
    pub encode: Duration,
    /// Base64, JSON, compression.
    pub body: Duration,
}

/// A filter that was built.
#[derive(Clone, Debug)]
pub struct FilterReport {
    /// The keyset.
    pub keyset: KeysetId,
    /// The kind.
    pub kind: NoteKind,
    /// The number of items.
    pub n: u32,
    /// The length of the filter, in bytes.
    pub filter_bytes: usize,
    /// The length of the response, in bytes.
    pub body_bytes: usize,
    /// The timestamp in the response, in Unix seconds.
    pub timestamp: u64,
    /// Time per stage.
    pub times: StageTimes,
}

/// A filter that could not be built. The previous one, if any, is still served.
#[derive(Debug)]
pub struct FilterFailure {
    /// The keyset; `None` means all keysets.
    pub keyset: Option<KeysetId>,
    /// The kind.
    pub kind: NoteKind,
    /// The error.
    pub error: RefreshError,
}

/// Result of a refresh.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct RefreshReport {
    /// Time to list the keysets.
    pub list: Duration,
    /// Total time until the new snapshot was served.
    pub total: Duration,
    /// One report per reading.
    pub readings: Vec<ReadingReport>,
    /// The filters that were built. An unchanged filter is not built again, unless it is due for a new timestamp.
    pub filters: Vec<FilterReport>,
    /// The filters that could not be built.
    pub failures: Vec<FilterFailure>,
}

impl RefreshReport {
    /// Whether everything was built and is served.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.failures.is_empty()
    }
}

/// Why one filter or all filters could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RefreshError {
    /// The mint's records could not be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A set could not be stored, or cannot be encoded as a filter.
    #[error(transparent)]
    State(#[from] StateError),
    /// The source's own count differs from the number of items received: some items were lost on the way.
    #[error("source counted {said} items but returned {came}")]
    Miscounted {
        /// The count that the source returned.
        said: u64,
        /// The number of items received.
        came: u64,
    },
    /// A body could not be written to its [`BodyPlace`](crate::BodyPlace).
    #[error("could not write a filter body: {0}")]
    Body(#[source] io::Error),
}

impl Transient for RefreshError {
    fn is_transient(&self) -> bool {
        matches!(self, RefreshError::Source(error) if error.is_transient())
    }
}
