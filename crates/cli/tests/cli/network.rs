//! The resources besides the filters, and access to them.

use std::fs;

use super::support::{Server, mint, sample, serve_from};
use crate::nutfilter::{Place, assert_contains};

#[test]
fn additional_resources_are_as_configured() {
    let (place, _) = mint();
    let serve = |options: &str| Server::of(&place, options);
    let status = |server: &Server, path: &str| server.get(path).0[9..12].to_owned();
    let server = serve("");
    for (path, expected) in
        [("/ready", "200"), ("/metrics", "200"), ("/v1/keysets", "200"), ("/v1/info", "404")]
    {
        assert_eq!(status(&server, path), expected, "{path}");
    }
    // A request is counted after its last byte was sent.
    let metrics = server.until("/metrics", "nutfilter_http_requests_total{");
    for line in [
        concat!("nutfilter_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
        "nutfilter_status{status=\"ok\"} 1",
        "nutfilter_items{kind=\"spent\"} 300",
        "nutfilter_keysets 1",
        "# TYPE nutfilter_refresh_duration_seconds_total counter",
        "nutfilter_http_requests_total{",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
    // While the mint does not answer, its info is unavailable, and its keysets are left to it.
    let server = serve("--mint-api http://127.0.0.1:1");
    assert_eq!(status(&server, "/v1/info"), "404");
    assert_eq!(status(&server, "/v1/keysets"), "404");
}

#[test]
fn output_is_served_after_a_restart_without_the_database() {
    let place = Place::new();
    let (mint, public) = (place.path("mint"), place.path("public"));
    fs::create_dir(&mint).unwrap();
    let sample = sample(&mint);
    let path = format!("/v1/filter/spent/{}", sample.keyset);
    let options = format!("--refresh 1 --max-age 12 --output {}", public.display());
    let mut command = serve_from(&mint, &options);
    let server = Server::start(&mut command);
    let before = server.get(&path);
    assert_eq!(before.0, "HTTP/1.1 200 OK");
    drop(server);
    fs::remove_dir_all(&mint).unwrap();
    let mut server = Server::start(&mut command);
    assert_eq!(server.get("/ready").0, "HTTP/1.1 200 OK");
    // With its date.
    assert_eq!(server.get(&path), before);
    server.has_said("database not found");
    assert_eq!(server.get("/ready").0, "HTTP/1.1 200 OK");
    assert_contains(&server.get("/health").1, "\"status\":\"degraded\"");
    // A filter of a keyset that is not there may be one that could not be read.
    let status = server.get("/v1/filter/spent/00ffffffffffffff").0;
    assert_eq!(status, "HTTP/1.1 503 Service Unavailable");
    // Old filters are better than none.
    let ready = server.until("/ready", "503 Service Unavailable");
    assert_contains(&ready, "s old, maximum is 12 s");
    server.has_said("no longer ready");
    assert_contains(&server.get("/metrics").1, "nutfilter_ready 0\n");
    assert_eq!(server.get(&path), before);
}

#[test]
fn services_that_ask_each_other_for_the_info_end_the_loop() {
    let (place, _) = mint();
    let second = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = second.local_addr().unwrap();
    let mut first = Server::of(&place, &format!("--mint-api http://{address}"));
    drop(second);
    let ask = format!("--mint-database . --mint-api {}", first.base);
    let second = Server::start(place.command(format!("serve --listen {address} {ask}")));
    first.has_said("MINT_API leads back to nutfilter: give the mint's own address");
    for server in [&first, &second] {
        assert_eq!(server.get("/v1/info").0, "HTTP/1.1 404 Not Found");
        let looped = server.request("GET /v1/info HTTP/1.1\r\nvia: 1.1 proxy, 1.1 nutfilter");
        assert_eq!(looped.0, "HTTP/1.1 508 Loop Detected");
        assert_contains(&looped.1, "set MINT_API to the mint's own address");
    }
}
