//! Checks a wallet's notes against a mint's compact filters, without trusting the mint.
//!
//! A wallet that restores from its seed has thousands of candidates: pairs of `B_`, the message that it would have sent,
//! and `Y`, the note. It fetches two filters, of all spent notes and of all messages that the mint signed, looks both
//! up locally, and shows the mint only the messages of notes that are still there. [`Points`] gives it the pairs.
//!
//! The mint may lie, stall, or send garbage. Responses are size-checked before buffering and validated before use.
//! **An error never means "absent"**, and no code path falls back to revealing anything else.
//!
//! ```no_run
//! use nutfilter_wallet::{KeysetId, MintClient, Outcome, Policy, RestoreOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let candidates: Vec<([u8; 33], [u8; 33])> = Vec::new();
//! let client = MintClient::new("https://mint.example/Bitcoin", Policy::default())?;
//! let keyset: KeysetId = "009a1f293253e41e".parse()?;
//! let restored = client.restore(&keyset, &candidates[..], &RestoreOptions::default())?;
//! for (counter, outcome) in restored.outcomes.iter().enumerate() {
//!     if let Outcome::Live(signature) = outcome {
//!         println!("counter {counter}: a note of {}", signature.amount);
//!     }
//! }
//! println!("the next counter is {}", restored.next_counter());
//! # Ok(())
//! # }
//! ```
//!
//! [`MintFilter::matches`] looks items up in one filter, without a network. Only [`Restore`] shows items to the mint: it
//! decides which ones after both look-ups and all limits, and nothing can be added.
//!
//! # What the mint learns
//!
//! - From fetching a filter: that a client at this address is interested in this keyset.
//! - From a restore: which of the messages that it signed are live notes of one wallet. With
//!   [`RestoreOptions::confirm`]: which spent notes were this wallet's, too.
//!
//! A wallet with its own HTTP client does not need [`MintClient`]. [`Policy::admit_head`], [`Policy::read_body`]
//! and [`Policy::accept`] are the same checks on headers and bytes. [`endpoint_path`] is the path to request.
//! [`Restore`] makes the requests about live notes and validates the answers. [`MintClient`] adds only waits and
//! deadlines. Such a wallet takes this crate without its feature `client`, and so without HTTP and TLS. Its client must
//! not follow redirects.
//!
//! # From a seed to notes
//!
//! With the feature `cashu`, [`cashu::restore_wallet`](https://docs.rs/nutfilter-wallet) derives the notes of a seed (NUT-13), restores all
//! keysets of a unit, unblinds the signatures, and verifies their DLEQ proofs.
//!
//! # What is not included
//!
//! - Whether a payment is valid. "Absent" refers to a moment in the past, so a wallet must never *accept* a note
//!   because of it.
//! - Without the feature `cashu`: deriving notes from a seed, and whether a signature is valid.

#![forbid(unsafe_code)]
// Elsewhere the clock is an argument: see clippy.toml.
#![cfg_attr(feature = "client", allow(clippy::disallowed_methods))]

/// Compiles the examples in the document as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/wallet.md")]
struct DocsOfTheWallet;

mod answer_fault;
#[cfg(feature = "client")]
mod base_url;
mod batches;
#[cfg(feature = "cashu")]
pub mod cashu;
#[cfg(feature = "client")]
mod client;
mod dialect_check;
mod error;
mod json_members;
mod match_limit;
mod matches;
mod mint_filter;
mod point_source;
mod policy;
#[cfg(feature = "client")]
mod proxy;
mod query_error;
mod restore_options;
mod restore_steps;
mod search;
mod signature;
mod state;
#[cfg(feature = "client")]
mod transport;

pub use answer_fault::AnswerFault;
pub use batches::MintInfo;
#[cfg(feature = "client")]
pub use client::MintClient;
pub use dialect_check::{Dialect, OtherDialect, other_dialect};
pub use error::{
    CheckError, FetchError, MintError, MintKeyset, RejectReason, TransportError, UNKNOWN_KEYSET,
};
pub use match_limit::match_limit;
pub use matches::{Answer, FilterDates, FilterSource, Matches, Warning};
pub use mint_filter::{FetchContext, MintFilter};
pub use nutfilter::Nut25;
pub use nutfilter_cashu::{KeysetId, KeysetIdError, NoteKind, endpoint_path};
pub use point_source::{Points, PointsError};
pub use policy::Policy;
#[cfg(feature = "client")]
pub use proxy::Proxy;
pub use query_error::QueryError;
pub use restore_options::{Fallback, RestoreOptions};
pub use restore_steps::{Chance, Outcome, Restore, RestoreError, Restored};
pub use signature::{BlindSignature, Dleq};
