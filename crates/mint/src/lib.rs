//! Next.
#![deny(unsafe_code)]
mod clock;
mod info;
mod refresh;
mod sets;
mod status;
mod thread;
pub mod source;
pub use nutfilter_cashu::{KeysetId, KeysetIdError, NoteKind};
pub use info::{DEFAULT_INFO_KEY, InfoError, MintInfo};
pub use refresh::{RefreshError, RefreshOptions, RefreshReport, Refresher};
pub use source::{MintSource, MintType};
pub use status::{FilterStatus, Monitor, NotReady, Status};
pub use thread::RefreshThread;
