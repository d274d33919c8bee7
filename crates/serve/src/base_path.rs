//! Mounts a router under a base path.

use axum::Router;
use axum::middleware::from_fn;

use crate::router::{count, not_found, readable};

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
    if !path.bytes().all(plain)
        || path
            .split('/')
            .any(|segment| matches!(segment, "" | "." | ".."))
    {
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
