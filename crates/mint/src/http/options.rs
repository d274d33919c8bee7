//! The endpoints of a router in addition to the filters.

use core::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::info::InfoService;

/// Default time for which a cache may reuse a filter: the default interval between two refreshes.
pub const DEFAULT_MAX_AGE: Duration = Duration::from_secs(60);

/// Default maximum age of the last good refresh for `/ready`. It is five default intervals, so that one failed
/// refresh and a slow one do not take a service out of rotation.
pub const DEFAULT_READY_WITHIN: Duration = Duration::from_secs(300);

/// The endpoints that [`router_with`](super::router_with) adds to the filters. The defaults are those of
/// [`router`](super::router).
#[derive(Clone)]
#[non_exhaustive]
pub struct RouterOptions {
    /// The `max-age` of filters and keysets, in whole seconds.
    pub max_age: Duration,
    /// Maximum age of the last good refresh for `/ready`.
    pub ready_within: Duration,
    /// Renders the text of `/metrics`; without it, the path does not exist.
    pub metrics: Option<Arc<dyn Fn() -> String + Send + Sync>>,
    /// Answers `POST /admin/refresh`; without it, the path does not exist.
    pub admin: Option<AdminOptions>,
    /// Answers `/v1/info`; without it, the path does not exist.
    pub info: Option<InfoService>,
}

/// The token that allows a refresh, and the function that starts it.
#[derive(Clone)]
pub struct AdminOptions {
    /// The token that must follow `Authorization: Bearer`. An empty token refuses every request.
    pub token: String,
    /// Requests a refresh and must return at once. It must prevent requests from queueing up.
    pub refresh: Arc<dyn Fn() + Send + Sync>,
}

impl Default for RouterOptions {
    fn default() -> Self {
        Self {
            max_age: DEFAULT_MAX_AGE,
            ready_within: DEFAULT_READY_WITHIN,
            metrics: None,
            admin: None,
            info: None,
        }
    }
}

impl fmt::Debug for RouterOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouterOptions")
            .field("max_age", &self.max_age)
            .field("ready_within", &self.ready_within)
            .field("metrics", &self.metrics.is_some())
            .field("admin", &self.admin)
            .field("info", &self.info)
            .finish()
    }
}

/// Omits the token.
impl fmt::Debug for AdminOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminOptions").finish_non_exhaustive()
    }
}
