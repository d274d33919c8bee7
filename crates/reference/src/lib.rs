//! A slow, simple Golomb-coded set: the oracle for the tests of `nutfilter`.
//!
//! A filter is a sorted list of numbers, stored as the differences between neighbours. Every item is hashed to 64
//! bits, and the hash is mapped to `[0, F)` with `F = N * M`. The values are sorted, and each difference `d`
//! becomes `d >> P` one-bits, a zero-bit, and the low `P` bits of `d`. A target whose value is in the list is a
//! member or, with probability `1/M`, a false positive. This is the whole format. The crate implements it one bit
//! at a time:
//!
//! - [`hash`](Profile::hash): item to 64 bits, by the crates murmur3 and siphasher,
//! - [`map`]: 64 bits to `[0, F)`,
//! - [`encode_values`] and [`decode`]: sorted values to bytes and back,
//! - [`build`], [`matches()`], [`match_any`]: the three steps together,
//! - [`serialize_bip158`]: the item count before a BIP158 filter.
//!
//! This crate must be correct, so it is written to be compared with NUT-23, NUT-25 and BIP158. It has no tables,
//! no word-level code and no vector instructions, and shares no line with the library under test.
//! When the two disagree, suspect the library first. Do not use this crate for real work: it takes one call per
//! bit and 8 bytes per decoded value.
//!
//! It is also exact about invalid input. [`decode`] returns the first fault in a fixed order of checks, and a fast
//! decoder must return the same one.
//!
//! ```
//! use nutfilter_reference::{Profile, build, matches};
//!
//! let members = [b"one".as_slice(), b"two", b"three"];
//! let filter = build(Profile::Nut25, &members, 19, 784_931);
//! let answers = matches(&filter, 3, 19, 784_931, Profile::Nut25, &["two", "four"]);
//! assert_eq!(answers, Ok(vec![true, false]));
//! ```

#![forbid(unsafe_code)]

mod bip158;
mod coder;
mod filter;
mod hash;
mod noise;

pub use bip158::serialize_bip158;
pub use coder::{Error, decode, encode_values};
pub use filter::{build, map, mapped_values, match_any, matches};
pub use hash::{Profile, murmur3_32};
pub use noise::{Noise, generate_items, sorted, spread};
