//! Middleware around every handler. It refuses requests that no handler could answer, and adds CORS headers to all
//! answers for wallets, including errors.

use axum::extract::Request;
use axum::http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body::Body as _;

use super::error::CashuError;

/// Maximum length of path and query, in bytes. No id has 100 bytes, and no endpoint has a query.
pub const MAX_URI: usize = 2 << 10;

/// Response headers that a page may read. The list of safelisted headers lacks the tag.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "ETag, Content-Length, Content-Range, Accept-Ranges, Retry-After, \
     Nutfilter-N, Nutfilter-P, Nutfilter-M, Nutfilter-Timestamp",
);

/// The endpoint that answered, for the metrics. It is one of a few fixed names, whatever the path was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route(pub(super) &'static str);

/// Refuses or passes a request, counts it, and adds the common response headers.
pub(super) async fn guard(request: Request, next: Next) -> Response {
    // Checks the body and not the headers, because HTTP/2 can send a body without any header.
    let mut response = if !request.body().is_end_stream() {
        CashuError::BodyRefused.into_response()
    } else if is_too_long(&request) {
        CashuError::UriTooLong.into_response()
    } else {
        next.run(request).await
    };
    let route = response
        .extensions()
        .get()
        .map_or("other", |Route(name)| name);
    // The operator's metrics must not be readable by pages in a browser.
    if route != "metrics" {
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    }
    count(route, response.status());
    response
}

/// Counts an answered request.
pub(super) fn count(route: &'static str, status: StatusCode) {
    metrics::counter!(
        "nutfilter_http_requests_total",
        "route" => route,
        "status" => status_label(status)
    )
    .increment(1);
}

/// Filter paths of any length are passed to the handler, which answers that the id is invalid.
fn is_too_long(request: &Request) -> bool {
    let uri = request.uri();
    let query = uri.query().map_or(0, str::len);
    query > MAX_URI || (uri.path().len() > MAX_URI && !uri.path().starts_with("/v1/filter/"))
}

/// The statuses that are sent here, by name; any other as a common label.
fn status_label(status: StatusCode) -> &'static str {
    match status.as_u16() {
        200 => "200",
        202 => "202",
        204 => "204",
        206 => "206",
        304 => "304",
        400 => "400",
        401 => "401",
        404 => "404",
        405 => "405",
        406 => "406",
        413 => "413",
        414 => "414",
        416 => "416",
        500 => "500",
        503 => "503",
        _ => "other",
    }
}
