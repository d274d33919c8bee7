//! Errors in the form of every Cashu mint.

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use nutfilter_mint::Missing;

/// Seconds after which a client should retry before the first build has finished. The first build of a large mint
/// takes about this long; that of a small one is faster.
const RETRY_SECONDS: HeaderValue = HeaderValue::from_static("10");

/// An error response. It must not be cached: without `no-store`, some caches keep a 404 for hours. A 503 tells the
/// client when to retry.
pub(crate) fn refusal(status: StatusCode, detail: &str, code: u32) -> Response {
    let body = serde_json::json!({ "detail": detail, "code": code });
    let headers = [
        (CONTENT_TYPE, "application/json"),
        (CACHE_CONTROL, "no-store"),
    ];
    let mut response = (status, headers, body.to_string()).into_response();
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(RETRY_AFTER, RETRY_SECONDS);
    }
    response
}

pub(crate) fn missing(error: Missing) -> Response {
    let status = match error {
        Missing::NotBuilt => StatusCode::SERVICE_UNAVAILABLE,
        Missing::UnknownPath => StatusCode::NOT_FOUND,
        _ => StatusCode::BAD_REQUEST,
    };
    refusal(status, &error.to_string(), error.code())
}
