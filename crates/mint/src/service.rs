//! The meeting point of the one thread that builds and the many that answer.

use core::error::Error;
use core::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;

use crate::snapshot::Snapshot;

/// What a service offers besides the filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServiceOptions {
    /// Whether to answer `/v1/keysets` from the mint's database. To be turned off where the mint itself
    /// answers it, as there must be one truth about keysets. On unless said otherwise.
    pub serve_keysets: bool,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        Self {
            serve_keysets: true,
        }
    }
}

impl ServiceOptions {
    /// The same, with or without `/v1/keysets`.
    #[must_use]
    pub fn serve_keysets(mut self, serve: bool) -> Self {
        self.serve_keysets = serve;
        self
    }
}

/// Holds the current [`Snapshot`]. Clones are handles to one and the same service.
#[derive(Clone, Debug)]
pub struct FilterService {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: ServiceOptions,
    snapshot: ArcSwapOption<Snapshot>,
    /// Whether something went wrong in the latest refresh.
    failing: AtomicBool,
    /// When a refresh last ended well, by a clock that nobody sets.
    last_good: Mutex<Option<Instant>>,
}

/// How a service is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Nothing was built yet.
    Starting,
    /// The latest refresh failed, and none before it went well: there is nothing to serve.
    Failing,
    /// The latest refresh went well.
    Ok,
    /// The latest refresh failed, wholly or for some filters: older ones are served.
    Degraded,
}

impl Status {
    /// The word for it in `/health`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Status::Starting => "starting",
            Status::Failing => "failing",
            Status::Ok => "ok",
            Status::Degraded => "degraded",
        }
    }
}

/// Why a service should not be sent requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotReady {
    /// There is nothing to serve.
    NotBuilt,
    /// Some keyset lacks a filter.
    Incomplete,
    /// No refresh has gone well so far.
    NeverGood,
    /// The last refresh that went well is longer ago than it may be.
    Stale {
        /// How long ago it ended.
        age: Duration,
        /// How long ago it may have ended.
        limit: Duration,
    },
}

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotReady::NotBuilt => f.write_str("nothing is built yet"),
            NotReady::Incomplete => f.write_str("not every keyset has its filters yet"),
            NotReady::NeverGood => f.write_str("no refresh has gone well yet"),
            NotReady::Stale { age, limit } => write!(
                f,
                "the last good refresh was {} s ago, and may be {} s old",
                age.as_secs(),
                limit.as_secs()
            ),
        }
    }
}

impl Error for NotReady {}

impl FilterService {
    /// A service with nothing to serve yet.
    #[must_use]
    pub fn new(options: ServiceOptions) -> Self {
        let shared = Shared {
            options,
            snapshot: ArcSwapOption::empty(),
            failing: AtomicBool::new(false),
            last_good: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// What it offers.
    #[must_use]
    pub fn options(&self) -> ServiceOptions {
        self.shared.options
    }

    /// The snapshot that requests are answered from at the moment; `None` before the first build. It
    /// stays as it is for as long as it is held.
    #[must_use]
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.shared.snapshot.load_full()
    }

    /// Replaces the snapshot. Requests see the old one or the new one, and never a mixture.
    pub fn publish(&self, snapshot: Snapshot) {
        self.shared.snapshot.store(Some(Arc::new(snapshot)));
    }

    /// How it is.
    #[must_use]
    pub fn status(&self) -> Status {
        let built = self.shared.snapshot.load().is_some();
        match (built, self.shared.failing.load(Ordering::Relaxed)) {
            (false, false) => Status::Starting,
            (false, true) => Status::Failing,
            (true, false) => Status::Ok,
            (true, true) => Status::Degraded,
        }
    }

    /// Notes how a refresh ended: well, or failed wholly or for some filters. A [`Publisher`] does this; it is
    /// for who publishes without one.
    ///
    /// [`Publisher`]: crate::Publisher
    pub fn set_failing(&self, failing: bool) {
        self.shared.failing.store(failing, Ordering::Relaxed);
        if !failing {
            *self.last_good() = Some(Instant::now());
        }
    }

    /// How long ago a refresh last ended well; `None` if none has.
    #[must_use]
    pub fn since_good(&self) -> Option<Duration> {
        self.last_good().map(|at| at.elapsed())
    }

    /// Whether every keyset has its filters and a refresh ended well not longer ago than `within`.
    ///
    /// # Errors
    ///
    /// What is missing.
    pub fn ready(&self, within: Duration) -> Result<(), NotReady> {
        let snapshot = self.snapshot().ok_or(NotReady::NotBuilt)?;
        if !snapshot.is_complete() {
            return Err(NotReady::Incomplete);
        }
        let age = self.since_good().ok_or(NotReady::NeverGood)?;
        if age > within {
            let limit = within;
            return Err(NotReady::Stale { age, limit });
        }
        Ok(())
    }

    fn last_good(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        // An instant is whole even if the one who held it panicked.
        let lock = self.shared.last_good.lock();
        lock.unwrap_or_else(PoisonError::into_inner)
    }
}
