//! What a service tells about itself: whether it is ready, and its numbers.

use core::fmt;
use core::str::FromStr;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nutfilter_cashu::{KeysetId, NoteKind};
use nutfilter_objects::Table;

use crate::source::OpenCommits;

/// The numbers of a service since its start, and the filters that it ought to serve.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Status {
    /// Short name of the mint's software.
    pub mint: String,
    /// The filters of the last reading, or of the output directory before it.
    pub filters: Vec<FilterStatus>,
    /// When the last refresh began that read both kinds and the keysets, in Unix seconds; 0 before it.
    pub refreshed: u64,
    /// Why the last refresh failed, wholly or in part.
    pub failure: Option<String>,
    /// Refreshes that succeeded, that succeeded for some filters, and that failed.
    pub refreshes: [u64; 3],
    /// Seconds that refreshes have taken.
    pub seconds: f64,
    /// Items read, by kind: by readings of everything, and by others.
    pub read: [[u64; 2]; 2],
    /// Whole readings, by kind and by the reason of the source.
    pub whole_readings: BTreeMap<(NoteKind, &'static str), u64>,
    /// Unreadable rows since the last whole reading, by kind.
    pub unreadable: [u64; 2],
    /// Items that a whole reading did not find again, since the start.
    pub items_lost: u64,
    /// Items that the last whole readings did not find; the filters keep them.
    pub items_gone: u64,
    /// Keysets whose filters stay as they were published, because the store lacks items of them.
    pub held: Vec<Loss>,
    /// Whether the store has none of the published keysets. Then no refresh follows.
    pub other_mint: bool,
    /// Published filters that could not be read at the start, and so not be compared with the store.
    pub not_compared: Vec<String>,
    /// Rows of the last whole reading without a valid keyset, by kind. They count in every filter of the kind.
    pub without_keyset: [u64; 2],
    /// Whether the store is one that nobody seems to have open ([`MintSource::is_alone`](crate::MintSource::is_alone)).
    pub alone: bool,
    /// Commits that held the dates back after the last refresh ([`MintSource::open_commits`](crate::MintSource::open_commits)).
    pub open_commits: OpenCommits,
    /// Filters that were withdrawn because the clock was set back.
    pub withdrawn: u64,
    /// Failed fetches of the mint's info.
    pub info_failures: u64,
}

impl Status {
    /// Whether a refresh has succeeded, at least for some filters. Then the keysets are known.
    #[must_use]
    pub fn is_read(&self) -> bool {
        self.refreshes[0] + self.refreshes[1] > 0
    }

    /// The items in all filters that are served, by kind.
    #[must_use]
    pub fn items(&self) -> [u64; 2] {
        NoteKind::ALL.map(|kind| {
            let filters = self.filters.iter().filter(|filter| filter.kind == kind);
            filters.map(|filter| filter.items).sum()
        })
    }
}

/// A filter that ought to be served.
#[derive(Clone, Debug)]
pub struct FilterStatus {
    /// The path of its object.
    pub path: String,
    /// The keyset, if it is known from a reading.
    pub keyset: Option<KeysetId>,
    /// The kind.
    pub kind: NoteKind,
    /// Whether the mint still signs with the keyset.
    pub active: bool,
    /// The number of items in the filter that is served; 0 without one, or before the first reading.
    pub items: u64,
    /// Whether it is as new as the last reading.
    pub state: FilterState,
}

/// Whether a filter is as new as the last reading, or why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterState {
    /// It is.
    Current,
    /// The store cannot prove anything newer than the filter's date.
    Idle,
    /// There is no filter, because the store proves no date.
    Undated,
    /// A row of the keyset cannot be read.
    Unreadable,
    /// The store lacks items of a filter that was published before.
    Held,
    /// The keyset has expired, and the mint removed its notes.
    Retired,
}

impl FilterState {
    /// All states.
    pub const ALL: [Self; 6] =
        [Self::Current, Self::Idle, Self::Undated, Self::Unreadable, Self::Held, Self::Retired];

    /// The word in metrics and in `/health`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Idle => "idle",
            Self::Undated => "undated",
            Self::Unreadable => "unreadable",
            Self::Held => "held",
            Self::Retired => "retired",
        }
    }
}

/// Values of a keyset's published filters that the store no longer has: `KEYSET=VALUES@DATE`, as the log prints a held keyset
/// and as an operator accepts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The keyset.
    pub keyset: KeysetId,
    /// The number of values, of both filters together.
    pub values: u64,
    /// The date of the newer one of both filters.
    pub date: u64,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}@{}", self.keyset, self.values, self.date)
    }
}

impl FromStr for Loss {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (keyset, rest) = text.rsplit_once('=')?;
            let (values, date) = rest.split_once('@')?;
            Some(Self {
                keyset: KeysetId::parse(keyset).ok()?,
                values: values.parse().ok()?,
                date: date.parse().ok()?,
            })
        };
        parse().ok_or_else(|| {
            "must be KEYSET=VALUES@DATE, as the log line of the held keyset prints it".to_owned()
        })
    }
}

/// Shares the [`Status`] of a service between the thread that refreshes and those that answer.
#[derive(Debug)]
pub struct Monitor {
    table: Arc<Table>,
    status: Mutex<Status>,
    changes: AtomicU64,
    pub(crate) stop: AtomicBool,
    /// Losses that the operator has accepted since the last refresh began.
    pub(crate) accepted: Mutex<Vec<Loss>>,
}

impl Monitor {
    /// Watches a table. What is in it already are the filters that ought to be served, until the first reading.
    #[must_use]
    pub fn new(table: Arc<Table>) -> Arc<Self> {
        let mut filters = vec![];
        for object in table.objects() {
            let kind = parse_path(object.path()).map(|(kind, _)| kind);
            filters.extend(kind.map(|kind| FilterStatus {
                path: object.path().to_owned(),
                keyset: None,
                kind,
                active: true,
                items: 0,
                state: FilterState::Current,
            }));
        }
        Arc::new(Self {
            table,
            status: Mutex::new(Status { filters, ..Status::default() }),
            changes: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            accepted: Mutex::default(),
        })
    }

    /// The objects.
    #[must_use]
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The status now.
    #[must_use]
    pub fn status(&self) -> Status {
        lock(&self.status).clone()
    }

    /// Looks at the status without a copy of it.
    pub fn with<T>(&self, look: impl FnOnce(&Status) -> T) -> T {
        look(&lock(&self.status))
    }

    /// The number of changes of the status so far.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut Status)) {
        change(&mut lock(&self.status));
        self.changes.fetch_add(1, Ordering::Release);
    }

    #[cfg(feature = "info")]
    /// Counts a failed fetch of the mint's info.
    pub(crate) fn count_info_failure(&self) {
        self.update(|status| status.info_failures += 1);
    }

    /// Asks a running refresh to end. It changes nothing that is served.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Checks that the last reading, or before the first one the newest filter of the output, is at most `max_age` old at
    /// `now`, in Unix seconds, and that every filter can be served. A filter that stays as it was for a reason of its own
    /// ([`FilterState`]) does not matter: no other server would have a better one.
    ///
    /// # Errors
    ///
    /// The first condition that is not met, and why the last refresh failed.
    ///
    /// # Cost
    ///
    /// It looks for every file. [`FilterSite`](crate::FilterSite) asks at most once in a second and for each refresh.
    pub fn ready(&self, now: u64, max_age: Duration) -> Result<(), String> {
        let status = lock(&self.status);
        let because = |reason: String| match &status.failure {
            Some(failure) => Err(format!("{reason}; last refresh: {failure}")),
            None => Err(reason),
        };
        if status.filters.is_empty() && status.refreshed == 0 {
            return because("no filter yet".to_owned());
        }
        let read = match status.refreshed {
            0 => {
                let objects =
                    status.filters.iter().filter_map(|filter| self.table.get(&filter.path));
                objects.map(|object| object.date()).max().unwrap_or(0)
            }
            read => read,
        };
        let (age, limit) = (now.saturating_sub(read), max_age.as_secs());
        if age > limit {
            return because(format!("the last reading is {age} s old, maximum is {limit} s"));
        }
        for FilterStatus { path, state, .. } in &status.filters {
            let is_served = self.table.is_intact(path);
            let is_future = || self.table.get(path).is_some_and(|object| object.date() > now);
            let was_published = || {
                let mut refused = self.table.refused().iter();
                self.table.get(path).is_some() || refused.any(|file| file.object == *path)
            };
            match state {
                FilterState::Undated | FilterState::Unreadable | FilterState::Retired
                    if !was_published() => {}
                _ if !is_served => return because(format!("{path} is missing")),
                _ if is_future() => return because(format!("{path} is dated after the clock")),
                _ => {}
            }
        }
        Ok(())
    }
}

/// The time in Unix seconds.
pub(crate) fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
}

/// What the last refresh came to: `starting`, `ok`, `degraded` if it failed while older filters are served, or `failing`.
pub(crate) fn word(status: &Status) -> &'static str {
    match (&status.failure, status.refreshed > 0 || !status.filters.is_empty()) {
        (None, _) if status.refreshed == 0 => "starting",
        (None, _) => "ok",
        (Some(_), true) => "degraded",
        (Some(_), false) => "failing",
    }
}

/// Locks what is valid also after a panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The path of the filter of a kind and a keyset.
pub(crate) fn path_of(kind: NoteKind, keyset: &KeysetId) -> String {
    format!("v1/filter/{kind}/{}", keyset.canonical())
}

/// The kind of note and the keyset id in the path of a filter.
#[must_use]
pub fn parse_path(path: &str) -> Option<(NoteKind, &str)> {
    let (kind, id) = path.strip_prefix("v1/filter/")?.split_once('/')?;
    let kind = NoteKind::ALL.into_iter().find(|one| one.as_str() == kind)?;
    Some((kind, id))
}
