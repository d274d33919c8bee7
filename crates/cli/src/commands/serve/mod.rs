//! `nutfilter serve`: the filters of a mint's database, over HTTP and as files.
//!
//! `options` declares what can be configured, `run` starts it, `check` is `--check-config`, `waiting` opens the database, `locks`
//! tells whether a mint has it open, and `free_memory` gives back what the system can have.

mod check_config;
mod free_memory;
mod locks;
mod options;
mod process_metrics;
pub(crate) mod run;
mod service_manager;
mod signals;
mod waiting;

pub(crate) use self::run::{ServeArgs, runtime, stopped_at_once};
pub(crate) use self::signals::stop_signal;
