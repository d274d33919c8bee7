//! [`Inbox`]: events that a mint reported, on disk until they are published.
//!
//! ```text
//! inbox/FIRST     the events from number FIRST on: for each its element, and the CRC-32 of its number and element
//! ```
//!
//! The state of the sequence has the number of the next event to publish. So each event of the inbox is published
//! once, at whatever moment the process ends.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nutfilter_cashu::state_filters::Element;

use crate::batch::Batch;
use crate::error::{Error, at};
use crate::files;

/// Bytes of an event: its element and the checksum.
const RECORD: usize = 36;

/// Takes the reported events of a [`Sequence`](crate::Sequence), on any thread. Clones are handles to the same inbox.
#[derive(Clone, Debug)]
pub struct Inbox(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    directory: PathBuf,
    journal: Mutex<Journal>,
}

#[derive(Debug)]
struct Journal {
    /// Files that are complete, oldest first.
    closed: Vec<Part>,
    /// The file that is appended to. It exists from its first event on.
    open: Part,
    /// Whether the open file may have bytes of a failed write behind its events.
    torn: bool,
}

/// Events of one file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// Number of the first event.
    first: u64,
    n: u64,
}

impl Part {
    fn end(self) -> u64 {
        self.first.saturating_add(self.n)
    }

    fn path(self, directory: &Path) -> PathBuf {
        directory.join(self.first.to_string())
    }
}

/// The checksum of an event. It has the number, so that the bytes of another event are not taken for it.
fn checksum(number: u64, element: &[u8]) -> [u8; 4] {
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&number.to_le_bytes());
    checksum.update(element);
    checksum.finalize().to_le_bytes()
}

impl Inbox {
    /// Most events that wait to be published: 604 MB on disk.
    pub const CAPACITY: u64 = 1 << 24;

    /// The files with events from number `published` on, oldest first, and those without.
    pub(crate) fn find(
        directory: &Path,
        published: u64,
    ) -> Result<(Vec<Part>, Vec<PathBuf>), Error> {
        let names = files::names(directory)?;
        let mut firsts: Vec<u64> = names.iter().filter_map(|name| name.parse().ok()).collect();
        firsts.sort_unstable();
        let (mut parts, mut obsolete): (Vec<Part>, Vec<PathBuf>) = (vec![], vec![]);
        for first in firsts {
            let mut part = Part { first, n: 0 };
            let path = part.path(directory);
            part.n = read(&path, first, u64::MAX, |_| Ok(()))?;
            // The write of an event that was not acknowledged leaves nothing, or less than its record.
            if part.end() <= published || part.n == 0 {
                obsolete.push(path);
                continue;
            }
            if first != parts.last().map_or(published, |last| last.end()) {
                return Err(Error::damaged(&path, "reported events are missing"));
            }
            parts.push(part);
        }
        Ok((parts, obsolete))
    }

    /// Opens the inbox of a sequence that has published the events before number `published`.
    pub(crate) fn open(directory: PathBuf, published: u64) -> Result<Self, Error> {
        files::make_directory(&directory)?;
        let (closed, obsolete) = Self::find(&directory, published)?;
        for path in obsolete {
            files::remove(&path)?;
        }
        let first = closed.last().map_or(published, |last| last.end());
        Ok(Self(Arc::new(Shared {
            directory,
            journal: Mutex::new(Journal {
                closed,
                open: Part { first, n: 0 },
                torn: false,
            }),
        })))
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        // A change is complete before the journal counts it, also if its thread panics.
        let journal = self.0.journal.lock();
        journal.unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds events, in their order and with repetitions. They are durable when this returns, and are published
    /// by the next [`Sequence::add_reported`](crate::Sequence::add_reported), also after a crash.
    ///
    /// # Errors
    ///
    /// The events cannot be written, or [`Inbox::CAPACITY`] would be exceeded. Report them again: after a failed write
    /// and a crash, some may have been taken.
    ///
    /// # Cost
    ///
    /// One write and one sync of the disk, however many events there are.
    pub fn push(&self, elements: &[Element]) -> Result<(), Error> {
        if elements.is_empty() {
            return Ok(());
        }
        let directory = &self.0.directory;
        let mut journal = self.journal();
        let (n, waiting) = (elements.len() as u64, journal.waiting());
        if waiting + n > Self::CAPACITY {
            return Err(Error::full(waiting, n));
        }
        let Part { first, n: before } = journal.open;
        let path = journal.open.path(directory);
        if journal.torn {
            files::cut(&path, before * RECORD as u64)?;
        }
        journal.torn = true;
        let mut bytes = Vec::with_capacity(elements.len() * RECORD);
        for (number, element) in (first + before..).zip(elements) {
            bytes.extend_from_slice(element);
            bytes.extend_from_slice(&checksum(number, element));
        }
        files::append(&path, &bytes)?;
        if before == 0 {
            files::sync_directory(directory)?;
        }
        journal.torn = false;
        journal.open.n += n;
        Ok(())
    }

    /// The number of events that are not published yet.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.journal().waiting()
    }

    /// Closes the open file. Returns the number after the last event, and the files.
    fn close(&self) -> Result<(u64, Vec<Part>), Error> {
        let mut journal = self.journal();
        let part = journal.open;
        if journal.torn {
            let path = part.path(&self.0.directory);
            files::cut(&path, part.n * RECORD as u64)?;
            journal.torn = false;
        }
        if part.n > 0 {
            journal.closed.push(part);
            journal.open = Part {
                first: part.end(),
                n: 0,
            };
        }
        Ok((part.end(), journal.closed.clone()))
    }

    /// Puts the events from number `published` on into a batch. Returns the number after the last one.
    pub(crate) fn take(&self, published: u64, batch: &mut Batch) -> Result<u64, Error> {
        // The commit of an earlier call may be durable, though it returned an error.
        self.remove_before(published)?;
        let (end, parts) = self.close()?;
        for part in parts {
            let path = part.path(&self.0.directory);
            let found = read(&path, part.first, part.n, |elements| batch.push(elements))?;
            if found != part.n {
                return Err(Error::damaged(
                    &path,
                    "a reported event has another checksum",
                ));
            }
        }
        Ok(end)
    }

    /// Removes the files of published events.
    pub(crate) fn remove_before(&self, published: u64) -> Result<(), Error> {
        let mut journal = self.journal();
        while let Some(&part) = journal.closed.first()
            && part.end() <= published
        {
            files::remove(&part.path(&self.0.directory))?;
            journal.closed.remove(0);
        }
        Ok(())
    }
}

impl Journal {
    fn waiting(&self) -> u64 {
        let closed: u64 = self.closed.iter().map(|part| part.n).sum();
        closed + self.open.n
    }
}

/// Passes at most `n` events of a file to `visit`, in pieces. Stops at the first invalid one, and returns their number.
fn read(
    path: &Path,
    first: u64,
    n: u64,
    mut visit: impl FnMut(&[Element]) -> Result<(), Error>,
) -> Result<u64, Error> {
    const PIECE: usize = 4096;
    let file = File::open(path).map_err(at(path))?;
    let mut file = BufReader::with_capacity(RECORD * PIECE, file);
    let mut elements = Vec::with_capacity(PIECE);
    let mut record = [0; RECORD];
    let mut found = 0;
    while found < n {
        match file.read_exact(&mut record) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            read => read.map_err(at(path))?,
        }
        let Some((element, sum)) = record.split_first_chunk::<32>() else {
            break;
        };
        if checksum(first + found, element) != sum {
            break;
        }
        found += 1;
        elements.push(*element);
        if elements.len() == PIECE {
            visit(&elements)?;
            elements.clear();
        }
    }
    visit(&elements)?;
    Ok(found)
}
