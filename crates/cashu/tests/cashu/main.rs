//! The public interface, and published values.

mod sequences;
mod state_filters;
mod wire;
