//! `nutfilter serve` and `nutfilter publish`: configuration, start and stop, from an operator's view.

mod configuration;
#[path = "../../../publish/tests/publishing/file_server.rs"]
mod file_server;
mod network;
mod operating;
#[cfg(unix)]
mod permissions;
mod publishing;
mod running;
mod support;
