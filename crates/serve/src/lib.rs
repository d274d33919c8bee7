//! Serves objects over HTTP: an axum router, and a server for it. It knows paths and bytes; what they mean is known to the
//! [`Site`].
//!
//! | path | answer |
//! |---|---|
//! | the path of an object | the object: plain or in gzip, or 304 |
//! | `/health` | the status; always 200 |
//! | `/ready` | 200 if requests should be sent here, otherwise 503 with the reason |
//! | `/metrics` | metrics, if the site has them |
//!
//! Errors have the form of every Cashu mint: a status and `{"detail": text, "code": number}`.
//!
//! The README has an example.

#![forbid(unsafe_code)]

mod answer;
#[cfg(feature = "server")]
mod metrics;
mod router;
#[cfg(feature = "server")]
mod server;
mod site;
#[cfg(all(target_os = "linux", feature = "server"))]
mod socket;

pub use router::{object_router, router};
#[cfg(feature = "server")]
pub use server::{Limits, listen, serve};
pub use site::{Refusal, Site};

/// Compiles the README's example as a test.
#[cfg(all(doctest, feature = "server"))]
#[doc = include_str!("../README.md")]
struct Readme;
