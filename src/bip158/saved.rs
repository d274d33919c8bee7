//! The bytes of a [`ScanPlan`](super::ScanPlan) and of a `HeaderChain`, for a client that stops and goes on later.
//!
//! Each part begins with eight bytes that name its content and version, and ends with eight bytes that are SipHash-2-4 with a
//! key of zeros over all before. Numbers are little-endian.

use alloc::vec::Vec;

use crate::error::error_texts;
use crate::hash::{ItemHash as _, SipHash};

/// Why bytes cannot be read back.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SavedError {
    /// They are something else, or of another version.
    NotThis,
    /// The last part is not whole, as after a crash while it was written. What comes before is.
    Torn {
        /// The number of bytes that are whole.
        whole: usize,
    },
    /// A byte is not as it was written.
    Damaged,
    /// A part with headers does not follow the one before.
    NotConnected {
        /// The height of its first header.
        height: u32,
    },
}

error_texts!(SavedError {
    Self::NotThis => "unknown format or version";
    Self::Torn { whole } => "the last part is truncated; the first {whole} bytes are complete";
    Self::Damaged => "damaged: checksum mismatch";
    Self::NotConnected { height } => "the headers from height {height} on do not follow those before";
});

const SUM: usize = 8;

fn sum(bytes: &[u8]) -> [u8; SUM] {
    SipHash::new(0, 0).hash(bytes).to_le_bytes()
}

/// One part.
pub(super) struct SavedWriter(Vec<u8>);

impl SavedWriter {
    pub(super) fn new(name: &[u8; 8]) -> Self {
        Self(name.to_vec())
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// A number below 2^32.
    pub(super) fn number(&mut self, number: impl TryInto<u32>) {
        let number = number.try_into().unwrap_or(u32::MAX);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub(super) fn string(&mut self, bytes: &[u8]) {
        self.number(bytes.len());
        self.bytes(bytes);
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        let sum = sum(&self.0);
        self.0.extend_from_slice(&sum);
        self.0
    }
}

/// What is left of the parts.
pub(super) struct SavedReader<'b> {
    all: &'b [u8],
    start: usize,
    at: usize,
}

impl<'b> SavedReader<'b> {
    pub(super) fn new(all: &'b [u8]) -> Self {
        let (start, at) = (0, 0);
        Self { all, start, at }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.at == self.all.len()
    }

    /// Begins a part.
    pub(super) fn begin(&mut self, name: &[u8; 8]) -> Result<(), SavedError> {
        self.start = self.at;
        let found = self.bytes(name.len())?;
        (found == name).then_some(()).ok_or(SavedError::NotThis)
    }

    pub(super) fn bytes(&mut self, count: usize) -> Result<&'b [u8], SavedError> {
        let end = self.at.checked_add(count);
        let found = end.and_then(|end| self.all.get(self.at..end));
        let whole = self.start;
        let found = found.ok_or(SavedError::Torn { whole })?;
        self.at += count;
        Ok(found)
    }

    pub(super) fn number(&mut self) -> Result<u32, SavedError> {
        let bytes = self.bytes(4)?.first_chunk().copied();
        Ok(u32::from_le_bytes(bytes.unwrap_or_default()))
    }

    pub(super) fn string(&mut self) -> Result<&'b [u8], SavedError> {
        let len = self.number()?;
        self.bytes(len as usize)
    }

    /// Ends a part.
    pub(super) fn finish(&mut self) -> Result<(), SavedError> {
        let part = &self.all[self.start..self.at];
        let is_good = self.bytes(SUM)? == sum(part);
        is_good.then_some(()).ok_or(SavedError::Damaged)
    }
}
