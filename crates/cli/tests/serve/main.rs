//! `nutfilter serve`: configuration, start and stop, from an operator's view.

#[cfg(unix)]
mod closed_to_us;
mod configuration;
mod network;
mod operating;
mod running;
mod support;
