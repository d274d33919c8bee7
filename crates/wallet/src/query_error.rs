//! Errors of asking a mint about matches.

use thiserror::Error;

use crate::error::FetchError;
use crate::matches::FilterSource;

/// Why the mint's answers about the matches are unknown. An error never means "unspent" or "not signed".
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum QueryError {
    /// More matches than the policy allows to reveal to the mint. Nothing was sent.
    #[error("{matches} items match; at most {max} may be revealed to the mint")]
    TooMany {
        /// Number of distinct matching items.
        matches: u64,
        /// [`Policy::max_revealed`](crate::Policy::max_revealed).
        max: u64,
    },
    /// A match is not a point of either curve, so it is neither a `Y` nor a `B_`. Nothing was sent.
    #[error("match {place} is not a point of secp256k1 or BLS12-381")]
    NotAPoint {
        /// Index of the match, counted from 0.
        place: usize,
    },
    /// A match is a point of another curve than those of the keyset. Nothing was sent.
    #[error("match {place} is a point of {bytes} bytes; those of the keyset have {expected}")]
    OtherCurve {
        /// Index of the match, counted from 0.
        place: usize,
        /// Length of the match, in bytes.
        bytes: usize,
        /// Length of the keyset's points, in bytes.
        expected: usize,
    },
    /// The matches come from a filter of another mint, another keyset, or the other kind. Nothing was sent.
    #[error("the matches belong to another filter: {} notes of keyset {} at {}", .0.kind, .0.keyset, .0.mint)]
    OtherSource(Box<FilterSource>),
    /// The operating system's random number generator failed. Nothing was sent.
    #[error("the operating system provided no randomness")]
    Randomness,
    /// The request failed: no complete answer, or an error answer.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The answer is complete but inconsistent with the request.
    #[error(transparent)]
    Answer(#[from] AnswerFault),
    /// More matches than chance explains are not in the set, according to the mint's answers. Either the filter
    /// was made to match more items, or the answers are wrong. Nothing more is sent.
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
    /// `finish` was called before every request was answered, or after an answer was rejected.
    #[error("{requests} requests failed")]
    Unfinished {
        /// Requests without a valid answer.
        requests: usize,
    },
}

/// How an answer is inconsistent with its request. No variant contains a point, because errors end up in logs.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum AnswerFault {
    /// The answer is not JSON of the expected form.
    #[error("malformed mint response at line {line}, column {column}")]
    Form {
        /// Line at which parsing stopped, counted from 1.
        line: usize,
        /// Column at which parsing stopped, counted from 1.
        column: usize,
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
    /// A signature is of another keyset than the filter's.
    #[error("mint response is for another keyset")]
    OtherKeyset,
}
