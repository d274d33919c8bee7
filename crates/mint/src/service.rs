//! Shared state between the one thread that builds and the many threads that answer requests.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use percent_encoding::percent_decode_str;

use crate::KeysetId;
use crate::object::{Missing, Object};
use crate::snapshot::Snapshot;

/// Holds the current [`Snapshot`]. Clones are handles to the same service.
#[derive(Clone, Debug, Default)]
pub struct FilterService {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    hides_keysets: bool,
    snapshot: RwLock<Option<Arc<Snapshot>>>,
    /// The mint's info, `None` until it was fetched; unset if it is not served.
    info: OnceLock<RwLock<Option<Object>>>,
    /// Whether anything failed in the latest refresh.
    failing: AtomicBool,
    /// When a refresh last succeeded, by the monotonic clock.
    last_good: RwLock<Option<Instant>>,
}

/// Status of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Nothing has been built yet.
    Starting,
    /// The latest refresh failed and none succeeded before: there is nothing to serve.
    Failing,
    /// The latest refresh succeeded.
    Ok,
    /// The latest refresh failed, fully or for some filters: older filters are served.
    Degraded,
}

impl Status {
    /// The status as written in `/health`.
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

/// Why a service should not receive requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotReady {
    /// There is nothing to serve.
    #[error("no filter built yet")]
    NotBuilt,
    /// At least one keyset lacks a filter.
    #[error("some keysets have no filter yet")]
    Incomplete,
    /// No refresh has succeeded yet.
    #[error("no refresh has succeeded yet")]
    NeverGood,
    /// The last successful refresh is too old.
    #[error("last successful refresh was {} s ago, maximum is {} s", age.as_secs(), limit.as_secs())]
    Stale {
        /// Time since it ended.
        age: Duration,
        /// Longest time allowed.
        limit: Duration,
    },
}

/// Locks a value that is valid also if a holder of the lock panicked.
fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

impl FilterService {
    /// A service that does not answer `/v1/keysets`, for use where the mint itself answers this path.
    #[must_use]
    pub fn without_keysets() -> Self {
        let shared = Shared {
            hides_keysets: true,
            ..Shared::default()
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// The snapshot that requests are currently answered from; `None` before the first build. The returned snapshot
    /// never changes.
    #[must_use]
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        read(&self.shared.snapshot).clone()
    }

    /// Replaces the snapshot. Requests see the old one or the new one, never a mixture.
    pub fn replace(&self, snapshot: Snapshot) {
        let before = write(&self.shared.snapshot).replace(Arc::new(snapshot));
        // Requests do not wait until its bodies are freed.
        drop(before);
    }

    /// What is published: the filters and the list of keysets, which comes after the filters that it names. The mint's
    /// info, which announces them, is not among them. Nothing before the first build.
    #[must_use]
    pub fn objects(&self) -> Arc<[Object]> {
        let snapshot = self.snapshot();
        snapshot.map_or_else(Arc::default, |snapshot| snapshot.objects().published())
    }

    /// Serves the mint's info from now on, once it was fetched.
    pub(crate) fn expect_info(&self) {
        self.shared.info.get_or_init(RwLock::default);
    }

    /// Replaces the mint's info.
    pub(crate) fn replace_info(&self, info: Object) {
        *write(self.shared.info.get_or_init(RwLock::default)) = Some(info);
    }

    /// The current status.
    #[must_use]
    pub fn status(&self) -> Status {
        let built = read(&self.shared.snapshot).is_some();
        match (built, self.shared.failing.load(Ordering::Relaxed)) {
            (false, false) => Status::Starting,
            (false, true) => Status::Failing,
            (true, false) => Status::Ok,
            (true, true) => Status::Degraded,
        }
    }

    /// Records whether a refresh failed, fully or for some filters. A [`Refresher`] calls this; call it yourself
    /// only if you replace snapshots without one.
    ///
    /// [`Refresher`]: crate::Refresher
    pub fn set_failing(&self, failing: bool) {
        self.shared.failing.store(failing, Ordering::Relaxed);
        if !failing {
            *write(&self.shared.last_good) = Some(Instant::now());
        }
    }

    /// Time since a refresh last succeeded; `None` if none has.
    #[must_use]
    pub fn since_good(&self) -> Option<Duration> {
        read(&self.shared.last_good).map(|at| at.elapsed())
    }

    /// Checks that every keyset has its filters, and that the last successful refresh ended at most `within` ago.
    ///
    /// # Errors
    ///
    /// The first condition that is not met.
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

    /// The object at a path, without a leading slash. Only keyset ids may be percent-encoded.
    ///
    /// # Errors
    ///
    /// If nothing is served at the path.
    pub fn object(&self, path: &str) -> Result<Object, Missing> {
        let parts: Vec<&str> = path.splitn(4, '/').collect();
        let (snapshot, spelled);
        let path = match parts[..] {
            ["v1", "info"] => {
                let info = self.shared.info.get().ok_or(Missing::UnknownPath)?;
                return read(info).clone().ok_or(Missing::NotBuilt);
            }
            ["v1", "keysets"] if !self.shared.hides_keysets => {
                snapshot = self.snapshot().ok_or(Missing::NotBuilt)?;
                path
            }
            ["v1", "filter", kind @ ("spent" | "issued"), id] => {
                let id = percent_decode_str(id).decode_utf8().ok();
                let id = id.and_then(|id| KeysetId::parse(&id).ok());
                let id = id.ok_or(Missing::InvalidKeysetId)?;
                snapshot = self.snapshot().ok_or(Missing::NotBuilt)?;
                // An id has several spellings.
                let keyset = snapshot.keyset(&id).ok_or(Missing::UnknownKeyset)?;
                spelled = format!("v1/filter/{kind}/{}", keyset.info.id);
                &spelled
            }
            _ => return Err(Missing::UnknownPath),
        };
        let object = snapshot.objects().get(path);
        object.cloned().ok_or(Missing::NotBuilt)
    }
}
