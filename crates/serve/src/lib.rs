//! Serves the objects of a [`FilterService`]: over HTTP, with an axum router and a server for it, and as files of a
//! [`Directory`].
//!
//! | path | answer |
//! |---|---|
//! | `/v1/filter/spent/{keyset_id}` | the filter of all spent notes, by `Y` |
//! | `/v1/filter/issued/{keyset_id}` | the filter of all signed notes, by `B_` |
//! | `/v1/keysets` | the keysets (NUT-02), unless the mint itself answers this path |
//! | `/v1/info` | the mint's own info (NUT-06) with the filters announced, if enabled |
//! | `/health` | the status of the service |
//! | `/ready` | 200 if requests should be sent here, otherwise 503 with the reason |
//! | `/metrics` | metrics, if enabled |
//!
//! A request is one look-up of finished bytes, by [`FilterService::object`]. Errors have the form of every Cashu mint:
//! a status and `{"detail": text, "code": number}`.
//!
//! ```no_run
//! use nutfilter_mint::FilterService;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let service = FilterService::default();
//! let listener = nutfilter_serve::Listener::tcp("127.0.0.1:3339").await?;
//! let stop = core::future::pending();
//! nutfilter_serve::serve(vec![listener], nutfilter_serve::router(service), Limits::default(), stop).await;
//! # Ok(())
//! # }
//! # use nutfilter_serve::Limits;
//! ```

#![forbid(unsafe_code)]

mod answer;
mod files;
mod metrics;
mod router;
mod server;

pub use files::{Directory, PublishError, Report};
pub use router::{BasePathError, RouterOptions, filter_router, router, router_with, under};
pub use server::{Limits, Listener, serve};

#[cfg(doc)]
use nutfilter_mint::FilterService;
