//! `nutfilter serve` and `nutfilter publish`: configuration, start and stop, from an operator's view.

mod configuration;
mod network;
mod operating;
#[cfg(unix)]
mod permissions;
mod publishing;
mod running;
mod support;
