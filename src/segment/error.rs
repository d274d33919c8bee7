//! [`SegmentError`].

use core::error::Error;

use super::Universe;
use crate::error::{BuildError, DecodeError, faults};
use crate::gcs::GcsError;

/// Bytes are not a valid segment, or an operation does not apply to the given segments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SegmentError(pub(super) SegmentFault);

faults! {
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(super) enum SegmentFault of SegmentError: SegmentErrorKind {
        Width { width: u32 } => BadParameter,
            "invalid segment width {width}; a universe has {} to {} bits",
            Universe::MIN_WIDTH, Universe::MAX_WIDTH;
        Gcs { error: GcsError } => File, "{error}";
        Kind { kind: u8 } => File, ".gcs file of kind {kind}, which is not a segment (kind 2)";
        HeaderCut { bytes: usize } => Invalid,
            "truncated segment header: 6 bytes expected, {bytes} found";
        TooManyItems { n: u32, width: u32 } => Invalid,
            "segment declares {n} distinct values, more than {width} bits can hold";
        RemainderBits { p: u32, expected: u32, n: u32 } => Invalid,
            "segment of {n} values has P = {p}; canonical is P = {expected}";
        Decode { error: DecodeError } => Invalid, "invalid segment: {error}";
        Repeated { item: u64 } => Invalid,
            "segment is not canonical: value {item} repeats the one before it";
        OtherWidth { width: u32, other: u32 } => BadParameter,
            "segments of different widths, {width} and {other} bits; fold them to one width first";
        Wider { width: u32, wanted: u32 } => BadParameter,
            "cannot fold a segment of {width} bits to {wanted} bits; a fold only drops bits";
        NoParts => BadParameter, "no segments to merge";
        Build { error: BuildError } => Build, "{error}";
    }
}

/// The class of a [`SegmentError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SegmentErrorKind {
    /// A width is outside the limits or does not fit the operation, or there is nothing to merge.
    BadParameter,
    /// The bytes are not a `.gcs` file, or a damaged one, or a file of another kind.
    File,
    /// The contents of the file are not a canonical segment.
    Invalid,
    /// The result has too many values, or memory cannot be allocated.
    Build,
}

impl Error for SegmentError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.0 {
            SegmentFault::Decode { error } => Some(error),
            _ => None,
        }
    }
}

impl From<GcsError> for SegmentError {
    fn from(error: GcsError) -> Self {
        Self(SegmentFault::Gcs { error })
    }
}

impl From<DecodeError> for SegmentError {
    fn from(error: DecodeError) -> Self {
        Self(SegmentFault::Decode { error })
    }
}

impl From<BuildError> for SegmentError {
    fn from(error: BuildError) -> Self {
        Self(SegmentFault::Build { error })
    }
}
