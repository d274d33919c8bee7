//! What a router offers besides the filters.

use core::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::info::InfoService;

/// For how long a cache may hand out a filter without asking: as long as it takes until there is another,
/// unless the operator has chosen a different interval.
pub const DEFAULT_MAX_AGE: Duration = Duration::from_secs(60);

/// How old the last good refresh may be in `/ready`: five of the usual intervals, so that one failed
/// refresh and a long one do not take a service out of rotation.
pub const DEFAULT_READY_WITHIN: Duration = Duration::from_secs(300);

/// What [`router_with`](super::router_with) adds to the filters. The default is what [`router`](super::router) has.
#[derive(Clone)]
#[non_exhaustive]
pub struct RouterOptions {
    /// The `max-age` of filters and keysets, in whole seconds.
    pub max_age: Duration,
    /// How long ago the last good refresh may have ended for `/ready` to say yes.
    pub ready_within: Duration,
    /// Writes the text of `/metrics`; without it there is no such path.
    pub metrics: Option<Arc<dyn Fn() -> String + Send + Sync>>,
    /// Answers `POST /admin/refresh`; without it there is no such path.
    pub admin: Option<AdminOptions>,
    /// Answers `/v1/info`; without it there is no such path.
    pub info: Option<InfoService>,
}

/// Who may ask for a refresh, and what then happens.
#[derive(Clone)]
pub struct AdminOptions {
    /// What has to follow `Authorization: Bearer`. With an empty one nobody is let in.
    pub token: String,
    /// Asks for a refresh and returns at once. That requests do not queue up is its matter.
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

/// Without the token.
impl fmt::Debug for AdminOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminOptions").finish_non_exhaustive()
    }
}
