//! The items that matched: the only items that may be revealed to a mint.

use std::collections::HashMap;
use std::fmt;

use nutfilter_cashu::{KeysetId, NoteKind};

use crate::dialect::OtherDialect;
use crate::mint_filter::Answer;

/// The origin of a filter: mint, keyset and kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilterSource {
    /// The mint's base URL, without a slash at the end.
    pub mint: String,
    /// The keyset.
    pub keyset: KeysetId,
    /// Spent notes or issued ones.
    pub kind: NoteKind,
}

/// A warning about a look-up that the wallet's user should see. The answers are returned nevertheless.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Warning {
    /// The filter may have been made with another hash, but it is not certain.
    PossibleOtherDialect(OtherDialect),
    /// The filter is more than a day old: what was spent since then is missing.
    OldFilter {
        /// The filter's time, in Unix seconds.
        as_of: u64,
        /// Its age by the wallet's clock, in seconds.
        age: u64,
    },
    /// Fewer than half of the expected items match. A filter has no false negatives. Either the wallet's records
    /// are wrong, or the filter is old, incomplete, or made with an unknown hash.
    FewMatches {
        /// Items that matched.
        matches: u64,
        /// Items that were looked up.
        lookups: u64,
        /// Items that are in the set according to the wallet's records.
        expected: u64,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::PossibleOtherDialect(other) => other.fmt(f),
            Warning::OldFilter { as_of, age } => write!(
                f,
                "the filter is {} days old (as of {as_of}): notes spent since then are missing",
                age / 86_400
            ),
            Warning::FewMatches {
                matches,
                lookups,
                expected,
            } => write!(
                f,
                "only {matches} of {lookups} items match, expected {expected}: the filter may be \
                 old, incomplete, or made with an unknown hash"
            ),
        }
    }
}

/// The answers of a look-up, and the items that matched.
///
/// Only [`MintFilter::matches`](crate::MintFilter::matches) creates one, after all its limits have been checked.
/// Only its contents can be sent to a mint, so an absent item cannot be revealed by mistake.
#[derive(Clone, Debug)]
pub struct Matches<'a> {
    /// For each item that was looked up, its index in `items`; `None` if it is absent.
    places: Vec<Option<usize>>,
    /// The distinct items that matched.
    items: Vec<&'a [u8]>,
    /// The filter's time, in Unix seconds.
    as_of: u64,
    /// How many matches may be false positives before the filter becomes suspicious.
    chance_limit: u64,
    source: Option<FilterSource>,
    warnings: Vec<Warning>,
}

impl<'a> Matches<'a> {
    pub(crate) fn new<I: AsRef<[u8]>>(
        looked_up: &'a [I],
        answers: &[Answer],
        as_of: u64,
        chance_limit: u64,
        source: Option<FilterSource>,
    ) -> Self {
        let mut items = Vec::new();
        let mut known = HashMap::new();
        let place = |(item, answer): (&'a I, &Answer)| {
            (*answer == Answer::MaybePresent).then(|| {
                *known.entry(item.as_ref()).or_insert_with(|| {
                    items.push(item.as_ref());
                    items.len() - 1
                })
            })
        };
        let places = looked_up.iter().zip(answers).map(place).collect();
        Self {
            places,
            items,
            as_of,
            chance_limit,
            source,
            warnings: Vec::new(),
        }
    }

    pub(crate) fn with_warnings(mut self, warnings: Vec<Warning>) -> Self {
        self.warnings = warnings;
        self
    }

    /// Reasons to doubt the answers; usually empty.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// One answer for each item that was looked up, in order.
    pub fn answers(&self) -> impl Iterator<Item = Answer> + '_ {
        let as_of = self.as_of;
        self.places.iter().map(move |place| match place {
            Some(_) => Answer::MaybePresent,
            None => Answer::Absent { as_of },
        })
    }

    /// The distinct items that matched, in the order of their first occurrence.
    #[must_use]
    pub fn items(&self) -> &[&'a [u8]] {
        &self.items
    }

    /// The filter's time, in Unix seconds.
    #[must_use]
    pub fn as_of(&self) -> u64 {
        self.as_of
    }

    /// The origin of the filter; `None` when the wallet's own client fetched it.
    #[must_use]
    pub fn source(&self) -> Option<&FilterSource> {
        self.source.as_ref()
    }

    pub(crate) fn places(&self) -> &[Option<usize>] {
        &self.places
    }

    pub(crate) fn chance_limit(&self) -> u64 {
        self.chance_limit
    }
}
