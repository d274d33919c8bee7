//! The router and its server on real sockets.

#![forbid(unsafe_code)]

mod forms;
mod http_metrics;
mod refused;
mod server;
mod transport;
#[cfg(unix)]
mod unix;

#[path = "../../../mint/tests/mint/support/items.rs"]
mod items;

pub(crate) use self::items::{V1, items, keyset};
