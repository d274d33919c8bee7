//! The server's metrics. No label contains data of a request.

use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use nutfilter_serve::Limits;
use prometheus::TextEncoder;

use crate::server::Server;
use crate::site::{PAGE, TestSite};

/// All metrics of this process. Other tests count too.
fn text() -> String {
    let metrics = prometheus::gather();
    TextEncoder::new().encode_to_string(&metrics).unwrap()
}

fn value(name: &str) -> Option<u64> {
    let text = text();
    let mut lines = text.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

/// Waits for a count that is made after the answer was sent.
fn until(name: &str, least: u64) {
    let since = Instant::now();
    while value(name).unwrap_or(0) < least {
        assert!(since.elapsed() < Duration::from_secs(30), "{name} in {}", text());
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn requests_bytes_connections_and_cuts_are_counted() {
    let mut options = Limits::default();
    options.head = Duration::from_millis(300);
    options.max_connections = 2;
    let server = Server::limited(nutfilter_serve::router(TestSite::in_memory()), options);
    let bytes = "nutfilter_http_response_bytes_total";
    let before = value(bytes).unwrap_or(0);
    let length = server.page(&[]).body.len() as u64;
    let requests = "nutfilter_http_requests_total{route=\"page\",status=\"200\"}";
    until(requests, 1);
    until(bytes, before + length);
    let cut = "nutfilter_http_connections_cut_total{reason=\"idle\"}";
    let cut_before = value(cut).unwrap_or(0);
    let stalled: Vec<TcpStream> = (0..4)
        .map(|_| {
            let mut stream = server.connect();
            // At least two of the four are refused: three if the first request's connection is still open.
            let _ = stream.write_all(b"GET");
            stream
        })
        .collect();
    until("nutfilter_http_connections_refused_total", 1);
    until(cut, cut_before + 1);
    assert!(value("nutfilter_http_connections").is_some());
    drop(stalled);
}

#[test]
fn labels_contain_no_request_data() {
    let server = Server::start(TestSite::in_memory());
    for path in [
        PAGE.to_owned(),
        "/v1/page/two".to_owned(),
        "/some/path/of/mine".to_owned(),
        format!("/{}", "long".repeat(1_000)),
    ] {
        for method in ["GET", "DELETE", "FROBNICATE", "OPTIONS"] {
            server.ask(method, &path, &[]);
        }
    }
    let name = "nutfilter_http_requests_total{route=\"other\",status=\"404\"}";
    until(name, 1);
    let text = text();
    let requests =
        text.lines().filter_map(|line| line.strip_prefix("nutfilter_http_requests_total{route=\""));
    for labels in requests {
        let (route, status) = labels.split_once("\",status=\"").unwrap();
        let known = "page health ready metrics other";
        assert!(known.split(' ').any(|known| known == route), "{labels}");
        assert_eq!(status.find('"'), Some(3), "{labels}");
    }
}
