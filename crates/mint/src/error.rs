//! Why nothing new could be published.

use core::error::Error;
use core::fmt;
use std::io;

use crate::source::{SourceError, Transient};
use crate::state::StateError;

/// Why one filter or all filters could not be built.
#[derive(Debug)]
#[non_exhaustive]
pub enum PublishError {
    /// The mint's records could not be read.
    Source(SourceError),
    /// A set could not be stored, or cannot be encoded as a filter.
    State(StateError),
    /// The source's own count differs from the number of items received: some items were lost on the way.
    Miscounted {
        /// The count that the source returned.
        said: u64,
        /// The number of items received.
        came: u64,
    },
    /// A body could not be written to its [`BodyPlace`](crate::BodyPlace).
    Body(io::Error),
}

impl fmt::Display for PublishError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PublishError::Source(error) => error.fmt(f),
            PublishError::State(error) => error.fmt(f),
            PublishError::Miscounted { said, came } => {
                write!(f, "source counted {said} items but returned {came}")
            }
            PublishError::Body(error) => {
                write!(f, "could not write a filter body: {error}")
            }
        }
    }
}

impl Error for PublishError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            PublishError::Source(error) => error.source(),
            PublishError::State(error) => error.source(),
            PublishError::Miscounted { .. } => None,
            PublishError::Body(error) => Some(error),
        }
    }
}

impl Transient for PublishError {
    fn is_transient(&self) -> bool {
        matches!(self, PublishError::Source(error) if error.is_transient())
    }
}

impl From<SourceError> for PublishError {
    fn from(error: SourceError) -> Self {
        PublishError::Source(error)
    }
}

impl From<StateError> for PublishError {
    fn from(error: StateError) -> Self {
        PublishError::State(error)
    }
}
