//! Errors of asking a mint about matches.

use std::time::Duration;

use thiserror::Error;

use crate::answer_fault::AnswerFault;
use crate::error::{CheckError, FetchError};
use crate::matches::FilterSource;
use crate::point_source::PointsError;

/// Why the mint's answers about the matches are unknown. An error never means "unspent" or "not signed".
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The filters or the candidates are unusable. Nothing was sent.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// A filter is of another mint, another keyset, or the other kind. Nothing was sent.
    #[error("not the filter of this restore: {} notes of keyset {} at {}", .0.kind, .0.keyset, .0.mint)]
    OtherSource(Box<FilterSource>),
    /// The wallet's own points could not be derived. Nothing was sent.
    #[error("could not derive the wallet's points: {0}")]
    Points(PointsError),
    /// The operating system's random number generator failed. Nothing was sent.
    #[error("the operating system provided no randomness")]
    Randomness,
    /// The request failed: no complete answer, or an error answer.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The answer is complete but inconsistent with the request.
    #[error(transparent)]
    Answer(#[from] AnswerFault),
    /// Most matches are not in the set, according to the mint's answers. Either the filter was made to match more items, or
    /// the answers are wrong. Nothing more is sent; what was answered is kept.
    #[error(
        "the mint contradicts its filter: {not_in_set} of {asked} matches are not in its set; \
         false positives explain at most {limit}"
    )]
    Contradicted {
        /// Matches that are not in the set according to the mint.
        not_in_set: u64,
        /// Matches answered so far.
        asked: u64,
        /// The maximum that chance explains, see [`match_limit`](crate::match_limit).
        limit: u64,
    },
    /// The mint asks to wait longer than the time limit allows.
    #[error("the mint asks to wait {} s, which is beyond the time limit", .wait.as_secs())]
    RateLimited {
        /// The wait.
        wait: Duration,
    },
    /// Not all requests were answered within the time limit.
    #[error("not finished within {} s", .limit.as_secs_f64())]
    OutOfTime {
        /// The time limit.
        limit: Duration,
    },
    /// The mint has not answered about some notes, or nothing more may be sent.
    #[error("the mint did not answer for {left} notes")]
    Unfinished {
        /// Notes without an answer.
        left: usize,
    },
}
