//! Sources of notes: a mint's database, or anything else that can list keysets and their items.
//!
//! [`MintSource`] is the only interface. The rest of the crate does not depend on tables and columns. To serve
//! another mint, implement the trait and pass it to
//! [`Filters::with_source`](crate::Filters::with_source).

mod batch;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod by_keyset;
mod error;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod location;
mod notes;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
#[cfg_attr(not(feature = "sqlite"), allow(dead_code))]
mod schema;
#[cfg(feature = "sqlite")]
mod sqlite;

use core::fmt;
use core::ops::ControlFlow;
use core::time::Duration;

use nutfilter_cashu::{KeysetId, NoteKind};

pub use batch::ItemBatch;
pub(crate) use error::retry_changed;
pub use error::{Result, RowFault, SourceError};
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use location::{DatabaseLocation, open};
pub use notes::{Commit, CommitToken, Notes, NotesSource};
#[cfg(feature = "postgres")]
pub use postgres::PostgresSource;
#[cfg(feature = "sqlite")]
pub use {
    location::open_alone,
    sqlite::{IsLocked, SqliteSource},
};

/// Read-only access to a mint's records of its notes.
///
/// # Implementing a source for another mint
///
/// - The methods may block. They are called on one thread at a time, and never on an async thread.
/// - The store belongs to the mint: hold no lock that its writers wait for, and keep no transaction open between
///   calls.
/// - Each call of [`read`](Self::read) must see one consistent state of the store, no older than the start of the
///   call. The filters claim to be complete as of that time.
/// - Report every item that cannot be read. A filter that lacks an item tells a wallet that a spent note is
///   unspent. This must never happen.
/// - Items may be passed on more than once: sets do not change by that. So in doubt, read everything.
///
/// ```
/// use nutfilter_mint::source::{ItemBatch, ItemSink, Keysets, KeysetInfo, MintSource, Reading, Result, SourceError};
/// use nutfilter_mint::{KeysetId, NoteKind};
///
/// /// A mint with one keyset and one spent note.
/// struct OneNote(KeysetId);
///
/// impl MintSource for OneNote {
///     fn mint(&self) -> &str {
///         "one-note"
///     }
///
///     fn keysets(&mut self) -> Result<Keysets> {
///         Ok(Keysets::of([KeysetInfo::new(self.0.clone())]))
///     }
///
///     fn read(&mut self, kind: NoteKind, _whole: bool, sink: &mut dyn ItemSink) -> Result<Reading> {
///         if kind == NoteKind::Spent {
///             let mut batch = ItemBatch::new();
///             batch.push(&[2; 33]);
///             if sink.items(Some(&self.0), &batch).is_break() {
///                 return Err(SourceError::Stopped);
///             }
///         }
///         Ok(Reading::whole())
///     }
/// }
/// ```
pub trait MintSource: Send {
    /// Short name of the mint's software, for logs and `/health`.
    fn mint(&self) -> &str;

    /// Lists the mint's keysets. Keysets that occur only in notes are reported with the notes.
    ///
    /// # Errors
    ///
    /// If the store cannot be reached or has an unexpected schema.
    fn keysets(&mut self) -> Result<Keysets>;

    /// Passes the items of a kind to `sink`, over all keysets, in batches and in any order: those that began to count
    /// since the last call for this kind that succeeded, and any others; or all of them, as `whole` demands, or if the
    /// source cannot tell which are new.
    ///
    /// # Errors
    ///
    /// If the store cannot be reached or has an unexpected schema. [`SourceError::Stopped`] once `sink` breaks. After an
    /// error, the items passed to `sink` must be discarded, and the next call reads everything.
    fn read(&mut self, kind: NoteKind, whole: bool, sink: &mut dyn ItemSink) -> Result<Reading>;

    /// Whether the store seems to be one that no mint has open, so that its readings may be older than they look.
    fn is_alone(&self) -> bool {
        false
    }

    /// The commits that hold the dates back, if the mint [hands its notes over](Notes).
    fn open_commits(&self) -> OpenCommits {
        OpenCommits::default()
    }
}

impl fmt::Debug for dyn MintSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.mint())
    }
}

/// A boxed source, for a choice at run time.
impl<S: MintSource + ?Sized> MintSource for Box<S> {
    fn mint(&self) -> &str {
        (**self).mint()
    }

    fn keysets(&mut self) -> Result<Keysets> {
        (**self).keysets()
    }

    fn read(&mut self, kind: NoteKind, whole: bool, sink: &mut dyn ItemSink) -> Result<Reading> {
        (**self).read(kind, whole, sink)
    }

    fn is_alone(&self) -> bool {
        (**self).is_alone()
    }

    fn open_commits(&self) -> OpenCommits {
        (**self).open_commits()
    }
}

/// Receives the items of a reading.
pub trait ItemSink {
    /// Receives items of a keyset, or items whose keyset is missing or unreadable: these count in every filter of the
    /// kind. `Break` ends the reading with [`SourceError::Stopped`].
    fn items(&mut self, keyset: Option<&KeysetId>, items: &ItemBatch) -> ControlFlow<()>;

    /// Receives hashes of items ([`Nut25`](nutfilter::Nut25)) of a keyset. A sink that needs the items breaks.
    fn hashes(&mut self, _keyset: &KeysetId, _hashes: &[u64]) -> ControlFlow<()> {
        ControlFlow::Break(())
    }

    /// Receives the error of an item that could not be read. The reading continues, because other keysets are not
    /// affected. Without a keyset no filter is held back.
    fn bad_row(&mut self, keyset: Option<&KeysetId>, error: SourceError) -> ControlFlow<()>;
}

/// Result of [`MintSource::read`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Why all items were passed on, in one or two words for logs and metrics; `None` if only new ones were.
    pub whole: Option<&'static str>,
    /// When it is true.
    pub as_of: AsOf,
    /// Invalid keyset ids that occur in notes. Their items were passed on without a keyset.
    pub unservable: Vec<String>,
}

/// The moment up to which a reading has every item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AsOf {
    /// When the reading began.
    Beginning,
    /// So long before the reading began: what began to be written then has not ended.
    Before(Duration),
    /// When the reading began, by the store's own clock, in Unix seconds. The earlier of both clocks counts.
    StoreClock(u64),
    /// The store's own last change, in Unix seconds: nothing newer can be proved.
    LastChange(u64),
    /// Nothing can be proved. A published filter keeps its date, and no other one is made.
    Unknown,
}

/// Commits of a mint that [hands its notes over](Notes), which hold the dates of all filters back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenCommits {
    /// The number of commits that have not ended, as far as the mint has said.
    pub open: u64,
    /// Those of them that were dropped without an outcome: doubts.
    pub doubts: u64,
    /// The time since the oldest one began.
    pub oldest: Option<Duration>,
}

impl Reading {
    /// A reading of all items.
    #[must_use]
    pub fn whole() -> Self {
        Self { whole: Some("source"), as_of: AsOf::Beginning, unservable: vec![] }
    }

    /// Whether all items were passed on.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.whole.is_some()
    }
}

/// The mints whose databases this crate can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MintType {
    /// nutshell, in Python.
    Nutshell,
    /// The Cashu Development Kit's mintd, in Rust.
    Cdk,
}

impl MintType {
    /// All mint types.
    pub const ALL: [MintType; 2] = [MintType::Cdk, MintType::Nutshell];

    /// The name in configuration and logs.
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

/// Result of [`MintSource::keysets`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keysets {
    /// The keysets that can be served, each once, even if the store spells an id in several ways.
    pub keysets: Vec<KeysetInfo>,
    /// Invalid keyset ids in the store. No request can name them; they are reported for the operator.
    pub unservable: Vec<String>,
}

impl Keysets {
    /// These keysets, of which each must occur once.
    pub fn of(keysets: impl IntoIterator<Item = KeysetInfo>) -> Self {
        Self { keysets: keysets.into_iter().collect(), unservable: vec![] }
    }

    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    /// Adds a keyset, or its id to the invalid ones. If several rows spell the same id, the first one is used.
    fn add(
        &mut self,
        id: &str,
        unit: Option<String>,
        active: bool,
        input_fee_ppk: u64,
        final_expiry: Option<u64>,
    ) {
        let Ok(id) = KeysetId::parse(id) else {
            if !self.unservable.iter().any(|known| known == id) {
                self.unservable.push(id.to_owned());
            }
            return;
        };
        if let Err(at) = self.keysets.binary_search_by(|known| known.id.cmp(&id)) {
            let info = KeysetInfo { id, unit, active, input_fee_ppk, final_expiry };
            self.keysets.insert(at, info);
        }
    }
}

/// The properties of a keyset that a wallet needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeysetInfo {
    /// The id, spelled as in the store.
    pub id: KeysetId,
    /// The unit (`sat`, `usd`); `None` if the store has notes of the keyset but no description.
    pub unit: Option<String>,
    /// Whether the mint still signs with it.
    pub active: bool,
    /// The fee per input, in thousandths of the unit.
    pub input_fee_ppk: u64,
    /// When the keyset ends (NUT-02), in Unix seconds; `None` if it does not, or the store does not say.
    pub final_expiry: Option<u64>,
}

impl KeysetInfo {
    /// An active keyset of `sat`, without a fee.
    #[must_use]
    pub fn new(id: KeysetId) -> Self {
        Self {
            id,
            unit: Some("sat".to_owned()),
            active: true,
            input_fee_ppk: 0,
            final_expiry: None,
        }
    }
}
