//! [`Blocks`]: the draft's blocks of a sequence, of which the last is open.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use nutfilter_cashu::state_filters::manifest::{Hash, hash};
use nutfilter_cashu::state_filters::{Block, Element};
use serde::{Deserialize, Serialize};

use crate::error::{Error, at};
use crate::files::{self, SealedFile};

/// The rules of the draft's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockOptions {
    /// b: an open block has 2^b bits. Another value applies from the next block on.
    pub width: u32,
    /// Seconds after which an open block is sealed.
    pub timeout: u64,
}

/// A block that never changes again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SealedBlock {
    /// When it opened, in Unix seconds.
    pub(crate) start: u64,
    /// When it was sealed.
    pub(crate) end: u64,
    sha256: Hash,
}

/// The open block in the state file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RecordedBlocks {
    /// The number of sealed blocks, which is the height of the open one.
    sealed: u64,
    opened: u64,
    width: u32,
    /// Insertions into the open block. The journal has as many elements, or more after a crash.
    count: u32,
    /// CRC-32 of those in the journal.
    checksum: u32,
}

#[derive(Debug)]
pub(crate) struct Blocks {
    pub(crate) options: BlockOptions,
    directory: PathBuf,
    pub(crate) sealed: Vec<SealedBlock>,
    pub(crate) opened: u64,
    pub(crate) open: Block,
    count: u32,
    /// Of the journal of the open block.
    checksum: crc32fast::Hasher,
    /// Elements of the open block that are not in the journal yet.
    pending: Vec<Element>,
}

impl RecordedBlocks {
    /// Options with which the blocks can be read. Nothing is sealed with them.
    pub(crate) fn options(&self) -> BlockOptions {
        BlockOptions {
            width: self.width,
            timeout: u64::MAX,
        }
    }

    /// The state of a new sequence.
    pub(crate) fn new(options: BlockOptions, now: u64) -> Self {
        Self {
            sealed: 0,
            opened: now,
            width: options.width,
            count: 0,
            checksum: 0,
        }
    }
}

/// The journal of an open block.
fn journal_path(directory: &Path, height: u64) -> PathBuf {
    directory.join(format!("{height:08}-open"))
}

impl SealedBlock {
    /// The file of this block. Its name says what the block is, so the state file does not grow with the sequence.
    pub(crate) fn file(self, directory: &Path, height: u64) -> SealedFile {
        let sha256 = HEXLOWER.encode(&self.sha256);
        SealedFile {
            path: directory.join(format!("{height:08}-{}-{}-{sha256}", self.start, self.end)),
            sha256: self.sha256,
        }
    }

    /// The height and the block of a file with this name.
    fn parse(name: &str) -> Option<(u64, Self)> {
        let parts: Vec<&str> = name.split('-').collect();
        let [height, start, end, sha256] = parts[..] else {
            return None;
        };
        let block = Self {
            start: start.parse().ok()?,
            end: end.parse().ok()?,
            sha256: HEXLOWER.decode(sha256.as_bytes()).ok()?.try_into().ok()?,
        };
        Some((height.parse().ok()?, block))
    }
}

impl Blocks {
    /// Reads the blocks in the recorded state. Sealed blocks are not read.
    pub(crate) fn read(
        directory: PathBuf,
        recorded: &RecordedBlocks,
        options: BlockOptions,
    ) -> Result<Self, Error> {
        let height = recorded.sealed;
        let names = files::names(&directory)?;
        let found: BTreeMap<u64, SealedBlock> = names
            .iter()
            .filter_map(|name| SealedBlock::parse(name))
            .filter(|&(found, _)| found < height)
            .collect();
        if found.len() as u64 != height {
            return Err(Error::damaged(&directory, "a sealed block is missing"));
        }
        let sealed = found.into_values().collect();
        let journal = journal_path(&directory, height);
        let damaged = |what| Error::damaged(&journal, what);
        let mut open = Block::new(recorded.width)
            .map_err(|_| damaged("the open block has an impossible width"))?;
        let bytes = match recorded.count {
            0 => vec![],
            _ => std::fs::read(&journal).map_err(at(&journal))?,
        };
        let length = recorded.count as usize * 32;
        let elements = bytes
            .get(..length)
            .ok_or_else(|| damaged("the journal of the open block is too short"))?;
        let mut checksum = crc32fast::Hasher::new();
        checksum.update(elements);
        if checksum.clone().finalize() != recorded.checksum {
            return Err(damaged(
                "the journal of the open block has another checksum",
            ));
        }
        let (elements, _) = elements.as_chunks::<32>();
        elements.iter().for_each(|element| open.insert(element));
        Ok(Self {
            options,
            directory,
            sealed,
            opened: recorded.opened,
            open,
            count: recorded.count,
            checksum,
            pending: Vec::new(),
        })
    }

    /// The files of all sealed blocks.
    pub(crate) fn files(&self) -> impl Iterator<Item = SealedFile> {
        let sealed = (0..).zip(&self.sealed);
        sealed.map(|(height, block)| block.file(&self.directory, height))
    }

    /// Removes everything later than the recorded state.
    pub(crate) fn remove_others(&self) -> Result<(), Error> {
        let journal = journal_path(&self.directory, self.height());
        let mut named: Vec<PathBuf> = self.files().map(|file| file.path).collect();
        if self.count > 0 {
            // What came after the last commit comes again.
            files::cut(&journal, u64::from(self.count) * 32)?;
            named.push(journal);
        }
        let named = named.into_iter().collect();
        files::remove_others(&self.directory, &named)
    }

    pub(crate) fn recorded(&self) -> RecordedBlocks {
        RecordedBlocks {
            sealed: self.height(),
            opened: self.opened,
            width: self.open.width(),
            count: self.count,
            checksum: self.checksum.clone().finalize(),
        }
    }

    /// The height of the open block.
    pub(crate) fn height(&self) -> u64 {
        self.sealed.len() as u64
    }

    pub(crate) fn is_due(&self, now: u64) -> bool {
        now.saturating_sub(self.opened) >= self.options.timeout
    }

    /// Inserts an element, and seals the block if that filled it.
    pub(crate) fn insert(&mut self, element: &Element, now: u64) -> Result<(), Error> {
        self.open.insert(element);
        self.pending.push(*element);
        self.count += 1;
        // Every block has a valid width.
        if Block::capacity(self.open.width()).is_ok_and(|capacity| self.count >= capacity) {
            self.seal(None, now)?;
        }
        Ok(())
    }

    /// Seals a block whose time is over, folded to the size that it needs.
    pub(crate) fn seal_due(&mut self, now: u64) -> Result<(), Error> {
        let width = Block::width_for(self.count).min(self.open.width());
        let folded = self.open.fold(width).ok();
        self.seal(folded, now)
    }

    fn seal(&mut self, folded: Option<Block>, now: u64) -> Result<(), Error> {
        let bytes = folded.as_ref().unwrap_or(&self.open).as_bytes();
        let block = SealedBlock {
            start: self.opened,
            // The clock may have been set back.
            end: now.max(self.opened),
            sha256: hash(bytes),
        };
        let path = block.file(&self.directory, self.height()).path;
        files::write(&path, bytes)?;
        self.sealed.push(block);
        self.opened = block.end;
        if let Ok(open) = Block::new(self.options.width) {
            self.open = open;
        }
        self.count = 0;
        self.checksum = crc32fast::Hasher::new();
        self.pending.clear();
        Ok(())
    }

    /// Writes everything that the recorded state will need.
    pub(crate) fn sync(&mut self) -> Result<(), Error> {
        if !self.pending.is_empty() {
            let path = journal_path(&self.directory, self.height());
            let bytes = self.pending.as_flattened();
            files::append(&path, bytes)?;
            self.checksum.update(bytes);
            self.pending.clear();
        }
        files::sync_directory(&self.directory)
    }

    /// Removes the journals of sealed blocks, after the commit.
    pub(crate) fn clean(&self, before: u64) -> Result<(), Error> {
        (before..self.height())
            .try_for_each(|height| files::remove(&journal_path(&self.directory, height)))
    }
}
