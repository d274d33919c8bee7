//! The metrics of connections and requests, in the default registry of the `prometheus` crate.

use std::sync::LazyLock;

use prometheus::{
    HistogramVec, IntCounter, IntCounterVec, IntGauge, register_histogram_vec,
    register_int_counter, register_int_counter_vec, register_int_gauge,
};

/// Metrics of this crate, by what follows `nutfilter_http_` in their names.
pub(crate) struct Metrics {
    pub(crate) requests: IntCounterVec,
    pub(crate) seconds: HistogramVec,
    pub(crate) response_bytes: IntCounter,
    pub(crate) connections: IntGauge,
    pub(crate) refused: IntCounter,
    pub(crate) cut: IntCounterVec,
    pub(crate) accept_failures: IntCounter,
}

pub(crate) static METRICS: LazyLock<Metrics> =
    LazyLock::new(|| Metrics::registered().expect("no other metrics have these names"));

impl Metrics {
    fn registered() -> prometheus::Result<Self> {
        let metrics = Self {
            requests: register_int_counter_vec!(
                "nutfilter_http_requests_total",
                "Requests answered",
                &["route", "status"]
            )?,
            seconds: register_histogram_vec!(
                "nutfilter_http_request_duration_seconds",
                "Time from the head of a request to the head of its answer",
                &["route"],
                vec![0.001, 0.01, 0.1, 1.0, 10.0]
            )?,
            response_bytes: register_int_counter!(
                "nutfilter_http_response_bytes_total",
                "Bytes of response bodies"
            )?,
            connections: register_int_gauge!("nutfilter_http_connections", "Open connections")?,
            refused: register_int_counter!(
                "nutfilter_http_connections_refused_total",
                "Connections refused because the maximum was reached"
            )?,
            cut: register_int_counter_vec!(
                "nutfilter_http_connections_cut_total",
                "Connections closed because their client sent no request, or took nothing of an answer",
                &["reason"]
            )?,
            accept_failures: register_int_counter!(
                "nutfilter_http_accept_failures_total",
                "Connections not accepted for lack of descriptors or memory"
            )?,
        };
        for reason in ["idle", "slow_reader"] {
            metrics.cut.with_label_values(&[reason]);
        }
        Ok(metrics)
    }
}
