//! The meeting point of the one thread that builds and the many that answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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

impl FilterService {
    /// A service with nothing to serve yet.
    #[must_use]
    pub fn new(options: ServiceOptions) -> Self {
        let shared = Shared {
            options,
            snapshot: ArcSwapOption::empty(),
            failing: AtomicBool::new(false),
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

    pub(crate) fn set_failing(&self, failing: bool) {
        self.shared.failing.store(failing, Ordering::Relaxed);
    }
}
