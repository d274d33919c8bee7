//! A source that is fed: for a mint that has its notes in hand, and tells of each as it is spent or issued.
//!
//! A mint that can list its notes had better implement [`MintSource`](super::MintSource): it is then asked for them when
//! they are needed. A feed is told everything once, queues it until it was read, and has nothing to fall back on.
//!
//! ```
//! use nutfilter_mint::source::{ItemFeed, KeysetInfo, feed};
//! use nutfilter_mint::{FilterService, KeysetId, Kind, Publisher, ServiceOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (handle, source) = feed("my-mint");
//! let id = KeysetId::parse("009a1f293253e41e")?;
//! handle.announce(KeysetInfo { id: id.clone(), unit: Some("sat".to_owned()), active: true, input_fee_ppk: 0 });
//! // What there is already; then word that this was all, and how to find what came later.
//! handle.push(Kind::Spent, &id, &[2; 33])?;
//! handle.checkpoint(Kind::Spent, b"row 1")?;
//! handle.checkpoint(Kind::Issued, b"row 0")?;
//!
//! let mut publisher = Publisher::new(source, FilterService::new(ServiceOptions::default()));
//! publisher.refresh()?;
//! // From now on each note as it comes.
//! handle.push(Kind::Issued, &id, &[3; 33])?;
//! # Ok(())
//! # }
//! ```

use core::error::Error;
use core::fmt;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use self::queue::{Queue, State};
use super::{ItemSink, KeysetInfo, Keysets, MintSource, Reading, SourceError, Watermark};
use crate::{KeysetId, Kind};

mod queue;

/// So many bytes wait at most until they are read, unless told otherwise: 1.6 million compressed points.
const CAPACITY: usize = 64 << 20;

/// What an item takes beside its bytes.
const BYTES_BESIDE: usize = size_of::<usize>();

/// The longest mark: it goes into every watermark.
const MAX_MARK: usize = 4096;

const VERSION: u32 = 1;

/// What a mint tells of its notes. All of it returns at once, and may be called on any thread.
pub trait ItemFeed: Send + Sync {
    /// Tells of a keyset, or of what changed about it. One that only items name is served too.
    fn announce(&self, keyset: KeysetInfo);

    /// Tells of a spent or an issued note: once it is so for good (committed), and before anybody learns of it. A note
    /// that is told of again does no harm.
    ///
    /// # Errors
    ///
    /// If no more fits until the next reading. The note is then not taken, and to be told of again.
    fn push(&self, kind: Kind, keyset: &KeysetId, item: &[u8]) -> Result<(), FeedError>;

    /// Says that everything up to `mark` has been pushed: all notes of the kind since the beginning, or since the mark that
    /// [`FeedHandle::wanted`] named. Before the first checkpoint nothing is built of what was pushed, since a filter with
    /// notes missing would be wrong.
    ///
    /// The mark means something to the mint alone: the number of a row, or of a log entry. It is stored with what was
    /// built, and comes back after a restart.
    ///
    /// # Errors
    ///
    /// If the mark is longer than 4,096 bytes.
    fn checkpoint(&self, kind: Kind, mark: &[u8]) -> Result<(), FeedError>;
}

/// What the source needs to be fed before it can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wanted {
    /// Nothing but what is new.
    News,
    /// Everything that came after this mark, from an earlier run.
    Since(Vec<u8>),
    /// Everything.
    Everything,
}

/// Why something could not be fed.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FeedError {
    /// So many bytes wait to be read that no more fits.
    Full {
        /// How many may wait.
        capacity: usize,
    },
    /// A mark that is too long.
    LongMark {
        /// Its length in bytes.
        length: usize,
    },
    /// An item of no bytes.
    Empty,
}

impl fmt::Display for FeedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FeedError::Full { capacity } => write!(
                f,
                "the queue of {capacity} bytes is full until the next reading"
            ),
            FeedError::LongMark { length } => {
                write!(f, "a mark of {length} bytes, where {MAX_MARK} are the most")
            }
            FeedError::Empty => f.write_str("an item of no bytes"),
        }
    }
}

impl Error for FeedError {}

/// That a reading has to wait for the mint.
#[derive(Debug)]
struct NotFed {
    kind: Kind,
    everything: bool,
}

impl fmt::Display for NotFed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.everything {
            true => "all of its notes",
            false => "the notes since the last run",
        };
        write!(f, "{}: the mint has not yet fed {what}", self.kind)
    }
}

impl Error for NotFed {}

/// A feed for a mint of this name: the mint keeps the handle, a [`Publisher`](crate::Publisher) takes the source. 64 MiB may
/// wait to be read.
pub fn feed(mint: impl Into<String>) -> (FeedHandle, FeedSource) {
    feed_with_capacity(mint, CAPACITY)
}

/// A feed in which so many bytes may wait to be read: of each item its own and eight more.
///
/// What is fed before the first reading has to fit as a whole, and so has what comes in during two intervals: it is kept
/// until the reading *after* the one that took it, when it is certain that it was not lost on the way.
pub fn feed_with_capacity(mint: impl Into<String>, capacity: usize) -> (FeedHandle, FeedSource) {
    let state = RandomState::new();
    let random = |n: u8| {
        let mut hasher = state.build_hasher();
        hasher.write_u8(n);
        hasher.finish()
    };
    let shared = Arc::new(Shared {
        mint: mint.into(),
        run: [random(0), random(1)],
        capacity,
        state: Mutex::default(),
        wanted: Condvar::new(),
    });
    let handle = FeedHandle {
        shared: Arc::clone(&shared),
    };
    (handle, FeedSource { shared })
}

struct Shared {
    mint: String,
    /// Tells this run from others.
    run: [u64; 2],
    capacity: usize,
    state: Mutex<State>,
    /// Notified when something is wanted of the mint.
    wanted: Condvar,
}

impl Shared {
    /// A panic elsewhere leaves nothing half done here.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The mint's end of a feed. Clones are the same end.
#[derive(Clone)]
pub struct FeedHandle {
    shared: Arc<Shared>,
}

impl fmt::Debug for FeedHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FeedHandle")
            .field("mint", &self.shared.mint)
            .finish_non_exhaustive()
    }
}

impl FeedHandle {
    /// What has to be fed before the filters can be built. It is known with the first reading, since only then is it known
    /// what an earlier run has left.
    #[must_use]
    pub fn wanted(&self, kind: Kind) -> Wanted {
        let wanted = self.shared.state().of(kind).wanted.clone();
        wanted.unwrap_or(Wanted::News)
    }

    /// Waits until something has to be fed, for so long at most. [`Wanted::News`] if that time passed.
    #[must_use]
    pub fn wait_until_wanted(&self, kind: Kind, patience: Duration) -> Wanted {
        let state = self.shared.state();
        let (mut state, _) = self
            .shared
            .wanted
            .wait_timeout_while(state, patience, |state| state.of(kind).wanted.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        state.of(kind).wanted.clone().unwrap_or(Wanted::News)
    }

    /// Begins to feed what is [`wanted`](Self::wanted): forgets what waits, as it will come again. Everything wanted that
    /// is on record *after* this call is then to be pushed, followed by a checkpoint; what is new may be pushed at the
    /// same time. Gives what is to be fed; if it is [`Wanted::News`], nothing was forgotten.
    #[must_use]
    pub fn begin(&self, kind: Kind) -> Wanted {
        let mut state = self.shared.state();
        let queue = state.of(kind);
        let Some(wanted) = queue.wanted.take() else {
            return Wanted::News;
        };
        queue.begin(wanted.clone());
        wanted
    }

    /// Begins to feed everything again, whatever is wanted: after notes were deleted, or if it is not certain that each was
    /// pushed. The next reading waits for the checkpoint, and is whole.
    pub fn begin_anew(&self, kind: Kind) {
        self.shared.state().of(kind).begin(Wanted::Everything);
    }

    /// How many bytes wait, those of both kinds.
    #[must_use]
    pub fn waiting(&self) -> usize {
        let state = self.shared.state();
        state.spent.bytes + state.issued.bytes
    }
}

impl ItemFeed for FeedHandle {
    fn announce(&self, keyset: KeysetInfo) {
        let id = keyset.id.clone();
        self.shared.state().keysets.insert(id, keyset);
    }

    fn push(&self, kind: Kind, keyset: &KeysetId, item: &[u8]) -> Result<(), FeedError> {
        if item.is_empty() {
            return Err(FeedError::Empty);
        }
        let mut state = self.shared.state();
        let capacity = self.shared.capacity;
        let waiting = state.spent.bytes + state.issued.bytes;
        if waiting + item.len() + BYTES_BESIDE > capacity {
            return Err(FeedError::Full { capacity });
        }
        state.of(kind).push(keyset, item);
        Ok(())
    }

    fn checkpoint(&self, kind: Kind, mark: &[u8]) -> Result<(), FeedError> {
        if mark.len() > MAX_MARK {
            return Err(FeedError::LongMark { length: mark.len() });
        }
        self.shared.state().of(kind).mark = Some(mark.to_vec());
        Ok(())
    }
}

/// The end of a feed that is read.
pub struct FeedSource {
    shared: Arc<Shared>,
}

impl fmt::Debug for FeedSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FeedSource")
            .field("mint", &self.shared.mint)
            .finish_non_exhaustive()
    }
}

/// How far a feed was read.
#[derive(Serialize, Deserialize)]
struct Progress {
    version: u32,
    mint: String,
    run: [u64; 2],
    /// The number of the first batch that was not read.
    next: u64,
    mark: Vec<u8>,
}

impl FeedSource {
    /// Makes sure that what follows `since` is in the queue, and nothing before it.
    fn prepare(
        &self,
        queue: &mut Queue,
        kind: Kind,
        since: Option<&Watermark>,
    ) -> Result<(), SourceError> {
        let Some(watermark) = since else {
            if queue.began == Wanted::Everything && queue.is_whole() {
                return Ok(());
            }
            return Err(self.want(queue, kind, Wanted::Everything));
        };
        let start_over = |reason: &str| SourceError::StartOver {
            reason: reason.to_owned(),
        };
        let progress: Progress = serde_json::from_slice(watermark.as_bytes())
            .map_err(|_| start_over("the watermark is of no feed"))?;
        if (progress.version, &progress.mint) != (VERSION, &self.shared.mint) {
            return Err(start_over("the watermark is of another feed"));
        }
        if progress.run == self.shared.run {
            if progress.next < queue.first() || progress.next > queue.next || queue.mark.is_none() {
                return Err(start_over("what followed was given away already"));
            }
            queue.drop_before(progress.next);
            return Ok(());
        }
        if queue.began == Wanted::Everything && queue.mark.is_some() {
            return Err(start_over("the mint has fed everything anew"));
        }
        let wanted = Wanted::Since(progress.mark);
        if queue.began == wanted && queue.is_whole() {
            return Ok(());
        }
        Err(self.want(queue, kind, wanted))
    }

    /// Asks the mint for something, unless it is about to feed it.
    fn want(&self, queue: &mut Queue, kind: Kind, wanted: Wanted) -> SourceError {
        let everything = wanted == Wanted::Everything;
        let is_coming = queue.is_said && queue.began == wanted && queue.mark.is_none();
        if !is_coming {
            queue.wanted = Some(wanted);
            self.shared.wanted.notify_all();
        }
        SourceError::Other(Box::new(NotFed { kind, everything }))
    }
}

impl MintSource for FeedSource {
    fn mint(&self) -> &str {
        &self.shared.mint
    }

    fn keysets(&mut self) -> Result<Keysets, SourceError> {
        Ok(Keysets {
            keysets: self.shared.state().keysets.values().cloned().collect(),
            unservable: vec![],
        })
    }

    fn read(
        &mut self,
        kind: Kind,
        since: Option<&Watermark>,
        sink: &mut dyn ItemSink,
    ) -> Result<Reading, SourceError> {
        let (batches, progress) = {
            let mut state = self.shared.state();
            let queue = state.of(kind);
            self.prepare(queue, kind, since)?;
            queue.wanted = None;
            queue.close_all();
            let batches: Vec<_> = queue.batches.iter().map(|(_, b)| Arc::clone(b)).collect();
            let progress = Progress {
                version: VERSION,
                mint: self.shared.mint.clone(),
                run: self.shared.run,
                next: queue.next,
                mark: queue.mark.clone().unwrap_or_default(),
            };
            (batches, progress)
        };
        // The mint goes on pushing meanwhile.
        for batch in batches {
            let (keyset, items) = &*batch;
            if sink.items(keyset, items).is_break() {
                return Err(SourceError::Stopped);
            }
        }
        let bytes =
            serde_json::to_vec(&progress).map_err(|error| SourceError::Other(error.into()))?;
        Ok(Reading {
            watermark: Some(Watermark::new(bytes)),
            // A note that was told of twice is in it twice.
            total: None,
            unservable: vec![],
        })
    }
}
