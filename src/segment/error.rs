//! [`SegmentError`].

use core::error::Error;
use core::fmt;

use super::Universe;
use crate::error::{BuildError, DecodeError};
use crate::gcs::GcsError;

/// Bytes are not a valid segment, or an operation does not apply to the given segments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SegmentError(pub(super) SegmentFault);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum SegmentFault {
    Width { width: u32 },
    Gcs(GcsError),
    Kind { kind: u8 },
    HeaderCut { bytes: usize },
    TooManyItems { n: u32, width: u32 },
    RemainderBits { p: u32, expected: u32, n: u32 },
    Decode(DecodeError),
    Repeated { item: u64 },
    OtherWidth { width: u32, other: u32 },
    Wider { width: u32, wanted: u32 },
    NoParts,
    Build(BuildError),
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

impl SegmentError {
    /// The class of the fault.
    #[must_use]
    pub fn kind(&self) -> SegmentErrorKind {
        match self.0 {
            SegmentFault::Width { .. }
            | SegmentFault::OtherWidth { .. }
            | SegmentFault::Wider { .. }
            | SegmentFault::NoParts => SegmentErrorKind::BadParameter,
            SegmentFault::Gcs(_) | SegmentFault::Kind { .. } => SegmentErrorKind::File,
            SegmentFault::HeaderCut { .. }
            | SegmentFault::TooManyItems { .. }
            | SegmentFault::RemainderBits { .. }
            | SegmentFault::Decode(_)
            | SegmentFault::Repeated { .. } => SegmentErrorKind::Invalid,
            SegmentFault::Build(_) => SegmentErrorKind::Build,
        }
    }
}

impl fmt::Display for SegmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            SegmentFault::Width { width } => write!(
                f,
                "invalid segment width {width}; a universe has {} to {} bits",
                Universe::MIN_WIDTH,
                Universe::MAX_WIDTH
            ),
            SegmentFault::Gcs(error) => error.fmt(f),
            SegmentFault::Kind { kind } => {
                write!(
                    f,
                    ".gcs file of kind {kind}, which is not a segment (kind 2)"
                )
            }
            SegmentFault::HeaderCut { bytes } => {
                write!(
                    f,
                    "truncated segment header: 6 bytes expected, {bytes} found"
                )
            }
            SegmentFault::TooManyItems { n, width } => write!(
                f,
                "segment declares {n} distinct values, more than {width} bits can hold"
            ),
            SegmentFault::RemainderBits { p, expected, n } => write!(
                f,
                "segment of {n} values has P = {p}; canonical is P = {expected}"
            ),
            SegmentFault::Decode(error) => write!(f, "invalid segment: {error}"),
            SegmentFault::Repeated { item } => {
                write!(
                    f,
                    "segment is not canonical: value {item} repeats the one before it"
                )
            }
            SegmentFault::OtherWidth { width, other } => write!(
                f,
                "segments of different widths, {width} and {other} bits; fold them to one width first"
            ),
            SegmentFault::Wider { width, wanted } => write!(
                f,
                "cannot fold a segment of {width} bits to {wanted} bits; a fold only drops bits"
            ),
            SegmentFault::NoParts => f.write_str("no segments to merge"),
            SegmentFault::Build(error) => error.fmt(f),
        }
    }
}

impl Error for SegmentError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.0 {
            SegmentFault::Decode(error) => Some(error),
            _ => None,
        }
    }
}

impl From<GcsError> for SegmentError {
    fn from(error: GcsError) -> Self {
        Self(SegmentFault::Gcs(error))
    }
}

impl From<DecodeError> for SegmentError {
    fn from(error: DecodeError) -> Self {
        Self(SegmentFault::Decode(error))
    }
}

impl From<BuildError> for SegmentError {
    fn from(error: BuildError) -> Self {
        Self(SegmentFault::Build(error))
    }
}
