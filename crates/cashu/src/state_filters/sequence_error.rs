//! [`SequenceError`] and [`SequenceErrorKind`]: why a manifest or an info document is invalid.

use core::error::Error;
use core::fmt;

use nutfilter::segment::Universe;
use serde::Deserialize;

use super::manifest::{MAX_NESTING, MAX_SEGMENTS};
use super::{Block, BlockInfo, Event};

/// Times and numbers are at most 2^53 - 1, the largest integer that every JSON reader keeps exactly.
pub(super) const MAX_NUMBER: u64 = (1 << 53) - 1;

/// A manifest or an info document is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceError(pub(super) Fault);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    TooManySegments {
        segments: usize,
    },
    Nesting {
        start: u64,
        end: u64,
    },
    Json {
        line: usize,
        column: usize,
    },
    Version {
        version: u64,
    },
    Kind,
    States {
        kind: Event,
    },
    UniverseWidth {
        width: u32,
    },
    BlockWidth {
        width: u32,
    },
    Hex {
        member: &'static str,
    },
    Previous {
        number: u64,
    },
    TooLarge {
        number: u64,
    },
    NoSegments,
    Interval {
        start: u64,
        end: u64,
    },
    Order {
        start: u64,
        end: u64,
    },
    Overlap {
        start: u64,
        end: u64,
        outer: u64,
    },
    Gap {
        covered: u64,
        start: u64,
    },
    TooManyValues {
        start: u64,
        n: u32,
        width: u32,
    },
    Length {
        start: u64,
        n: u32,
        length: u64,
        min: u64,
        max: u64,
    },
    Timeout {
        timeout: u64,
    },
    OpenInterval,
    NoBlocks,
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

impl fmt::Display for SequenceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Fault::Json { line, column } => {
                write!(f, "malformed document at line {line}, column {column}")
            }
            Fault::Version { version } => {
                write!(f, "unknown manifest version {version}; expected 1")
            }
            Fault::Kind => f.write_str("manifest has an unknown kind"),
            Fault::States { kind } => match kind.states() {
                [""] => write!(f, "manifest has states, but {kind} has none"),
                states => {
                    write!(f, "invalid states for {kind}; expected some of")?;
                    states.iter().try_for_each(|state| write!(f, " {state}"))
                }
            },
            Fault::UniverseWidth { width } => write!(
                f,
                "invalid segment width {width}; a universe has {} to {} bits",
                Universe::MIN_WIDTH,
                Universe::MAX_WIDTH
            ),
            Fault::BlockWidth { width } => write!(
                f,
                "invalid block width {width}; a block has 2^{} to 2^{} bits",
                Block::MIN_WIDTH,
                Block::MAX_WIDTH
            ),
            Fault::Hex { member } => write!(f, "invalid {member}; expected 64 hex digits"),
            Fault::Previous { number: 0 } => {
                f.write_str("manifest 0 names a previous one; expected null")
            }
            Fault::Previous { number } => {
                write!(f, "manifest {number} does not name the previous one")
            }
            Fault::TooLarge { number } => {
                write!(
                    f,
                    "number {number} is too large; the maximum is {MAX_NUMBER}"
                )
            }
            Fault::NoSegments => f.write_str("manifest lists no segments"),
            Fault::TooManySegments { segments } => write!(
                f,
                "manifest lists {segments} segments; the maximum is {MAX_SEGMENTS}"
            ),
            Fault::Nesting { start, end } => write!(
                f,
                "interval {start}-{end} is nested more than {MAX_NESTING} deep"
            ),
            Fault::Interval { start, end } => {
                write!(
                    f,
                    "invalid interval {start}-{end}: it ends before it starts"
                )
            }
            Fault::Order { start, end } => {
                write!(f, "interval {start}-{end} is repeated or out of order")
            }
            Fault::Overlap { start, end, outer } => write!(
                f,
                "interval {start}-{end} overlaps one that ends at {outer}"
            ),
            Fault::Gap { covered, start } => {
                write!(
                    f,
                    "gap in the intervals: {covered} to {start} is not covered"
                )
            }
            Fault::TooManyValues { start, n, width } => write!(
                f,
                "segment from {start} declares {n} values, more than {width} bits can hold"
            ),
            Fault::Length {
                start,
                n,
                length,
                min,
                max,
            } => write!(
                f,
                "segment from {start} declares {length} bytes; {n} values take {min} to {max}"
            ),
            Fault::Timeout { timeout } => write!(
                f,
                "block timeout of {timeout} s; the minimum is {} s",
                BlockInfo::MIN_TIMEOUT
            ),
            Fault::OpenInterval => f.write_str("open_interval is 0; expected seconds or null"),
            Fault::NoBlocks => f.write_str("info document lists no blocks"),
            Fault::BlockEnd { height, end, next } => {
                let or_open = |time: Option<u64>| {
                    time.map_or_else(|| "open".into(), |time| alloc::format!("{time}"))
                };
                let (end, next) = (or_open(end), or_open(next));
                write!(
                    f,
                    "gap in the blocks: the end of height {height} is {end}, the next start is {next}"
                )
            }
        }
    }
}

impl Error for SequenceError {}

/// The parser's error text is dropped, because it may quote the mint.
pub(super) fn parse<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, SequenceError> {
    serde_json::from_slice(json).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        SequenceError(Fault::Json { line, column })
    })
}
