//! What HTTP answers from: the objects of a mint's filters, its info, and the status of the service.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nutfilter_cashu::{FilterResponse, KeysetId};
use nutfilter_mint::{FilterState, MintInfo, Monitor, NoteKind};
use nutfilter_objects::Table;
use nutfilter_serve::{Refusal, Site};

use super::metrics;

/// The `code` of an unknown keyset (NUT-00).
const UNKNOWN_KEYSET: u32 = 12_001;

const INFO: &str = "v1/info";

/// A service as its clients see it.
pub(crate) struct Service {
    pub(crate) monitor: Arc<Monitor>,
    /// The mint's info; `None` if the mint itself answers for it.
    pub(crate) info: Option<MintInfo>,
    /// How old a filter may be while the service counts as ready.
    pub(crate) ready_within: Duration,
    /// How long caches may keep a filter: until the next refresh.
    pub(crate) max_age: Duration,
}

impl Service {
    /// The one meaning of ready: for `/ready`, `/health`, the log and the service manager.
    pub(crate) fn ready(&self) -> Result<(), String> {
        self.monitor.ready(now(), self.ready_within)
    }
}

/// The time in Unix seconds.
pub(super) fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
}

/// The kind of note and the keyset that a path names.
fn filter(path: &str) -> Option<(NoteKind, &str)> {
    let rest = path.strip_prefix("v1/filter/")?;
    NoteKind::ALL.into_iter().find_map(|kind| {
        let id = rest.strip_prefix(kind.as_str())?.strip_prefix('/')?;
        Some((kind, id))
    })
}

/// Checks a file of the output directory before it is served: its media type and date.
pub(super) fn check_published(path: &str, bytes: &[u8]) -> Result<(&'static str, u64), String> {
    let json = "application/json";
    if path == "v1/keysets" {
        let list: Result<serde_json::Value, _> = serde_json::from_slice(bytes);
        return list
            .map(|_| (json, now()))
            .map_err(|error| error.to_string());
    }
    filter(path).ok_or("not a path of this service")?;
    let response = FilterResponse::from_json(bytes).map_err(|error| error.to_string())?;
    let date = response.timestamp;
    response.into_filter().map_err(|error| error.to_string())?;
    match now().checked_sub(date) {
        Some(_) => Ok((json, date)),
        None => Err(format!("dated {} s in the future", date - now())),
    }
}

impl Site for Service {
    fn table(&self) -> &Table {
        self.monitor.table()
    }

    fn canonical(&self, path: &str) -> Option<String> {
        let (kind, id) = filter(path)?;
        let id = KeysetId::parse(id).ok()?.canonical();
        Some(format!("v1/filter/{kind}/{id}"))
    }

    fn missing(&self, path: &str) -> Refusal {
        let Some((_, id)) = filter(path) else {
            return match path {
                "v1/keysets" if self.info.is_none() => Refusal::new(503, "not built yet"),
                _ => Refusal::not_found(),
            };
        };
        let path = self.canonical(path);
        let status = self.monitor.status();
        let is_due = |path: String| {
            let mut filters = status.filters.iter();
            filters.any(|filter| filter.path == path && filter.state != FilterState::Undated)
        };
        let (code, detail) = (UNKNOWN_KEYSET, "keyset is not known".to_owned());
        match KeysetId::parse(id) {
            // No mint can know it.
            Err(_) => Refusal {
                status: 400,
                code,
                detail: "invalid keyset id".to_owned(),
            },
            Ok(_) if !status.is_read() || path.is_some_and(is_due) => {
                Refusal::new(503, "not built yet")
            }
            Ok(_) => Refusal {
                status: 400,
                code,
                detail,
            },
        }
    }

    fn is_live(&self, path: &str) -> bool {
        path == INFO && self.info.is_some()
    }

    fn live(&self, path: &str) -> Result<Vec<u8>, Refusal> {
        let info = self.info.as_ref().ok_or_else(|| self.missing(path))?;
        info.fetch().map_err(|error| {
            self.monitor.count_info_failure();
            tracing::warn!(%error, "could not fetch the mint's info");
            Refusal::new(503, "the mint's info is not available")
        })
    }

    fn ready(&self) -> Result<(), String> {
        Service::ready(self)
    }

    fn health(&self) -> String {
        let (status, ready) = (self.monitor.status(), Service::ready(self));
        let items = |kind| {
            let filters = status.filters.iter().filter(|filter| filter.kind == kind);
            filters.map(|filter| filter.items).sum::<u64>()
        };
        let keysets = status
            .filters
            .iter()
            .filter(|filter| filter.kind == NoteKind::Spent);
        serde_json::json!({
            "status": word(&status),
            "ready": ready.is_ok(),
            "reason": ready.err().or(status.failure.clone()),
            "version": env!("CARGO_PKG_VERSION"),
            "mint": status.mint,
            "keysets": keysets.count(),
            "last_refresh": (status.refreshed > 0).then_some(status.refreshed),
            "spent": items(NoteKind::Spent),
            "issued": items(NoteKind::Issued),
            "held": status.held.iter().map(ToString::to_string).collect::<Vec<_>>(),
        })
        .to_string()
    }

    fn metrics(&self) -> Option<String> {
        Some(metrics::text(&self.monitor))
    }

    fn label(&self, path: &str) -> &'static str {
        match (path, filter(path)) {
            ("v1/keysets", _) => "keysets",
            (INFO, _) => "info",
            (_, Some((NoteKind::Spent, _))) => "filter_spent",
            (_, Some((NoteKind::Issued, _))) => "filter_issued",
            _ => "other",
        }
    }

    fn max_age(&self) -> u64 {
        self.max_age.as_secs()
    }
}

/// What the last refresh came to: `starting`, `ok`, `degraded` if it failed while older filters are served, or `failing`.
pub(super) fn word(status: &nutfilter_mint::Status) -> &'static str {
    match (
        &status.failure,
        status.refreshed > 0 || !status.filters.is_empty(),
    ) {
        (None, _) if status.refreshed == 0 => "starting",
        (None, _) => "ok",
        (Some(_), true) => "degraded",
        (Some(_), false) => "failing",
    }
}
