//! The open Cashu draft on compact state filters, text of September 2026: elements and Bloom blocks. And sequences of
//! [segments](nutfilter::segment) for the same elements.
//!
//! The draft may still change, so all its rules are in this module. An [`ElementHash`] turns an event into an
//! element of 32 bytes, and a [`Block`] is a bitmap of elements. A mint lists its blocks in a [`BlockInfo`], and its
//! segments in a [`Manifest`].
//!
//! ```
//! use nutfilter_cashu::state_filters::{Block, ElementHash, Event};
//!
//! let spent = ElementHash::new(Event::ProofState, "SPENT")?;
//! let element = spent.element(&[2; 33])?;
//! let mut block = Block::new(20)?;
//! block.insert(&element);
//! assert!(block.may_contain(&element));
//! # Ok::<(), nutfilter_cashu::state_filters::StateFilterError>(())
//! ```

mod block;
mod block_info;
mod element;
pub mod manifest;
mod path;
mod sequence_error;

use core::error::Error;
use core::fmt;

use alloc::string::String;

pub use block::{Block, Positions};
pub use block_info::{BlockInfo, BlockInterval};
pub use element::{Element, ElementHash, Event};
pub use manifest::{Manifest, ManifestSegment};
pub use path::SequencePath;
pub use sequence_error::{SequenceError, SequenceErrorKind};

/// An event, an item or a block that the draft does not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateFilterError(Fault);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Fault {
    State {
        event: Event,
        state: String,
    },
    Point {
        event: Event,
        bytes: usize,
        first: Option<u8>,
    },
    EmptyId {
        event: Event,
    },
    QuoteText {
        event: Event,
    },
    IdLength {
        bytes: usize,
    },
    Width {
        width: u32,
    },
    BlockLength {
        bytes: usize,
    },
    Wider {
        width: u32,
        wanted: u32,
    },
}

/// The class of a [`StateFilterError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StateFilterErrorKind {
    /// The kind of event has no such state.
    State,
    /// The item is not one that the kind of event takes.
    Item,
    /// The width or the length of a block is outside the limits, or does not fit the operation.
    Block,
}

impl StateFilterError {
    /// The class of the fault.
    #[must_use]
    pub fn kind(&self) -> StateFilterErrorKind {
        match self.0 {
            Fault::State { .. } => StateFilterErrorKind::State,
            Fault::Point { .. }
            | Fault::EmptyId { .. }
            | Fault::QuoteText { .. }
            | Fault::IdLength { .. } => StateFilterErrorKind::Item,
            Fault::Width { .. } | Fault::BlockLength { .. } | Fault::Wider { .. } => {
                StateFilterErrorKind::Block
            }
        }
    }
}

impl fmt::Display for StateFilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Fault::State { event, state } => match event.states() {
                [""] => write!(f, "{event} has no states; '{state}' was given"),
                [first, others @ ..] => {
                    write!(f, "invalid state '{state}' of {event}; expected {first}")?;
                    others.iter().try_for_each(|state| write!(f, " or {state}"))
                }
                [] => Ok(()),
            },
            Fault::Point {
                event,
                bytes,
                first,
            } => {
                write!(
                    f,
                    "{event} takes compressed points: 33 bytes that begin with 02 or 03, or 48 that begin with 80 to bf; \
                     not {bytes}"
                )?;
                first.map_or(Ok(()), |first| write!(f, " that begin with {first:02x}"))
            }
            Fault::EmptyId { event } => write!(f, "empty {event} ID"),
            Fault::QuoteText { event } => write!(f, "{event} ID is not UTF-8"),
            Fault::IdLength { bytes } => {
                write!(f, "ID of {bytes} bytes; the maximum is {}", u32::MAX)
            }
            Fault::Width { width } => write!(
                f,
                "invalid block width {width}; a block has 2^{} to 2^{} bits",
                Block::MIN_WIDTH,
                Block::MAX_WIDTH
            ),
            Fault::BlockLength { bytes } => write!(
                f,
                "not a block: {bytes} bytes are not a power of two from 4 to 8388608"
            ),
            Fault::Wider { width, wanted } => write!(
                f,
                "cannot fold a block of width {width} to width {wanted}; a fold only makes it smaller"
            ),
        }
    }
}

impl Error for StateFilterError {}
