//! The endpoints as an axum router.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::HttpBody as _;
use axum::extract::{Request, State};
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, CACHE_CONTROL, CONTENT_TYPE, HOST,
};
use axum::http::{HeaderMap, Method, StatusCode, Uri, Version};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::FutureExt as _;
use nutfilter_mint::{FilterService, NoteKind};

use crate::answer::{answer, missing, refusal};
use crate::metrics::METRICS;

/// Default time for which a cache may reuse a filter: the default interval between two refreshes.
const DEFAULT_MAX_AGE: Duration = Duration::from_secs(60);

/// Default maximum age of the last good refresh for `/ready`. It is five default intervals, so that one failed
/// refresh and a slow one do not take a service out of rotation.
const DEFAULT_READY_WITHIN: Duration = Duration::from_secs(300);

/// What [`router_with`] adds to the filters. The defaults are those of [`router`].
#[derive(Clone)]
#[non_exhaustive]
pub struct RouterOptions {
    /// The `max-age` of filters and keysets, in whole seconds.
    pub max_age: Duration,
    /// Maximum age of the last good refresh for `/ready`.
    pub ready_within: Duration,
    /// Renders the text of `/metrics`; without it, the path does not exist.
    pub metrics: Option<Arc<dyn Fn() -> String + Send + Sync>>,
}

impl Default for RouterOptions {
    fn default() -> Self {
        Self {
            max_age: DEFAULT_MAX_AGE,
            ready_within: DEFAULT_READY_WITHIN,
            metrics: None,
        }
    }
}

/// The state of the handlers.
#[derive(Clone)]
struct Site {
    service: FilterService,
    options: Arc<RouterOptions>,
}

/// Routes for the filters, `/health`, `/ready`, and the `/v1/keysets` and `/v1/info` that the service has. Serve the router with
/// [`serve`](crate::serve), or mount it in a larger application with `nest`.
pub fn router(service: FilterService) -> Router {
    router_with(service, RouterOptions::default())
}

/// Like [`router`], with the endpoints of `options`. Any other path is an error in the Cashu form.
pub fn router_with(service: FilterService, options: RouterOptions) -> Router {
    let router = filters()
        .route("/health", get(health))
        .route("/ready", get(ready))
        .route("/v1/keysets", get(object))
        .route("/v1/info", get(object));
    let mut router = readable(router.fallback(not_found));
    // Pages in a browser must not read the operator's metrics.
    if options.metrics.is_some() {
        router = router.route("/metrics", get(self::metrics).fallback(method_not_allowed));
    }
    finish(router, service, options)
}

/// Routes for the filters only, for an application that has the other paths. Mount it with `merge` or `nest`. The
/// CORS headers apply to these routes only.
pub fn filter_router(service: FilterService) -> Router {
    finish(readable(filters()), service, RouterOptions::default())
}

fn filters() -> Router<Site> {
    // A legacy id may contain a `/`, and proxies decode the `%2F` that a wallet sends.
    Router::new()
        .route("/v1/filter/spent/{*id}", get(object))
        .route("/v1/filter/issued/{*id}", get(object))
}

fn finish(router: Router<Site>, service: FilterService, options: RouterOptions) -> Router {
    let options = Arc::new(options);
    router
        .layer(from_fn(catch_panic))
        .layer(from_fn(count))
        .with_state(Site { service, options })
}

/// Lets every page read the answers: they are the same for all.
fn readable<S: Clone + Send + Sync + 'static>(router: Router<S>) -> Router<S> {
    router
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn(cors))
}

async fn cors(request: Request, next: Next) -> Response {
    let anyone = (ACCESS_CONTROL_ALLOW_ORIGIN, "*");
    if request.method() == Method::OPTIONS {
        let allowed = "accept,accept-encoding,cache-control,content-type,if-none-match";
        let headers = [
            anyone,
            (ACCESS_CONTROL_ALLOW_METHODS, "GET,HEAD,OPTIONS"),
            (ACCESS_CONTROL_ALLOW_HEADERS, allowed),
            // One day, the maximum of all browsers.
            (ACCESS_CONTROL_MAX_AGE, "86400"),
        ];
        return headers.into_response();
    }
    let exposed = "etag,content-length,retry-after";
    let headers = [anyone, (ACCESS_CONTROL_EXPOSE_HEADERS, exposed)];
    (headers, next.run(request).await).into_response()
}

/// A panic is a fault of this program, and ends neither the connection nor the service.
async fn catch_panic(request: Request, next: Next) -> Response {
    let response = AssertUnwindSafe(next.run(request)).catch_unwind().await;
    response.unwrap_or_else(|_| refusal(StatusCode::INTERNAL_SERVER_ERROR, "internal error", 0))
}

/// Mounts a router under a base path, such as the mint's own. With `/cashu`, the filters are at
/// `/cashu/v1/filter/..`. An empty path or `/` leaves the router unchanged.
///
/// # Errors
///
/// If the path contains anything but letters, digits and `/-._~`, or an empty segment.
pub fn under(base_path: &str, router: Router) -> Result<Router, BasePathError> {
    let path = base_path.trim_matches('/');
    if path.is_empty() {
        return Ok(router);
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    let is_dots = |segment| matches!(segment, "" | "." | "..");
    if !path.bytes().all(plain) || path.split('/').any(is_dots) {
        return Err(BasePathError {
            path: base_path.to_owned(),
        });
    }
    let outside = readable(Router::new().fallback(not_found)).layer(from_fn(count));
    Ok(outside.nest(&format!("/{path}"), router))
}

/// An invalid base path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid base path `{path}`: must be segments of letters, digits and -._~, separated by /")]
pub struct BasePathError {
    path: String,
}

async fn object(State(site): State<Site>, uri: Uri, headers: HeaderMap) -> Response {
    let max_age = site.options.max_age.as_secs();
    match site.service.object(uri.path().trim_start_matches('/')) {
        Ok(object) => answer(&headers, &object, max_age),
        Err(error) => missing(error),
    }
}

/// Answers with the service's status. The HTTP status is always 200, because a process that answers is alive.
async fn health(State(site): State<Site>) -> Response {
    let Site { service, options } = site;
    let snapshot = service.snapshot();
    let items = |kind| snapshot.as_ref().map_or(0, |snapshot| snapshot.items(kind));
    let health = serde_json::json!({
        "status": service.status().as_str(),
        "ready": service.ready(options.ready_within).is_ok(),
        "version": env!("CARGO_PKG_VERSION"),
        "keysets": snapshot.as_ref().map_or(0, |snapshot| snapshot.keysets().len()),
        "last_refresh": snapshot.as_ref().map(|snapshot| snapshot.refreshed_at()),
        "seconds_since_good": service.since_good().map(|age| age.as_secs()),
        "spent": items(NoteKind::Spent),
        "issued": items(NoteKind::Issued),
    });
    uncached("application/json", health.to_string())
}

/// Tells whether requests should be sent here.
async fn ready(State(site): State<Site>) -> Response {
    match site.service.ready(site.options.ready_within) {
        Ok(()) => uncached("application/json", r#"{"ready":true}"#.to_owned()),
        Err(reason) => refusal(StatusCode::SERVICE_UNAVAILABLE, &reason.to_string(), 0),
    }
}

/// The metrics as Prometheus text.
async fn metrics(State(site): State<Site>) -> Response {
    let text = site.options.metrics.as_ref().map(|render| render());
    let media_type = "text/plain; version=0.0.4; charset=utf-8";
    uncached(media_type, text.unwrap_or_default())
}

fn uncached(media_type: &'static str, text: String) -> Response {
    let headers = [(CONTENT_TYPE, media_type), (CACHE_CONTROL, "no-store")];
    (headers, text).into_response()
}

async fn not_found() -> Response {
    refusal(StatusCode::NOT_FOUND, "path not found", 0)
}

async fn method_not_allowed() -> Response {
    refusal(StatusCode::METHOD_NOT_ALLOWED, "method not allowed", 0)
}

/// Counts requests by endpoint and status. No label comes from a request.
async fn count(request: Request, next: Next) -> Response {
    let (route, is_head) = (
        route(request.uri().path()),
        request.method() == Method::HEAD,
    );
    // HTTP/1.1 requires exactly one `Host`, so that proxies and servers agree on the target of a request.
    let hosts = request.headers().get_all(HOST).iter().count();
    let response = match request.version() == Version::HTTP_11 && hosts != 1 {
        true => refusal(
            StatusCode::BAD_REQUEST,
            "exactly one Host header required",
            0,
        ),
        false => next.run(request).await,
    };
    let status = response.status();
    let labels = [route, status.as_str()];
    METRICS.requests.with_label_values(&labels).inc();
    if let (false, Some(bytes)) = (is_head, response.body().size_hint().exact()) {
        METRICS.response_bytes.inc_by(bytes);
    }
    response
}

/// The endpoint of a path, for the metrics.
fn route(path: &str) -> &'static str {
    let parts: Vec<&str> = path.trim_start_matches('/').splitn(4, '/').collect();
    match parts[..] {
        ["health"] => "health",
        ["ready"] => "ready",
        ["metrics"] => "metrics",
        ["v1", "keysets"] => "keysets",
        ["v1", "info"] => "info",
        ["v1", "filter", "spent", _] => "filter_spent",
        ["v1", "filter", "issued", _] => "filter_issued",
        _ => "other",
    }
}
