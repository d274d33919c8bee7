//! The service's metrics, in the text format of Prometheus.
//!
//! The libraries count through the `metrics` facade. This module lists all their metrics with units and
//! descriptions. Gauges that follow from the snapshot are set at each scrape.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use nutfilter_mint::{Event, FilterService, NoteKind, Status};
use nutfilter_serve::Tls;

use crate::error::CliError;

/// How often old samples of histograms are dropped, even if nothing scrapes.
pub(super) const UPKEEP: Duration = Duration::from_secs(5);

/// Seconds. Responses are finished bodies, so anything above 0.1 s is the network.
const REQUEST_BUCKETS: [f64; 10] = [
    0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 2.5, 10.0,
];

/// Seconds. From an incremental read of a small mint to the first read of a large one.
const REFRESH_BUCKETS: [f64; 10] = [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0];

/// The type of a metric.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sort {
    Counter,
    Gauge,
    Histogram(&'static [f64]),
}

/// A label and its possible values.
pub(super) type Label = (&'static str, &'static [&'static str]);

/// Keysets and whether they are active come from the database.
const KEYSET: &[Label] = &[("keyset", &[]), KIND, ("active", &["true", "false"])];

const KIND: Label = ("kind", &["spent", "issued"]);

/// The kinds of events in state filters.
const EVENT: Label = ("kind", &["blind_signature", "proof_state"]);

/// A metric, as described to Prometheus.
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) sort: Sort,
    pub(super) unit: Unit,
    pub(super) labels: &'static [Label],
    pub(super) help: &'static str,
}

const fn metric(
    name: &'static str,
    sort: Sort,
    unit: Unit,
    labels: &'static [Label],
    help: &'static str,
) -> Metric {
    Metric {
        name,
        sort,
        unit,
        labels,
        help,
    }
}

use Sort::{Counter, Gauge, Histogram};

const ROUTES: &[&str] = &[
    "filter_spent",
    "filter_issued",
    "manifest",
    "segment",
    "block_info",
    "block",
    "keysets",
    "info",
    "health",
    "ready",
    "metrics",
    "other",
];

const REASONS: &[&str] = &["head", "idle", "slow_reader"];

const STATUSES: &[&str] = &[
    "200", "206", "304", "400", "404", "405", "412", "416", "500", "503",
];

/// The keysets with metrics of their own. A mint has a few; the ones with the most notes count.
const MAX_KEYSETS: usize = 50;

/// All metrics.
pub(super) const METRICS: &[Metric] = &[
    metric(
        "nutfilter_build_info",
        Gauge,
        Unit::Count,
        &[("version", &[env!("CARGO_PKG_VERSION")])],
        "Always 1; the version is in its label",
    ),
    metric(
        "nutfilter_start_time_seconds",
        Gauge,
        Unit::Seconds,
        &[],
        "Unix time at which the process started",
    ),
    metric(
        "nutfilter_status",
        Gauge,
        Unit::Count,
        &[("status", &["starting", "ok", "degraded", "failing"])],
        "1 for the current status, 0 for the others",
    ),
    metric(
        "nutfilter_keysets",
        Gauge,
        Unit::Count,
        &[],
        "Number of keysets served",
    ),
    metric(
        "nutfilter_items",
        Gauge,
        Unit::Count,
        &[KIND],
        "Notes in the served filters",
    ),
    metric(
        "nutfilter_keyset_items",
        Gauge,
        Unit::Count,
        KEYSET,
        "Notes in a filter; the 50 keysets with the most notes have this and the next two",
    ),
    metric(
        "nutfilter_keyset_bytes",
        Gauge,
        Unit::Bytes,
        KEYSET,
        "Length of a filter, without JSON",
    ),
    metric(
        "nutfilter_keyset_timestamp_seconds",
        Gauge,
        Unit::Seconds,
        KEYSET,
        "Timestamp of a filter (Unix time)",
    ),
    metric(
        "nutfilter_manifest_timestamp_seconds",
        Gauge,
        Unit::Seconds,
        &[EVENT],
        "Time of the current manifest (Unix time)",
    ),
    metric(
        "nutfilter_certificate_expiry_timestamp_seconds",
        Gauge,
        Unit::Seconds,
        &[],
        "End of the TLS certificate (Unix time)",
    ),
    metric(
        "nutfilter_last_refresh_timestamp_seconds",
        Gauge,
        Unit::Seconds,
        &[],
        "Start of the last refresh whose filters are served (Unix time)",
    ),
    metric(
        "nutfilter_as_of_timestamp_seconds",
        Gauge,
        Unit::Seconds,
        &[KIND],
        "Start of the last successful read (Unix time); no filter is later",
    ),
    metric(
        "nutfilter_clock_behind_seconds",
        Gauge,
        Unit::Seconds,
        &[],
        "Seconds by which a filter is dated after the clock",
    ),
    metric(
        "nutfilter_refreshes_total",
        Counter,
        Unit::Count,
        &[("result", &["ok", "partial", "failed"])],
        "Refreshes: `ok`, `partial` or `failed`",
    ),
    metric(
        "nutfilter_refresh_seconds",
        Histogram(&REFRESH_BUCKETS),
        Unit::Seconds,
        &[],
        "Duration of refreshes, including failed ones",
    ),
    metric(
        "nutfilter_items_read_total",
        Counter,
        Unit::Count,
        &[KIND, ("reading", &["whole", "new"])],
        "Notes read, by full (`whole`) and incremental (`new`) reads",
    ),
    metric(
        "nutfilter_full_rereads_total",
        Counter,
        Unit::Count,
        &[KIND],
        "Full rereads of a database that had changed otherwise than by new notes",
    ),
    metric(
        "nutfilter_items_lost_total",
        Counter,
        Unit::Count,
        &[KIND],
        "Notes that a full reread no longer found",
    ),
    metric(
        "nutfilter_unreadable_rows",
        Gauge,
        Unit::Count,
        &[KIND],
        "Rows that could not be read at the last refresh; the filters of their keysets stay as they are",
    ),
    metric(
        "nutfilter_shrunk_total",
        Counter,
        Unit::Count,
        &[KIND],
        "How often a keyset had fewer notes than before",
    ),
    metric(
        "nutfilter_data_discarded_total",
        Counter,
        Unit::Count,
        &[],
        "How often damaged data in the data directory was discarded",
    ),
    metric(
        "nutfilter_events_published_total",
        Counter,
        Unit::Count,
        &[EVENT],
        "Events published in state filters",
    ),
    metric(
        "nutfilter_events_missing",
        Gauge,
        Unit::Count,
        &[EVENT],
        "Published events that the last full read did not find",
    ),
    metric(
        "nutfilter_events_invalid",
        Gauge,
        Unit::Count,
        &[EVENT],
        "Items of the database that are not points of notes; while there are any, the kind is not served",
    ),
    metric(
        "nutfilter_info_failures_total",
        Counter,
        Unit::Count,
        &[],
        "Failed requests for the mint's own `/v1/info`",
    ),
    metric(
        "nutfilter_http_requests_total",
        Counter,
        Unit::Count,
        &[("route", ROUTES), ("status", STATUSES)],
        "Requests answered",
    ),
    metric(
        "nutfilter_http_request_seconds",
        Histogram(&REQUEST_BUCKETS),
        Unit::Seconds,
        &[],
        "Time from the request to the last byte of the response",
    ),
    metric(
        "nutfilter_http_response_bytes_total",
        Counter,
        Unit::Bytes,
        &[],
        "Response body bytes sent",
    ),
    metric(
        "nutfilter_http_connections",
        Gauge,
        Unit::Count,
        &[],
        "Open connections",
    ),
    metric(
        "nutfilter_http_connections_refused_total",
        Counter,
        Unit::Count,
        &[],
        "Connections refused because `max_connections` was reached",
    ),
    metric(
        "nutfilter_http_connections_cut_total",
        Counter,
        Unit::Count,
        &[("reason", REASONS)],
        "Connections closed because of a slow or idle client",
    ),
    metric(
        "nutfilter_http_accept_failures_total",
        Counter,
        Unit::Count,
        &[],
        "Connections not accepted for lack of descriptors or memory",
    ),
];

/// The recorder of the process.
#[derive(Clone)]
pub(super) struct Metrics {
    handle: PrometheusHandle,
}

impl Metrics {
    /// Installs the recorder. It opens no port: the text is served by the service's own router.
    ///
    /// # Errors
    ///
    /// If the process already has a recorder.
    pub(super) fn install() -> Result<Self, CliError> {
        let mut builder = PrometheusBuilder::new();
        for metric in METRICS {
            if let Histogram(buckets) = metric.sort {
                builder = builder
                    .set_buckets_for_metric(Matcher::Full(metric.name.to_owned()), buckets)
                    .map_err(CliError::failed)?;
            }
        }
        let recorder = builder.build_recorder();
        let handle = recorder.handle();
        metrics::set_global_recorder(recorder).map_err(CliError::failed)?;
        register();
        gauge!("nutfilter_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
        gauge!("nutfilter_start_time_seconds").set(seconds(SystemTime::now()));
        Ok(Self { handle })
    }

    /// The metrics as text, including the current state of the snapshot.
    pub(super) fn text(&self, service: &FilterService) -> String {
        of_snapshot(service);
        in_order(&(self.handle.render() + &of_keysets(service)))
    }

    /// Drops old samples periodically.
    pub(super) async fn keep_up(self) -> Infallible {
        loop {
            tokio::time::sleep(UPKEEP).await;
            self.handle.run_upkeep();
        }
    }
}

/// The metrics in one order. The library's changes with each process.
fn in_order(text: &str) -> String {
    let metrics = text.split_terminator("\n\n").map(|metric| {
        let mut lines: Vec<&str> = metric.lines().collect();
        // The buckets of a histogram have an order already. `#` comes before every name.
        if !lines.iter().any(|line| line.ends_with(" histogram")) {
            lines.sort_unstable();
        }
        lines.join("\n") + "\n\n"
    });
    let mut metrics: Vec<String> = metrics.collect();
    metrics.sort_unstable();
    metrics.concat()
}

/// Describes all metrics, and sets every counter to 0 for every combination of its labels, because `increase()`
/// does not see the first event of a counter that appears with it.
fn register() {
    for Metric {
        name,
        sort,
        unit,
        labels,
        help,
    } in METRICS
    {
        match sort {
            Counter => {
                describe_counter!(*name, *unit, *help);
                for labels in combinations(labels) {
                    counter!(*name, labels).increment(0);
                }
            }
            Gauge => describe_gauge!(*name, *unit, *help),
            Histogram(_) => describe_histogram!(*name, *unit, *help),
        }
    }
}

/// Every combination of label values.
fn combinations(labels: &[Label]) -> Vec<Vec<metrics::Label>> {
    let mut all = vec![vec![]];
    for (name, values) in labels {
        let longer = |shorter: &Vec<metrics::Label>| {
            let shorter = shorter.clone();
            values.iter().map(move |value| {
                let mut longer = shorter.clone();
                longer.push(metrics::Label::from_static_parts(name, value));
                longer
            })
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

// Exact up to 2^53, far above any number of notes.
#[allow(clippy::cast_precision_loss)]
fn of_snapshot(service: &FilterService) {
    let now = service.status();
    for status in [
        Status::Starting,
        Status::Ok,
        Status::Degraded,
        Status::Failing,
    ] {
        let is = if status == now { 1.0 } else { 0.0 };
        gauge!("nutfilter_status", "status" => status.as_str()).set(is);
    }
    for kind in Event::ALL {
        let manifest = service.object(&format!("v1/filters/manifest/{kind}"));
        if let Some(date) = manifest.ok().and_then(|manifest| manifest.date) {
            gauge!("nutfilter_manifest_timestamp_seconds", "kind" => kind.as_str())
                .set(date as f64);
        }
    }
    let snapshot = service.snapshot();
    let keysets = snapshot.map_or(0, |snapshot| snapshot.keysets().len());
    gauge!("nutfilter_keysets").set(keysets as f64);
}

/// The metrics of each keyset. They are written here, so that those of vanished keysets vanish too.
fn of_keysets(service: &FilterService) -> String {
    let Some(snapshot) = service.snapshot() else {
        return String::new();
    };
    let mut filters: Vec<_> = snapshot
        .keysets()
        .flat_map(|keyset| NoteKind::ALL.map(|kind| (keyset, kind, keyset.filter(kind))))
        .filter_map(|(keyset, kind, filter)| Some((keyset, kind, filter?)))
        .collect();
    filters.sort_by_key(|(_, _, filter)| core::cmp::Reverse(filter.n()));
    filters.truncate(MAX_KEYSETS * NoteKind::ALL.len());
    let mut text = String::new();
    for metric in METRICS.iter().filter(|metric| metric.labels == KEYSET) {
        let Metric { name, help, .. } = metric;
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n");
        for (keyset, kind, filter) in &filters {
            let value = match metric.unit {
                Unit::Seconds => filter.timestamp(),
                Unit::Bytes => filter.filter_bytes() as u64,
                _ => u64::from(filter.n()),
            };
            // No id has a quote or a backslash.
            let (id, active) = (keyset.info.id.as_str(), keyset.info.active);
            let _ = writeln!(
                text,
                "{name}{{keyset=\"{id}\",kind=\"{kind}\",active=\"{active}\"}} {value}"
            );
        }
        text.push('\n');
    }
    text
}

/// Sets when the certificate ends.
pub(super) fn certificate(tls: &Tls) {
    if let Some(end) = tls.expires() {
        gauge!("nutfilter_certificate_expiry_timestamp_seconds").set(seconds(end));
    }
}

fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The metrics of a process that has counted nothing yet.
    fn at_start() -> String {
        let recorder = PrometheusBuilder::new().build_recorder();
        metrics::with_local_recorder(&recorder, register);
        recorder.handle().render()
    }

    #[test]
    fn order_is_the_same_in_every_process() {
        let (one, other) = (at_start(), at_start());
        assert_eq!(in_order(&one), in_order(&other));
        let sorted = |text: &str| {
            let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(sorted(&in_order(&one)), sorted(&one));
    }

    #[test]
    fn every_counter_starts_at_0() {
        let text = at_start();
        for Metric {
            name, sort, labels, ..
        } in METRICS
        {
            let series = text.lines().filter(|line| {
                let rest = line.strip_prefix(name);
                rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
            });
            let series: Vec<&str> = series.collect();
            let expected: usize = match sort {
                Counter => labels.iter().map(|(_, values)| values.len()).product(),
                _ => 0,
            };
            assert_eq!(series.len(), expected, "{name}");
            assert!(series.iter().all(|line| line.ends_with(" 0")), "{series:?}");
        }
        assert!(text.contains("nutfilter_shrunk_total{kind=\"spent\"} 0"));
    }
}
