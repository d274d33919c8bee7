//! Where the notes come from: a mint's database, or anything else that can list keysets and their items.
//!
//! [`MintSource`] is the whole boundary. The rest of the crate knows nothing of tables and columns; to
//! serve another mint, implement the trait and hand it to [`Publisher::new`](crate::Publisher::new).

mod batch;
mod by_keyset;
mod error;
mod feed;
mod listing;
mod location;
mod postgres;
mod retry;
mod schema;
mod sqlite;

use core::fmt;
use core::ops::ControlFlow;

pub use batch::ItemBatch;
pub use error::{RowFault, SourceError};
pub use feed::{FeedError, FeedHandle, FeedSource, ItemFeed, Wanted, feed, feed_with_capacity};
pub use location::{DatabaseLocation, open};
pub use postgres::PostgresSource;
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
/// - Each call of [`read`](Self::read) sees one consistent state of the store, no older than the start of
///   the call: the filters built of it will claim to be right as of then.
/// - An item that cannot be read is to be reported. A filter with an item missing tells a wallet that a
///   spent note is not spent, which is the one thing that must not happen.
/// - A store that can tell what is new gives a [`Watermark`] with each reading. One that cannot gives none,
///   and is read whole each time.
///
/// ```
/// use nutfilter_mint::source::{
///     ItemBatch, ItemSink, Keysets, KeysetInfo, MintSource, Reading, SourceError, Watermark,
/// };
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
///     fn keysets(&mut self) -> Result<Keysets, SourceError> {
///         let keyset = KeysetInfo {
///             id: self.0.clone(),
///             unit: Some("sat".to_owned()),
///             active: true,
///             input_fee_ppk: 0,
///         };
///         Ok(Keysets { keysets: vec![keyset], unservable: vec![] })
///     }
///
///     fn read(
///         &mut self,
///         kind: Kind,
///         _since: Option<&Watermark>,
///         sink: &mut dyn ItemSink,
///     ) -> Result<Reading, SourceError> {
///         if kind != Kind::Spent {
///             return Ok(Reading::whole(0));
///         }
///         let mut batch = ItemBatch::new();
///         batch.push(&[2; 33]);
///         if sink.items(&self.0, &batch).is_break() {
///             return Err(SourceError::Stopped);
///         }
///         Ok(Reading::whole(1))
///     }
/// }
/// ```
pub trait MintSource: Send {
    /// The mint's software in a word, for logs and `/health`.
    fn mint(&self) -> &str;

    /// Every keyset that the mint lists. Those that only its notes name come with the notes.
    ///
    /// # Errors
    ///
    /// If the store cannot be reached or is not as expected.
    fn keysets(&mut self) -> Result<Keysets, SourceError>;

    /// Hands the items of a kind to `sink`, those of all keysets, in batches and in any order: all of them,
    /// or those that came since the reading that gave the watermark `since`. Items that the earlier reading
    /// handed over may come again; none may be missing. Better not to hand them over again: where some come again
    /// and others are new with a hash that is known already, the total cannot tell which, and everything is read.
    ///
    /// # Errors
    ///
    /// If the store cannot be reached or is not as expected; [`SourceError::StartOver`] if it is not
    /// what it was at `since` with more items (some were deleted, or an older copy was put in its place), and is
    /// to be read whole; and [`SourceError::Stopped`] once `sink` breaks off. What `sink` was given
    /// before is then to be thrown away.
    fn read(
        &mut self,
        kind: Kind,
        since: Option<&Watermark>,
        sink: &mut dyn ItemSink,
    ) -> Result<Reading, SourceError>;

    /// Asks the next reading to count the store, if it can, and to compare the count with what was read before.
    ///
    /// To count is to scan a table, which costs far more than to find what is new. A source that spares it between
    /// these calls notices deleted rows late, and must miss no row that was added. One that always counts, or never
    /// can, has nothing to do here.
    fn verify_next(&mut self) {}
}

/// A source behind a pointer, if it is chosen at run time.
impl<S: MintSource + ?Sized> MintSource for Box<S> {
    fn mint(&self) -> &str {
        (**self).mint()
    }

    fn keysets(&mut self) -> Result<Keysets, SourceError> {
        (**self).keysets()
    }

    fn read(
        &mut self,
        kind: Kind,
        since: Option<&Watermark>,
        sink: &mut dyn ItemSink,
    ) -> Result<Reading, SourceError> {
        (**self).read(kind, since, sink)
    }

    fn verify_next(&mut self) {
        (**self).verify_next();
    }
}

/// What takes the items of a reading.
pub trait ItemSink {
    /// Takes some items of a keyset. To break off is to end the reading with [`SourceError::Stopped`].
    fn items(&mut self, keyset: &KeysetId, items: &ItemBatch) -> ControlFlow<()>;

    /// Learns that an item of a keyset could not be read, and why. The reading goes on: the other keysets
    /// have nothing to do with it.
    fn bad_row(&mut self, keyset: &KeysetId, error: SourceError) -> ControlFlow<()>;
}

/// What [`MintSource::read`] has to say when all items are handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reading {
    /// From where the next reading may go on; `None` if it has to be whole.
    pub watermark: Option<Watermark>,
    /// How many items of this kind the store has in all, in keysets that can be served: counted in the state that
    /// was read, or certain because no item came again. `None` if it is neither.
    pub total: Option<u64>,
    /// Ids of keysets that notes name and no request could.
    pub unservable: Vec<String>,
}

impl Reading {
    /// A reading of a store that cannot tell what is new, of `total` items.
    #[must_use]
    pub fn whole(total: u64) -> Self {
        Self {
            watermark: None,
            total: Some(total),
            unservable: vec![],
        }
    }

    /// A reading after which one may go on from `watermark`.
    #[must_use]
    pub fn until(watermark: Watermark, total: u64) -> Self {
        Self {
            watermark: Some(watermark),
            ..Self::whole(total)
        }
    }
}

/// How far a source has read, in its own words. It is kept beside the hashes of what was read, also across
/// restarts, and means something to the source alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watermark(Vec<u8>);

impl Watermark {
    /// The most bytes that are kept.
    pub const MAX_BYTES: usize = 64 << 20;

    /// A watermark that says this.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// What it says.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
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
    /// Those that can be served, each once, whichever ways the store spells it.
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
