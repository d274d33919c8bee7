//! [`FollowError`].

use std::fmt;
use std::io;
use std::path::PathBuf;

use nutfilter::segment::SegmentError;
use nutfilter_cashu::state_filters::manifest::{CODE_UNKNOWN_KIND, CODE_UNKNOWN_OBJECT};
use nutfilter_cashu::state_filters::{Event, SequenceError, StateFilterError};

use super::MIN_WIDTH;
use crate::error::{FetchError, RejectReason};

/// Why a sequence cannot be followed. The bookmark stays where it was.
#[derive(Debug)]
#[non_exhaustive]
pub enum FollowError {
    /// A request failed.
    Fetch(FetchError),
    /// The manifest or the info document is invalid: for example, it has a gap.
    List(SequenceError),
    /// The manifest is of another kind.
    OtherKind {
        /// The kind in the manifest.
        kind: Event,
    },
    /// The manifest does not cover this state.
    State {
        /// The missing state.
        state: &'static str,
    },
    /// The universe is so narrow that most candidates would match.
    Narrow {
        /// The width in the manifest.
        width: u32,
    },
    /// A time in the list is too far in the future.
    Future {
        /// The time, in Unix seconds.
        time: u64,
        /// The latest accepted time.
        latest: u64,
    },
    /// The sequence has started again: it is shorter than before.
    Restarted {
        /// What became smaller.
        what: &'static str,
        /// The number now.
        now: u64,
        /// The number at the bookmark.
        before: u64,
    },
    /// The manifest does not descend from the one at the bookmark.
    Forked {
        /// Number of the first manifest that has another hash than expected.
        number: u64,
    },
    /// Something sealed has changed.
    Changed {
        /// `segment` or `block`.
        what: &'static str,
        /// Start of its interval.
        start: u64,
        /// End of its interval.
        end: u64,
    },
    /// An object has another length than listed.
    Length {
        /// Start of its interval.
        start: u64,
        /// Number of bytes received.
        bytes: u64,
        /// Number of bytes listed.
        listed: u64,
    },
    /// A segment has another SHA-256 than listed.
    Hash {
        /// Start of its interval.
        start: u64,
        /// End of its interval.
        end: u64,
    },
    /// A segment is invalid.
    Segment {
        /// Start of its interval.
        start: u64,
        /// Its fault.
        error: SegmentError,
    },
    /// A segment has another width or number of values than listed.
    SegmentFields {
        /// Start of its interval.
        start: u64,
        /// Width and number of values in the segment.
        found: (u32, u32),
        /// Width and number of values in the manifest.
        listed: (u32, u32),
    },
    /// A block is invalid.
    Block {
        /// Its height.
        height: u64,
        /// Its fault.
        error: StateFilterError,
    },
    /// A sealed block lacks bits that it had while it was open. A cache between the mint and the wallet may have an
    /// old copy. Try again later.
    Stale {
        /// Its height.
        height: u64,
    },
    /// A boundary between segments lies before the end of the bookmark and was not one of its boundaries.
    Boundary {
        /// Start of the segment.
        start: u64,
        /// End of the segment.
        end: u64,
        /// The end of the bookmark.
        seen: u64,
    },
    /// A listed object is not served. Plan again.
    Gone {
        /// Start of its interval.
        start: u64,
        /// End of its interval.
        end: u64,
    },
    /// A merge is not the union of its parts.
    Compaction {
        /// Start of the interval.
        start: u64,
        /// End of the interval.
        end: u64,
        /// Number of values of the union.
        expected: u32,
        /// Number of values listed.
        listed: u32,
    },
    /// The bookmark cannot be used.
    Bookmark {
        /// The file, or the directory.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The bookmark belongs to another mint, kind or format.
    OtherBookmark {
        /// What differs.
        what: &'static str,
        /// The value in the bookmark.
        bookmark: String,
        /// The value asked for.
        asked: String,
    },
}

impl FollowError {
    /// Whether the mint does not have what was asked for.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Fetch(error) if not_found(error))
    }

    pub(super) fn bookmark(path: &std::path::Path, error: &io::Error) -> Self {
        let (path, why) = (path.to_owned(), error.to_string());
        Self::Bookmark { path, why }
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

impl From<FetchError> for FollowError {
    fn from(error: FetchError) -> Self {
        Self::Fetch(error)
    }
}

impl From<SequenceError> for FollowError {
    fn from(error: SequenceError) -> Self {
        Self::List(error)
    }
}

impl fmt::Display for FollowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fetch(error) => error.fmt(f),
            Self::List(error) => error.fmt(f),
            Self::OtherKind { kind } => write!(f, "the manifest is of another kind, {kind}"),
            Self::State { state } => write!(f, "the mint's segments do not cover {state}"),
            Self::Narrow { width } => write!(
                f,
                "segments have a width of {width} bits; at least {MIN_WIDTH} are accepted"
            ),
            Self::Future { time, latest } => write!(
                f,
                "the list is dated {time}, {} s too far in the future",
                time.saturating_sub(*latest)
            ),
            Self::Restarted { what, now, before } => write!(
                f,
                "the sequence has restarted: its {what} is {now}, and was {before}"
            ),
            Self::Forked { number } => write!(
                f,
                "the manifest does not descend from the one at the bookmark: manifest {number} has changed"
            ),
            Self::Changed { what, start, end } => {
                write!(f, "sealed {what} {start}-{end} has changed")
            }
            Self::Length {
                start,
                bytes,
                listed,
            } => write!(
                f,
                "segment from {start} has {bytes} bytes; the manifest lists {listed}"
            ),
            Self::Hash { start, end } => write!(
                f,
                "segment {start}-{end} has another SHA-256 than the manifest lists"
            ),
            Self::Segment { start, error } => write!(f, "segment from {start}: {error}"),
            Self::SegmentFields {
                start,
                found,
                listed,
            } => write!(
                f,
                "segment from {start} has width {} and {} values; the manifest lists {} and {}",
                found.0, found.1, listed.0, listed.1
            ),
            Self::Block { height, error } => write!(f, "block {height}: {error}"),
            Self::Stale { height } => write!(
                f,
                "sealed block {height} lacks bits that it had while it was open; if a cache has an old copy, try again later"
            ),
            Self::Boundary { start, end, seen } => write!(
                f,
                "the boundaries of segment {start}-{end} were moved: before {seen}, only the old ones are possible"
            ),
            Self::Gone { start, end } => {
                write!(f, "segment {start}-{end} is listed but not served")
            }
            Self::Compaction {
                start,
                end,
                expected,
                listed,
            } => write!(
                f,
                "merged segment {start}-{end} is not the union of its parts: they have {expected} \
                 values, it has {listed}"
            ),
            Self::Bookmark { path, why } => write!(f, "{}: {why}", path.display()),
            Self::OtherBookmark {
                what,
                bookmark,
                asked,
            } => write!(
                f,
                "the bookmark is of {what} {bookmark}, not {asked}; use another directory"
            ),
        }
    }
}

impl std::error::Error for FollowError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Fetch(error) => Some(error),
            Self::List(error) => Some(error),
            Self::Segment { error, .. } => Some(error),
            Self::Block { error, .. } => Some(error),
            _ => None,
        }
    }
}
