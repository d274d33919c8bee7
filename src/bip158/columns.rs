//! Scripts, laid out for a hash function that hashes eight of them at once.

use alloc::vec::Vec;

use crate::arch::SimdLevel;
use crate::hash::{self, COLUMN, Column, SipHash};

/// The number of groups of eight scripts per batch of hashes.
const BATCH: usize = 64;

/// The number of scripts per batch. Their hashes stay in the first-level cache.
const BATCH_SCRIPTS: usize = BATCH * COLUMN;

/// Scripts that have an equal number of words when they are hashed. Their lengths differ by at most seven bytes.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    /// The number of words of each script, at least 1.
    words: usize,
    /// The number of scripts.
    len: usize,
    /// `words` columns for each eight scripts. The unused places of the last group mean nothing.
    columns: Vec<Column>,
    /// The bytes of the same words, script after script.
    rows: Vec<u8>,
}

impl Columns {
    /// Columns for scripts of `words` words.
    pub(super) fn new(words: usize) -> Self {
        Self { words, len: 0, columns: Vec::new(), rows: Vec::new() }
    }

    pub(super) fn words(&self) -> usize {
        self.words
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push(&mut self, script: &[u8]) {
        let (group, lane) = (self.len / COLUMN, self.len % COLUMN);
        self.columns.resize((group + 1) * self.words, [0; COLUMN]);
        let columns = &mut self.columns[group * self.words..];
        for (column, word) in columns.iter_mut().zip(hash::words(script)) {
            column[lane] = word;
            self.rows.extend_from_slice(&word.to_le_bytes());
        }
        self.len += 1;
    }

    /// Removes the script at `place`. The last script takes its place.
    pub(super) fn swap_remove(&mut self, place: usize) {
        let last = self.len - 1;
        for word in 0..self.words {
            let moved = self.columns[last / COLUMN * self.words + word][last % COLUMN];
            self.columns[place / COLUMN * self.words + word][place % COLUMN] = moved;
        }
        self.len = last;
        self.columns.truncate(last.div_ceil(COLUMN) * self.words);
        let width = self.words * 8;
        self.rows.copy_within(last * width.., place * width);
        self.rows.truncate(last * width);
    }

    /// The script at `place`.
    pub(super) fn script(&self, place: usize) -> &[u8] {
        let row = &self.rows[place * self.words * 8..][..self.words * 8];
        // The last word holds up to seven bytes of the script and, in its top byte, the length modulo 256.
        let rest = row.last().map_or(0, |length| length % 8);
        &row[..row.len() - 8 + usize::from(rest)]
    }

    /// All scripts.
    pub(super) fn scripts(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len).map(|place| self.script(place))
    }

    /// The words of the scripts, script after script.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn rows(&self) -> &[u8] {
        &self.rows
    }

    /// Calls `each` with the place of the first script of each batch and the hashes of the batch, until `each`
    /// returns false. Returns whether it never did.
    pub(super) fn each_batch(
        &self,
        level: SimdLevel,
        hasher: SipHash,
        mut each: impl FnMut(usize, &mut [u64]) -> bool,
    ) -> bool {
        let mut hashes = [[0; COLUMN]; BATCH];
        let batches = self.columns.chunks(BATCH * self.words);
        for (start, columns) in (0..).step_by(BATCH_SCRIPTS).zip(batches) {
            let hashes = &mut hashes[..columns.len() / self.words];
            hasher.hash_columns(level, columns, self.words, hashes);
            let hashes = hashes.as_flattened_mut();
            let count = hashes.len().min(self.len - start);
            if !each(start, &mut hashes[..count]) {
                return false;
            }
        }
        true
    }
}
