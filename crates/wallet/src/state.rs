//! The state of a note, as `/v1/checkstate` returns it (NUT-07).

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::batches::{Asked, Question, Said, from_hex, from_json};
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
struct States<'a> {
    #[serde(borrow)]
    states: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct StateOf<'a> {
    #[serde(rename = "Y", borrow)]
    y: Cow<'a, str>,
    #[serde(borrow)]
    state: Cow<'a, str>,
}

/// The state of each note in the request. NUT-07 requires the order of the request. Any order is accepted, because the
/// answer names every point.
pub(crate) fn read(mut question: Question<'_>, body: &[u8]) -> Result<Said<State>, AnswerFault> {
    let States { states } = from_json(body)?;
    let asked = question.len();
    let mut said = Said::of(states.iter().map(|state| {
        let StateOf { y, state } = from_json(state.get().as_bytes())?;
        let state = match &*state {
            "UNSPENT" => State::Unspent,
            "PENDING" => State::Pending,
            "SPENT" => State::Spent,
            _ => return Err(AnswerFault::UnknownState),
        };
        // A mint may publish pending notes as spent. An unspent note does not belong in the filter.
        Ok((
            question.take(&from_hex(&y, "Y")?)?,
            state,
            state != State::Unspent,
        ))
    }));
    let missing = asked - said.found.len();
    if missing > 0 {
        said.fault
            .get_or_insert(AnswerFault::Missing { missing, asked });
    }
    Ok(said)
}
