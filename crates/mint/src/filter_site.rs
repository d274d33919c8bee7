//! What HTTP answers from: the objects of a mint's filters, its info, and the status of the refreshes.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::http::HeaderMap;
use nutfilter_cashu::{FilterResponse, KeysetId, NoteKind};
use nutfilter_objects::{Object, Table};
use nutfilter_serve::{Refusal, Site};
use serde_json::Value;

use crate::filter_metrics;
use crate::status::{FilterState, Monitor, lock, now, parse_path, word};

/// The path of the mint's info.
pub const INFO_PATH: &str = "v1/info";

/// The name in the `Via` of a fetch of it. A request with this name has come from an instance of this program.
pub(crate) const VIA: &str = "nutfilter";

/// The `code` of an unknown keyset (NUT-00).
const UNKNOWN_KEYSET: u32 = 12_001;

/// The most filters that `/health` names.
const MAX_NOT_CURRENT: usize = 50;

/// How long a [`SiteState`] is used if no refresh changed it. With thousands of keysets it takes milliseconds to make, and looks for
/// as many files.
const STATE_AGE: Duration = Duration::from_secs(1);

/// How long caches may keep the mint's info, in seconds: until the next fetch.
const INFO_AGE: u64 = 30;

/// The filters of a mint as clients see them, for [`nutfilter_serve::router`]. Clones share everything.
#[derive(Clone, Debug)]
pub struct FilterSite {
    monitor: Arc<Monitor>,
    /// The mint's info, as long as it is known; `None` if the mint itself answers for it.
    info: Option<Arc<Table>>,
    /// How old a filter may be while the site counts as ready.
    ready_within: Duration,
    interval: Duration,
    /// How long caches may keep a filter: until the next refresh.
    max_age: Duration,
    /// Other metrics, if there is a path for them.
    metrics: Option<fn() -> String>,
    state: Arc<Mutex<Option<Arc<SiteState>>>>,
}

/// What requests need to know of all filters together.
#[derive(Debug)]
pub(crate) struct SiteState {
    at: (Instant, u64),
    /// The one meaning of ready: for `/ready`, `/health`, the log and the service manager.
    pub(crate) ready: Result<(), String>,
    /// The paths of the filters that ought to be served.
    due: HashSet<String>,
    is_read: bool,
    health: Value,
}

impl FilterSite {
    /// A site of filters that are refreshed at an interval, and at each change of the store if `follows_changes`. Caches may keep
    /// filters for the interval, or ask each time. It is ready while the last reading is at most `ready_within` old.
    #[must_use]
    pub fn new(
        monitor: Arc<Monitor>,
        interval: Duration,
        follows_changes: bool,
        ready_within: Duration,
    ) -> Self {
        Self {
            monitor,
            info: None,
            ready_within,
            interval,
            max_age: if follows_changes { Duration::ZERO } else { interval },
            metrics: None,
            state: Arc::default(),
        }
    }

    /// Answers for the mint's info, too: the object at [`INFO_PATH`].
    #[must_use]
    pub fn with_info(mut self, info: Arc<Table>) -> Self {
        self.info = Some(info);
        self
    }

    /// Has metrics: its own, and what a function says.
    #[must_use]
    pub fn with_metrics(mut self, more: fn() -> String) -> Self {
        self.metrics = Some(more);
        self
    }

    /// The status and the table.
    #[must_use]
    pub fn monitor(&self) -> &Arc<Monitor> {
        &self.monitor
    }

    /// The status as JSON, as `/health` tells it.
    #[must_use]
    pub fn health(&self) -> Value {
        self.state().health.clone()
    }

    /// The metrics of the filters in the text format of Prometheus.
    #[must_use]
    pub fn metrics(&self) -> String {
        let is_ready = self.state().ready.is_ok();
        filter_metrics::text(&self.monitor, is_ready, self.interval)
    }

    /// The state now, made at most once in [`STATE_AGE`] and for each refresh.
    pub(crate) fn state(&self) -> Arc<SiteState> {
        let mut kept = lock(&self.state);
        let changes = self.monitor.changes();
        let is_fresh =
            |state: &&Arc<SiteState>| state.at.1 == changes && state.at.0.elapsed() < STATE_AGE;
        if let Some(state) = kept.as_ref().filter(is_fresh) {
            return Arc::clone(state);
        }
        let state = Arc::new(self.look(changes));
        *kept = Some(Arc::clone(&state));
        state
    }

    fn look(&self, changes: u64) -> SiteState {
        let status = self.monitor.status();
        let ready = self.monitor.ready(now(), self.ready_within);
        let items = status.items();
        let keysets = status.filters.iter();
        let keysets = keysets.filter(|filter| filter.kind == NoteKind::Spent);
        let others = status.filters.iter();
        let others = others.filter(|filter| filter.state != FilterState::Current);
        let others = others.take(MAX_NOT_CURRENT);
        let others = others.map(|filter| (filter.path.clone(), filter.state.as_str().into()));
        let health = serde_json::json!({
            "status": word(&status),
            "ready": ready.is_ok(),
            "reason": ready.as_ref().err().or(status.failure.as_ref()),
            "version": env!("CARGO_PKG_VERSION"),
            "mint": status.mint,
            "keysets": keysets.count(),
            "last_refresh": (status.refreshed > 0).then_some(status.refreshed),
            "spent": items[NoteKind::Spent as usize],
            "issued": items[NoteKind::Issued as usize],
            "not_current": others.collect::<serde_json::Map<_, _>>(),
            "held": status.held.iter().map(ToString::to_string).collect::<Vec<_>>(),
        });
        SiteState {
            at: (Instant::now(), changes),
            ready,
            is_read: status.is_read(),
            health,
            due: status
                .filters
                .into_iter()
                .filter(|filter| filter.state != FilterState::Undated)
                .map(|filter| filter.path)
                .collect(),
        }
    }
}

/// Checks a file of the output directory before it is served: its media type and date.
pub(crate) fn check_published(path: &str, bytes: &[u8]) -> Result<(&'static str, u64), String> {
    let json = "application/json";
    if path == "v1/keysets" {
        let list: Result<serde_json::Value, _> = serde_json::from_slice(bytes);
        return list.map(|_| (json, now())).map_err(|error| error.to_string());
    }
    parse_path(path).ok_or("not a path of this service")?;
    let response = FilterResponse::from_json(bytes).map_err(|error| error.to_string())?;
    let date = response.timestamp;
    // One that is dated after the clock is not sent, and is good again once the clock is there.
    response.into_filter().map_err(|error| error.to_string())?;
    Ok((json, date))
}

impl Site for FilterSite {
    fn table(&self, path: &str) -> &Table {
        match &self.info {
            Some(info) if path == INFO_PATH => info,
            _ => self.monitor.table(),
        }
    }

    fn refusal(&self, path: &str, headers: &HeaderMap) -> Option<Refusal> {
        let via = headers.get_all("via").iter().filter_map(|via| via.to_str().ok());
        let mut hops = via.flat_map(|via| via.split(','));
        let is_ours = |hop: &str| {
            let name = hop.split_whitespace().nth(1);
            name.is_some_and(|name| name.eq_ignore_ascii_case(VIA))
        };
        (path == INFO_PATH && hops.any(is_ours)).then(|| {
            let detail =
                "nutfilter asks itself for the mint's info: set MINT_API to the mint's own address";
            Refusal::new(508, detail)
        })
    }

    /// A filter dated after the clock may lack notes that were spent before that date.
    fn may_send(&self, object: &Object) -> bool {
        parse_path(object.path()).is_none() || object.date() <= now()
    }

    fn canonical(&self, path: &str) -> Option<String> {
        let (kind, id) = parse_path(path)?;
        let canonical = KeysetId::parse(id).ok()?.canonical();
        // Hex in upper case is unknown, as to a web server that sends the files.
        let is_same = id.replace('+', "-").replace('/', "_") == canonical;
        is_same.then(|| format!("v1/filter/{kind}/{canonical}"))
    }

    fn missing(&self, path: &str) -> Refusal {
        let Some((_, id)) = parse_path(path) else {
            return match path {
                "v1/keysets" if self.info.is_none() => Refusal::new(503, "not built yet"),
                _ => Refusal::not_found(),
            };
        };
        let state = self.state();
        let is_due = |path: String| state.due.contains(&path);
        let detail = match KeysetId::parse(id) {
            // No mint can know it.
            Err(_) => "invalid keyset id",
            Ok(_) if !state.is_read || self.canonical(path).is_some_and(is_due) => {
                return Refusal::new(503, "not built yet");
            }
            Ok(_) => "keyset is not known",
        };
        Refusal { status: 400, code: UNKNOWN_KEYSET, detail: detail.to_owned() }
    }

    fn ready(&self) -> Result<(), String> {
        self.state().ready.clone()
    }

    fn health(&self) -> String {
        self.state().health.to_string()
    }

    fn metrics(&self) -> Option<String> {
        let more = self.metrics?;
        Some(FilterSite::metrics(self) + &more())
    }

    fn label(&self, path: &str) -> &'static str {
        match (path, parse_path(path)) {
            ("v1/keysets", _) => "keysets",
            (INFO_PATH, _) => "info",
            (_, Some((NoteKind::Spent, _))) => "filter_spent",
            (_, Some((NoteKind::Issued, _))) => "filter_issued",
            _ => "other",
        }
    }

    fn max_age(&self, path: &str) -> u64 {
        let max_age = self.max_age.as_secs();
        if path == INFO_PATH { max_age.min(INFO_AGE) } else { max_age }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_dated_after_the_clock_is_not_sent() {
        let (table, long) = (Arc::new(Table::in_memory()), Duration::from_secs(60));
        let site = FilterSite::new(Monitor::new(Arc::clone(&table)), long, false, long);
        for (path, date, is_sent) in [
            ("v1/filter/spent/00deadbeefc0ffee", now() + 9, false),
            ("v1/filter/issued/00deadbeefc0ffee", now(), true),
            ("v1/keysets", now() + 9, true),
        ] {
            table.put(path, "text/plain", date, |_| Ok(())).unwrap();
            assert_eq!(site.may_send(&table.get(path).unwrap()), is_sent);
        }
    }
}
