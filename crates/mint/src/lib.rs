//! The mint's side of compact filters. This crate reads a Cashu mint's database, builds one filter per keyset and
//! kind of note, and serves the filters as a sidecar or inside the mint.
//!
//! ```text
//! MintSource --batches of items--> Publisher --Snapshot--> FilterService --bodies--> http::router
//! (the mint's own records)         (hash, sort, encode)    (swapped whole)           (axum)
//! ```
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
//! # As a sidecar
//!
//! ```no_run
//! use std::time::Duration;
//! use nutfilter_mint::source::{DatabaseLocation, SqliteSource};
//! use nutfilter_mint::{FilterService, Publisher, Refresher, ServiceOptions, http};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let location = DatabaseLocation::parse("/var/lib/cdk-mintd/cdk-mintd.sqlite")?;
//! let source = SqliteSource::open(&location, None)?;
//! let service = FilterService::new(ServiceOptions::default());
//! let refresher = Refresher::start(
//!     Publisher::new(source, service.clone()),
//!     Duration::from_secs(60),
//! )?;
//!
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:3339").await?;
//! http::serve(listener, http::router(service), async {
//!     tokio::signal::ctrl_c().await.ok();
//! })
//! .await?;
//! refresher.stop(Duration::from_secs(5));
//! # Ok(())
//! # }
//! ```
//!
//! # Inside a mint
//!
//! A mint written in Rust mounts [`http::router`] in its own axum application: see `examples/mount.rs`. If the mint
//! has its own `/v1/keysets` and `/health`, it mounts [`http::filter_router`] instead. [`http::serve_with`] is a
//! server with limits against slow peers; any other server works too.

// Only one function, which maps a file, allows `unsafe`. It states the reason.
#![deny(unsafe_code)]

mod body;
mod error;
mod gzip;
mod info;
mod publish;
mod published;
mod refresh;
mod report;
mod service;
mod snapshot;
mod state;
mod state_filters;

pub mod http;
pub mod sample;
pub mod source;

pub use body::{Body, BodyPlace, BodyWriter};
pub use error::PublishError;
pub use info::{InfoError, InfoService, fetch_info};
pub use nutfilter_cashu::state_filters::Event;
pub use nutfilter_cashu::{KeysetId, KeysetIdError, NoteKind};
pub use publish::Publisher;
pub use published::PublishedFilter;
pub use refresh::{RefreshTrigger, Refresher};
pub use report::{
    FilterFailure, FilterReport, ReadingReport, RefreshProgress, RefreshReport, StageTimes,
};
pub use service::{FilterService, NotReady, ServiceOptions, Status};
pub use snapshot::{KeysetEntry, Snapshot};
pub use source::{MintSource, MintType};
pub use state::{DataDirectory, StateError, verify};
pub use state_filters::{EventFeed, OpenBlock, ReportError, StateFilterOptions, StateFilters};
