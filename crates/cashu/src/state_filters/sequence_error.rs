//! [`SequenceError`] and [`SequenceErrorKind`]: why a manifest or an info document is invalid.

use alloc::string::{String, ToString};
use core::fmt;

use nutfilter::segment::Universe;
use serde::Deserialize;

use super::manifest::{MAX_NESTING, MAX_SEGMENTS};
use super::{Block, BlockInfo, Event};

/// Times and numbers are at most 2^53 - 1, the largest integer that every JSON reader keeps exactly.
pub(super) const MAX_NUMBER: u64 = (1 << 53) - 1;

/// A manifest or an info document is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct SequenceError(pub(super) Fault);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    #[error("manifest lists {segments} segments; the maximum is {MAX_SEGMENTS}")]
    TooManySegments { segments: usize },
    #[error("interval {start}-{end} is nested more than {MAX_NESTING} deep")]
    Nesting { start: u64, end: u64 },
    #[error("malformed document at line {line}, column {column}")]
    Json { line: usize, column: usize },
    #[error("unknown manifest version {version}; expected 1")]
    Version { version: u64 },
    #[error("manifest has an unknown kind")]
    Kind,
    #[error(fmt = states)]
    States { kind: Event },
    #[error(
        "invalid segment width {width}; a universe has {} to {} bits",
        Universe::MIN_WIDTH,
        Universe::MAX_WIDTH
    )]
    UniverseWidth { width: u32 },
    #[error(
        "invalid block width {width}; a block has 2^{} to 2^{} bits",
        Block::MIN_WIDTH,
        Block::MAX_WIDTH
    )]
    BlockWidth { width: u32 },
    #[error("invalid {member}; expected 64 hex digits")]
    Hex { member: &'static str },
    #[error(fmt = previous)]
    Previous { number: u64 },
    #[error("number {number} is too large; the maximum is {MAX_NUMBER}")]
    TooLarge { number: u64 },
    #[error("manifest lists no segments")]
    NoSegments,
    #[error("invalid interval {start}-{end}: it ends before it starts")]
    Interval { start: u64, end: u64 },
    #[error("interval {start}-{end} is repeated or out of order")]
    Order { start: u64, end: u64 },
    #[error("interval {start}-{end} overlaps one that ends at {outer}")]
    Overlap { start: u64, end: u64, outer: u64 },
    #[error("gap in the intervals: {covered} to {start} is not covered")]
    Gap { covered: u64, start: u64 },
    #[error("segment from {start} declares {n} values, more than {width} bits can hold")]
    TooManyValues { start: u64, n: u32, width: u32 },
    #[error("segment from {start} declares {length} bytes; {n} values take {min} to {max}")]
    Length {
        start: u64,
        n: u32,
        length: u64,
        min: u64,
        max: u64,
    },
    #[error(
        "block timeout of {timeout} s; the minimum is {} s",
        BlockInfo::MIN_TIMEOUT
    )]
    Timeout { timeout: u64 },
    #[error("open_interval is 0; expected seconds or null")]
    OpenInterval,
    #[error("info document lists no blocks")]
    NoBlocks,
    #[error(
        "gap in the blocks: the end of height {height} is {}, the next start is {}",
        or_open(*end),
        or_open(*next)
    )]
    BlockEnd {
        height: usize,
        end: Option<u64>,
        next: Option<u64>,
    },
}

/// The class of a [`SequenceError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SequenceErrorKind {
    /// The text is not a JSON object with the right members of the right types.
    Json,
    /// A manifest of a version or a kind that this version of the library does not know.
    Unknown,
    /// The members have values that are not allowed, or contradict each other.
    Invalid,
}

impl SequenceError {
    /// The class of the fault.
    #[must_use]
    pub fn kind(&self) -> SequenceErrorKind {
        match self.0 {
            Fault::Json { .. } => SequenceErrorKind::Json,
            Fault::Version { .. } | Fault::Kind => SequenceErrorKind::Unknown,
            _ => SequenceErrorKind::Invalid,
        }
    }
}

fn states(kind: &Event, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match kind.states() {
        [""] => write!(f, "manifest has states, but {kind} has none"),
        states => write!(
            f,
            "invalid states for {kind}; expected some of {}",
            states.join(" ")
        ),
    }
}

fn previous(number: &u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match number {
        0 => f.write_str("manifest 0 names a previous one; expected null"),
        number => write!(f, "manifest {number} does not name the previous one"),
    }
}

fn or_open(time: Option<u64>) -> String {
    time.map_or_else(|| "open".into(), |time| time.to_string())
}

/// The parser's error text is dropped, because it may quote the mint.
pub(super) fn parse<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, SequenceError> {
    serde_json::from_slice(json).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        SequenceError(Fault::Json { line, column })
    })
}
