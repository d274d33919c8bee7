//! Checks a wallet's notes against a mint's compact filters, without trusting the mint.
//!
//! A wallet that restores from its seed holds thousands of `Y`s and must find out which of them are spent. Asking
//! the mint about each one tells the mint which notes belong together. A filter of *all* spent notes tells it
//! nothing.
//!
//! The mint may lie, stall, or send garbage. Responses are size-checked before buffering and validated before use.
//! A look-up has three results: [`Answer::Absent`] as of the filter's own timestamp, [`Answer::MaybePresent`], or
//! an error. **An error never means "absent"**, and no code path falls back to revealing a `Y`.
//!
//! ```no_run
//! use nutfilter_wallet::{Confirmed, NoteKind, KeysetId, MintClient, Policy};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let ys: Vec<[u8; 33]> = Vec::new();
//! let client = MintClient::new("https://mint.example/Bitcoin", Policy::default())?;
//! let keyset: KeysetId = "009a1f293253e41e".parse()?;
//! let filter = client.fetch(&keyset, NoteKind::Spent)?;
//! // The wallet's own records say that 40 of them should be spent.
//! let matches = filter.matches(&ys, Some(40))?;
//! for (y, confirmed) in ys.iter().zip(client.confirm(&matches)?) {
//!     match confirmed {
//!         Confirmed::Absent { as_of } => println!("{y:02x?} was not spent at {as_of}"),
//!         Confirmed::Unspent => println!("{y:02x?} is not spent, and matched by chance"),
//!         Confirmed::Pending => println!("{y:02x?} is in flight"),
//!         Confirmed::Spent => println!("{y:02x?} is spent"),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`MintFilter::check`] uses no network. [`MintClient::confirm`] (NUT-07) and [`MintClient::restore`] (NUT-09)
//! reveal the matching items to the mint, and cannot reveal any others: they take a [`Matches`]. Only a look-up
//! creates a `Matches`, after every limit of the [`Policy`] has been checked.
//!
//! # What the mint learns
//!
//! - From fetching a filter: that a client at this address is interested in this keyset.
//! - From a confirmation: which of the spent notes belong to the wallet, because the mint knows all spent notes.
//! - From a restoration: which of the messages that it signed belong to the wallet.
//! - From a [`FilterCache`]: which version this wallet fetched before.
//!
//! A wallet with its own HTTP client does not need [`MintClient`]. [`Policy::admit_head`], [`Policy::read_body`]
//! and [`Policy::accept`] are the same checks on headers and bytes. [`endpoint_path`] is the path to request.
//! [`Confirmation`] and [`Restoration`] build the requests about matches and validate the answers. [`MintClient`]
//! adds only the deadline and the cache. Such a wallet takes this crate without its feature `client`, and so without
//! HTTP, TLS and files. Its client must not follow redirects.
//!
//! # What is not included
//!
//! - Whether a payment is valid. "Absent" refers to a moment in the past, so a wallet must never *accept* a note
//!   because of it.
//! - Deriving notes from a seed, and deciding when to stop looking for more (the gap of NUT-13).
//! - Keys: whether a signature is valid.

#![forbid(unsafe_code)]

/// Compiles the examples in the document as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/wallet.md")]
struct DocsOfTheWallet;

#[cfg(feature = "client")]
mod base_url;
mod batches;
#[cfg(feature = "client")]
mod cache;
#[cfg(feature = "client")]
mod cache_file;
#[cfg(feature = "client")]
mod client;
mod dialect;
mod error;
mod match_limit;
mod matches;
mod mint_filter;
mod policy;
#[cfg(feature = "client")]
mod proxy;
mod query_error;
mod restore;
mod signature;
mod state;
#[cfg(feature = "client")]
mod transport;

#[cfg(feature = "client")]
pub use cache::{CachedFetch, FilterCache};
#[cfg(feature = "client")]
pub use cache_file::Damage;
#[cfg(feature = "client")]
pub use client::MintClient;
pub use dialect::{Dialect, OtherDialect, other_dialect};
pub use error::{
    CheckError, FetchError, MintError, MintKeyset, RejectReason, TransportError, UNKNOWN_KEYSET,
};
pub use match_limit::match_limit;
pub use matches::{FilterSource, Matches, Warning};
pub use mint_filter::{Answer, MintFilter};
pub use nutfilter::Nut25;
pub use nutfilter_cashu::{KeysetId, KeysetIdError, NoteKind, endpoint_path};
pub use policy::{FetchContext, Policy};
#[cfg(feature = "client")]
pub use proxy::Proxy;
pub use query_error::{AnswerFault, QueryError, RestoreError};
pub use restore::{Chance, Outcome, Restore, RestoreOptions, Restored};
pub use signature::{BlindSignature, Dleq};
