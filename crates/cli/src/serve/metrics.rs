//! The service's metrics, in the text format of Prometheus.
//!
//! The libraries count through the `metrics` facade. This module lists all their metrics with units and
//! descriptions. Gauges that follow from the snapshot are set at each scrape.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use nutfilter_mint::{FilterService, NoteKind, Status};

use crate::error::CliError;

/// How often old samples of histograms are dropped, even if nothing scrapes.
pub(super) const UPKEEP: Duration = Duration::from_secs(5);

/// Seconds. From an incremental read of a small mint to the first read of a large one.
const REFRESH_BUCKETS: [f64; 10] = [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0];

/// The type of a metric.
#[derive(Clone, Copy, Debug)]
enum MetricType {
    Counter,
    Gauge,
    Histogram(&'static [f64]),
}

/// A label and its possible values.
type Label = (&'static str, &'static [&'static str]);

/// Keysets and whether they are active come from the database.
const KEYSET: &[Label] = &[("keyset", &[]), KIND, ("active", &["true", "false"])];

const KIND: Label = ("kind", &["spent", "issued"]);

/// A metric, as described to Prometheus.
struct Metric {
    name: &'static str,
    help: &'static str,
    of_type: MetricType,
    labels: &'static [Label],
}

use MetricType::{Counter, Gauge, Histogram};

const fn metric(name: &'static str, help: &'static str, of_type: MetricType) -> Metric {
    Metric {
        name,
        help,
        of_type,
        labels: &[],
    }
}

const fn counter(name: &'static str, help: &'static str) -> Metric {
    metric(name, help, Counter)
}

const fn gauge(name: &'static str, help: &'static str) -> Metric {
    metric(name, help, Gauge)
}

impl Metric {
    const fn by(mut self, labels: &'static [Label]) -> Self {
        self.labels = labels;
        self
    }

    /// Its unit, which its name tells.
    fn unit(&self) -> Unit {
        let name = self.name.trim_end_matches("_total");
        if name.ends_with("_seconds") {
            Unit::Seconds
        } else if name.ends_with("_bytes") {
            Unit::Bytes
        } else {
            Unit::Count
        }
    }
}

const ROUTES: &[&str] = &[
    "filter_spent",
    "filter_issued",
    "keysets",
    "info",
    "health",
    "ready",
    "metrics",
    "other",
];

const REASONS: &[&str] = &["idle", "slow_reader"];

const STATUSES: &[&str] = &["200", "304", "400", "404", "405", "500", "503"];

/// The keysets with metrics of their own. A mint has a few; the ones with the most notes count.
const MAX_KEYSETS: usize = 50;

/// All metrics.
const METRICS: &[Metric] = &[
    gauge(
        "nutfilter_build_info",
        "Always 1; the version is in its label",
    )
    .by(&[("version", &[env!("CARGO_PKG_VERSION")])]),
    gauge(
        "nutfilter_start_time_seconds",
        "Unix time at which the process started",
    ),
    gauge(
        "nutfilter_status",
        "1 for the current status, 0 for the others",
    )
    .by(&[("status", &["starting", "ok", "degraded", "failing"])]),
    gauge("nutfilter_keysets", "Number of keysets served"),
    gauge("nutfilter_items", "Notes in the served filters").by(&[KIND]),
    gauge(
        "nutfilter_keyset_items",
        "Notes in a filter; the 50 keysets with the most notes have this and the next two",
    )
    .by(KEYSET),
    gauge("nutfilter_keyset_bytes", "Length of a filter, without JSON").by(KEYSET),
    gauge(
        "nutfilter_keyset_timestamp_seconds",
        "Timestamp of a filter (Unix time)",
    )
    .by(KEYSET),
    gauge(
        "nutfilter_last_refresh_timestamp_seconds",
        "Start of the last refresh whose filters are served (Unix time)",
    ),
    gauge(
        "nutfilter_as_of_timestamp_seconds",
        "Start of the last successful read (Unix time); no filter is later",
    )
    .by(&[KIND]),
    gauge(
        "nutfilter_clock_behind_seconds",
        "Seconds by which a filter is dated after the clock",
    ),
    counter(
        "nutfilter_refreshes_total",
        "Refreshes: `ok`, `partial` or `failed`",
    )
    .by(&[("result", &["ok", "partial", "failed"])]),
    metric(
        "nutfilter_refresh_seconds",
        "Duration of refreshes, including failed ones",
        Histogram(&REFRESH_BUCKETS),
    ),
    counter(
        "nutfilter_items_read_total",
        "Notes read, by full (`whole`) and incremental (`new`) reads",
    )
    .by(&[KIND, ("reading", &["whole", "new"])]),
    counter(
        "nutfilter_full_rereads_total",
        "Full rereads of a database that had changed otherwise than by new notes",
    )
    .by(&[KIND]),
    counter(
        "nutfilter_items_lost_total",
        "Notes that a full reread no longer found",
    )
    .by(&[KIND]),
    gauge(
        "nutfilter_unreadable_rows",
        "Rows not readable at the last refresh; the filters of their keysets stay as they are",
    )
    .by(&[KIND]),
    counter(
        "nutfilter_shrunk_total",
        "How often a keyset had fewer notes than before",
    )
    .by(&[KIND]),
    counter(
        "nutfilter_data_discarded_total",
        "How often damaged data in the data directory was discarded",
    ),
    counter(
        "nutfilter_info_failures_total",
        "Failed requests for the mint's own `/v1/info`",
    ),
    counter("nutfilter_http_requests_total", "Requests answered")
        .by(&[("route", ROUTES), ("status", STATUSES)]),
    counter(
        "nutfilter_http_response_bytes_total",
        "Response body bytes sent",
    ),
    gauge("nutfilter_http_connections", "Open connections"),
    counter(
        "nutfilter_http_connections_refused_total",
        "Connections refused because `max_connections` was reached",
    ),
    counter(
        "nutfilter_http_connections_cut_total",
        "Connections closed because of a slow or idle client",
    )
    .by(&[("reason", REASONS)]),
    counter(
        "nutfilter_http_accept_failures_total",
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
            if let Histogram(buckets) = metric.of_type {
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
    for metric in METRICS {
        let (name, help, unit) = (metric.name, metric.help, metric.unit());
        match metric.of_type {
            Counter => {
                describe_counter!(name, unit, help);
                for labels in combinations(metric.labels) {
                    counter!(name, labels).increment(0);
                }
            }
            Gauge => describe_gauge!(name, unit, help),
            Histogram(_) => describe_histogram!(name, unit, help),
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
            let value = match metric.unit() {
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
        for metric in METRICS {
            let Metric { name, labels, .. } = metric;
            let series = text.lines().filter(|line| {
                let rest = line.strip_prefix(name);
                rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
            });
            let series: Vec<&str> = series.collect();
            let expected: usize = match metric.of_type {
                Counter => labels.iter().map(|(_, values)| values.len()).product(),
                _ => 0,
            };
            assert_eq!(series.len(), expected, "{name}");
            assert!(series.iter().all(|line| line.ends_with(" 0")), "{series:?}");
        }
        assert!(text.contains("nutfilter_shrunk_total{kind=\"spent\"} 0"));
    }
}
