//! From the bytes of a filter to its values.
//!
//! [`scan`] reads them one after another, which is what a stream of differences asks for. Every way of
//! decoding gives the same values and the same class of error as the bit-by-bit reference.

mod scan;

pub(crate) use scan::Scanner;

/// How many values a consumer takes at a time: 1 KiB, which stays in the nearest cache beside whatever
/// the consumer itself works on.
pub(crate) const BLOCK: usize = 128;
