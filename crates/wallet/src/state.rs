//! The state of a note, as `/v1/checkstate` returns it (NUT-07).

use serde::Deserialize;

use crate::batches::{Asked, Question, from_hex, from_json};
use crate::query_error::AnswerFault;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Unspent,
    Pending,
    Spent,
}

/// The request about these notes.
pub(crate) fn body(asked: &[Asked]) -> String {
    let ys = asked.iter().map(|asked| const_hex::encode(&asked.point));
    serde_json::json!({ "Ys": ys.collect::<Vec<_>>() }).to_string()
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

/// The state of each note in the request. NUT-07 requires the order of the request. Any order is accepted, because the
/// answer names every point.
pub(crate) fn read(
    mut question: Question<'_>,
    body: &[u8],
) -> Result<Vec<(usize, State, bool)>, AnswerFault> {
    let States { states } = from_json(body)?;
    let mut found = Vec::new();
    for StateOf { y, state } in &states {
        let place = question.take(&from_hex(y, "Y")?)?;
        let state = match state.as_str() {
            "UNSPENT" => State::Unspent,
            "PENDING" => State::Pending,
            "SPENT" => State::Spent,
            _ => return Err(AnswerFault::UnknownState),
        };
        // A mint may publish pending notes as spent. An unspent note does not belong in the filter.
        found.push((place, state, state != State::Unspent));
    }
    let asked = question.len();
    match asked - found.len() {
        0 => Ok(found),
        missing => Err(AnswerFault::Missing { missing, asked }),
    }
}
