//! Prepares matches for requests: checks, counts and shuffles them, and splits them into batches.

use std::collections::{HashMap, HashSet};

use nutfilter_cashu::{KeysetId, NoteKind, PointKind};
use serde::de::DeserializeOwned;

use crate::error::{FetchError, RejectReason};
use crate::matches::Matches;
use crate::policy::{Policy, check_status, error_object};
use crate::query_error::{AnswerFault, QueryError};

/// The requests of one conversation, its progress, and a `T` for each match that was answered.
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

/// A point that the mint is asked about, and the index of its match.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) point: Vec<u8>,
    place: usize,
}

impl<T: Clone> Batches<T> {
    /// All points must be of the curve of the keyset, or of one curve if none is given.
    pub(crate) fn new(
        matches: &Matches<'_>,
        kind: NoteKind,
        keyset: Option<&KeysetId>,
        policy: &Policy,
    ) -> Result<Self, QueryError> {
        if let Some(source) = matches.source().filter(|source| source.kind != kind) {
            return Err(QueryError::OtherSource(Box::new(source.clone())));
        }
        let found = matches.items();
        if found.len() as u64 > policy.max_revealed {
            return Err(QueryError::TooMany {
                matches: found.len() as u64,
                max: policy.max_revealed,
            });
        }
        let mut expected = keyset.map(KeysetId::point_kind);
        let mut all = Vec::with_capacity(found.len());
        for (place, item) in found.iter().enumerate() {
            let kind = PointKind::on_curve(item).ok_or(QueryError::NotAPoint { place })?;
            let expected = *expected.get_or_insert(kind);
            if kind != expected {
                return Err(QueryError::OtherCurve {
                    place,
                    bytes: kind.bytes(),
                    expected: expected.bytes(),
                });
            }
            let point = item.to_vec();
            all.push(Asked { point, place });
        }
        let batches = shuffle(all)?;
        let batches = batches.chunks(policy.batch.get()).map(<[_]>::to_vec);
        Ok(Self {
            batches: batches.collect(),
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
        read: impl FnOnce(Question<'_>, &[u8]) -> Result<Vec<(usize, T, bool)>, AnswerFault>,
    ) -> Result<(), QueryError> {
        let Some(current) = self.current() else {
            return Err(QueryError::Unfinished {
                requests: self.open(),
            });
        };
        // `failed` is set below, and cleared only after the answer has been validated.
        let question = Question::new(current);
        let answer = admit(status, body, self.max_answer_bytes)
            .and_then(|()| read(question, body).map_err(|fault| explain(fault, status, body)));
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

/// Parses an answer. The parser's error text is dropped, because it may quote a point.
pub(crate) fn from_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, AnswerFault> {
    serde_json::from_slice(body).map_err(|error| AnswerFault::Form {
        line: error.line(),
        column: error.column(),
    })
}

pub(crate) fn from_hex(text: &str, field: &'static str) -> Result<Vec<u8>, AnswerFault> {
    // The decoder would ignore a prefix.
    let has_prefix = text.starts_with("0x") || text.starts_with("0X");
    let digits = Some(text).filter(|_| !has_prefix);
    let decoded = digits.and_then(|digits| const_hex::decode(digits).ok());
    decoded.ok_or(AnswerFault::Hex { field })
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
    places: HashMap<&'a [u8], usize>,
    /// The matches that the answer has not named yet.
    open: HashSet<usize>,
}

impl<'a> Question<'a> {
    fn new(asked: &'a [Asked]) -> Self {
        let place = |asked: &'a Asked| (asked.point.as_slice(), asked.place);
        Self {
            places: asked.iter().map(place).collect(),
            open: asked.iter().map(|asked| asked.place).collect(),
        }
    }

    /// The number of points.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// The match of this point, which must not have occurred in the answer before.
    pub(crate) fn take(&mut self, point: &[u8]) -> Result<usize, AnswerFault> {
        let place = *self.places.get(point).ok_or(AnswerFault::NotAsked)?;
        match self.open.remove(&place) {
            true => Ok(place),
            false => Err(AnswerFault::Repeated),
        }
    }

    /// The matches that the answer left out.
    pub(crate) fn left_out(self) -> HashSet<usize> {
        self.open
    }
}

/// Shuffles uniformly: sorts by random numbers, which are so long that no two are equal.
fn shuffle<T>(items: Vec<T>) -> Result<Vec<T>, QueryError> {
    let mut keys = vec![[0_u8; 16]; items.len()];
    getrandom::fill(keys.as_flattened_mut()).map_err(|_| QueryError::Randomness)?;
    let mut keyed: Vec<_> = keys.into_iter().zip(items).collect();
    keyed.sort_unstable_by_key(|(key, _)| *key);
    Ok(keyed.into_iter().map(|(_, item)| item).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_has_no_prefix_and_whole_bytes() {
        assert_eq!(from_hex("00fF", "Y").ok(), Some(vec![0, 255]));
        for text in ["0x00ff", "0X00", "0", "0g", "00 "] {
            let refused = from_hex(text, "Y");
            assert!(
                matches!(refused, Err(AnswerFault::Hex { field: "Y" })),
                "{text}"
            );
        }
    }

    #[test]
    fn shuffle_yields_every_order_about_equally_often() {
        let mut seen = std::collections::BTreeMap::new();
        for _ in 0..24_000 {
            let order = shuffle(vec![0, 1, 2, 3]).expect("an order");
            *seen.entry(order).or_insert(0_u32) += 1;
        }
        assert_eq!(seen.len(), 24);
        // Each order is expected 1,000 times with a standard deviation of 31; allow ten deviations.
        assert!(
            seen.values().all(|count| (690..1_310).contains(count)),
            "{seen:?}"
        );
    }
}
