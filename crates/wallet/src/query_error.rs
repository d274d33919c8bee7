//! Errors of asking a mint about matches.

use std::time::Duration;

use thiserror::Error;

use crate::error::{CheckError, FetchError};
use crate::matches::FilterSource;
use crate::point_source::PointsError;
use crate::restore_steps::Restore;
#[cfg(feature = "client")]
use crate::restore_steps::{Fallback, RestoreOptions};

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

/// A restore that ended before its end. Nothing that the mint answered is lost.
#[derive(Debug, Error)]
#[error("{cause}")]
pub struct RestoreError {
    /// Why it ended.
    #[source]
    pub cause: QueryError,
    /// The restore with its results so far ([`Restore::so_far`]), for
    /// [`MintClient::resume`](crate::MintClient::resume). `None` if nothing was asked.
    pub unfinished: Option<Box<Restore>>,
}

/// Why a search of both filters ended.
#[derive(Debug, Error)]
#[error("{cause}")]
pub struct SearchError {
    /// Why it ended. Nothing was shown.
    #[source]
    pub cause: QueryError,
    /// Whether the mint has filters: one of them was valid.
    pub has_filters: bool,
}

#[cfg(feature = "client")]
impl SearchError {
    /// Whether these options allow a restore without filters. The mint is asked last whether it announces none.
    pub(crate) fn allows(
        &self,
        options: &RestoreOptions,
        announces_none: impl FnOnce() -> bool,
    ) -> bool {
        use CheckError::{BadOption, NoItems, NotAPoint};
        match (options.fallback, &self.cause) {
            (Fallback::Always, QueryError::Fetch(_)) => true,
            // Of filters, and not of the wallet's own points.
            (Fallback::Always, QueryError::Check(error)) => {
                !matches!(error, NoItems | BadOption { .. } | NotAPoint { .. })
            }
            (Fallback::Unannounced, QueryError::Fetch(error)) => {
                let is_known = self.has_filters || options.last_seen.is_some();
                error.is_answer() && !is_known && announces_none()
            }
            _ => false,
        }
    }
}

impl<E: Into<QueryError>> From<E> for RestoreError {
    fn from(cause: E) -> Self {
        Self { cause: cause.into(), unfinished: None }
    }
}

/// How an answer is inconsistent with its request. No variant contains a point, because errors end up in logs.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum AnswerFault {
    /// The answer is not JSON of the expected form.
    #[error("malformed mint response: {member}")]
    Form {
        /// The member that is missing or has another type; `JSON` for the whole.
        member: &'static str,
    },
    /// A field that must hold a point, or another number in hex, does not.
    #[error("mint response has an invalid {field}")]
    Hex {
        /// The field's name.
        field: &'static str,
    },
    /// The answer contains a point that was not asked about.
    #[error("mint response contains a point that was not asked about")]
    NotAsked,
    /// The answer contains a point twice.
    #[error("mint response contains a point twice")]
    Repeated,
    /// The answer omits some points.
    #[error("mint response lacks {missing} of {asked} points")]
    Missing {
        /// How many are missing.
        missing: usize,
        /// How many were asked about.
        asked: usize,
    },
    /// A state other than `UNSPENT`, `PENDING` and `SPENT`.
    #[error("mint response has a state other than UNSPENT, PENDING and SPENT")]
    UnknownState,
    /// The numbers of outputs and signatures differ.
    #[error("mint response has {outputs} outputs but {signatures} signatures")]
    Unpaired {
        /// Number of outputs.
        outputs: usize,
        /// Number of signatures.
        signatures: usize,
    },
    /// Several messages have the same signature: all but one are invalid. Keys and DLEQ proofs tell which.
    #[error("mint response has the same signature on several messages")]
    EqualSignatures,
    /// A signature names an invalid keyset, or one of another curve.
    #[error("mint response is for another keyset")]
    OtherKeyset,
}
