//! How a wallet restores.

use std::time::Duration;

use crate::error::CheckError;
use crate::matches::FilterDates;

/// The counters of NUT-13 are below this number.
pub(crate) const COUNTERS: u32 = 1 << 31;

/// How a wallet restores.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RestoreOptions {
    /// The number of live notes by the wallet's records, if known. Far more than that are an error, and nothing is
    /// shown to the mint; fewer than half of it are a warning.
    pub expected: Option<u64>,
    /// Ask the mint about the notes that match `spent` (NUT-07), because one in `M` matches by chance. This shows the
    /// mint every spent note of the wallet. `restore_wallet` asks about the live ones too, of which some may be pending.
    pub confirm: bool,
    /// How many counters behind the last find are searched. Default: 1,000, because wallets leave gaps of hundreds. 300 in a
    /// keyset in which nothing is found, and without filters. A list of points is searched to its end.
    pub search: u32,
    /// How many counters the next one leaves free behind the last find. Default: 40, more than the blank outputs of a payment,
    /// and less than other wallets' restores cross.
    pub gap: u32,
    /// [`Restored::as_of`](crate::Restored::as_of) of the last restore of this keyset: older filters are an error.
    pub last_seen: Option<FilterDates>,
    /// The wallet's last activity, in Unix seconds, if known: older filters are a warning.
    pub last_activity: Option<u64>,
    /// What to do at a mint without filters.
    pub fallback: Fallback,
    /// Time for one call of [`MintClient::restore`](crate::MintClient::restore) or
    /// [`resume`](crate::MintClient::resume), waits included. Default: 10 minutes.
    pub time_limit: Duration,
}

/// Whether a restore may show the mint every message where filters do not answer (NUT-09, then NUT-07).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Fallback {
    /// Never.
    Never,
    /// Only if the mint does not announce filters: in `/v1/info`, by another valid filter, or by one that was seen before.
    #[default]
    Unannounced,
    /// Wherever the filters cannot be used.
    Always,
}

impl Default for RestoreOptions {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl RestoreOptions {
    /// The usual options.
    pub const DEFAULT: Self = Self {
        expected: None,
        confirm: false,
        search: 1_000,
        gap: 40,
        last_seen: None,
        last_activity: None,
        fallback: Fallback::Unannounced,
        // 600 batches at the 60 requests a minute that a stock nutshell allows.
        time_limit: Duration::from_secs(600),
    };

    pub(crate) fn check(&self) -> Result<(), CheckError> {
        match [("search", self.search), ("gap", self.gap)].into_iter().find(|one| one.1 >= COUNTERS)
        {
            Some((option, value)) => Err(CheckError::BadOption { option, value }),
            None => Ok(()),
        }
    }
}
