//! Next.
#![deny(unsafe_code)]
mod clock;
mod info;
mod refresh;
mod sets;
pub mod source;
mod status;
mod thread;
pub use info::{DEFAULT_INFO_KEY, InfoError, MintInfo};
pub use nutfilter_cashu::{KeysetId, KeysetIdError, NoteKind};
pub use refresh::{RefreshError, RefreshOptions, RefreshReport, Refresher};
pub use source::{MintSource, MintType};
pub use status::{FilterStatus, Monitor, NotReady, Status};
pub use thread::RefreshThread;
