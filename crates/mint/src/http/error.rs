//! Errors in the form that wallets know from every Cashu mint.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use core::fmt;

use super::Json;

/// The protocol's code for a keyset that the mint does not know.
const KEYSET_UNKNOWN: u32 = 12_001;
/// The code of errors that the protocol has no code for.
const NO_CODE: u32 = 0;

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
}

impl CashuError {
    /// The number in the answer.
    #[must_use]
    pub const fn code(self) -> u32 {
        match self {
            CashuError::InvalidKeysetId | CashuError::UnknownKeyset => KEYSET_UNKNOWN,
            CashuError::NotBuilt => NO_CODE,
        }
    }

    /// The status of the answer.
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            CashuError::InvalidKeysetId | CashuError::UnknownKeyset => StatusCode::BAD_REQUEST,
            CashuError::NotBuilt => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl fmt::Display for CashuError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CashuError::InvalidKeysetId => "keyset id is not valid",
            CashuError::UnknownKeyset => "keyset is not known",
            CashuError::NotBuilt => "filter is not built yet",
        })
    }
}

impl core::error::Error for CashuError {}

impl IntoResponse for CashuError {
    fn into_response(self) -> Response {
        let body = serde_json::json!({ "detail": self.to_string(), "code": self.code() });
        (self.status(), Json(body.to_string().into())).into_response()
    }
}
