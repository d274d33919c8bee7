//! NUT-07: asks the mint whether a match is spent.

use nutfilter_cashu::NoteKind;
use serde::{Deserialize, Serialize};

use crate::batches::{Batches, Question, from_hex, from_json};
use crate::matches::Matches;
use crate::policy::Policy;
use crate::query_error::{AnswerFault, QueryError};

/// The state of a note after its match was confirmed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Confirmed {
    /// The filter does not have it, so the mint was not asked.
    Absent {
        /// The filter's time, in Unix seconds.
        as_of: u64,
    },
    /// A false positive: the mint says that the note is unspent now.
    Unspent,
    /// The mint says that a payment with the note is pending.
    Pending,
    /// The mint says that the note is spent.
    Spent,
}

/// A conversation with a mint about the matches of a filter of spent notes, without a network.
///
/// Yields the bodies to send to [`PATH`](Self::PATH) one after another, and validates the answers.
/// [`MintClient::confirm`](crate::MintClient::confirm) sends them. A wallet with its own HTTP client sends them
/// itself:
///
/// ```
/// # use nutfilter_wallet::{QueryError, Confirmation, Confirmed, Matches, Policy};
/// # fn post(path: &str, body: String) -> (u16, Vec<u8>) { unimplemented!() }
/// fn confirm(matches: &Matches<'_>, policy: &Policy) -> Result<Vec<Confirmed>, QueryError> {
///     let mut confirmation = Confirmation::new(matches, policy)?;
///     while let Some(body) = confirmation.request() {
///         let (status, answer) = post(Confirmation::PATH, body);
///         confirmation.answer(status, &answer)?;
///     }
///     confirmation.finish()
/// }
/// ```
#[derive(Debug)]
pub struct Confirmation {
    batches: Batches<Confirmed>,
}

impl Confirmation {
    /// The path, relative to the mint's base URL.
    pub const PATH: &str = "/v1/checkstate";

    /// Prepares the requests: exactly the matches, shuffled and in batches.
    ///
    /// # Errors
    ///
    /// [`QueryError::TooMany`], [`QueryError::NotAPoint`], [`QueryError::OtherCurve`], [`QueryError::OtherSource`],
    /// [`QueryError::Randomness`].
    pub fn new(matches: &Matches<'_>, policy: &Policy) -> Result<Self, QueryError> {
        let keyset = matches.source().map(|source| &source.keyset);
        let batches = Batches::new(matches, NoteKind::Spent, keyset, policy)?;
        Ok(Self { batches })
    }

    /// The next body to POST, as JSON. `None` when all requests are answered, and after a rejected answer. Returns
    /// the same body until it is answered, so a retry after a broken connection reveals nothing new.
    #[must_use]
    pub fn request(&self) -> Option<String> {
        #[derive(Serialize)]
        struct Body {
            #[serde(rename = "Ys")]
            ys: Vec<String>,
        }
        let asked = self.batches.current()?;
        let ys = asked
            .iter()
            .map(|asked| const_hex::encode(&asked.point))
            .collect();
        // Serialising a list of strings cannot fail.
        serde_json::to_string(&Body { ys }).ok()
    }

    /// Validates the answer to the current request.
    ///
    /// # Errors
    ///
    /// [`QueryError::Fetch`], [`QueryError::Answer`], [`QueryError::Contradicted`]. There are no further requests
    /// after an error.
    pub fn answer(&mut self, status: u16, body: &[u8]) -> Result<(), QueryError> {
        self.batches.answer(status, body, read)
    }

    /// Returns the state of each item that was looked up, in order.
    ///
    /// # Errors
    ///
    /// [`QueryError::Unfinished`].
    pub fn finish(self) -> Result<Vec<Confirmed>, QueryError> {
        self.batches.finish(|as_of| Confirmed::Absent { as_of })
    }
}

/// The fields of an answer that are used. The witness may be long and is ignored.
#[derive(Deserialize)]
struct States {
    states: Vec<StateOf>,
}

#[derive(Deserialize)]
struct StateOf {
    #[serde(rename = "Y")]
    y: String,
    state: String,
}

/// The state of each match in the request. NUT-07 requires the order of the request. Any order is accepted,
/// because the answer names every point.
fn read(
    mut question: Question<'_>,
    body: &[u8],
) -> Result<Vec<(usize, Confirmed, bool)>, AnswerFault> {
    let States { states } = from_json(body)?;
    let mut found = Vec::new();
    for StateOf { y, state } in &states {
        let place = question.take(&from_hex(y, "Y")?)?;
        let state = match state.as_str() {
            "UNSPENT" => Confirmed::Unspent,
            "PENDING" => Confirmed::Pending,
            "SPENT" => Confirmed::Spent,
            _ => return Err(AnswerFault::UnknownState),
        };
        // A mint may publish pending notes as spent. An unspent note does not belong in the filter.
        let in_set = !matches!(state, Confirmed::Unspent);
        found.push((place, state, in_set));
    }
    let asked = question.len();
    match asked - found.len() {
        0 => Ok(found),
        missing => Err(AnswerFault::Missing { missing, asked }),
    }
}
