//! What is wrong with an answer.

use thiserror::Error;

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
