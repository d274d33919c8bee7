//! The file format of a sorted run, with its writer and its reader.
//!
//! ```text
//! header   magic (8)  version (4)  zero (4)  run id (8)  hashes (8)  mark (24)  checksum (8)
//! blocks   up to 511 hashes (8 each), never decreasing   checksum (8)          4,096 bytes when full
//! ```
//!
//! Numbers are little-endian. A block's checksum also covers the header's checksum and the block's position. It
//! therefore detects a block of another run or from another position, as well as a changed one. The checksum
//! and the order of the hashes are verified before any hash of a block is used. Readers can therefore rely on
//! the order, for any file.
//!
//! Hashes are stored uncompressed. Differences would save a quarter of the bytes. But decoding would cost each
//! hash more time than a disk of 1 GB/s needs for the saved bytes (`docs/decisions/0013`).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Damage, Fault, StoreError};
use crate::fingerprint;

/// The length of a header in bytes.
pub(crate) const HEADER_BYTES: usize = 64;

/// The bytes of a header that its checksum covers.
const CHECKED: usize = HEADER_BYTES - 8;

/// The number of hashes in a full block. With its checksum, it fills a page of 4,096 bytes.
pub(crate) const BLOCK_ITEMS: usize = 511;

/// The length of a full block in bytes.
pub(crate) const BLOCK_BYTES: usize = (BLOCK_ITEMS + 1) * 8;

/// The capacity with which a [`RunReader`] reads a whole run at once.
pub(crate) fn whole_capacity(items: u64) -> usize {
    // The reach is one block less than the capacity, so the whole run is within reach.
    usize::try_from(items).map_or(usize::MAX, |items| items.saturating_add(BLOCK_ITEMS))
}

/// The bytes that hold all blocks of a run; at least one block.
pub(crate) fn whole_chunk(items: u64) -> usize {
    let blocks = usize::try_from(items.div_ceil(BLOCK_ITEMS as u64)).unwrap_or(usize::MAX);
    blocks.max(1).saturating_mul(BLOCK_BYTES)
}

/// The last two bytes detect transfers in text mode.
const MAGIC: [u8; 8] = *b"nutrun\r\n";

const VERSION: u32 = 1;

/// Identifies a set: the hasher's hashes of two fixed items, and the hash of the label.
pub(crate) type Mark = [u64; 3];

/// The header of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) id: u64,
    pub(crate) items: u64,
    pub(crate) mark: Mark,
}

impl Header {
    pub(crate) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        let [by_first, by_second, label] = self.mark;
        let words = [self.id, self.items, by_first, by_second, label];
        let (places, _) = bytes[16..CHECKED].as_chunks_mut::<8>();
        for (place, word) in places.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        let checksum = fingerprint(&bytes[..CHECKED]);
        bytes[CHECKED..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; HEADER_BYTES]) -> Result<Self, Damage> {
        if bytes[..8] != MAGIC {
            return Err(Damage::NoMagic);
        }
        let (words, _) = bytes.as_chunks::<8>();
        let word = |at: usize| u64::from_le_bytes(words[at]);
        // The upper half is zero, reserved for later versions.
        let version = word(1);
        if version != u64::from(VERSION) {
            let version = version as u32;
            return Err(Damage::Version { version });
        }
        let (stored, computed) = (word(7), fingerprint(&bytes[..CHECKED]));
        if stored != computed {
            return Err(Damage::Header { stored, computed });
        }
        Ok(Self {
            id: word(2),
            items: word(3),
            mark: [word(4), word(5), word(6)],
        })
    }

    /// The initial value of the blocks' checksums.
    fn seed(self) -> u64 {
        fingerprint(&self.to_bytes())
    }

    /// The length of the whole file, if it does not overflow.
    fn file_bytes(self) -> Option<u64> {
        let checksums = self.items.div_ceil(BLOCK_ITEMS as u64);
        let words = self.items.checked_add(checksums)?;
        words.checked_mul(8)?.checked_add(HEADER_BYTES as u64)
    }
}

/// A run that is completely written. Its file is removed on drop unless it was committed.
#[derive(Debug)]
pub(crate) struct Run {
    header: Header,
    path: PathBuf,
    place: Place,
    kept: AtomicBool,
}

/// Where the bytes of a run are.
#[derive(Debug)]
pub(crate) enum Place {
    /// In the file at its path.
    Named,
    /// In this file, which has no name any more.
    Nameless(File),
    /// In memory, for tests.
    Memory(Vec<u8>),
}

impl Run {
    /// Opens a run that a committed store lists.
    ///
    /// # Errors
    ///
    /// The file cannot be opened, is another run, or has the wrong length.
    pub(crate) fn open(path: PathBuf, place: Place, listed: Header) -> Result<Self, StoreError> {
        let run = Self {
            header: listed,
            path,
            place,
            kept: AtomicBool::new(true),
        };
        RunReader::open(&run, 0)?;
        Ok(run)
    }

    pub(crate) fn header(&self) -> Header {
        self.header
    }

    pub(crate) fn id(&self) -> u64 {
        self.header.id
    }

    /// The number of hashes.
    pub(crate) fn items(&self) -> u64 {
        self.header.items
    }

    /// Sets whether the file remains after the last owner is dropped.
    pub(crate) fn keep(&self, kept: bool) {
        self.kept.store(kept, Ordering::Relaxed);
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if matches!(self.place, Place::Named) && !self.kept.load(Ordering::Relaxed) {
            // Errors cannot be reported here. Opening the store removes unlisted files.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A run that is being written. Its file is removed if this is dropped before the end.
#[derive(Debug)]
pub(crate) struct RunWriter {
    run: Run,
    file: File,
    seed: u64,
    /// The number of blocks whose checksum is written.
    blocks: u64,
    items: u64,
    /// Hashes that do not fill a block yet.
    block: Vec<u64>,
    /// Bytes that are not written to the file yet.
    bytes: Vec<u8>,
    /// The number of bytes written at once.
    chunk: usize,
}

impl RunWriter {
    /// Creates a file at `path`. If it is temporary and the system supports it, the file is unnamed: then even
    /// a killed process leaves nothing behind.
    pub(crate) fn create(
        path: PathBuf,
        header: Header,
        nameless: bool,
        chunk: usize,
    ) -> Result<Self, StoreError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        #[cfg(unix)]
        // Hashes made with a secret key must not be readable by others.
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let io = |error| StoreError::io("create", &path, error);
        let file = options.open(&path).map_err(io)?;
        let mut run = Run {
            header,
            path,
            place: Place::Named,
            kept: AtomicBool::new(false),
        };
        if nameless && cfg!(unix) {
            let removed = fs::remove_file(&run.path);
            removed.map_err(|error| StoreError::io("remove", &run.path, error))?;
            let same = file.try_clone();
            run.place =
                Place::Nameless(same.map_err(|error| StoreError::io("create", &run.path, error))?);
        }
        let mut bytes = Vec::with_capacity(chunk + BLOCK_BYTES);
        bytes.extend_from_slice(&header.to_bytes());
        Ok(Self {
            run,
            file,
            seed: header.seed(),
            blocks: 0,
            items: 0,
            block: Vec::with_capacity(BLOCK_ITEMS),
            bytes,
            chunk,
        })
    }

    /// Appends hashes, which must not be smaller than earlier ones.
    pub(crate) fn push(&mut self, mut hashes: &[u64]) -> Result<(), StoreError> {
        self.items += hashes.len() as u64;
        if !self.block.is_empty() {
            let room = BLOCK_ITEMS - self.block.len();
            let (first, rest) = hashes.split_at(room.min(hashes.len()));
            self.block.extend_from_slice(first);
            hashes = rest;
            if self.block.len() < BLOCK_ITEMS {
                return Ok(());
            }
            self.flush_block()?;
        }
        let (blocks, rest) = hashes.as_chunks::<BLOCK_ITEMS>();
        for block in blocks {
            self.append(block)?;
        }
        self.block.extend_from_slice(rest);
        Ok(())
    }

    /// Completes the run and passes all of it to the system. With `sync`, also waits until it is on the disk.
    pub(crate) fn finish(mut self, sync: bool) -> Result<Run, StoreError> {
        if !self.block.is_empty() {
            self.flush_block()?;
        }
        self.write()?;
        debug_assert_eq!(self.items, self.run.header.items);
        if sync {
            let synced = self.file.sync_all();
            synced.map_err(|error| StoreError::io("sync", &self.run.path, error))?;
        }
        Ok(self.run)
    }

    fn flush_block(&mut self) -> Result<(), StoreError> {
        let block = std::mem::take(&mut self.block);
        self.append(&block)?;
        self.block = block;
        self.block.clear();
        Ok(())
    }

    fn append(&mut self, block: &[u64]) -> Result<(), StoreError> {
        let checksum = checksum(self.seed, self.blocks, block);
        self.blocks += 1;
        let from = self.bytes.len();
        self.bytes.resize(from + block.len() * 8, 0);
        let (places, _) = self.bytes[from..].as_chunks_mut::<8>();
        for (place, hash) in places.iter_mut().zip(block) {
            *place = hash.to_le_bytes();
        }
        self.bytes.extend_from_slice(&checksum.to_le_bytes());
        if self.bytes.len() >= self.chunk {
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), StoreError> {
        let written = self.file.write_all(&self.bytes);
        written.map_err(|error| StoreError::io("write", &self.run.path, error))?;
        self.bytes.clear();
        Ok(())
    }
}

/// Reads a run from start to end.
#[derive(Debug)]
pub(crate) struct RunReader<'a> {
    run: &'a Run,
    file: Handle<'a>,
    /// The position of the next byte to read.
    at: u64,
    seed: u64,
    /// The number of blocks that were read.
    blocks: u64,
    /// The number of hashes that were not read.
    unread: u64,
    /// The last hash that was read.
    last: u64,
    /// `buffer[start..end]` was read but not taken yet.
    buffer: Vec<u64>,
    start: usize,
    end: usize,
}

#[derive(Debug)]
enum Handle<'a> {
    Own(File),
    Nameless(&'a File),
    Memory(&'a [u8]),
}

impl<'a> RunReader<'a> {
    /// Starts at the first hash, with room for `capacity` hashes.
    pub(crate) fn open(run: &'a Run, capacity: usize) -> Result<Self, StoreError> {
        let io = |error| StoreError::io("open", &run.path, error);
        let damaged = |damage| StoreError::damaged(&run.path, damage);
        let file = match &run.place {
            Place::Named => Handle::Own(File::open(&run.path).map_err(io)?),
            Place::Nameless(file) => Handle::Nameless(file),
            Place::Memory(bytes) => Handle::Memory(bytes),
        };
        let len = file.len().map_err(io)?;
        let mut reader = Self {
            run,
            file,
            at: 0,
            seed: run.header.seed(),
            blocks: 0,
            unread: run.header.items,
            last: 0,
            buffer: vec![0; capacity],
            start: 0,
            end: 0,
        };
        let mut header = [0; HEADER_BYTES];
        reader.read_exact(&mut header)?;
        let header = Header::from_bytes(&header).map_err(damaged)?;
        let Header { id, items, mark } = run.header;
        if header.mark != mark {
            let path = run.path.clone();
            return Err(StoreError(Fault::OtherSet { path }));
        }
        if header.id != id {
            let damage = Damage::OtherRun {
                id: header.id,
                wanted: id,
            };
            return Err(damaged(damage));
        }
        if header.items != items {
            let damage = Damage::Items {
                hashes: header.items,
                listed: items,
            };
            return Err(damaged(damage));
        }
        let needed = header.file_bytes();
        if needed != Some(len) {
            let damage = Damage::Length {
                len,
                hashes: items,
                needed: needed.unwrap_or(u64::MAX),
            };
            return Err(damaged(damage));
        }
        Ok(reader)
    }

    /// The number of hashes that were not taken yet, read or not.
    pub(crate) fn remaining(&self) -> u64 {
        self.unread + (self.end - self.start) as u64
    }

    /// The hashes that were read but not taken yet.
    pub(crate) fn buffered(&self) -> &[u64] {
        &self.buffer[self.start..self.end]
    }

    /// The maximum number of hashes that [`RunReader::fill`] can provide.
    pub(crate) fn reach(&self) -> usize {
        self.buffer.len().saturating_sub(BLOCK_ITEMS)
    }

    /// Removes the first `count` of [`RunReader::buffered`].
    pub(crate) fn take(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.end);
    }

    /// Ensures that `wanted` hashes are buffered, or all that remain. `wanted` is at most [`RunReader::reach`].
    /// If it reads, it fills all its room, in pieces of `bytes`.
    pub(crate) fn fill(&mut self, wanted: usize, bytes: &mut [u8]) -> Result<(), StoreError> {
        if self.end - self.start >= wanted || self.unread == 0 {
            return Ok(());
        }
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        loop {
            let whole = (self.buffer.len() - self.end) / BLOCK_ITEMS * BLOCK_ITEMS;
            let whole = whole.min(bytes.len() / BLOCK_BYTES * BLOCK_ITEMS);
            let items = self.unread.min(whole as u64) as usize;
            if items == 0 {
                return Ok(());
            }
            let len = (items + items.div_ceil(BLOCK_ITEMS)) * 8;
            self.read_exact(&mut bytes[..len])?;
            for block in bytes[..len].chunks(BLOCK_BYTES) {
                self.decode(block)?;
            }
        }
    }

    /// Decodes one block into the buffer.
    fn decode(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let (words, _) = bytes.as_chunks::<8>();
        let Some((stored, words)) = words.split_last() else {
            return Ok(());
        };
        let hashes = &mut self.buffer[self.end..self.end + words.len()];
        for (hash, word) in hashes.iter_mut().zip(words) {
            *hash = u64::from_le_bytes(*word);
        }
        let block = self.blocks;
        let (stored, computed) = (
            u64::from_le_bytes(*stored),
            checksum(self.seed, block, hashes),
        );
        let damage = if stored != computed {
            Damage::Block {
                block,
                stored,
                computed,
            }
        } else if !ascends(self.last, hashes) {
            Damage::Unsorted { block }
        } else {
            self.last = hashes.last().copied().unwrap_or(self.last);
            self.blocks += 1;
            self.unread -= words.len() as u64;
            self.end += words.len();
            return Ok(());
        };
        Err(StoreError::damaged(&self.run.path, damage))
    }

    fn read_exact(&mut self, mut bytes: &mut [u8]) -> Result<(), StoreError> {
        let needed = self.at + bytes.len() as u64;
        while !bytes.is_empty() {
            match self.file.read_at(bytes, self.at) {
                Ok(0) => {
                    let damage = Damage::Cut {
                        at: self.at,
                        needed,
                    };
                    return Err(StoreError::damaged(&self.run.path, damage));
                }
                Ok(read) => {
                    self.at += read as u64;
                    bytes = &mut bytes[read..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(StoreError::io("read", &self.run.path, error)),
            }
        }
        Ok(())
    }
}

impl Handle<'_> {
    fn len(&self) -> io::Result<u64> {
        match self {
            Handle::Own(file) => Ok(file.metadata()?.len()),
            Handle::Nameless(file) => Ok(file.metadata()?.len()),
            Handle::Memory(bytes) => Ok(bytes.len() as u64),
        }
    }

    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        match self {
            Handle::Own(file) => read_at(file, bytes, at),
            Handle::Nameless(file) => read_at(file, bytes, at),
            Handle::Memory(all) => {
                let at = usize::try_from(at).unwrap_or(usize::MAX);
                io::Read::read(&mut all.get(at..).unwrap_or_default(), bytes)
            }
        }
    }
}

/// Reads at an explicit position: all readers of an unnamed file share it and its cursor.
#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, bytes, at)
}

/// On these systems every file has a name, so each reader has opened it separately and has its own cursor.
#[cfg(not(unix))]
fn read_at(mut file: &File, bytes: &mut [u8], _: u64) -> io::Result<usize> {
    io::Read::read(&mut file, bytes)
}

/// Returns whether `hashes` ascend and the first is not below `last`.
fn ascends(last: u64, hashes: &[u64]) -> bool {
    // No early exit: the loop is over one page, and vectorizes this way.
    let pairs = hashes.iter().zip(hashes.iter().skip(1));
    let falls = pairs.fold(false, |falls, (before, after)| falls | (after < before));
    !falls && hashes.first().is_none_or(|&first| first >= last)
}

/// A checksum against accidents. Eight lanes, each a chain of bijections, so one changed word is always
/// detected. It takes 0.4 ns per hash; the fingerprint of other files takes 1.3.
fn checksum(seed: u64, block: u64, hashes: &[u64]) -> u64 {
    // An odd number with mixed bits: the golden ratio, and the multiplier of PCG.
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    const FACTOR: u64 = 0x5851_f42d_4c95_7f2d;
    let first = seed.wrapping_add(block.wrapping_mul(STEP));
    let mut lanes: [u64; 8] =
        std::array::from_fn(|lane| first.rotate_left(lane as u32 * 8) ^ lane as u64);
    let mix = |lane: &mut u64, hash: u64| {
        *lane = (*lane ^ hash).wrapping_mul(FACTOR).rotate_left(29);
    };
    let (rows, rest) = hashes.as_chunks::<8>();
    for row in rows {
        for (lane, &hash) in lanes.iter_mut().zip(row) {
            mix(lane, hash);
        }
    }
    for (lane, &hash) in lanes.iter_mut().zip(rest) {
        mix(lane, hash);
    }
    let mut sum = hashes.len() as u64;
    for lane in lanes {
        mix(&mut sum, lane);
    }
    sum ^ (sum >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_room_for_a_whole_run_reads_it_at_once() {
        for items in [0, 1, 510, 511, 512, 1021, 1022, 1023, 3000] {
            let header = Header {
                id: 7,
                items,
                mark: [1, 2, 3],
            };
            let hashes: Vec<u64> = (0..items).map(|i| i * i).collect();
            let mut bytes = header.to_bytes().to_vec();
            for (number, block) in (0..).zip(hashes.chunks(BLOCK_ITEMS)) {
                let sum = checksum(header.seed(), number, block);
                let words = block.iter().chain(std::iter::once(&sum));
                bytes.extend(words.flat_map(|word| word.to_le_bytes()));
            }
            let run = Run::open(PathBuf::new(), Place::Memory(bytes), header).expect("a run");
            let mut reader = RunReader::open(&run, whole_capacity(items)).expect("the same");
            assert_eq!(reader.reach() as u64, items);
            let mut chunk = vec![0; whole_chunk(items)];
            assert!(chunk.len() as u64 <= (items * 8).max(1).next_multiple_of(4096) + 4096);
            reader.fill(reader.reach(), &mut chunk).expect("all of it");
            assert_eq!(reader.buffered(), hashes, "{items}");
        }
    }
}
