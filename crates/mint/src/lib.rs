//! Compact filters of a Cashu mint's notes: reads its database, and keeps one filter for each keyset and kind of note.
//!
//! A row becomes an answer in six steps, each in one place:
//!
//! | step | where | what it does |
//! |---|---|---|
//! | source | [`source`] | reads the rows that are new, or all in doubt; SQLite and Postgres, nutshell and CDK, or a mint that hands over its [notes](source::Notes) |
//! | set | `sets` | keeps the sorted, distinct hashes of each keyset |
//! | encode | [`Refresher`] | makes the filter of each set that changed, with the date of its reading |
//! | object | [`nutfilter_objects`] | the JSON, compressed too, with a tag |
//! | table | [`Table`](nutfilter_objects::Table) | holds the newest object of each path, in memory or as files |
//! | answer | `nutfilter-serve`, or any file server | sends objects; knows neither databases nor filters |
//!
//! [`Filters`] is all of this behind an axum router, with a thread that refreshes at each change and at an interval: within a mint, or
//! beside it. A [`Monitor`] says whether they are ready, and `InfoMirror` keeps the `/v1/info` of a mint elsewhere, with the filters
//! announced in it.
//!
//! Features: `sqlite` and `postgres` read the databases of nutshell and CDK, `info` has `InfoMirror`. None is on by default.
//!
//! # Guarantees
//!
//! - **Nothing is missed.** A filter has every note that counted when its reading began. In any doubt whether a database
//!   only grew since the last reading, everything is read; at the latest after [`RefreshOptions::reread`].
//! - **Dates are true.** A filter is dated before its reading. If the clock was ahead then, it is withdrawn once that shows.
//! - **An unreadable row is not left out.** The filter of its keyset stays as it was, until everything can be read.
//! - **The mint is not disturbed.** Databases are opened read-only, for one reading, without a lock that writers wait for.
//! - **A filter never claims less than the one before it.** In a process a set only grows. At a start, what was published is
//!   compared: if the store lacks some of it, the filters of that keyset are held until it is back, or the operator accepts
//!   the [`Loss`].
//! - **Faults stay apart.** A filter that fails does not hold back the others. What was published stays.
//!
//! # Examples
//!
//! One refresh to a directory, which any file server can then serve; [`Filters`] has one for a mint:
//!
//! ```no_run
//! use nutfilter_mint::source::{self, DatabaseLocation};
//! use nutfilter_mint::{Filters, Options};
//!
//! let database = DatabaseLocation::parse("/var/lib/mint/mint.sqlite3")?;
//! let mut options = Options::default();
//! options.directory = Some("/srv/filters".into());
//! let (_, report) = Filters::once(source::open(&database, None)?, options)?;
//! for (what, error) in &report?.failures {
//!     eprintln!("{what}: {error}");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod clock;
mod filter_metrics;
mod filter_site;
mod filters;
#[cfg(feature = "info")]
mod info;
mod published;
mod refresh;
mod sets;
pub mod source;
mod status;
#[cfg(test)]
mod tests;
mod thread;

pub use filter_site::{FilterSite, INFO_PATH};
pub use filters::{Filters, LossError, Options, StartError};
#[cfg(feature = "info")]
pub use info::{InfoError, InfoMirror};
pub use nutfilter_cashu::{KeysetId, KeysetIdError, NoteKind};
pub use refresh::{RefreshError, RefreshOptions, RefreshReport, Refresher};
pub use source::{MintSource, MintType};
pub use status::{FilterState, FilterStatus, Loss, Monitor, Status, parse_path};

/// Compiles the README's example as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
