//! The points of one question to the mint, in batches: which body comes next, and what an answer means.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroUsize;
use std::time::{Duration, UNIX_EPOCH};

use crate::answer_fault::AnswerFault;
use crate::error::{FetchError, MintError, RejectReason};
use crate::json_members::JsonMembers;
use crate::policy::{check_status, error_object};
use crate::query_error::QueryError;

/// Points in a request, if the mint does not say how many it takes.
pub(crate) const BATCH: NonZeroUsize = NonZeroUsize::new(100).unwrap();

/// Maximum number of points in a request, whatever the mint says.
const MAX_BATCH: u64 = 1_000;

/// The wait after an answer of 429 without a usable `Retry-After`, in seconds. Each request that nutshell refuses begins
/// its minute again, so the client must be silent for all of it.
pub(crate) const SILENCE: u64 = 61;

/// The longest `Retry-After`, in seconds: 31 years. A longer one counts as this.
const LONGEST_WAIT: u64 = 999_999_999;

/// Maximum number of points that the mint refuses one by one. A mint that refuses more answers no question.
const MAX_REFUSED: u64 = 10;

/// A point to ask about, and the index of its candidate.
#[derive(Clone, Debug)]
pub(crate) struct AskedPoint {
    pub(crate) point: Vec<u8>,
    pub(crate) place: usize,
}

/// What is left of a question.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batches {
    /// The last batch is asked first.
    open: Vec<Vec<AskedPoint>>,
    /// Nothing more is sent: the mint contradicted its filter, or refused too much.
    is_over: bool,
    /// Points that an answer left open although it had others, and its first fault.
    odd: Vec<AskedPoint>,
    fault: Option<AnswerFault>,
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
    /// The clock, in Unix seconds.
    pub(crate) now: u64,
}

/// What an answer says: a value for each point, whether the point is in the filter's set, and the first fault.
pub(crate) struct Said<T> {
    pub(crate) found: Vec<(usize, T, bool)>,
    /// The candidates that the answer does not name.
    pub(crate) left_out: Vec<usize>,
    pub(crate) fault: Option<AnswerFault>,
}

impl<T: PartialEq> Said<T> {
    /// The valid values of an answer, each with its point, and the fault of the first one that is not valid. What is said twice
    /// is known only if it is the same.
    pub(crate) fn of(
        asked: &[AskedPoint],
        all: impl Iterator<Item = Result<(Vec<u8>, T, bool), AnswerFault>>,
    ) -> Self {
        let of = |asked: &AskedPoint| (asked.place, Vec::new());
        let mut said: HashMap<_, _> = asked.iter().map(|one| (&one.point[..], of(one))).collect();
        let (mut found, mut left_out, mut fault) = (Vec::new(), Vec::new(), None);
        for one in all {
            let taken = one.and_then(|(point, value, in_set)| {
                let (_, values) = said.get_mut(&point[..]).ok_or(AnswerFault::NotAsked)?;
                values.push((value, in_set));
                (values.len() == 1).then_some(()).ok_or(AnswerFault::Repeated)
            });
            fault = fault.or(taken.err());
        }
        for (place, mut values) in said.into_values() {
            let is_sure = values.windows(2).all(|two| two[0] == two[1]);
            match values.pop() {
                None => left_out.push(place),
                Some((value, in_set)) if is_sure => found.push((place, value, in_set)),
                Some(_) => {}
            }
        }
        Self { found, left_out, fault }
    }

    pub(crate) fn map<U>(self, to: impl Fn(T) -> U) -> Said<U> {
        let found = self.found.into_iter();
        Said {
            found: found.map(|(place, value, in_set)| (place, to(value), in_set)).collect(),
            left_out: self.left_out,
            fault: self.fault,
        }
    }
}

/// What follows from an answer.
#[derive(Debug)]
pub(crate) enum BatchStep<T> {
    /// What the mint says, by the index of the candidate; then why nothing more is asked.
    Found(Vec<(usize, T)>, Option<QueryError>),
    /// The mint refuses to answer about this candidate.
    Refused(usize, MintError),
    /// The same request must be sent again after this time.
    Wait(Duration),
}

impl Batches {
    /// The points must be shuffled.
    pub(crate) fn new(points: Vec<AskedPoint>, limit: u64) -> Self {
        let mut batches = Self { limit, ..Self::default() };
        batches.add(points, BATCH);
        batches
    }

    /// Asks about these points as well, after those that are open. They must be shuffled.
    pub(crate) fn add(&mut self, points: Vec<AskedPoint>, size: NonZeroUsize) {
        if !points.is_empty() {
            self.open.insert(0, points);
            self.cut(size);
        }
    }

    /// Cuts what is open into batches of this size.
    pub(crate) fn cut(&mut self, size: NonZeroUsize) {
        let points: Vec<_> = self.open.drain(..).rev().flatten().collect();
        self.open = points.chunks(size.get()).rev().map(<[_]>::to_vec).collect();
    }

    /// The number of points that are not asked about yet.
    pub(crate) fn left(&self) -> usize {
        self.open.iter().map(Vec::len).sum()
    }

    /// Asks about nothing that is open. What is added is not compared with the filter.
    #[cfg(feature = "cashu")]
    pub(crate) fn stop(&mut self) {
        self.open.clear();
        (self.is_over, self.limit) = (false, u64::MAX);
    }

    /// The candidates that are not answered yet.
    pub(crate) fn places(&self) -> impl Iterator<Item = usize> {
        let open = self.open.iter().chain([&self.odd]).flatten();
        open.map(|asked| asked.place)
    }

    /// Whether nothing more is sent, whatever is left.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// The first fault of the answers, and whether it left points open.
    pub(crate) fn fault(&self) -> Option<(&AnswerFault, bool)> {
        Some((self.fault.as_ref()?, !self.odd.is_empty()))
    }

    /// Asks once more about the points that odd answers left open.
    pub(crate) fn ask_again(&mut self) {
        if !self.odd.is_empty() {
            self.open.insert(0, std::mem::take(&mut self.odd));
            self.fault = None;
        }
    }

    /// The points of the next request, which are the same until it is answered.
    pub(crate) fn current(&self) -> Option<&[AskedPoint]> {
        let current = self.open.last()?;
        (!self.is_over).then_some(current)
    }

    /// Takes the answer to the current request. What it says is kept, whatever else is wrong with it. An error is an
    /// answer that says nothing: the same request may be sent again.
    pub(crate) fn answer<T>(
        &mut self,
        reply: Reply<'_>,
        max_bytes: u64,
        read: impl FnOnce(&[AskedPoint], &[u8]) -> Result<Said<T>, AnswerFault>,
    ) -> Result<BatchStep<T>, QueryError> {
        let left = self.left();
        let current = self.current().ok_or(QueryError::Unfinished { left })?;
        match reply.status {
            429 => return Ok(BatchStep::Wait(wait(reply.retry_after, reply.now))),
            // A list that is too long, or a point that the mint does not take. No other status: each request counts where
            // requests are limited.
            400 | 413 | 422 => return self.refuse(reply.status, reply.body),
            _ => {}
        }
        admit(reply, max_bytes)?;
        let explain = |fault| explain(fault, reply.status, reply.body);
        let Said { found, fault, .. } = read(current, reply.body).map_err(explain)?;
        if let Some(fault) = fault {
            if found.is_empty() {
                return Err(explain(fault));
            }
            self.fault.get_or_insert(fault);
        }
        let answered: HashSet<_> = found.iter().map(|&(place, ..)| place).collect();
        let mut rest = self.open.pop().unwrap_or_default();
        rest.retain(|asked| !answered.contains(&asked.place));
        self.odd.extend(rest);
        self.asked += found.len() as u64;
        self.not_in_set += found.iter().filter(|(_, _, in_set)| !in_set).count() as u64;
        self.is_over = self.not_in_set > self.limit && 2 * self.not_in_set > self.asked;
        let error = self.is_over.then_some(QueryError::Contradicted {
            not_in_set: self.not_in_set,
            asked: self.asked,
            limit: self.limit,
        });
        let found = found.into_iter().map(|(place, value, _)| (place, value));
        Ok(BatchStep::Found(found.collect(), error))
    }

    /// Halves the batch to find the point that the mint refuses.
    fn refuse<T>(&mut self, status: u16, body: &[u8]) -> Result<BatchStep<T>, QueryError> {
        let mut batch = self.open.pop().unwrap_or_default();
        let second = batch.split_off(batch.len() / 2);
        if let ([], [one]) = (&batch[..], &second[..]) {
            let place = one.place;
            self.refused += 1;
            if self.refused > MAX_REFUSED {
                self.is_over = true;
                self.open.push(second);
                check_status(status, body).map_err(FetchError::from)?;
            }
            let error =
                error_object(status, body).unwrap_or(MintError { status, ..MintError::default() });
            return Ok(BatchStep::Refused(place, error));
        }
        self.open.extend([second, batch]);
        Ok(BatchStep::Found(Vec::new(), None))
    }
}

/// How long to wait after an answer of 429.
pub(crate) fn wait(retry_after: Option<&str>, now: u64) -> Duration {
    let told = retry_after.and_then(|value| seconds_of(value, now));
    Duration::from_secs(told.unwrap_or(SILENCE))
}

/// What a mint says of itself in `/v1/info`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MintInfo {
    /// Points in a request: `max_array_length`, at most 1,000, or 100 without one.
    pub batch: NonZeroUsize,
    /// Whether it announces filters, by `"filters": {"supported": true}`. A member of another form may announce them, too.
    pub has_filters: bool,
}

impl Default for MintInfo {
    fn default() -> Self {
        Self { batch: BATCH, has_filters: false }
    }
}

impl MintInfo {
    /// Parses a body of `/v1/info`; `None` if it is not a JSON object.
    #[must_use]
    pub fn parse(body: &[u8]) -> Option<Self> {
        let info = JsonMembers::parse(body).ok()?;
        let told = info.integer("max_array_length").ok();
        let told = told.map(|length| length.clamp(1, MAX_BATCH) as usize);
        let filters = info.object("filters");
        let supported = filters.and_then(|of| of.map_or(Ok(None), |of| of.read("supported")));
        Some(Self {
            batch: told.and_then(NonZeroUsize::new).unwrap_or(BATCH),
            has_filters: !matches!(supported, Ok(None | Some(false))),
        })
    }
}

/// Characters of a date as HTTP has it today: the forms of other lengths are obsolete.
const DATE: usize = 29;

/// The seconds that a `Retry-After` asks for: at least one. A number or a date.
pub(crate) fn seconds_of(retry_after: &str, now: u64) -> Option<u64> {
    let seconds = match retry_after.bytes().all(|byte| byte.is_ascii_digit()) {
        true if retry_after.is_empty() => return None,
        true => retry_after.parse().unwrap_or(LONGEST_WAIT),
        false if retry_after.len() != DATE => return None,
        false => {
            let date = httpdate::parse_http_date(retry_after).ok()?;
            let date = date.duration_since(UNIX_EPOCH).ok()?.as_secs();
            date.saturating_sub(now)
        }
    };
    Some(seconds.clamp(1, LONGEST_WAIT))
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
    fn shuffle_yields_every_order_about_equally_often() {
        let mut seen = std::collections::BTreeMap::new();
        for _ in 0..24_000 {
            let mut order = vec![0, 1, 2, 3];
            shuffle(&mut order).expect("an order");
            *seen.entry(order).or_insert(0_u32) += 1;
        }
        assert_eq!(seen.len(), 24);
        // Each order is expected 1,000 times with a standard deviation of 31; allow ten deviations.
        assert!(seen.values().all(|count| (690..1_310).contains(count)), "{seen:?}");
    }
}
