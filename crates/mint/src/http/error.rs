//! Errors in the form that wallets know from every Cashu mint.

use axum::http::header::{CACHE_CONTROL, CONNECTION, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use core::fmt;

use super::Json;

/// The protocol's code for a keyset that the mint does not know.
const KEYSET_UNKNOWN: u32 = 12_001;
/// The code of errors that the protocol has no code for.
const NO_CODE: u32 = 0;

/// After how many seconds it is worth asking again for what is not built yet: a large mint's first build
/// takes about that long, a small one's is over before.
const RETRY_SECONDS: HeaderValue = HeaderValue::from_static("10");

/// Why a request gets no filter. None of the texts repeats what was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CashuError {
    /// What stands in the place of a keyset id is none. No mint can know it, hence the same code.
    InvalidKeysetId,
    /// The mint has no such keyset.
    UnknownKeyset,
    /// The filter has not been built yet.
    NotBuilt,
    /// The mint's own `/v1/info` has not been had yet.
    NoInfo,
    /// There is nothing at this path.
    NotFound,
    /// There is something at this path, for another method.
    MethodNotAllowed,
    /// None of the forms that there are is acceptable to the client.
    NotAcceptable,
    /// The request has a body, which nothing here takes.
    BodyRefused,
    /// An HTTP/1.1 request without `Host`, or with several.
    InvalidHost,
    /// The path and query are longer than any that means something.
    UriTooLong,
    /// The part that is asked for lies beyond the end.
    RangeNotSatisfiable,
    /// The token is missing or another.
    Unauthorized,
    /// An error of ours.
    Internal,
}

impl CashuError {
    /// The number in the answer.
    #[must_use]
    pub const fn code(self) -> u32 {
        match self {
            CashuError::InvalidKeysetId | CashuError::UnknownKeyset => KEYSET_UNKNOWN,
            _ => NO_CODE,
        }
    }

    /// The status of the answer.
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            CashuError::InvalidKeysetId | CashuError::UnknownKeyset | CashuError::InvalidHost => {
                StatusCode::BAD_REQUEST
            }
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
            CashuError::InvalidKeysetId => "keyset id is not valid",
            CashuError::UnknownKeyset => "keyset is not known",
            CashuError::NotBuilt => "filter is not built yet",
            CashuError::NoInfo => "the mint's info is not known yet",
            CashuError::NotFound => "there is nothing at this path",
            CashuError::MethodNotAllowed => "method is not allowed at this path",
            CashuError::NotAcceptable => "none of the forms there are is acceptable",
            CashuError::BodyRefused => "requests have no body here",
            CashuError::InvalidHost => "request needs one Host header",
            CashuError::UriTooLong => "path is too long",
            CashuError::RangeNotSatisfiable => "range is beyond the end",
            CashuError::Unauthorized => "token is missing or wrong",
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
            // The body is not read, so what follows on the connection cannot be understood.
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

/// An answer in the form of every Cashu mint. It is not to be kept by caches, some of which keep a 404 or
/// a 414 for hours if nothing is said; and who gets a 503 is told when to come again.
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
