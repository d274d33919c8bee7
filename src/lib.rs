//! Fast, compact Golomb-coded sets, accelerated with SIMD: block filters of Bitcoin (BIP158), and filters over Cashu ecash.
//!
//! # A Bitcoin light client
//!
//! ```
//! use nutfilter::SipHash;
//! use nutfilter::bip158::{self, Scratch, Watchlist};
//!
//! # let (script, block) = ([0_u8; 22], [7_u8; 32]);
//! # let filter = bip158::serialize(&bip158::build(SipHash::from(block), [script])?);
//! let list = Watchlist::from_iter([script]);
//! if list.match_any(&mut Scratch::new(), block, &filter)? {
//!     // The block may create or spend the script: download it.
//! }
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! The module [`bip158`] verifies many filters against their headers, scans them on all cores, and says which scripts
//! remain to be tested in which filters.
//!
//! # Cashu
//!
//! A mint knows every spent note and every blinded message that it signed. A wallet that restores needs to know
//! which of its notes are among them, without showing the mint its whole history. The mint therefore publishes
//! a *filter*, about 21 bits per note. The wallet downloads it and tests its notes locally. "Not in the filter"
//! is certain (as of the filter's timestamp). "In the filter" has a false-positive rate of 1 in 784,931, so a
//! wallet confirms its matches, and only them, with the mint.
//!
//! ## A mint
//!
//! ```
//! use nutfilter::{Params, SortedHashes};
//!
//! # let spent: Vec<[u8; 33]> = (0..100_u8).map(|i| [i; 33]).collect();
//! let filter = SortedHashes::from_items(&spent).encode(Params::default())?;
//! // filter.bytes() and filter.n() are what a wallet needs.
//! # assert_eq!(filter.n(), 100);
//! # Ok::<(), nutfilter::BuildError>(())
//! ```
//!
//! Keep a [`SortedHashes`]: [`merge_and_encode`](SortedHashes::merge_and_encode) adds items and re-encodes the
//! filter in one linear pass, for any N. It takes 8 bytes per item. For a set on several machines, see [`pieces`].
//!
//! ## A wallet
//!
//! ```
//! use nutfilter::{Filter, Params};
//!
//! # let made = nutfilter::SortedHashes::from_items([[7_u8; 33]]).encode(Params::default())?;
//! # let (bytes, n) = (made.bytes(), 1);
//! let filter = Filter::parse(bytes, n, Params::default())?; // checks that it is well-formed
//! let spent = filter.matches(&[[7; 33], [8; 33]]);
//! assert_eq!(spent, [true, false]);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! For repeated queries, make a [`ResidentFilter`] with [`Filter::to_resident`] (30 bits per item, the fastest), or build a
//! seek index with [`Filter::into_indexed`] (9 bits per item in addition to the filter).
//!
//! # Speed
//!
//! Hashing, sorting, encoding, decoding and look-ups have AVX2 and AVX-512 kernels on x86-64. The CPU's
//! features select them at run time. Arm 64 decodes with NEON. Elsewhere, scalar code gives the same
//! results, more slowly. Query many items at once: one [`Filter::matches`] of a thousand items takes a small
//! part of the time of a thousand calls of [`Filter::contains`].
//!
//! # When not to use it
//!
//! A filter is a snapshot and becomes stale. It never proves that a note is unspent *now*, so never accept a
//! payment because of it. If one false positive in ten is good enough, a Bloom filter is smaller. If you need
//! to recover the items, a filter cannot help: hashes are one-way.
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `std` | yes | run-time detection of CPU features |
//! | `parallel` | | [`bip158::Watchlist::par_scan`], with rayon |
//! | `verify` | | [`bip158::HeaderChain`], which verifies block filters, and filter hashes |
//! | `bitcoin` | | `verify`, filters of blocks, and conversions of hashes and headers |
//!
//! Without `std` the crate needs only `alloc`, and uses the CPU features that it was compiled for. Features
//! never change the bytes of a filter or an answer.

#![no_std]
#![deny(unsafe_code)]
// Of what `internals` exports.
#![cfg_attr(not(feature = "__internals"), allow(unreachable_pub))]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod arch;
pub mod bip158;
mod bits;
mod cost;
mod decode;
#[cfg(feature = "verify")]
mod double_sha256;
mod encode;
pub mod error;
mod filter;
pub mod gcs;
mod hash;
mod matching;
mod merge;
mod params;
mod resident;
mod rice;
mod seek_index;
mod sort;
mod sorted_hashes;
#[cfg(test)]
mod tests;

pub use error::{BuildError, DecodeError};
pub use filter::{Filter, UnvalidatedFilter};
pub use hash::{AnyHash, ItemHash, Nut23, Nut25, RawValues, SipHash, map_to_range};
pub use params::Params;
pub use resident::{CacheLines, ResidentFilter};
pub use seek_index::{IndexInterval, IndexedFilter};
pub use sorted_hashes::{HashCollector, SortedHashes, SortedHashesBuilder};

/// A filter that several machines encode.
pub mod pieces {
    pub use crate::encode::{Piece, stitch};
}

/// What the tests and benchmarks of this repository need beyond the public interface. Only their dev-dependencies
/// switch the feature on.
#[cfg(feature = "__internals")]
#[doc(hidden)]
pub mod internals {
    pub use crate::arch::SimdLevel;
    pub use crate::cost::decoded_bits;
    pub use crate::hash::map_all_at;
    pub use crate::matching::Strategy;
    pub use crate::sort::sort_in_passes;

    /// What `just release` looks for in artefacts, which must not have these hooks.
    #[used]
    static MARK: [u8; 20] = *b"nutfilter test hooks";
}

/// Compiles the README's example as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Compiles the library guide's examples as tests.
#[cfg(doctest)]
#[doc = include_str!("../docs/library.md")]
struct LibraryGuide;

/// Compiles the page about Bitcoin as a test.
#[cfg(all(doctest, feature = "bitcoin", feature = "parallel"))]
#[doc = include_str!("../docs/bitcoin.md")]
struct Bitcoin;
