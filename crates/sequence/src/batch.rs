//! [`Batch`]: the elements of one reading, sorted, and on disk if there are many.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use nutfilter::segment::element_hash;
use nutfilter_cashu::state_filters::Element;

use crate::error::{Error, at};
use crate::known::slice_ends;

const ELEMENT_BYTES: u64 = size_of::<Element>() as u64;

/// The start of the names of temporary files.
pub(crate) const SPILL: &str = "spill-";

/// Elements for a [`Sequence`](crate::Sequence). Dropping it discards them.
#[derive(Debug)]
pub struct Batch {
    directory: PathBuf,
    /// The number of elements that are kept in memory.
    limit: usize,
    elements: Vec<Element>,
    spills: Vec<Spill>,
}

impl Batch {
    pub(crate) fn new(directory: PathBuf, limit: usize) -> Self {
        Self {
            directory,
            limit,
            elements: Vec::new(),
            spills: Vec::new(),
        }
    }

    /// Adds elements in any order. An element may be added several times.
    ///
    /// # Errors
    ///
    /// More elements than the memory limit are in the batch, and the disk is full.
    pub fn push(&mut self, elements: &[Element]) -> Result<(), Error> {
        for part in elements.chunks(self.limit) {
            self.elements.extend_from_slice(part);
            if self.elements.len() >= self.limit {
                self.elements.sort_unstable();
                self.spills
                    .push(Spill::write(&self.directory, &self.elements)?);
                self.elements.clear();
            }
        }
        Ok(())
    }

    /// Passes the elements to `visit` in order and in pieces. Equal elements are in one piece.
    pub(crate) fn for_each_piece(
        mut self,
        mut visit: impl FnMut(&mut Vec<Element>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.elements.sort_unstable();
        let mut rest = self.elements.as_slice();
        let mut readers = vec![];
        for spill in &self.spills {
            readers.push(SpillReader::new(spill)?);
        }
        let spilled: u64 = self.spills.iter().map(|spill| spill.n).sum();
        let mut piece = Vec::new();
        for last in slice_ends(spilled + rest.len() as u64) {
            piece.clear();
            let (taken, after) =
                rest.split_at(rest.partition_point(|element| element_hash(element) <= last));
            piece.extend_from_slice(taken);
            rest = after;
            for reader in &mut readers {
                reader.take_until(last, &mut piece)?;
            }
            piece.sort();
            visit(&mut piece)?;
        }
        Ok(())
    }
}

/// A temporary file of sorted elements.
#[derive(Debug)]
struct Spill {
    path: PathBuf,
    n: u64,
}

impl Spill {
    fn write(directory: &std::path::Path, sorted: &[Element]) -> Result<Self, Error> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let spill = Self {
            path: directory.join(format!("{SPILL}{number}")),
            n: sorted.len() as u64,
        };
        let write = || {
            let mut file = BufWriter::new(File::create(&spill.path)?);
            file.write_all(sorted.as_flattened())?;
            file.flush()
        };
        write().map_err(at(&spill.path))?;
        Ok(spill)
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        // What is left is removed at the next start.
        let _ = fs::remove_file(&self.path);
    }
}

struct SpillReader<'a> {
    spill: &'a Spill,
    file: BufReader<File>,
    left: u64,
    next: Option<Element>,
}

impl<'a> SpillReader<'a> {
    fn new(spill: &'a Spill) -> Result<Self, Error> {
        let file = File::open(&spill.path).map_err(at(&spill.path))?;
        let mut reader = Self {
            spill,
            file: BufReader::with_capacity(1 << 10 << ELEMENT_BYTES.ilog2(), file),
            left: spill.n,
            next: None,
        };
        reader.step()?;
        Ok(reader)
    }

    fn step(&mut self) -> Result<(), Error> {
        self.next = None;
        if let Some(left) = self.left.checked_sub(1) {
            let mut element = [0; 32];
            let read = self.file.read_exact(&mut element);
            read.map_err(at(&self.spill.path))?;
            self.left = left;
            self.next = Some(element);
        }
        Ok(())
    }

    fn take_until(&mut self, last: u64, into: &mut Vec<Element>) -> Result<(), Error> {
        while let Some(element) = self.next
            && element_hash(&element) <= last
        {
            into.push(element);
            self.step()?;
        }
        Ok(())
    }
}
