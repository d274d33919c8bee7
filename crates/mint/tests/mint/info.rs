//! `/v1/info`, fetched from a mint over HTTP and passed on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect};
use axum::routing::get;
use nutfilter_mint::{FilterService, InfoFetcher, InfoThread};

use crate::support::{Server, assert_refused, service_of, wait_until};

const INFO: &str = r#"{"name":"a mint","n":1.10,"nuts":{"4":{"methods":[]}}}"#;
const ANNOUNCED: &str =
    r#"{"name":"a mint","n":1.10,"nuts":{"25":{"supported":true},"4":{"methods":[]}}}"#;

/// Counts requests. A second request means that the answer to the first one has been handled.
type Counter = Arc<AtomicUsize>;

/// A mint that answers with a status, and with the info if the status is 200.
fn mint(status: Arc<AtomicU16>, asked: Counter) -> Server {
    let info = move || async move {
        asked.fetch_add(1, Ordering::SeqCst);
        let status = StatusCode::from_u16(status.load(Ordering::SeqCst)).unwrap();
        match status {
            StatusCode::OK => INFO.into_response(),
            other => other.into_response(),
        }
    };
    Server::serve(Router::new().route("/Bitcoin/v1/info", get(info)))
}

/// Serves the info of the mint at `url`, and asks for it every 20 ms.
fn announce(url: &str, service: &FilterService) -> InfoThread {
    let info = InfoFetcher::new(url, service, "25").unwrap();
    info.start(Duration::from_millis(20)).unwrap()
}

#[test]
fn info_is_passed_on_and_kept_while_the_mint_is_down() {
    let status = Arc::new(AtomicU16::new(500));
    let asked = Counter::default();
    let mint = mint(Arc::clone(&status), Arc::clone(&asked));
    let url = format!("http://{}/Bitcoin/", mint.address);
    let service = service_of(3);
    let server = Server::start(service.clone());
    assert_refused(&server.get("/v1/info"), 404, 0);
    let _thread = announce(&url, &service);
    let reply = server.get("/v1/info");
    assert_refused(&reply, 503, 0);
    assert!(reply.header("retry-after").is_some());

    status.store(200, Ordering::SeqCst);
    wait_until("the info", || server.get("/v1/info").status == 200);
    let reply = server.get("/v1/info");
    assert_eq!(String::from_utf8_lossy(&reply.body), ANNOUNCED);
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let tag = reply.header("etag").unwrap();
    let again = server.ask("GET", "/v1/info", &[("if-none-match", tag)]);
    assert_eq!(again.status, 304);

    status.store(500, Ordering::SeqCst);
    let before = asked.load(Ordering::SeqCst);
    // The first of these may have been answered before the status changed.
    wait_until("failed attempts", || {
        asked.load(Ordering::SeqCst) > before + 2
    });
    assert_eq!(
        String::from_utf8_lossy(&server.get("/v1/info").body),
        ANNOUNCED
    );
}

#[test]
fn only_redirects_within_the_mint_are_followed() {
    let [elsewhere, far_asked, loop_asked] = [(); 3].map(|()| Counter::default());
    let [counter, far_counter, loop_counter] =
        [&elsewhere, &far_asked, &loop_asked].map(Arc::clone);
    let other = Server::serve(Router::new().route(
        "/v1/info",
        get(async move || {
            counter.fetch_add(1, Ordering::SeqCst);
            INFO
        }),
    ));
    let away = format!("http://{}/v1/info", other.address);
    let mint = Server::serve(
        Router::new()
            .route(
                "/near/v1/info",
                get(|| async { Redirect::temporary("/here") }),
            )
            .route(
                "/far/v1/info",
                get(async move || {
                    far_counter.fetch_add(1, Ordering::SeqCst);
                    Redirect::temporary(&away)
                }),
            )
            .route(
                "/loop/v1/info",
                get(async move || {
                    loop_counter.fetch_add(1, Ordering::SeqCst);
                    Redirect::temporary("/loop/v1/info")
                }),
            )
            .route("/here", get(|| async { INFO })),
    );
    let start = |path| {
        let url = format!("http://{}/{path}", mint.address);
        let service = FilterService::default();
        let thread = announce(&url, &service);
        (service, thread)
    };
    let [near, far, around] = ["near", "far", "loop"].map(start);
    wait_until("the info", || near.0.object("v1/info").is_ok());
    wait_until("two attempts", || far_asked.load(Ordering::SeqCst) > 1);
    // Several attempts, each with the maximum of redirects.
    wait_until("the loop", || loop_asked.load(Ordering::SeqCst) > 50);
    for (service, _thread) in [far, around] {
        assert!(service.object("v1/info").is_err());
    }
    assert_eq!(elsewhere.load(Ordering::SeqCst), 0);
}

#[test]
fn too_long_or_invalid_info_is_not_passed_on() {
    let long = format!(r#"{{"name":"{}"}}"#, "x".repeat(1 << 20));
    for body in [long, "[]".to_owned(), "<html>".to_owned()] {
        let asked = Counter::default();
        let counter = Arc::clone(&asked);
        let info = async move || {
            counter.fetch_add(1, Ordering::SeqCst);
            body.clone()
        };
        let mint = Server::serve(Router::new().route("/v1/info", get(info)));
        let url = format!("http://{}/", mint.address);
        let service = FilterService::default();
        let _thread = announce(&url, &service);
        wait_until("two attempts", || asked.load(Ordering::SeqCst) > 1);
        assert!(service.object("v1/info").is_err());
    }
}
