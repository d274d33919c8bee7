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

use core::fmt;

use alloc::string::String;

pub use block::{Block, Positions};
pub use block_info::{BlockInfo, BlockInterval};
pub use element::{Element, ElementHash, Event};
pub use manifest::{Manifest, ManifestSegment};
pub use path::SequencePath;
pub use sequence_error::{SequenceError, SequenceErrorKind};

/// An event, an item or a block that the draft does not allow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct StateFilterError(Fault);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Fault {
    #[error(fmt = invalid_state)]
    State { event: Event, state: String },
    #[error(fmt = invalid_point)]
    Point {
        event: Event,
        bytes: usize,
        first: Option<u8>,
    },
    #[error("empty {event} ID")]
    EmptyId { event: Event },
    #[error("{event} ID is not UTF-8")]
    QuoteText { event: Event },
    #[error("ID of {bytes} bytes; the maximum is {}", u32::MAX)]
    IdLength { bytes: usize },
    #[error(
        "invalid block width {width}; a block has 2^{} to 2^{} bits",
        Block::MIN_WIDTH,
        Block::MAX_WIDTH
    )]
    Width { width: u32 },
    #[error("not a block: {bytes} bytes are not a power of two from 4 to 8388608")]
    BlockLength { bytes: usize },
    #[error("cannot fold a block of width {width} to width {wanted}; a fold only makes it smaller")]
    Wider { width: u32, wanted: u32 },
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

fn invalid_point(
    event: &Event,
    bytes: &usize,
    first: &Option<u8>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    write!(
        f,
        "{event} takes compressed points: 33 bytes that begin with 02 or 03, or 48 that begin with 80 to bf; not {bytes}"
    )?;
    first.map_or(Ok(()), |first| write!(f, " that begin with {first:02x}"))
}

fn invalid_state(event: &Event, state: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match event.states() {
        [""] => write!(f, "{event} has no states; '{state}' was given"),
        states => write!(
            f,
            "invalid state '{state}' of {event}; expected {}",
            states.join(" or ")
        ),
    }
}
