//! What stands before and behind every handler: requests that nothing here could answer are refused, and
//! every answer to wallets, errors included, may be read by a page from anywhere.

use axum::extract::Request;
use axum::http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body::Body as _;

use super::error::CashuError;

/// The longest path and query, in bytes: no id has 100, and nothing here has a query.
pub const MAX_URI: usize = 2 << 10;

/// What a page may see besides the body and the type: the list of the safe headers lacks the tag.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "ETag, Content-Length, Content-Range, Accept-Ranges, Retry-After, \
     Nutfilter-N, Nutfilter-P, Nutfilter-M, Nutfilter-Timestamp",
);

/// Which endpoint answered, for the metrics: one of a few words, whatever was asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route(pub(super) &'static str);

/// Refuses, lets in, counts, and adds what every answer has.
pub(super) async fn guard(request: Request, next: Next) -> Response {
    // Asked of the body and not of the headers: HTTP/2 needs none to send one.
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
    // What an operator measures is no business of a page in a browser.
    if route != "metrics" {
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    }
    count(route, response.status());
    response
}

/// Counts a request that is answered.
pub(super) fn count(route: &'static str, status: StatusCode) {
    metrics::counter!(
        "nutfilter_http_requests_total",
        "route" => route,
        "status" => status_label(status)
    )
    .increment(1);
}

/// A path of any length that could be a filter's is left to the handler, which says that the id is none.
fn is_too_long(request: &Request) -> bool {
    let uri = request.uri();
    let query = uri.query().map_or(0, str::len);
    query > MAX_URI || (uri.path().len() > MAX_URI && !uri.path().starts_with("/v1/filter/"))
}

/// The statuses that are sent here, by name; anything else as one of the rest.
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
