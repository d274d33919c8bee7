//! `nutfilter serve`: the filters of a mint's database, over HTTP and as files.
//!
//! `options` declares what can be configured, `run` starts it, `check` is `--check-config`, `locks` tells whether a mint has the
//! database open.

mod check;
mod locks;
mod manager;
mod metrics;
mod options;
pub(crate) mod run;
mod signals;

pub(crate) use self::run::{ServeArgs, runtime, stopped_at_once};
pub(crate) use self::signals::stop_signal;
