//! `nutfilter serve` and `nutfilter publish`: the filters of a mint's database, over HTTP and as files.
//!
//! `options` declares what both have in common, `start` starts it, `check` tries it for `--check-config`.

mod check;
pub(crate) mod http;
mod manager;
mod metrics;
mod options;
pub(crate) mod publish;
mod signals;
mod start;
mod waiting;

pub(crate) use self::signals::stop_signal;
pub(crate) use self::start::{runtime, stopped_at_once};
