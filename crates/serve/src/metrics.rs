//! The metrics of connections and requests, in the default registry of the `prometheus` crate.

use std::sync::{Arc, LazyLock};

use axum::body::HttpBody as _;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_LENGTH, HOST};
use axum::http::{Method, Version};
use axum::middleware::Next;
use axum::response::Response;
use prometheus::{
    HistogramVec, IntCounter, IntCounterVec, IntGauge, register_histogram_vec,
    register_int_counter, register_int_counter_vec, register_int_gauge,
};

use crate::answer::{refused, relative};
use crate::site::{Refusal, Site};

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
                "Time from request head to response head",
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
                "Connections closed because the client sent no request or stopped reading",
                &["reason"]
            )?,
            accept_failures: register_int_counter!(
                "nutfilter_http_accept_failures_total",
                "Connections not accepted because descriptors or memory ran out"
            )?,
        };
        for reason in ["idle", "slow_reader"] {
            metrics.cut.with_label_values(&[reason]);
        }
        Ok(metrics)
    }
}

/// Counts requests by kind of path and status. No label comes from a request.
pub(crate) async fn count(
    State(site): State<Arc<dyn Site>>,
    request: Request,
    next: Next,
) -> Response {
    let label = match relative(request.uri()) {
        "health" => "health",
        "ready" => "ready",
        "metrics" => "metrics",
        path => site.label(path),
    };
    let is_head = request.method() == Method::HEAD;
    let timer = METRICS.seconds.with_label_values(&[label]).start_timer();
    // HTTP/1.1 requires exactly one `Host`, so that proxies and servers agree on the target of a request.
    let hosts = request.headers().get_all(HOST).iter().count();
    let response = match request.version() == Version::HTTP_11 && hosts != 1 {
        true => refused(&Refusal::new(400, "exactly one Host header required")),
        false => next.run(request).await,
    };
    timer.observe_duration();
    let status = response.status();
    let labels = [label, status.as_str()];
    METRICS.requests.with_label_values(&labels).inc();
    // That of a file is in the header.
    let length = response.headers().get(CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
    let length = length.or_else(|| response.body().size_hint().exact());
    if let (false, Some(bytes)) = (is_head, length) {
        METRICS.response_bytes.inc_by(bytes);
    }
    response
}
