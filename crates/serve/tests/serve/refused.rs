//! Refused requests, and endpoints that must be enabled.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use nutfilter_mint::{FilterService, NoteKind};

use crate::V1;
use nutfilter_serve::{RouterOptions, router_with};

use crate::forms::{server, with};
use crate::server::{Reply, Server, assert_refused, service_of};

#[test]
fn ready_names_what_is_missing() {
    let service = service_of(3);
    let mut options = RouterOptions::default();
    options.ready_within = Duration::from_millis(50);
    let server = Server::serve(router_with(service.clone(), options));
    let reply = server.get("/ready");
    assert_refused(&reply, 503, 0);
    assert!(reply.header("retry-after").is_some());
    assert_eq!(reply.json()["detail"], "no refresh has succeeded yet");
    service.set_failing(true);
    assert_eq!(server.get("/ready").status, 503);
    assert_eq!(server.get("/health").json()["status"], "degraded");

    service.set_failing(false);
    assert!(service.ready(Duration::from_secs(600)).is_ok());
    std::thread::sleep(Duration::from_millis(60));
    let reply = server.get("/ready");
    assert_refused(&reply, 503, 0);
    assert!(with(&reply, "cache-control").contains("no-store"));
    // Filters are still served, whatever their age.
    assert_eq!(server.filter(NoteKind::Spent, V1).status, 200);

    let steady = Server::start(service);
    assert_eq!(
        steady.get("/ready").json(),
        serde_json::json!({ "ready": true })
    );
    let empty = Server::start(FilterService::default());
    assert_eq!(empty.get("/ready").json()["detail"], "no filter built yet");
}

#[test]
fn request_body_is_ignored() {
    let server = server();
    let chunked = "transfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n";
    for (method, path, body, status) in [
        ("GET", "/health", "content-length: 1\r\n\r\nx", 200),
        ("POST", "/health", "content-length: 5\r\n\r\nhello", 405),
        (
            "POST",
            "/health",
            "content-length: 1000000000\r\n\r\nx",
            405,
        ),
        ("POST", "/nothing", chunked, 404),
    ] {
        let mut stream = server.connect();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: mint\r\nconnection: close\r\n{body}"
        )
        .unwrap();
        let reply = Reply::read(stream);
        assert_eq!(reply.status, status, "{method} {path} {body}");
    }
}

#[test]
fn odd_paths_are_not_found() {
    let server = server();
    let (long, path) = ("a".repeat(3_000), format!("/v1/filter/spent/{V1}"));
    assert_refused(&server.raw("GET", &format!("/{long}")), 404, 0);
    assert_refused(&server.raw("GET", &format!("{path}{long}")), 400, 12_001);
    assert_eq!(server.raw("GET", &format!("{path}?a=b")).status, 200);
    for odd in ["*", "//", "http://elsewhere/health/x", "/%00", "/health/"] {
        assert_refused(&server.raw("GET", odd), 404, 0);
    }
    let others = "/ /v1 /v1/filter /v1/filter/spent /v1/filter/spent/ /v1/filter/both/00";
    for path in others.split(' ') {
        assert_refused(&server.raw("GET", path), 404, 0);
        assert_refused(&server.raw("DELETE", path), 404, 0);
    }
}

#[test]
fn preflight_names_the_allowed_headers() {
    let headers = [
        ("origin", "https://wallet.example"),
        ("access-control-request-method", "GET"),
    ];
    let reply = server().ask("OPTIONS", &format!("/v1/filter/spent/{V1}"), &headers);
    let allowed = with(&reply, "access-control-allow-headers").to_ascii_lowercase();
    for name in ["if-none-match", "cache-control", "accept"] {
        assert!(allowed.split(',').any(|known| known == name), "{allowed}");
    }
    assert!(with(&reply, "access-control-allow-methods").contains("GET"));
    assert_eq!(with(&reply, "access-control-allow-origin"), "*");
    assert_eq!(with(&reply, "access-control-max-age"), "86400");
    let reply = server().spent(&[]);
    assert!(with(&reply, "access-control-expose-headers").contains("etag"));
}

#[test]
fn metrics_exist_only_if_enabled() {
    let plain = server();
    assert_refused(&plain.get("/metrics"), 404, 0);
    assert_refused(&plain.get("/v1/info"), 404, 0);

    let mut options = RouterOptions::default();
    options.metrics = Some(Arc::new(|| "nutfilter_x 1\n".to_owned()));
    options.max_age = Duration::from_secs(7);
    let server = Server::serve(router_with(service_of(3), options));
    let metrics = server.get("/metrics");
    assert_eq!(metrics.body, b"nutfilter_x 1\n");
    assert_eq!(metrics.header("access-control-allow-origin"), None);
    assert_eq!(server.raw("OPTIONS", "/metrics").status, 405);
    assert!(with(&metrics, "content-type").starts_with("text/plain"));
    assert_eq!(
        with(&server.spent(&[]), "cache-control"),
        "public, max-age=7"
    );
}
