//! The answers of a look-up, and the reasons to doubt them.

use std::fmt;

use nutfilter_cashu::{KeysetId, NoteKind};

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
    /// The filters of a restore are more than an hour apart: what happened in between is in one of them only.
    DatesApart(FilterDates),
    /// The filters of a restore are older than the wallet's last activity, so its newest notes may be missing.
    OlderThanActivity {
        /// The time of the older filter, in Unix seconds.
        as_of: u64,
        /// [`RestoreOptions::last_activity`](crate::RestoreOptions::last_activity).
        last_activity: u64,
    },
    /// More notes are spent than were issued. An honest mint that removes old signatures says so, and one whose filters are
    /// exchanged.
    MoreSpentThanIssued {
        /// Number of spent notes.
        spent: u32,
        /// Number of issued notes.
        issued: u32,
    },
    /// The notes of these counters are in `spent` but were not issued: no more than chance explains, or than a newer `spent`
    /// explains. They count as used and spent.
    SpentNotIssued {
        /// The counters.
        counters: Vec<u32>,
    },
    /// Points of these counters match in the filter of the other kind, by chance or because `B_` and `Y` are exchanged.
    Exchanged {
        /// The counters.
        counters: Vec<u32>,
    },
    /// Filters with a small `M` match so often by chance that the search was ended: what lies behind is not known.
    SearchCutShort {
        /// How many counters were searched.
        counters: u32,
    },
    /// The mint has no filters, signed these notes, and did not say which of them are spent.
    Unchecked {
        /// The counters.
        counters: Vec<u32>,
    },
    /// The mint gave no signature on these messages, which are in `issued`. One in `M` is a false positive; more were
    /// withheld or lost.
    Unsigned {
        /// The counters.
        counters: Vec<u32>,
    },
    /// These notes are in a payment that has not ended. Restore again when it has.
    Pending {
        /// The counters.
        counters: Vec<u32>,
    },
    /// The mint refuses to answer about these messages.
    Refused {
        /// The counters.
        counters: Vec<u32>,
    },
    /// The keyset has expired, so nothing was shown. These notes were live.
    Expired {
        /// The counters.
        counters: Vec<u32>,
    },
    /// The mint answered about every note, but also something else.
    OddAnswer(AnswerFault),
    /// Restored without filters, by showing the mint every message.
    WithoutFilters,
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
        let mut about = |before: &str, counters: &[u32], after: &str| {
            write!(f, "{before}{}{after}", listed(counters))
        };
        match self {
            Warning::PossibleOtherDialect(other) => other.fmt(f),
            Warning::OldFilter { as_of, age } => write!(
                f,
                "the filter is {} days old (as of {as_of}): notes spent since then are missing",
                age / 86_400
            ),
            Warning::DatesApart(FilterDates { spent, issued }) => write!(
                f,
                "the filters are {} s apart ({spent} for spent notes, {issued} for issued ones): notes spent or issued in between may be wrong",
                spent.abs_diff(*issued)
            ),
            Warning::OlderThanActivity { as_of, last_activity } => write!(
                f,
                "the filters (as of {as_of}) are older than the wallet's last activity ({last_activity}): restore again later"
            ),
            Warning::MoreSpentThanIssued { spent, issued } => write!(
                f,
                "{spent} notes are spent but only {issued} issued: old signatures were removed, or the filters are wrong"
            ),
            Warning::SpentNotIssued { counters } => {
                about("spent without being issued: ", counters, "; counted as spent")
            }
            Warning::Exchanged { counters } => about(
                "`B_` and `Y` are swapped, or match the other filter by chance: ",
                counters,
                "",
            ),
            Warning::SearchCutShort { counters } => write!(
                f,
                "the filters match too often by chance (small M): only the first {counters} counters were searched"
            ),
            Warning::Unchecked { counters } => {
                let text = "signed, but the mint did not report which notes are spent: ";
                about(text, counters, "; restore again later")
            }
            Warning::Unsigned { counters } => {
                about("issued by the filter, but the mint gave no signature: ", counters, "")
            }
            Warning::Pending { counters } => {
                about("in a pending payment: ", counters, "; restore again when it has ended")
            }
            Warning::Refused { counters } => {
                about("the mint refused the messages of ", counters, "")
            }
            Warning::Expired { counters } => {
                about("the keyset has expired, and nothing was shown; live notes: ", counters, "")
            }
            Warning::OddAnswer(fault) => write!(f, "{fault}; all notes were answered"),
            Warning::WithoutFilters => {
                f.write_str("restored without filters: the mint was shown every message")
            }
            Warning::FewMatches { matches, lookups, expected } => write!(
                f,
                "only {matches} of {lookups} items match, expected {expected}: the filter may be \
                 old, incomplete, or made with an unknown hash"
            ),
        }
    }
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
