//! Shared state between the one thread that builds and the many threads that answer requests.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwapOption;
use nutfilter_sequence::SealedFile;
use percent_encoding::percent_decode_str;

use crate::info::{Entries, Info};
use crate::object::{Content, Missing, Object, Objects};
use crate::snapshot::Snapshot;
use crate::{Event, InfoError, KeysetId};

/// Holds the current [`Snapshot`]. Clones are handles to the same service.
#[derive(Clone, Debug, Default)]
pub struct FilterService {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    hides_keysets: bool,
    snapshot: ArcSwapOption<Snapshot>,
    /// The state filters of each kind that is served.
    sequences: RwLock<HashMap<Event, Arc<Objects>>>,
    /// The sealed files that were checked. They never change, so each is checked once by a process.
    checked: RwLock<HashSet<PathBuf>>,
    /// The mint's info; unset if it is not served.
    info: OnceLock<RwLock<Info>>,
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
    /// State filters end this long in the future, because the clock was ahead. Wallets refuse them until then.
    #[error(
        "state filters end {} s in the future; see \"State filters end in the future\" in the operator's guide",
        _0.as_secs()
    )]
    DatedAhead(Duration),
}

/// More files than a sequence lists in ten years. The rest is checked again.
const MAX_CHECKED: usize = 20_000;

/// How far ahead of the clock state filters may end. Wallets accept 5 minutes.
const MAX_AHEAD: Duration = Duration::from_secs(60);

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
        self.shared.snapshot.load_full()
    }

    /// Replaces the snapshot. Requests see the old one or the new one, never a mixture.
    pub fn replace(&self, snapshot: Snapshot) {
        self.shared.snapshot.store(Some(Arc::new(snapshot)));
    }

    /// What is published: the objects of each sequence, and the filters with the list of keysets. The order is that of
    /// publication: each object comes after those that it names. The mint's info, which announces them, is not among them.
    #[must_use]
    pub fn objects(&self) -> Vec<Arc<[Object]>> {
        let sequences = Event::ALL.into_iter();
        let sequences = sequences.filter_map(|kind| self.sequence(kind));
        let sequences = sequences.map(|objects| objects.published());
        let filters = self.snapshot();
        let filters = filters.map(|snapshot| snapshot.objects().published());
        sequences.chain(filters).collect()
    }

    /// Whether state filters of this kind are served.
    #[must_use]
    pub fn has_state_filters(&self, kind: Event) -> bool {
        self.sequence(kind).is_some()
    }

    fn sequence(&self, kind: Event) -> Option<Arc<Objects>> {
        read(&self.shared.sequences).get(&kind).cloned()
    }

    /// The latest second that state filters end before, or that a block opens at.
    pub(crate) fn latest_event(&self) -> u64 {
        let sequences = Event::ALL.map(|kind| self.sequence(kind));
        let latest = sequences.iter().flatten().map(|objects| objects.latest());
        latest.max().unwrap_or(0)
    }

    /// Serves a sequence, or no longer. The info announces that at once.
    pub(crate) fn replace_sequence(&self, kind: Event, objects: Option<Objects>) {
        let is_served = objects.is_some();
        let before = {
            let mut sequences = write(&self.shared.sequences);
            match objects {
                Some(objects) => sequences.insert(kind, Arc::new(objects)),
                None => sequences.remove(&kind),
            }
        };
        if before.is_some() != is_served
            && let Err(error) = self.renew_info(None)
        {
            tracing::error!(%error, "could not announce a change of the state filters");
        }
    }

    /// The mint's info with its announcements.
    pub(crate) fn info(&self) -> Result<Object, Missing> {
        let info = self.shared.info.get().ok_or(Missing::UnknownPath)?;
        read(info).object().ok_or(Missing::NotBuilt)
    }

    /// Serves the mint's info with these entries. Only the first call has an effect.
    pub(crate) fn announce(&self, entries: Entries) {
        let _ = self.shared.info.set(RwLock::new(Info::new(entries)));
    }

    /// Announces again what is served, in this info of the mint or in the last one.
    pub(crate) fn renew_info(&self, fetched: Option<Vec<u8>>) -> Result<(), InfoError> {
        let Some(info) = self.shared.info.get() else {
            return Ok(());
        };
        write(info).renew(self, fetched)
    }

    /// The current status.
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

    /// Checks that every keyset has its filters, that the last successful refresh ended at most `within` ago, and that
    /// no state filters end in the future.
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
        let latest = UNIX_EPOCH + Duration::from_secs(self.latest_event());
        match latest.duration_since(SystemTime::now()) {
            Ok(ahead) if ahead > MAX_AHEAD => Err(NotReady::DatedAhead(ahead)),
            _ => Ok(()),
        }
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
            ["v1", "info"] => return self.info(),
            ["v1", "filters", what, rest] => return self.state_filter(path, what, rest),
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

    fn state_filter(&self, path: &str, what: &str, rest: &str) -> Result<Object, Missing> {
        let parts: Vec<&str> = rest.split('/').collect();
        let kind = match (what, &parts[..]) {
            ("manifest" | "info", [kind]) | ("manifests" | "segments" | "blocks", [kind, _]) => {
                kind
            }
            _ => return Err(Missing::UnknownPath),
        };
        let objects = Event::from_name(kind).and_then(|kind| self.sequence(kind));
        let objects = objects.ok_or(Missing::UnknownKind)?;
        if objects.is_empty() {
            return Err(Missing::NotBuilt);
        }
        if matches!(what, "info" | "blocks") {
            let blocks = objects.get(&format!("v1/filters/info/{kind}"));
            blocks.ok_or(Missing::UnknownKind)?;
        }
        let object = objects.get(path).ok_or(Missing::UnknownObject)?;
        if let Content::File(file) = &object.content {
            self.check(file)?;
        }
        Ok(object.clone())
    }

    /// Checks a file before its first use.
    fn check(&self, file: &SealedFile) -> Result<(), Missing> {
        // The lock is free again before the file is read.
        let is_checked = read(&self.shared.checked).contains(&file.path);
        if is_checked {
            return Ok(());
        }
        file.check().map_err(|error| {
            tracing::error!(path = %file.path.display(), %error, "could not serve a published file");
            // What is lost is made again by the next refresh.
            let is_lost = error.io_error().is_some_and(nutfilter_files::is_lost);
            if is_lost { Missing::NotBuilt } else { Missing::Damaged }
        })?;
        let mut checked = write(&self.shared.checked);
        if checked.len() >= MAX_CHECKED {
            checked.clear();
        }
        checked.insert(file.path.clone());
        Ok(())
    }
}
