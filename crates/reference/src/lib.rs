//! The slow, obvious Golomb-coded set: the oracle that `nutfilter` is tested against.
//!
//! A filter is a sorted list of numbers, written as the differences between neighbours. Every item is
//! hashed to 64 bits, the hash is scaled down to `[0, F)` with `F = N * M`, the scaled values are
//! sorted, and each difference `d` becomes `d >> P` one-bits, a zero-bit, and the low `P` bits of `d`.
//! A value that is in the list belongs to a member, or, with probability `1/M`, to a stranger. That is
//! the whole format, and this crate says it again one bit at a time:
//!
//! - [`hash`](Profile::hash), [`murmur3_x86_32`], [`murmur3_x64_128`], [`siphash_2_4`]: item to 64 bits,
//! - [`map`]: 64 bits to `[0, F)`,
//! - [`encode_values`] and [`decode`]: sorted values to bytes and back,
//! - [`build`], [`contains`], [`matches()`], [`match_any`]: the three steps together,
//! - [`serialize_bip158`] and [`parse_bip158`]: the item count in front of a BIP158 filter.
//!
//! It exists to be believed, so it is written to be read beside NUT-23, NUT-25 and BIP158: no tables, no
//! words, no vector instructions, no dependencies, and not one line shared with the library under test.
//! Where the two disagree, start by suspecting the library. For the same reason nobody should use this
//! crate for real work: it spends a call per bit and 8 bytes per decoded value.
//!
//! It is exact about bad input too. [`decode`] names the first thing that is wrong, in a fixed order of
//! checks, and a fast decoder has to name the same one.
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

pub use bip158::{Bip158Error, parse_bip158, serialize_bip158};
pub use coder::{Error, decode, encode_values};
pub use filter::{build, contains, map, mapped_values, match_any, matches};
pub use hash::{Profile, murmur3_x64_128, murmur3_x86_32, siphash_2_4, wrong_dialect_hash};
