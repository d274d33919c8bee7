//! What a service tells about itself: whether it is ready, and its numbers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nutfilter_objects::Table;

use crate::{KeysetId, NoteKind};

/// The numbers of a service since its start, and the filters that it ought to serve.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Status {
    /// Short name of the mint's software.
    pub mint: String,
    /// The filters of the last reading, or of the output directory before it.
    pub filters: Vec<FilterStatus>,
    /// When the last refresh began that succeeded as a whole, in Unix seconds; 0 before it.
    pub refreshed: u64,
    /// Why the last refresh failed, wholly or in part.
    pub failure: Option<String>,
    /// Refreshes that succeeded, that succeeded for some filters, and that failed.
    pub refreshes: [u64; 3],
    /// Seconds that refreshes have taken.
    pub seconds: f64,
    /// Items read, by kind: by readings of everything, and by others.
    pub read: [[u64; 2]; 2],
    /// Whole readings, by kind.
    pub whole_readings: [u64; 2],
    /// Unreadable rows since the last whole reading, by kind.
    pub unreadable: [u64; 2],
    /// Items that a whole reading did not find again.
    pub items_lost: u64,
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
    /// The number of items.
    pub items: u64,
    /// Whether an unreadable row holds it back.
    pub held: bool,
}

/// Shares the [`Status`] of a service between the thread that refreshes and those that answer.
#[derive(Debug)]
pub struct Monitor {
    table: Arc<Table>,
    status: Mutex<Status>,
    changes: AtomicU64,
    pub(crate) stop: AtomicBool,
}

impl Monitor {
    /// Watches a table. What is in it already are the filters that ought to be served, until the first reading.
    #[must_use]
    pub fn new(table: Arc<Table>) -> Arc<Self> {
        let mut filters = vec![];
        for object in table.objects() {
            let is_of = |kind: &NoteKind| object.path().starts_with(&prefix(*kind));
            let kind = NoteKind::ALL.into_iter().find(is_of);
            filters.extend(kind.map(|kind| FilterStatus {
                path: object.path().to_owned(),
                keyset: None,
                kind,
                active: true,
                items: 0,
                held: false,
            }));
        }
        Arc::new(Self {
            table,
            status: Mutex::new(Status {
                filters,
                ..Status::default()
            }),
            changes: AtomicU64::new(0),
            stop: AtomicBool::new(false),
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
        self.status
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The number of changes of the status so far.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut Status)) {
        change(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner));
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Counts a failed fetch of the mint's info.
    pub(crate) fn count_info_failure(&self) {
        self.update(|status| status.info_failures += 1);
    }

    /// Asks a running refresh to end. It changes nothing that is served.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Checks that every filter of the last reading, or of the output before it, is served, and is not older than
    /// `max_age` at `now`, in Unix seconds.
    ///
    /// # Errors
    ///
    /// The first condition that is not met, and why the last refresh failed.
    pub fn ready(&self, now: u64, max_age: Duration) -> Result<(), String> {
        let status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        let because = |reason: String| match &status.failure {
            Some(failure) => Err(format!("{reason}; last refresh: {failure}")),
            None => Err(reason),
        };
        if status.filters.is_empty() && status.refreshed == 0 {
            return because("no filter yet".to_owned());
        }
        for FilterStatus { path, .. } in &status.filters {
            let Some(object) = self.table.get(path) else {
                return because(format!("{path} is missing"));
            };
            let (age, limit) = (now.saturating_sub(object.date()), max_age.as_secs());
            if age > limit {
                return because(format!("{path} is {age} s old, maximum is {limit} s"));
            }
        }
        Ok(())
    }
}

/// The beginning of the paths of one kind.
pub(crate) fn prefix(kind: NoteKind) -> String {
    format!("v1/filter/{kind}/")
}
