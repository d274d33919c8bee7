//! Fuzz cases and what has to hold for them.
//!
//! A case is plain data that `arbitrary` can make of bytes and a test can make of random numbers. Its
//! `check` holds the library against `nutfilter-reference` and panics where they differ, with the case
//! in the message. The fuzz targets and the differential tests are a few lines each around these.

#![forbid(unsafe_code)]

pub mod bip158;
pub mod cost;
pub mod decode;
pub mod encode;
pub mod hashing;
pub mod keyset_path;
pub mod matching;
pub mod recipe;
pub mod response;
pub mod seeded;
pub mod seek_index;
pub mod sort_merge;
#[cfg(feature = "store")]
pub mod store_file;
pub mod vectors;

use std::sync::LazyLock;

use arbitrary::{Arbitrary, Unstructured};
use nutfilter::{DecodeErrorKind, Level, Params, Strategy};
use nutfilter_reference::Error;

/// A fuzz target: `fuzz/fuzz_targets/<name>.rs` without the fuzzer around it.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of its file, of its seeds, its dictionary, its options and its corpus.
    pub name: &'static str,
    /// Does with these bytes what the target does, and panics where that fails. Bytes that make no case do
    /// nothing.
    pub replay: fn(&[u8]),
}

/// All of them.
pub const TARGETS: &[Target] = &[
    target!(decode),
    target!(encode),
    target!(matching),
    target!(seek_index),
    target!(hashing),
    target!(sort_merge),
    target!(response),
    target!(bip158),
    #[cfg(feature = "store")]
    target!(store_file),
    target!(keyset_path),
];

/// The target whose case is in this module.
macro_rules! target {
    ($name:ident) => {
        Target {
            name: stringify!($name),
            replay: |bytes| {
                if let Some(case) = case_of::<$name::Case>(bytes) {
                    case.check();
                }
            },
        }
    };
}
use target;

/// The case that the fuzzer would make of these bytes.
fn case_of<'a, C: Arbitrary<'a>>(bytes: &'a [u8]) -> Option<C> {
    if bytes.len() < C::size_hint(0).0 {
        return None;
    }
    C::arbitrary_take_rest(Unstructured::new(bytes)).ok()
}

/// Every way in which many targets can be looked for.
pub const STRATEGIES: [Strategy; 3] = [Strategy::Cheapest, Strategy::Points, Strategy::Merge];

/// The class that the reference's error stands for.
#[must_use]
pub fn class_of(error: Error) -> DecodeErrorKind {
    match error {
        Error::BadParameter => DecodeErrorKind::BadParameter,
        Error::TooShort => DecodeErrorKind::TooShort,
        Error::TooLong => DecodeErrorKind::TooLong,
        Error::OutOfRange => DecodeErrorKind::OutOfRange,
        Error::TrailingData => DecodeErrorKind::TrailingData,
        Error::Padding => DecodeErrorKind::Padding,
    }
}

/// Parameters within the limits, whatever `p` and `m` are; the usual ones for a quarter of them.
#[must_use]
pub fn params_from(p: u8, m: u32) -> Params {
    if p >= 192 {
        return Params::CASHU;
    }
    Params::new(u32::from(p % 33), u64::from(m.max(1)))
        .expect("the numbers were brought into range")
}

/// Whether so many bytes are more than a small input: only those may stand for more than they spell out.
pub(crate) fn is_long<'a, C: Arbitrary<'a>>(last: &[u8]) -> bool {
    C::size_hint(0).0 + last.len() > recipe::SMALL
}

/// The level of this number, or all of them.
///
/// One level an execution: a fuzzer sees each of them in time, and gets as many more inputs.
pub(crate) fn levels_of(number: u8, all: bool) -> impl Iterator<Item = Level> {
    static LEVELS: LazyLock<Vec<Level>> = LazyLock::new(|| Level::available().collect());
    let one = usize::from(number) % LEVELS.len();
    let levels = match all {
        true => &LEVELS[..],
        false => &LEVELS[one..=one],
    };
    levels.iter().copied()
}

/// The levels that a case is about: the one of this number; for 3 all, where all are `affordable`.
pub(crate) fn levels(number: u8, affordable: bool) -> impl Iterator<Item = Level> {
    levels_of(number, affordable && number >= 3)
}
