//! Asks a mint's compact filters about a wallet's notes, without trusting the mint.
//!
//! A wallet that restores from its seed holds thousands of `Y`s and wants to know which of them are spent.
//! Asking the mint about each one tells the mint which notes belong together; a filter of *all* spent notes
//! tells it nothing. The mint may lie, stall, or send rubbish, so what arrives is measured before it is
//! buffered, validated before it is asked, and answered in three values: [`Answer::Absent`] as of the
//! filter's own timestamp, [`Answer::MaybePresent`], or an error. **An error is never "absent"**, and nothing
//! here falls back to showing a `Y` to anybody.
//!
//! ```no_run
//! use nutfilter_wallet::{Confirmed, Kind, KeysetId, MintClient, Policy};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let ys: Vec<[u8; 33]> = Vec::new();
//! let client = MintClient::new("https://mint.example/Bitcoin", Policy::default())?;
//! let keyset: KeysetId = "009a1f293253e41e".parse()?;
//! let filter = client.fetch(&keyset, Kind::Spent)?;
//! // What the wallet's books say: 40 of them should be spent.
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
//! [`MintFilter::check`] alone asks nobody. [`MintClient::confirm`] (NUT-07) and [`MintClient::restore`]
//! (NUT-09) show the mint the items that matched, and can show it no others: they take a [`Matches`], which
//! only a look-up makes, after every limit of the [`Policy`] has held.
//!
//! # What the mint learns
//!
//! From fetching a filter: that somebody at this address cares for this keyset. From a confirmation: which of
//! the spent notes were the wallet's, for it knows these; decoys hide only how many points it has never
//! seen are notes. From a restoration: which of the messages that it signed are the wallet's. From a
//! [`FilterCache`]: which version this wallet fetched before.
//!
//! A wallet with an HTTP client of its own leaves [`MintClient`] alone: [`Policy::admit_head`],
//! [`Policy::read_body`] and [`Policy::accept`] are the same checks on headers and bytes,
//! [`endpoint_path`] is the path to ask for, and [`Confirmation`] and [`Restoration`] make the requests about
//! matches and judge their answers. [`MintClient`] does nothing else besides keeping time, watching redirects,
//! and reading the cache.
//!
//! # What is not here
//!
//! Whether a payment is good: "absent" is about a moment that has passed, so a wallet must never *accept* a
//! note because of it. Deriving notes from a seed, and when to stop
//! looking for more (the gap of NUT-13). Keys: whether a signature is valid.

#![forbid(unsafe_code)]

/// So that the example of the document compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/wallet.md")]
struct DocsOfTheWallet;

mod base_url;
mod batches;
mod cache;
mod cache_file;
mod client;
mod confirmation;
mod dialect;
mod error;
mod hex;
mod match_limit;
mod matches;
mod mint_filter;
mod points;
mod policy;
mod proxy;
mod query_error;
mod restoration;
mod transport;

pub use cache::{CachedFetch, FilterCache};
pub use cache_file::Damage;
pub use client::MintClient;
pub use confirmation::{Confirmation, Confirmed};
pub use dialect::{Dialect, OtherDialect, other_dialect};
pub use error::{CheckError, FetchError, MintError, RejectReason, TransportError, UNKNOWN_KEYSET};
pub use match_limit::match_limit;
pub use matches::{FilterSource, Matches, Warning};
pub use mint_filter::{Answer, MintFilter, Rollback};
pub use nutfilter::{KeysetId, KeysetIdError, Kind, Nut25, endpoint_path};
pub use policy::{FetchContext, Policy};
pub use proxy::Proxy;
pub use query_error::{AnswerFault, QueryError};
pub use restoration::{BlindSignature, Dleq, Restoration, Restored};
