//! The points of one question to the mint, in batches: which body comes next, and what an answer means.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroUsize;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;

use crate::error::{FetchError, MintError, RejectReason};
use crate::policy::{check_status, error_object};
use crate::query_error::{AnswerFault, QueryError};

/// Points in a request, if the mint does not say how many it takes.
pub(crate) const BATCH: NonZeroUsize = NonZeroUsize::new(100).unwrap();

/// Maximum number of points in a request, whatever the mint says.
const MAX_BATCH: u64 = 1_000;

/// Waits after answers of 429 without a usable `Retry-After`, in seconds: the first, and the longest.
const FIRST_WAIT: u64 = 1;
const LONGEST_WAIT: u64 = 60;

/// Maximum number of points that the mint refuses one by one. A mint that refuses more answers no question.
const MAX_REFUSED: u64 = 10;

/// A point to ask about, and the index of its candidate.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) point: Vec<u8>,
    pub(crate) place: usize,
}

/// What is left of a question.
#[derive(Clone, Debug)]
pub(crate) struct Batches {
    /// The last batch is asked first.
    open: Vec<Vec<Asked>>,
    /// Nothing more is sent: the mint contradicted its filter, or refused too much.
    is_over: bool,
    waits: u32,
    refused: u64,
    /// Points answered so far, and how many of them are not in the filter's set.
    asked: u64,
    not_in_set: u64,
    /// The maximum of `not_in_set` that chance explains.
    limit: u64,
}

/// A complete answer of the mint.
#[derive(Clone, Copy)]
pub(crate) struct Reply<'a> {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<&'a str>,
    pub(crate) body: &'a [u8],
}

/// What follows from an answer.
#[derive(Debug)]
pub(crate) enum Step<T> {
    /// What the mint says, by the index of the candidate.
    Found(Vec<(usize, T)>),
    /// The mint refuses to answer about this candidate.
    Refused(usize, MintError),
    /// The same request must be sent again after this time.
    Wait(Duration),
}

impl Batches {
    /// The points must be shuffled.
    pub(crate) fn new(points: Vec<Asked>, size: NonZeroUsize, limit: u64) -> Self {
        let mut batches = Self {
            open: vec![points],
            is_over: false,
            waits: 0,
            refused: 0,
            asked: 0,
            not_in_set: 0,
            limit,
        };
        batches.cut(size);
        batches
    }

    /// Cuts what is open into batches of this size.
    pub(crate) fn cut(&mut self, size: NonZeroUsize) {
        let points: Vec<_> = self.open.drain(..).rev().flatten().collect();
        self.open = points.chunks(size.get()).rev().map(<[_]>::to_vec).collect();
    }

    /// The number of points without an answer.
    pub(crate) fn left(&self) -> usize {
        self.open.iter().map(Vec::len).sum()
    }

    /// The points of the next request, which are the same until it is answered.
    pub(crate) fn current(&self) -> Option<&[Asked]> {
        let current = self.open.last()?;
        (!self.is_over).then_some(current)
    }

    /// Takes the answer to the current request. `read` returns a value for each point in it, and whether the point is
    /// in the filter's set.
    pub(crate) fn answer<T>(
        &mut self,
        reply: Reply<'_>,
        max_bytes: u64,
        read: impl FnOnce(Question<'_>, &[u8]) -> Result<Vec<(usize, T, bool)>, AnswerFault>,
    ) -> Result<Step<T>, QueryError> {
        let left = self.left();
        let current = self.current().ok_or(QueryError::Unfinished { left })?;
        match reply.status {
            429 => return Ok(Step::Wait(self.wait(reply.retry_after))),
            400 => return self.refuse(reply.body),
            _ => {}
        }
        admit(reply, max_bytes)?;
        let found = read(Question::new(current), reply.body)
            .map_err(|fault| explain(fault, reply.status, reply.body))?;
        self.asked += found.len() as u64;
        self.not_in_set += found.iter().filter(|(_, _, in_set)| !in_set).count() as u64;
        if self.not_in_set > self.limit {
            self.is_over = true;
            return Err(QueryError::Contradicted {
                not_in_set: self.not_in_set,
                asked: self.asked,
                limit: self.limit,
            });
        }
        self.open.pop();
        self.waits = 0;
        let found = found.into_iter().map(|(place, value, _)| (place, value));
        Ok(Step::Found(found.collect()))
    }

    fn wait(&mut self, retry_after: Option<&str>) -> Duration {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let told =
            retry_after.and_then(|value| seconds_of(value, now.unwrap_or_default().as_secs()));
        let usual = FIRST_WAIT.checked_shl(self.waits).unwrap_or(LONGEST_WAIT);
        self.waits = (self.waits + 1).min(u64::BITS - 1);
        Duration::from_secs(told.unwrap_or(usual.min(LONGEST_WAIT)))
    }

    /// Halves the batch to find the point that the mint refuses.
    fn refuse<T>(&mut self, body: &[u8]) -> Result<Step<T>, QueryError> {
        let mut batch = self.open.pop().unwrap_or_default();
        let second = batch.split_off(batch.len() / 2);
        if let ([], [one]) = (&batch[..], &second[..]) {
            self.refused += 1;
            let error = error_object(400, body).unwrap_or(MintError {
                status: 400,
                ..MintError::default()
            });
            if self.refused > MAX_REFUSED {
                self.is_over = true;
                self.open.push(second);
                return Err(FetchError::Refused(RejectReason::Mint(error)).into());
            }
            return Ok(Step::Refused(one.place, error));
        }
        self.open.extend([second, batch]);
        Ok(Step::Found(Vec::new()))
    }
}

/// The batch that a body of `/v1/info` asks for.
#[must_use]
pub(crate) fn batch_of(info: &[u8]) -> NonZeroUsize {
    #[derive(serde::Deserialize)]
    struct Info {
        max_array_length: u64,
    }
    let told = serde_json::from_slice(info).ok();
    let told = told.map(|Info { max_array_length }| max_array_length.clamp(1, MAX_BATCH) as usize);
    told.and_then(NonZeroUsize::new).unwrap_or(BATCH)
}

/// The seconds that a `Retry-After` asks for: at least one. A number or a date.
pub(crate) fn seconds_of(retry_after: &str, now: u64) -> Option<u64> {
    let seconds = match retry_after.bytes().all(|byte| byte.is_ascii_digit()) {
        true if retry_after.len() > 9 => return None,
        true => retry_after.parse().ok()?,
        false => {
            let date = httpdate::parse_http_date(retry_after).ok()?;
            let date = date.duration_since(UNIX_EPOCH).ok()?.as_secs();
            date.saturating_sub(now)
        }
    };
    Some(seconds.max(1))
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
fn admit(reply: Reply<'_>, max: u64) -> Result<(), FetchError> {
    if reply.body.len() as u64 > max {
        let declared = None;
        return Err(RejectReason::TooLarge { declared, max }.into());
    }
    Ok(check_status(reply.status, reply.body)?)
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
    /// The candidates that the answer has not named yet.
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

    /// The candidate of this point, which must not have occurred in the answer before.
    pub(crate) fn take(&mut self, point: &[u8]) -> Result<usize, AnswerFault> {
        let place = *self.places.get(point).ok_or(AnswerFault::NotAsked)?;
        match self.open.remove(&place) {
            true => Ok(place),
            false => Err(AnswerFault::Repeated),
        }
    }

    /// The candidates that the answer left out.
    pub(crate) fn left_out(self) -> HashSet<usize> {
        self.open
    }
}

/// Shuffles uniformly: sorts by random numbers, which are so long that no two are equal.
pub(crate) fn shuffle<T>(items: &mut Vec<T>) -> Result<(), QueryError> {
    let mut keys = vec![[0_u8; 16]; items.len()];
    getrandom::fill(keys.as_flattened_mut()).map_err(|_| QueryError::Randomness)?;
    let mut keyed: Vec<_> = keys.into_iter().zip(items.drain(..)).collect();
    keyed.sort_unstable_by_key(|(key, _)| *key);
    items.extend(keyed.into_iter().map(|(_, item)| item));
    Ok(())
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
            let mut order = vec![0, 1, 2, 3];
            shuffle(&mut order).expect("an order");
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
