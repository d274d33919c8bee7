//! The endpoints, as an axum router.
//!
//! | path | answer |
//! |---|---|
//! | `/v1/filter/spent/{keyset_id}` | the filter of all spent notes, by `Y` |
//! | `/v1/filter/issued/{keyset_id}` | the filter of all signed notes, by `B_` |
//! | `/v1/keysets` | the keysets (NUT-02), unless the mint itself answers this |
//! | `/health` | how the service is |
//!
//! Handlers look up a finished body and send it. Errors have the form of every Cashu mint: status 400
//! (503 before the first build) and `{"detail": text, "code": number}`.

mod error;
mod serve;

use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    CONTENT_TYPE,
};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::map_response;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use bytes::Bytes;

pub use self::error::CashuError;
pub use self::serve::{BasePathError, serve, under};
use crate::service::FilterService;
use crate::{KeysetId, Kind};

/// Everything: the filters, `/health`, and `/v1/keysets` if the service is to answer it. To be served
/// by [`serve`], or mounted in a larger application with `nest` or `merge`.
pub fn router(service: FilterService) -> Router {
    let mut router = Router::new().route("/health", readable(get(health)));
    if service.options().serve_keysets {
        router = router.route("/v1/keysets", readable(get(keysets)));
    }
    finish(router, service.clone()).merge(filter_router(service))
}

/// The filters alone, for an application that has a `/health` and a `/v1/keysets` of its own.
pub fn filter_router(service: FilterService) -> Router {
    // The rest of the path is the id, and not one segment of it: a legacy id may hold a `/`, and
    // proxies decode the `%2F` that a wallet sends.
    let router = Router::new()
        .route("/v1/filter/spent/{*keyset_id}", readable(get(spent)))
        .route("/v1/filter/issued/{*keyset_id}", readable(get(issued)));
    finish(router, service)
}

fn finish(router: Router<FilterService>, service: FilterService) -> Router {
    router
        .layer(map_response(allow_any_origin))
        .with_state(service)
}

async fn spent(
    State(service): State<FilterService>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json, CashuError> {
    filter(&service, Kind::Spent, id)
}

async fn issued(
    State(service): State<FilterService>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json, CashuError> {
    filter(&service, Kind::Issued, id)
}

fn filter(
    service: &FilterService,
    kind: Kind,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json, CashuError> {
    // Rejected are bytes that are not UTF-8 once they are decoded.
    let Path(id) = id.map_err(|_| CashuError::InvalidKeysetId)?;
    let id = KeysetId::parse(&id).map_err(|_| CashuError::InvalidKeysetId)?;
    let snapshot = service.snapshot().ok_or(CashuError::NotBuilt)?;
    let keyset = snapshot.keyset(&id).ok_or(CashuError::UnknownKeyset)?;
    let filter = keyset.filter(kind).ok_or(CashuError::NotBuilt)?;
    Ok(Json(filter.json().bytes().clone()))
}

async fn keysets(State(service): State<FilterService>) -> Result<Json, CashuError> {
    let snapshot = service.snapshot().ok_or(CashuError::NotBuilt)?;
    Ok(Json(snapshot.keysets_body().bytes().clone()))
}

/// Says how the service is, with status 200 in any case: the one who answers is alive.
async fn health(State(service): State<FilterService>) -> Json {
    let snapshot = service.snapshot();
    let items = |kind| snapshot.as_ref().map_or(0, |snapshot| snapshot.items(kind));
    let health = serde_json::json!({
        "status": service.status().as_str(),
        "keysets": snapshot.as_ref().map_or(0, |snapshot| snapshot.keysets().len()),
        "last_refresh": snapshot.as_ref().map(|snapshot| snapshot.refreshed_at()),
        "spent": items(Kind::Spent),
        "issued": items(Kind::Issued),
    });
    Json(health.to_string().into())
}

/// JSON that is written already.
struct Json(Bytes);

impl IntoResponse for Json {
    fn into_response(self) -> Response {
        (
            [(CONTENT_TYPE, HeaderValue::from_static("application/json"))],
            self.0,
        )
            .into_response()
    }
}

/// Lets a browser ask first, as it does when a wallet sends headers of its own.
fn readable(route: MethodRouter<FilterService>) -> MethodRouter<FilterService> {
    route.options(async || {
        let allowed = [
            (
                ACCESS_CONTROL_ALLOW_METHODS,
                HeaderValue::from_static("GET, HEAD, OPTIONS"),
            ),
            (ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("*")),
        ];
        (StatusCode::NO_CONTENT, allowed)
    })
}

/// Wallets run in browsers, on pages from anywhere, and a filter is public.
async fn allow_any_origin(mut response: Response) -> Response {
    response
        .headers_mut()
        .insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    response
}
