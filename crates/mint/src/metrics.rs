//! The metrics of reading and building, in the default registry of the `prometheus` crate.

use std::sync::LazyLock;

use prometheus::{
    Gauge, GaugeVec, Histogram, IntCounter, IntCounterVec, register_gauge, register_gauge_vec,
    register_histogram, register_int_counter, register_int_counter_vec,
};

use crate::NoteKind;

/// Seconds. From an incremental read of a small mint to the first read of a large one.
const REFRESH_BUCKETS: [f64; 10] = [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0];

/// Metrics of this crate, by what follows `nutfilter_` in their names.
pub(crate) struct Metrics {
    pub(crate) items: GaugeVec,
    pub(crate) as_of: GaugeVec,
    pub(crate) unreadable_rows: GaugeVec,
    pub(crate) last_refresh: Gauge,
    pub(crate) clock_behind: Gauge,
    pub(crate) refresh_seconds: Histogram,
    pub(crate) refreshes: IntCounterVec,
    pub(crate) items_read: IntCounterVec,
    pub(crate) full_rereads: IntCounterVec,
    pub(crate) items_lost: IntCounterVec,
    pub(crate) shrunk: IntCounterVec,
    pub(crate) data_discarded: IntCounter,
    pub(crate) info_failures: IntCounter,
}

pub(crate) static METRICS: LazyLock<Metrics> =
    LazyLock::new(|| Metrics::registered().expect("no other metrics have these names"));

/// Registers the metrics of this crate, with every counter at 0: `increase()` of Prometheus does not see the first event of a
/// counter that appears with it. Without this call, they are registered at their first use.
pub fn register_metrics() {
    LazyLock::force(&METRICS);
}

impl Metrics {
    fn registered() -> prometheus::Result<Self> {
        let by_kind = |name, help| {
            let counter = register_int_counter_vec!(name, help, &["kind"])?;
            for kind in NoteKind::ALL {
                counter.with_label_values(&[kind.as_str()]);
            }
            Ok::<_, prometheus::Error>(counter)
        };
        let metrics = Self {
            items: register_gauge_vec!(
                "nutfilter_items",
                "Notes in the served filters",
                &["kind"]
            )?,
            as_of: register_gauge_vec!(
                "nutfilter_as_of_timestamp_seconds",
                "Start of the last successful read (Unix time); no filter is later",
                &["kind"]
            )?,
            unreadable_rows: register_gauge_vec!(
                "nutfilter_unreadable_rows",
                "Rows not readable at the last refresh; the filters of their keysets stay as they are",
                &["kind"]
            )?,
            last_refresh: register_gauge!(
                "nutfilter_last_refresh_timestamp_seconds",
                "Start of the last refresh whose filters are served (Unix time)"
            )?,
            clock_behind: register_gauge!(
                "nutfilter_clock_behind_seconds",
                "Seconds by which a filter is dated after the clock"
            )?,
            refresh_seconds: register_histogram!(
                "nutfilter_refresh_seconds",
                "Duration of refreshes, including failed ones",
                REFRESH_BUCKETS.to_vec()
            )?,
            refreshes: register_int_counter_vec!(
                "nutfilter_refreshes_total",
                "Refreshes: `ok`, `partial` or `failed`",
                &["result"]
            )?,
            items_read: register_int_counter_vec!(
                "nutfilter_items_read_total",
                "Notes read, by full (`whole`) and incremental (`new`) reads",
                &["kind", "reading"]
            )?,
            full_rereads: by_kind(
                "nutfilter_full_rereads_total",
                "Full rereads of a database that had changed otherwise than by new notes",
            )?,
            items_lost: by_kind(
                "nutfilter_items_lost_total",
                "Notes that a full reread no longer found",
            )?,
            shrunk: by_kind(
                "nutfilter_shrunk_total",
                "How often a keyset had fewer notes than before",
            )?,
            data_discarded: register_int_counter!(
                "nutfilter_data_discarded_total",
                "How often damaged data in the data directory was discarded"
            )?,
            info_failures: register_int_counter!(
                "nutfilter_info_failures_total",
                "Failed requests for the mint's own `/v1/info`"
            )?,
        };
        for result in ["ok", "partial", "failed"] {
            metrics.refreshes.with_label_values(&[result]);
        }
        for kind in NoteKind::ALL {
            for reading in ["whole", "new"] {
                metrics
                    .items_read
                    .with_label_values(&[kind.as_str(), reading]);
            }
        }
        Ok(metrics)
    }
}
