//! What the service measures of itself, in the text of Prometheus.
//!
//! The libraries count through the `metrics` facade. Here is the list of all that they count, with units and
//! words; what follows from the snapshot is set when somebody asks.

use std::convert::Infallible;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use nutfilter_mint::{FilterService, Status};

use crate::error::CliError;

/// How often old samples of histograms are dropped. Nobody has to ask for that to happen.
pub(super) const UPKEEP: Duration = Duration::from_secs(5);

/// Seconds. Answers are finished bodies: what takes longer than a tenth of a second is the network.
const REQUEST_BUCKETS: [f64; 10] = [
    0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 2.5, 10.0,
];

/// Seconds. From an increment of a small mint to the first reading of a large one.
const REFRESH_BUCKETS: [f64; 10] = [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0];

/// What a metric is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sort {
    Counter,
    Gauge,
    Histogram(&'static [f64]),
}

/// A label and the values that it may have.
pub(super) type Label = (&'static str, &'static [&'static str]);

const KIND: Label = ("kind", &["spent", "issued"]);

/// A metric, as it is described to Prometheus and to the reader of the documents.
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
    "keysets",
    "info",
    "health",
    "ready",
    "metrics",
    "admin_refresh",
    "preflight",
    "other",
];

const REASONS: &[&str] = &["handshake", "head", "idle", "slow_reader", "shutdown"];

const STATUSES: &[&str] = &[
    "200", "202", "204", "206", "304", "400", "401", "404", "405", "406", "413", "414", "416",
    "500", "503", "other",
];

/// All of them.
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
        "1 for how the service is (`starting`, `ok`, `degraded`, `failing`), 0 for the others",
    ),
    metric(
        "nutfilter_keysets",
        Gauge,
        Unit::Count,
        &[],
        "Keysets that are served",
    ),
    metric(
        "nutfilter_items",
        Gauge,
        Unit::Count,
        &[KIND],
        "Notes in the filters that are served",
    ),
    metric(
        "nutfilter_last_refresh_timestamp_seconds",
        Gauge,
        Unit::Seconds,
        &[],
        "Unix time at which the latest refresh began that published something",
    ),
    metric(
        "nutfilter_as_of_timestamp_seconds",
        Gauge,
        Unit::Seconds,
        &[KIND],
        "Unix time at which the latest good reading of this kind began: what filters may be dated at most",
    ),
    metric(
        "nutfilter_clock_behind_seconds",
        Gauge,
        Unit::Seconds,
        &[],
        "How far the clock is behind the latest timestamp that a filter ever had: above 0 it was set back",
    ),
    metric(
        "nutfilter_refreshes_total",
        Counter,
        Unit::Count,
        &[("result", &["ok", "partial", "failed"])],
        "Refreshes: `ok`, `partial` (some filters failed) or `failed`",
    ),
    metric(
        "nutfilter_refresh_seconds",
        Histogram(&REFRESH_BUCKETS),
        Unit::Seconds,
        &[],
        "Time that refreshes took, failed ones too",
    ),
    metric(
        "nutfilter_items_read_total",
        Counter,
        Unit::Count,
        &[KIND, ("reading", &["whole", "new"])],
        "Notes read from the database, by readings of everything (`whole`) and of what is new",
    ),
    metric(
        "nutfilter_full_rereads_total",
        Counter,
        Unit::Count,
        &[KIND],
        "Times that everything was read again because the database was not what it was with more notes",
    ),
    metric(
        "nutfilter_items_lost_total",
        Counter,
        Unit::Count,
        &[KIND],
        "Notes that a full reread no longer found: a backup was restored or rows were deleted",
    ),
    metric(
        "nutfilter_shrunk_total",
        Counter,
        Unit::Count,
        &[KIND],
        "Times that a keyset had fewer notes than before",
    ),
    metric(
        "nutfilter_data_discarded_total",
        Counter,
        Unit::Count,
        &[],
        "Times that something in the data directory was damaged or foreign, and thrown away",
    ),
    metric(
        "nutfilter_info_failures_total",
        Counter,
        Unit::Count,
        &[],
        "Times that the mint's own `/v1/info` could not be had",
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
        "Time from a request's head to the last byte of its answer",
    ),
    metric(
        "nutfilter_http_response_bytes_total",
        Counter,
        Unit::Bytes,
        &[],
        "Bytes of bodies sent",
    ),
    metric(
        "nutfilter_http_connections",
        Gauge,
        Unit::Count,
        &[],
        "Connections that are open",
    ),
    metric(
        "nutfilter_http_connections_refused_total",
        Counter,
        Unit::Count,
        &[],
        "Connections closed at once because there were as many as may be",
    ),
    metric(
        "nutfilter_http_connections_cut_total",
        Counter,
        Unit::Count,
        &[("reason", REASONS)],
        "Connections cut because a limit on time was reached, or at the end",
    ),
    metric(
        "nutfilter_http_accept_failures_total",
        Counter,
        Unit::Count,
        &[],
        "Times that the system had no descriptor or memory for another connection",
    ),
];

/// A recorder for the whole process, and the way to what it recorded.
#[derive(Clone)]
pub(super) struct Metrics {
    handle: PrometheusHandle,
}

impl Metrics {
    /// Installs the recorder. Nothing listens: the text is part of the service's own router.
    ///
    /// # Errors
    ///
    /// If the process has a recorder already.
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

    /// The text, with what the snapshot says at this moment.
    pub(super) fn text(&self, service: &FilterService) -> String {
        of_snapshot(service);
        self.handle.render()
    }

    /// Drops what is old, again and again.
    pub(super) async fn keep_up(self) -> Infallible {
        loop {
            tokio::time::sleep(UPKEEP).await;
            self.handle.run_upkeep();
        }
    }
}

/// Describes all metrics, and sets every counter to 0 with every value of its labels: `increase()` does not see a
/// counter that appears with its first event.
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

/// Every combination of the labels' values.
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

// Exact up to 2^53, which no number of notes comes near.
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

fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The table of the documents, in Markdown.
    fn markdown() -> String {
        let mut text = String::from("| metric | labels | |\n|---|---|---|\n");
        for Metric {
            name,
            sort,
            labels,
            help,
            ..
        } in METRICS
        {
            let sort = match sort {
                Counter => "counter",
                Gauge => "gauge",
                Histogram(_) => "histogram",
            };
            let labels: Vec<_> = labels.iter().map(|(name, _)| format!("`{name}`")).collect();
            let labels = labels.join(", ");
            text += &format!("| `{name}` ({sort}) | {labels} | {help} |\n");
        }
        text
    }

    #[test]
    fn the_documents_have_the_table_of_the_metrics() {
        let document = include_str!("../../../../docs/operating.md");
        let table = markdown();
        assert!(
            document.contains(&table),
            "docs/operating.md lacks this table:\n{table}"
        );
    }

    /// What a process says that has counted nothing yet.
    fn at_start() -> String {
        let recorder = PrometheusBuilder::new().build_recorder();
        metrics::with_local_recorder(&recorder, register);
        recorder.handle().render()
    }

    #[test]
    fn every_counter_is_there_at_the_start_and_is_0() {
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

    #[test]
    fn labels_have_the_values_that_are_counted() {
        let code = super::super::documents::code();
        for (call, values) in [("Route", ROUTES), ("cut", REASONS)] {
            let call = format!("{call}(\"");
            let counted = code.split(&call).skip(1);
            let counted: BTreeSet<_> = counted
                .map(|rest| &rest[..rest.find('"').unwrap()])
                .collect();
            // What no handler answered has no route of its own.
            let known = values.iter().copied().filter(|value| *value != "other");
            assert_eq!(counted, known.collect(), "{call}");
        }
    }

    #[test]
    fn every_metric_that_is_counted_is_described_and_no_other() {
        let code = super::super::documents::code();
        let named = |after: &str| -> BTreeSet<String> {
            code.split(after)
                .skip(1)
                .filter_map(|rest| rest.trim_start().strip_prefix('"'))
                .map(|rest| rest[..rest.find('"').unwrap()].to_owned())
                .filter(|name| name.starts_with("nutfilter_"))
                .collect()
        };
        let counted: BTreeSet<_> = ["counter!(", "gauge!(", "histogram!("]
            .into_iter()
            .flat_map(named)
            .collect();
        let described: BTreeSet<_> = METRICS
            .iter()
            .map(|metric| metric.name.to_owned())
            .collect();
        assert_eq!(METRICS.len(), described.len());
        let missing: Vec<_> = counted.symmetric_difference(&described).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
