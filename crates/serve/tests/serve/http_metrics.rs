//! The server's metrics. No label contains data of a request.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use nutfilter_serve::Limits;

use crate::V1;
use crate::server::{Server, service_of};

/// All counters of this process, by name and labels. Other tests count too.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<BTreeMap<String, Arc<AtomicU64>>>>);

impl Ledger {
    /// The ledger of this process.
    fn installed() -> Self {
        static LEDGER: OnceLock<Ledger> = OnceLock::new();
        let new = || {
            let ledger = Ledger::default();
            metrics::set_global_recorder(ledger.clone()).expect("the only one");
            ledger
        };
        LEDGER.get_or_init(new).clone()
    }

    fn entry(&self, key: &Key) -> Arc<AtomicU64> {
        let labels: Vec<String> = key
            .labels()
            .map(|label| format!("{}={}", label.key(), label.value()))
            .collect();
        let name = format!("{}{{{}}}", key.name(), labels.join(","));
        Arc::clone(self.0.lock().unwrap().entry(name).or_default())
    }

    fn value(&self, name: &str) -> u64 {
        let entries = self.0.lock().unwrap();
        entries
            .get(name)
            .map_or(0, |value| value.load(Ordering::Relaxed))
    }

    fn names(&self) -> BTreeSet<String> {
        self.0.lock().unwrap().keys().cloned().collect()
    }
}

/// Counts how often something was measured.
struct Measured(Arc<AtomicU64>);

impl HistogramFn for Measured {
    fn record(&self, _: f64) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Recorder for Ledger {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.entry(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.entry(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::new(Measured(self.entry(key))))
    }
}

/// Waits for a count that is made after the answer was sent.
fn until(ledger: &Ledger, name: &str, least: u64) {
    let since = Instant::now();
    while ledger.value(name) < least {
        assert!(
            since.elapsed() < Duration::from_secs(30),
            "{name} in {:?}",
            ledger.names()
        );
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn requests_bytes_connections_and_cuts_are_counted() {
    let ledger = Ledger::installed();
    let mut options = Limits::default();
    options.head = Duration::from_millis(300);
    options.max_connections = 2;
    let server = Server::limited(nutfilter_serve::router(service_of(1_000)), options);
    let bytes = "nutfilter_http_response_bytes_total{}";
    let before = ledger.value(bytes);
    let length = server.spent(&[]).body.len() as u64;
    let requests = "nutfilter_http_requests_total{route=filter_spent,status=200}";
    until(&ledger, requests, 1);
    until(&ledger, bytes, before + length);
    let cut = "nutfilter_http_connections_cut_total{reason=idle}";
    let cut_before = ledger.value(cut);
    let stalled: Vec<TcpStream> = (0..4)
        .map(|_| {
            let mut stream = server.connect();
            // At least two of the four are refused: three if the first request's connection is still open.
            let _ = stream.write_all(b"GET");
            stream
        })
        .collect();
    until(&ledger, "nutfilter_http_connections_refused_total{}", 1);
    until(&ledger, cut, cut_before + 1);
    assert!(ledger.names().contains("nutfilter_http_connections{}"));
    drop(stalled);
}

#[test]
fn labels_contain_no_request_data() {
    let ledger = Ledger::installed();
    let server = Server::start(service_of(3));
    for path in [
        format!("/v1/filter/spent/{V1}"),
        "/v1/filter/issued/00ffffffffffffff".to_owned(),
        "/some/path/of/mine".to_owned(),
        format!("/{}", "long".repeat(1_000)),
    ] {
        for method in ["GET", "DELETE", "FROBNICATE", "OPTIONS"] {
            server.raw(method, &path);
        }
    }
    let name = "nutfilter_http_requests_total{route=other,status=404}";
    until(&ledger, name, 1);
    let names = ledger.names();
    let requests = names
        .iter()
        .filter_map(|name| name.strip_prefix("nutfilter_http_requests_total{route="));
    for labels in requests {
        let (route, status) = labels.split_once(",status=").unwrap();
        let known = "filter_spent filter_issued keysets info health ready metrics other";
        assert!(known.split(' ').any(|known| known == route), "{labels}");
        assert_eq!(status.len(), "200}".len(), "{labels}");
    }
}
