//! Refused requests, and endpoints that must be enabled.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nutfilter_mint::http::{AdminOptions, RouterOptions, router_with};
use nutfilter_mint::{FilterService, NoteKind, ServiceOptions};

use crate::forms::{server, with};
use crate::support::{Reply, Server, V1, assert_refused, published_items};

#[test]
fn request_with_body_is_refused_on_every_path() {
    let server = server();
    for path in [
        &format!("/v1/filter/spent/{V1}"),
        "/v1/keysets",
        "/health",
        "/nothing",
    ] {
        for (method, headers, body) in [
            ("GET", "content-length: 1", "x"),
            ("POST", "content-length: 1000000000000", "never all of it"),
            (
                "POST",
                "transfer-encoding: chunked",
                "5\r\nhello\r\n0\r\n\r\n",
            ),
            ("HEAD", "content-length: 5", "hello"),
        ] {
            let mut stream = server.connect();
            // Without `connection: close`, so that the server must end the connection.
            write!(
                stream,
                "{method} {path} HTTP/1.1\r\nhost: mint\r\n{headers}\r\n\r\n{body}"
            )
            .unwrap();
            let reply = Reply::read(stream);
            assert_eq!(reply.status, 413, "{method} {path}");
            assert_eq!(with(&reply, "connection"), "close");
            if method != "HEAD" {
                assert_refused(&reply, 413, 0);
            }
        }
    }
    let none = server.ask("GET", "/health", &[("content-length", "0")]);
    assert_eq!(none.status, 200);
}

#[test]
fn long_paths_and_queries_are_refused() {
    let server = server();
    let long = "a".repeat(3_000);
    assert_refused(&server.raw("GET", &format!("/{long}")), 414, 0);
    assert_refused(&server.raw("GET", &format!("/health?{long}")), 414, 0);
    let path = format!("/v1/filter/spent/{V1}");
    assert_refused(&server.raw("GET", &format!("{path}?{long}")), 414, 0);
    // A long id is invalid, as for any mint.
    assert_refused(&server.raw("GET", &format!("{path}{long}")), 400, 12_001);
    assert_eq!(server.raw("GET", &format!("{path}?a=b")).status, 200);
    for odd in ["*", "//", "http://elsewhere/health/x", "/%00", "/health/"] {
        assert_refused(&server.raw("GET", odd), 404, 0);
    }
}

#[test]
fn preflight_names_the_allowed_headers() {
    let reply = server().raw("OPTIONS", &format!("/v1/filter/spent/{V1}"));
    let allowed = with(&reply, "access-control-allow-headers");
    for name in ["If-None-Match", "Range", "If-Range", "Accept", "*"] {
        assert!(allowed.split(", ").any(|known| known == name), "{allowed}");
    }
    assert!(reply.header("access-control-max-age").is_some());
}

#[test]
fn ready_names_what_is_missing() {
    let service = published_items(3);
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
    let empty = Server::start(FilterService::new(ServiceOptions::default()));
    assert_eq!(empty.get("/ready").json()["detail"], "no filter built yet");
}

#[test]
fn metrics_and_admin_exist_only_if_enabled() {
    let plain = server();
    assert_refused(&plain.get("/metrics"), 404, 0);
    assert_refused(&plain.raw("POST", "/admin/refresh"), 404, 0);
    assert_refused(&plain.get("/v1/info"), 404, 0);

    let asked = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&asked);
    let mut options = RouterOptions::default();
    options.metrics = Some(Arc::new(|| "nutfilter_x 1\n".to_owned()));
    options.max_age = Duration::from_secs(7);
    options.admin = Some(AdminOptions {
        token: "s3cret".to_owned(),
        refresh: Arc::new(move || {
            counter.fetch_add(1, Ordering::SeqCst);
        }),
    });
    assert!(!format!("{options:?}").contains("s3cret"));
    let server = Server::serve(router_with(published_items(3), options));
    let metrics = server.get("/metrics");
    assert_eq!(metrics.body, b"nutfilter_x 1\n");
    assert_eq!(metrics.header("access-control-allow-origin"), None);
    assert_refused(&server.raw("OPTIONS", "/metrics"), 405, 0);
    assert!(with(&metrics, "content-type").starts_with("text/plain"));
    assert_eq!(
        with(&server.spent(&[]), "cache-control"),
        "public, max-age=7"
    );

    for authorization in [
        "",
        "s3cret",
        "Bearer",
        "Bearer ",
        "Bearer s3cre",
        "Bearer s3crets",
        "Basic s3cret",
        "Bearer  s3cret",
    ] {
        let reply = server.ask(
            "POST",
            "/admin/refresh",
            &[("authorization", authorization)],
        );
        assert_refused(&reply, 401, 0);
        assert_eq!(with(&reply, "www-authenticate"), "Bearer");
    }
    assert_refused(&server.raw("POST", "/admin/refresh"), 401, 0);
    assert_refused(&server.raw("GET", "/admin/refresh"), 405, 0);
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    for scheme in ["Bearer", "bearer"] {
        let token = format!("{scheme} s3cret");
        let reply = server.ask("POST", "/admin/refresh", &[("authorization", &token)]);
        assert_eq!(reply.status, 202);
    }
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

#[test]
fn empty_token_refuses_every_request() {
    let mut options = RouterOptions::default();
    options.admin = Some(AdminOptions {
        token: String::new(),
        refresh: Arc::new(|| panic!("asked")),
    });
    let server = Server::serve(router_with(published_items(3), options));
    let reply = server.ask("POST", "/admin/refresh", &[("authorization", "Bearer ")]);
    assert_refused(&reply, 401, 0);
}

#[cfg(unix)]
#[test]
fn fifo_is_refused_without_waiting_for_a_writer() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mint.sqlite3");
    let status = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(status.unwrap().success());
    let location = nutfilter_mint::source::DatabaseLocation::from(path.as_path());
    let error = nutfilter_mint::source::open(&location, None).err().unwrap();
    assert!(error.to_string().contains("not a regular file"), "{error}");
}
