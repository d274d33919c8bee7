//! Errors in the form of every Cashu mint.

use axum::http::header::{CACHE_CONTROL, CONNECTION, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use core::fmt;

use super::Json;

/// The protocol's code for an unknown keyset.
const KEYSET_UNKNOWN: u32 = 12_001;
/// The draft's code for a height, a segment or a manifest that does not exist.
const OBJECT_UNKNOWN: u32 = 40_001;
/// The draft's code for a kind of event that is not covered.
const KIND_UNKNOWN: u32 = 40_002;
/// The code of errors without a code in the protocol.
const NO_CODE: u32 = 0;

/// Seconds after which a client should retry before the first build has finished. The first build of a large mint
/// takes about this long; that of a small one is faster.
const RETRY_SECONDS: HeaderValue = HeaderValue::from_static("10");

/// Why a request gets no filter. No text repeats request data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CashuError {
    /// The keyset id is invalid. No mint can know it, so the code is that of an unknown keyset.
    InvalidKeysetId,
    /// The mint has no such keyset.
    UnknownKeyset,
    /// The sequence of state filters has no such block, segment or manifest.
    UnknownObject,
    /// This kind of event has no state filters here.
    UnknownKind,
    /// The filter has not been built yet.
    NotBuilt,
    /// The mint's own `/v1/info` has not been fetched yet.
    NoInfo,
    /// There is nothing at this path.
    NotFound,
    /// This path does not support the method.
    MethodNotAllowed,
    /// No available representation is acceptable to the client.
    NotAcceptable,
    /// The request has a body, which no endpoint accepts.
    BodyRefused,
    /// An HTTP/1.1 request without `Host`, or with several.
    InvalidHost,
    /// The path and query are longer than any valid ones.
    UriTooLong,
    /// The requested range starts beyond the end.
    RangeNotSatisfiable,
    /// The token is missing or wrong.
    Unauthorized,
    /// An internal error.
    Internal,
}

impl CashuError {
    /// The `code` in the response.
    #[must_use]
    pub const fn code(self) -> u32 {
        match self {
            CashuError::InvalidKeysetId | CashuError::UnknownKeyset => KEYSET_UNKNOWN,
            CashuError::UnknownObject => OBJECT_UNKNOWN,
            CashuError::UnknownKind => KIND_UNKNOWN,
            _ => NO_CODE,
        }
    }

    /// The status of the response.
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            CashuError::InvalidKeysetId
            | CashuError::UnknownKeyset
            | CashuError::UnknownObject
            | CashuError::UnknownKind
            | CashuError::InvalidHost => StatusCode::BAD_REQUEST,
            CashuError::NotBuilt | CashuError::NoInfo => StatusCode::SERVICE_UNAVAILABLE,
            CashuError::NotFound => StatusCode::NOT_FOUND,
            CashuError::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            CashuError::NotAcceptable => StatusCode::NOT_ACCEPTABLE,
            CashuError::BodyRefused => StatusCode::PAYLOAD_TOO_LARGE,
            CashuError::UriTooLong => StatusCode::URI_TOO_LONG,
            CashuError::RangeNotSatisfiable => StatusCode::RANGE_NOT_SATISFIABLE,
            CashuError::Unauthorized => StatusCode::UNAUTHORIZED,
            CashuError::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl fmt::Display for CashuError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CashuError::InvalidKeysetId => "invalid keyset id",
            CashuError::UnknownKeyset => "keyset is not known",
            CashuError::UnknownObject => "no such block, segment or manifest",
            CashuError::UnknownKind => "no state filters of this kind",
            CashuError::NotBuilt => "filter not built yet",
            CashuError::NoInfo => "mint info not available yet",
            CashuError::NotFound => "path not found",
            CashuError::MethodNotAllowed => "method not allowed",
            CashuError::NotAcceptable => "no acceptable representation",
            CashuError::BodyRefused => "request body not allowed",
            CashuError::InvalidHost => "exactly one Host header required",
            CashuError::UriTooLong => "path is too long",
            CashuError::RangeNotSatisfiable => "range not satisfiable",
            CashuError::Unauthorized => "missing or invalid token",
            CashuError::Internal => "internal error",
        })
    }
}

impl core::error::Error for CashuError {}

impl IntoResponse for CashuError {
    fn into_response(self) -> Response {
        let mut response = refusal(self.status(), &self.to_string(), self.code());
        let headers = response.headers_mut();
        match self {
            // The body is not read, so the following bytes on the connection cannot be parsed.
            CashuError::BodyRefused => {
                headers.insert(CONNECTION, HeaderValue::from_static("close"));
            }
            CashuError::Unauthorized => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            _ => {}
        }
        response
    }
}

/// An error response in the form of every Cashu mint. It must not be cached: without `no-store`, some caches keep a
/// 404 or a 414 for hours. A 503 tells the client when to retry.
pub(super) fn refusal(status: StatusCode, detail: &str, code: u32) -> Response {
    let body = serde_json::json!({ "detail": detail, "code": code });
    let mut response = (status, Json(body.to_string().into())).into_response();
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, super::NO_STORE);
    if status == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(RETRY_AFTER, RETRY_SECONDS);
    }
    response
}
