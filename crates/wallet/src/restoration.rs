//! NUT-09: restores the mint's signatures on blinded messages.

use nutfilter_cashu::{KeysetId, NoteKind, PointKind};
use serde::{Deserialize, Serialize};

use crate::batches::{Batches, Question, from_hex, from_json};
use crate::matches::Matches;
use crate::policy::Policy;
use crate::query_error::{AnswerFault, QueryError};

/// The result for one blinded message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Restored {
    /// The filter does not have it, so the mint was not asked.
    Absent {
        /// The filter's time, in Unix seconds.
        as_of: u64,
    },
    /// A false positive: the mint never signed the message.
    Unsigned,
    /// The mint's signature.
    Signed(BlindSignature),
}

/// A mint's signature on a blinded message, as sent by the mint. Keyset and curve have been checked. The signature
/// itself is not verified: the wallet verifies it after unblinding, or with its DLEQ proof.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlindSignature {
    /// The value of the note, in the keyset's unit.
    pub amount: u64,
    /// The keyset, in the mint's spelling.
    pub keyset: KeysetId,
    /// `C_`, a compressed point.
    pub c: Vec<u8>,
    /// The NUT-12 proof that the mint used its published key. Older signatures have none, and those of `02` keysets need
    /// none: the wallet verifies the unblinded signature by a pairing.
    pub dleq: Option<Dleq>,
}

/// The two numbers of a NUT-12 proof, big-endian.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dleq {
    /// The challenge.
    pub e: [u8; 32],
    /// The response.
    pub s: [u8; 32],
}

/// A conversation with a mint about the matches of a filter of issued notes, without a network. Works like
/// [`Confirmation`](crate::Confirmation).
#[derive(Debug)]
pub struct Restoration {
    batches: Batches<Restored>,
    keyset: KeysetId,
}

impl Restoration {
    /// The path, relative to the mint's base URL.
    pub const PATH: &str = "/v1/restore";

    /// Prepares the requests for the matches of the filter of `keyset`: only the matches, shuffled and in batches.
    ///
    /// # Errors
    ///
    /// [`QueryError::TooMany`], [`QueryError::NotAPoint`], [`QueryError::OtherSource`],
    /// [`QueryError::Randomness`].
    pub fn new(
        matches: &Matches<'_>,
        keyset: &KeysetId,
        policy: &Policy,
    ) -> Result<Self, QueryError> {
        if let Some(source) = matches.source().filter(|source| source.keyset != *keyset) {
            return Err(QueryError::OtherSource(Box::new(source.clone())));
        }
        Ok(Self {
            batches: Batches::new(matches, NoteKind::Issued, Some(keyset), policy)?,
            keyset: keyset.clone(),
        })
    }

    /// The next body to POST, as JSON. `None` when all requests are answered, and after a rejected answer.
    #[must_use]
    pub fn request(&self) -> Option<String> {
        #[derive(Serialize)]
        struct Body<'a> {
            outputs: Vec<Output<'a>>,
        }
        #[derive(Serialize)]
        struct Output<'a> {
            // A wallet that has lost everything does not know the amount; mints ignore it.
            amount: u64,
            id: &'a str,
            #[serde(rename = "B_")]
            blinded: String,
        }
        let output = |point: &[u8]| Output {
            amount: 0,
            id: self.keyset.as_str(),
            blinded: const_hex::encode(point),
        };
        let asked = self.batches.current()?;
        let outputs = asked.iter().map(|asked| output(&asked.point)).collect();
        // Serialising strings and numbers cannot fail.
        serde_json::to_string(&Body { outputs }).ok()
    }

    /// Validates the answer to the current request.
    ///
    /// # Errors
    ///
    /// [`QueryError::Fetch`], [`QueryError::Answer`], [`QueryError::Contradicted`]. There are no further requests
    /// after an error.
    pub fn answer(&mut self, status: u16, body: &[u8]) -> Result<(), QueryError> {
        let keyset = &self.keyset;
        let read = |question: Question<'_>, body: &[u8]| read(question, keyset, body);
        self.batches.answer(status, body, read)
    }

    /// Returns the result for each item that was looked up, in order.
    ///
    /// # Errors
    ///
    /// [`QueryError::Unfinished`].
    pub fn finish(self) -> Result<Vec<Restored>, QueryError> {
        self.batches.finish(|as_of| Restored::Absent { as_of })
    }
}

/// The fields of an answer that are used. Some mints repeat amount and keyset in the output; those of the
/// signature count.
#[derive(Deserialize)]
struct RestoreResponse {
    outputs: Vec<Output>,
    signatures: Vec<Signature>,
}

#[derive(Deserialize)]
struct Output {
    #[serde(rename = "B_")]
    blinded: String,
}

#[derive(Deserialize)]
struct Signature {
    amount: u64,
    id: String,
    #[serde(rename = "C_")]
    c: String,
    dleq: Option<DleqText>,
}

#[derive(Deserialize)]
struct DleqText {
    e: String,
    s: String,
}

/// The signature of each match in the request. A message that the mint leaves out was never signed.
fn read(
    mut question: Question<'_>,
    keyset: &KeysetId,
    body: &[u8],
) -> Result<Vec<(usize, Restored, bool)>, AnswerFault> {
    let answer: RestoreResponse = from_json(body)?;
    if answer.outputs.len() != answer.signatures.len() {
        return Err(AnswerFault::Unpaired {
            outputs: answer.outputs.len(),
            signatures: answer.signatures.len(),
        });
    }
    let mut found = Vec::new();
    for (output, signature) in answer.outputs.iter().zip(&answer.signatures) {
        let place = question.take(&from_hex(&output.blinded, "B_")?)?;
        found.push((place, Restored::Signed(signature.check(keyset)?), true));
    }
    let left_out = question.left_out().into_iter();
    found.extend(left_out.map(|place| (place, Restored::Unsigned, false)));
    Ok(found)
}

impl Signature {
    fn check(&self, keyset: &KeysetId) -> Result<BlindSignature, AnswerFault> {
        let id = KeysetId::parse(&self.id).map_err(|_| AnswerFault::OtherKeyset)?;
        if id != *keyset {
            return Err(AnswerFault::OtherKeyset);
        }
        let c = from_hex(&self.c, "C_")?;
        if PointKind::on_curve(&c) != Some(keyset.point_kind()) {
            return Err(AnswerFault::Hex { field: "C_" });
        }
        let number = |text: &str| {
            let number = from_hex(text, "dleq")?.try_into();
            number.map_err(|_| AnswerFault::Hex { field: "dleq" })
        };
        // Where signatures have no proof, what a mint sends in its place means nothing.
        let dleq = match &self.dleq {
            Some(DleqText { e, s }) if keyset.point_kind().has_dleq() => Some(Dleq {
                e: number(e)?,
                s: number(s)?,
            }),
            _ => None,
        };
        Ok(BlindSignature {
            amount: self.amount,
            keyset: id,
            c,
            dleq,
        })
    }
}
