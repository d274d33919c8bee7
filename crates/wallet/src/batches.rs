//! Prepares matches for requests: checks and counts them, pads and shuffles them, and splits them into batches.

use std::collections::HashMap;

use data_encoding::HEXLOWER_PERMISSIVE;
use nutfilter_cashu::{KeysetId, NoteKind, PointKind};
use serde::de::DeserializeOwned;

use crate::error::{FetchError, RejectReason};
use crate::matches::Matches;
use crate::points::{point_kind, random_y, shuffle};
use crate::policy::{Policy, check_status, error_object};
use crate::query_error::{AnswerFault, QueryError};

/// The requests of one conversation, its progress, and a `T` for each match that was answered.
///
/// A request does not change until it is answered. A retry after a broken connection has the same decoys in the
/// same order. With new decoys, the mint could find the matches as the intersection of both requests.
#[derive(Debug)]
pub(crate) struct Batches<T> {
    batches: Vec<Vec<Asked>>,
    answered: usize,
    failed: bool,
    /// Number of matches answered so far, and how many of them are not in the set.
    asked: u64,
    not_in_set: u64,
    chance_limit: u64,
    max_answer_bytes: u64,
    /// The match of each item that was looked up.
    places: Vec<Option<usize>>,
    as_of: u64,
    answers: Vec<Option<T>>,
}

/// A point that the mint is asked about.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) point: Vec<u8>,
    /// Index of the match; `None` for a decoy.
    pub(crate) place: Option<usize>,
}

impl<T: Clone> Batches<T> {
    /// Without a keyset, points may be of any, but each request has points of one curve.
    pub(crate) fn new(
        matches: &Matches<'_>,
        kind: NoteKind,
        padded: bool,
        keyset: Option<&KeysetId>,
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
        // Points of another curve in one request would not hide each other, and mints need not accept both.
        let mut of_kind = PointKind::ALL.map(|kind| (kind, Vec::new()));
        for (place, item) in found.iter().enumerate() {
            let kind = point_kind(item).ok_or(QueryError::NotAPoint { place })?;
            if let Some(keyset) = keyset.filter(|keyset| keyset.point_kind() != kind) {
                return Err(QueryError::OtherCurve {
                    place,
                    bytes: kind.bytes(),
                    keyset: Box::new(keyset.clone()),
                });
            }
            let list = of_kind.iter_mut().find(|(of, _)| *of == kind);
            list.into_iter().for_each(|(_, list)| {
                list.push(Asked {
                    point: item.to_vec(),
                    place: Some(place),
                });
            });
        }
        let mut batches = Vec::new();
        for (kind, mut all) in of_kind {
            shuffle(&mut all)?;
            let first = batches.len();
            batches.extend(deal(all, policy.batch.get(), padded));
            if !padded {
                continue;
            }
            for batch in &mut batches[first..] {
                while batch.len() < policy.batch.get() {
                    batch.push(Asked {
                        point: random_y(kind)?,
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
            places: matches.places().to_vec(),
            as_of: matches.as_of(),
            answers: vec![None; found.len()],
        })
    }

    /// The points of the next request. `None` when all requests are answered, and after a rejected answer.
    pub(crate) fn current(&self) -> Option<&[Asked]> {
        if self.failed {
            return None;
        }
        self.batches.get(self.answered).map(Vec::as_slice)
    }

    /// Takes the answer to the current request. `read` returns a value for each match in it, and whether the match
    /// is in the set. After an error there is no further request.
    pub(crate) fn answer(
        &mut self,
        status: u16,
        body: &[u8],
        read: impl FnOnce(&Question<'_>, &[u8]) -> Result<Vec<(usize, T, bool)>, AnswerFault>,
    ) -> Result<(), QueryError> {
        let Some(current) = self.current() else {
            return Err(QueryError::Unfinished {
                requests: self.open(),
            });
        };
        // `failed` is set below, and cleared only after the answer has been validated.
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
        for (place, found, _) in found {
            if let Some(slot) = self.answers.get_mut(place) {
                *slot = Some(found);
            }
        }
        Ok(())
    }

    /// The value of each item that was looked up, in order, once every request has a valid answer. `absent` is the
    /// value of those that the filter of this time does not have.
    pub(crate) fn finish(self, absent: impl Fn(u64) -> T) -> Result<Vec<T>, QueryError> {
        let requests = self.open();
        let each = |place: &Option<usize>| match *place {
            None => Ok(absent(self.as_of)),
            Some(place) => match self.answers.get(place) {
                Some(Some(answer)) => Ok(answer.clone()),
                _ => Err(QueryError::Unfinished { requests }),
            },
        };
        match requests {
            0 => self.places.iter().map(each).collect(),
            _ => Err(QueryError::Unfinished { requests }),
        }
    }

    fn open(&self) -> usize {
        self.batches.len() - self.answered
    }
}

/// Splits the points into the minimum number of batches, as evenly as possible. With decoys, each batch keeps room
/// for one decoy: it exposes a mint that gives the same answer for every point.
fn deal(mut all: Vec<Asked>, batch: usize, padded: bool) -> Vec<Vec<Asked>> {
    let room = if padded { (batch - 1).max(1) } else { batch };
    let mut batches = Vec::new();
    for left in (1..=all.len().div_ceil(room)).rev() {
        batches.push(all.split_off(all.len() - all.len() / left));
    }
    batches
}

/// Parses an answer. The parser's error text is dropped, because it may quote a point.
pub(crate) fn from_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, AnswerFault> {
    serde_json::from_slice(body).map_err(|error| AnswerFault::Form {
        line: error.line(),
        column: error.column(),
    })
}

pub(crate) fn from_hex(text: &str, field: &'static str) -> Result<Vec<u8>, AnswerFault> {
    let decoded = HEXLOWER_PERMISSIVE.decode(text.as_bytes());
    decoded.map_err(|_| AnswerFault::Hex { field })
}

/// Accepts only status 200 and a body within the limit.
fn admit(status: u16, body: &[u8], max: u64) -> Result<(), QueryError> {
    let refuse = |refusal| Err(QueryError::Fetch(FetchError::Refused(refusal)));
    if body.len() as u64 > max {
        return refuse(RejectReason::TooLarge {
            declared: None,
            max,
        });
    }
    check_status(status, body).or_else(refuse)
}

/// If the body is an error object, report it instead of a malformed answer.
fn explain(fault: AnswerFault, status: u16, body: &[u8]) -> QueryError {
    match (&fault, error_object(status, body)) {
        (AnswerFault::Form { .. }, Some(error)) => {
            QueryError::Fetch(FetchError::Refused(RejectReason::Mint(error)))
        }
        _ => QueryError::Answer(fault),
    }
}

/// The points of one request, for checking its answer.
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

    /// The number of points.
    pub(crate) fn len(&self) -> usize {
        self.asked.len()
    }

    /// All points, in the order of the request.
    pub(crate) fn asked(&self) -> &'a [Asked] {
        self.asked
    }

    /// The index of this point in the request, which must not have occurred in the answer before. `seen` is
    /// updated.
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
    fn deal_splits_evenly_and_keeps_room_for_a_decoy() {
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
        // A batch size of 1 leaves no room for a decoy.
        assert_eq!(dealt(3, 1, true), [1, 1, 1]);
        assert_eq!(dealt(3, 2, true), [1, 1, 1]);
    }
}
