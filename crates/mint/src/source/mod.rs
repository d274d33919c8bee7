//! Where the notes come from: a mint's database, or anything else that can list keysets and their items.
//!
//! [`MintSource`] is the whole boundary. The rest of the crate knows nothing of tables and columns; to
//! serve another mint, implement the trait and hand it to [`Publisher::new`](crate::Publisher::new).

mod batch;
mod error;
mod location;
mod retry;
mod sqlite;

use core::fmt;
use core::ops::ControlFlow;

pub use batch::ItemBatch;
pub use error::{RowFault, SourceError};
pub use location::DatabaseLocation;
pub use retry::{Passing, twice_if_passing};
pub use sqlite::SqliteSource;

use crate::{KeysetId, Kind};

/// A mint's records of its notes, to be read and never written.
///
/// # Writing one for another mint
///
/// - The methods may block; they are called on one thread at a time, and never on an async one.
/// - The store belongs to the mint: hold no lock that its writers wait for, and no transaction open
///   between calls.
/// - Each call of [`stream`](Self::stream) sees one consistent state of the store, no older than the
///   start of the call: the filter built of it will claim to be right as of then.
/// - An item that cannot be read is an error. A filter with an item missing tells a wallet that a spent
///   note is not spent, which is the one thing that must not happen.
///
/// ```
/// use core::ops::ControlFlow;
/// use nutfilter_mint::source::{ItemBatch, Keysets, KeysetInfo, MintSource, SourceError};
/// use nutfilter_mint::{KeysetId, Kind};
///
/// /// A mint with one keyset and one spent note.
/// struct OneNote(KeysetId);
///
/// impl MintSource for OneNote {
///     fn mint(&self) -> &str {
///         "one-note"
///     }
///
///     fn keysets(&self) -> Result<Keysets, SourceError> {
///         let keyset = KeysetInfo {
///             id: self.0.clone(),
///             unit: Some("sat".to_owned()),
///             active: true,
///             input_fee_ppk: 0,
///         };
///         Ok(Keysets { keysets: vec![keyset], unservable: vec![] })
///     }
///
///     fn stream(
///         &self,
///         keyset: &KeysetId,
///         kind: Kind,
///         sink: &mut dyn FnMut(&ItemBatch) -> ControlFlow<()>,
///     ) -> Result<u64, SourceError> {
///         if keyset != &self.0 || kind != Kind::Spent {
///             return Ok(0);
///         }
///         let mut batch = ItemBatch::new();
///         batch.push(&[2; 33]);
///         match sink(&batch) {
///             ControlFlow::Continue(()) => Ok(1),
///             ControlFlow::Break(()) => Err(SourceError::Stopped),
///         }
///     }
/// }
/// ```
pub trait MintSource: Send + Sync {
    /// The mint's software in a word, for logs and `/health`.
    fn mint(&self) -> &str;

    /// Every keyset that the mint lists, and every keyset that has notes though it is listed no more.
    ///
    /// # Errors
    ///
    /// If the store cannot be reached or is not as expected.
    fn keysets(&self) -> Result<Keysets, SourceError>;

    /// Hands all items of a keyset and kind to `sink`, in batches and in any order, and returns how many
    /// there were. A keyset without notes has no items, which is no error.
    ///
    /// # Errors
    ///
    /// If the store cannot be reached, is not as expected, or holds something that is no item; and
    /// [`SourceError::Stopped`] once `sink` breaks off. What `sink` was given before is then to be
    /// thrown away.
    fn stream(
        &self,
        keyset: &KeysetId,
        kind: Kind,
        sink: &mut dyn FnMut(&ItemBatch) -> ControlFlow<()>,
    ) -> Result<u64, SourceError>;
}

/// The mints whose databases this crate can read by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MintType {
    /// nutshell, in Python.
    Nutshell,
    /// The Cashu Development Kit's mintd, in Rust.
    Cdk,
}

impl MintType {
    /// All of them.
    pub const ALL: [MintType; 2] = [MintType::Cdk, MintType::Nutshell];

    /// The word for it in configuration and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            MintType::Nutshell => "nutshell",
            MintType::Cdk => "cdk",
        }
    }
}

impl fmt::Display for MintType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What [`MintSource::keysets`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keysets {
    /// Those that can be served, each once. One that the store spells in two ways is here once too, and
    /// is refused by [`stream`](MintSource::stream).
    pub keysets: Vec<KeysetInfo>,
    /// Ids in the store that have no shape of a keyset id, so that no request could name them. They are
    /// reported so that somebody can wonder about them.
    pub unservable: Vec<String>,
}

impl Keysets {
    /// Logs the ids that are none, if there are any.
    pub fn warn_of_unservable(&self) {
        if !self.unservable.is_empty() {
            tracing::warn!(ids = ?self.unservable, "these are no keyset ids, and cannot be served");
        }
    }
}

/// One keyset, as far as a wallet has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeysetInfo {
    /// The id, spelled as the store spells it.
    pub id: KeysetId,
    /// The unit (`sat`, `usd`); `None` if only notes of the keyset were found, and no description.
    pub unit: Option<String>,
    /// Whether the mint still signs with it.
    pub active: bool,
    /// The fee for an input, in thousandths of the unit.
    pub input_fee_ppk: u64,
}
