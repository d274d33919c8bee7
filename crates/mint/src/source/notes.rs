//! Notes that a mint hands over in its own process, commit by commit.
//!
//! # Rules
//!
//! 1. [`Notes::begin`] registers a commit before the mint sends its COMMIT. A note that is neither handed over nor of a
//!    registered commit has not landed yet.
//! 2. Until [`Commit::done`], notes stay in their handle. Then they join the buffer and the commit leaves the register, under
//!    one lock.
//! 3. A reading takes the buffer and the oldest registered beginning under that lock, before it does anything else. It is dated
//!    before that beginning, by the clock that says longer ago: the monotonic one stops while a machine is suspended, and the
//!    wall clock can be set back.
//! 4. A handle that is dropped without a word is a doubt. It stays registered: its COMMIT may still land. No time and no
//!    reading ends it, only a word that the transaction has ended.
//! 5. That word marks both kinds. A reading that takes a mark reads the store afterwards, so it began after the end. Each kind
//!    has a mark of its own, since each is read by itself.
//! 6. A note is spent after it was issued, and a wallet takes a `spent` that has more for a contradiction. The commit that issued
//!    it may be a doubt: then what is handed over as spent waits. Where `spent` is read from the store, `issued` is, too.
//! 7. After a failed reading, and at first, the whole store is read. What the failed one took had landed before, so it is there.

use core::fmt;
use std::collections::{BTreeMap, LinkedList};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nutfilter::{ItemHash as _, Nut25};
use nutfilter_cashu::{KeysetId, NoteKind};

use super::{
    AsOf, ItemSink, Keysets, MintSource, OpenCommits, Reading, Result, RowFault, SourceError,
};
use crate::status::lock;

/// Registers the commits of a mint and takes their notes, from any thread. Clones share them.
///
/// Every transaction that writes notes needs a [`Commit`], in this process alone. For a mint of several processes, read the
/// database instead.
///
/// # Crashes
///
/// A new process reads its store before it publishes. If the store is a server, a COMMIT of the process before may land even
/// after that. Then keep `notes.begin().token()` before the filters start, and say [`ended`](CommitToken::ended) once the
/// sessions of that process are gone (in Postgres, from `pg_stat_activity`). A store that ends with the process, such as
/// SQLite, does not need this.
///
/// # Cost
///
/// Hashing takes place in the calling thread, without a lock. `begin` and a word each hold one of several locks for less than
/// a microsecond. Between readings, a note takes 8 bytes. Encoding holds no lock.
///
/// # Examples
///
/// ```
/// use nutfilter_mint::source::Notes;
/// # use nutfilter_mint::{KeysetId, MintSource, source::{ItemSink, Keysets, Reading, Result}, NoteKind};
/// # struct Store;
/// # impl Store { fn commit(&self) -> std::result::Result<(), StoreError> { Ok(()) } }
/// # enum StoreError { RolledBack, ConnectionLost }
/// # impl MintSource for Store {
/// #     fn mint(&self) -> &str { "own" }
/// #     fn keysets(&mut self) -> Result<Keysets> { Ok(Keysets::default()) }
/// #     fn read(&mut self, _: NoteKind, _: bool, _: &mut dyn ItemSink) -> Result<Reading> { Ok(Reading::whole()) }
/// # }
/// # let (store, transaction) = (Store, Store);
/// # let keyset = KeysetId::parse("009a1f293253e41e")?;
/// # let (ys, bs) = ([[2; 33]], [[3; 33]]);
/// // `store` reads everything at the start and in doubt. Pass `source` to the filters.
/// let (notes, source) = Notes::new(store);
///
/// let mut commit = notes.begin();
/// commit.spent(&keyset, &ys);
/// commit.issued(&keyset, &bs);
/// match transaction.commit() {
///     Ok(()) => commit.done(),
///     Err(StoreError::RolledBack) => commit.rolled_back(),
///     // It may have been committed, but nothing of it can land later.
///     Err(StoreError::ConnectionLost) => commit.ended(),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Notes(Arc<Buffers>);

impl fmt::Debug for Notes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.status().fmt(f)
    }
}

impl Notes {
    /// Notes that are handed over, and the source of their filters. `store` is read at first, in doubt, and whenever
    /// everything is read again.
    pub fn new<S: MintSource>(store: S) -> (Self, NotesSource<S>) {
        let reader = Arc::new(());
        let notes =
            Self(Arc::new(Buffers { reader: Arc::downgrade(&reader), ..Buffers::default() }));
        let source = NotesSource {
            notes: notes.clone(),
            store,
            _reader: reader,
            is_known: [false; 2],
            waiting: vec![],
            passed: None,
            is_due: false,
            doubts: 0,
        };
        (notes, source)
    }

    /// Registers a commit. Call it right before the database's COMMIT is sent: until it has ended, no filter is dated later.
    pub fn begin(&self) -> Commit {
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        let key = (Instant::now(), number);
        let open = (SystemTime::now(), HandoverState::Held);
        self.shard(key).open.insert(key, open);
        let notes = self.clone();
        Commit { token: CommitToken { notes, key }, notes: Default::default(), has_word: false }
    }

    /// The commits that hold the dates back now.
    #[must_use]
    pub fn status(&self) -> OpenCommits {
        let now = now();
        let mut status = OpenCommits::default();
        for shard in &self.0.shards {
            let shard = lock(shard);
            status.open += shard.open.len() as u64;
            status.doubts += shard.doubts;
            status.oldest = status.oldest.max(shard.oldest(now));
        }
        status
    }

    fn shard(&self, key: Key) -> MutexGuard<'_, Shard> {
        lock(&self.0.shards[(key.1 % SHARDS as u64) as usize])
    }
}

/// A transaction of the mint that has not ended yet, with its notes.
///
/// If it is dropped without one of the words [`done`](Self::done), [`rolled_back`](Self::rolled_back) and
/// [`ended`](Self::ended), nobody knows what became of it, and dates stop before its beginning until its
/// [token](Self::token) says that it has ended. An async server drops a handler when its client leaves, even between COMMIT
/// and `done`. So run the transaction, with its commit, in a task of its own (`tokio::spawn`).
#[must_use = "a commit that is dropped stops the dates of all filters"]
#[derive(Debug)]
pub struct Commit {
    token: CommitToken,
    notes: [Done; 2],
    has_word: bool,
}

impl Commit {
    /// Adds the `Y` of spent notes, as the bytes of compressed points. They are in no filter before [`done`](Self::done).
    /// Repeated notes change nothing. Bytes of another length hold the filters of the keyset until the store is read whole.
    pub fn spent(&mut self, keyset: &KeysetId, ys: impl IntoIterator<Item: AsRef<[u8]>>) {
        self.add(NoteKind::Spent, keyset, ys);
    }

    /// Adds the `B_` of signed notes, as [`spent`](Self::spent) does.
    pub fn issued(&mut self, keyset: &KeysetId, bs: impl IntoIterator<Item: AsRef<[u8]>>) {
        self.add(NoteKind::Issued, keyset, bs);
    }

    fn add<I>(&mut self, kind: NoteKind, keyset: &KeysetId, items: I)
    where
        I: IntoIterator<Item: AsRef<[u8]>>,
    {
        let of_kind = &mut self.notes[kind as usize].0;
        let (chunks, fault) = of_kind.entry(keyset.clone()).or_default();
        let (mut hashes, expected) = (Vec::with_capacity(CHUNK), keyset.point_kind().bytes());
        for item in items {
            let (item, found) = (item.as_ref(), item.as_ref().len());
            match found == expected {
                true => hashes.push(Nut25.hash(item)),
                false => *fault = Some(RowFault::NotAPoint { found, expected }),
            }
        }
        match chunks.back_mut() {
            Some(known) => known.append(&mut hashes),
            None => chunks.push_back(hashes),
        }
    }

    /// The database has committed: the notes count.
    pub fn done(mut self) {
        let mut notes = core::mem::take(&mut self.notes);
        let is_read = self.token.notes.0.reader.strong_count() > 0;
        let mut shard = self.leave();
        for (done, notes) in shard.done.iter_mut().zip(&mut notes).filter(|_| is_read) {
            done.append(notes);
        }
    }

    /// The database has undone everything. If it did not say so itself, the word is [`ended`](Self::ended).
    pub fn rolled_back(mut self) {
        drop(self.leave());
    }

    /// The transaction has ended, and nobody knows how. The next reading looks into the store.
    pub fn ended(mut self) {
        self.leave().ended = [true; 2];
    }

    /// For a connection pool or a task that outlives this handle.
    #[must_use]
    pub fn token(&self) -> CommitToken {
        self.token.clone()
    }

    fn leave(&mut self) -> MutexGuard<'_, Shard> {
        self.has_word = true;
        let mut shard = self.token.notes.shard(self.token.key);
        shard.open.remove(&self.token.key);
        shard
    }
}

impl Drop for Commit {
    fn drop(&mut self) {
        if !self.has_word {
            self.token.say(HandoverState::Dropped);
        }
    }
}

/// Says that the transaction of a [`Commit`] has ended, also when its handle was dropped.
#[derive(Clone, Debug)]
pub struct CommitToken {
    notes: Notes,
    key: Key,
}

impl CommitToken {
    /// The transaction has ended: whatever it wrote is there now, and nothing of it lands later. Say it from where this is
    /// known: at the end of a blocking closure, or when the pool has its connection back and idle. If the handle is still
    /// there, its own word decides. Saying it again does nothing.
    pub fn ended(&self) {
        self.say(HandoverState::Ended);
    }

    fn say(&self, what: HandoverState) {
        self.notes.shard(self.key).step(self.key, what);
    }
}

/// The source of filters for a mint that hands its notes over: made by [`Notes::new`].
pub struct NotesSource<S> {
    notes: Notes,
    store: S,
    _reader: Arc<()>,
    /// Whether the sets have all that the store had at the last reading, by kind.
    is_known: [bool; 2],
    /// Spent notes that were taken and wait for a doubt to end.
    waiting: Vec<Done>,
    /// When spent notes were passed on last, and how much longer ago they are complete.
    passed: Option<((SystemTime, Instant), Duration)>,
    /// Whether `spent` was read from the store, and `issued` was not yet.
    is_due: bool,
    /// Doubts that were logged.
    doubts: u64,
}

impl<S: MintSource> MintSource for NotesSource<S> {
    fn mint(&self) -> &str {
        self.store.mint()
    }

    fn keysets(&mut self) -> Result<Keysets> {
        self.store.keysets()
    }

    fn read(&mut self, kind: NoteKind, whole: bool, sink: &mut dyn ItemSink) -> Result<Reading> {
        let (now, mut reading) = (now(), Reading::whole());
        reading.whole = None;
        let (mut done, mut oldest, mut has_ended) = (vec![], None, false);
        for shard in &self.notes.0.shards {
            let mut shard = lock(shard);
            done.push(core::mem::take(&mut shard.done[kind as usize]));
            has_ended |= core::mem::take(&mut shard.ended[kind as usize]);
            oldest = oldest.max(shard.oldest(now));
        }
        let status = self.notes.status();
        self.log(status.doubts);
        let (is_spent, is_known) = (kind == NoteKind::Spent, self.is_known[kind as usize]);
        let in_store = whole || has_ended || !is_known || !is_spent && self.is_due;
        if is_spent {
            self.waiting.append(&mut done);
            let hangs = status.doubts > 0 || status.oldest > Some(HANGS);
            if let (Some((passed, before)), true, false) = (self.passed, hangs, in_store) {
                reading.as_of = AsOf::Before(age(passed, now) + before);
                return Ok(reading);
            }
            done = core::mem::take(&mut self.waiting);
        }
        self.is_known[kind as usize] = false;
        for done in done {
            done.pass_on(kind, sink)?;
        }
        if in_store {
            reading = self.store.read(kind, whole || !is_known, sink)?;
            self.is_due = is_spent;
        }
        let theirs = match reading.as_of {
            AsOf::Beginning => None,
            AsOf::Before(theirs) => Some(theirs),
            AsOf::StoreClock(date) => {
                let wall = since(now.0, UNIX_EPOCH);
                Some(wall.saturating_sub(Duration::from_secs(date)))
            }
            AsOf::LastChange(_) | AsOf::Unknown => {
                let error = "the store of a running mint must prove when it was read";
                return Err(SourceError::Other(error.into()));
            }
        };
        let age = oldest.max(theirs);
        reading.as_of = age.map_or(AsOf::Beginning, AsOf::Before);
        if is_spent {
            self.passed = Some((now, age.unwrap_or_default()));
        }
        self.is_known[kind as usize] = true;
        Ok(reading)
    }

    fn open_commits(&self) -> OpenCommits {
        self.notes.status()
    }
}

impl<S> NotesSource<S> {
    fn log(&mut self, doubts: u64) {
        if doubts > 0 && self.doubts == 0 {
            tracing::warn!(
                doubts,
                "commits were dropped without an outcome; dates stop until these have ended"
            );
        } else if doubts == 0 && self.doubts > 0 {
            tracing::info!("every dropped commit has ended; dates are current again");
        }
        self.doubts = doubts;
    }
}

/// A client learns what a commit has issued when its handler answers, or by asking again after so long.
const HANGS: Duration = Duration::from_secs(1);

/// Threads seldom meet at a lock.
const SHARDS: usize = 8;

/// Hashes that are kept together at least, in the room that their first commit brings.
const CHUNK: usize = 64;

/// When a commit began, and its number.
type Key = (Instant, u64);

#[derive(Default)]
struct Buffers {
    shards: [Mutex<Shard>; SHARDS],
    next: AtomicU64,
    /// Without a source, nothing takes notes out of the buffer.
    reader: Weak<()>,
}

#[derive(Default)]
struct Shard {
    open: BTreeMap<Key, (SystemTime, HandoverState)>,
    /// Notes that count and were not read yet, by kind.
    done: [Done; 2],
    /// Whether a commit has ended, nobody knows how, and the store was not read since, by kind.
    ended: [bool; 2],
    /// The commits that were dropped and have not ended.
    doubts: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HandoverState {
    Held,
    Dropped,
    Ended,
}

impl Shard {
    /// A commit was dropped, or has ended. After both, only the store knows how.
    fn step(&mut self, key: Key, step: HandoverState) {
        let Some((_, state)) = self.open.get_mut(&key) else {
            return;
        };
        let before = core::mem::replace(state, step);
        let is_over = before != HandoverState::Held && before != step;
        match step {
            HandoverState::Dropped if !is_over => self.doubts += 1,
            HandoverState::Ended if is_over => self.doubts -= 1,
            _ => {}
        }
        if is_over {
            self.open.remove(&key);
            self.ended = [true; 2];
        }
    }

    /// The time since the oldest registered beginning.
    fn oldest(&self, now: (SystemTime, Instant)) -> Option<Duration> {
        let ((began, _), (wall, _)) = self.open.first_key_value()?;
        Some(age((*wall, *began), now))
    }
}

/// The time since a moment, by the clock that says longer ago.
fn age(then: (SystemTime, Instant), now: (SystemTime, Instant)) -> Duration {
    now.1.saturating_duration_since(then.1).max(since(now.0, then.0))
}

fn since(now: SystemTime, then: SystemTime) -> Duration {
    now.duration_since(then).unwrap_or_default()
}

fn now() -> (SystemTime, Instant) {
    (SystemTime::now(), Instant::now())
}

/// By keyset: hashes in chunks, and a fault, which holds its filters as an unreadable row does.
#[derive(Debug, Default)]
struct Done(BTreeMap<KeysetId, (LinkedList<Vec<u64>>, Option<RowFault>)>);

impl Done {
    fn pass_on(self, kind: NoteKind, sink: &mut dyn ItemSink) -> Result<()> {
        for (keyset, (chunks, fault)) in self.0 {
            let row = || format!("keyset {keyset}, {kind}: handed over by the mint");
            let bad = fault.map(|fault| SourceError::BadRow(row(), fault));
            let mut chunks = chunks.iter();
            if chunks.any(|chunk| sink.hashes(&keyset, chunk).is_break())
                || bad.is_some_and(|error| sink.bad_row(Some(&keyset), error).is_break())
            {
                return Err(SourceError::Stopped);
            }
        }
        Ok(())
    }

    /// Takes all of another one. Other commits wait meanwhile, so it copies less than a chunk, and makes no room for it.
    fn append(&mut self, more: &mut Self) {
        for (keyset, (new, fault)) in &mut more.0 {
            let Some((chunks, known)) = self.0.get_mut(keyset) else {
                let new = (core::mem::take(new), *fault);
                self.0.insert(keyset.clone(), new);
                continue;
            };
            *known = known.or(*fault);
            match (chunks.back_mut(), new.front()) {
                (Some(last), Some(new)) if last.capacity() - last.len() >= new.len() => {
                    last.extend(new);
                }
                _ => chunks.append(new),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Fake, keyset};

    #[test]
    fn age_is_by_the_clock_that_says_longer_ago() {
        let (wall, steady) = (UNIX_EPOCH + Duration::from_secs(1_000), Instant::now());
        let seconds = Duration::from_secs;
        let at = |wall_passed, steady_passed| {
            (wall + seconds(wall_passed), steady + seconds(steady_passed))
        };
        for (then, now, expected) in [
            (at(0, 0), at(5, 5), 5),
            // The machine was suspended, or the clock was set forward.
            (at(0, 0), at(3_605, 5), 3_605),
            // The clock was set back.
            (at(3_600, 0), at(5, 5), 5),
            (at(0, 5), at(0, 0), 0),
        ] {
            assert_eq!(age(then, now), seconds(expected));
        }
    }

    /// A commit that has begun is read, or holds the date.
    #[test]
    fn note_and_open_commit_leave_a_shard_together() {
        let (notes, mut source) = Notes::new(Fake::default());
        let begun = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for _ in 0..50_000 {
                    let mut commit = notes.begin();
                    begun.fetch_add(1, Ordering::SeqCst);
                    commit.spent(&keyset(1), [[2; 33]]);
                    commit.done();
                }
            });
            let mut found = vec![];
            while !writer.is_finished() {
                let due = begun.load(Ordering::SeqCst);
                let reading = source.read(NoteKind::Spent, false, &mut found).unwrap();
                assert!(reading.as_of != AsOf::Beginning || found.len() as u64 >= due);
            }
        });
    }

    #[test]
    fn spent_notes_wait_for_a_commit_that_hangs() {
        let (notes, mut source) = Notes::new(Fake::default());
        let mut read = |kind| {
            let mut hashes = vec![];
            source.read(kind, false, &mut hashes).unwrap();
            hashes.len()
        };
        assert_eq!(NoteKind::ALL.map(&mut read), [0, 0]);
        let began = Instant::now().checked_sub(2 * HANGS).unwrap();
        let (key, open) = ((began, 0), (SystemTime::now(), HandoverState::Held));
        notes.shard(key).open.insert(key, open);
        for expected in [[0, 1], [0, 1], [3, 1]] {
            let mut commit = notes.begin();
            commit.spent(&keyset(1), [[2; 33]]);
            commit.issued(&keyset(1), [[3; 33]]);
            commit.done();
            if expected[0] > 0 {
                notes.shard(key).open.remove(&key);
            }
            assert_eq!(NoteKind::ALL.map(&mut read), expected);
        }
    }

    #[test]
    fn kept_notes_take_at_most_16_bytes_each() {
        let (notes, _source) = Notes::new(Fake::default());
        for count in [1, 2, 10, 40, 65, 513, 5_000] {
            let mut done = Done::default();
            for _ in 0..20 {
                let mut commit = notes.begin();
                (0..count).for_each(|_| commit.spent(&keyset(1), [[2; 33]]));
                done.append(&mut commit.notes[0]);
                commit.rolled_back();
            }
            let (chunks, _) = &done.0[&keyset(1)];
            let [room, held] =
                [Vec::capacity, Vec::len].map(|of| chunks.iter().map(of).sum::<usize>());
            assert_eq!(held, 20 * count);
            assert!(room <= 2 * held + CHUNK, "{count}: room for {room}");
        }
    }

    #[test]
    fn without_a_source_no_notes_are_kept() {
        let (notes, source) = Notes::new(Fake::default());
        let mut source = Some(source);
        for expected in [1, 0] {
            let mut commit = notes.begin();
            commit.spent(&keyset(1), [[2; 33]]);
            let key = commit.token.key;
            commit.done();
            assert_eq!(notes.shard(key).done[0].0.len(), expected);
            source = None;
        }
        drop(source);
    }
}
