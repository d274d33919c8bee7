//! Publishes the filters of a Cashu mint as static objects: to a directory, or to a bucket of an object store. The path
//! of an object is the path of the URL under which the service answers, so that wallets read both in the same way.
//!
//! ```no_run
//! use nutfilter_mint::source::{DatabaseLocation, SqliteSource};
//! use nutfilter_mint::{FilterService, Publisher, ServiceOptions};
//! use nutfilter_publish::{Destination, Rules, objects};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let location = DatabaseLocation::parse("/var/lib/cdk-mintd/cdk-mintd.sqlite")?;
//! let service = FilterService::new(ServiceOptions::default());
//! Publisher::new(SqliteSource::open(&location, None)?, service.clone()).refresh()?;
//!
//! let snapshot = service.snapshot().expect("the refresh succeeded");
//! let mut destination = Destination::open("/srv/filters")?;
//! let report = destination.publish(&objects(&snapshot, &Rules::default()))?;
//! println!("{} objects written", report.written);
//! # Ok(())
//! # }
//! ```
//!
//! Guarantees:
//!
//! - An object is replaced as a whole. A reader gets the old or the new one, never a mixture.
//! - Objects are written in the given order, and the first failure ends the publication. Where an object is named by
//!   another one, it comes first. So after a crash, everything that is named exists.
//! - An immutable object is only ever created. A replaceable one has a date, and is never replaced by an older one: it
//!   is written only if it is still the version whose date was compared (a directory is locked instead). So several
//!   publishers can share a destination.
//! - [State filters](Destination::publish_state_filters) are never replaced by an older or another sequence.
//! - Nothing is deleted.

#![forbid(unsafe_code)]

mod destination;
mod directory;
mod error;
mod object;
#[cfg(feature = "object-store")]
mod object_store;
mod snapshot;
mod state_filters;
mod store;

pub use destination::{Destination, Report};
pub use error::{DestinationError, PublishError, StoreError};
pub use object::{InvalidPath, Object, Replacement};
pub use snapshot::{Rules, objects};
pub use store::{Found, Put, Store, Version};
