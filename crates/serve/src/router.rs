//! The endpoints as an axum router.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    CACHE_CONTROL, CONTENT_TYPE,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::FutureExt as _;
use percent_encoding::percent_decode_str;

use crate::answer::{accepts_gzip, answer, known_tag, refused, relative};
use crate::site::{Refusal, Site};

type SharedSite = Arc<dyn Site>;

/// Routes for the objects of a site, `/health`, `/ready`, and perhaps `/metrics`. Serve the router with
/// [`serve`](crate::serve). Any other path is an error in the Cashu form.
pub fn router(site: impl Site) -> Router {
    let site: SharedSite = Arc::new(site);
    let router = Router::new()
        .route("/health", get(health))
        .route("/ready", get(ready))
        .route("/{*path}", get(object));
    let mut router = readable(router.fallback(not_found));
    // Pages in a browser must not read the operator's metrics.
    if site.metrics().is_some() {
        router = router.route("/metrics", get(self::metrics).fallback(method_not_allowed));
    }
    let router = router.layer(from_fn(catch_panic));
    #[cfg(feature = "server")]
    let router = {
        let count = axum::middleware::from_fn_with_state(Arc::clone(&site), crate::metrics::count);
        router.layer(count)
    };
    router.with_state(site)
}

/// Routes for the objects below a path only, such as `/v1/filter`, for an application that has the other paths. Mount it
/// with `merge`. The CORS headers apply to these routes only.
pub fn object_router(site: impl Site, below: &str) -> Router {
    let router = Router::new().route(&format!("{below}/{{*rest}}"), get(object));
    let site: SharedSite = Arc::new(site);
    readable(router).layer(from_fn(catch_panic)).with_state(site)
}

/// Lets every page read the answers: they are the same for all.
fn readable(router: Router<SharedSite>) -> Router<SharedSite> {
    router.method_not_allowed_fallback(method_not_allowed).layer(from_fn(cors))
}

async fn cors(request: Request, next: Next) -> Response {
    let anyone = (ACCESS_CONTROL_ALLOW_ORIGIN, "*");
    if request.method() == Method::OPTIONS {
        let asked = request.headers().get(ACCESS_CONTROL_REQUEST_HEADERS);
        // `*` does not stand for `Authorization`. Not every browser knows it, so what is asked for comes first.
        let allowed = asked.map_or(Ok("*, Authorization"), HeaderValue::to_str);
        let headers = [
            anyone,
            (ACCESS_CONTROL_ALLOW_METHODS, "GET,HEAD,OPTIONS"),
            (ACCESS_CONTROL_ALLOW_HEADERS, allowed.unwrap_or_default()),
            // One day, the maximum of all browsers.
            (ACCESS_CONTROL_MAX_AGE, "86400"),
        ];
        return (StatusCode::NO_CONTENT, headers).into_response();
    }
    let exposed = "etag,content-length,retry-after";
    let headers = [anyone, (ACCESS_CONTROL_EXPOSE_HEADERS, exposed)];
    (headers, next.run(request).await).into_response()
}

/// A panic is a fault of this program, and ends neither the connection nor the service.
async fn catch_panic(request: Request, next: Next) -> Response {
    let response = AssertUnwindSafe(next.run(request)).catch_unwind().await;
    response.unwrap_or_else(|_| refused(&Refusal::new(500, "internal error")))
}

async fn object(State(site): State<SharedSite>, uri: Uri, headers: HeaderMap) -> Response {
    let Ok(path) = percent_decode_str(relative(&uri)).decode_utf8() else {
        return refused(&site.missing(""));
    };
    if let Some(refusal) = site.refusal(&path, &headers) {
        return refused(&refusal);
    }
    let is_gzip = accepts_gzip(&headers);
    let find = |path: &str| site.table(path).get(path);
    let found = find(&path).or_else(|| find(&site.canonical(&path)?));
    let Some(object) = found else {
        return refused(&site.missing(&path));
    };
    let known = known_tag(&headers, &object, is_gzip);
    // No file is opened for a client that has its bytes.
    let opened = match known {
        Some(_) => Ok(Some((object, None))),
        None => {
            let opened = site.table(object.path()).open(object.path(), is_gzip);
            opened.map(|opened| opened.map(|(object, opened)| (object, Some(opened))))
        }
    };
    let answered = match opened {
        Ok(Some((object, _))) if !site.may_send(&object) => {
            return refused(&Refusal::new(503, "not built yet"));
        }
        Ok(Some((object, opened))) => {
            let max_age = site.max_age(object.path());
            answer(&object, opened, known, is_gzip, max_age).await
        }
        Ok(None) => return refused(&site.missing(&path)),
        Err(error) => Err(error),
    };
    answered.unwrap_or_else(|error| {
        if !was_told_lately() {
            tracing::error!(%error, "could not open an object");
        }
        refused(&Refusal::new(503, "not available"))
    })
}

/// Whether a line was logged within a minute. One for each request would say no more.
fn was_told_lately() -> bool {
    static TOLD: Mutex<Option<Instant>> = Mutex::new(None);
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    let is_lately = told.is_some_and(|told| told.elapsed() < Duration::from_secs(60));
    if !is_lately {
        *told = Some(Instant::now());
    }
    is_lately
}

/// Answers with the site's status. The HTTP status is always 200, because a process that answers is alive.
async fn health(State(site): State<SharedSite>) -> Response {
    uncached("application/json", site.health().into_bytes())
}

/// Tells whether requests should be sent here.
async fn ready(State(site): State<SharedSite>) -> Response {
    match site.ready() {
        Ok(()) => uncached("application/json", br#"{"ready":true}"#.to_vec()),
        Err(reason) => refused(&Refusal::new(503, reason)),
    }
}

/// The metrics as Prometheus text.
async fn metrics(State(site): State<SharedSite>) -> Response {
    let media_type = "text/plain; version=0.0.4; charset=utf-8";
    uncached(media_type, site.metrics().unwrap_or_default().into_bytes())
}

fn uncached(media_type: &'static str, body: Vec<u8>) -> Response {
    let headers = [(CONTENT_TYPE, media_type), (CACHE_CONTROL, "no-store")];
    (headers, body).into_response()
}

async fn not_found() -> Response {
    refused(&Refusal::not_found())
}

async fn method_not_allowed() -> Response {
    refused(&Refusal::new(405, "method not allowed"))
}
