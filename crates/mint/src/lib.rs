//! The mint's side of compact filters: reads a Cashu mint's database, builds a filter for each keyset
//! and kind of note, and serves them beside the mint or inside it.
//!
//! ```text
//! MintSource --batches of items--> Publisher --Snapshot--> FilterService --bodies--> http::router
//! (the mint's own records)         (hash, sort, encode)    (swapped whole)           (axum)
//! ```
//!
//! What holds throughout:
//!
//! - The database belongs to the mint. It is opened read-only, its writers are not held up, and nothing
//!   is written to it. Nothing is made beside it either, with one exception: of a mint that was killed
//!   and whose `-shm` file was then removed, the `-wal` file cannot be read without making that one anew.
//! - A request builds nothing and asks the database nothing. It is answered from the [`Snapshot`], where
//!   every body is finished; a snapshot is replaced as a whole.
//! - The timestamp in a response is never later than the moment in which reading the database *began*. It
//!   goes back if the clock does. While the database cannot be read, the last good filters are served with theirs.
//!
//! # Beside a mint
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
//! A mint in Rust mounts [`http::router`] (or [`http::filter_router`], if it has its own `/v1/keysets`
//! and `/health`) in its own axum application: see `examples/mount.rs`. [`http::serve_with`] is a server
//! for it whose limits hold against slow peers; any other will do.

// One function maps a file, and says why it may.
#![deny(unsafe_code)]

mod body;
mod error;
mod info;
mod kept;
mod publish;
mod published;
mod refresh;
mod report;
mod service;
mod snapshot;

pub mod http;
pub mod sample;
pub mod source;

pub use body::{Body, BodyPlace, BodyWriter};
pub use error::PublishError;
pub use info::{InfoError, InfoService};
pub use kept::{DataDirectory, KeptError};
pub use nutfilter::{KeysetId, KeysetIdError, Kind};
pub use publish::Publisher;
pub use published::PublishedFilter;
pub use refresh::{RefreshTrigger, Refresher};
pub use report::{
    FilterFailure, FilterReport, ReadingReport, RefreshProgress, RefreshReport, StageTimes,
};
pub use service::{FilterService, NotReady, ServiceOptions, Status};
pub use snapshot::{KeysetEntry, Snapshot};
pub use source::{MintSource, MintType};
