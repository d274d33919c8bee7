//! Fuzz cases and what has to hold for them.
//!
//! A case is plain data that `arbitrary` can make of bytes and a test can make of random numbers. Its
//! `check` holds the library against `nutfilter-reference` and panics where they differ, with the case
//! in the message. The fuzz targets and the differential tests are a few lines each around these.

#![forbid(unsafe_code)]

pub mod decode;
pub mod encode;
pub mod matching;
pub mod recipe;
pub mod response;
pub mod seek_index;
pub mod vectors;

use nutfilter::{DecodeErrorKind, Level, Params, Strategy};
use nutfilter_reference::Error;

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

/// The levels that a case is about: the one of this number, or all.
pub(crate) fn levels(number: u8) -> impl Iterator<Item = Level> {
    let count = Level::available().count();
    let (first, few) = match usize::from(number) {
        3.. => (0, count),
        number => (number % count, 1),
    };
    Level::available().skip(first).take(few)
}
