//! Publishes the objects of a Cashu mint's filters as static files: to a directory, or to a bucket of an object store. The path
//! of an object is the path of the URL under which the service answers, so that wallets read both in the same way.
//!
//! ```no_run
//! use nutfilter_mint::source::{DatabaseLocation, SqliteSource};
//! use nutfilter_mint::{FilterService, Refresher};
//! use nutfilter_publish::Destination;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let location = DatabaseLocation::parse("/var/lib/cdk-mintd/cdk-mintd.sqlite")?;
//! let service = FilterService::default();
//! Refresher::new(SqliteSource::open(&location, None)?, service.clone()).refresh()?;
//!
//! let mut destination = Destination::open("/srv/filters")?;
//! for objects in service.objects() {
//!     let report = destination.publish(&objects)?;
//!     println!("{} objects written", report.written);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Guarantees:
//!
//! - An object is replaced as a whole. A reader gets the old or the new one, never a mixture.
//! - Objects are written in the given order, and the first failure ends the publication. Where an object is named by
//!   another one, it comes first. So after a crash, everything that is named exists.
//! - A dated object is never replaced by an older one, and a list of a sequence of state filters only by a later version
//!   of the same sequence. It is written only if the published one is still the version that was compared (a directory is
//!   locked instead). So several publishers can share a destination.
//! - Nothing is deleted.

#![forbid(unsafe_code)]

mod destination;
mod directory;
mod error;
#[cfg(feature = "object-store")]
mod object_store;
mod store;

pub use destination::{Destination, Report};
pub use error::{DestinationError, PublishError, StoreError};
pub use store::{Found, Put, Store, Version};
