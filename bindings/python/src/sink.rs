//! [`Sink`]: hashes or copies items, whatever kind of object they come from.

use std::num::NonZeroUsize;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::profile::Profile;

/// What becomes of items.
pub(crate) enum Made<'m> {
    Hashes(Profile, &'m mut Vec<u64>),
    Copies(&'m mut Vec<Vec<u8>>),
}

/// Takes items, in their order.
pub(crate) struct Sink<'m> {
    /// The bytes that each must have.
    pub(crate) width: Option<usize>,
    pub(crate) made: Made<'m>,
}

impl Sink<'_> {
    /// The number of items so far.
    pub(crate) fn len(&self) -> usize {
        match &self.made {
            Made::Hashes(_, hashes) => hashes.len(),
            Made::Copies(copies) => copies.len(),
        }
    }

    pub(crate) fn items(&mut self, items: &[&[u8]]) -> PyResult<()> {
        let wrong = |width| items.iter().position(|item| item.len() != width);
        if let Some((width, at)) = self.width.and_then(|width| Some((width, wrong(width)?))) {
            return Err(PyValueError::new_err(format!(
                "item {} has {} bytes, and record_bytes is {width}",
                self.len() + at,
                items[at].len()
            )));
        }
        match &mut self.made {
            Made::Hashes(profile, hashes) => profile.hash_items(items, hashes),
            Made::Copies(copies) => {
                copies.extend(items.iter().map(|item| item.to_vec()));
                Ok(())
            }
        }
    }

    /// Records of `width` bytes, one after another.
    pub(crate) fn records(&mut self, records: &[u8], width: NonZeroUsize) -> PyResult<()> {
        match &mut self.made {
            Made::Hashes(profile, hashes) if self.width.is_none_or(|all| all == width.get()) => {
                profile.hash_records(records, width, hashes)
            }
            _ => self.items(&records.chunks_exact(width.get()).collect::<Vec<_>>()),
        }
    }
}
