//! A validated filter from a mint, and look-ups in it.

use nutfilter::{Filter, ItemHash, Nut25, Params};

use crate::dialect::{OtherDialect, other_dialect};
use crate::error::CheckError;
use crate::match_limit::match_limit;
use crate::matches::{FilterSource, Matches, Warning};
use crate::policy::FetchContext;

/// The result of a look-up of one item.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Answer {
    /// The item was not in the set at that time. This says nothing about the present.
    Absent {
        /// The filter's time, in Unix seconds.
        as_of: u64,
    },
    /// The item is in the set or is a false positive. Confirm it with the mint.
    MaybePresent,
}

/// A validated filter of one keyset, with its timestamp.
#[derive(Clone, Debug)]
pub struct MintFilter<H: ItemHash = Nut25> {
    filter: Filter<Vec<u8>, H>,
    timestamp: u64,
    rolled_back_from: Option<u64>,
    max_match_factor: u32,
    source: Option<FilterSource>,
    /// How old the filter was when it was accepted, in seconds.
    age: u64,
}

/// Age in seconds above which a filter is doubtful. Mints renew the timestamp every few minutes.
const MAX_AGE: u64 = 86_400;

impl<H: ItemHash> MintFilter<H> {
    pub(crate) fn new(
        filter: Filter<Vec<u8>, H>,
        timestamp: u64,
        moment: FetchContext,
        max_match_factor: u32,
    ) -> Self {
        Self {
            filter,
            timestamp,
            rolled_back_from: moment.last_seen.filter(|&seen| timestamp < seen),
            max_match_factor,
            source: None,
            age: moment.now.saturating_sub(timestamp),
        }
    }

    /// Records the mint, keyset and kind of the filter.
    #[cfg(feature = "client")]
    pub(crate) fn fetched_from(mut self, source: FilterSource) -> Self {
        self.source = Some(source);
        self
    }

    /// The filter's timestamp, in Unix seconds. Store it, and pass it as `last_seen` next time.
    #[must_use]
    pub fn as_of(&self) -> u64 {
        self.timestamp
    }

    /// Number of items in the set, including duplicates.
    #[must_use]
    pub fn n(&self) -> u32 {
        self.filter.n()
    }

    /// `P` and `M`.
    #[must_use]
    pub fn params(&self) -> Params {
        self.filter.params()
    }

    /// The filter itself.
    #[must_use]
    pub fn filter(&self) -> &Filter<Vec<u8>, H> {
        &self.filter
    }

    /// The time of the newest filter seen before, in Unix seconds, if that is later. The cause is a stale cache, or a mint
    /// that hides spent notes. Look-ups then return an error.
    #[must_use]
    pub fn rolled_back_from(&self) -> Option<u64> {
        self.rolled_back_from
    }

    /// Returns one answer for each item, in order. For wallets that know nothing yet, such as one that restores
    /// from its seed: any number of matches is accepted.
    ///
    /// # Errors
    ///
    /// [`CheckError::RolledBack`] when the filter is older than one seen before, and [`CheckError::OtherDialect`]
    /// when it was made with another hash.
    ///
    /// # Cost
    ///
    /// One pass over the filter for all items together, and one with the other known hashes for the items that did
    /// not match.
    pub fn check<I: AsRef<[u8]>>(&self, items: &[I]) -> Result<Vec<Answer>, CheckError> {
        Ok(self.look_up(items)?.0)
    }

    /// Looks up the items and keeps those that match, for confirmation or restoration. `expected` is the number of
    /// items in the set according to the wallet's records, if known: far more matches are then an error. The items
    /// should all be different, because each repetition of a matching item counts.
    ///
    /// Read [`Matches::warnings`] before you use the answers.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check), and [`CheckError::TooManyMatches`] above [`match_limit`].
    pub fn matches<'a, I: AsRef<[u8]>>(
        &self,
        items: &'a [I],
        expected: Option<u64>,
    ) -> Result<Matches<'a>, CheckError> {
        let (answers, other_dialect) = self.look_up(items)?;
        let mut warnings: Vec<_> = other_dialect
            .map(Warning::PossibleOtherDialect)
            .into_iter()
            .collect();
        if self.age > MAX_AGE {
            let (as_of, age) = (self.timestamp, self.age);
            warnings.push(Warning::OldFilter { as_of, age });
        }
        let lookups = answers.len() as u64;
        if let Some(expected) = expected {
            let matches = self.limit_matches(&answers, expected)?;
            // Members always match, so the records or the filter are wrong about at least half of them.
            if matches < expected.min(lookups).div_ceil(2) {
                warnings.push(Warning::FewMatches {
                    matches,
                    lookups,
                    expected,
                });
            }
        }
        let chance_limit = match_limit(lookups, 0, self.params().m(), self.max_match_factor);
        let matches = Matches::new(
            items,
            &answers,
            self.timestamp,
            chance_limit,
            self.source.clone(),
        );
        Ok(matches.with_warnings(warnings))
    }

    /// Returns the answers, and a suspicion about the hash that is too weak to reject them.
    fn look_up<I: AsRef<[u8]>>(
        &self,
        items: &[I],
    ) -> Result<(Vec<Answer>, Option<OtherDialect>), CheckError> {
        if let Some(last_seen) = self.rolled_back_from {
            return Err(CheckError::RolledBack {
                timestamp: self.timestamp,
                last_seen,
            });
        }
        let matched = self.filter.matches(items);
        let other = other_dialect(&self.filter, items, &matched);
        if let Some(other) = other.as_ref().filter(|other| other.is_certain()) {
            return Err(CheckError::OtherDialect(other.clone()));
        }
        let as_of = self.timestamp;
        let answer = |matched| {
            if matched {
                Answer::MaybePresent
            } else {
                Answer::Absent { as_of }
            }
        };
        Ok((matched.into_iter().map(answer).collect(), other))
    }

    /// Returns the number of matches, or an error if it is above the limit.
    fn limit_matches(&self, answers: &[Answer], expected: u64) -> Result<u64, CheckError> {
        let lookups = answers.len() as u64;
        let matches = answers
            .iter()
            .filter(|&&answer| answer == Answer::MaybePresent)
            .count() as u64;
        let limit = match_limit(lookups, expected, self.params().m(), self.max_match_factor);
        if matches > limit {
            return Err(CheckError::TooManyMatches {
                matches,
                lookups,
                expected,
                limit,
            });
        }
        Ok(matches)
    }
}
