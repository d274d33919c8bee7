//! [`FollowError`].

use std::fmt::Display;
use std::path::Path;

use nutfilter_cashu::state_filters::SequenceError;
use nutfilter_cashu::state_filters::manifest::{CODE_UNKNOWN_KIND, CODE_UNKNOWN_OBJECT};
use thiserror::Error;

use crate::error::{FetchError, RejectReason};

/// Why a sequence cannot be followed. The bookmark stays where it was.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FollowError {
    /// A request failed.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// A listed object is not served. Plan again.
    #[error("segment {start}-{end} is listed but not served")]
    Gone {
        /// Start of its interval.
        start: u64,
        /// End of its interval.
        end: u64,
    },
    /// A sealed block lacks bits that it had while it was open. A cache between the mint and the wallet may have an
    /// old copy. Try again later.
    #[error(
        "sealed block {height} lacks bits that it had while it was open; if a cache has an old copy, try again later"
    )]
    Stale {
        /// Its height.
        height: u64,
    },
    /// A list or an object is invalid, or contradicts the list, the bookmark, or the wallet's own copies.
    #[error("{0}")]
    Invalid(String),
    /// The bookmark or a copy cannot be read or written, or belongs to another mint, kind or format.
    #[error("{0}")]
    Bookmark(String),
}

impl FollowError {
    /// Whether the mint does not have what was asked for.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Fetch(error) if not_found(error))
    }

    pub(super) fn invalid(message: impl Display) -> Self {
        Self::Invalid(message.to_string())
    }

    pub(super) fn bookmark(path: &Path, why: impl Display) -> Self {
        Self::Bookmark(format!("{}: {why}", path.display()))
    }

    pub(super) fn changed(what: &str, start: u64, end: u64) -> Self {
        Self::Invalid(format!("sealed {what} {start}-{end} has changed"))
    }

    pub(super) fn restarted(what: &str, now: u64, before: u64) -> Self {
        Self::Invalid(format!(
            "the sequence has restarted: its {what} is {now}, and was {before}"
        ))
    }

    /// `number` is that of the first manifest that has another hash than expected.
    pub(super) fn forked(number: u64) -> Self {
        Self::Invalid(format!(
            "the manifest does not descend from the one at the bookmark: manifest {number} has changed"
        ))
    }

    pub(super) fn future(time: u64, latest: u64) -> Self {
        Self::Invalid(format!(
            "the list is dated {time}, {} s too far in the future",
            time.saturating_sub(latest)
        ))
    }
}

impl From<SequenceError> for FollowError {
    fn from(error: SequenceError) -> Self {
        Self::invalid(error)
    }
}

/// Whether the mint does not have the object: status 404, as of files, or an error code of the draft.
pub(super) fn not_found(error: &FetchError) -> bool {
    match error {
        FetchError::Refused(RejectReason::Status { status }) => *status == 404,
        FetchError::Refused(RejectReason::Mint(error)) => {
            let codes = [CODE_UNKNOWN_OBJECT, CODE_UNKNOWN_KIND];
            error.status == 404 || error.code.is_some_and(|code| codes.contains(&code))
        }
        _ => false,
    }
}
