//! The mint's side of compact filters. This crate reads a Cashu mint's database, builds one filter per keyset and
//! kind of note, and makes the objects that are served or published.
//!
//! ```text
//! MintSource --items--> Refresher ----Snapshot----> FilterService --objects--> HTTP, files
//! (the mint's records)  (hash, sort, encode)
//! ```
//!
//! | module | what it has |
//! |---|---|
//! | `source` | reads new items of a database, or of anything else |
//! | `state` | the sorted hashes between two readings, in memory or in a data directory |
//! | `refresh` | one refresh: read, add, encode, replace the snapshot; and the thread that repeats it |
//! | `info` | the mint's own info, with the filters announced in it |
//! | `snapshot`, `object`, `service` | what is served: filters by keyset, objects by path |
//!
//! Guarantees:
//!
//! - The database belongs to the mint. It is opened read-only. Writers are not blocked, and nothing is written to
//!   it. No file is created next to it, with one exception: if a mint was killed and its `-shm` file was removed
//!   afterwards, the `-wal` file can only be read after `-shm` is created again.
//! - A request builds nothing and never queries the database. It is answered from the [`Snapshot`], which holds
//!   only finished bodies. Snapshots are replaced as a whole.
//! - The timestamp in a response is never later than the *start* of the database reading. It goes back if the clock
//!   does. While the database cannot be read, the last good filters are served with their own timestamps.
//!
//! The crate `nutfilter-serve` answers requests with these objects, as a sidecar or inside a mint written in Rust: see
//! `examples/mount.rs`. It also writes them to a directory.
//!
//! ```no_run
//! use std::time::Duration;
//! use nutfilter_mint::source::{DatabaseLocation, SqliteSource};
//! use nutfilter_mint::{FilterService, Refresher, RefreshThread};
//!
//! # fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let location = DatabaseLocation::parse("/var/lib/cdk-mintd/cdk-mintd.sqlite")?;
//! let source = SqliteSource::open(&location, None)?;
//! let service = FilterService::default();
//! let refresher = Refresher::new(source, service.clone());
//! let thread = RefreshThread::start(refresher, Duration::from_secs(60), 0.0)?;
//! // Every 60 s, the service has the objects of a new read.
//! assert!(service.object("v1/keysets").is_ok());
//! thread.stop(Duration::from_secs(5));
//! # Ok(())
//! # }
//! ```

// Only one function, which maps a file, allows `unsafe`. It states the reason.
#![deny(unsafe_code)]

mod body;
mod finished_filter;
mod info;
mod metrics;
mod object;
mod refresh;
mod service;
mod snapshot;
mod state;

pub mod source;

pub use body::{Body, BodyPlace};
pub use finished_filter::FinishedFilter;
pub use info::{InfoError, InfoFetcher, InfoThread};
pub use metrics::register_metrics;
pub use nutfilter_cashu::{KeysetId, KeysetIdError, NoteKind};
pub use object::{Missing, Object};
pub use refresh::{
    FilterFailure, FilterReport, ReadingReport, RefreshError, RefreshProgress, RefreshReport,
    RefreshThread, Refresher, RefresherOptions, StageTimes,
};
pub use service::{FilterService, NotReady, Status};
pub use snapshot::{KeysetEntry, Snapshot};
pub use source::{MintSource, MintType};
pub use state::{DataDirectory, StateError};
