//! Errors of a store, of its disk, and of the output of a filter.

use std::io;
use std::path::{Path, PathBuf};

use crate::{MAX_METADATA_BYTES, MIN_MEMORY};
use nutfilter::BuildError;

/// A store cannot be read or written, or a filter cannot be made from it.
///
/// Data that was committed before the error remains. The exception is [`Damaged`](StoreErrorKind::Damaged):
/// then data was already lost.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct StoreError(pub(crate) Fault);

/// The class of a [`StoreError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The system failed to create, read, write or remove a file of the store. [`StoreError::path`] gives the
    /// file, [`StoreError::io_error`] the reason.
    Io,
    /// The writer of the filter failed. [`StoreError::io_error`] gives the reason.
    Output,
    /// A file is truncated, changed, or not of this format.
    Damaged,
    /// The directory for a new store already contains one.
    Exists,
    /// The store is open in another process or as another value of this process.
    InUse,
    /// The hashes of the store have another hasher, key or label.
    OtherSet,
    /// There are more than 2^32 - 1 items.
    TooManyItems,
    /// The limit is below [`MIN_MEMORY`], or the machine has less memory than the limit allows.
    Memory,
    /// The bytes are not a whole number of records.
    RecordLength,
    /// The batch lost items in an earlier error and cannot be committed.
    Abandoned,
    /// The metadata has more than [`MAX_METADATA_BYTES`](crate::MAX_METADATA_BYTES).
    LongMetadata,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("{path}: cannot {doing}: {error}")]
    Io {
        doing: &'static str,
        path: PathBuf,
        #[source]
        error: io::Error,
    },
    #[error("cannot write the filter beyond byte {written}: {error}")]
    Output {
        written: u64,
        #[source]
        error: io::Error,
    },
    #[error("{path}: {damage}")]
    Damaged { path: PathBuf, damage: Damage },
    #[error("{path}: is a store already")]
    Exists { path: PathBuf },
    #[error("{path}: the store is in use elsewhere")]
    InUse { path: PathBuf },
    #[error("{path}: holds the hashes of another set (hasher, key or label differ)")]
    OtherSet { path: PathBuf },
    #[error("{n} items are more than one filter holds ({limit})")]
    TooManyItems { n: u64, limit: u64 },
    #[error("a limit of {memory} bytes of memory is too low: a store needs at least {MIN_MEMORY}")]
    TooLittleMemory { memory: usize },
    #[error("could not allocate the {bytes} bytes that the memory limit allows")]
    OutOfMemory { bytes: usize },
    #[error("{len} bytes are not a multiple of the record size {record_bytes}")]
    RecordLength { len: usize, record_bytes: usize },
    #[error("an earlier error left the batch without some of its items, so it cannot be committed")]
    Abandoned,
    #[error(
        "metadata of {bytes} bytes is too long; a commit takes at most {MAX_METADATA_BYTES} bytes"
    )]
    LongMetadata { bytes: usize },
    /// Hashes are out of order. Every run is verified first, so this is not known to occur.
    #[error("the runs do not merge: {0}")]
    Encoder(BuildError),
}

/// How a file is damaged.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(crate) enum Damage {
    #[error("is not a file of a store")]
    NoMagic,
    #[error("is of version {version}, which this build does not know")]
    Version { version: u32 },
    #[error("the header is damaged: checksum {stored:016x} is stored, {computed:016x} computed")]
    Header { stored: u64, computed: u64 },
    #[error("holds run {id:x}, where run {wanted:x} should be")]
    OtherRun { id: u64, wanted: u64 },
    #[error("is {len} bytes long, where a run of {hashes} hashes takes {needed}")]
    Length { len: u64, hashes: u64, needed: u64 },
    #[error("holds {hashes} hashes, where the store lists {listed}")]
    Items { hashes: u64, listed: u64 },
    #[error("ends at byte {at}, where {needed} were there before")]
    Cut { at: u64, needed: u64 },
    #[error("block {block} is damaged: checksum {stored:016x} is stored, {computed:016x} computed")]
    Block {
        block: u64,
        stored: u64,
        computed: u64,
    },
    #[error("block {block} holds a hash that is smaller than the one before it")]
    Unsorted { block: u64 },
    #[error("line {line} is not what a store writes there")]
    Manifest { line: u64 },
    #[error("the list of runs is damaged or cut: its checksum is not that of its lines")]
    ManifestChecksum,
}

impl From<BuildError> for StoreError {
    fn from(error: BuildError) -> Self {
        Self(Fault::Encoder(error))
    }
}

impl StoreError {
    pub(crate) fn io(doing: &'static str, path: &Path, error: io::Error) -> Self {
        Self(Fault::Io {
            doing,
            path: path.to_owned(),
            error,
        })
    }

    pub(crate) fn damaged(path: &Path, damage: Damage) -> Self {
        Self(Fault::Damaged {
            path: path.to_owned(),
            damage,
        })
    }

    /// The class of the fault.
    #[must_use]
    pub fn kind(&self) -> StoreErrorKind {
        match self.0 {
            Fault::Io { .. } => StoreErrorKind::Io,
            Fault::Output { .. } => StoreErrorKind::Output,
            Fault::Damaged { .. } => StoreErrorKind::Damaged,
            Fault::Exists { .. } => StoreErrorKind::Exists,
            Fault::InUse { .. } => StoreErrorKind::InUse,
            Fault::OtherSet { .. } => StoreErrorKind::OtherSet,
            Fault::TooManyItems { .. } => StoreErrorKind::TooManyItems,
            Fault::TooLittleMemory { .. } | Fault::OutOfMemory { .. } => StoreErrorKind::Memory,
            Fault::RecordLength { .. } => StoreErrorKind::RecordLength,
            Fault::Abandoned => StoreErrorKind::Abandoned,
            Fault::LongMetadata { .. } => StoreErrorKind::LongMetadata,
            Fault::Encoder(_) => StoreErrorKind::Damaged,
        }
    }

    /// The file or directory of the store that the error concerns, if any.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match &self.0 {
            Fault::Io { path, .. }
            | Fault::Damaged { path, .. }
            | Fault::Exists { path }
            | Fault::InUse { path }
            | Fault::OtherSet { path } => Some(path),
            _ => None,
        }
    }

    /// The error of the system or the writer, for [`Io`](StoreErrorKind::Io) and
    /// [`Output`](StoreErrorKind::Output).
    #[must_use]
    pub fn io_error(&self) -> Option<&io::Error> {
        match &self.0 {
            Fault::Io { error, .. } | Fault::Output { error, .. } => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error;

    use nutfilter::{Nut25, SortedHashes};

    #[test]
    fn errors_name_the_file_and_carry_their_numbers() {
        let path = || PathBuf::from("the/file");
        let error = || io::Error::other("the reason");
        let (doing, written) = ("sync", 7001);
        let (memory, bytes) = (7002, 7003);
        let unsorted = SortedHashes::builder(Nut25).sorted(vec![2, 1]).unwrap_err();
        let faults: [(Fault, &[&str]); 12] = [
            (
                Fault::Io {
                    doing,
                    path: path(),
                    error: error(),
                },
                &["the/file: ", "sync", "the reason"],
            ),
            (
                Fault::Output {
                    written,
                    error: error(),
                },
                &["7001", "the reason"],
            ),
            (
                Fault::Damaged {
                    path: path(),
                    damage: Damage::NoMagic,
                },
                &["the/file: is not a file of a store"],
            ),
            (Fault::Exists { path: path() }, &["the/file", "already"]),
            (Fault::InUse { path: path() }, &["the/file", "in use"]),
            (
                Fault::OtherSet { path: path() },
                &["the/file", "another set"],
            ),
            (
                Fault::TooManyItems {
                    n: 7004,
                    limit: 7005,
                },
                &["7004 items", "7005"],
            ),
            (Fault::TooLittleMemory { memory }, &["7002", "262144"]),
            (Fault::OutOfMemory { bytes }, &["7003 bytes"]),
            (
                Fault::LongMetadata { bytes: 70_004 },
                &["70004 bytes", "65536"],
            ),
            (
                Fault::RecordLength {
                    len: 7006,
                    record_bytes: 33,
                },
                &["7006 bytes", "record size 33"],
            ),
            (Fault::Encoder(unsorted), &["value 1 "]),
        ];
        for (fault, words) in faults {
            let error = StoreError(fault);
            let text = error.to_string();
            for word in words {
                assert!(text.contains(word), "{word} is not in: {text}");
            }
            assert_eq!(error.path().is_some(), text.contains("the/file"), "{text}");
            assert_eq!(
                error.source().is_some(),
                text.contains("the reason"),
                "{text}"
            );
        }
    }

    #[test]
    fn damage_errors_carry_their_numbers() {
        let (stored, computed) = (0xabc, 0xdef);
        let sums = ["0000000000000abc", "0000000000000def"];
        let (len, hashes, needed, listed) = (7001, 7002, 7003, 7004);
        let damages: [(Damage, &[&str]); 11] = [
            (Damage::NoMagic, &["store"]),
            (Damage::Version { version: 7 }, &["version 7"]),
            (Damage::Header { stored, computed }, &sums),
            (
                Damage::OtherRun {
                    id: 0xa,
                    wanted: 0xb,
                },
                &["run a", "run b"],
            ),
            (
                Damage::Length {
                    len,
                    hashes,
                    needed,
                },
                &["7001", "7002", "7003"],
            ),
            (Damage::Items { hashes, listed }, &["7002", "7004"]),
            (Damage::Cut { at: 7005, needed }, &["7005", "7003"]),
            (
                Damage::Block {
                    block: 7006,
                    stored,
                    computed,
                },
                &["7006", sums[0], sums[1]],
            ),
            (Damage::Unsorted { block: 7007 }, &["7007"]),
            (Damage::Manifest { line: 7008 }, &["line 7008"]),
            (Damage::ManifestChecksum, &["checksum"]),
        ];
        for (damage, words) in damages {
            let text = damage.to_string();
            for word in words {
                assert!(text.contains(word), "{word} is not in: {text}");
            }
        }
    }
}
