//! A source for a mint that pushes each note when it is spent or issued.
//!
//! A mint that can list its notes should implement [`MintSource`](super::MintSource) instead. It is then asked for
//! notes when they are needed. A feed receives each note once and queues it until it was read. It cannot recover
//! notes that were never pushed. It is for filters; an [`EventFeed`](crate::EventFeed) takes events of state filters.
//!
//! ```
//! use nutfilter_mint::source::{ItemFeed, KeysetInfo, feed};
//! use nutfilter_mint::{FilterService, KeysetId, NoteKind, Publisher, ServiceOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (handle, source) = feed("my-mint");
//! let id = KeysetId::parse("009a1f293253e41e")?;
//! handle.announce(KeysetInfo { id: id.clone(), unit: Some("sat".to_owned()), active: true, input_fee_ppk: 0 });
//! // Push the existing notes, then a checkpoint with the mark of the last one.
//! handle.push(NoteKind::Spent, &id, &[2; 33])?;
//! handle.checkpoint(NoteKind::Spent, b"row 1")?;
//! handle.checkpoint(NoteKind::Issued, b"row 0")?;
//!
//! let mut publisher = Publisher::new(source, FilterService::new(ServiceOptions::default()));
//! publisher.refresh()?;
//! // Push each later note when it is made.
//! handle.push(NoteKind::Issued, &id, &[3; 33])?;
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
use crate::{KeysetId, NoteKind};

mod queue;

/// Default capacity in bytes: 1.6 million compressed points that wait to be read.
const CAPACITY: usize = 64 << 20;

/// Bytes per item in addition to its own bytes.
const BYTES_BESIDE: usize = size_of::<usize>();

/// Longest mark, in bytes. The mark is part of every watermark.
const MAX_MARK: usize = 4096;

const VERSION: u32 = 1;

/// The methods with which a mint feeds its notes. None of them blocks; call them on any thread.
pub trait ItemFeed: Send + Sync {
    /// Adds a keyset or updates its description. A keyset that occurs only in items is served too.
    fn announce(&self, keyset: KeysetInfo);

    /// Adds a spent or issued note. Call it after the change is committed and before anyone learns of it. Pushing a
    /// note twice is harmless.
    ///
    /// # Errors
    ///
    /// If the queue is full until the next reading. The note was not taken; push it again later.
    fn push(&self, kind: NoteKind, keyset: &KeysetId, item: &[u8]) -> Result<(), FeedError>;

    /// Declares that everything up to `mark` has been pushed: all notes of the kind from the start, or since the
    /// mark that [`FeedHandle::wanted`] returned. Before the first checkpoint no filter is built, because a filter
    /// with missing notes would be wrong.
    ///
    /// Only the mint interprets the mark, for example as a row number or a log position. It is stored with the
    /// filters' state and is returned after a restart.
    ///
    /// # Errors
    ///
    /// If the mark is longer than 4,096 bytes.
    fn checkpoint(&self, kind: NoteKind, mark: &[u8]) -> Result<(), FeedError>;
}

/// The notes that the mint must push before the source can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wanted {
    /// Only new notes.
    News,
    /// Everything after this mark of an earlier run.
    Since(Vec<u8>),
    /// Everything.
    Everything,
}

/// Why something could not be fed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FeedError {
    /// The queue is full.
    #[error("queue full ({capacity} bytes); retry after the next read")]
    Full {
        /// The capacity, in bytes.
        capacity: usize,
    },
    /// The mark is too long.
    #[error("mark of {length} bytes is too long; maximum {MAX_MARK}")]
    LongMark {
        /// Its length, in bytes.
        length: usize,
    },
    /// The item is empty.
    #[error("empty item")]
    Empty,
}

/// A reading has to wait for the mint.
#[derive(Debug)]
struct NotFed {
    kind: NoteKind,
    everything: bool,
}

impl fmt::Display for NotFed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.everything {
            true => "all of its notes",
            false => "the notes since the last run",
        };
        write!(f, "{}: the mint has not fed {what} yet", self.kind)
    }
}

impl Error for NotFed {}

/// Creates a feed for a mint of this name, with a capacity of 64 MiB. The mint keeps the handle. A
/// [`Publisher`](crate::Publisher) takes the source.
pub fn feed(mint: impl Into<String>) -> (FeedHandle, FeedSource) {
    feed_with_capacity(mint, CAPACITY)
}

/// Creates a feed that holds at most `capacity` unread bytes. Each item takes its own length plus one `usize` (eight bytes on 64-bit systems).
///
/// Everything fed before the first reading must fit at once. So must the notes of two intervals: an item is kept
/// until the reading *after* the one that took it, when it is certain that it was not lost.
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
    /// Distinguishes this run from others.
    run: [u64; 2],
    capacity: usize,
    state: Mutex<State>,
    /// Notified when the source needs something from the mint.
    wanted: Condvar,
}

impl Shared {
    /// A panic of another thread cannot leave the state half updated.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The mint's end of a feed. Clones are handles to the same feed.
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
    /// The notes that must be fed before the filters can be built. They are known only after the first reading, which shows what
    /// an earlier run has left.
    #[must_use]
    pub fn wanted(&self, kind: NoteKind) -> Wanted {
        let wanted = self.shared.state().of(kind).wanted.clone();
        wanted.unwrap_or(Wanted::News)
    }

    /// Waits until something must be fed, for at most `patience`. Returns [`Wanted::News`] after that time.
    #[must_use]
    pub fn wait_until_wanted(&self, kind: NoteKind, patience: Duration) -> Wanted {
        let state = self.shared.state();
        let (mut state, _) = self
            .shared
            .wanted
            .wait_timeout_while(state, patience, |state| state.of(kind).wanted.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        state.of(kind).wanted.clone().unwrap_or(Wanted::News)
    }

    /// Starts to feed what is [`wanted`](Self::wanted), and returns it. The queue is emptied, because its notes
    /// will be pushed again. Then push everything wanted that is on record *after* this call, followed by a
    /// checkpoint. New notes may be pushed at the same time. If [`Wanted::News`] is returned, the queue was not
    /// emptied.
    #[must_use]
    pub fn begin(&self, kind: NoteKind) -> Wanted {
        let mut state = self.shared.state();
        let queue = state.of(kind);
        let Some(wanted) = queue.wanted.take() else {
            return Wanted::News;
        };
        queue.begin(wanted.clone());
        wanted
    }

    /// Starts to feed everything again. Use it after notes were deleted, or if it is not certain that each was
    /// pushed. The next reading waits for the checkpoint, and is a full one.
    pub fn begin_full_feed(&self, kind: NoteKind) {
        self.shared.state().of(kind).begin(Wanted::Everything);
    }

    /// Number of unread bytes, over both kinds.
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

    fn push(&self, kind: NoteKind, keyset: &KeysetId, item: &[u8]) -> Result<(), FeedError> {
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

    fn checkpoint(&self, kind: NoteKind, mark: &[u8]) -> Result<(), FeedError> {
        if mark.len() > MAX_MARK {
            return Err(FeedError::LongMark { length: mark.len() });
        }
        self.shared.state().of(kind).mark = Some(mark.to_vec());
        Ok(())
    }
}

/// The readable end of a feed.
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
    /// The number of the first unread batch.
    next: u64,
    mark: Vec<u8>,
}

impl FeedSource {
    /// Ensures that the queue starts right after `since` and lacks nothing.
    fn prepare(
        &self,
        queue: &mut Queue,
        kind: NoteKind,
        since: Option<&Watermark>,
    ) -> Result<(), SourceError> {
        let Some(watermark) = since else {
            if queue.began == Wanted::Everything && queue.is_whole() {
                return Ok(());
            }
            return Err(self.want(queue, kind, Wanted::Everything));
        };
        let rescan = |reason: &str| SourceError::RescanRequired {
            reason: reason.to_owned(),
        };
        let progress: Progress = serde_json::from_slice(watermark.as_bytes())
            .map_err(|_| rescan("the watermark does not belong to a feed"))?;
        if (progress.version, &progress.mint) != (VERSION, &self.shared.mint) {
            return Err(rescan("the watermark belongs to another feed"));
        }
        if progress.run == self.shared.run {
            if progress.next < queue.first() || progress.next > queue.next || queue.mark.is_none() {
                return Err(rescan(
                    "the items after the watermark were already consumed",
                ));
            }
            queue.drop_before(progress.next);
            return Ok(());
        }
        if queue.began == Wanted::Everything && queue.mark.is_some() {
            return Err(rescan("the mint has fed all notes again"));
        }
        let wanted = Wanted::Since(progress.mark);
        if queue.began == wanted && queue.is_whole() {
            return Ok(());
        }
        Err(self.want(queue, kind, wanted))
    }

    /// Asks the mint for something, unless it has already started to feed it.
    fn want(&self, queue: &mut Queue, kind: NoteKind, wanted: Wanted) -> SourceError {
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
        kind: NoteKind,
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
        // The lock is released: the mint may push while the sink hashes.
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
            // The count is unknown: a note that was pushed twice is in the queue twice.
            total: None,
            unservable: vec![],
        })
    }
}
