//! The endpoints from a client's point of view.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use axum::Router;
use nutfilter_mint::{FilterService, MintType, NoteKind, Refresher};
use nutfilter_serve as http;

use crate::support::{
    LEGACY, MintDatabase, Server, V1, V2, V3, assert_filter_of, assert_refused, items,
};

/// A mint with one spent note in each of four keysets.
pub(crate) fn refreshed(service: FilterService) -> FilterService {
    let database = MintDatabase::new(MintType::Nutshell);
    for (stream, id) in (1..).zip([V1, V2, V3, LEGACY]) {
        database.add_keyset(id, "sat", true, 100);
        database.add_spent(id, &items(stream, 1, 33));
    }
    let mut refresher = Refresher::new(database.source(), service);
    refresher.refresh().unwrap();
    refresher.service().clone()
}

fn server() -> Server {
    Server::start(refreshed(FilterService::default()))
}

#[test]
fn other_methods_are_refused() {
    let server = server();
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        for path in [&format!("/v1/filter/spent/{V1}"), "/v1/keysets", "/ready"] {
            let reply = server.raw(method, path);
            assert_refused(&reply, 405, 0);
            let mut allowed: Vec<&str> = reply.header("allow").unwrap().split(',').collect();
            allowed.sort_unstable();
            assert_eq!(allowed, ["GET", "HEAD"]);
        }
    }
}

#[test]
fn every_spelling_of_an_id_is_found() {
    let server = server();
    let [v1, v2, v3] = [V1, V2, V3].map(str::to_ascii_uppercase);
    for (stream, spelling) in [
        (1, v1.as_str()),
        (2, &v2),
        (3, &v3),
        (4, "I2yN-iR_fkzT"),
        (4, "I2yN+iR%2FfkzT"),
        (4, "I2yN%2BiR%2ffkzT"),
        (4, "I2yN+iR/fkzT"),
        (4, "%492yN-iR%2FfkzT"),
    ] {
        let reply = server.raw("GET", &format!("/v1/filter/spent/{spelling}"));
        assert_eq!(reply.status, 200, "{spelling}");
        assert_filter_of(&reply.body, &items(stream, 1, 33));
    }
}

#[test]
fn unknown_keyset_is_error_12001() {
    let server = server();
    for id in [
        "00ffffffffffffff",
        &format!("01{}", "f".repeat(64)),
        "AAAAAAAAAAAA",
    ] {
        for kind in NoteKind::ALL {
            let reply = server.filter(kind, id);
            assert_refused(&reply, 400, 12_001);
            assert_eq!(reply.json()["detail"], "keyset is not known");
        }
    }
}

#[test]
fn hostile_ids_are_error_400_and_not_quoted() {
    let server = server();
    let long = "A".repeat(10_000);
    let long_hex = format!("00{}", "0".repeat(10_000));
    for id in [
        "..%2f",
        "..%2f..%2f..%2fetc%2fpasswd",
        "../../../etc/passwd",
        "%00",
        "00%00a1f293253e41e",
        "009a1f293253e41e%00",
        "009a1f293253e41",
        "009a1f293253e41e0",
        "019a1f293253e41e",
        "%ff%fe",
        "%e2%82",
        "'%20OR%201=1--",
        "%3Cscript%3E",
        "a%2Fb%2Fc",
        "%",
        "%2",
        "%zz",
        "I2yN+iR%252FfkzT",
        "009a1f293253e41e/",
        "009a1f293253e41e%20",
        &long,
        &long_hex,
    ] {
        for kind in NoteKind::ALL {
            let reply = server.raw("GET", &format!("/v1/filter/{kind}/{id}"));
            assert_refused(&reply, 400, 12_001);
            let body = String::from_utf8(reply.body).unwrap();
            assert!(
                !body.contains("script") && !body.contains("passwd"),
                "{body}"
            );
        }
    }
    // The server is still running.
    assert_eq!(server.filter(NoteKind::Spent, V1).status, 200);
}

#[test]
fn answer_before_the_first_build_is_503() {
    let server = Server::start(FilterService::default());
    let reply = server.filter(NoteKind::Spent, V1);
    assert_refused(&reply, 503, 0);
    assert_eq!(reply.header("retry-after"), Some("10"));
    assert_refused(&server.filter(NoteKind::Issued, V1), 503, 0);
    assert_refused(&server.get("/v1/keysets"), 503, 0);
    // An invalid id is refused at any time.
    assert_refused(&server.filter(NoteKind::Spent, "nonsense"), 400, 12_001);
    let health = server.get("/health");
    assert_eq!(health.status, 200);
    let expected = serde_json::json!({
        "status": "starting", "ready": false, "version": env!("CARGO_PKG_VERSION"), "keysets": 0,
        "last_refresh": null, "seconds_since_good": null, "spent": 0, "issued": 0,
    });
    assert_eq!(health.json(), expected);
}

#[test]
fn health_counts_what_is_served() {
    let service = refreshed(FilterService::default());
    let refreshed_at = service.snapshot().unwrap().refreshed_at();
    let server = Server::start(service);
    let expected = serde_json::json!({
        "status": "ok", "ready": true, "version": env!("CARGO_PKG_VERSION"), "keysets": 4,
        "last_refresh": refreshed_at, "seconds_since_good": 0, "spent": 4, "issued": 0,
    });
    assert_eq!(server.get("/health").json(), expected);
}

#[test]
fn keysets_are_not_served_if_the_mint_serves_them() {
    let with = Server::start(refreshed(FilterService::default()));
    assert_eq!(with.get("/v1/keysets").status, 200);
    let without = Server::start(refreshed(FilterService::without_keysets()));
    assert_eq!(without.get("/v1/keysets").status, 404);
    assert_eq!(without.filter(NoteKind::Spent, V1).status, 200);
}

#[test]
fn all_endpoints_work_under_a_base_path() {
    for base in ["/Bitcoin", "Bitcoin", "/Bitcoin/", "/a/b-c.d_e~f"] {
        let router = http::router(refreshed(FilterService::default()));
        let server = Server::serve(http::under(base, router).unwrap());
        let base = base.trim_matches('/');
        for id in [V1, V2, V3, "I2yN-iR_fkzT", "I2yN+iR%2FfkzT", "I2yN+iR/fkzT"] {
            let path = format!("/{base}/v1/filter/spent/{id}");
            assert_eq!(server.raw("GET", &path).status, 200, "{path}");
        }
        let get = |path: &str| server.get(&format!("/{base}/{path}"));
        assert_refused(&get("v1/filter/spent/x"), 400, 12_001);
        assert_eq!(get("v1/keysets").status, 200);
        assert_eq!(get("health").status, 200);
        assert_refused(&get("nothing"), 404, 0);
        assert_refused(&server.get(&format!("/v1/filter/spent/{V1}")), 404, 0);
    }
}

#[test]
fn empty_base_path_is_ignored_and_invalid_refused() {
    for base in ["", "/", "//"] {
        let router = http::router(refreshed(FilterService::default()));
        let server = Server::serve(http::under(base, router).unwrap());
        assert_eq!(server.filter(NoteKind::Spent, V1).status, 200, "{base}");
    }
    for base in [
        "/{id}", "/a//b", "/a b", "/*", "/a/../b", "/:x", "/%41", "/ä",
    ] {
        let error = http::under(base, Router::new()).unwrap_err();
        assert!(error.to_string().contains(base), "{error}");
    }
}

#[test]
fn filter_router_mounts_next_to_equal_routes() {
    use axum::routing::get;
    let mint = Router::new()
        .route("/health", get(|| async { "the mint's own" }))
        .route("/v1/keysets", get(|| async { "the mint's own" }));
    let server =
        Server::serve(mint.merge(http::filter_router(refreshed(FilterService::default()))));
    assert_eq!(server.get("/health").body, b"the mint's own");
    assert_eq!(
        server.get("/health").header("access-control-allow-origin"),
        None
    );
    assert_eq!(server.filter(NoteKind::Spent, V1).status, 200);
}

#[test]
fn requests_during_refreshes_get_complete_filters() {
    let database = MintDatabase::with_keyset(MintType::Cdk);
    let notes = items(1, 3_000, 33);
    let mut refresher = database.refreshed();
    let server = Server::start(refresher.service().clone());
    let done = AtomicBool::new(false);
    let bodies = thread::scope(|scope| {
        let client = scope.spawn(|| {
            let mut bodies: Vec<Vec<u8>> = vec![];
            while !done.load(Ordering::Relaxed) {
                let reply = server.filter(NoteKind::Spent, V1);
                assert_eq!(reply.status, 200);
                if bodies.last() != Some(&reply.body) {
                    bodies.push(reply.body);
                }
            }
            bodies
        });
        for chunk in notes.chunks(300) {
            database.add_spent(V1, chunk);
            refresher.refresh().unwrap();
            // Like a client that comes later, so that each version is seen at least once.
            server.filter(NoteKind::Spent, V1);
        }
        done.store(true, Ordering::Relaxed);
        client.join().unwrap()
    });
    assert!(bodies.len() > 1, "more than one version was seen");
    let mut last = 0;
    for body in &bodies {
        let n = serde_json::from_slice::<serde_json::Value>(body).unwrap()["n"]
            .as_u64()
            .unwrap();
        let n = usize::try_from(n).unwrap();
        assert!(n >= last && n.is_multiple_of(300));
        assert_filter_of(body, &notes[..n]);
        last = n;
    }
}
