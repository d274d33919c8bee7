//! Fuzz cases and the properties that they check.
//!
//! A case is plain data that `arbitrary` can build from bytes and a test from random numbers. Its `check` compares
//! the library with `nutfilter-reference`, and panics with the case in the message if they differ. The fuzz
//! targets and the differential tests are a few lines each around these cases.

#![forbid(unsafe_code)]

pub mod bip158;
pub mod cost;
pub mod decode;
pub mod encode;
pub mod gcs_file;
pub mod hashing;
pub mod matching;
pub mod pieces;
pub mod recipe;
pub mod resident;
pub mod response;
pub mod seeded;
pub mod sort_merge;
pub mod vectors;

use std::sync::LazyLock;

use arbitrary::Arbitrary;
use nutfilter::Params;
use nutfilter::error::DecodeErrorKind;
use nutfilter::internals::{SimdLevel, Strategy};
use nutfilter_reference::Error;

/// A fuzz target: `fuzz/fuzz_targets/<name>.rs` without the fuzzer.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of its file, seeds, dictionary, options and corpus.
    pub name: &'static str,
    /// Does the same as the target with these bytes, and panics if the check fails. Ignores bytes that are not a
    /// case.
    pub replay: fn(&[u8]),
}

/// The targets for the cases in these modules.
macro_rules! targets {
    ($($name:ident)*) => {
        &[$(Target {
            name: stringify!($name),
            replay: |bytes| {
                if let Some(case) = case_of::<$name::Case>(bytes) {
                    case.check();
                }
            },
        }),*]
    };
}

/// All targets.
pub const TARGETS: &[Target] =
    targets!(decode encode matching resident hashing sort_merge response bip158 pieces gcs_file);

/// The case that the fuzzer would build from these bytes.
fn case_of<'a, C: Arbitrary<'a>>(bytes: &'a [u8]) -> Option<C> {
    if bytes.len() < C::size_hint(0).0 {
        return None;
    }
    C::arbitrary_take_rest(arbitrary::Unstructured::new(bytes)).ok()
}

/// All strategies for looking up many targets.
pub const STRATEGIES: [Strategy; 4] =
    [Strategy::Cheapest, Strategy::Lookup, Strategy::Merge, Strategy::Bitmap];

/// The library's class for an error of the reference.
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

/// Valid parameters for any `p` and `m`; the default ones in a quarter of the cases.
pub fn params_from(p: u8, m: u32) -> Params {
    if p >= 192 {
        return Params::CASHU;
    }
    Params::new(u32::from(p % 33), u64::from(m.max(1)))
        .expect("the numbers were brought into range")
}

/// Whether the input is larger than a small one. Only such inputs may describe more data than they contain.
pub(crate) fn is_long<'a, C: Arbitrary<'a>>(last: &[u8]) -> bool {
    C::size_hint(0).0 + last.len() > recipe::SMALL
}

/// The level with this number, or all levels.
///
/// Normally a case runs at one level: a fuzzer reaches all of them in time, and runs more inputs per second.
pub(crate) fn levels_of(number: u8, all: bool) -> impl Iterator<Item = SimdLevel> {
    static LEVELS: LazyLock<Vec<SimdLevel>> = LazyLock::new(|| SimdLevel::available().collect());
    let one = usize::from(number) % LEVELS.len();
    let levels = match all {
        true => &LEVELS[..],
        false => &LEVELS[one..=one],
    };
    levels.iter().copied()
}

/// The levels of a case: the one with this number; for 3 all levels, if that is `affordable`.
pub(crate) fn levels(number: u8, affordable: bool) -> impl Iterator<Item = SimdLevel> {
    levels_of(number, affordable && number >= 3)
}
