//! `nutfilter serve`: configuration, start and stop, from an operator's view.

mod configuration;
mod network;
mod operating;
#[cfg(unix)]
mod permissions;
mod running;
mod support;
