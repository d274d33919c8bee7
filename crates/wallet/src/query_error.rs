//! Errors of asking a mint about matches.

use std::fmt;

use nutfilter_cashu::KeysetId;

use crate::error::FetchError;
use crate::matches::FilterSource;

/// Why the mint's answers about the matches are unknown. An error never means "unspent" or "not signed".
#[derive(Debug)]
#[non_exhaustive]
pub enum QueryError {
    /// More matches than the policy allows to reveal to the mint. Nothing was sent.
    TooMany {
        /// Number of distinct matching items.
        matches: u64,
        /// [`Policy::max_revealed`](crate::Policy::max_revealed).
        max: u64,
    },
    /// A match is not a point of either curve, so it is neither a `Y` nor a `B_`. Nothing was sent.
    NotAPoint {
        /// Index of the match, counted from 0.
        place: usize,
    },
    /// A match is a point of another curve than those of the keyset. Nothing was sent.
    OtherCurve {
        /// Index of the match, counted from 0.
        place: usize,
        /// Length of the match, in bytes.
        bytes: usize,
        /// The keyset.
        keyset: Box<KeysetId>,
    },
    /// The matches come from a filter of another mint, another keyset, or the other kind. Nothing was sent.
    OtherSource(Box<FilterSource>),
    /// The operating system's random number generator failed. Nothing was sent.
    Randomness,
    /// The request failed: no complete answer, or an error answer.
    Fetch(FetchError),
    /// The answer is complete but inconsistent with the request.
    Answer(AnswerFault),
    /// More matches than chance explains are not in the set, according to the mint's answers. Either the filter
    /// was made to match more items, or the answers are wrong. Nothing more is sent.
    Contradicted {
        /// Matches that are not in the set according to the mint.
        not_in_set: u64,
        /// Matches answered so far.
        asked: u64,
        /// The maximum that chance explains, see [`match_limit`](crate::match_limit).
        limit: u64,
    },
    /// `finish` was called before every request was answered, or after an answer was rejected.
    Unfinished {
        /// Requests without a valid answer.
        requests: usize,
    },
}

/// How an answer is inconsistent with its request. No variant contains a point, because errors end up in logs.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AnswerFault {
    /// The answer is not JSON of the expected form.
    Form {
        /// Line at which parsing stopped, counted from 1.
        line: usize,
        /// Column at which parsing stopped, counted from 1.
        column: usize,
    },
    /// A field that must hold a point, or another number in hex, does not.
    Hex {
        /// The field's name.
        field: &'static str,
    },
    /// The answer contains a point that was not asked about.
    NotAsked,
    /// The answer contains a point twice.
    Repeated,
    /// The answer omits some points.
    Missing {
        /// How many are missing.
        missing: usize,
        /// How many were asked about.
        asked: usize,
    },
    /// A state other than `UNSPENT`, `PENDING` and `SPENT`.
    UnknownState,
    /// The answer calls a decoy spent or pending. Nobody can have spent a decoy, so the mint does not check its
    /// records.
    KnownDecoy,
    /// The numbers of outputs and signatures differ.
    Unpaired {
        /// Number of outputs.
        outputs: usize,
        /// Number of signatures.
        signatures: usize,
    },
    /// A signature is of another keyset than the filter's.
    OtherKeyset,
}

impl From<FetchError> for QueryError {
    fn from(error: FetchError) -> Self {
        QueryError::Fetch(error)
    }
}

impl From<AnswerFault> for QueryError {
    fn from(fault: AnswerFault) -> Self {
        QueryError::Answer(fault)
    }
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueryError::TooMany { matches, max } => {
                write!(
                    f,
                    "{matches} items match; at most {max} may be revealed to the mint"
                )
            }
            QueryError::NotAPoint { place } => {
                write!(f, "match {place} is not a point of secp256k1 or BLS12-381")
            }
            QueryError::OtherCurve {
                place,
                bytes,
                keyset,
            } => write!(
                f,
                "match {place} is a point of {bytes} bytes; those of keyset {keyset} have {}",
                keyset.point_kind().bytes()
            ),
            QueryError::OtherSource(source) => write!(
                f,
                "the matches belong to another filter: {} notes of keyset {} at {}",
                source.kind,
                source.keyset.as_str(),
                source.mint
            ),
            QueryError::Randomness => f.write_str("the operating system provided no randomness"),
            QueryError::Fetch(error) => error.fmt(f),
            QueryError::Answer(fault) => fault.fmt(f),
            QueryError::Contradicted {
                not_in_set,
                asked,
                limit,
            } => write!(
                f,
                "the mint contradicts its filter: {not_in_set} of {asked} matches are not in its \
                 set; false positives explain at most {limit}"
            ),
            QueryError::Unfinished { requests } => {
                write!(f, "{requests} requests failed")
            }
        }
    }
}

impl fmt::Display for AnswerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AnswerFault::Form { line, column } => {
                write!(f, "malformed mint response at line {line}, column {column}")
            }
            AnswerFault::Hex { field } => {
                write!(f, "mint response has an invalid {field}")
            }
            AnswerFault::NotAsked => f.write_str(
                "mint response contains a point that was not \
                                                  asked about",
            ),
            AnswerFault::Repeated => f.write_str("mint response contains a point twice"),
            AnswerFault::Missing { missing, asked } => {
                write!(f, "mint response lacks {missing} of {asked} points")
            }
            AnswerFault::UnknownState => {
                f.write_str("mint response has a state other than UNSPENT, PENDING and SPENT")
            }
            AnswerFault::KnownDecoy => f.write_str("mint response reports a decoy as spent"),
            AnswerFault::Unpaired {
                outputs,
                signatures,
            } => write!(
                f,
                "mint response has {outputs} outputs but {signatures} signatures"
            ),
            AnswerFault::OtherKeyset => f.write_str("mint response is for another keyset"),
        }
    }
}

impl std::error::Error for QueryError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            QueryError::Fetch(error) => Some(error),
            QueryError::Answer(fault) => Some(fault),
            _ => None,
        }
    }
}

impl std::error::Error for AnswerFault {}
