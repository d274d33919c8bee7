//! What can go wrong when a mint is asked about matches.

use std::fmt;

use crate::error::FetchError;
use crate::matches::FilterSource;

/// Why the mint's word about the matches is not known. Never to be read as "unspent", or as "not signed".
#[derive(Debug)]
#[non_exhaustive]
pub enum QueryError {
    /// More matches than the policy lets the mint see. Nothing was sent.
    TooMany {
        /// Different items that matched.
        matches: u64,
        /// [`Policy::max_revealed`](crate::Policy::max_revealed).
        max: u64,
    },
    /// A match that is not a secp256k1 point, so that it cannot be a `Y` or a `B_`. Nothing was sent.
    NotAPoint {
        /// Which of the matches, counted from 0.
        place: usize,
    },
    /// Matches of another length than secp256k1's points, for which there are no decoys
    /// ([`Policy::decoys`](crate::Policy::decoys) does without). Nothing was sent.
    NoDecoys {
        /// Length of the first such match, in bytes.
        bytes: usize,
    },
    /// The matches are of another mint's filter, of another keyset's, or of the other kind. Nothing was
    /// sent.
    OtherSource(Box<FilterSource>),
    /// The operating system gave no randomness. Nothing was sent.
    Randomness,
    /// No whole answer came back, or one that says no.
    Fetch(FetchError),
    /// An answer came back, and does not fit the question.
    Answer(AnswerFault),
    /// More matches than chance explains are not in the set, as the mint now says: its filter was made to
    /// match, or its answers are wrong. Nothing further is sent.
    Contradicted {
        /// Matches that the mint says are not in the set.
        not_in_set: u64,
        /// Matches that it was asked about so far.
        asked: u64,
        /// The most that chance explains, see [`match_limit`](crate::match_limit).
        limit: u64,
    },
    /// The result was wanted before every request was answered, or after an answer was refused.
    Unfinished {
        /// Requests without a good answer.
        requests: usize,
    },
}

/// How an answer does not fit the question. None of these repeats a point: they end up in logs.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AnswerFault {
    /// It is not JSON of the form that was asked for.
    Form {
        /// Line at which reading stopped, counted from 1.
        line: usize,
        /// Column at which reading stopped, counted from 1.
        column: usize,
    },
    /// Something that should be a point, or another number in hex, is not.
    Hex {
        /// The field's name.
        field: &'static str,
    },
    /// It speaks of a point that was not asked about.
    NotAsked,
    /// It speaks of one point twice.
    Repeated,
    /// Points that it says nothing about.
    Missing {
        /// How many are missing.
        missing: usize,
        /// How many were asked about.
        asked: usize,
    },
    /// A state other than `UNSPENT`, `PENDING` and `SPENT`.
    UnknownState,
    /// A decoy, which nobody can ever have spent, is said to be spent or about to be: the mint does not look.
    KnownDecoy,
    /// Outputs and signatures that do not pair up.
    Unpaired {
        /// Number of outputs.
        outputs: usize,
        /// Number of signatures.
        signatures: usize,
    },
    /// A signature of another keyset than the filter's.
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
                    "{matches} items match, and at most {max} may be shown to the mint"
                )
            }
            QueryError::NotAPoint { place } => {
                write!(f, "match {place} is not a secp256k1 point")
            }
            QueryError::NoDecoys { bytes } => {
                write!(f, "there are no decoys for items of {bytes} bytes")
            }
            QueryError::OtherSource(source) => write!(
                f,
                "the matches are of the filter of {} notes of keyset {} at {}",
                source.kind,
                source.keyset.as_str(),
                source.mint
            ),
            QueryError::Randomness => f.write_str("the operating system gives no randomness"),
            QueryError::Fetch(error) => error.fmt(f),
            QueryError::Answer(fault) => fault.fmt(f),
            QueryError::Contradicted {
                not_in_set,
                asked,
                limit,
            } => write!(
                f,
                "the mint says that {not_in_set} of {asked} matches are not in its own set, and chance \
                 explains at most {limit}"
            ),
            QueryError::Unfinished { requests } => {
                write!(f, "{requests} requests have no good answer")
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
                write!(f, "answer whose {field} is not what it should be")
            }
            AnswerFault::NotAsked => f.write_str("answer about a point that was not asked about"),
            AnswerFault::Repeated => f.write_str("answer that speaks of one point twice"),
            AnswerFault::Missing { missing, asked } => {
                write!(f, "answer without {missing} of {asked} points")
            }
            AnswerFault::UnknownState => {
                f.write_str("answer with a state other than UNSPENT, PENDING and SPENT")
            }
            AnswerFault::KnownDecoy => {
                f.write_str("answer that calls a point spent which nobody can have spent")
            }
            AnswerFault::Unpaired {
                outputs,
                signatures,
            } => write!(
                f,
                "answer of {outputs} outputs and {signatures} signatures, which do not pair up"
            ),
            AnswerFault::OtherKeyset => f.write_str("answer of another keyset"),
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
