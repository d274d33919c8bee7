//! Matches on their way to a mint: checked, counted, padded, shuffled, cut into requests of one size.

use std::collections::HashMap;

use nutfilter::Kind;
use serde::de::DeserializeOwned;

use crate::error::{FetchError, RejectReason};
use crate::matches::Matches;
use crate::points::{POINT_BYTES, is_point, random_y, shuffle};
use crate::policy::{Policy, error_object};
use crate::query_error::{AnswerFault, QueryError};

/// The requests of one conversation, and how far it has come.
///
/// A request stays what it is until it is answered: one that is sent again after a broken connection has
/// the same decoys in the same order, or the mint would find the matches as what both have in common.
#[derive(Debug)]
pub(crate) struct Batches {
    batches: Vec<Vec<Asked>>,
    answered: usize,
    failed: bool,
    /// Matches answered so far, and those of them that are not in the set.
    asked: u64,
    not_in_set: u64,
    chance_limit: u64,
    max_answer_bytes: u64,
}

/// A point that the mint is asked about.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) point: Vec<u8>,
    /// Which match it is; a decoy is none.
    pub(crate) place: Option<usize>,
}

impl Batches {
    pub(crate) fn new(
        matches: &Matches<'_>,
        kind: Kind,
        padded: bool,
        policy: &Policy,
    ) -> Result<Self, QueryError> {
        if let Some(source) = matches.source().filter(|source| source.kind != kind) {
            return Err(QueryError::OtherSource(Box::new(source.clone())));
        }
        let padded = padded && policy.decoys;
        let found = matches.items();
        if found.len() as u64 > policy.max_revealed {
            return Err(QueryError::TooMany {
                matches: found.len() as u64,
                max: policy.max_revealed,
            });
        }
        for (place, item) in found.iter().enumerate() {
            if item.len() != POINT_BYTES && padded {
                return Err(QueryError::NoDecoys { bytes: item.len() });
            }
            if item.len() == POINT_BYTES && !is_point(item) {
                return Err(QueryError::NotAPoint { place });
            }
        }
        let mut all: Vec<_> = found
            .iter()
            .enumerate()
            .map(|(place, item)| Asked {
                point: item.to_vec(),
                place: Some(place),
            })
            .collect();
        shuffle(&mut all)?;
        let mut batches = deal(all, policy.batch.get(), padded);
        if padded {
            for batch in &mut batches {
                while batch.len() < policy.batch.get() {
                    batch.push(Asked {
                        point: random_y()?.to_vec(),
                        place: None,
                    });
                }
                shuffle(batch)?;
            }
        }
        Ok(Self {
            batches,
            answered: 0,
            failed: false,
            asked: 0,
            not_in_set: 0,
            chance_limit: matches.chance_limit(),
            max_answer_bytes: policy.max_answer_bytes,
        })
    }

    /// What is to be asked next; `None` when all is answered, and after an answer that was refused.
    pub(crate) fn current(&self) -> Option<&[Asked]> {
        if self.failed {
            return None;
        }
        self.batches.get(self.answered).map(Vec::as_slice)
    }

    /// Takes the answer to the current request; `read` makes something of each match in it, and says whether
    /// it is in the set. Whatever goes wrong, there is no further request.
    pub(crate) fn answer<T>(
        &mut self,
        status: u16,
        body: &[u8],
        read: impl FnOnce(&Question<'_>, &[u8]) -> Result<Vec<(usize, T, bool)>, AnswerFault>,
    ) -> Result<Vec<(usize, T)>, QueryError> {
        let Some(current) = self.current() else {
            return Err(QueryError::Unfinished {
                requests: self.open(),
            });
        };
        // Until the answer has turned out good.
        let question = Question::new(current);
        let answer = admit(status, body, self.max_answer_bytes)
            .and_then(|()| read(&question, body).map_err(|fault| explain(fault, status, body)));
        self.failed = true;
        let found = answer?;
        self.asked += found.len() as u64;
        self.not_in_set += found.iter().filter(|(_, _, in_set)| !in_set).count() as u64;
        if self.not_in_set > self.chance_limit {
            return Err(QueryError::Contradicted {
                not_in_set: self.not_in_set,
                asked: self.asked,
                limit: self.chance_limit,
            });
        }
        self.failed = false;
        self.answered += 1;
        Ok(found
            .into_iter()
            .map(|(place, found, _)| (place, found))
            .collect())
    }

    /// Whether there is a good answer to every request.
    pub(crate) fn finish(&self) -> Result<(), QueryError> {
        match self.open() {
            0 => Ok(()),
            requests => Err(QueryError::Unfinished { requests }),
        }
    }

    fn open(&self) -> usize {
        self.batches.len() - self.answered
    }
}

/// Into as few batches as there must be, as evenly as can be. With decoys, one place of each batch is kept for
/// one: a mint that says the same of every point gives itself away by it.
fn deal(mut all: Vec<Asked>, batch: usize, padded: bool) -> Vec<Vec<Asked>> {
    let room = if padded { (batch - 1).max(1) } else { batch };
    let mut batches = Vec::new();
    for left in (1..=all.len().div_ceil(room)).rev() {
        batches.push(all.split_off(all.len() - all.len() / left));
    }
    batches
}

/// Reads the form of an answer. The reader's own words are not passed on, as they may quote a point.
pub(crate) fn from_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, AnswerFault> {
    serde_json::from_slice(body).map_err(|error| AnswerFault::Form {
        line: error.line(),
        column: error.column(),
    })
}

/// Only 200 answers a question.
fn admit(status: u16, body: &[u8], max: u64) -> Result<(), QueryError> {
    let refuse = |refusal| Err(QueryError::Fetch(FetchError::Refused(refusal)));
    if body.len() as u64 > max {
        return refuse(RejectReason::TooLarge {
            declared: None,
            max,
        });
    }
    if status != 200 {
        return refuse(
            error_object(status, body).map_or(RejectReason::Status { status }, RejectReason::Mint),
        );
    }
    Ok(())
}

/// An error object under the wrong status says more than that it has another form.
fn explain(fault: AnswerFault, status: u16, body: &[u8]) -> QueryError {
    match (&fault, error_object(status, body)) {
        (AnswerFault::Form { .. }, Some(error)) => {
            QueryError::Fetch(FetchError::Refused(RejectReason::Mint(error)))
        }
        _ => QueryError::Answer(fault),
    }
}

/// The points of one request, to hold an answer against.
pub(crate) struct Question<'a> {
    asked: &'a [Asked],
    places: HashMap<&'a [u8], usize>,
}

impl<'a> Question<'a> {
    fn new(asked: &'a [Asked]) -> Self {
        let at = |(at, asked): (usize, &'a Asked)| (asked.point.as_slice(), at);
        Self {
            asked,
            places: asked.iter().enumerate().map(at).collect(),
        }
    }

    /// How many points were asked about.
    pub(crate) fn len(&self) -> usize {
        self.asked.len()
    }

    /// All of them, in the order in which they were sent.
    pub(crate) fn asked(&self) -> &'a [Asked] {
        self.asked
    }

    /// Where in the request this point stands; `seen` remembers which were spoken of.
    pub(crate) fn once(&self, point: &[u8], seen: &mut [bool]) -> Result<usize, AnswerFault> {
        let at = *self.places.get(point).ok_or(AnswerFault::NotAsked)?;
        match seen.get_mut(at) {
            Some(seen) if !*seen => *seen = true,
            _ => return Err(AnswerFault::Repeated),
        }
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_may_be_as_long_as_it_may_be_and_no_longer() {
        let body = [b' '; 10];
        assert!(admit(200, &body, 10).is_ok());
        let refused = admit(200, &body, 9);
        let Err(QueryError::Fetch(FetchError::Refused(RejectReason::TooLarge {
            max: 9,
            declared,
        }))) = refused
        else {
            panic!("{refused:?}");
        };
        assert_eq!(declared, None);
    }

    #[test]
    fn matches_are_dealt_evenly_and_each_padded_batch_keeps_a_place_for_a_decoy() {
        let dealt = |matches, batch, padded| {
            let all = (0..matches)
                .map(|place| Asked {
                    point: Vec::new(),
                    place: Some(place),
                })
                .collect();
            let batches = deal(all, batch, padded);
            let mut places: Vec<_> = batches.iter().flatten().map(|asked| asked.place).collect();
            places.sort_unstable();
            assert!(places.into_iter().eq((0..matches).map(Some)));
            batches.iter().map(Vec::len).collect::<Vec<_>>()
        };
        assert!(dealt(0, 64, true).is_empty());
        assert_eq!(dealt(1, 64, true), [1]);
        assert_eq!(dealt(63, 64, true), [63]);
        assert_eq!(dealt(64, 64, true), [32, 32]);
        assert_eq!(dealt(64, 64, false), [64]);
        assert_eq!(dealt(65, 64, false), [32, 33]);
        // No place is left for a decoy.
        assert_eq!(dealt(3, 1, true), [1, 1, 1]);
        assert_eq!(dealt(3, 2, true), [1, 1, 1]);
    }
}
