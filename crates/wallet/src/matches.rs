//! The answers of a look-up, and the reasons to doubt them.

use nutfilter_cashu::{KeysetId, NoteKind};
use thiserror::Error;

use crate::answer_fault::AnswerFault;
use crate::dialect_check::OtherDialect;

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

/// The times of the filters of a keyset, in Unix seconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FilterDates {
    /// Of the filter of spent notes.
    pub spent: u64,
    /// Of the filter of issued notes.
    pub issued: u64,
}

/// A warning about a look-up that the wallet's user should see. The answers are returned nevertheless.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum Warning {
    /// The filter may have been made with another hash, but it is not certain.
    #[error("{0}")]
    PossibleOtherDialect(OtherDialect),
    /// The filter is more than a day old: what was spent since then is missing.
    #[error("the filter is {} days old (as of {as_of}): notes spent since then are missing", .age / 86_400)]
    OldFilter {
        /// The filter's time, in Unix seconds.
        as_of: u64,
        /// Its age by the wallet's clock, in seconds.
        age: u64,
    },
    /// The filters of a restore are more than an hour apart: what happened in between is in one of them only.
    #[error(
        "the filters are {} s apart ({} for spent notes, {} for issued ones): notes spent or issued in between may be wrong",
        .0.spent.abs_diff(.0.issued), .0.spent, .0.issued
    )]
    DatesApart(FilterDates),
    /// The filters of a restore are older than the wallet's last activity, so its newest notes may be missing.
    #[error(
        "the filters (as of {as_of}) are older than the wallet's last activity ({last_activity}): restore again later"
    )]
    OlderThanActivity {
        /// The time of the older filter, in Unix seconds.
        as_of: u64,
        /// [`RestoreOptions::last_activity`](crate::RestoreOptions::last_activity).
        last_activity: u64,
    },
    /// More notes are spent than were issued. An honest mint that removes old signatures says so, and one whose filters are
    /// exchanged.
    #[error(
        "{spent} notes are spent but only {issued} issued: old signatures were removed, or the filters are wrong"
    )]
    MoreSpentThanIssued {
        /// Number of spent notes.
        spent: u32,
        /// Number of issued notes.
        issued: u32,
    },
    /// The notes of these counters are in `spent` but were not issued: no more than chance explains, or than a newer `spent`
    /// explains. They count as used and spent.
    #[error("spent without being issued: {}; counted as spent", listed(.counters))]
    SpentNotIssued {
        /// The counters.
        counters: Vec<u32>,
    },
    /// Points of these counters match in the filter of the other kind, by chance or because `B_` and `Y` are exchanged.
    #[error("`B_` and `Y` are swapped, or match the other filter by chance: {}", listed(.counters))]
    Exchanged {
        /// The counters.
        counters: Vec<u32>,
    },
    /// Filters with a small `M` match so often by chance that the search was ended: what lies behind is not known.
    #[error(
        "the filters match too often by chance (small M): only the first {counters} counters were searched"
    )]
    SearchCutShort {
        /// How many counters were searched.
        counters: u32,
    },
    /// The mint has no filters, signed these notes, and did not say which of them are spent.
    #[error(
        "signed, but the mint did not report which notes are spent: {}; restore again later",
        listed(.counters)
    )]
    Unchecked {
        /// The counters.
        counters: Vec<u32>,
    },
    /// The mint gave no signature on these messages, which are in `issued`. One in `M` is a false positive; more were
    /// withheld or lost.
    #[error("issued by the filter, but the mint gave no signature: {}", listed(.counters))]
    Unsigned {
        /// The counters.
        counters: Vec<u32>,
    },
    /// These notes are in a payment that has not ended. Restore again when it has.
    #[error("in a pending payment: {}; restore again when it has ended", listed(.counters))]
    Pending {
        /// The counters.
        counters: Vec<u32>,
    },
    /// The mint refuses to answer about these messages.
    #[error("the mint refused the messages of {}", listed(.counters))]
    Refused {
        /// The counters.
        counters: Vec<u32>,
    },
    /// The keyset has expired, so nothing was shown. These notes were live.
    #[error("the keyset has expired, and nothing was shown; live notes: {}", listed(.counters))]
    Expired {
        /// The counters.
        counters: Vec<u32>,
    },
    /// The mint answered about every note, but also something else.
    #[error("{0}; all notes were answered")]
    OddAnswer(AnswerFault),
    /// Restored without filters, by showing the mint every message.
    #[error("restored without filters: the mint was shown every message")]
    WithoutFilters,
    /// Fewer than half of the expected items match. A filter has no false negatives. Either the wallet's records
    /// are wrong, or the filter is old, incomplete, or made with an unknown hash.
    #[error(
        "only {matches} of {lookups} items match, expected {expected}: the filter may be old, incomplete, or made with \
         an unknown hash"
    )]
    FewMatches {
        /// Items that matched.
        matches: u64,
        /// Items that were looked up.
        lookups: u64,
        /// Items that are in the set according to the wallet's records.
        expected: u64,
    },
}

/// The first counters, in words.
fn listed(counters: &[u32]) -> String {
    const SHOWN: usize = 10;
    let shown = counters.iter().take(SHOWN).map(u32::to_string);
    let shown = shown.collect::<Vec<_>>().join(", ");
    match counters.len() {
        0 => "unknown".to_owned(),
        1 => format!("counter {shown}"),
        len if len > SHOWN => format!("{len} counters ({shown} ...)"),
        _ => format!("counters {shown}"),
    }
}

impl Warning {
    pub(crate) fn is_about_the_hash(&self) -> bool {
        matches!(self, Warning::PossibleOtherDialect(_))
    }
}

/// The answers of a look-up.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Matches {
    /// One for each item, in order.
    pub answers: Vec<Answer>,
    /// Reasons to doubt the answers; usually empty.
    pub warnings: Vec<Warning>,
}
