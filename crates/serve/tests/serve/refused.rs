//! Refused requests, and endpoints that must be enabled.

use crate::forms::{server, with};
use crate::server::{Server, assert_refused};
use crate::site::{PAGE, TestSite};

#[test]
fn ready_gives_the_reason_of_the_site() {
    let site = TestSite::in_memory();
    let server = Server::start(site.clone());
    let ready = serde_json::json!({ "ready": true });
    assert_eq!(server.get("/ready").json(), ready);
    *site.ready.lock().unwrap() = Err("no page yet".to_owned());
    let reply = server.get("/ready");
    assert_refused(&reply, 503, 0);
    assert_eq!(reply.json()["detail"], "no page yet");
    assert_eq!(reply.header("retry-after"), Some("10"));
    assert_eq!(with(&reply, "cache-control"), "no-store");
    // Whatever is there is still served, and the process is alive.
    assert_eq!(server.page(&[]).status, 200);
    assert_eq!(server.get("/health").json()["status"], "ok");
}

#[test]
fn site_refuses_by_headers_and_by_object() {
    for site in TestSite::in_both_places() {
        site.put("/later/one", b"{}".to_vec());
        let server = Server::start(site);
        let reply = server.get("/later/one");
        assert_refused(&reply, 503, 0);
        assert_eq!(reply.json()["detail"], "not built yet");
        assert_eq!(reply.header("retry-after"), Some("10"));
        assert_refused(&server.page(&[("via", "1.1 nutfilter")]), 508, 0);
    }
}

#[test]
fn other_spellings_of_a_path_name_the_same_object() {
    let server = server();
    let page = server.page(&[]);
    for path in
        ["/v1/page/ONE", "/v1/page/%6fne", "/v1/page/one?a=b", "http://elsewhere/v1/page/one"]
    {
        let reply = server.get(path);
        assert_eq!((reply.status, &reply.body), (200, &page.body), "{path}");
    }
}

#[test]
fn objects_alone_leave_other_paths_to_the_application() {
    let own = axum::Router::new().route("/health", axum::routing::get(|| async { "mine" }));
    let objects = nutfilter_serve::object_router(TestSite::in_memory(), "/v1/page");
    let server = Server::serve(own.merge(objects));
    assert_eq!(server.page(&[]).status, 200);
    assert_refused(&server.get("/v1/page/two"), 400, 12_001);
    assert_eq!(server.get("/health").body, b"mine");
    let other = server.get("/other");
    assert_eq!((other.status, other.body.len()), (404, 0));
}

#[test]
fn odd_paths_are_not_found() {
    let server = server();
    let long = "a".repeat(3_000);
    assert_refused(&server.get(&format!("/{long}")), 404, 0);
    assert_refused(&server.get(&format!("{PAGE}{long}")), 400, 12_001);
    assert_eq!(server.get(&format!("{PAGE}?a=b")).status, 200);
    let odd = "* // //v1/page/one /v1//page/one /v1/./page/one /../v1/page/one http://elsewhere/health/x /%00 /%ff /health/";
    for odd in odd.split(' ') {
        assert_refused(&server.get(odd), 404, 0);
    }
    let others = "/ /v1 /v1/page /v1/pages/one";
    for path in others.split(' ') {
        assert_refused(&server.get(path), 404, 0);
        let status = if path == "/" { 404 } else { 405 };
        assert_refused(&server.ask("DELETE", path, &[]), status, 0);
    }
}

#[test]
fn preflight_allows_the_headers_that_are_asked_for() {
    let asked = "access-control-request-headers";
    for (headers, allowed) in
        [(&[][..], "*, Authorization"), (&[(asked, "blind-auth,pragma")], "blind-auth,pragma")]
    {
        let reply = server().ask("OPTIONS", PAGE, headers);
        assert_eq!(with(&reply, "access-control-allow-headers"), allowed);
        assert!(with(&reply, "access-control-allow-methods").contains("GET"));
        assert_eq!(with(&reply, "access-control-allow-origin"), "*");
        assert_eq!(with(&reply, "access-control-max-age"), "86400");
    }
    let reply = server().page(&[]);
    assert!(with(&reply, "access-control-expose-headers").contains("etag"));
}

#[test]
fn metrics_exist_only_if_the_site_has_them() {
    assert_refused(&server().get("/metrics"), 404, 0);
    let mut site = TestSite::in_memory();
    site.metrics = Some("nutfilter_x 1\n");
    site.max_age = 7;
    let server = Server::start(site);
    let metrics = server.get("/metrics");
    assert_eq!(metrics.body, b"nutfilter_x 1\n");
    assert_eq!(metrics.header("access-control-allow-origin"), None);
    assert_eq!(server.ask("OPTIONS", "/metrics", &[]).status, 405);
    assert!(with(&metrics, "content-type").starts_with("text/plain"));
    assert_eq!(with(&server.page(&[]), "cache-control"), "public, max-age=7");
}
