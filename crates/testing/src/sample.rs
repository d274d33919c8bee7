//! The SQLite database of a CDK mint, full of generated notes, for demonstrations and measurements.
//!
//! The tables, the relevant indexes and the row widths are those of a real mint. So reading the sample costs as
//! much as reading a real database. The notes are not curve points, because a filter only hashes bytes.

use std::fs::File;
use std::io;
use std::path::Path;

use nutfilter_cashu::{KeysetId, NoteKind};
use rusqlite::types::Value;
use rusqlite::{Connection, Transaction, params};

use crate::tables;

/// Number of notes that are generated, sorted and inserted at a time. They are sorted by primary key, so that its
/// index grows only at one end.
const CHUNK: usize = 1 << 20;

/// A sample database to be written.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The keyset of its notes.
    pub keyset: KeysetId,
    /// The number of spent notes.
    pub spent: u64,
    /// The number of issued notes.
    pub issued: u64,
}

impl Sample {
    /// Creates a sample with this many notes of each kind.
    #[must_use]
    pub fn new(spent: u64, issued: u64) -> Self {
        let keyset = KeysetId::parse("00deadbeefc0ffee").expect("16 hex digits beginning 00");
        Self { keyset, spent, issued }
    }

    /// Note `index` of a kind. Indexes from [`Sample::spent`] or [`Sample::issued`] on are notes that the database
    /// does not contain.
    #[must_use]
    pub fn note(&self, kind: NoteKind, index: u64) -> Vec<u8> {
        let stream = match kind {
            NoteKind::Spent => 1,
            NoteKind::Issued => 2,
        };
        point(stream, index).to_vec()
    }

    /// Number of notes of a kind in the database.
    #[must_use]
    pub fn count(&self, kind: NoteKind) -> u64 {
        match kind {
            NoteKind::Spent => self.spent,
            NoteKind::Issued => self.issued,
        }
    }

    /// Writes the database to a path that does not exist yet. The result looks like that of a stopped mint: in WAL
    /// mode and closed.
    ///
    /// # Errors
    ///
    /// If the path exists, since it may be a mint's database, or if SQLite fails. A partly written file is left there.
    ///
    /// # Cost
    ///
    /// About 5 s and 550 MiB of disk per million notes of each kind. Nothing is synced, because a sample can be
    /// written again after a power failure.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        File::create_new(path)?;
        self.fill(path).map_err(io::Error::other)
    }

    fn fill(&self, path: &Path) -> rusqlite::Result<()> {
        let mut connection = Connection::open(path)?;
        connection.execute_batch(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -131072;",
        )?;
        let transaction = connection.transaction()?;
        transaction.execute_batch(&tables::create())?;
        transaction.execute(tables::INSERT_KEYSET, [self.keyset.as_str()])?;
        for kind in NoteKind::ALL {
            self.insert(&transaction, kind)?;
        }
        transaction.execute_batch(tables::INDEX)?;
        transaction.commit()?;
        connection.execute_batch("PRAGMA journal_mode = WAL;")?;
        connection.close().map_err(|(_, error)| error)
    }

    /// Inserts the notes of a kind.
    fn insert(&self, transaction: &Transaction<'_>, kind: NoteKind) -> rusqlite::Result<()> {
        let mut statement = transaction.prepare(tables::insert_note(kind))?;
        // Bound once: a new string per row would cost as much as the row.
        let keyset = Value::from(self.keyset.as_str().to_owned());
        for start in (0..self.count(kind)).step_by(CHUNK) {
            let chunk = start..self.count(kind).min(start + CHUNK as u64);
            let mut notes: Vec<_> = chunk.map(|index| self.note(kind, index)).collect();
            notes.sort_unstable();
            for note in notes {
                // A power of two.
                let amount = 1_i64 << (note[note.len() - 1] & 7);
                let secret = const_hex::encode(&note[1..]);
                statement.execute(params![note, amount, keyset, secret])?;
            }
        }
        Ok(())
    }
}

/// Bytes that look like a compressed point, different for each index of a stream.
fn point(stream: u64, index: u64) -> [u8; 33] {
    let mut bytes = [0; 33];
    let start = mix(1) ^ mix(stream << 32);
    for (i, word) in bytes[1..].chunks_mut(8).enumerate() {
        let counter = index.wrapping_mul(4).wrapping_add(i as u64);
        word.copy_from_slice(&mix(start.wrapping_add(counter)).to_be_bytes());
    }
    bytes[0] = 2 | (bytes[32] & 1);
    bytes
}

/// The output function of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014)
/// after one step of its counter. It is a bijection, so different counters give different words.
fn mix(counter: u64) -> u64 {
    let mut z = counter.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nutfilter_cashu::PointKind;
    use std::collections::HashSet;

    #[test]
    fn all_notes_of_both_kinds_differ() {
        let sample = Sample::new(1000, 1000);
        let of = |kind| (0..10_000).map(move |index| (kind, index));
        let all = NoteKind::ALL.into_iter().flat_map(of);
        let notes: HashSet<_> = all.map(|(kind, index)| sample.note(kind, index)).collect();
        assert_eq!(notes.len(), 20_000);
        assert!(notes.iter().all(|note| PointKind::of(note).is_some()));
    }

    #[test]
    fn existing_file_is_not_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mint.sqlite");
        std::fs::write(&path, "precious").unwrap();
        let error = Sample::new(1, 1).write(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn stopped_mint_leaves_one_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mint.sqlite");
        Sample::new(20_000, 3).write(&path).unwrap();
        let files = std::fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(files, 1, "a stopped mint leaves the database alone");
    }
}
