//! [`ElementHash`]: events to elements of 32 bytes.

use core::fmt;

use alloc::string::ToString;
use alloc::vec::Vec;

use sha2::{Digest, Sha256};

use super::{Fault, StateFilterError};
use crate::PointKind;

/// What a filter holds: `SHA256(domain || len32(kind) || kind || len32(id) || id || len32(state) || state)`.
pub type Element = [u8; 32];

/// The domain of the hash. It has no length in front of it.
const DOMAIN: &[u8] = b"Cashu_StateFilter_v1";

/// A kind of event. Each has a sequence of blocks of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Event {
    /// An existing proof changed its state. Its ID is the point `Y`.
    ProofState,
    /// A mint quote changed.
    MintQuote,
    /// A melt quote changed its state.
    MeltQuote,
    /// A signature can be restored. Its ID is the point `B_`.
    BlindSignature,
}

impl Event {
    /// All kinds.
    pub const ALL: [Self; 4] = [
        Self::ProofState,
        Self::MintQuote,
        Self::MeltQuote,
        Self::BlindSignature,
    ];

    /// The name in paths and in the hash.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ProofState => "proof_state",
            Self::MintQuote => "mint_quote",
            Self::MeltQuote => "melt_quote",
            Self::BlindSignature => "blind_signature",
        }
    }

    /// The kind with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.as_str() == name)
    }

    /// The allowed states. A kind without states has only the empty one.
    #[must_use]
    pub const fn states(self) -> &'static [&'static str] {
        match self {
            Self::ProofState => &["UNSPENT", "PENDING", "SPENT"],
            Self::MeltQuote => &["UNPAID", "PENDING", "PAID"],
            Self::MintQuote | Self::BlindSignature => &[""],
        }
    }

    /// Returns whether the ID is a compressed point. Otherwise it is the text of a quote ID.
    #[must_use]
    pub const fn has_point(self) -> bool {
        matches!(self, Self::ProofState | Self::BlindSignature)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Hashes the IDs of one kind and state.
///
/// The `sha2` crate uses the CPU's SHA instructions if it has them.
#[derive(Clone, Debug)]
pub struct ElementHash {
    event: Event,
    /// The hash of everything before the ID's length.
    prefix: Sha256,
    state: &'static str,
}

impl ElementHash {
    /// For events of this kind and state. The state is empty for kinds without states.
    ///
    /// # Errors
    ///
    /// The kind does not have this state.
    pub fn new(event: Event, state: &str) -> Result<Self, StateFilterError> {
        let known = event.states().iter().find(|known| **known == state);
        let Some(&state) = known else {
            let state = state.to_string();
            return Err(StateFilterError(Fault::State { event, state }));
        };
        let mut prefix = Sha256::new();
        prefix.update(DOMAIN);
        // Names are short.
        prefix.update((event.as_str().len() as u32).to_be_bytes());
        prefix.update(event.as_str());
        Ok(Self {
            event,
            prefix,
            state,
        })
    }

    /// The element of the event with this ID: the bytes of a point, or the text of a quote ID as the wallet got it.
    ///
    /// # Errors
    ///
    /// A point does not have the form of a [`PointKind`], or a quote ID is empty or not UTF-8.
    pub fn element(&self, id: &[u8]) -> Result<Element, StateFilterError> {
        let (event, bytes) = (self.event, id.len());
        // Other encodings of a point, or anything else, would be an element that no one asks for.
        if event.has_point() && PointKind::of(id).is_none() {
            let first = id.first().copied();
            return Err(StateFilterError(Fault::Point {
                event,
                bytes,
                first,
            }));
        }
        if bytes == 0 {
            return Err(StateFilterError(Fault::EmptyId { event }));
        }
        if !event.has_point() && core::str::from_utf8(id).is_err() {
            return Err(StateFilterError(Fault::QuoteText { event }));
        }
        let len = u32::try_from(bytes).map_err(|_| StateFilterError(Fault::IdLength { bytes }))?;
        Ok(self.hash(len, id))
    }

    /// The elements of many IDs.
    ///
    /// # Errors
    ///
    /// As [`ElementHash::element`].
    pub fn elements<I: AsRef<[u8]>>(&self, ids: &[I]) -> Result<Vec<Element>, StateFilterError> {
        ids.iter().map(|id| self.element(id.as_ref())).collect()
    }

    fn hash(&self, len: u32, id: &[u8]) -> Element {
        let mut hash = self.prefix.clone();
        hash.update(len.to_be_bytes());
        hash.update(id);
        // At most 7.
        hash.update((self.state.len() as u32).to_be_bytes());
        hash.update(self.state);
        hash.finalize().into()
    }
}
