//! Why a refresh failed.

use std::io;

use crate::source::{SourceError, Transient};
use crate::state::StateError;

/// Why one filter or all filters could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RefreshError {
    /// The mint's records could not be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A set could not be stored, or cannot be encoded as a filter.
    #[error(transparent)]
    State(#[from] StateError),
    /// The source's own count differs from the number of items received: some items were lost on the way.
    #[error("source counted {said} items but returned {came}")]
    Miscounted {
        /// The count that the source returned.
        said: u64,
        /// The number of items received.
        came: u64,
    },
    /// A body could not be written to its [`BodyPlace`](crate::BodyPlace).
    #[error("could not write a filter body: {0}")]
    Body(#[source] io::Error),
}

impl Transient for RefreshError {
    fn is_transient(&self) -> bool {
        matches!(self, RefreshError::Source(error) if error.is_transient())
    }
}
