//! One sorted run on disk: how it is written, and how it is read back in large pieces.
//!
//! ```text
//! header   magic (8)  version (4)  zero (4)  run id (8)  hashes (8)  mark (24)  checksum (8)
//! blocks   up to 511 hashes (8 each), never decreasing   checksum (8)          4,096 bytes when full
//! ```
//!
//! Numbers are little-endian. A block's checksum also covers the header's and the block's place, so a block
//! of another run or from another place is found as well as a changed one; and it is verified, with the
//! order of the hashes, before any hash of the block is used. Whoever reads a run can therefore rely on
//! order, however the file came to be.
//!
//! Hashes are stored plain: differences would save a quarter of the bytes and cost each hash more time than a
//! disk of 1 GB/s takes for the bytes saved (`docs/decisions/0013`).

use alloc::vec;
use alloc::vec::Vec;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use super::error::{Damage, Doing, Fault, StoreError};
use crate::hash::fingerprint;

/// A header's bytes.
pub(super) const HEADER_BYTES: usize = 64;

/// The bytes of a header that its checksum covers.
const CHECKED: usize = HEADER_BYTES - 8;

/// Hashes in a full block, which then fills a page of 4,096 bytes with its checksum.
pub(super) const BLOCK_ITEMS: usize = 511;

/// A full block's bytes.
pub(super) const BLOCK_BYTES: usize = (BLOCK_ITEMS + 1) * 8;

/// Room in a [`RunReader`] with which all of a run is read at once.
pub(super) fn whole_capacity(items: u64) -> usize {
    // The reach is a block less than the room, so all of the run is within reach.
    usize::try_from(items).map_or(usize::MAX, |items| items.saturating_add(BLOCK_ITEMS))
}

/// Bytes in which all blocks of a run fit; one block at least.
pub(super) fn whole_chunk(items: u64) -> usize {
    let blocks = usize::try_from(items.div_ceil(BLOCK_ITEMS as u64)).unwrap_or(usize::MAX);
    blocks.max(1).saturating_mul(BLOCK_BYTES)
}

/// The last two bytes tell a transfer that took the file for text.
const MAGIC: [u8; 8] = *b"nutrun\r\n";

const VERSION: u32 = 1;

/// What tells one set from another: the hasher's hashes of two fixed items, and the label's.
pub(super) type Mark = [u64; 3];

/// What is said of a run in its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) id: u64,
    pub(super) items: u64,
    pub(super) mark: Mark,
}

impl Header {
    pub(super) fn to_bytes(self) -> [u8; HEADER_BYTES] {
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
        // The upper half is kept zero, so that a later version can say more there.
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

    /// What the checksums of the blocks begin with.
    fn seed(self) -> u64 {
        fingerprint(&self.to_bytes())
    }

    /// The length of the whole file, where that is a number.
    fn file_bytes(self) -> Option<u64> {
        let checksums = self.items.div_ceil(BLOCK_ITEMS as u64);
        let words = self.items.checked_add(checksums)?;
        words.checked_mul(8)?.checked_add(HEADER_BYTES as u64)
    }
}

/// A run that is whole on disk. Its file goes with it unless it was committed.
#[derive(Debug)]
pub(super) struct Run {
    header: Header,
    path: PathBuf,
    place: Place,
    kept: AtomicBool,
}

/// Where the bytes of a run are.
#[derive(Debug)]
enum Place {
    /// In the file at its path.
    Named,
    /// In this file, whose name is gone already.
    Nameless(File),
    /// Here: nobody wrote it to a disk.
    Memory(Vec<u8>),
}

impl Run {
    /// The run that a committed store lists.
    ///
    /// # Errors
    ///
    /// A file that cannot be opened, or is not that run, or has not its length.
    pub(super) fn open(path: PathBuf, listed: Header) -> Result<Self, StoreError> {
        Self::at(path, Place::Named, listed)
    }

    /// [`Run::open`] of bytes that would be the file's.
    pub(super) fn in_memory(
        path: PathBuf,
        bytes: Vec<u8>,
        listed: Header,
    ) -> Result<Self, StoreError> {
        Self::at(path, Place::Memory(bytes), listed)
    }

    fn at(path: PathBuf, place: Place, listed: Header) -> Result<Self, StoreError> {
        let run = Self {
            header: listed,
            path,
            place,
            kept: AtomicBool::new(true),
        };
        RunReader::open(&run, 0)?;
        Ok(run)
    }

    pub(super) fn header(&self) -> Header {
        self.header
    }

    pub(super) fn id(&self) -> u64 {
        self.header.id
    }

    /// How many hashes it holds.
    pub(super) fn items(&self) -> u64 {
        self.header.items
    }

    /// Whether its file stays when the last owner is gone.
    pub(super) fn keep(&self, kept: bool) {
        self.kept.store(kept, Ordering::Relaxed);
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if matches!(self.place, Place::Named) && !self.kept.load(Ordering::Relaxed) {
            // Nobody to tell. A store that is opened again removes what it does not list.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A run that is being written. Dropped before its end, its file goes.
#[derive(Debug)]
pub(super) struct RunWriter {
    run: Run,
    file: File,
    seed: u64,
    /// Blocks whose checksum is written.
    blocks: u64,
    items: u64,
    /// Hashes that fill no block yet.
    block: Vec<u64>,
    /// Bytes on their way to the file.
    bytes: Vec<u8>,
    /// How many of those are written at once.
    chunk: usize,
}

impl RunWriter {
    /// A new file at `path`. Nameless where it is to be gone when it is closed and the system can do that:
    /// then not even a killed process leaves it behind.
    pub(super) fn create(
        path: PathBuf,
        header: Header,
        nameless: bool,
        chunk: usize,
    ) -> Result<Self, StoreError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        #[cfg(unix)]
        // The hashes of a secret key are nobody else's to see.
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let io = |error| StoreError::io(Doing::Create, &path, error);
        let file = options.open(&path).map_err(io)?;
        let mut run = Run {
            header,
            path,
            place: Place::Named,
            kept: AtomicBool::new(false),
        };
        if nameless && cfg!(unix) {
            let removed = fs::remove_file(&run.path);
            removed.map_err(|error| StoreError::io(Doing::Remove, &run.path, error))?;
            let same = file.try_clone();
            run.place = Place::Nameless(
                same.map_err(|error| StoreError::io(Doing::Create, &run.path, error))?,
            );
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

    /// Appends hashes, none smaller than those before.
    pub(super) fn push(&mut self, mut hashes: &[u64]) -> Result<(), StoreError> {
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

    /// The run, all of it handed to the system; with `sync`, all of it on the disk.
    pub(super) fn finish(mut self, sync: bool) -> Result<Run, StoreError> {
        if !self.block.is_empty() {
            self.flush_block()?;
        }
        self.write()?;
        debug_assert_eq!(self.items, self.run.header.items);
        if sync {
            let synced = self.file.sync_all();
            synced.map_err(|error| StoreError::io(Doing::Sync, &self.run.path, error))?;
        }
        Ok(self.run)
    }

    fn flush_block(&mut self) -> Result<(), StoreError> {
        let block = core::mem::take(&mut self.block);
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
        written.map_err(|error| StoreError::io(Doing::Write, &self.run.path, error))?;
        self.bytes.clear();
        Ok(())
    }
}

/// A run that is being read, from its begin to its end.
#[derive(Debug)]
pub(super) struct RunReader<'a> {
    run: &'a Run,
    file: Handle<'a>,
    /// The byte that is read next.
    at: u64,
    seed: u64,
    /// Blocks that were read.
    blocks: u64,
    /// Hashes that were not.
    unread: u64,
    /// The last hash that was read.
    last: u64,
    /// `buffer[start..end]` was read and not taken yet.
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
    /// From the begin, with room for `capacity` hashes.
    pub(super) fn open(run: &'a Run, capacity: usize) -> Result<Self, StoreError> {
        let io = |error| StoreError::io(Doing::Open, &run.path, error);
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

    /// Hashes that were not taken yet, read or not.
    pub(super) fn remaining(&self) -> u64 {
        self.unread + (self.end - self.start) as u64
    }

    /// Hashes that were read and not taken yet.
    pub(super) fn buffered(&self) -> &[u64] {
        &self.buffer[self.start..self.end]
    }

    /// The most hashes that [`RunReader::fill`] makes sure of.
    pub(super) fn reach(&self) -> usize {
        self.buffer.len().saturating_sub(BLOCK_ITEMS)
    }

    /// Takes the first `count` of [`RunReader::buffered`] out.
    pub(super) fn take(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.end);
    }

    /// Makes sure that `wanted` hashes are buffered, or all that remain; `wanted` is at most
    /// [`RunReader::reach`]. Reads as much as there is room for, in pieces of `bytes`, when it reads.
    pub(super) fn fill(&mut self, wanted: usize, bytes: &mut [u8]) -> Result<(), StoreError> {
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

    /// One block into the buffer.
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
                Err(error) => return Err(StoreError::io(Doing::Read, &self.run.path, error)),
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

/// Reads without asking the file where it stands: a nameless one is shared by all its readers.
#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, bytes, at)
}

/// There are no nameless files here, so whoever reads has opened the file for itself.
#[cfg(not(unix))]
fn read_at(mut file: &File, bytes: &mut [u8], _: u64) -> io::Result<usize> {
    io::Read::read(&mut file, bytes)
}

/// Whether `hashes` never decrease, and the first is not below `last`.
fn ascends(last: u64, hashes: &[u64]) -> bool {
    // Without leaving early: the loop is over a page, and compiles to vectors this way.
    let pairs = hashes.iter().zip(hashes.iter().skip(1));
    let falls = pairs.fold(false, |falls, (before, after)| falls | (after < before));
    !falls && hashes.first().is_none_or(|&first| first >= last)
}

/// A checksum against accidents. Eight lanes, each a chain of bijections, so that one changed word is always
/// found; 0.4 ns a hash, where the fingerprint of other files takes 1.3.
fn checksum(seed: u64, block: u64, hashes: &[u64]) -> u64 {
    // Odd, with bits all over: the golden ratio, and the multiplier of PCG.
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    const FACTOR: u64 = 0x5851_f42d_4c95_7f2d;
    let first = seed.wrapping_add(block.wrapping_mul(STEP));
    let mut lanes: [u64; 8] =
        core::array::from_fn(|lane| first.rotate_left(lane as u32 * 8) ^ lane as u64);
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
    fn with_room_for_a_whole_run_all_of_it_is_read_at_once_and_in_no_more_room() {
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
                let words = block.iter().chain(core::iter::once(&sum));
                bytes.extend(words.flat_map(|word| word.to_le_bytes()));
            }
            let run = Run::in_memory(PathBuf::new(), bytes, header).expect("a run");
            let mut reader = RunReader::open(&run, whole_capacity(items)).expect("the same");
            assert_eq!(reader.reach() as u64, items);
            let mut chunk = vec![0; whole_chunk(items)];
            assert!(chunk.len() as u64 <= (items * 8).max(1).next_multiple_of(4096) + 4096);
            reader.fill(reader.reach(), &mut chunk).expect("all of it");
            assert_eq!(reader.buffered(), hashes, "{items}");
        }
    }
}
