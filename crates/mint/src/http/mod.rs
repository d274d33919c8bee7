//! The endpoints as an axum router, and a server for it.
//!
//! | path | answer |
//! |---|---|
//! | `/v1/filter/spent/{keyset_id}` | the filter of all spent notes, by `Y` |
//! | `/v1/filter/issued/{keyset_id}` | the filter of all signed notes, by `B_` |
//! | the same with `.raw` appended | the raw filter, whatever `Accept` contains |
//! | `/v1/filters/manifest/{kind}` | the current manifest of a sequence of state filters |
//! | `/v1/filters/manifests/{kind}/{number}` | an older manifest |
//! | `/v1/filters/segments/{kind}/{start}-{end}` | a segment |
//! | `/v1/filters/info/{kind}` | the draft's list of blocks |
//! | `/v1/filters/blocks/{kind}/{height}` | a block of the draft |
//! | `/v1/keysets` | the keysets (NUT-02), unless the mint itself answers this path |
//! | `/v1/info` | the mint's own info (NUT-06) with the filters announced, if enabled |
//! | `/health` | the status of the service |
//! | `/ready` | 200 if requests should be sent here, otherwise 503 with the reason |
//! | `/metrics` | metrics, if enabled |
//! | `POST /admin/refresh` | 202 for requests with the token, if one is configured |
//!
//! A filter is sent as JSON or raw (`.raw`, or `Accept: application/octet-stream`). With a raw filter, the
//! parameters are in the headers `Nutfilter-N`, `-P`, `-M` and `-Timestamp`. JSON is also available in gzip.
//! Handlers look up a finished body and send it, a part of it, or a 304. Errors have the form of every Cashu
//! mint: a status and `{"detail": text, "code": number}`. The status is 400 for an unknown keyset, and 503 before
//! the first build.

mod activity;
mod answer;
mod base_path;
mod conditional;
mod connection;
mod endpoints;
mod error;
mod guard;
pub mod limits;
mod listener;
mod negotiate;
mod options;
mod representation;
mod serve;
mod socket;
mod state_filters;
mod tls;

use axum::Router;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::from_fn;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use bytes::Bytes;

pub use self::base_path::{BasePathError, under};
use self::endpoints::Endpoints;
pub use self::error::CashuError;
pub use self::guard::MAX_URI;
pub use self::limits::ServerOptions;
pub use self::listener::Listener;
pub use self::options::{AdminOptions, DEFAULT_MAX_AGE, DEFAULT_READY_WITHIN, RouterOptions};
pub use self::serve::{Served, serve, serve_with};
pub use self::tls::{Tls, TlsError};
use crate::service::FilterService;

/// For answers that are only valid now.
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// Routes for the filters, `/health`, `/ready`, and `/v1/keysets` if the service answers it. Serve the router with
/// [`serve`](fn@serve), or mount it in a larger application with `nest`.
pub fn router(service: FilterService) -> Router {
    router_with(service, RouterOptions::default())
}

/// Like [`router`], with the endpoints of `options`. Any other path is an error in the Cashu form.
pub fn router_with(service: FilterService, options: RouterOptions) -> Router {
    let mut router = filters()
        .route("/health", readable(get(endpoints::health)))
        .route("/ready", readable(get(endpoints::ready)));
    if service.options().serve_keysets {
        router = router.route("/v1/keysets", readable(get(endpoints::keysets)));
    }
    if options.info.is_some() {
        router = router.route("/v1/info", readable(get(endpoints::info)));
    }
    if options.metrics.is_some() {
        router = router.route("/metrics", get(endpoints::metrics));
    }
    if options.admin.is_some() {
        router = router.route("/admin/refresh", post(endpoints::refresh));
    }
    finish(
        router.fallback(endpoints::not_found),
        Endpoints::new(service, options),
    )
}

/// Routes for the filters only, for an application that has the other paths. Mount it with `merge` or `nest`. The
/// CORS headers and the refusal of request bodies apply to these routes only.
pub fn filter_router(service: FilterService) -> Router {
    filter_router_with(service, RouterOptions::default())
}

/// Like [`filter_router`], with another `max_age`. The other options only apply to [`router_with`].
pub fn filter_router_with(service: FilterService, options: RouterOptions) -> Router {
    finish(filters(), Endpoints::new(service, options))
}

fn filters() -> Router<Endpoints> {
    // The id is the rest of the path rather than one segment. A legacy id may contain a `/`, and proxies decode the
    // `%2F` that a wallet sends.
    Router::new()
        .route(
            "/v1/filter/spent/{*keyset_id}",
            readable(get(endpoints::spent)),
        )
        .route(
            "/v1/filter/issued/{*keyset_id}",
            readable(get(endpoints::issued)),
        )
        .route(
            "/v1/filters/manifest/{kind}",
            readable(get(state_filters::manifest)),
        )
        .route(
            "/v1/filters/manifests/{kind}/{number}",
            readable(get(state_filters::old_manifest)),
        )
        .route(
            "/v1/filters/segments/{kind}/{interval}",
            readable(get(state_filters::segment)),
        )
        .route(
            "/v1/filters/info/{kind}",
            readable(get(state_filters::block_info)),
        )
        .route(
            "/v1/filters/blocks/{kind}/{height}",
            readable(get(state_filters::block)),
        )
}

fn finish(router: Router<Endpoints>, endpoints: Endpoints) -> Router {
    router
        .method_not_allowed_fallback(endpoints::method_not_allowed)
        .layer(from_fn(guard::guard))
        .with_state(endpoints)
}

fn readable(route: MethodRouter<Endpoints>) -> MethodRouter<Endpoints> {
    route.options(endpoints::preflight)
}

/// JSON that is already serialized.
struct Json(Bytes);

impl IntoResponse for Json {
    fn into_response(self) -> Response {
        ([(CONTENT_TYPE, negotiate::JSON)], self.0).into_response()
    }
}
