//! `nutfilter serve`, as an operator configures, starts and stops it.

#[cfg(unix)]
mod closed_to_us;
mod configuration;
mod network;
mod operating;
mod running;
mod support;
