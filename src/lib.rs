//! Compact filters over ecash notes: Golomb-coded sets, built and asked at the speed of the machine.
//!
//! A mint knows every note that was spent and every blind message that it signed. A wallet that restores
//! wants to know which of its notes are among them, without showing the mint its whole history. So the
//! mint publishes a *filter*, about 21 bits a note: the wallet downloads it and tests its notes itself.
//! "Not in the filter" is certain (as of the filter's timestamp); "in the filter" is wrong for one
//! stranger in 784,931, so a wallet confirms its matches, and only them, with the mint.
//!
//! Bitcoin's block filters (BIP158) are the same code over other items; this crate makes and reads both.
//!
//! # A mint
//!
//! ```
//! use nutfilter::{Nut25, Params, SortedHashes};
//!
//! # let spent: Vec<[u8; 33]> = (0..100_u8).map(|i| [i; 33]).collect();
//! let filter = SortedHashes::<Nut25>::from_items(&spent).encode(Params::default())?;
//! // filter.bytes() and filter.n() are what a wallet needs.
//! # assert_eq!(filter.n(), 100);
//! # Ok::<(), nutfilter::BuildError>(())
//! ```
//!
//! The form to keep is [`SortedHashes`]: [`merge_and_encode`](SortedHashes::merge_and_encode) puts what is new into
//! it and makes the next filter, in one linear pass, whatever N has become. Sets that do not
//! fit in memory have the feature `store`.
//!
//! # A wallet
//!
//! ```
//! use nutfilter::{Filter, Nut25, Params};
//!
//! # let made = nutfilter::SortedHashes::<Nut25>::from_items([[7_u8; 33]]).encode(Params::default())?;
//! # let (bytes, n) = (made.bytes(), 1);
//! let filter = Filter::<Nut25>::parse(bytes, n, Params::default())?; // validates every bit
//! let spent = filter.matches(&[[7; 33], [8; 33]]);
//! assert_eq!(spent, [true, false]);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! Whoever asks more than once takes an index of one bit a note: [`Filter::into_indexed`]. With the feature
//! `serde`, `FilterResponse` reads and writes the JSON object of NUT-25.
//!
//! # Speed
//!
//! Hashing, sorting, encoding, decoding and look-ups have kernels for AVX2 and AVX-512 on x86-64, chosen at run time
//! by what the CPU has ([`Level`]); elsewhere plain code does the same, more slowly. Use the functions on many: one
//! [`Filter::matches`] of a thousand items takes a small part of the time of a thousand [`Filter::contains`].
//!
//! # When not to use it
//!
//! A filter is a snapshot that only grows stale: it never proves that a note is unspent *now*, so never
//! accept a payment on its word. Where one false positive in ten is good enough, a Bloom filter is
//! smaller; where the set is needed back exactly, this cannot give it.
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `std` | yes | run-time detection of CPU features |
//! | `parallel` | | large sets are sorted, encoded and validated by all threads of the current rayon pool |
//! | `serde` | | `FilterResponse`, the NUT-25 JSON; with `std`, `ResponseWriter` |
//! | `store` | | sets larger than memory: [`store`](mod@store), sorted runs on disk |
//! | `bitcoin` | | contents of blocks, filter hashes and headers for BIP158 |
//!
//! Without `std` the crate needs `alloc` alone, and uses the CPU features that it was compiled for. Features never
//! change the bytes of a filter or an answer.

#![no_std]
#![deny(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod arch;
pub mod bip158;
pub mod bits;
mod cost;
mod decode;
mod encode;
mod endpoint;
mod error;
mod filter;
mod hash;
mod matching;
mod merge;
#[cfg(test)]
mod noise;
mod params;
#[cfg(feature = "serde")]
mod response;
#[cfg(all(feature = "serde", feature = "std"))]
mod response_writer;
mod rice;
mod seek_index;
mod sort;
mod sorted_hashes;
#[cfg(feature = "store")]
pub mod store;

pub use arch::Level;
#[doc(hidden)]
pub use cost::decoded_bits;
pub use endpoint::{KeysetId, KeysetIdError, Kind, endpoint_path};
pub use error::{BuildError, DecodeError, DecodeErrorKind, ParamsError, SeekIndexError};
pub use filter::{AdmittedFilter, Filter, Values};
#[doc(hidden)]
pub use hash::Nut25EmptyTail;
pub use hash::{ItemHash, Nut23, Nut25, SipHash, Unhashed, map_all_to_range, map_to_range};
#[doc(hidden)]
pub use matching::Strategy;
pub use params::Params;
#[cfg(feature = "serde")]
pub use response::{FilterResponse, ResponseError, ResponseErrorKind};
#[cfg(all(feature = "serde", feature = "std"))]
pub use response_writer::ResponseWriter;
pub use seek_index::{IndexedFilter, SeekIndex, Step};
#[doc(hidden)]
pub use sort::sort_in_passes;
pub use sorted_hashes::SortedHashes;

/// The README's example, so that it goes on compiling.
#[cfg(all(doctest, feature = "serde"))]
#[doc = include_str!("../README.md")]
struct Readme;
