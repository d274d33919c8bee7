//! The state of a note, as `/v1/checkstate` returns it (NUT-07).

use crate::answer_fault::AnswerFault;
use crate::batches::{AskedPoint, Said};
use crate::json_members::{JsonMembers, from_hex};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoteState {
    Unspent,
    Pending,
    Spent,
}

/// The request about these notes.
pub(crate) fn body(asked: &[AskedPoint]) -> String {
    let ys = asked.iter().map(|asked| const_hex::encode(&asked.point));
    serde_json::json!({ "Ys": ys.collect::<Vec<_>>() }).to_string()
}

/// The state of each note in the request. NUT-07 requires the order of the request. Any order is accepted, because the
/// answer names every point.
pub(crate) fn read(asked: &[AskedPoint], body: &[u8]) -> Result<Said<NoteState>, AnswerFault> {
    let states = JsonMembers::parse(body)?.list("states")?;
    let states = states.iter().map(|state| {
        // The witness may be long and is ignored.
        let of = JsonMembers::parse(state.get().as_bytes())?;
        let (y, state) = (of.text("Y")?, of.text("state")?);
        let state = match &*state {
            "UNSPENT" => NoteState::Unspent,
            "PENDING" => NoteState::Pending,
            "SPENT" => NoteState::Spent,
            _ => return Err(AnswerFault::UnknownState),
        };
        // A mint may publish pending notes as spent. An unspent note does not belong in the filter.
        Ok((from_hex(&y, "Y")?, state, state != NoteState::Unspent))
    });
    let mut said = Said::of(asked, states);
    let (asked, missing) = (asked.len(), asked.len() - said.found.len());
    if missing > 0 {
        said.fault.get_or_insert(AnswerFault::Missing { missing, asked });
    }
    Ok(said)
}
