//! [`SequencePath`]: where a mint serves its sequences.

use core::fmt;

use super::Event;

/// The resources of a sequence, and their paths below the mint's base URL.
///
/// ```
/// use nutfilter_cashu::state_filters::{Event, SequencePath};
///
/// let path = SequencePath::Segment(Event::ProofState, 0, 1_767_225_600);
/// assert_eq!(path.to_string(), "/v1/filters/segments/proof_state/0-1767225600");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SequencePath {
    /// The draft's list of blocks.
    BlockInfo(Event),
    /// The draft's block at this height.
    Block(Event, u64),
    /// The current manifest.
    Manifest(Event),
    /// The manifest with this number.
    OldManifest(Event, u64),
    /// The segment from start to end.
    Segment(Event, u64, u64),
}

impl fmt::Display for SequencePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BlockInfo(kind) => write!(f, "/v1/filters/info/{kind}"),
            Self::Block(kind, height) => write!(f, "/v1/filters/blocks/{kind}/{height}"),
            Self::Manifest(kind) => write!(f, "/v1/filters/manifest/{kind}"),
            Self::OldManifest(kind, number) => {
                write!(f, "/v1/filters/manifests/{kind}/{number}")
            }
            Self::Segment(kind, start, end) => {
                write!(f, "/v1/filters/segments/{kind}/{start}-{end}")
            }
        }
    }
}
