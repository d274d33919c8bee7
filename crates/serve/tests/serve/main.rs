//! The router and its server on real sockets.

#![forbid(unsafe_code)]

mod files;
mod forms;
mod http_metrics;
mod refused;
mod server;
mod site;
mod transport;
