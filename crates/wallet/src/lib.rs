//! Asks a mint's compact filters about a wallet's notes, without trusting the mint.
//!
//! A wallet that restores from its seed holds thousands of `Y`s and wants to know which of them are spent.
//! Asking the mint about each one tells the mint which notes belong together; a filter of *all* spent notes
//! tells it nothing. The mint may lie, stall, or send rubbish, so what arrives is measured before it is
//! buffered, validated before it is asked, and answered in three values: [`Answer::Absent`] as of the
//! filter's own timestamp, [`Answer::Maybe`], or an error. **An error is never "absent"**, and nothing
//! here falls back to showing a `Y` to anybody.
//!
//! ```no_run
//! use nutfilter_wallet::{Answer, Kind, KeysetId, MintClient, Policy};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let ys: Vec<[u8; 33]> = Vec::new();
//! let client = MintClient::new("https://mint.example/Bitcoin", Policy::default())?;
//! let keyset: KeysetId = "009a1f293253e41e".parse()?;
//! let filter = client.fetch(&keyset, Kind::Spent)?;
//! for (y, answer) in ys.iter().zip(filter.check(&ys)?) {
//!     match answer {
//!         Answer::Absent { as_of } => println!("{y:02x?} was not spent at {as_of}"),
//!         Answer::Maybe => println!("{y:02x?} is to be confirmed with the mint"),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A wallet with an HTTP client of its own leaves [`MintClient`] alone: [`Policy::admit_head`],
//! [`Policy::read_body`] and [`Policy::accept`] are the same checks on headers and bytes, and
//! [`endpoint_path`] is the path to ask for. [`MintClient`] does nothing else besides keeping time and
//! watching redirects.
//!
//! # What is not here
//!
//! Whether a payment is good: "absent" is about a moment that has passed, so a wallet must never *accept* a
//! note because of it. Proxies and Tor: [`MintClient`] connects directly and does not read `HTTP_PROXY`; a
//! wallet that hides its address brings its own client.

#![forbid(unsafe_code)]

mod allowance;
mod ask_error;
mod base_url;
mod batches;
mod cache;
mod cache_file;
mod client;
mod confirmation;
mod error;
mod hex;
mod matches;
mod points;
mod policy;
mod restoration;
mod restore_filter;
mod transport;

pub use allowance::match_limit;
pub use ask_error::{AnswerFault, AskError};
pub use cache::{CachedFetch, FilterCache};
pub use cache_file::Damage;
pub use client::MintClient;
pub use confirmation::{Confirmation, Confirmed};
pub use error::{CheckError, FetchError, MintError, Refusal, TransportError, UNKNOWN_KEYSET};
pub use matches::{FilterSource, Matches};
pub use nutfilter::{KeysetId, KeysetIdError, Kind, endpoint_path};
pub use policy::{Moment, Policy};
pub use restoration::{BlindSignature, Dleq, Restoration, Restored};
pub use restore_filter::{Answer, RestoreFilter, Rollback};
